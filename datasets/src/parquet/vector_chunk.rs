//! [`VectorChunk`]: vectors of f32 on their way into a row group.
//!
//! Arrow's encoder finds out for each component on which level of nesting it stands and lists the positions of those that
//! are there. All vectors of a column have one length, so where none is null the levels are known beforehand, and the
//! components are stored as they lie.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use arrow_array::{Array, ArrayRef, FixedSizeListArray};
use arrow_schema::{DataType, Field};
use bytes::Bytes;
use parquet::basic::Type;
use parquet::column::page::{CompressedPage, PageWriteSpec, PageWriter};
use parquet::column::writer::ColumnWriterImpl;
use parquet::data_type::FloatType;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::{SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite};
use parquet::schema::types::{ColumnDescPtr, ColumnDescriptor};

use crate::publish::NewFile;

/// Components whose levels are in memory at once.
const PIECE_COMPONENTS: usize = 1 << 18;

/// The vectors of a row group.
pub(super) struct VectorChunk {
    writer: ColumnWriterImpl<'static, FloatType>,
    pages: Pages,
    component_count: usize,
    /// The definition level of a component that is there.
    level_max: i16,
    /// Levels of vectors without nulls, for the components of a piece.
    full: Levels,
}

/// Where components stand in their vectors.
#[derive(Debug, Default)]
struct Levels {
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

/// Written pages, one after the other, which the writer of the column and its owner share.
#[derive(Debug, Clone)]
struct Pages(Arc<Mutex<Vec<u8>>>);

/// Takes pages into memory.
struct PagesWriter(TrackedWrite<Pages>);

/// Tells whether the values of `field`, stored in `column`, are vectors of f32 of one length.
pub(super) fn is_vectors(field: &Field, column: &ColumnDescriptor) -> bool {
    let is_vector = matches!(field.data_type(), DataType::FixedSizeList(item, length)
        if *length > 0 && *item.data_type() == DataType::Float32);
    is_vector && column.physical_type() == Type::FLOAT && column.max_rep_level() == 1
}

impl VectorChunk {
    /// Begins a chunk of `column`, whose pages go into `memory`.
    pub(super) fn new(
        column: ColumnDescPtr,
        properties: &WriterPropertiesPtr,
        mut memory: Vec<u8>,
    ) -> Self {
        memory.clear();
        let pages = Pages(Arc::new(Mutex::new(memory)));
        let level_max = column.max_def_level();
        let into_memory = PagesWriter(TrackedWrite::new(pages.clone()));
        let writer = ColumnWriterImpl::new(column, Arc::clone(properties), Box::new(into_memory));
        Self { writer, pages, component_count: 0, level_max, full: Levels::default() }
    }

    /// Returns the bytes of the components; levels take next to nothing.
    pub(super) const fn bytes(&self) -> usize {
        self.component_count * size_of::<f32>()
    }

    /// Appends vectors.
    ///
    /// # Panics
    /// When `array` is not of the field's type.
    pub(super) fn push(&mut self, array: &ArrayRef) -> Result<(), ParquetError> {
        let vectors = array.as_fixed_size_list();
        let dim = vectors.value_length() as usize;
        let piece_rows = (PIECE_COMPONENTS / dim).max(1);
        for first in (0..vectors.len()).step_by(piece_rows) {
            let piece = vectors.slice(first, piece_rows.min(vectors.len() - first));
            if piece.null_count() == 0 && piece.values().null_count() == 0 {
                self.push_full(&piece, dim)?;
            } else {
                self.push_with_nulls(&piece, dim)?;
            }
            self.component_count += piece.len() * dim;
        }
        Ok(())
    }

    fn push_full(&mut self, vectors: &FixedSizeListArray, dim: usize) -> Result<(), ParquetError> {
        let components = vectors.values().as_primitive::<Float32Type>().values();
        while self.full.definition.len() < components.len() {
            self.full.push_vector(dim, |_| self.level_max);
        }
        let Levels { definition, repetition } = &self.full;
        let count = components.len();
        self.writer.write_batch(
            components,
            Some(&definition[..count]),
            Some(&repetition[..count]),
        )?;
        Ok(())
    }

    fn push_with_nulls(
        &mut self,
        vectors: &FixedSizeListArray,
        dim: usize,
    ) -> Result<(), ParquetError> {
        let (mut levels, mut components) = (Levels::default(), Vec::new());
        for row in 0..vectors.len() {
            if vectors.is_null(row) {
                levels.push_null();
                continue;
            }
            let vector = vectors.value(row);
            let vector = vector.as_primitive::<Float32Type>();
            levels.push_vector(dim, |at| self.level_max - i16::from(vector.is_null(at)));
            components.extend(vector.iter().flatten());
        }
        let Levels { definition, repetition } = levels;
        self.writer.write_batch(&components, Some(&definition), Some(&repetition))?;
        Ok(())
    }

    /// Appends the column to its row group; returns the memory of its pages.
    pub(super) fn append_to(
        self,
        group: &mut SerializedRowGroupWriter<'_, NewFile>,
    ) -> Result<Vec<u8>, ParquetError> {
        let written = self.writer.close()?;
        let pages = Bytes::from(self.pages.with(std::mem::take));
        group.append_column(&pages, written)?;
        Ok(pages.into())
    }
}

impl Levels {
    /// Appends a vector, whose components have these definition levels.
    fn push_vector(&mut self, dim: usize, definition: impl Fn(usize) -> i16) {
        self.definition.extend((0..dim).map(definition));
        self.repetition.extend((0..dim).map(|at| i16::from(at > 0)));
    }

    /// Appends a vector that is not there.
    fn push_null(&mut self) {
        self.definition.push(0);
        self.repetition.push(0);
    }
}

impl Pages {
    fn with<T>(&self, act: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Pages {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with(|pages| pages.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl PageWriter for PagesWriter {
    fn write_page(&mut self, page: CompressedPage) -> Result<PageWriteSpec, ParquetError> {
        SerializedPageWriter::new(&mut self.0).write_page(page)
    }

    fn close(&mut self) -> Result<(), ParquetError> {
        Ok(self.0.flush()?)
    }
}

//! [`PlainVectors`]: vectors that are stored as they are, read without a decoder.
//!
//! A page of f32 in Parquet's plain encoding is its levels and then its components. Where the levels
//! say that no vector and no component is null and that all vectors have the same length, the
//! components are what is wanted. Anything else is [`NotPlain`] and left to the decoder, which also
//! knows what to say about it.

use std::fs::File;
use std::sync::Arc;

use arrow_array::{ArrayRef, FixedSizeListArray, Float32Array, LargeListArray, ListArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;
use bytes::{Buf, Bytes};
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::basic::{Encoding, Type};
use parquet::column::page::{Page, PageReader};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::reader::SerializedPageReader;

use super::levels::{EvenRows, are_all};
use super::pages::PageSource;
use crate::schema::DIM_MAX;

/// Bytes of a component.
const COMPONENT_BYTES: usize = 4;

/// The column is stored in another way, or damaged.
#[derive(Debug)]
pub(super) struct NotPlain;

impl<E: std::error::Error> From<E> for NotPlain {
    fn from(_: E) -> Self {
        Self
    }
}

/// A column of lists of f32, which may be stored plainly.
#[derive(Debug, Clone)]
pub(super) struct PlainColumn {
    /// Its position among the columns that are read.
    position: usize,
    /// Its position among the columns of a row group.
    leaf: usize,
    list: DataType,
    /// The definition level of a component that is there, 1 to 3.
    level_max: u8,
}

impl PlainColumn {
    /// Takes the column at `root` of the file, which is read as the one at `position`; `None` where it
    /// is not of lists of f32.
    pub(super) fn find(
        metadata: &ArrowReaderMetadata,
        root: usize,
        position: usize,
    ) -> Option<Self> {
        let list = metadata.schema().field(root).data_type();
        let (DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)) =
            list
        else {
            return None;
        };
        let columns = metadata.parquet_schema();
        let leaf =
            (0..columns.num_columns()).find(|&at| columns.get_column_root_idx(at) == root)?;
        let column = columns.column(leaf);
        let is_f32 =
            *item.data_type() == DataType::Float32 && column.physical_type() == Type::FLOAT;
        let level_max = u8::try_from(column.max_def_level()).ok()?;
        let is_plain_list = column.max_rep_level() == 1 && (1..=3).contains(&level_max);
        (is_f32 && is_plain_list).then(|| Self { position, leaf, list: list.clone(), level_max })
    }

    /// Returns the column's position among those that are read.
    pub(super) const fn position(&self) -> usize {
        self.position
    }

    /// Returns the length that all vectors of `group` have if none is null or empty; `None` where
    /// they do not have one length, or are not stored plainly.
    pub(super) fn dim_in(&self, group: &RowGroupMetaData) -> Option<usize> {
        let chunk = group.column(self.leaf);
        let rows = usize::try_from(group.num_rows()).ok()?;
        let components = usize::try_from(chunk.num_values()).ok()?;
        let dim = components.checked_div(rows).filter(|dim| (1..=DIM_MAX).contains(dim))?;
        let is_expected = match self.list {
            DataType::FixedSizeList(_, size) => usize::try_from(size) == Ok(dim),
            _ => true,
        };
        let is_even = components.is_multiple_of(rows);
        (is_even && is_expected && chunk.dictionary_page_offset().is_none()).then_some(dim)
    }
}

/// The vectors of a row group, read page by page.
pub(super) struct PlainVectors {
    column: PlainColumn,
    dim: usize,
    pages: SerializedPageReader<PageSource>,
    rows: EvenRows,
    /// What is left of the page's components.
    components: Bytes,
}

impl PlainVectors {
    /// Begins with the first of the group's vectors, which have `dim` components each.
    pub(super) fn open(
        column: PlainColumn,
        dim: usize,
        group: &RowGroupMetaData,
        file: File,
    ) -> Result<Self, NotPlain> {
        let chunk: &ColumnChunkMetaData = group.column(column.leaf);
        let (start, length) = chunk.byte_range();
        let source = Arc::new(PageSource::new(file, start.checked_add(length).ok_or(NotPlain)?));
        let rows = usize::try_from(group.num_rows())?;
        let pages = SerializedPageReader::new(source, chunk, rows, None)?;
        Ok(Self { column, dim, pages, rows: EvenRows::new(dim), components: Bytes::new() })
    }

    /// Returns the column's position among those that are read.
    pub(super) const fn position(&self) -> usize {
        self.column.position()
    }

    /// Appends the next `rows` vectors to `to`.
    pub(super) fn read(&mut self, rows: usize, to: &mut Vec<f32>) -> Result<(), NotPlain> {
        let mut bytes_left = rows * self.dim * COMPONENT_BYTES;
        while bytes_left > 0 {
            if self.components.is_empty() {
                self.next_page()?;
            }
            let bytes = self.components.split_to(bytes_left.min(self.components.len()));
            to.extend(bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
            bytes_left -= bytes.len();
        }
        Ok(())
    }

    /// Returns whole vectors as an array of the column's type; counts their components with 31 bits.
    pub(super) fn array(&self, components: ScalarBuffer<f32>) -> Result<ArrayRef, NotPlain> {
        let (dim, rows) = (self.dim, components.len() / self.dim);
        let components: ArrayRef = Arc::new(Float32Array::new(components, None));
        Ok(match &self.column.list {
            DataType::FixedSizeList(item, size) => {
                Arc::new(FixedSizeListArray::try_new(Arc::clone(item), *size, components, None)?)
            }
            DataType::List(item) => {
                let offsets = OffsetBuffer::from_repeated_length(dim, rows);
                Arc::new(ListArray::try_new(Arc::clone(item), offsets, components, None)?)
            }
            DataType::LargeList(item) => {
                let offsets = OffsetBuffer::from_repeated_length(dim, rows);
                Arc::new(LargeListArray::try_new(Arc::clone(item), offsets, components, None)?)
            }
            _ => return Err(NotPlain),
        })
    }

    /// Tells whether all was read and nothing is left over.
    pub(super) fn ends_here(&mut self) -> Result<bool, NotPlain> {
        let is_whole = self.components.is_empty() && self.rows.is_between_rows();
        Ok(is_whole && self.pages.get_next_page()?.is_none())
    }

    /// Takes the components of the next page, whose levels must say that they are all there.
    fn next_page(&mut self) -> Result<(), NotPlain> {
        // The page's memory is used again.
        self.components = Bytes::new();
        let page = self.pages.get_next_page()?.ok_or(NotPlain)?;
        let count = usize::try_from(page.num_values())?;
        let (repetition, definition, components) = parts(page).ok_or(NotPlain)?;
        self.rows.follow(&repetition, count).ok_or(NotPlain)?;
        let is_full = are_all(&definition, self.column.level_max, count)
            && count > 0
            && count.checked_mul(COMPONENT_BYTES) == Some(components.len());
        self.components = is_full.then_some(components).ok_or(NotPlain)?;
        Ok(())
    }
}

/// Returns the repetition levels, the definition levels and the values of a page.
fn parts(page: Page) -> Option<(Bytes, Bytes, Bytes)> {
    match page {
        Page::DataPage {
            buf: mut bytes,
            encoding: Encoding::PLAIN,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            ..
        } => Some((split_levels(&mut bytes)?, split_levels(&mut bytes)?, bytes)),
        Page::DataPageV2 {
            buf: mut bytes,
            encoding: Encoding::PLAIN,
            num_nulls: 0,
            def_levels_byte_len,
            rep_levels_byte_len,
            ..
        } => {
            let repetition = split(&mut bytes, rep_levels_byte_len)?;
            Some((repetition, split(&mut bytes, def_levels_byte_len)?, bytes))
        }
        _ => None,
    }
}

/// Splits off levels that stand behind their length.
fn split_levels(bytes: &mut Bytes) -> Option<Bytes> {
    let length = bytes.try_get_u32_le().ok()?;
    split(bytes, length)
}

fn split(bytes: &mut Bytes, length: u32) -> Option<Bytes> {
    let length = usize::try_from(length).ok().filter(|&length| length <= bytes.len())?;
    Some(bytes.split_to(length))
}

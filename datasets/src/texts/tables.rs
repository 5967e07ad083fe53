//! [`Table`]: Parquet and Arrow with a column of texts.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray};
use arrow_schema::{DataType, Field, Fields};
use arrow_select::filter::filter_record_batch;
use serde_json::Value;

use super::file::{Content, Rows, header_only};
use super::record::{FoundFields, checked_vector, pass_over};
use super::shapes::{TextFields, TextRole};
use super::{TextFile, TextForm};
use crate::DataError;
use crate::input::InputBytes;
use crate::parquet::ParquetTable;
use crate::read::arrow::{MAGIC, STREAM_START};
use crate::read::{ArrowFile, DECODE_ROWS, Source, Texts};
use crate::vectors::{VectorCells, shape_of};
use crate::write::{JsonColumn, TableEncoding, TableWriter, is_held, zstd_properties};

/// An open table.
#[derive(Debug)]
pub(super) struct Table {
    source: Arc<dyn Source>,
    /// How the file is written again.
    encoding: TableEncoding,
}

impl Table {
    pub(super) fn open(bytes: InputBytes) -> Result<Self, DataError> {
        let start = bytes.read(0, MAGIC.len().min(bytes.len() as usize))?;
        let encoding = match start.as_slice() {
            MAGIC => TableEncoding::ArrowFile,
            start if start.starts_with(STREAM_START) => TableEncoding::ArrowStream,
            _ => {
                let table = ParquetTable::open(bytes)?;
                let properties = zstd_properties(table.schema().metadata());
                let properties = properties.set_compression(table.compression()).build();
                let encoding = TableEncoding::Parquet(properties.into());
                return Ok(Self { source: Arc::new(table), encoding });
            }
        };
        Ok(Self { source: Arc::new(ArrowFile::open(bytes)?), encoding })
    }

    /// Tells whether a column holds texts.
    pub(super) fn has_text(&self) -> bool {
        self.source.schema().fields().iter().any(|field| Texts::accept(field.data_type()))
    }

    pub(super) fn read_file(self, fields: &TextFields) -> Result<TextFile, DataError> {
        let form = match self.encoding {
            TableEncoding::Parquet(_) => TextForm::Parquet,
            _ => TextForm::Arrow,
        };
        let schema = Arc::clone(self.source.schema());
        let mut names = BTreeSet::new();
        add_names(schema.fields(), "", &mut names);
        if self.source.row_count() == 0 {
            return Err(header_only());
        }
        let mut rows = Rows::new(form, names, fields, false)?;
        let is_used = |field: &Field| {
            let name = field.name();
            (rows.roles.of(name).is_some() || rows.roles.is_holder(name))
                && (is_held(field.data_type()) || shape_of(field.data_type()).is_some())
        };
        let (used, unused): (Vec<usize>, Vec<usize>) =
            (0..schema.fields().len()).partition(|at| is_used(schema.field(*at)));
        unused
            .iter()
            .for_each(|at| pass_over(&mut rows.file.passed_over, schema.field(*at).name()));
        let mut row = 0;
        for batch in self.source.batches(&used, DECODE_ROWS)? {
            let batch = batch?;
            let columns: Vec<Column> = batch
                .columns()
                .iter()
                .zip(&used)
                .map(|(array, at)| Column::of(schema.field(*at).name(), array, &rows))
                .collect();
            for at in 0..batch.num_rows() {
                let mut found = FoundFields::default();
                columns.iter().for_each(|column| column.take(at, &mut found, &mut rows));
                rows.push(found, row as u64 + 1, row);
                row += 1;
            }
        }
        rows.into_file(Content::Table(self))
    }

    /// Writes all rows except the left-out ones, which are ascending.
    pub(super) fn write(
        &self,
        left_out: &[usize],
        out: &mut (dyn Write + Send),
    ) -> Result<(), DataError> {
        let schema = self.source.schema();
        let encoding = self.encoding.clone();
        let mut output = TableWriter::new(out, Path::new(""), schema, encoding)?;
        let all: Vec<usize> = (0..schema.fields().len()).collect();
        let (mut first, mut left_out) = (0, left_out);
        for batch in self.source.batches(&all, DECODE_ROWS)? {
            let batch = batch?;
            let end = first + batch.num_rows();
            let (here, later) = left_out.split_at(left_out.partition_point(|row| *row < end));
            let mut keeps = vec![true; batch.num_rows()];
            here.iter().for_each(|row| keeps[row - first] = false);
            let kept = filter_record_batch(&batch, &BooleanArray::from(keeps));
            output.write(&kept.map_err(|error| DataError::of_arrow(Path::new(""), error))?)?;
            (first, left_out) = (end, later);
        }
        // Otherwise other rows than the chosen ones would be left out.
        self.source.check_unchanged()?;
        output.into_inner(None).map(drop)
    }
}

/// Collects the dotted names of columns and of the fields in them.
fn add_names(fields: &Fields, holder: &str, names: &mut BTreeSet<String>) {
    for field in fields {
        let name = format!("{holder}{}", field.name());
        if let DataType::Struct(inner) = field.data_type() {
            add_names(inner, &format!("{name}."), names);
        }
        names.insert(name);
    }
}

/// A column of a batch.
struct Column {
    name: String,
    values: Values,
}

enum Values {
    Texts(Texts),
    Vectors(VectorCells),
    Json(JsonColumn),
}

impl Column {
    fn of(name: &str, array: &ArrayRef, rows: &Rows) -> Self {
        let is_vector = rows.roles.of(name).is_some_and(|known| known.role == TextRole::Vector);
        let vectors = is_vector.then(|| VectorCells::of(array)).flatten();
        let values = match (vectors, Texts::of(array)) {
            (Some(vectors), _) => Values::Vectors(vectors),
            (None, Some(texts)) => Values::Texts(texts),
            (None, None) => Values::Json(JsonColumn::of(array)),
        };
        Self { name: name.to_owned(), values }
    }

    /// Takes the value of a row.
    fn take(&self, at: usize, found: &mut FoundFields, rows: &mut Rows) {
        let value = match &self.values {
            Values::Vectors(vectors) => return take_vector(vectors, at, &self.name, found),
            Values::Texts(texts) => texts.get(at).map_or(Value::Null, Value::from),
            Values::Json(column) => {
                let mut json = Vec::new();
                column.write(at, &mut json);
                serde_json::from_slice(&json).unwrap_or_default()
            }
        };
        if !found.take(&self.name, value, &rows.roles) {
            pass_over(&mut rows.file.passed_over, &self.name);
        }
    }
}

fn take_vector(vectors: &VectorCells, at: usize, name: &str, found: &mut FoundFields) {
    let Some(length) = vectors.length(at) else { return };
    if let Some(fault) = vectors.fault(at, length, true) {
        return found.fault(name, &fault.to_string());
    }
    let mut vector = Vec::with_capacity(length);
    vectors.append(at, &mut vector);
    match checked_vector(vector) {
        Ok(vector) => found.put_vector(vector),
        Err(fault) => found.fault(name, &fault),
    }
}

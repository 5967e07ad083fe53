//! [`ResultOptions`], and what both files of results share.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::WriterProperties;

use crate::parquet::{ParquetOutput, WriteTableError, key_values};

/// The version that [`key::SCHEMA_VERSION`] carries.
pub const RESULT_SCHEMA_VERSION: u32 = 1;

/// Rows gathered before they are encoded.
pub(super) const BATCH_ROWS: usize = 65_536;
/// Rows of a row group: some MB of numbers.
const GROUP_ROWS: usize = 1 << 20;

/// Metadata keys of results. Values are text; numbers are decimal.
pub mod key {
    /// [`super::RESULT_SCHEMA_VERSION`].
    pub const SCHEMA_VERSION: &str = "memfold.schema_version";
    /// `pairs`, `distinct_pairs` or `clusters`.
    pub const KIND: &str = "memfold.kind";
    /// The thresholds, ascending as given, with commas between them.
    pub const THRESHOLD: &str = "memfold.threshold";
    /// Rows in the file. Written when the file is finished.
    pub const ROW_COUNT: &str = "memfold.row_count";
}

/// What a file of results says about its rows.
#[derive(Debug, Clone, Copy)]
pub struct ResultOptions<'a> {
    /// The thresholds that its rows stand for; they go into the metadata.
    pub thresholds: &'a [f64],
    /// Whether a column `threshold` comes first, for rows of several thresholds in one file.
    pub threshold_column: bool,
}

impl ResultOptions<'_> {
    fn metadata(&self, kind: &str) -> HashMap<String, String> {
        let thresholds: Vec<String> = self.thresholds.iter().map(f64::to_string).collect();
        HashMap::from([
            (key::SCHEMA_VERSION.to_owned(), RESULT_SCHEMA_VERSION.to_string()),
            (key::KIND.to_owned(), kind.to_owned()),
            (key::THRESHOLD.to_owned(), thresholds.join(",")),
        ])
    }
}

/// The kind of a file and its columns beside `threshold`.
pub(super) struct Shape {
    pub(super) kind: &'static str,
    /// The two columns of ordinals, by which the rows are sorted.
    pub(super) ordinals: [&'static str; 2],
    pub(super) sorted: bool,
    pub(super) has_ids: bool,
}

/// A file of results: `[threshold,] ordinal, ordinal, similarity[, id]`.
pub(super) struct ResultTable {
    output: ParquetOutput,
    schema: SchemaRef,
    thresholds: Option<Vec<f64>>,
    ordinals: [Vec<u64>; 2],
    similarities: Vec<f64>,
    row_count: u64,
}

/// The numbers of one row.
pub(super) struct Numbers {
    pub(super) threshold: f64,
    pub(super) ordinals: [u64; 2],
    pub(super) similarity: f64,
}

impl ResultTable {
    pub(super) fn create(
        path: &Path,
        options: &ResultOptions<'_>,
        shape: &Shape,
    ) -> Result<Self, WriteTableError> {
        let schema = Arc::new(schema(options, shape));
        let properties = properties(&schema, shape);
        let output = ParquetOutput::create(path, Arc::clone(&schema), properties)?;
        Ok(Self {
            output,
            schema,
            thresholds: options.threshold_column.then(Vec::new),
            ordinals: [Vec::new(), Vec::new()],
            similarities: Vec::new(),
            row_count: 0,
        })
    }

    /// Gathers a row; returns true when [`write`](Self::write) is due.
    pub(super) fn push(&mut self, row: &Numbers) -> bool {
        if let Some(thresholds) = &mut self.thresholds {
            thresholds.push(row.threshold);
        }
        self.ordinals[0].push(row.ordinals[0]);
        self.ordinals[1].push(row.ordinals[1]);
        self.similarities.push(row.similarity);
        self.row_count += 1;
        self.similarities.len() == BATCH_ROWS
    }

    /// Encodes the gathered rows, with their ids where the file has them.
    pub(super) fn write(&mut self, ids: Option<ArrayRef>) -> Result<(), WriteTableError> {
        let mut columns: Vec<ArrayRef> = Vec::new();
        if let Some(thresholds) = &mut self.thresholds {
            columns.push(Arc::new(Float64Array::from(std::mem::take(thresholds))));
        }
        for ordinals in &mut self.ordinals {
            columns.push(Arc::new(UInt64Array::from(std::mem::take(ordinals))));
        }
        columns.push(Arc::new(Float64Array::from(std::mem::take(&mut self.similarities))));
        columns.extend(ids);
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .expect("the columns are those of the schema and equally long");
        self.output.write(&batch)
    }

    /// Publishes the file and returns its rows.
    pub(super) fn finish(self) -> Result<u64, WriteTableError> {
        let count = KeyValue::new(key::ROW_COUNT.to_owned(), Some(self.row_count.to_string()));
        self.output.finish(Some(count))?;
        Ok(self.row_count)
    }
}

fn schema(options: &ResultOptions<'_>, shape: &Shape) -> Schema {
    let number = |name: &str, data_type| Field::new(name, data_type, false);
    let mut fields = Vec::new();
    if options.threshold_column {
        fields.push(number("threshold", DataType::Float64));
    }
    fields.extend(shape.ordinals.map(|name| number(name, DataType::UInt64)));
    fields.push(number("similarity", DataType::Float64));
    if shape.has_ids {
        fields.push(Field::new("id", DataType::Utf8, true));
    }
    Schema::new_with_metadata(fields, options.metadata(shape.kind))
}

fn properties(schema: &Schema, shape: &Shape) -> WriterProperties {
    // Similarities and ordinals hardly ever repeat, so a dictionary only costs time.
    let mut builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_key_value_metadata(Some(key_values(schema.metadata())));
    for name in [shape.ordinals[0], shape.ordinals[1], "similarity"] {
        builder = builder
            .set_column_dictionary_enabled(name.into(), false)
            .set_column_encoding(name.into(), Encoding::PLAIN);
    }
    if shape.sorted {
        let sorted = (0..schema.fields().len())
            .take_while(|&column| schema.field(column).name() != "similarity")
            .map(|column| SortingColumn {
                column_idx: column as i32,
                descending: false,
                nulls_first: false,
            });
        builder = builder.set_sorting_columns(Some(sorted.collect()));
    }
    builder.build()
}

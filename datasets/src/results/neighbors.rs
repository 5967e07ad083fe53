//! [`NeighborsWriter`]: what many queries found, into a Parquet file.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, Float64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use super::table::{BATCH_ROWS, RESULT_SCHEMA_VERSION, key};
use crate::parquet::{ParquetOutput, WriteTableError, key_values};

/// One neighbour of one query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NeighborRow<'a> {
    /// The query's position, from 0.
    pub query: u64,
    /// The neighbour's place, from 0: the most similar.
    pub rank: u32,
    /// The neighbour's row.
    pub row: u64,
    /// Their canonical similarity.
    pub similarity: f64,
    /// The neighbour's id, where it has one.
    pub id: Option<&'a str>,
}

/// Writes `query, rank, row, similarity, id` in the order given; holds some MB in memory.
pub struct NeighborsWriter {
    output: ParquetOutput,
    schema: SchemaRef,
    queries: Vec<u64>,
    ranks: Vec<u32>,
    rows: Vec<u64>,
    similarities: Vec<f64>,
    ids: StringBuilder,
    row_count: u64,
}

impl NeighborsWriter {
    /// Begins a file that takes its place at `path` when finished.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn create(path: &Path) -> Result<Self, WriteTableError> {
        let column = |name, data_type| Field::new(name, data_type, false);
        let fields = vec![
            column("query", DataType::UInt64),
            column("rank", DataType::UInt32),
            column("row", DataType::UInt64),
            column("similarity", DataType::Float64),
            Field::new("id", DataType::Utf8, true),
        ];
        let metadata = HashMap::from([
            (key::SCHEMA_VERSION.to_owned(), RESULT_SCHEMA_VERSION.to_string()),
            (key::KIND.to_owned(), "neighbors".to_owned()),
        ]);
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_key_value_metadata(Some(key_values(schema.metadata())))
            .build();
        let output = ParquetOutput::create(path, Arc::clone(&schema), properties)?;
        Ok(Self {
            output,
            schema,
            queries: Vec::new(),
            ranks: Vec::new(),
            rows: Vec::new(),
            similarities: Vec::new(),
            ids: StringBuilder::new(),
            row_count: 0,
        })
    }

    /// Appends a neighbour.
    ///
    /// # Errors
    /// When writing fails.
    pub fn push(&mut self, neighbor: NeighborRow<'_>) -> Result<(), WriteTableError> {
        let NeighborRow { query, rank, row, similarity, id } = neighbor;
        self.queries.push(query);
        self.ranks.push(rank);
        self.rows.push(row);
        self.similarities.push(similarity);
        self.ids.append_option(id);
        self.row_count += 1;
        if self.queries.len() == BATCH_ROWS { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), WriteTableError> {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from(std::mem::take(&mut self.queries))),
            Arc::new(UInt32Array::from(std::mem::take(&mut self.ranks))),
            Arc::new(UInt64Array::from(std::mem::take(&mut self.rows))),
            Arc::new(Float64Array::from(std::mem::take(&mut self.similarities))),
            Arc::new(self.ids.finish()),
        ];
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .expect("the columns are those of the schema and equally long");
        self.output.write(&batch)
    }

    /// Writes what is left, publishes the file and returns how many neighbours it holds.
    ///
    /// # Errors
    /// When writing or publishing fails; the file's place then holds what it held before.
    pub fn finish(mut self) -> Result<u64, WriteTableError> {
        self.write()?;
        let count = KeyValue::new(key::ROW_COUNT.to_owned(), Some(self.row_count.to_string()));
        self.output.finish(Some(count))?;
        Ok(self.row_count)
    }
}

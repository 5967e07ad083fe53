//! What a comparison of all rows found, and what queries found, as Parquet: [`PairsWriter`], [`ClustersWriter`], [`NeighborsWriter`].
//!
//! Rows are global ordinals: positions over all inputs in their order. Files of pairs and clusters carry their kind
//! and thresholds in the metadata, are written in portions and appear whole or not at all.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, Float64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::WriterProperties;

use crate::DataError;
use crate::parquet::{ParquetOutput, key_values};

#[cfg(test)]
mod tests;

/// The version that [`key::SCHEMA_VERSION`] carries.
pub const RESULT_SCHEMA_VERSION: u32 = 1;

/// Rows gathered before they are encoded.
const BATCH_ROWS: usize = 65_536;
/// Rows of a row group: some MB of numbers.
const GROUP_ROWS: usize = 1 << 20;

/// Metadata keys of results. Values are text; numbers are decimal.
pub mod key {
    /// The version of the layout, `1`.
    pub const SCHEMA_VERSION: &str = "memfold.schema_version";
    /// `pairs`, `distinct_pairs` or `clusters`.
    pub(crate) const KIND: &str = "memfold.kind";
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
struct Shape {
    kind: &'static str,
    /// The two columns of ordinals, by which the rows are sorted.
    ordinals: [&'static str; 2],
    sorted: bool,
    has_ids: bool,
}

/// A file of results: `[threshold,] ordinal, ordinal, similarity[, id]`.
struct ResultTable {
    output: ParquetOutput,
    schema: SchemaRef,
    thresholds: Option<Vec<f64>>,
    ordinals: [Vec<u64>; 2],
    similarities: Vec<f64>,
    row_count: u64,
}

/// The numbers of one row.
struct Numbers {
    threshold: f64,
    ordinals: [u64; 2],
    similarity: f64,
}

impl ResultTable {
    fn create(path: &Path, options: &ResultOptions<'_>, shape: &Shape) -> Result<Self, DataError> {
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
    fn push(&mut self, row: &Numbers) -> bool {
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
    fn write(&mut self, ids: Option<ArrayRef>) -> Result<(), DataError> {
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
    fn finish(self) -> Result<u64, DataError> {
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

/// Which pairs a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairsForm {
    /// Every pair of rows: groups of equal vectors are expanded. Kind `pairs`.
    All,
    /// One row stands for each group of equal vectors. Kind `distinct_pairs`.
    Distinct,
}

/// Two near rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairRow {
    /// The threshold whose list the pair belongs to; written only where the file has that column.
    pub threshold: f64,
    /// The ordinal of the earlier row.
    pub left: u64,
    /// The ordinal of the later row.
    pub right: u64,
    /// Their canonical similarity.
    pub similarity: f64,
}

/// Writes `[threshold,] left, right, similarity`; holds some MB in memory.
///
/// Rows are expected by threshold, left and right, ascending: the file says so to its readers.
///
/// # Examples
/// ```
/// use memfold_datasets::results::{PairRow, PairsForm, PairsWriter, ResultOptions};
///
/// let folder = tempfile::tempdir()?;
/// let options = ResultOptions { thresholds: &[0.9], threshold_column: false };
/// let path = folder.path().join("pairs.parquet");
/// let mut writer = PairsWriter::create(&path, &options, PairsForm::All)?;
/// writer.push(PairRow { threshold: 0.9, left: 0, right: 7, similarity: 0.93 })?;
/// assert_eq!(writer.finish()?, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PairsWriter {
    table: ResultTable,
}

impl PairsWriter {
    /// Begins a file that takes its place at `path` when finished.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn create(
        path: &Path,
        options: &ResultOptions<'_>,
        form: PairsForm,
    ) -> Result<Self, DataError> {
        let kind = match form {
            PairsForm::All => "pairs",
            PairsForm::Distinct => "distinct_pairs",
        };
        let shape = Shape { kind, ordinals: ["left", "right"], sorted: true, has_ids: false };
        Ok(Self { table: ResultTable::create(path, options, &shape)? })
    }

    /// Appends a pair.
    ///
    /// # Errors
    /// When writing fails.
    pub fn push(&mut self, pair: PairRow) -> Result<(), DataError> {
        let PairRow { threshold, left, right, similarity } = pair;
        let numbers = Numbers { threshold, ordinals: [left, right], similarity };
        if self.table.push(&numbers) { self.table.write(None) } else { Ok(()) }
    }

    /// Writes what is left, publishes the file and returns how many pairs it holds.
    ///
    /// # Errors
    /// When writing or publishing fails; the file's place then holds what it held before.
    pub fn finish(mut self) -> Result<u64, DataError> {
        self.table.write(None)?;
        self.table.finish()
    }
}

/// A member of a cluster of two or more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClusterRow<'a> {
    /// The threshold whose clusters these are; written only where the file has that column.
    pub threshold: f64,
    /// The member's ordinal.
    pub row: u64,
    /// The ordinal of the cluster's survivor.
    pub cluster: u64,
    /// The canonical similarity to the survivor.
    pub similarity: f64,
    /// The member's id; written only where the file has that column.
    pub id: Option<&'a str>,
}

/// Writes `[threshold,] row, cluster, similarity[, id]`; holds some MB in memory.
///
/// # Examples
/// ```
/// use memfold_datasets::results::{ClusterRow, ClustersWriter, ResultOptions};
///
/// let folder = tempfile::tempdir()?;
/// let options = ResultOptions { thresholds: &[0.9], threshold_column: false };
/// let path = folder.path().join("clusters.parquet");
/// let mut writer = ClustersWriter::create(&path, &options, true)?;
/// let (threshold, cluster) = (0.9, 0);
/// writer.push(ClusterRow { threshold, row: 0, cluster, similarity: 1.0, id: Some("a") })?;
/// writer.push(ClusterRow { threshold, row: 7, cluster, similarity: 0.93, id: Some("b") })?;
/// assert_eq!(writer.finish()?, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ClustersWriter {
    table: ResultTable,
    ids: Option<StringBuilder>,
}

impl ClustersWriter {
    /// Begins a file that takes its place at `path` when finished; `has_ids` adds the column `id`.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn create(
        path: &Path,
        options: &ResultOptions<'_>,
        has_ids: bool,
    ) -> Result<Self, DataError> {
        let ordinals = ["row", "cluster"];
        let shape = Shape { kind: "clusters", ordinals, sorted: false, has_ids };
        let table = ResultTable::create(path, options, &shape)?;
        Ok(Self { table, ids: has_ids.then(StringBuilder::new) })
    }

    /// Appends a member.
    ///
    /// # Errors
    /// When writing fails.
    pub fn push(&mut self, member: ClusterRow<'_>) -> Result<(), DataError> {
        let ClusterRow { threshold, row, cluster, similarity, id } = member;
        if let Some(ids) = &mut self.ids {
            ids.append_option(id);
        }
        let numbers = Numbers { threshold, ordinals: [row, cluster], similarity };
        if self.table.push(&numbers) { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), DataError> {
        let ids = self.ids.as_mut().map(|ids| Arc::new(ids.finish()) as ArrayRef);
        self.table.write(ids)
    }

    /// Writes what is left, publishes the file and returns how many members it holds.
    ///
    /// # Errors
    /// When writing or publishing fails; the file's place then holds what it held before.
    pub fn finish(mut self) -> Result<u64, DataError> {
        self.write()?;
        self.table.finish()
    }
}

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
    pub fn create(path: &Path) -> Result<Self, DataError> {
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
    pub fn push(&mut self, neighbor: NeighborRow<'_>) -> Result<(), DataError> {
        let NeighborRow { query, rank, row, similarity, id } = neighbor;
        self.queries.push(query);
        self.ranks.push(rank);
        self.rows.push(row);
        self.similarities.push(similarity);
        self.ids.append_option(id);
        self.row_count += 1;
        if self.queries.len() == BATCH_ROWS { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), DataError> {
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
    pub fn finish(mut self) -> Result<u64, DataError> {
        self.write()?;
        let count = KeyValue::new(key::ROW_COUNT.to_owned(), Some(self.row_count.to_string()));
        self.output.finish(Some(count))?;
        Ok(self.row_count)
    }
}

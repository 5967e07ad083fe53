//! Results of a comparison of all rows, and of queries, as Parquet: [`PairsWriter`],
//! [`ClustersWriter`], [`NeighborsWriter`].
//!
//! Rows are global ordinals: positions over all inputs in their order. Files of pairs and clusters
//! carry their kind and thresholds in the metadata, are written in portions and appear whole or not
//! at all.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use parquet::basic::Encoding;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::WriterProperties;

use super::files::{TableEncoding, TableFile, zstd_properties};
use crate::DataError;
use crate::atomic_file::NewFile;

/// The version that [`key::SCHEMA_VERSION`] carries.
const RESULT_SCHEMA_VERSION: u32 = 1;

/// Rows gathered before they are encoded.
const BATCH_ROWS: usize = 65_536;
/// Rows of a row group: some MB of numbers.
const GROUP_ROWS: usize = 1 << 20;

/// Metadata keys of results. Values are text; numbers are decimal.
mod key {
    /// The version of the layout, `1`.
    pub(super) const SCHEMA_VERSION: &str = "memfold.schema_version";
    /// `pairs`, `distinct_pairs`, `clusters` or `neighbors`.
    pub(super) const KIND: &str = "memfold.kind";
    /// The thresholds, ascending as given, with commas between them.
    pub(super) const THRESHOLD: &str = "memfold.threshold";
}

/// The metadata of a file of results about its rows.
#[derive(Debug, Clone, Copy)]
pub struct ResultOptions<'a> {
    /// The thresholds that its rows stand for; they go into the metadata.
    pub thresholds: &'a [f64],
    /// Whether a column `threshold` comes first, for rows of several thresholds in one file.
    pub threshold_column: bool,
}

/// The columns of pairs; `threshold` only where the file has it.
const PAIR: [&str; 4] = ["threshold", "left", "right", "similarity"];
/// The columns of members of clusters; the first and the last only where the file has them.
const MEMBER: [&str; 5] = ["threshold", "row", "cluster", "similarity", "id"];
const NEIGHBOR: [&str; 5] = ["query", "rank", "row", "similarity", "id"];

/// The values of a column that were gathered.
enum Values {
    Ordinals(Vec<u64>),
    Ranks(Vec<u32>),
    Numbers(Vec<f64>),
    Ids(StringBuilder),
}

/// A value of a row.
enum Value<'a> {
    Ordinal(u64),
    Rank(u32),
    Number(f64),
    Id(Option<&'a str>),
}

impl Values {
    fn of(column: &str) -> Self {
        match column {
            "threshold" | "similarity" => Self::Numbers(Vec::new()),
            "rank" => Self::Ranks(Vec::new()),
            "id" => Self::Ids(StringBuilder::new()),
            _ => Self::Ordinals(Vec::new()),
        }
    }

    fn field(&self, column: &str) -> Field {
        let (data_type, is_nullable) = match self {
            Self::Ordinals(_) => (DataType::UInt64, false),
            Self::Ranks(_) => (DataType::UInt32, false),
            Self::Numbers(_) => (DataType::Float64, false),
            Self::Ids(_) => (DataType::Utf8, true),
        };
        Field::new(column, data_type, is_nullable)
    }

    fn push(&mut self, value: &Value<'_>) {
        match (self, value) {
            (Self::Ordinals(values), Value::Ordinal(value)) => values.push(*value),
            (Self::Ranks(values), Value::Rank(value)) => values.push(*value),
            (Self::Numbers(values), Value::Number(value)) => values.push(*value),
            (Self::Ids(values), Value::Id(value)) => values.append_option(*value),
            _ => unreachable!("each writer pushes what its columns hold"),
        }
    }

    fn take(&mut self) -> ArrayRef {
        match self {
            Self::Ordinals(values) => Arc::new(UInt64Array::from(std::mem::take(values))),
            Self::Ranks(values) => Arc::new(UInt32Array::from(std::mem::take(values))),
            Self::Numbers(values) => Arc::new(Float64Array::from(std::mem::take(values))),
            Self::Ids(values) => Arc::new(values.finish()),
        }
    }
}

/// A file of results on its way to its place.
struct ResultTable {
    file: TableFile,
    columns: Vec<Values>,
    rows_gathered: usize,
    row_count: u64,
}

impl ResultTable {
    /// Begins a file of these columns.
    fn create(
        path: &Path,
        kind: &str,
        names: &[&str],
        options: Option<&ResultOptions<'_>>,
        is_sorted: bool,
    ) -> Result<Self, DataError> {
        let columns: Vec<Values> = names.iter().map(|name| Values::of(name)).collect();
        let fields = columns.iter().zip(names).map(|(values, name)| values.field(name));
        let mut metadata = HashMap::from([
            (key::SCHEMA_VERSION.to_owned(), RESULT_SCHEMA_VERSION.to_string()),
            (key::KIND.to_owned(), kind.to_owned()),
        ]);
        if let Some(options) = options {
            let thresholds: Vec<String> = options.thresholds.iter().map(f64::to_string).collect();
            metadata.insert(key::THRESHOLD.to_owned(), thresholds.join(","));
        }
        let schema = Schema::new_with_metadata(fields.collect::<Vec<_>>(), metadata);
        let properties = properties(&schema, options.is_some(), is_sorted);
        let encoding = TableEncoding::Parquet(properties.into());
        let file = TableFile::begin(NewFile::create(path), path, &Arc::new(schema), encoding)?;
        Ok(Self { file, columns, rows_gathered: 0, row_count: 0 })
    }

    /// Gathers a row with the values of the last columns: a file may have no threshold.
    fn push(&mut self, row: &[Value<'_>]) -> Result<(), DataError> {
        let first = row.len() - self.columns.len();
        self.columns.iter_mut().zip(&row[first..]).for_each(|(column, value)| column.push(value));
        self.row_count += 1;
        self.rows_gathered += 1;
        if self.rows_gathered == BATCH_ROWS { self.write() } else { Ok(()) }
    }

    /// Encodes the gathered rows.
    fn write(&mut self) -> Result<(), DataError> {
        self.rows_gathered = 0;
        let columns = self.columns.iter_mut().map(Values::take).collect();
        self.file.write(&self.file.batch(columns)?)
    }

    /// Writes the remaining rows, publishes the file and returns its rows.
    fn finish(mut self) -> Result<u64, DataError> {
        self.write()?;
        self.file.finish(Some(self.row_count))?;
        Ok(self.row_count)
    }
}

fn properties(schema: &Schema, is_plain: bool, is_sorted: bool) -> WriterProperties {
    let mut builder = zstd_properties(schema.metadata());
    if !is_plain {
        return builder.build();
    }
    builder = builder.set_max_row_group_row_count(Some(GROUP_ROWS));
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    // Similarities and ordinals hardly ever repeat, so a dictionary only costs time.
    for name in names.iter().filter(|name| !matches!(**name, "threshold" | "id")) {
        builder = builder
            .set_column_dictionary_enabled((*name).into(), false)
            .set_column_encoding((*name).into(), Encoding::PLAIN);
    }
    if is_sorted {
        let sorted = (0..).zip(names).take_while(|(_, name)| *name != "similarity");
        let sorted = sorted.map(|(column_idx, _)| SortingColumn {
            column_idx,
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
    /// The threshold of the list that the pair belongs to; written only where the file has that
    /// column.
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
/// Rows are expected by threshold, left and right, ascending: the file states this order to its
/// readers.
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
        let columns = &PAIR[usize::from(!options.threshold_column)..];
        Ok(Self { table: ResultTable::create(path, kind, columns, Some(options), true)? })
    }

    /// Appends a pair.
    ///
    /// # Errors
    /// When writing fails.
    pub fn push(&mut self, pair: PairRow) -> Result<(), DataError> {
        let PairRow { threshold, left, right, similarity } = pair;
        let (left, right) = (Value::Ordinal(left), Value::Ordinal(right));
        self.table.push(&[Value::Number(threshold), left, right, Value::Number(similarity)])
    }

    /// Writes the remaining rows, publishes the file and returns how many pairs it holds.
    ///
    /// # Errors
    /// When writing or publishing fails; the file's place then has its former content.
    pub fn finish(self) -> Result<u64, DataError> {
        self.table.finish()
    }
}

/// A member of a cluster of two or more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClusterRow<'a> {
    /// The threshold of these clusters; written only where the file has that column.
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
    has_ids: bool,
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
        let last = MEMBER.len() - usize::from(!has_ids);
        let columns = &MEMBER[usize::from(!options.threshold_column)..last];
        let table = ResultTable::create(path, "clusters", columns, Some(options), false)?;
        Ok(Self { table, has_ids })
    }

    /// Appends a member.
    ///
    /// # Errors
    /// When writing fails.
    pub fn push(&mut self, member: ClusterRow<'_>) -> Result<(), DataError> {
        let ClusterRow { threshold, row, cluster, similarity, id } = member;
        let values = [
            Value::Number(threshold),
            Value::Ordinal(row),
            Value::Ordinal(cluster),
            Value::Number(similarity),
            Value::Id(id),
        ];
        self.table.push(&values[..values.len() - usize::from(!self.has_ids)])
    }

    /// Writes the remaining rows, publishes the file and returns how many members it holds.
    ///
    /// # Errors
    /// When writing or publishing fails; the file's place then has its former content.
    pub fn finish(self) -> Result<u64, DataError> {
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
    table: ResultTable,
}

impl NeighborsWriter {
    /// Begins a file that takes its place at `path` when finished.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn create(path: &Path) -> Result<Self, DataError> {
        Ok(Self { table: ResultTable::create(path, "neighbors", &NEIGHBOR, None, false)? })
    }

    /// Appends a neighbour.
    ///
    /// # Errors
    /// When writing fails.
    pub fn push(&mut self, neighbor: NeighborRow<'_>) -> Result<(), DataError> {
        let NeighborRow { query, rank, row, similarity, id } = neighbor;
        self.table.push(&[
            Value::Ordinal(query),
            Value::Rank(rank),
            Value::Ordinal(row),
            Value::Number(similarity),
            Value::Id(id),
        ])
    }

    /// Writes the remaining rows, publishes the file and returns how many neighbours it holds.
    ///
    /// # Errors
    /// When writing or publishing fails; the file's place then has its former content.
    pub fn finish(self) -> Result<u64, DataError> {
        self.table.finish()
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, UInt64Type};
    use arrow_array::{Array, RecordBatch};
    use proptest::prelude::*;

    use super::*;
    use crate::read::support::{opened, read};

    fn u64s(batch: &RecordBatch, name: &str) -> Vec<u64> {
        batch.column_by_name(name).unwrap().as_primitive::<UInt64Type>().values().to_vec()
    }

    /// Writes pairs, and reads them back.
    fn written(
        pairs: impl Iterator<Item = (u64, u64, f64)>,
        form: PairsForm,
        threshold_column: bool,
    ) -> Vec<RecordBatch> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pairs.parquet");
        let options = ResultOptions { thresholds: &[0.85, 0.9], threshold_column };
        let mut writer = PairsWriter::create(&path, &options, form).unwrap();
        let mut count = 0;
        for (left, right, similarity) in pairs {
            writer.push(PairRow { threshold: 0.9, left, right, similarity }).unwrap();
            count += 1;
        }
        assert!(!path.exists());
        assert_eq!(writer.finish().unwrap(), count);
        let file = opened(&path).unwrap();
        let names: Vec<&str> =
            file.schema().fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, &PAIR[usize::from(!threshold_column)..]);
        assert_eq!(file.row_count() as u64, count);
        read(&path)
    }

    proptest! {
        #[test]
        fn pairs_come_back(
            pairs in prop::collection::vec((any::<u64>(), any::<u64>(), any::<f64>()), 0..200),
            threshold_column: bool,
        ) {
            let mut found = Vec::new();
            for batch in written(pairs.iter().copied(), PairsForm::All, threshold_column) {
                let similarities = batch.column_by_name("similarity").unwrap();
                let similarities = similarities.as_primitive::<Float64Type>().values();
                let rows = u64s(&batch, "left").into_iter().zip(u64s(&batch, "right"));
                found.extend(rows.zip(similarities.iter().map(|value| value.to_bits())));
            }
            let expected: Vec<((u64, u64), u64)> =
                pairs.iter().map(|&(left, right, s)| ((left, right), s.to_bits())).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn portions_make_one_file() {
        let count = 2 * 65_536 + 3;
        let pairs = (0..count).map(|left| (left, left + 1, 0.95));
        let batches = written(pairs, PairsForm::Distinct, false);
        let found = batches.iter().flat_map(|batch| u64s(batch, "left"));
        assert!(found.eq(0..count));
        assert!(written(std::iter::empty(), PairsForm::All, false).is_empty());
    }

    #[test]
    fn files_say_what_they_hold() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clusters.parquet");
        let options = ResultOptions { thresholds: &[0.85, 0.9], threshold_column: true };
        let mut writer = ClustersWriter::create(&path, &options, true).unwrap();
        for (row, id) in [(3, Some("a")), (9, None)] {
            let member = ClusterRow { threshold: 0.85, row, cluster: 3, similarity: 1.0, id };
            writer.push(member).unwrap();
        }
        writer.finish().unwrap();
        let batch = &read(&path)[0];
        let schema = batch.schema();
        let fields = schema.fields().iter();
        let columns: Vec<(&str, &DataType, bool)> = fields
            .map(|field| (field.name().as_str(), field.data_type(), field.is_nullable()))
            .collect();
        let (number, ordinal) = (DataType::Float64, DataType::UInt64);
        assert_eq!(
            columns,
            [
                ("threshold", &number, false),
                ("row", &ordinal, false),
                ("cluster", &ordinal, false),
                ("similarity", &number, false),
                ("id", &DataType::Utf8, true),
            ]
        );
        let ids = batch.column_by_name("id").unwrap().as_string::<i32>();
        assert_eq!((ids.value(0), ids.is_null(1)), ("a", true));
        let file = opened(&path).unwrap();
        for (name, value) in [
            (key::SCHEMA_VERSION, "1"),
            (key::KIND, "clusters"),
            (key::THRESHOLD, "0.85,0.9"),
            (crate::schema::key::ROW_COUNT, "2"),
        ] {
            let found = file.schema().metadata().get(name).map(String::as_str);
            assert_eq!(found, Some(value), "{name}");
        }
    }

    #[test]
    fn a_missing_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing/neighbors.parquet");
        let error = NeighborsWriter::create(&path).err().unwrap();
        assert!(error.to_string().starts_with(&format!("{}: ", path.display())), "{error}");
        assert_eq!(error.hint().as_deref(), Some("create the folder first"));
    }
}

//! [`PairsWriter`]: pairs of near rows into a Parquet file.

use std::path::Path;

use super::table::{Numbers, ResultOptions, ResultTable, Shape};
use crate::parquet::WriteTableError;

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
    ) -> Result<Self, WriteTableError> {
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
    pub fn push(&mut self, pair: PairRow) -> Result<(), WriteTableError> {
        let PairRow { threshold, left, right, similarity } = pair;
        let numbers = Numbers { threshold, ordinals: [left, right], similarity };
        if self.table.push(&numbers) { self.table.write(None) } else { Ok(()) }
    }

    /// Writes what is left, publishes the file and returns how many pairs it holds.
    ///
    /// # Errors
    /// When writing or publishing fails; the file's place then holds what it held before.
    pub fn finish(mut self) -> Result<u64, WriteTableError> {
        self.table.write(None)?;
        self.table.finish()
    }
}

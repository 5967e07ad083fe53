//! [`ClustersWriter`]: members of clusters into a Parquet file.

use std::path::Path;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::StringBuilder;

use super::table::{Numbers, ResultOptions, ResultTable, Shape};
use crate::parquet::WriteTableError;

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
    ) -> Result<Self, WriteTableError> {
        let ordinals = ["row", "cluster"];
        let shape = Shape { kind: "clusters", ordinals, sorted: false, has_ids };
        let table = ResultTable::create(path, options, &shape)?;
        Ok(Self { table, ids: has_ids.then(StringBuilder::new) })
    }

    /// Appends a member.
    ///
    /// # Errors
    /// When writing fails.
    pub fn push(&mut self, member: ClusterRow<'_>) -> Result<(), WriteTableError> {
        let ClusterRow { threshold, row, cluster, similarity, id } = member;
        if let Some(ids) = &mut self.ids {
            ids.append_option(id);
        }
        let numbers = Numbers { threshold, ordinals: [row, cluster], similarity };
        if self.table.push(&numbers) { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), WriteTableError> {
        let ids = self.ids.as_mut().map(|ids| Arc::new(ids.finish()) as ArrayRef);
        self.table.write(ids)
    }

    /// Writes what is left, publishes the file and returns how many members it holds.
    ///
    /// # Errors
    /// When writing or publishing fails; the file's place then holds what it held before.
    pub fn finish(mut self) -> Result<u64, WriteTableError> {
        self.write()?;
        self.table.finish()
    }
}

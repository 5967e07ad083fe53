//! Other consolidators at work on the same store.

use super::BrainDb;
use crate::store::LoadStoreError;

/// A trace of another consolidator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rival {
    /// Where it was found.
    pub place: String,
    /// What it means.
    pub what: &'static str,
}

impl BrainDb {
    /// Looks for traces of other consolidators in the store and beside it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn rivals(&self) -> Result<Vec<Rival>, LoadStoreError> {
        let mut rivals = Vec::new();
        let reader = self.connect(false)?;
        let compresses: bool = reader
            .connection
            .query_row(
                "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'compression_log'",
                [],
                |row| row.get(0),
            )
            .map_err(|error| self.explain(&error, &reader.stamp))?;
        if compresses {
            let what = "an abstraction engine archives memories into summaries of its own";
            rivals.push(Rival { place: "table compression_log".to_owned(), what });
        }
        let beside = self.path().with_file_name("consolidations.db");
        if beside.exists() {
            let what = "a nightly consolidator deletes memories without a trace";
            rivals.push(Rival { place: beside.display().to_string(), what });
        }
        Ok(rivals)
    }
}

//! [`StoreFigures`]: counts that monitors of the store's owner ask for.

use rusqlite::Connection;

use crate::store::LoadStoreError;
use crate::store::brain_db::columns::Columns;
use crate::store::brain_db::open::BrainDb;

/// Counts over the whole memory table, as the owner's monitor makes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreFigures {
    /// Rows.
    pub memories: u64,
    /// Rows whose source begins with `consolidation`.
    pub consolidated: u64,
    /// Rows that have an embedding, whether usable or not.
    pub embedded: u64,
}

impl StoreFigures {
    /// Returns the share of consolidated rows, from 0 to 1.
    #[must_use]
    pub fn consolidated_share(&self) -> f64 {
        share(self.consolidated, self.memories)
    }

    /// Returns the share of rows that have an embedding, from 0 to 1.
    #[must_use]
    pub fn embedded_share(&self) -> f64 {
        share(self.embedded, self.memories)
    }

    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let embeddings = Columns::of(connection, "embeddings")?;
        let embedded = if embeddings.has_all(&["source_type", "source_id"]) {
            "(SELECT count(*) FROM stm WHERE EXISTS (SELECT 1 FROM embeddings AS e
              WHERE e.source_type = 'stm' AND e.source_id = stm.id))"
        } else {
            "0"
        };
        let sql = format!(
            "SELECT count(*), count(CASE WHEN source LIKE 'consolidation%' THEN 1 END), {embedded}
             FROM stm"
        );
        connection.query_row(&sql, [], |row| {
            let count = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
            Ok(Self { memories: count(0)?, consolidated: count(1)?, embedded: count(2)? })
        })
    }
}

impl BrainDb {
    /// Counts, without leaving a trace.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn figures(&self) -> Result<StoreFigures, LoadStoreError> {
        self.traceless(|reader, connection| {
            StoreFigures::read(connection)
                .map_err(|error| self.failed(&reader.stamp, "stm", &error))
        })
    }
}

/// 0 where there is nothing to take a share of.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

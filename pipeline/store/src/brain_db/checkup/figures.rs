//! [`StoreFigures`]: counts that monitors of the store's owner ask for.

use memfold_plan::report::StoreFigures;
use rusqlite::Connection;

use crate::LoadStoreError;
use crate::brain_db::columns::Columns;
use crate::brain_db::open::BrainDb;

pub(super) fn read(connection: &Connection) -> rusqlite::Result<StoreFigures> {
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
        Ok(StoreFigures { memories: count(0)?, consolidated: count(1)?, embedded: count(2)? })
    })
}

impl BrainDb {
    /// Counts, without leaving a trace.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn figures(&self) -> Result<StoreFigures, LoadStoreError> {
        self.traceless(|reader, connection| {
            read(connection).map_err(|error| self.failed(&reader.stamp, "stm", &error))
        })
    }
}

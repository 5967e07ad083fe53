//! Small questions to a store, without leaving a trace.

use rusqlite::Connection;

use super::BrainDb;
use crate::LoadStoreError;

impl BrainDb {
    /// Reads in one read transaction, again where somebody wrote meanwhile. `table` names what is read.
    pub(super) fn consult<T>(
        &self,
        table: &'static str,
        read: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, LoadStoreError> {
        self.traceless(|reader, connection| {
            read(connection).map_err(|error| self.failed(&reader.stamp, table, &error))
        })
    }
}

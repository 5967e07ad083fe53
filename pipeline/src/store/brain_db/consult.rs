//! Small questions to a store, without leaving a trace.

use rusqlite::Connection;

use super::BrainDb;
use super::access::Stamp;
use super::open::Reader;
use crate::store::LoadStoreError;

/// How often a store is read without locks before a writer's haste calls for them.
const UNLOCKED_TRIES: u32 = 2;

impl BrainDb {
    /// Reads in one read transaction, again where somebody wrote meanwhile. `table` names what is read.
    pub(super) fn consult<T>(
        &self,
        table: &'static str,
        read: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, LoadStoreError> {
        for _ in 0..UNLOCKED_TRIES {
            let reader = self.connect(false)?;
            let found = self.consult_once(table, &reader, &read);
            let (is_isolated, before) = (reader.access.is_isolated(), reader.stamp);
            if is_isolated || Stamp::take(self.path()).is_ok_and(|after| after == before) {
                return found;
            }
        }
        self.consult_once(table, &self.connect(true)?, &read)
    }

    fn consult_once<T>(
        &self,
        table: &'static str,
        reader: &Reader,
        read: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, LoadStoreError> {
        let begun = reader.connection.unchecked_transaction();
        let found = begun.and_then(|transaction| read(&transaction));
        found.map_err(|error| self.failed(reader, table, &error))
    }
}

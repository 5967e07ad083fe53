//! What the store knows of a memory: its row, lineage, provenance, decisions and flags.

mod claims;
mod notes;
mod store_lineage;

use jiff::tz::TimeZone;
use rusqlite::Connection;

pub(crate) use self::store_lineage::StoreLineage;
use super::BrainDb;
use crate::LoadStoreError;
use memfold_model::lineage::{Explanation, Resolved, explain_folds, resolve};
use memfold_model::memory::MemoryId;
use memfold_model::time::Instant;

impl BrainDb {
    /// Finds the live memory that holds what a memory of this id said.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn resolve(
        &self,
        id: &MemoryId,
        time_zone: &TimeZone,
        now: Instant,
    ) -> Result<Resolved, LoadStoreError> {
        self.consult("stm", |connection| {
            resolve(&StoreLineage::new(connection, time_zone, now)?, id)
        })
    }

    /// Tells all that is known of a memory.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn explain_memory(
        &self,
        id: &MemoryId,
        time_zone: &TimeZone,
        now: Instant,
    ) -> Result<Explanation, LoadStoreError> {
        self.consult("stm", |connection| {
            explain(connection, id, &StoreLineage::new(connection, time_zone, now)?)
        })
    }
}

fn explain(
    connection: &Connection,
    id: &MemoryId,
    lineage: &StoreLineage<'_>,
) -> rusqlite::Result<Explanation> {
    let memory = lineage.view(id)?;
    let content_hash = lineage.content_hash(id)?;
    let explained = explain_folds(lineage, id, memory)?;
    notes::added(connection, explained, content_hash.as_deref())
}

#[cfg(test)]
mod tests;

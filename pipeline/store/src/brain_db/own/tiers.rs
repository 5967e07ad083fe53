//! `memfold_tiers`: the tiers that memories were last assigned, so that each change is told once.

use std::collections::BTreeMap;

use memfold_model::memory::MemoryId;
use rusqlite::{OptionalExtension as _, params};

use crate::brain_db::read::access::Columns;
use crate::brain_db::read::open::BrainDb;
use crate::brain_db::write::session::{Session, SessionError};
use crate::memory_store::LoadStoreError;

/// Rows of one transaction: others wait a few milliseconds at most.
const BATCH_ROWS: usize = 2_000;

/// The tier of a memory, to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct AssignedTier {
    /// The memory.
    pub memory_id: MemoryId,
    /// `hot`, `warm`, `cold` or `archived`.
    pub tier: &'static str,
    /// Its retention then, from 0 to 1.
    pub retention: f64,
    /// What made the tier, as a JSON array of names.
    pub reasons: String,
}

impl BrainDb {
    /// Returns the stored tiers by memory; none where no tier was ever stored.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn assigned_tiers(&self) -> Result<BTreeMap<MemoryId, String>, LoadStoreError> {
        self.consult("memfold_tiers", |connection| {
            if Columns::of(connection, "memfold_tiers")?.is_empty() {
                return Ok(BTreeMap::new());
            }
            let mut statement = connection.prepare("SELECT memory_id, tier FROM memfold_tiers")?;
            let tiers = statement
                .query_map([], |row| Ok((MemoryId::new(row.get::<_, String>(0)?), row.get(1)?)))?;
            tiers.collect()
        })
    }

    /// Returns the tier that was stored last for a memory, what made it (a JSON array of names), and when.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn assigned_tier(
        &self,
        id: &MemoryId,
    ) -> Result<Option<(String, String, String)>, LoadStoreError> {
        self.consult("memfold_tiers", |connection| {
            if Columns::of(connection, "memfold_tiers")?.is_empty() {
                return Ok(None);
            }
            let sql =
                "SELECT tier, coalesce(reasons, '[]'), at FROM memfold_tiers WHERE memory_id = ?1";
            let found = connection
                .query_row(sql, [id.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
            found.optional()
        })
    }
}

impl Session {
    /// Stores tiers in place of earlier ones and removes those of memories that are `gone`; makes memfold's tables where
    /// needed. Each batch is one transaction: after an interruption the next call goes on. `at` is the time as the owner
    /// writes times.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn keep_tiers(
        &self,
        assigned: &[AssignedTier],
        gone: &[MemoryId],
        at: &str,
    ) -> Result<(), SessionError> {
        for batch in assigned.chunks(BATCH_ROWS) {
            self.write(|writes| {
                writes.prepare(at)?;
                for AssignedTier { memory_id, tier, retention, reasons } in batch {
                    writes.execute(
                        "store a tier",
                        "INSERT OR REPLACE INTO memfold_tiers(memory_id, tier, retention, reasons, at)
                         VALUES (?1, ?2, ?3, ?4, ?5)",
                        params![memory_id.as_str(), tier, retention, reasons, at],
                    )?;
                }
                Ok::<_, SessionError>(())
            })?;
        }
        for batch in gone.chunks(BATCH_ROWS) {
            self.write(|writes| {
                for memory_id in batch {
                    let sql = "DELETE FROM memfold_tiers WHERE memory_id = ?1";
                    writes.execute("remove a tier", sql, [memory_id.as_str()])?;
                }
                Ok::<_, SessionError>(())
            })?;
        }
        Ok(())
    }
}

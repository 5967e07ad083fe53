//! `memfold_tiers`: the tiers that memories were last assigned, so that each change is reported
//! once, and their earlier tiers.

use std::collections::BTreeMap;

use memfold_core::memory::MemoryId;
use rusqlite::{OptionalExtension as _, params};

use crate::brain_db::read::access::Columns;
use crate::brain_db::read::open::BrainDb;
use crate::brain_db::write::session::{Session, SessionError};
use crate::memory_store::LoadStoreError;

/// Rows of one transaction: others wait a few milliseconds at most.
const BATCH_ROWS: usize = 2_000;

/// Tiers before the last one that are remembered of a memory.
const EARLIER_MAX: usize = 32;

/// The stored tier of a memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTier {
    /// The tier that was assigned last.
    pub tier: String,
    /// The reasons, as a JSON array of names.
    pub reasons: String,
    /// Since when it is in this tier, as the owner writes times.
    pub at: String,
    /// The tiers before and when each was assigned, oldest first; the latest 32.
    pub earlier: Vec<(String, String)>,
}

/// The tier of a memory, to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct AssignedTier {
    /// The memory.
    pub memory_id: MemoryId,
    /// `hot`, `warm`, `cold` or `archived`.
    pub tier: &'static str,
    /// Its retention then, from 0 to 1.
    pub retention: f64,
    /// The reasons for the tier, as a JSON array of names.
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

    /// Returns the stored tier of a memory.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn stored_tier(&self, id: &MemoryId) -> Result<Option<StoredTier>, LoadStoreError> {
        self.consult("memfold_tiers", |connection| {
            let columns = Columns::of(connection, "memfold_tiers")?;
            if columns.is_empty() {
                return Ok(None);
            }
            // Tables of an earlier version lack the column.
            let earlier = columns.expression("earlier");
            let sql = format!(
                "SELECT tier, coalesce(reasons, '[]'), at, coalesce({earlier}, '[]')
                 FROM memfold_tiers WHERE memory_id = ?1"
            );
            let found = connection.query_row(&sql, [id.as_str()], |row| {
                let earlier: String = row.get(3)?;
                Ok(StoredTier {
                    tier: row.get(0)?,
                    reasons: row.get(1)?,
                    at: row.get(2)?,
                    // Unreadable values count as none.
                    earlier: serde_json::from_str(&earlier).unwrap_or_default(),
                })
            });
            found.optional()
        })
    }
}

impl Session {
    /// Stores tiers in place of earlier ones and removes the tiers of memories that are `gone`;
    /// makes memfold's tables where needed. Each batch is one transaction: after an interruption
    /// the next call goes on. `at` is the time as the owner writes times.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn keep_tiers(
        &self,
        assigned: &[AssignedTier],
        gone: &[MemoryId],
        at: &str,
    ) -> Result<(), SessionError> {
        let keep = format!(
            "INSERT INTO memfold_tiers(memory_id, tier, retention, reasons, at)
             VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT(memory_id) DO UPDATE SET
             earlier = CASE WHEN tier = excluded.tier THEN earlier ELSE json_insert(
                 CASE WHEN earlier IS NULL OR NOT json_valid(earlier) THEN '[]'
                     WHEN json_array_length(earlier) < {EARLIER_MAX} THEN earlier
                     ELSE json_remove(earlier, '$[0]') END,
                 '$[#]', json_array(tier, at)) END,
             at = CASE WHEN tier = excluded.tier THEN at ELSE excluded.at END,
             tier = excluded.tier, retention = excluded.retention, reasons = excluded.reasons"
        );
        for batch in assigned.chunks(BATCH_ROWS) {
            self.write(|writes| {
                writes.prepare(at)?;
                for AssignedTier { memory_id, tier, retention, reasons } in batch {
                    let row = params![memory_id.as_str(), tier, retention, reasons, at];
                    writes.execute("store a tier", &keep, row)?;
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

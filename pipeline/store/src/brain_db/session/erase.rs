//! Erasing: a memory leaves the owner's tables for good.

use super::fts::{self, Words};
use super::layout::{Layout, Search};
use super::rows::row;
use super::writes::Writes;
use super::{Session, SessionError};

/// What there was of a memory in the owner's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Traces {
    /// Its row.
    pub(crate) rows: u64,
    /// Its vectors.
    pub(crate) embeddings: u64,
    /// Its search entry.
    pub(crate) search_entries: u64,
    /// Rows of `atoms` that name it.
    pub(crate) references: u64,
}

impl Writes<'_> {
    /// Counts what there is of a memory in the owner's tables.
    pub(crate) fn traces(&self, layout: &Layout, id: &str) -> Result<Traces, SessionError> {
        let found = self.query("read a memory", |connection| {
            row(connection, (&layout.memories, layout.has_rowid), ("id", id))
        })?;
        let embeddings = if layout.embeddings.is_empty() {
            0
        } else {
            self.query("count embeddings", |connection| {
                let sql =
                    "SELECT count(*) FROM embeddings WHERE source_type = 'stm' AND source_id = ?1";
                connection.prepare_cached(sql)?.query_row([id], |row| row.get::<_, i64>(0))
            })?
        };
        let has_entry = match (found.as_ref().and_then(|row| row.rowid), &layout.search) {
            (Some(rowid), Search::ByHand { .. }) => {
                self.query("look for a search entry", |c| super::rows::is_indexed(c, rowid))?
            }
            (Some(_), Search::ByTriggers) => true,
            _ => false,
        };
        Ok(Traces {
            rows: found.is_some().into(),
            embeddings: embeddings.unsigned_abs(),
            search_entries: has_entry.into(),
            references: self.references(layout, &[id])?.len() as u64,
        })
    }

    /// Removes a memory, its vectors and its search entry from the owner's tables.
    pub(crate) fn erase(&self, layout: &Layout, id: &str) -> Result<(), SessionError> {
        let found = self.query("read a memory", |connection| {
            row(connection, (&layout.memories, layout.has_rowid), ("id", id))
        })?;
        if let Some((rowid, image)) = found.and_then(|image| Some((image.rowid?, image))) {
            match fts::words(self, layout, (id, &image), None)? {
                Words::Earlier(words) => fts::remove(self, layout, (rowid, &words))?,
                Words::None | Words::Now | Words::Unknown => {
                    fts::remove(self, layout, (rowid, &image))?;
                }
            }
        }
        if !layout.atoms.is_empty() {
            let sql = "UPDATE atoms SET source_memory_id = NULL WHERE source_memory_id = ?1";
            self.execute("take a name out of atoms", sql, [id])?;
        }
        if !layout.embeddings.is_empty() {
            let sql = "DELETE FROM embeddings WHERE source_type = 'stm' AND source_id = ?1";
            self.execute("remove an embedding", sql, [id])?;
        }
        self.execute("remove a memory", "DELETE FROM stm WHERE id = ?1", [id]).map(drop)
    }
}

impl Session {
    /// From now on, what is deleted is overwritten with zeros.
    pub(crate) fn overwrite_deleted(&self) -> Result<(), SessionError> {
        self.connection
            .pragma_update(None, "secure_delete", true)
            .map_err(|error| self.explain("overwrite what is deleted", &error))
    }

    /// Rewrites the search index without what was removed from it, and empties the write-ahead log. `false`: another
    /// process still reads the log, which keeps old pages until it is done.
    pub(crate) fn settle(&self) -> Result<bool, SessionError> {
        let is_by_hand =
            self.read::<_, SessionError>(|reads| Ok(reads.layout()?.keeps_search_by_hand()))?;
        if is_by_hand {
            let sql = "INSERT INTO stm_fts(stm_fts) VALUES ('optimize')";
            self.write(|writes| writes.execute("optimize the search index", sql, []))?;
        }
        let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
        let is_busy: i64 = self
            .connection
            .query_row(sql, [], |row| row.get(0))
            .map_err(|error| self.explain("empty the write-ahead log", &error))?;
        Ok(is_busy == 0)
    }
}

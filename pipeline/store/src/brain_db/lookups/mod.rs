//! [`StoreReader`]: what lookups ask a store, memory by memory.

mod fates;
mod pairs;
mod marks;
mod since;

use std::cell::OnceCell;

use super::columns::{self, Columns};
use super::load::Pass;
use super::open::{BrainDb, KeptReader};
use super::session::{SessionError, Writes};
use super::{OpenOptions, access::Stamp};
use crate::reading::ModelShapes;
use crate::{LoadRequest, LoadStoreError, OpenStoreError};

pub use self::fates::LiveMemory;
pub use self::fates::{Fate, Ghost};
pub use self::marks::{Marks, Reach, Reaches, Watermark};
pub use self::pairs::OpenFlag;

/// A store inside one transaction.
pub struct StoreReader<'a> {
    pass: Pass<'a>,
    embeddings: Columns,
    has_rowid: bool,
    has_rowid_of_memories: bool,
    own: OnceCell<OwnTables>,
}

/// Which of memfold's tables there are.
#[derive(Debug, Clone, Copy)]
struct OwnTables {
    has_lineage: bool,
    has_archive: bool,
    has_revived: bool,
}

impl BrainDb {
    /// Reads single memories in one read transaction, without leaving a trace; `read` is called again where somebody
    /// wrote meanwhile.
    ///
    /// # Errors
    /// What `read` returns, and where the store cannot be opened.
    pub fn look_up<T, E: From<OpenStoreError> + From<LoadStoreError>>(
        &self,
        request: &LoadRequest<'_>,
        mut read: impl FnMut(&StoreReader<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.traceless(|reader, connection| {
            read(&StoreReader::over(Pass::over(self, reader, connection, request))?)
        })
    }
}

impl BrainDb {
    /// As [`Self::look_up`], by a connection that is kept for the next call.
    pub fn look_up_again<T, E: From<OpenStoreError> + From<LoadStoreError>>(
        &self,
        kept: &KeptReader,
        request: &LoadRequest<'_>,
        mut read: impl FnMut(&StoreReader<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.traceless_again(kept, |reader, connection| {
            read(&StoreReader::over(Pass::over(self, reader, connection, request))?)
        })
    }
}

impl Writes<'_> {
    /// Reads single memories as they are in this transaction.
    pub fn look_up<T, E: From<SessionError> + From<LoadStoreError>>(
        &self,
        request: &LoadRequest<'_>,
        read: impl FnOnce(&StoreReader<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let store = BrainDb::at(self.path(), OpenOptions::default());
        let denied = |error: std::io::Error| {
            let (path, reason) = (self.path().to_owned(), error.to_string());
            SessionError::from(OpenStoreError::Denied { path, reason })
        };
        let stamp = Stamp::take(self.path()).map_err(denied)?;
        let columns = Columns::of(self.connection(), "stm");
        let memory_columns = &columns.map_err(|error| store.failed(&stamp, "stm", &error))?;
        let (connection, stamp) = (self.connection(), &stamp);
        let pass = Pass { store: &store, stamp, memory_columns, connection, request };
        read(&StoreReader::over(pass)?)
    }
}

impl<'a> StoreReader<'a> {
    fn over(pass: Pass<'a>) -> Result<Self, LoadStoreError> {
        let failed = |error: rusqlite::Error| pass.failed("embeddings", error);
        let embeddings = Columns::of(pass.connection, "embeddings").map_err(failed)?;
        let has_rowid = columns::has_rowid(pass.connection, "embeddings").map_err(failed)?;
        let has_rowid_of_memories = columns::has_rowid(pass.connection, "stm").map_err(failed)?;
        Ok(Self { pass, embeddings, has_rowid, has_rowid_of_memories, own: OnceCell::new() })
    }

    /// Returns the name that an earlier run gave the store, if any did.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn recorded_name(&self) -> Result<Option<Box<str>>, LoadStoreError> {
        self.pass.recorded_store_id()
    }

    /// Looks over all embeddings to learn how models write their vectors.
    pub fn shapes(&self) -> Result<ModelShapes, LoadStoreError> {
        Ok(self.pass.survey(&mut Vec::new())?.0)
    }

    /// Returns the ids of memories whose text is stored in exactly these words, in any order.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn ids_of_text(&self, text: &str) -> Result<Vec<String>, LoadStoreError> {
        let failed = |error| self.pass.failed("stm", error);
        let sql = "SELECT id FROM stm WHERE content = ?1 AND typeof(id) = 'text'";
        let mut statement = self.pass.connection.prepare_cached(sql).map_err(failed)?;
        let ids = statement.query_map([text], |row| row.get(0)).map_err(failed)?;
        ids.collect::<Result<_, _>>().map_err(failed)
    }

    /// Tells whether any memory has an embedding, of any kind.
    pub fn has_any_embedding(&self) -> Result<bool, LoadStoreError> {
        if !self.has_embeddings() {
            return Ok(false);
        }
        let sql = "SELECT 1 FROM embeddings WHERE source_type = 'stm' LIMIT 1";
        let found = self.pass.connection.prepare_cached(sql).and_then(|mut s| s.exists([]));
        found.map_err(|error| self.failed(error))
    }

    /// Counts the memories in use that have no row of `embeddings`. Reads both tables.
    pub fn count_without_vector(&self) -> Result<u64, LoadStoreError> {
        let has_none = match self.has_embeddings() {
            true => {
                "AND id NOT IN (SELECT source_id FROM embeddings
                                WHERE source_type = 'stm' AND source_id IS NOT NULL)"
            }
            false => "",
        };
        let sql = format!(
            "SELECT count(*) FROM stm WHERE id IS NOT NULL {has_none}
             AND coalesce(source, '') NOT LIKE 'archived:%'
             AND coalesce(source, '') NOT LIKE 'consolidation:contradiction:%'"
        );
        let failed = |error| self.pass.failed("stm", error);
        let mut statement = self.pass.connection.prepare_cached(&sql).map_err(failed)?;
        let count: i64 = statement.query_row([], |row| row.get(0)).map_err(failed)?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    fn has_embeddings(&self) -> bool {
        self.embeddings.has_all(&["source_type", "source_id", "embedding"])
    }

    fn own(&self) -> Result<OwnTables, LoadStoreError> {
        if let Some(own) = self.own.get() {
            return Ok(*own);
        }
        let has = |table, needed: &[&str]| {
            let columns = Columns::of(self.pass.connection, table);
            columns.map(|columns| columns.has_all(needed)).map_err(|e| self.pass.failed(table, e))
        };
        let own = OwnTables {
            has_lineage: has("memfold_lineage", &["absorbed_id", "survivor_id", "active"])?,
            has_archive: has(
                "memfold_archive",
                &["memory_id", "table_name", "row", "survivor_id"],
            )?,
            has_revived: has("memfold_revived", &["seq", "memory_id", "at"])?,
        };
        Ok(*self.own.get_or_init(|| own))
    }

    fn embedding_columns(&self) -> String {
        self.embeddings.expressions(&["source_id", "content", "embedding", "model"])
    }

    fn failed(&self, error: rusqlite::Error) -> LoadStoreError {
        self.pass.failed("embeddings", error)
    }
}

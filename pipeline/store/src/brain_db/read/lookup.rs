//! [`StoreReader`]: the queries of lookups, memory by memory.

use std::cell::OnceCell;

use rusqlite::OptionalExtension as _;

use crate::brain_db::own::archive::ArchiveReader;
use crate::brain_db::read::access::{Columns, has_rowid};
use crate::brain_db::read::load::Pass;
use crate::brain_db::read::open::{BrainDb, KeptReader, OpenStoreError};
use crate::memory_store::{LoadRequest, LoadStoreError};
use crate::reading::vector::ModelShapes;

/// A store inside one transaction.
pub struct StoreReader<'a> {
    pub(crate) pass: Pass<'a>,
    embeddings: Columns,
    pub(crate) has_rowid: bool,
    pub(crate) has_rowid_of_memories: bool,
    own: OnceCell<OwnTables>,
    archive: OnceCell<Option<ArchiveReader>>,
}

/// The tables that exist beside those of memories and embeddings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnTables {
    pub(crate) has_lineage: bool,
    pub(crate) has_archive: bool,
    pub(crate) has_revived: bool,
    pub(crate) has_edges: bool,
    pub(crate) has_summaries: bool,
    /// The owner's full-text index.
    pub(crate) has_words: bool,
}

impl BrainDb {
    /// Reads single memories in one read transaction, without leaving a trace; `read` is called again where somebody
    /// wrote meanwhile.
    ///
    /// # Errors
    /// The error of `read`, or that the store cannot be opened.
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

impl<'a> StoreReader<'a> {
    pub(crate) fn over(pass: Pass<'a>) -> Result<Self, LoadStoreError> {
        let failed = |error: rusqlite::Error| pass.failed("embeddings", error);
        let embeddings = Columns::of(pass.connection, "embeddings").map_err(failed)?;
        let embeddings_have_rowid = has_rowid(pass.connection, "embeddings").map_err(failed)?;
        let has_rowid_of_memories = has_rowid(pass.connection, "stm").map_err(failed)?;
        Ok(Self {
            pass,
            embeddings,
            has_rowid: embeddings_have_rowid,
            has_rowid_of_memories,
            own: OnceCell::new(),
            archive: OnceCell::new(),
        })
    }

    /// Returns the name that an earlier run gave the store, if any did.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn recorded_name(&self) -> Result<Option<Box<str>>, LoadStoreError> {
        self.pass.recorded_store_id()
    }

    /// Surveys all embeddings to learn how models write their vectors.
    pub fn shapes(&self) -> Result<ModelShapes, LoadStoreError> {
        Ok(self.pass.survey(&mut Vec::new())?.0)
    }

    /// Returns the ids of memories with exactly this text, in any order.
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

    pub(crate) fn has_embeddings(&self) -> bool {
        self.embeddings.has_all(&["source_type", "source_id", "embedding"])
    }

    pub(crate) fn own(&self) -> Result<OwnTables, LoadStoreError> {
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
                &["memory_id", "table_name", "row", "survivor_id", "run_id", "at"],
            )?,
            has_revived: has("memfold_revived", &["seq", "memory_id", "at"])?,
            has_edges: has(
                "memfold_edges",
                &["source_id", "target_id", "type", "confidence", "at", "active"],
            )?,
            has_summaries: has("memfold_summaries", &["memory_id", "body", "active"])?,
            has_words: has("stm_fts", &["content"])?,
        };
        Ok(*self.own.get_or_init(|| own))
    }

    /// Returns how the archive is read; `None` where there is none that can be.
    pub(crate) fn archive(&self) -> Result<Option<&ArchiveReader>, LoadStoreError> {
        if !self.own()?.has_archive {
            return Ok(None);
        }
        if let Some(archive) = self.archive.get() {
            return Ok(archive.as_ref());
        }
        let read = ArchiveReader::of(self.pass.connection);
        let read = read.map_err(|error| self.pass.failed("memfold_archive", error))?;
        Ok(self.archive.get_or_init(|| read).as_ref())
    }

    pub(crate) fn embedding_columns(&self) -> String {
        self.embeddings.expressions(&["source_id", "content", "embedding", "model"])
    }

    pub(crate) fn failed(&self, error: rusqlite::Error) -> LoadStoreError {
        self.pass.failed("embeddings", error)
    }
}

/// A row by which a later reader finds its place again.
///
/// SQLite gives the highest row number to the next row when a row is deleted, so a number alone says nothing.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Watermark {
    /// Its row number.
    pub rowid: i64,
    /// The first 16 hex digits of the blake3 of the row's content: id and text, or id and vector as
    /// stored.
    pub digest: Box<str>,
}

/// Where the tables of a store ended; of each table the latest row first, and some before.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Marks {
    /// In `embeddings`.
    pub embeddings: Vec<Watermark>,
    /// In `stm`.
    pub memories: Vec<Watermark>,
    /// In `memfold_archive`.
    pub archive: Vec<Watermark>,
    /// In `memfold_revived`.
    #[serde(default)]
    pub revived: Vec<Watermark>,
}

/// How far into a table marks reach, in view of the table as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Rows up to this number were seen, as far as the last seen rows show.
    After(i64),
    /// No last seen row is where it was: the table was renumbered, or it is another store. Or a row
    /// has the last number there is, and new rows may stand anywhere.
    Lost,
}

impl Reach {
    /// From the first row on.
    pub const START: Self = Self::After(i64::MIN);

    /// Returns the row number after which everything is new.
    #[must_use]
    pub const fn rowid(self) -> i64 {
        match self {
            Self::After(rowid) => rowid,
            Self::Lost => i64::MIN,
        }
    }
}

/// How far marks reach into each table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reaches {
    /// Into `embeddings`.
    pub embeddings: Reach,
    /// Into `stm`.
    pub memories: Reach,
    /// Into `memfold_archive`; a table that is gone is read from its start.
    pub archive: Reach,
    /// Into `memfold_revived`, likewise.
    pub revived: Reach,
}

impl Reaches {
    /// Everything is new, including revived memories.
    pub const START: Self = Self {
        embeddings: Reach::START,
        memories: Reach::START,
        archive: Reach::START,
        revived: Reach::After(i64::MAX),
    };

    /// Tells whether rows were renumbered, or it is another store.
    #[must_use]
    pub fn is_lost(self) -> bool {
        self.embeddings == Reach::Lost || self.memories == Reach::Lost
    }
}

/// A table in which places are marked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Marked {
    Embeddings,
    Memories,
    Archive,
    Revived,
}

/// This many last seen rows stand one by one at the end, others ever farther apart.
const WATERMARKS_CLOSE: i64 = 16;
/// This many are enough for a reader that comes back soon.
const WATERMARKS_LAST: usize = 3;

impl Marked {
    /// The columns that are read, hashed and counted. An index would look up nearly every row one
    /// by one.
    const fn sql(self) -> &'static str {
        match self {
            Self::Embeddings => {
                "SELECT rowid, CAST(source_id AS BLOB), CAST(embedding AS BLOB)
                 FROM embeddings NOT INDEXED WHERE source_type = 'stm' AND "
            }
            Self::Memories => {
                "SELECT rowid, CAST(id AS BLOB), CAST(content AS BLOB) FROM stm NOT INDEXED WHERE "
            }
            Self::Archive => {
                "SELECT rowid, CAST(memory_id AS BLOB), CAST(row || run_id || at AS BLOB)
                 FROM memfold_archive NOT INDEXED WHERE table_name = 'stm' AND "
            }
            Self::Revived => {
                "SELECT rowid, CAST(memory_id AS BLOB), CAST(at AS BLOB)
                 FROM memfold_revived NOT INDEXED WHERE "
            }
        }
    }
}

impl StoreReader<'_> {
    /// Returns where the tables end.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn marks(&self) -> Result<Marks, LoadStoreError> {
        self.marks_of(usize::MAX)
    }

    /// Returns the last rows of the tables, for a reader that comes back soon.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn last_marks(&self) -> Result<Marks, LoadStoreError> {
        self.marks_of(WATERMARKS_LAST)
    }

    fn marks_of(&self, most: usize) -> Result<Marks, LoadStoreError> {
        Ok(Marks {
            embeddings: self.watermarks(Marked::Embeddings, most)?,
            memories: self.watermarks(Marked::Memories, most)?,
            archive: self.watermarks(Marked::Archive, most)?,
            revived: self.watermarks(Marked::Revived, most)?,
        })
    }

    /// Finds the latest mark of each table that is still where it was.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn reaches(&self, marks: &Marks) -> Result<Reaches, LoadStoreError> {
        let from_start = |reach| if reach == Reach::Lost { Reach::START } else { reach };
        let archive = from_start(self.reach(Marked::Archive, &marks.archive)?);
        let revived = from_start(self.reach(Marked::Revived, &marks.revived)?);
        Ok(Reaches {
            embeddings: self.reach(Marked::Embeddings, &marks.embeddings)?,
            memories: self.reach(Marked::Memories, &marks.memories)?,
            archive,
            revived,
        })
    }

    /// Passes on id and text of memories that came, were moved into the archive or live again after a place; `false` where
    /// there are more than `limit` of one kind, of which the first ones were passed on.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn all_texts_since(
        &self,
        reaches: Reaches,
        limit: usize,
        mut take: impl FnMut(&str, &str),
    ) -> Result<bool, LoadStoreError> {
        Ok(self.texts_since(reaches.memories, limit, &mut take)?
            && self.archived_texts_since(reaches.archive, limit, &mut take)?
            && self.revived_texts_since(reaches.revived, limit, &mut take)?)
    }

    fn watermarks(&self, table: Marked, most: usize) -> Result<Vec<Watermark>, LoadStoreError> {
        let mut watermarks = Vec::new();
        let Some(mut below) = self.can_mark(table)?.then_some(i64::MAX) else {
            return Ok(watermarks);
        };
        let mut gap = 1;
        while let Some(watermark) =
            self.watermark(table, "rowid <= ?1 ORDER BY rowid DESC LIMIT 1", below)?
        {
            if watermarks.len() as i64 >= WATERMARKS_CLOSE {
                gap *= 2;
            }
            let next = watermark.rowid.checked_sub(gap);
            watermarks.push(watermark);
            let Some(next) = next.filter(|_| watermarks.len() < most) else { break };
            below = next;
        }
        Ok(watermarks)
    }

    fn reach(&self, table: Marked, watermarks: &[Watermark]) -> Result<Reach, LoadStoreError> {
        // A table that was empty has no last seen rows, and everything in it is new.
        if watermarks.is_empty() {
            return Ok(Reach::START);
        }
        if !self.can_mark(table)? || self.has_last_rowid(table)? {
            return Ok(Reach::Lost);
        }
        for watermark in watermarks {
            if self.watermark(table, "rowid = ?1", watermark.rowid)?.as_ref() == Some(watermark) {
                return Ok(Reach::After(watermark.rowid));
            }
        }
        Ok(Reach::Lost)
    }

    fn can_mark(&self, table: Marked) -> Result<bool, LoadStoreError> {
        Ok(match table {
            Marked::Embeddings => self.has_rowid && self.has_embeddings(),
            Marked::Memories => self.has_rowid_of_memories,
            Marked::Archive => self.own()?.has_archive,
            Marked::Revived => self.own()?.has_revived,
        })
    }

    /// Tells whether a row has the last number there is: SQLite then gives new rows any number that is free.
    fn has_last_rowid(&self, table: Marked) -> Result<bool, LoadStoreError> {
        Ok(self.watermark(table, "rowid = ?1", i64::MAX)?.is_some())
    }

    fn watermark(
        &self,
        table: Marked,
        which: &str,
        rowid: i64,
    ) -> Result<Option<Watermark>, LoadStoreError> {
        let sql = format!("{}{which}", table.sql());
        let mut statement =
            self.pass.connection.prepare_cached(&sql).map_err(|e| self.failed(e))?;
        let watermark = statement.query_row([rowid], |row| {
            let mut hasher = blake3::Hasher::new();
            for column in [1, 2] {
                let bytes = row.get_ref(column)?.as_blob_or_null()?.unwrap_or_default();
                hasher.update(&(bytes.len() as u64).to_le_bytes());
                hasher.update(bytes);
            }
            let digest = hasher.finalize().to_hex()[..16].into();
            Ok(Watermark { rowid: row.get(0)?, digest })
        });
        watermark.optional().map_err(|error| self.failed(error))
    }
}

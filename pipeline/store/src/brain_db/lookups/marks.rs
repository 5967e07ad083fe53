//! [`Marks`]: places in a store's tables that a later reader finds again.

use rusqlite::OptionalExtension as _;

use super::StoreReader;
use crate::LoadStoreError;

/// A row by which a later reader finds its place again.
///
/// SQLite gives the highest row number to the next row when a row is deleted, so a number alone says nothing.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Watermark {
    /// Its row number.
    pub rowid: i64,
    /// The first 16 hex digits of the blake3 of what the row says: id and text, or id and vector as stored.
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
    /// Rows up to this number are those that were seen, so far as watermarks tell.
    After(i64),
    /// No watermark is where it was: the table was renumbered, or it is another store. Or a row has the last number there
    /// is, and new rows may stand anywhere.
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
    /// Everything is new, and whatever lives again is among it.
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
pub(super) enum Marked {
    Embeddings,
    Memories,
    Archive,
    Revived,
}

/// So many watermarks stand one by one at the end, others ever farther apart.
const WATERMARKS_CLOSE: i64 = 16;
/// So many are enough for a reader that comes back at once.
const WATERMARKS_LAST: usize = 3;

impl Marked {
    /// What is read, hashed and counted. By an index nearly every row would be found one by one.
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
                "SELECT rowid, CAST(memory_id AS BLOB), CAST(row AS BLOB)
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

    /// Returns the last rows of the tables, for a reader that comes back at once.
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
        // A table that was empty has no watermarks, and everything in it came since.
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

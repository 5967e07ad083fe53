//! What the owner's tables look like, as far as writing needs to know.

use rusqlite::{Connection, OptionalExtension as _};

use super::reactions;
use crate::brain_db::columns::{self, Columns};
use crate::journal::REFERENCE;

/// The owner's tables.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Columns of `stm` that can be written.
    pub(super) memories: Columns,
    /// Whether rows of `stm` have a rowid.
    pub(super) has_rowid: bool,
    /// Columns of `embeddings`; empty where there is no such table of use.
    pub(super) embeddings: Columns,
    pub(super) embeddings_have_rowid: bool,
    /// Columns of `embeddings` that want a value and have no default.
    pub(super) wanted_of_embeddings: Vec<String>,
    /// Whether ids of embeddings are texts.
    pub(super) embedding_ids_are_texts: bool,
    /// How texts become searchable.
    pub(super) search: Search,
    /// Columns of `atoms`; empty where they name no memories.
    pub(super) atoms: Columns,
    /// What else happens in the store when a row of `stm` or `embeddings` goes or comes back.
    pub(crate) reactions: Vec<String>,
}

/// How texts become searchable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Search {
    /// There is no `stm_fts`, or one whose layout nobody here understands: it is left alone.
    None,
    /// Triggers of the owner keep it.
    ByTriggers,
    /// It is kept by hand: these columns of `stm` go into the columns of the same names.
    ByHand {
        /// Its columns.
        columns: Vec<String>,
        /// How an entry is removed.
        removal: Removal,
    },
}

/// How an entry of a search index is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Removal {
    /// By naming the exact text that was indexed.
    ByText,
    /// By plain DELETE, with `contentless_delete=1`.
    Plain,
    /// By plain DELETE, and the index keeps the texts.
    PlainWithTexts,
}

impl Layout {
    pub(super) fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let memories = Columns::of(connection, "stm")?;
        let mut embeddings = Columns::of(connection, "embeddings")?;
        if !embeddings.has_all(&["source_type", "source_id", "embedding"]) {
            embeddings = Columns::of(connection, "memfold_no_such_table")?;
        }
        let has_rowid = columns::has_rowid(connection, "stm")?;
        let search = match has_rowid {
            true => Search::of(connection, &memories)?,
            // Search entries belong to rowids.
            false => Search::None,
        };
        let mut atoms = Columns::of(connection, "atoms")?;
        if !atoms.has_all(&["id", REFERENCE]) || !columns::has_rowid(connection, "atoms")? {
            atoms = Columns::of(connection, "memfold_no_such_table")?;
        }
        Ok(Self {
            has_rowid,
            atoms,
            embeddings_have_rowid: columns::has_rowid(connection, "embeddings")?,
            wanted_of_embeddings: wanted(connection, "embeddings")?,
            embedding_ids_are_texts: embeddings.has("id")
                && !declares_integers(connection, "embeddings", "id")?,
            search,
            reactions: reactions::of(connection)?,
            memories,
            embeddings,
        })
    }

    /// Tells whether search entries are ours to keep.
    pub(crate) fn keeps_search_by_hand(&self) -> bool {
        matches!(self.search, Search::ByHand { .. })
    }

    /// Returns why rows must not be moved out of the owner's tables, if anything forbids it: a row that is deleted and
    /// later inserted again could take rows of other tables with it.
    pub fn move_refusal(&self) -> Option<&str> {
        self.reactions.first().map(String::as_str)
    }
}

impl Search {
    fn of(connection: &Connection, memories: &Columns) -> rusqlite::Result<Self> {
        let ddl: Option<String> = connection
            .query_row(
                "SELECT sql FROM sqlite_master WHERE name = 'stm_fts' AND type = 'table'",
                [],
                |row| row.get(0),
            )
            .optional()?;
        let Some(ddl) = ddl else { return Ok(Self::None) };
        let lower = ddl.to_lowercase();
        let words: String =
            lower.chars().filter(|c| !c.is_whitespace() && !matches!(c, '\'' | '"')).collect();
        if !words.contains("usingfts5(") {
            return Ok(Self::None);
        }
        let by_triggers: bool = connection.query_row(
            "SELECT count(*) FROM sqlite_master
             WHERE type = 'trigger' AND lower(tbl_name) = 'stm' AND lower(sql) LIKE '%stm_fts%'",
            [],
            |row| row.get(0),
        )?;
        if by_triggers {
            return Ok(Self::ByTriggers);
        }
        let is_table = |name: &str| -> rusqlite::Result<bool> {
            let sql = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?1";
            connection.query_row(sql, [name], |row| row.get(0))
        };
        let columns = Columns::of(connection, "stm_fts")?.into_names();
        if !is_table("stm_fts_docsize")?
            || columns.is_empty()
            || !columns.iter().all(|name| memories.has(name))
        {
            return Ok(Self::None);
        }
        let removal = if is_table("stm_fts_content")? {
            Removal::PlainWithTexts
        } else if words.contains("contentless_delete=1") {
            Removal::Plain
        } else {
            Removal::ByText
        };
        Ok(Self::ByHand { columns, removal })
    }
}

/// The columns of a table that must be given a value.
fn wanted(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare_cached(
        "SELECT name FROM pragma_table_info(?1) WHERE \"notnull\" = 1 AND dflt_value IS NULL",
    )?;
    statement.query_map([table], |row| row.get(0))?.collect()
}

fn declares_integers(connection: &Connection, table: &str, column: &str) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached(
        "SELECT 1 FROM pragma_table_info(?1) WHERE lower(name) = ?2 AND upper(type) LIKE '%INT%'",
    )?;
    statement.exists([table, column])
}

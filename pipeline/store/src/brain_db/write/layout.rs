//! The layout of the owner's tables, as far as writing needs it.

use rusqlite::{Connection, OptionalExtension as _};

use crate::brain_db::read::access::{Columns, has_rowid};
use memfold_core::journal::REFERENCE;
use memfold_guard::text::excerpt;

/// The owner's tables.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Columns of `stm` that can be written.
    pub(crate) memories: Columns,
    /// Whether rows of `stm` have a rowid.
    pub(crate) has_rowid: bool,
    /// Columns of `embeddings`; empty where there is no usable table of that name.
    pub(crate) embeddings: Columns,
    pub(crate) embeddings_have_rowid: bool,
    /// Columns of `embeddings` that want a value and have no default.
    pub(crate) wanted_of_embeddings: Vec<String>,
    /// Whether ids of embeddings are texts.
    pub(crate) embedding_ids_are_texts: bool,
    /// How texts become searchable.
    pub(crate) search: Search,
    /// Columns of `atoms`; empty where they name no memories.
    pub(crate) atoms: Columns,
    /// Side effects in the store when a row of `stm` or `embeddings` is deleted or inserted.
    pub(crate) reactions: Vec<String>,
}

/// How texts become searchable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Search {
    /// There is no `stm_fts`, or its layout is unknown: it is left alone.
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
pub(crate) enum Removal {
    /// With the exact text that was indexed.
    ByText,
    /// By plain DELETE, with `contentless_delete=1`.
    Plain,
    /// By plain DELETE, and the index keeps the texts.
    PlainWithTexts,
}

impl Layout {
    pub(crate) fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let memories = Columns::of(connection, "stm")?;
        let mut embeddings = Columns::of(connection, "embeddings")?;
        if !embeddings.has_all(&["source_type", "source_id", "embedding"]) {
            embeddings = Columns::of(connection, "memfold_no_such_table")?;
        }
        let memories_have_rowid = has_rowid(connection, "stm")?;
        let search = match memories_have_rowid {
            true => Search::of(connection, &memories)?,
            // Search entries belong to rowids.
            false => Search::None,
        };
        let mut atoms = Columns::of(connection, "atoms")?;
        if !atoms.has_all(&["id", REFERENCE]) || !has_rowid(connection, "atoms")? {
            atoms = Columns::of(connection, "memfold_no_such_table")?;
        }
        Ok(Self {
            has_rowid: memories_have_rowid,
            atoms,
            embeddings_have_rowid: has_rowid(connection, "embeddings")?,
            wanted_of_embeddings: wanted(connection, "embeddings")?,
            embedding_ids_are_texts: embeddings.has("id")
                && !declares_integers(connection, "embeddings", "id")?,
            search,
            reactions: reactions_of(connection)?,
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

/// Characters of a name.
const NAME_CHARS: usize = 60;

/// Lists the side effects in other tables when a row of `stm` or `embeddings` is deleted or
/// inserted. A store in UTF-16 is listed as well: SQLite hands out its texts in UTF-8, which has no
/// halves of characters.
///
/// Triggers that only keep the search index in step are not reactions.
pub(crate) fn reactions_of(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut found = Vec::new();
    let encoding: String = connection.query_row("PRAGMA encoding", [], |row| row.get(0))?;
    if encoding != "UTF-8" {
        found.push(format!(
            "texts are stored in {encoding}, where halves of characters would be lost"
        ));
    }
    let mut statement = connection.prepare_cached(
        "SELECT DISTINCT m.name, lower(f.\"table\")
         FROM sqlite_master AS m, pragma_foreign_key_list(m.name) AS f
         WHERE m.type = 'table' AND lower(f.\"table\") IN ('stm', 'embeddings') ORDER BY 1, 2",
    )?;
    let referring = statement.query_map([], |row| {
        let (table, to): (String, String) = (row.get(0)?, row.get(1)?);
        let table = excerpt(&table, NAME_CHARS);
        Ok(format!("table {table} refers to {to} by a foreign key"))
    })?;
    for reaction in referring {
        found.push(reaction?);
    }
    let mut statement = connection.prepare_cached(
        "SELECT name, lower(tbl_name), sql FROM sqlite_master
         WHERE type = 'trigger'
           AND (lower(tbl_name) IN ('stm', 'embeddings') OR lower(tbl_name) LIKE 'stm\\_fts%' ESCAPE '\\')
         ORDER BY 1",
    )?;
    let mut triggers = statement.query([])?;
    while let Some(row) = triggers.next()? {
        let (name, table, sql): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let event = event(&sql);
        if event == Some(Event::Update) || keeps_search_in_step(&sql) {
            continue;
        }
        let name = excerpt(&name, NAME_CHARS);
        let what = if event == Some(Event::Insert) { "inserted" } else { "deleted" };
        found.push(format!("trigger {name} runs when a row of {table} is {what}"));
    }
    Ok(found)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Delete,
    Insert,
    Update,
}

/// Returns the event of a trigger: the first event word behind its name, which SQLite stores as
/// `CREATE TRIGGER <name> …`.
fn event(sql: &str) -> Option<Event> {
    let start = sql.get(.."CREATE TRIGGER ".len())?;
    let rest = sql.strip_prefix(start).filter(|_| start.eq_ignore_ascii_case("CREATE TRIGGER "))?;
    let words = behind_name(rest.trim_start())?;
    for word in words.split_whitespace().take(4) {
        match word.to_ascii_lowercase().as_str() {
            "before" | "after" | "instead" | "of" => {}
            "delete" => return Some(Event::Delete),
            "insert" => return Some(Event::Insert),
            "update" => return Some(Event::Update),
            // A comment, or an unknown token.
            _ => return None,
        }
    }
    None
}

fn behind_name(text: &str) -> Option<&str> {
    let close = match text.chars().next()? {
        '[' => ']',
        quote @ ('"' | '`' | '\'') => quote,
        _ => return text.split_once(char::is_whitespace).map(|(_, rest)| rest),
    };
    let mut rest = &text[1..];
    loop {
        rest = rest.split_once(close)?.1;
        // A doubled quote stands for itself.
        match rest.strip_prefix(close).filter(|_| close != ']') {
            Some(further) => rest = further,
            None => return Some(rest),
        }
    }
}

/// Tells whether every statement of a trigger writes to `stm_fts` and nowhere else.
fn keeps_search_in_step(sql: &str) -> bool {
    let lower = sql.to_ascii_lowercase();
    if lower.contains("--") || lower.contains("/*") {
        return false;
    }
    let Some((_, body)) = lower.split_once("begin") else { return false };
    let Some(body) = body.trim_end().strip_suffix("end") else { return false };
    let writes = |statement: &str| {
        ["insert into ", "insert or replace into ", "delete from "].iter().any(|verb| {
            let target = statement.strip_prefix(verb).map(str::trim_start);
            let behind = target.and_then(|target| {
                ["stm_fts", "\"stm_fts\"", "'stm_fts'", "[stm_fts]", "`stm_fts`"]
                    .iter()
                    .find_map(|name| target.strip_prefix(name))
            });
            behind.is_some_and(|rest| rest.starts_with([' ', '(', '\n', '\t', '\r']))
        })
    };
    let mut statements = body.split(';').map(str::trim).filter(|s| !s.is_empty()).peekable();
    statements.peek().is_some() && statements.all(writes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: &str = "CREATE TABLE stm(id TEXT PRIMARY KEY, content TEXT);
        CREATE TABLE embeddings(id TEXT PRIMARY KEY, source_id TEXT);
        CREATE TABLE other(a, b);
        CREATE VIRTUAL TABLE stm_fts USING fts5(content, content='stm', content_rowid='rowid');";

    fn reactions(sql: &str) -> Vec<String> {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(&format!("{TABLES}{sql}")).unwrap();
        reactions_of(&connection).unwrap()
    }

    #[test]
    fn what_other_tables_lose_or_get_is_found() {
        for (sql, said) in [
            ("CREATE TABLE n(m REFERENCES stm(id))", "table n refers to stm by a foreign key"),
            (
                "CREATE TABLE n(m REFERENCES EMBEDDINGS(id) ON DELETE CASCADE)",
                "table n refers to embeddings by a foreign key",
            ),
            (
                "CREATE TRIGGER \"a \"\"update\"\" b\" BEFORE DELETE ON stm BEGIN DELETE FROM other; END",
                "trigger a \"update\" b runs when a row of stm is deleted",
            ),
            (
                "create trigger t after delete on Embeddings begin delete from other; end",
                "trigger t runs when a row of embeddings is deleted",
            ),
            (
                "CREATE TRIGGER t DELETE ON stm BEGIN DELETE FROM stm_fts; DELETE FROM other; END",
                "trigger t runs when a row of stm is deleted",
            ),
            (
                "CREATE TRIGGER t /* update */ DELETE ON stm BEGIN SELECT RAISE(FAIL, 'x'); END",
                "trigger t runs when a row of stm is deleted",
            ),
            (
                "CREATE TRIGGER [t] AFTER INSERT ON stm BEGIN INSERT INTO other VALUES (1, 2); END",
                "trigger t runs when a row of stm is inserted",
            ),
        ] {
            assert_eq!(reactions(sql), [said], "{sql}");
        }
    }

    #[test]
    fn what_harms_nobody_is_none() {
        for sql in [
            "",
            "CREATE TABLE n(m REFERENCES other(a))",
            "CREATE TRIGGER t AFTER UPDATE ON stm BEGIN DELETE FROM other; END",
            "CREATE TRIGGER t AFTER DELETE ON other BEGIN DELETE FROM stm; END",
            "CREATE TRIGGER t AFTER DELETE ON stm BEGIN
                 INSERT INTO stm_fts(stm_fts, rowid, content) VALUES ('delete', old.rowid, old.content);
             END",
        ] {
            assert_eq!(reactions(sql), Vec::<String>::new(), "{sql}");
        }
    }
}

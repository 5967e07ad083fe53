//! The layout of the owner's tables, as far as writing needs it, and the rows of a unit as they are now.

use std::collections::BTreeMap;

use rusqlite::types::ToSql;
use rusqlite::{Connection, ErrorCode, Row, params_from_iter};

use crate::brain_db::read::access::{
    Columns, all, cell0, cells2, exists, first, has_rowid, quoted,
};
use crate::brain_db::read::load::{Param, cell};
use crate::brain_db::write::session::Writes;
use crate::error::StoreError;
use memfold_core::journal::{REFERENCE, RowImage};
use memfold_core::memory::MemoryId;
use memfold_core::merge::{MemoryRow, Reference, SUPERSEDES, UnitRows, Words, leaving};
use memfold_core::plan::{Action, ActionType, flag_key};
use memfold_core::row::{RawMemory, base_digest};
use memfold_core::value::{Value, ValueRef};
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
        let sql = "SELECT sql FROM sqlite_master WHERE name = 'stm_fts' AND type = 'table'";
        let ddl = first(connection, sql, [], cell0::<String>)?;
        let Some(lower) = ddl.map(|ddl| ddl.to_lowercase()) else { return Ok(Self::None) };
        let words: String =
            lower.chars().filter(|c| !c.is_whitespace() && !matches!(c, '\'' | '"')).collect();
        if !words.contains("usingfts5(") {
            return Ok(Self::None);
        }
        let sql = "SELECT 1 FROM sqlite_master
             WHERE type = 'trigger' AND lower(tbl_name) = 'stm' AND lower(sql) LIKE '%stm_fts%'";
        if exists(connection, sql, [])? {
            return Ok(Self::ByTriggers);
        }
        let sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1";
        let is_table = |name: &str| exists(connection, sql, [name]);
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
    let sql = "SELECT name FROM pragma_table_info(?1) WHERE \"notnull\" = 1 AND dflt_value IS NULL";
    all(connection, sql, [table], cell0)
}

fn declares_integers(connection: &Connection, table: &str, column: &str) -> rusqlite::Result<bool> {
    let sql =
        "SELECT 1 FROM pragma_table_info(?1) WHERE lower(name) = ?2 AND upper(type) LIKE '%INT%'";
    exists(connection, sql, [table, column])
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
    let sql = "SELECT DISTINCT m.name, lower(f.\"table\")
         FROM sqlite_master AS m, pragma_foreign_key_list(m.name) AS f
         WHERE m.type = 'table' AND lower(f.\"table\") IN ('stm', 'embeddings') ORDER BY 1, 2";
    for (table, to) in all::<(String, String), Vec<_>>(connection, sql, [], cells2)? {
        let table = excerpt(&table, NAME_CHARS);
        found.push(format!("table {table} refers to {to} by a foreign key"));
    }
    let sql = "SELECT name, lower(tbl_name), sql FROM sqlite_master
         WHERE type = 'trigger'
           AND (lower(tbl_name) IN ('stm', 'embeddings') OR lower(tbl_name) LIKE 'stm\\_fts%' ESCAPE '\\')
         ORDER BY 1";
    let read = |row: &Row<'_>| Ok([row.get(0)?, row.get(1)?, row.get(2)?]);
    for [name, table, sql] in all::<[String; 3], Vec<_>>(connection, sql, [], read)? {
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

impl Writes<'_> {
    /// Reads a memory; `None` where it is gone.
    pub fn memory(&self, layout: &Layout, id: &MemoryId) -> Result<Option<MemoryRow>, StoreError> {
        self.query("read a memory", |connection| read_memory(connection, layout, id))
    }

    /// Reads the row of a memory.
    pub(crate) fn row_of(&self, layout: &Layout, id: &str) -> Result<Option<RowImage>, StoreError> {
        let read = |c: &Connection| row(c, &layout.memories, layout.has_rowid, "id", id);
        self.query("read a memory", read)
    }

    /// Tells whether a memory is there and has this text.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn has_text(&self, id: &MemoryId, content: &str) -> Result<bool, StoreError> {
        let sql = "SELECT content FROM stm WHERE id = ?1";
        let now = self.first("read a memory's text", sql, [id.as_str()], |row| {
            Ok(cell(row, 0)?.text().is_ok_and(|text| text.as_deref() == Some(content)))
        });
        Ok(now?.unwrap_or(false))
    }

    /// Reads the store's facts beside the rows of a unit that applies some actions.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn unit_rows(
        &self,
        layout: &Layout,
        rows: Vec<MemoryRow>,
        actions: &[&Action],
    ) -> Result<UnitRows, StoreError> {
        let leaving = actions.iter().flat_map(|action| leaving(action));
        let mut unit = self.leaving_rows(layout, rows, leaving)?;
        let superseding = actions.iter().filter(|it| it.action == ActionType::Supersede);
        for action in superseding {
            let [newer, older] = &action.target_ids[..] else { continue };
            unit.is_superseded = self.has_edge(newer, older, SUPERSEDES)?;
            let flag = self.waiting_flag(&flag_key(newer, older))?;
            unit.waiting_flag = flag.map(|flag| flag.id);
        }
        Ok(unit)
    }

    /// As [`Self::unit_rows`], where some rows leave and nothing else happens.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn leaving_rows<'i>(
        &self,
        layout: &Layout,
        rows: Vec<MemoryRow>,
        leaving: impl IntoIterator<Item = &'i MemoryId>,
    ) -> Result<UnitRows, StoreError> {
        let by_id: BTreeMap<&MemoryId, &MemoryRow> =
            rows.iter().map(|row| (&row.id, row)).collect();
        let mut words = BTreeMap::new();
        for id in leaving {
            if let Some(row) = by_id.get(id) {
                words.insert(id.clone(), self.words(layout, row)?);
            }
        }
        let ids: Vec<&str> = words.keys().map(MemoryId::as_str).collect();
        Ok(UnitRows {
            references: self.references(layout, &ids)?,
            move_refusal: layout.move_refusal().map(str::to_owned),
            is_superseded: false,
            waiting_flag: None,
            words,
            rows,
        })
    }

    /// Finds out which words of a row are searchable.
    fn words(&self, layout: &Layout, row: &MemoryRow) -> Result<Words, StoreError> {
        let words = indexed_words(self, layout, row.id.as_str(), &row.image, None)?;
        self.remember_words(&row.image, &words);
        Ok(words)
    }

    /// Finds the owner's atoms that name one of the memories as their source.
    pub(crate) fn references(
        &self,
        layout: &Layout,
        ids: &[&str],
    ) -> Result<Vec<Reference>, StoreError> {
        if layout.atoms.is_empty() || ids.is_empty() {
            return Ok(Vec::new());
        }
        let sql = "SELECT CAST(id AS TEXT), source_memory_id FROM atoms
                   WHERE source_memory_id IN (SELECT value FROM json_each(?1))
                     AND typeof(id) IN ('text', 'integer') ORDER BY 1";
        let ids = serde_json::Value::from(ids).to_string();
        self.all("look for references", sql, [ids], |row| {
            Ok(Reference { atom: row.get(0)?, memory: row.get(1)? })
        })
    }
}

fn read_memory(
    connection: &Connection,
    layout: &Layout,
    id: &MemoryId,
) -> rusqlite::Result<Option<MemoryRow>> {
    let Some(image) = row(connection, &layout.memories, layout.has_rowid, "id", id.as_str())?
    else {
        return Ok(None);
    };
    let embedding = embedding(connection, layout, id.as_str())?;
    let blob = embedding.as_ref().map_or(ValueRef::Null, Value::borrow);
    let digest = base_digest(&RawMemory::from(&image), blob);
    let is_indexed = match (&layout.search, image.rowid) {
        (Search::ByHand { .. }, Some(rowid)) => Some(is_indexed(connection, rowid)?),
        _ => None,
    };
    let has_embedding = !matches!(embedding, None | Some(Value::Null));
    Ok(Some(MemoryRow { id: id.clone(), image, digest, has_embedding, is_indexed }))
}

/// Reads one row by a text key.
pub(crate) fn row(
    connection: &Connection,
    columns: &Columns,
    has_rowid: bool,
    key: &str,
    value: &str,
) -> rusqlite::Result<Option<RowImage>> {
    let sql = select(columns, has_rowid, &format!("WHERE {} = ?1", columns.expression(key)));
    first(connection, &sql, [value], |row| image(columns, row))
}

/// `SELECT rowid, columns… FROM table`, then `rest`.
pub(crate) fn select(columns: &Columns, has_rowid: bool, rest: &str) -> String {
    let position = if has_rowid { "rowid" } else { "NULL" };
    let names: Vec<&str> = columns.names().iter().map(String::as_str).collect();
    format!("SELECT {position}, {} FROM {} {rest}", columns.expressions(&names), columns.table())
}

/// Reads a row of [`select`].
pub(crate) fn image(columns: &Columns, row: &rusqlite::Row<'_>) -> rusqlite::Result<RowImage> {
    let cells = columns
        .names()
        .iter()
        .enumerate()
        .map(|(at, name)| Ok((name.clone(), cell(row, at + 1)?.into())))
        .collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(RowImage { rowid: row.get(0)?, cells })
}

/// The embedding that a loader takes: the last of several.
fn embedding(
    connection: &Connection,
    layout: &Layout,
    id: &str,
) -> rusqlite::Result<Option<Value>> {
    if layout.embeddings.is_empty() {
        return Ok(None);
    }
    let order =
        if layout.embeddings_have_rowid { "ORDER BY rowid DESC LIMIT 1" } else { "LIMIT 1" };
    let sql = format!(
        "SELECT embedding FROM embeddings WHERE source_type = 'stm' AND source_id = ?1 {order}"
    );
    first(connection, &sql, [id], |row| Ok(cell(row, 0)?.into()))
}

/// Tells whether a row of `stm` has a search entry.
pub(crate) fn is_indexed(connection: &Connection, rowid: i64) -> rusqlite::Result<bool> {
    exists(connection, "SELECT 1 FROM stm_fts_docsize WHERE id = ?1", [rowid])
}

/// An index of our own in memory, which shows how a text is cut into words.
const PROBE: &str = "memfold_words";
/// A phrase extends to the next white space behind this many bytes: a query holds every word of it
/// in memory.
const PHRASE_BYTES: usize = 4_096;

/// Makes a row searchable, unless it is.
pub(crate) fn add_entry(
    writes: &Writes<'_>,
    layout: &Layout,
    rowid: i64,
    image: &RowImage,
) -> Result<(), StoreError> {
    let Search::ByHand { columns, .. } = &layout.search else { return Ok(()) };
    if has_entry(writes, rowid)? {
        return Ok(());
    }
    writes.forget_words(rowid);
    write_entry(writes, "make a memory searchable", &[("rowid", &rowid)], columns, image)
}

/// Removes a row's search entry, if it has one. `image` holds the indexed texts.
pub(crate) fn drop_entry(
    writes: &Writes<'_>,
    layout: &Layout,
    rowid: i64,
    image: &RowImage,
) -> Result<(), StoreError> {
    let Search::ByHand { columns, removal } = &layout.search else { return Ok(()) };
    if !has_entry(writes, rowid)? {
        return Ok(());
    }
    writes.forget_words(rowid);
    const WHAT: &str = "remove a search entry";
    if *removal != Removal::ByText {
        return writes.execute(WHAT, "DELETE FROM stm_fts WHERE rowid = ?1", [rowid]).map(drop);
    }
    write_entry(writes, WHAT, &[("stm_fts", &"delete"), ("rowid", &rowid)], columns, image)
}

/// Writes the texts of a row to the index behind the cells that say what is done.
fn write_entry(
    writes: &Writes<'_>,
    what: &'static str,
    cells: &[(&str, &dyn ToSql)],
    columns: &[String],
    image: &RowImage,
) -> Result<(), StoreError> {
    let texts = values(columns, image);
    let texts: Vec<Param<'_>> = texts.iter().map(Param).collect();
    let texts = columns.iter().zip(&texts).map(|(name, text)| (name.as_str(), text as &dyn ToSql));
    let cells: Vec<_> = cells.iter().copied().chain(texts).collect();
    writes.insert(what, "stm_fts", &cells).map(drop)
}

/// Finds out which words of a row are searchable: its present words, the known earlier text `said`,
/// or the text beside its embedding, which was made when the row was written.
///
/// A text counts only if the entry holds just its words: all of them in a row, and as many as the entry has.
pub(crate) fn indexed_words(
    writes: &Writes<'_>,
    layout: &Layout,
    id: &str,
    image: &RowImage,
    said: Option<&str>,
) -> Result<Words, StoreError> {
    let (Search::ByHand { columns, removal }, Some(rowid)) = (&layout.search, image.rowid) else {
        return Ok(Words::None);
    };
    if !has_entry(writes, rowid)? {
        return Ok(Words::None);
    }
    if let Some(words) = writes.known_words(image).filter(|_| said.is_none()) {
        return Ok(words);
    }
    if *removal == Removal::PlainWithTexts {
        return kept_words(writes, columns, rowid, image);
    }
    let now = of_columns(columns, image);
    let mut candidates = vec![now.clone()];
    let embedded = embedded_texts(writes, layout, id)?;
    for text in said.map(str::to_owned).into_iter().chain(embedded) {
        let mut earlier = now.clone();
        earlier.set("content", text.into());
        if !candidates.contains(&earlier) {
            candidates.push(earlier);
        }
    }
    let found = writes.query("compare a search entry", |connection| {
        let Some(entry) = Entry::of(connection, rowid)? else { return Ok(None) };
        entry.held(&candidates)
    })?;
    Ok(match found {
        Some(held) if held == now => Words::Now,
        Some(held) => Words::Earlier(held),
        None if *removal == Removal::Plain => Words::Now,
        None => Words::Unknown,
    })
}

/// The words of a row in an index that keeps the texts.
fn kept_words(
    writes: &Writes<'_>,
    columns: &[String],
    rowid: i64,
    image: &RowImage,
) -> Result<Words, StoreError> {
    let names = columns.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
    let sql = format!("SELECT {names} FROM stm_fts WHERE rowid = ?1");
    let held = writes.first("read a search entry", &sql, [rowid], |row| {
        let read = |(at, name): (usize, &String)| Ok((name.clone(), cell(row, at)?.into()));
        columns.iter().enumerate().map(read).collect::<rusqlite::Result<Vec<_>>>()
    })?;
    Ok(match held {
        Some(cells) if cells != of_columns(columns, image).cells => {
            Words::Earlier(RowImage { rowid: None, cells })
        }
        _ => Words::Now,
    })
}

/// The texts that stand beside the embeddings of a memory: each the beginning of the text indexed
/// with it.
fn embedded_texts(
    writes: &Writes<'_>,
    layout: &Layout,
    id: &str,
) -> Result<Vec<String>, StoreError> {
    if !layout.embeddings.has("content") {
        return Ok(Vec::new());
    }
    let sql = "SELECT content FROM embeddings
               WHERE source_type = 'stm' AND source_id = ?1 AND typeof(content) = 'text'";
    let read = |row: &Row<'_>| Ok(row.get_ref(0)?.as_str().ok().map(str::to_owned));
    let texts: Vec<Option<String>> = writes.all("read the texts of embeddings", sql, [id], read)?;
    Ok(texts.into_iter().flatten().collect())
}

fn of_columns(columns: &[String], image: &RowImage) -> RowImage {
    let cells = columns.iter().cloned().zip(values(columns, image)).collect();
    RowImage { rowid: None, cells }
}

/// A row's search entry, of which only the number of words in each column can be read.
struct Entry<'a> {
    connection: &'a Connection,
    rowid: i64,
    sizes: Vec<u8>,
}

impl<'a> Entry<'a> {
    /// `None` where entries cannot be compared with texts.
    fn of(connection: &'a Connection, rowid: i64) -> rusqlite::Result<Option<Self>> {
        let sql = "SELECT sql FROM sqlite_master WHERE name = 'stm_fts' AND type = 'table'";
        let ddl: String = connection.prepare_cached(sql)?.query_row([], cell0)?;
        // The same columns and the same tokenizer, and nothing of the store.
        const WORD: &str = "using";
        let Some(at) = ddl.to_ascii_lowercase().find(WORD) else { return Ok(None) };
        let using = &ddl[at + WORD.len()..];
        let sql = format!("CREATE VIRTUAL TABLE IF NOT EXISTS temp.{PROBE} USING {using}");
        if connection.execute_batch(&sql).is_err() {
            return Ok(None);
        }
        let sizes = connection
            .prepare_cached("SELECT sz FROM main.stm_fts_docsize WHERE id = ?1")?
            .query_row([rowid], cell0)?;
        Ok(Some(Self { connection, rowid, sizes }))
    }

    /// Returns the candidate that the entry holds; `None` where it is none of them, or holds two at once, because
    /// somebody indexed the row a second time.
    fn held(&self, candidates: &[RowImage]) -> rusqlite::Result<Option<RowImage>> {
        for (at, candidate) in candidates.iter().enumerate() {
            if !self.is(candidate)? {
                continue;
            }
            let others = candidates.iter().enumerate().filter(|(other, _)| *other != at);
            for (_, other) in others {
                let phrases = phrases(other);
                if self.holds("stm_fts", self.rowid, &phrases)?
                    && !self.holds(PROBE, 1, &phrases)?
                {
                    return Ok(None);
                }
            }
            return Ok(Some(candidate.clone()));
        }
        Ok(None)
    }

    /// Tells whether the entry holds just these words, which the probe holds afterwards.
    fn is(&self, texts: &RowImage) -> rusqlite::Result<bool> {
        let is_plain = |value: &Value| match value {
            Value::Null => true,
            // A query ends at the first NUL.
            Value::Text(bytes) => std::str::from_utf8(bytes).is_ok_and(|t| !t.contains('\0')),
            Value::Integer(_) | Value::Real(_) | Value::Blob(_) => false,
        };
        if !texts.cells.iter().all(|(_, value)| is_plain(value)) {
            return Ok(false);
        }
        let names = texts.cells.iter().map(|(name, _)| quoted(name)).collect::<Vec<_>>().join(", ");
        let marks = (1..=texts.cells.len()).map(|n| format!("?{n}")).collect::<Vec<_>>().join(", ");
        let clear = format!("INSERT INTO temp.{PROBE}({PROBE}) VALUES ('delete-all')");
        self.connection.prepare_cached(&clear)?.execute([])?;
        let insert = format!("INSERT INTO temp.{PROBE}(rowid, {names}) VALUES (1, {marks})");
        let values = params_from_iter(texts.cells.iter().map(|(_, value)| Param(value)));
        self.connection.prepare_cached(&insert)?.execute(values)?;
        let sql = format!("SELECT sz FROM temp.{PROBE}_docsize WHERE id = 1");
        let sizes: Vec<u8> = self.connection.prepare_cached(&sql)?.query_row([], cell0)?;
        Ok(sizes == self.sizes && self.holds("stm_fts", self.rowid, &phrases(texts))?)
    }

    /// Tells whether an entry holds all the phrases that have any word.
    fn holds(&self, table: &str, rowid: i64, phrases: &[String]) -> rusqlite::Result<bool> {
        let schema = if table == PROBE { "temp" } else { "main" };
        let sql = format!("SELECT 1 FROM {schema}.{table} WHERE {table} MATCH ?1 AND rowid = ?2");
        let mut statement = self.connection.prepare_cached(&sql)?;
        for phrase in phrases {
            match statement.exists(rusqlite::params![phrase, rowid]) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                // An index that keeps no positions knows no phrases.
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::Unknown) => {
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// Queries that find a row by all its words in their order, column by column; long texts in pieces.
fn phrases(texts: &RowImage) -> Vec<String> {
    let mut phrases = Vec::new();
    for (name, value) in &texts.cells {
        let mut rest = value.as_text().unwrap_or_default();
        while !rest.is_empty() {
            let least = rest.floor_char_boundary(PHRASE_BYTES);
            let end = rest[least..].find(char::is_whitespace).map_or(rest.len(), |at| least + at);
            let piece;
            (piece, rest) = rest.split_at(end);
            // Without a letter or digit there is no word to find.
            if piece.chars().any(char::is_alphanumeric) {
                phrases.push(format!("{} : {}", quoted(name), quoted(piece)));
            }
        }
    }
    phrases
}

pub(crate) fn has_entry(writes: &Writes<'_>, rowid: i64) -> Result<bool, StoreError> {
    writes.query("look for a search entry", |connection| is_indexed(connection, rowid))
}

fn values(columns: &[String], image: &RowImage) -> Vec<Value> {
    columns.iter().map(|name| image.get(name).cloned().unwrap_or(Value::Null)).collect()
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

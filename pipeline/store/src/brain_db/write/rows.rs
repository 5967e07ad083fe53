//! Reading the rows of a unit as they are now.

use std::collections::BTreeMap;

use rusqlite::types::ToSql;
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, params_from_iter};

use crate::brain_db::read::access::Columns;
use crate::brain_db::read::load::{Param, cell};
use crate::brain_db::write::layout::{Layout, Removal, Search};
use crate::brain_db::write::session::{SessionError, Writes};
use memfold_core::journal::RowImage;
use memfold_core::memory::MemoryId;
use memfold_core::merge::{MemoryRow, Reference, SUPERSEDES, UnitRows, Words, leaving};
use memfold_core::plan::{Action, ActionType, flag_key};
use memfold_core::row::{RawMemory, base_digest};
use memfold_core::value::{Value, ValueRef};

impl Writes<'_> {
    /// Reads a memory; `None` where it is gone.
    pub fn memory(
        &self,
        layout: &Layout,
        id: &MemoryId,
    ) -> Result<Option<MemoryRow>, SessionError> {
        self.query("read a memory", |connection| read_memory(connection, layout, id))
    }

    /// Tells whether a memory is there and has this text.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn has_text(&self, id: &MemoryId, content: &str) -> Result<bool, SessionError> {
        self.query("read a memory's text", |connection| {
            let mut statement =
                connection.prepare_cached("SELECT content FROM stm WHERE id = ?1")?;
            let now = statement.query_row([id.as_str()], |row| {
                Ok(cell(row, 0)?.text().is_ok_and(|text| text.as_deref() == Some(content)))
            });
            Ok(now.optional()?.unwrap_or(false))
        })
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
    ) -> Result<UnitRows, SessionError> {
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
    ) -> Result<UnitRows, SessionError> {
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
    fn words(&self, layout: &Layout, row: &MemoryRow) -> Result<Words, SessionError> {
        let words = indexed_words(self, layout, row.id.as_str(), &row.image, None)?;
        self.remember_words(&row.image, &words);
        Ok(words)
    }

    /// Finds the owner's atoms that name one of the memories as their source.
    pub(crate) fn references(
        &self,
        layout: &Layout,
        ids: &[&str],
    ) -> Result<Vec<Reference>, SessionError> {
        if layout.atoms.is_empty() || ids.is_empty() {
            return Ok(Vec::new());
        }
        self.query("look for references", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT CAST(id AS TEXT), source_memory_id FROM atoms
                 WHERE source_memory_id IN (SELECT value FROM json_each(?1))
                   AND typeof(id) IN ('text', 'integer') ORDER BY 1",
            )?;
            let ids = serde_json::Value::from(ids).to_string();
            let found = statement
                .query_map([ids], |row| Ok(Reference { atom: row.get(0)?, memory: row.get(1)? }))?;
            found.collect()
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
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([value])?;
    rows.next()?.map(|row| image(columns, row)).transpose()
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
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_row([id], |row| Ok(cell(row, 0)?.into())).optional()
}

/// Tells whether a row of `stm` has a search entry.
pub(crate) fn is_indexed(connection: &Connection, rowid: i64) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM stm_fts_docsize WHERE id = ?1")?;
    statement.exists([rowid])
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
) -> Result<(), SessionError> {
    let Search::ByHand { columns, .. } = &layout.search else { return Ok(()) };
    if has_entry(writes, rowid)? {
        return Ok(());
    }
    writes.forget_words(rowid);
    let names = columns.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
    let marks = (2..columns.len() + 2).map(|n| format!("?{n}")).collect::<Vec<_>>().join(", ");
    let sql = format!("INSERT INTO stm_fts(rowid, {names}) VALUES (?1, {marks})");
    let values = values(columns, image);
    let values: Vec<Param<'_>> = values.iter().map(Param).collect();
    let mut params: Vec<&dyn ToSql> = vec![&rowid];
    params.extend(values.iter().map(|value| value as &dyn ToSql));
    writes.execute("make a memory searchable", &sql, &*params).map(drop)
}

/// Removes a row's search entry, if it has one. `image` holds the indexed texts.
pub(crate) fn drop_entry(
    writes: &Writes<'_>,
    layout: &Layout,
    rowid: i64,
    image: &RowImage,
) -> Result<(), SessionError> {
    let Search::ByHand { columns, removal } = &layout.search else { return Ok(()) };
    if !has_entry(writes, rowid)? {
        return Ok(());
    }
    writes.forget_words(rowid);
    const WHAT: &str = "remove a search entry";
    if *removal != Removal::ByText {
        return writes.execute(WHAT, "DELETE FROM stm_fts WHERE rowid = ?1", [rowid]).map(drop);
    }
    let names = columns.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
    let marks = (2..columns.len() + 2).map(|n| format!("?{n}")).collect::<Vec<_>>().join(", ");
    let sql =
        format!("INSERT INTO stm_fts(stm_fts, rowid, {names}) VALUES ('delete', ?1, {marks})");
    let values = values(columns, image);
    let values: Vec<Param<'_>> = values.iter().map(Param).collect();
    let mut params: Vec<&dyn ToSql> = vec![&rowid];
    params.extend(values.iter().map(|value| value as &dyn ToSql));
    writes.execute(WHAT, &sql, &*params).map(drop)
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
) -> Result<Words, SessionError> {
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
) -> Result<Words, SessionError> {
    let names = columns.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
    let sql = format!("SELECT {names} FROM stm_fts WHERE rowid = ?1");
    let held = writes.query("read a search entry", |connection| {
        let mut statement = connection.prepare_cached(&sql)?;
        let cells = statement.query_row([rowid], |row| {
            let read = |(at, name): (usize, &String)| Ok((name.clone(), cell(row, at)?.into()));
            columns.iter().enumerate().map(read).collect::<rusqlite::Result<Vec<_>>>()
        });
        cells.optional()
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
) -> Result<Vec<String>, SessionError> {
    if !layout.embeddings.has("content") {
        return Ok(Vec::new());
    }
    writes.query("read the texts of embeddings", |connection| {
        let mut statement = connection.prepare_cached(
            "SELECT content FROM embeddings
             WHERE source_type = 'stm' AND source_id = ?1 AND typeof(content) = 'text'",
        )?;
        let texts = statement
            .query_map([id], |row| Ok(row.get_ref(0)?.as_str().ok().map(str::to_owned)))?;
        Ok(texts.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().flatten().collect())
    })
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
        let ddl: String = connection
            .prepare_cached(
                "SELECT sql FROM sqlite_master WHERE name = 'stm_fts' AND type = 'table'",
            )?
            .query_row([], |row| row.get(0))?;
        // The same columns and the same tokenizer, and nothing of the store.
        let Some((_, using)) = split_at_using(&ddl) else { return Ok(None) };
        let sql = format!("CREATE VIRTUAL TABLE IF NOT EXISTS temp.{PROBE} USING {using}");
        if connection.execute_batch(&sql).is_err() {
            return Ok(None);
        }
        let sizes = connection
            .prepare_cached("SELECT sz FROM main.stm_fts_docsize WHERE id = ?1")?
            .query_row([rowid], |row| row.get(0))?;
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
        let sizes: Vec<u8> =
            self.connection.prepare_cached(&sql)?.query_row([], |row| row.get(0))?;
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

/// Splits a table's SQL at the word `USING`.
fn split_at_using(sql: &str) -> Option<(&str, &str)> {
    const WORD: &str = "using";
    let at = sql.to_ascii_lowercase().find(WORD)?;
    Some((&sql[..at], &sql[at + WORD.len()..]))
}

fn has_entry(writes: &Writes<'_>, rowid: i64) -> Result<bool, SessionError> {
    writes.query("look for a search entry", |connection| is_indexed(connection, rowid))
}

fn values(columns: &[String], image: &RowImage) -> Vec<Value> {
    columns.iter().map(|name| image.get(name).cloned().unwrap_or(Value::Null)).collect()
}

pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

//! The full-text index against the memory table, row by row, without asking the index itself: a contentless one
//! cannot say which rows it holds, its shadow table can.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension as _};

use super::facts::{Found, FullText, FullTextKind};
use crate::brain_db::columns::{Columns, has_rowid};

/// Compares the index with the memories. `live` holds the ids of the live ones; without it every memory counts.
pub(super) fn examine(
    connection: &Connection,
    live: Option<&HashSet<&str>>,
) -> rusqlite::Result<FullText> {
    let kind = kind(connection)?;
    if matches!(kind, FullTextKind::Absent | FullTextKind::Opaque) {
        return Ok(FullText { kind, ..FullText::default() });
    }
    let (orphans, orphans_ahead) = orphans(connection)?;
    Ok(FullText { kind, missing: missing(connection, live)?, orphans, orphans_ahead })
}

fn kind(connection: &Connection) -> rusqlite::Result<FullTextKind> {
    let sql = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = 'stm_fts'";
    let ddl = connection.query_row(sql, [], |row| row.get::<_, Option<String>>(0)).optional()?;
    let Some(ddl) = ddl.flatten().filter(|ddl| ddl.to_ascii_lowercase().contains("fts5")) else {
        return Ok(FullTextKind::Absent);
    };
    let tells = Columns::of(connection, "stm_fts_docsize")?.has("id");
    if !tells || !has_rowid(connection, "stm")? {
        return Ok(FullTextKind::Opaque);
    }
    Ok(match content_option(&ddl) {
        None => FullTextKind::Stored,
        Some(table) if table.is_empty() => FullTextKind::Contentless,
        Some(_) => FullTextKind::External,
    })
}

/// Returns the value of the option `content` of an FTS5 table, without its quotes.
fn content_option(ddl: &str) -> Option<String> {
    let inside = ddl.split_once('(')?.1.rsplit_once(')')?.0;
    inside.split(',').find_map(|argument| {
        let (key, value) = argument.split_once('=')?;
        let quotes = ['\'', '"', '`', '[', ']'];
        key.trim()
            .eq_ignore_ascii_case("content")
            .then(|| value.trim().trim_matches(quotes).trim().to_owned())
    })
}

fn missing(connection: &Connection, live: Option<&HashSet<&str>>) -> rusqlite::Result<Found> {
    let mut statement = connection.prepare(
        "SELECT id FROM stm WHERE typeof(id) = 'text' AND typeof(content) = 'text'
           AND NOT EXISTS (SELECT 1 FROM stm_fts_docsize AS entry WHERE entry.id = stm.rowid)
         ORDER BY rowid",
    )?;
    let mut rows = statement.query([])?;
    let mut missing = Found::default();
    while let Some(row) = rows.next()? {
        let Ok(id) = row.get_ref(0)?.as_str() else { continue };
        if live.is_none_or(|live| live.contains(id)) {
            missing.add(id);
        }
    }
    Ok(missing)
}

/// Counts entries whose row is gone, and those of them that new rows will take over: SQLite numbers a new row one
/// above the highest.
fn orphans(connection: &Connection) -> rusqlite::Result<(u64, u64)> {
    connection.query_row(
        "SELECT count(*), count(CASE WHEN id > (SELECT ifnull(max(rowid), 0) FROM stm) THEN 1 END)
         FROM stm_fts_docsize AS entry
         WHERE NOT EXISTS (SELECT 1 FROM stm WHERE stm.rowid = entry.id)",
        [],
        |row| Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get::<_, i64>(1)?.unsigned_abs())),
    )
}

#[cfg(test)]
mod tests {
    use super::content_option;

    #[test]
    fn the_content_option_is_read_as_sqlite_does() {
        let option = |inside: &str| {
            content_option(&format!("CREATE VIRTUAL TABLE stm_fts USING fts5({inside})"))
        };
        assert_eq!(option("content, content='', content_rowid=''").as_deref(), Some(""));
        assert_eq!(
            option("content, content = \"stm\" , content_rowid=rowid").as_deref(),
            Some("stm")
        );
        assert_eq!(option("content, content=stm").as_deref(), Some("stm"));
        assert_eq!(option("content, tokenize='porter'"), None);
    }
}

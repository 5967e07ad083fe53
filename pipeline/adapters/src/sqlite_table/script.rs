//! The SQL script that removes rows, for the owner of the file to run.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use memfold_core::value::Value;
use memfold_store::origin::{PlannedRemoval, Removal};
use rusqlite::Connection;

use super::layout::{Layout, Vectors};
use super::ledger::Ledger;
use super::read::TableRow;
use super::write::rows_by_id;
use crate::sqlite_file::quoted;

/// Writes the script; an error says why there is none, and what to do instead.
pub(super) fn of(
    connection: &Connection,
    layout: &Layout,
    ledger: &Ledger,
    removals: &[PlannedRemoval],
) -> rusqlite::Result<Result<String, [&'static str; 2]>> {
    if let Some(refusal) = layout.own_api.filter(|_| layout.system != Some("sqlite-vec")) {
        return Ok(Err(refusal));
    }
    let ids = removals.iter().flat_map(|removal| [Some(&*removal.id), removal.into.as_deref()]);
    let wanted: BTreeSet<&str> = ids.flatten().collect();
    let rows = rows_by_id(connection, layout, ledger, &wanted)?;
    let table = quoted(&layout.table);
    let mut script = format!(
        "-- Removes {} rows of {table}. A row whose text was changed since is left alone.\n\
         BEGIN IMMEDIATE;\n",
        removals.len()
    );
    for removal in removals {
        let Some(row) = rows.get(&removal.id) else { continue };
        let mut condition = is_unchanged(layout, row);
        if let Some(survivor) = removal.into.as_ref().and_then(|into| rows.get(into)) {
            let stands = is_unchanged(layout, survivor);
            let _ = write!(condition, "\n  AND EXISTS (SELECT 1 FROM {table} WHERE {stands})");
        }
        let by = removal.into.as_ref().map_or_else(
            || format!("rule {}", removal.rule),
            |into| format!("{} says the same, rule {}", one_line(into), removal.rule),
        );
        let _ = writeln!(script, "-- {}: {by}", one_line(&removal.id));
        let _ = match (&layout.removal, &layout.flag) {
            (Some(Removal::Flag { .. }), Some(flag)) => {
                let value = match flag.value.eq_ignore_ascii_case("now") {
                    true => "CURRENT_TIMESTAMP".to_owned(),
                    false => literal(&flag.value_at("", "")),
                };
                let column = quoted(&layout.columns[flag.column]);
                writeln!(script, "UPDATE {table} SET {column} = {value}\nWHERE {condition};")
            }
            _ => writeln!(script, "DELETE FROM {table}\nWHERE {condition};"),
        };
    }
    script.push_str(&beside(layout));
    script.push_str("COMMIT;\n");
    Ok(Ok(script))
}

/// Lists the ids as the owner's own interface takes them: one JSON object on a line.
pub(super) fn list(layout: &Layout, removals: &[PlannedRemoval]) -> String {
    // Ids of Chroma are those of a collection.
    let is_within = layout.attributes.iter().any(|attribute| attribute.name == "collection");
    let lines = removals.iter().map(|removal| {
        let (within, id) = match removal.id.split_once('/').filter(|_| is_within) {
            Some((within, id)) => (Some(within), id),
            None => (None, &*removal.id),
        };
        let into = removal.into.as_deref();
        let into = into.map(|into| match within {
            Some(_) => into.split_once('/').map_or(into, |(_, id)| id),
            None => into,
        });
        let mut line = serde_json::json!({ "id": id, "into": into, "rule": removal.rule });
        if let Some(within) = within {
            line["collection"] = within.into();
        }
        format!("{line}\n")
    });
    lines.collect()
}

/// What is kept beside the table and must follow it.
fn beside(layout: &Layout) -> String {
    let mut script = String::new();
    if layout.key.is_none() || matches!(layout.removal, Some(Removal::Flag { .. })) {
        return script;
    }
    if let Some(search) = &layout.search {
        let search = quoted(search);
        let _ = writeln!(script, "INSERT INTO {search}({search}) VALUES ('rebuild');");
    }
    if let Vectors::Vec0 { table, .. } | Vectors::Vec1 { table } = &layout.vectors {
        let by_id = matches!(&layout.vectors, Vectors::Vec0 { by_id: true, .. });
        let (here, there) = match by_id {
            true => ("id", quoted(&layout.columns[layout.id])),
            false => ("rowid", layout.key.clone().unwrap_or_default()),
        };
        let _ = writeln!(
            script,
            "-- Needs the extension of {}.\nDELETE FROM {} WHERE {here} NOT IN (SELECT {there} FROM {});",
            one_line(table),
            quoted(table),
            quoted(&layout.table)
        );
    }
    script
}

/// The condition that a row is the one that was read.
fn is_unchanged(layout: &Layout, row: &TableRow) -> String {
    let key = layout.key.as_deref().unwrap_or("rowid");
    let mut parts = vec![format!("{key} IS {}", literal(&row.key))];
    for at in &layout.text {
        parts.push(format!("{} IS {}", quoted(&layout.columns[*at]), literal(&row.cells[*at])));
    }
    parts.join(" AND ")
}

/// A value in SQL.
fn literal(value: &Value) -> String {
    let hex = |bytes: &[u8]| -> String {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("x'{digits}'")
    };
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Integer(value) => value.to_string(),
        Value::Real(value) => format!("{value:?}"),
        Value::Blob(bytes) => hex(bytes),
        Value::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => format!("'{}'", text.replace('\'', "''")),
            _ => format!("CAST({} AS TEXT)", hex(bytes)),
        },
    }
}

/// Text that stays within a comment.
fn one_line(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

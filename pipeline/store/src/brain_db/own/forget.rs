//! Rows of our own tables that tell of a memory: which they are, and how they go.

use std::collections::BTreeSet;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params, params_from_iter};

use memfold_model::memory::MemoryId;

/// A table and which of its rows tell of a memory (`?1`) and of nothing else.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Telling {
    /// The table.
    pub(crate) table: &'static str,
    condition: &'static str,
}

/// Tables whose rows go as a whole.
pub(crate) const TELLING: [Telling; 4] = [
    Telling { table: "memfold_lineage", condition: "absorbed_id = ?1 OR survivor_id = ?1" },
    Telling { table: "memfold_decisions", condition: "memory_id = ?1" },
    Telling { table: "memfold_flags", condition: "left_id = ?1 OR right_id = ?1" },
    Telling { table: "memfold_archive", condition: "memory_id = ?1" },
];
/// That a memory once lived again.
pub(crate) const REVIVED: Telling =
    Telling { table: "memfold_revived", condition: "memory_id = ?1" };

impl Telling {
    /// Counts the rows about a memory.
    pub(crate) fn count(self, connection: &Connection, id: &str) -> rusqlite::Result<u64> {
        let sql = format!("SELECT count(*) FROM {} WHERE {}", self.table, self.condition);
        let count: i64 = connection.prepare_cached(&sql)?.query_row([id], |row| row.get(0))?;
        Ok(count.unsigned_abs())
    }

    /// Deletes the rows about a memory.
    pub(crate) fn delete(self, connection: &Connection, id: &str) -> rusqlite::Result<usize> {
        let sql = format!("DELETE FROM {} WHERE {}", self.table, self.condition);
        connection.prepare_cached(&sql)?.execute([id])
    }
}

/// A table with columns that may name memories among other things.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Naming {
    /// The table.
    pub(crate) table: &'static str,
    /// By which its rows are found again.
    key: &'static str,
    /// The memory that a row is about; `NULL` where it is about none.
    about: &'static str,
    /// Columns that may name others.
    columns: &'static [&'static str],
    condition: &'static str,
}

/// Sources of the owner's rows.
pub(crate) const SOURCES: Naming = Naming {
    table: "stm",
    key: "id",
    about: "id",
    columns: &["source"],
    condition: "(source LIKE 'consolidation:{%' OR source LIKE 'archived:%') AND id IS NOT NULL",
};
/// Rows as the journal keeps them.
pub(crate) const JOURNAL: Naming = Naming {
    table: "memfold_journal",
    key: "seq",
    about: "row_key",
    columns: &["before", "after"],
    condition: "table_name = 'stm'",
};
/// Rows in the archive table.
pub(crate) const ARCHIVE: Naming = Naming {
    table: "memfold_archive",
    key: "id",
    about: "memory_id",
    columns: &["row"],
    condition: "table_name = 'stm'",
};
/// What units did to whom.
pub(crate) const UNITS: Naming = Naming {
    table: "memfold_units",
    key: "rowid",
    about: "NULL",
    columns: &["actions", "digests"],
    condition: "1",
};
/// Actions of plans.
pub(crate) const ACTIONS: Naming = Naming {
    table: "memfold_actions",
    key: "rowid",
    about: "NULL",
    columns: &["body", "amended", "base_digests"],
    condition: "body <> 'null'",
};

/// A row whose columns name memories, and what to write instead.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Renamed {
    /// Its key.
    pub(crate) key: Value,
    /// The new text of each column; `None` leaves it as it is.
    texts: Vec<Option<String>>,
}

impl Naming {
    /// Finds the rows where `rename` has something else for one of the columns; those about one of the ids go
    /// anyway and are left out.
    pub(crate) fn find(
        self,
        connection: &Connection,
        ids: &BTreeSet<MemoryId>,
        rename: impl Fn(&str) -> Option<String>,
    ) -> rusqlite::Result<Vec<Renamed>> {
        let Self { table, key, about, columns, condition } = self;
        let listed = columns.join(", ");
        let sql = format!("SELECT {key}, {about}, {listed} FROM {table} WHERE {condition}");
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let about = row.get_ref(1)?.as_str().ok();
            if about.is_some_and(|id| ids.contains(&MemoryId::new(id))) {
                continue;
            }
            let mut texts = Vec::with_capacity(columns.len());
            for column in 0..columns.len() {
                texts.push(row.get_ref(column + 2)?.as_str().ok().and_then(&rename));
            }
            if texts.iter().any(Option::is_some) {
                found.push(Renamed { key: row.get(0)?, texts });
            }
        }
        Ok(found)
    }

    /// Writes the new texts.
    pub(crate) fn write(self, connection: &Connection, renamed: &Renamed) -> rusqlite::Result<()> {
        let set: Vec<String> = self
            .columns
            .iter()
            .zip(2..)
            .map(|(column, number): (_, u32)| format!("{column} = ifnull(?{number}, {column})"))
            .collect();
        let sql = format!("UPDATE {} SET {} WHERE {} = ?1", self.table, set.join(", "), self.key);
        let key = std::iter::once(renamed.key.clone());
        let texts = renamed.texts.iter().map(|text| text.clone().map_or(Value::Null, Value::Text));
        connection.prepare_cached(&sql)?.execute(params_from_iter(key.chain(texts))).map(drop)
    }
}

/// Returns the units that changed a memory.
pub(crate) fn units_of_memory(
    connection: &Connection,
    id: &str,
) -> rusqlite::Result<Vec<(String, i64)>> {
    let mut statement = connection.prepare_cached(
        "SELECT DISTINCT run_id, unit FROM memfold_journal
         WHERE row_key = ?1 AND table_name = 'stm' ORDER BY run_id, unit",
    )?;
    statement.query_map([id], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Returns the units that moved rows away into one of the memories.
pub(crate) fn units_into(
    connection: &Connection,
    ids: &BTreeSet<MemoryId>,
) -> rusqlite::Result<Vec<(String, i64)>> {
    let mut statement = connection.prepare(
        "SELECT DISTINCT run_id, unit, survivor FROM memfold_journal WHERE survivor IS NOT NULL",
    )?;
    let mut rows = statement.query([])?;
    let mut units = Vec::new();
    while let Some(row) = rows.next()? {
        if ids.contains(&MemoryId::new(row.get::<_, String>(2)?)) {
            units.push((row.get(0)?, row.get(1)?));
        }
    }
    Ok(units)
}

/// Removes the whole journal of a unit, so that nobody takes back half of it. Returns the entries.
pub(crate) fn drop_journal(
    connection: &Connection,
    (run_id, unit): (&str, i64),
) -> rusqlite::Result<usize> {
    let sql = "DELETE FROM memfold_journal WHERE run_id = ?1 AND unit = ?2";
    connection.prepare_cached(sql)?.execute(params![run_id, unit])
}

/// Returns the keys of the journal's entries of a unit.
pub(crate) fn journal_keys(
    connection: &Connection,
    (run_id, unit): (&str, i64),
) -> rusqlite::Result<Vec<i64>> {
    let sql = "SELECT seq FROM memfold_journal WHERE run_id = ?1 AND unit = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_map(params![run_id, unit], |row| row.get(0))?.collect()
}

/// Returns the owner's rows that are flags: their ids and their texts, which name the memories.
pub(crate) fn flag_rows(connection: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let mut statement = connection.prepare(
        "SELECT id, content FROM stm
         WHERE source LIKE 'consolidation:contradiction:%' AND typeof(id) = 'text'
           AND typeof(content) = 'text'",
    )?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        if let (Ok(id), Ok(content)) = (row.get_ref(0)?.as_str(), row.get_ref(1)?.as_str()) {
            found.push((id.to_owned(), content.to_owned()));
        }
    }
    Ok(found)
}

/// Forgets what an action of a plan was; its plan can then no longer be read, nor applied. A plan of which nothing was
/// applied goes as a whole.
pub(crate) fn void_action(connection: &Connection, rowid: &Value) -> rusqlite::Result<()> {
    let plan: Option<String> = connection
        .prepare_cached("SELECT plan_id FROM memfold_actions WHERE rowid = ?1")?
        .query_row([rowid], |row| row.get(0))
        .optional()?;
    let Some(plan) = plan else { return Ok(()) };
    let sql = "SELECT 1 FROM memfold_actions WHERE plan_id = ?1 AND state IN ('applied', 'undone')";
    if !connection.prepare_cached(sql)?.exists([&plan])? {
        return super::prune::drop_plan(connection, &plan);
    }
    connection
        .prepare_cached(
            "UPDATE memfold_actions SET body = 'null', amended = NULL, base_digests = '{}',
                                        note = 'a memory was forgotten' WHERE rowid = ?1",
        )?
        .execute([rowid])?;
    connection
        .prepare_cached(
            "UPDATE memfold_actions SET state = 'stale', note = 'a memory was forgotten'
             WHERE plan_id = ?1 AND state IN ('proposed', 'approved')",
        )?
        .execute([plan])
        .map(drop)
}

//! Provenance: who was folded into whom by the `source` of the rows themselves.

use std::collections::HashMap;

use rusqlite::Connection;

use crate::reading::provenance;

/// What the rows' sources say, for the whole store.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// Absorbed id → survivor, by the absorbed row's own word.
    own: HashMap<String, String>,
    /// Absorbed id → survivor, by survivors' lists.
    listed: HashMap<String, String>,
    /// Survivor → all that any row says was folded into it.
    absorbed: HashMap<String, Vec<String>>,
}

impl Claims {
    /// Reads all rows whose source tells of folds, in one pass.
    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let mut claims = Self::default();
        let mut statement = connection.prepare(
            "SELECT CAST(id AS TEXT), CAST(source AS TEXT) FROM stm
             WHERE (source LIKE 'archived:%' OR source LIKE 'consolidation:{%')
               AND typeof(id) <> 'blob' AND id IS NOT NULL ORDER BY id",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            // Text that is no UTF-8 is none of ours.
            let (Ok(id), Ok(source)) = (row.get_ref(0)?.as_str(), row.get_ref(1)?.as_str()) else {
                continue;
            };
            claims.take(id, source);
        }
        Ok(claims)
    }

    fn take(&mut self, id: &str, source: &str) {
        let said = provenance::parse(source);
        if let Some(survivor) = &said.merged_into {
            let survivor = survivor.as_str().to_owned();
            self.absorbed.entry(survivor.clone()).or_default().push(id.to_owned());
            self.own.insert(id.to_owned(), survivor);
        }
        for absorbed in &said.merged_from {
            let absorbed = absorbed.as_str().to_owned();
            if absorbed != id {
                self.absorbed.entry(id.to_owned()).or_default().push(absorbed.clone());
                self.listed.entry(absorbed).or_insert_with(|| id.to_owned());
            }
        }
    }

    /// Returns what any row says a memory was folded into, its own word first.
    pub(super) fn survivor(&self, id: &str) -> Option<&str> {
        self.own.get(id).or_else(|| self.listed.get(id)).map(String::as_str)
    }

    /// Returns what any row says was folded into a memory, with repeats.
    pub(super) fn absorbed(&self, id: &str) -> &[String] {
        self.absorbed.get(id).map_or(&[], Vec::as_slice)
    }
}

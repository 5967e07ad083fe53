//! [`FactReader`]: is everything that a store knew still found by words, by vector and by id?

use std::collections::BTreeMap;
use std::path::Path;

use memfold_simd::canonical;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _, Transaction};
use serde_json::Value;

use crate::wild_store::Fact;

/// Minimum similarity of memories that say the same.
const SIMILARITY_MIN: f64 = 0.95;

/// Complaints printed at once.
const SHOWN_MAX: usize = 20;

/// Longer chains of survivors are circles.
const CHAIN_MAX: usize = 64;

/// A reader as the agents that use a store have one: it shuns archived rows.
#[derive(Debug)]
pub struct FactReader {
    connection: Connection,
}

/// A row as a reader sees it.
struct Seen {
    rowid: i64,
    is_live: bool,
    merged_into: Option<String>,
}

/// The store at one instant.
struct Sight<'a> {
    transaction: Transaction<'a>,
    rows: BTreeMap<String, Seen>,
    ids: BTreeMap<i64, String>,
    /// Where rows went that are not in the owner's table any more; `None` for merely archived ones.
    moved: BTreeMap<String, Option<String>>,
}

/// Lists facts that are harder to find than before; empty if there are none.
///
/// # Panics
/// When the store cannot be read.
#[must_use]
pub fn facts_findable(path: &Path, facts: &[Fact]) -> Vec<String> {
    let mut reader = FactReader::open(path);
    reader.missing(facts).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
}

impl FactReader {
    /// Opens a store to read it again and again.
    ///
    /// # Panics
    /// When it cannot be opened.
    #[must_use]
    pub fn open(path: &Path) -> Self {
        let connection = Connection::open(path).expect("the store can be opened");
        connection.busy_timeout(std::time::Duration::from_secs(30)).expect("a timeout is set");
        Self { connection }
    }

    /// Lists facts that are not found at this instant: all reads are of one transaction.
    ///
    /// # Errors
    /// When SQLite refuses.
    pub fn missing(&mut self, facts: &[Fact]) -> rusqlite::Result<Vec<String>> {
        let sight = Sight::take(self.connection.transaction()?)?;
        let mut missing = Vec::new();
        for fact in facts {
            if let Some(complaint) = sight.complaint(fact)? {
                missing.push(format!("{}: {complaint}", fact.id));
            }
            if missing.len() == SHOWN_MAX {
                break;
            }
        }
        Ok(missing)
    }
}

impl<'a> Sight<'a> {
    fn take(transaction: Transaction<'a>) -> rusqlite::Result<Self> {
        let mut rows = BTreeMap::new();
        let mut ids = BTreeMap::new();
        {
            let mut statement =
                transaction.prepare_cached("SELECT rowid, id, categories, source FROM stm")?;
            let mut found = statement.query([])?;
            while let Some(row) = found.next()? {
                let rowid: i64 = row.get(0)?;
                let id = text(row.get_ref(1)?);
                let (categories, source) = (text(row.get_ref(2)?), text(row.get_ref(3)?));
                let seen = Seen {
                    rowid,
                    is_live: !is_archived(&categories) && !source.starts_with("archived:"),
                    merged_into: merged_into(&source),
                };
                ids.insert(rowid, id.clone());
                rows.insert(id, seen);
            }
        }
        let moved = moved(&transaction)?;
        Ok(Self { transaction, rows, ids, moved })
    }

    /// Returns the defect of a fact, if there is one.
    fn complaint(&self, fact: &Fact) -> rusqlite::Result<Option<String>> {
        let home = match self.home(&fact.id) {
            Ok(Some(home)) => home,
            Ok(None) => return Ok(None),
            Err(complaint) => return Ok(Some(complaint)),
        };
        if !fact.group.contains(home) {
            return Ok(Some(format!("merged into {home}, which says something else")));
        }
        let row = &self.rows[home];
        if fact.is_indexed && !self.is_found_by_words(fact, row.rowid)? {
            return Ok(Some(format!("the words {:?} do not find {home}", fact.tokens)));
        }
        if let Some(vector) = &fact.vector
            && !self.is_found_by_vector(vector, home)?
        {
            return Ok(Some(format!("its vector does not find {home}")));
        }
        Ok(None)
    }

    /// The live memory that an id leads to; `None` for one that was archived for its little use.
    fn home<'b>(&'b self, id: &'b str) -> Result<Option<&'b str>, String> {
        let mut at = id;
        for _ in 0..CHAIN_MAX {
            at = match (self.rows.get(at), self.moved.get(at)) {
                (Some(row), _) if row.is_live => return Ok(Some(at)),
                (Some(Seen { merged_into: Some(into), .. }), _) => into,
                (Some(_), _) | (None, Some(None)) => return Ok(None),
                (None, Some(Some(into))) => into,
                (None, None) => return Err(format!("{at} is gone")),
            };
        }
        Err("its survivors form a circle".to_owned())
    }

    fn is_found_by_words(&self, fact: &Fact, rowid: i64) -> rusqlite::Result<bool> {
        let words: Vec<String> = fact.tokens.iter().map(|token| format!("\"{token}\"")).collect();
        let mut statement =
            self.transaction.prepare_cached("SELECT rowid FROM stm_fts WHERE stm_fts MATCH ?1")?;
        let mut hits = statement.query([words.join(" ")])?;
        while let Some(row) = hits.next()? {
            let hit: i64 = row.get(0)?;
            if hit == rowid && self.ids.contains_key(&hit) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_found_by_vector(&self, vector: &[f32], home: &str) -> rusqlite::Result<bool> {
        let mut statement = self.transaction.prepare_cached(
            "SELECT embedding FROM embeddings WHERE source_type = 'stm' AND source_id = ?1",
        )?;
        let found = statement
            .query_row([home], |row| Ok(decoded(row.get_ref(0)?, vector.len())))
            .optional()?;
        let near = found.flatten().and_then(|other| canonical::similarity(vector, &other));
        Ok(near.is_some_and(|similarity| similarity.get() >= SIMILARITY_MIN))
    }
}

/// Where the rows went that memfold moved out of the owner's table.
fn moved(connection: &Connection) -> rusqlite::Result<BTreeMap<String, Option<String>>> {
    let exists = "SELECT count(*) FROM sqlite_master WHERE name = 'memfold_archive'";
    if connection.query_row(exists, [], |row| row.get::<_, i64>(0))? == 0 {
        return Ok(BTreeMap::new());
    }
    let mut statement = connection.prepare_cached(
        "SELECT memory_id, survivor_id FROM memfold_archive WHERE table_name = 'stm'",
    )?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

fn is_archived(categories: &str) -> bool {
    categories.contains("\"archived\"") || categories.contains("\"archive/")
}

fn merged_into(source: &str) -> Option<String> {
    let fields: Value = serde_json::from_str(source.strip_prefix("archived:")?).ok()?;
    fields["merged_into"].as_str().map(str::to_owned)
}

fn text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            String::from_utf8_lossy(bytes).into_owned()
        }
        ValueRef::Integer(value) => value.to_string(),
        ValueRef::Real(value) => value.to_string(),
        ValueRef::Null => String::new(),
    }
}

/// The vector in any of the three encodings of stores in use.
fn decoded(value: ValueRef<'_>, dim: usize) -> Option<Vec<f32>> {
    match value {
        ValueRef::Blob(bytes) if bytes.len() == 4 * dim => {
            let (components, _) = bytes.as_chunks::<4>();
            Some(components.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
        }
        ValueRef::Blob(bytes) if bytes.len() == 8 * dim => {
            let (components, _) = bytes.as_chunks::<8>();
            Some(components.iter().map(|bytes| f64::from_le_bytes(*bytes) as f32).collect())
        }
        ValueRef::Text(bytes) => {
            let numbers: Vec<f64> = serde_json::from_slice(bytes).ok()?;
            (numbers.len() == dim).then(|| numbers.iter().map(|&number| number as f32).collect())
        }
        _ => None,
    }
}

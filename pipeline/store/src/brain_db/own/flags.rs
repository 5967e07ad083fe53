//! `memfold_flags`: contradictory pairs for people to review.

use crate::brain_db::read::load::cell;
use jiff::tz::TimeZone;
use memfold_core::merge::FlagKind;
use rusqlite::{Connection, params};

use crate::brain_db::own::tables::own_tables_exist;
use crate::brain_db::read::access::Columns;
use crate::brain_db::read::open::BrainDb;
use crate::brain_db::write::session::{SessionError, Writes};
use crate::memory_store::LoadStoreError;
use memfold_core::decisions::content_hash;
use memfold_core::journal::{Record, Table};
use memfold_core::memory::MemoryId;
use memfold_core::time::Instant;

/// An open flag: its row, its two memories and the hashes of the texts it is about.
pub(crate) type OpenFlag = (i64, [(String, String); 2]);

/// A pair that waits for a person.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct OpenPair {
    /// The name of the pair: 16 hex digits.
    pub key: String,
    /// Why it waits.
    pub kind: FlagKind,
    /// The memories, smaller id first.
    pub ids: [String; 2],
    /// Their texts as they are; `None` where a memory is gone or its text is not of type text.
    pub texts: [Option<String>; 2],
    /// When they were created, as the store spells it; `None` where a memory is gone or its time is
    /// not of type text.
    pub created_at: [Option<String>; 2],
    /// Their similarity.
    pub similarity: Option<f64>,
    /// How contradictory.
    pub score: Option<f64>,
    /// When they were flagged, as the owner writes times.
    pub at: String,
    /// The memory that was saved again after the other one was, and when: it is the newer statement, though its row may
    /// be older. `None` where the rows' own times tell which one is newer.
    pub asserted: Option<(String, String)>,
}

impl OpenPair {
    /// Returns the side that settling takes for the newer one: the side that was saved again, else
    /// by the instants of the rows.
    #[must_use]
    pub fn newer(&self, time_zone: &TimeZone) -> Option<usize> {
        if let Some((asserted, _)) = &self.asserted {
            return self.ids.iter().position(|id| id == asserted);
        }
        let at = |side: usize| {
            let date = self.created_at[side].as_deref()?;
            Some((Instant::parse(date, time_zone), self.ids[side].as_bytes()))
        };
        let (left, right) = (at(0)?, at(1)?);
        Some(usize::from(right > left))
    }
}

impl BrainDb {
    /// Lists the contradictory pairs that wait for a person, highest score first. A store that memfold never wrote
    /// to has none.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn open_flags(&self) -> Result<Vec<OpenPair>, LoadStoreError> {
        self.consult("memfold_flags", |connection| {
            if !crate::brain_db::own::tables::own_tables_exist(connection)? {
                return Ok(Vec::new());
            }
            let columns = Columns::of(connection, "memfold_flags")?;
            let kind = if columns.has("kind") { "f.kind" } else { "NULL" };
            let asserted = match columns.has("asserted_id") {
                true => "f.asserted_id, f.asserted_at",
                false => "NULL, NULL",
            };
            let mut statement = connection.prepare(&format!(
                "SELECT f.key, f.left_id, f.right_id, a.content, b.content, f.similarity, f.score, f.at,
                        {kind}, CAST(a.created_at AS TEXT), CAST(b.created_at AS TEXT), {asserted}
                 FROM memfold_flags AS f
                 LEFT JOIN stm AS a ON a.id = f.left_id LEFT JOIN stm AS b ON b.id = f.right_id
                 WHERE f.state = 'open' AND f.active = 1 ORDER BY f.score DESC, f.similarity DESC, f.id"
            ))?;
            let pairs = statement.query_map([], |row| {
                let text = |at: usize| -> rusqlite::Result<Option<String>> {
                    let bytes = row.get_ref(at)?.as_bytes_or_null().ok().flatten();
                    Ok(bytes.and_then(|bytes| String::from_utf8(bytes.to_vec()).ok()))
                };
                Ok(OpenPair {
                    key: row.get(0)?,
                    kind: FlagKind::of_stored(row.get::<_, Option<String>>(8)?.as_deref()),
                    ids: [row.get(1)?, row.get(2)?],
                    texts: [text(3)?, text(4)?],
                    created_at: [text(9)?, text(10)?],
                    similarity: row.get(5)?,
                    score: row.get(6)?,
                    at: row.get(7)?,
                    asserted: row.get::<_, Option<_>>(11)?.zip(row.get::<_, Option<_>>(12)?),
                })
            })?;
            pairs.collect()
        })
    }
}

/// An open flag: its row, and its memories with the hashes of the texts it is about.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitingFlag {
    /// The row in `flags`.
    pub id: i64,
    /// The flag's key.
    pub key: String,
    /// Each memory's id and the hash of its text.
    pub sides: [(String, String); 2],
    /// The cosine similarity, where both memories had a vector.
    pub similarity: Option<f64>,
    /// The memory that was saved again after the other one was.
    pub asserted: Option<MemoryId>,
}

/// Selects open flags; in earlier versions of the tables flags do not name a side that was saved
/// again.
fn select_waiting(connection: &Connection) -> rusqlite::Result<String> {
    let columns = Columns::of(connection, "memfold_flags")?;
    let asserted = if columns.has("asserted_id") { "asserted_id" } else { "NULL" };
    Ok(format!(
        "SELECT id, key, left_id, left_hash, right_id, right_hash, similarity, {asserted}
         FROM memfold_flags WHERE state = 'open' AND active = 1"
    ))
}

fn waiting(row: &rusqlite::Row<'_>) -> rusqlite::Result<WaitingFlag> {
    Ok(WaitingFlag {
        id: row.get(0)?,
        key: row.get(1)?,
        sides: [(row.get(2)?, row.get(3)?), (row.get(4)?, row.get(5)?)],
        similarity: row.get(6)?,
        asserted: row.get::<_, Option<String>>(7)?.map(MemoryId::new),
    })
}

impl Writes<'_> {
    /// Returns the open flags of pairs that saves found alike; none where memfold never wrote to the store.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn near_flags(&self) -> Result<Vec<WaitingFlag>, SessionError> {
        if !self.has_own_tables()? {
            return Ok(Vec::new());
        }
        self.query("read memfold_flags", |connection| {
            let sql = format!("{} AND kind = 'near' ORDER BY id", select_waiting(connection)?);
            connection.prepare(&sql)?.query_map([], waiting)?.collect()
        })
    }

    /// Finds an open flag by its key, or by how that begins where only one does; the latest of several.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn waiting_flag(&self, key: &str) -> Result<Option<WaitingFlag>, SessionError> {
        if !self.has_own_tables()? {
            return Ok(None);
        }
        self.query("read memfold_flags", |connection| {
            let sql = format!(
                "{} AND substr(key, 1, length(?1)) = ?1 AND length(?1) > 0 ORDER BY id DESC",
                select_waiting(connection)?
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let flags = statement.query_map([key], waiting)?;
            let flags = flags.collect::<rusqlite::Result<Vec<_>>>()?;
            let is_one = flags.windows(2).all(|pair| pair[0].key == pair[1].key);
            Ok(flags.into_iter().next().filter(|_| is_one))
        })
    }

    /// Counts the open flags of a memory.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn count_open_flags(&self, id: &MemoryId) -> Result<usize, SessionError> {
        let sql = "SELECT count(*) FROM
                   (SELECT id FROM memfold_flags WHERE left_id = ?1 AND state = 'open' AND active = 1
                    UNION SELECT id FROM memfold_flags
                    WHERE right_id = ?1 AND state = 'open' AND active = 1)";
        let count: i64 = self.query("read memfold_flags", |connection| {
            connection.prepare_cached(sql)?.query_row([id.as_str()], |row| row.get(0))
        })?;
        Ok(usize::try_from(count).unwrap_or_default())
    }

    /// Closes a flag.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn close_flag(&self, flag: i64) -> Result<(), SessionError> {
        let sql = "UPDATE memfold_flags SET state = 'closed' WHERE id = ?1";
        self.execute("close a flag", sql, [flag]).map(drop)
    }

    /// Makes a flag one of a contradiction.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn flag_as_contradiction(&self, flag: i64, score: f64) -> Result<(), SessionError> {
        let sql = "UPDATE memfold_flags SET kind = 'contradiction', score = ?2 WHERE id = ?1";
        self.execute("change a flag", sql, (flag, score)).map(drop)
    }

    /// Closes the flags of which a side was edited, archived or is gone.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn close_outdated_flags(&self) -> Result<(), SessionError> {
        for (id, sides) in self.query("read memfold_flags", open_flags)? {
            let mut holds = true;
            for (memory, hash) in &sides {
                holds &= self.query("read a memory", |c| still_says(c, memory, hash))?;
            }
            if !holds {
                self.close_flag(id)?;
            }
        }
        Ok(())
    }

    /// Returns records of the flags of a unit, closed: a pair that a person took from the list stays off it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn closed_flags_of(&self, run_id: &str, unit: i64) -> Result<Vec<Record>, SessionError> {
        let columns = COPIED.join(", ");
        let sql = format!("SELECT {columns} FROM memfold_flags WHERE run_id = ?1 AND unit = ?2");
        self.query("read memfold_flags", |connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            let flags = statement.query_map(params![run_id, unit], |row| {
                let mut cells = Vec::with_capacity(COPIED.len() + 1);
                for (at, name) in COPIED.into_iter().enumerate() {
                    cells.push((name, cell(row, at)?.into()));
                }
                cells.push(("state", "closed".into()));
                Ok(Record { table: Table::Flags, cells })
            })?;
            flags.collect()
        })
    }
}

/// Columns that a closed flag takes over from an open one.
const COPIED: [&str; 10] = [
    "key",
    "kind",
    "left_id",
    "right_id",
    "left_hash",
    "right_hash",
    "similarity",
    "score",
    "signals",
    "differences",
];

fn open_flags(connection: &Connection) -> rusqlite::Result<Vec<OpenFlag>> {
    let mut statement = connection.prepare_cached(
        "SELECT id, left_id, left_hash, right_id, right_hash FROM memfold_flags
         WHERE state = 'open' AND active = 1 ORDER BY id",
    )?;
    let flags = statement.query_map([], |row| {
        Ok((row.get(0)?, [(row.get(1)?, row.get(2)?), (row.get(3)?, row.get(4)?)]))
    })?;
    flags.collect()
}

/// Tells whether a memory is there, not archived, with the text that was flagged.
fn still_says(connection: &Connection, id: &str, hash: &str) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached(
        "SELECT content FROM stm WHERE id = ?1 AND coalesce(source, '') NOT LIKE 'archived:%'
         AND typeof(content) = 'text'",
    )?;
    let mut rows = statement.query(params![id])?;
    let Some(row) = rows.next()? else { return Ok(false) };
    let content = row.get_ref(0)?.as_bytes().unwrap_or_default();
    Ok(std::str::from_utf8(content).is_ok_and(|content| content_hash(content) == hash))
}

/// Returns the keys of the lineage rows in force that say into which memory a memory was merged.
pub(crate) fn active_folds_of(
    connection: &Connection,
    absorbed: &str,
) -> rusqlite::Result<Vec<i64>> {
    if !own_tables_exist(connection)? {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare_cached(
        "SELECT id FROM memfold_lineage WHERE absorbed_id = ?1 AND active = 1 ORDER BY id",
    )?;
    statement.query_map([absorbed], |row| row.get(0))?.collect()
}

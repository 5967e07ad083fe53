//! Statements about memories, `memfold_flags`, `memfold_edges`, `memfold_summaries`, `memfold_judgements` and
//! `memfold_tiers`; and the state that servers of a store share, `memfold_requests` and `memfold_schedule`.

use std::collections::{BTreeMap, BTreeSet};

use jiff::tz::TimeZone;
use rusqlite::{Connection, Row, params, params_from_iter};

use crate::brain_db::read::access::{Columns, all, cell0, first};
use crate::brain_db::read::load::cell;
use crate::brain_db::read::open::BrainDb;
use crate::brain_db::write::session::{Session, Writes};
use crate::error::StoreError;
use memfold_core::decisions::content_hash;
use memfold_core::journal::{Record, Table};
use memfold_core::judge::{Judgement, Vote};
use memfold_core::lifecycle::{Confidence, Edge, EdgeType, Transition};
use memfold_core::memory::MemoryId;
use memfold_core::merge::FlagKind;
use memfold_core::summary::Summary;
use memfold_core::time::Instant;

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
    pub fn open_flags(&self) -> Result<Vec<OpenPair>, StoreError> {
        self.consult_own("memfold_flags", |connection, columns| {
            let kind = if columns.has("kind") { "f.kind" } else { "NULL" };
            let asserted = match columns.has("asserted_id") {
                true => "f.asserted_id, f.asserted_at",
                false => "NULL, NULL",
            };
            let sql = format!(
                "SELECT f.key, f.left_id, f.right_id, a.content, b.content, f.similarity, f.score, f.at,
                        {kind}, CAST(a.created_at AS TEXT), CAST(b.created_at AS TEXT), {asserted}
                 FROM memfold_flags AS f
                 LEFT JOIN stm AS a ON a.id = f.left_id LEFT JOIN stm AS b ON b.id = f.right_id
                 WHERE f.state = 'open' AND f.active = 1 ORDER BY f.score DESC, f.similarity DESC, f.id"
            );
            all(connection, &sql, [], |row| {
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
            })
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

impl Writes<'_> {
    /// Returns the open flags of pairs that saves found alike; none where memfold never wrote to the store.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn near_flags(&self) -> Result<Vec<WaitingFlag>, StoreError> {
        self.waiting_flags("kind = 'near' ORDER BY id", &[])
    }

    /// Finds an open flag by its key, or by how that begins where only one does; the latest of several.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn waiting_flag(&self, key: &str) -> Result<Option<WaitingFlag>, StoreError> {
        let begins = "substr(key, 1, length(?1)) = ?1 AND length(?1) > 0 ORDER BY id DESC";
        let flags = self.waiting_flags(begins, &[key])?;
        let is_one = flags.windows(2).all(|pair| pair[0].key == pair[1].key);
        Ok(flags.into_iter().next().filter(|_| is_one))
    }

    /// Reads open flags; in earlier versions of the tables flags do not name a side that was saved again.
    fn waiting_flags(
        &self,
        condition: &str,
        params: &[&str],
    ) -> Result<Vec<WaitingFlag>, StoreError> {
        if !self.has_own_tables()? {
            return Ok(Vec::new());
        }
        self.query("read memfold_flags", |connection| {
            let asserted = match Columns::of(connection, "memfold_flags")?.has("asserted_id") {
                true => "asserted_id",
                false => "NULL",
            };
            let sql = format!(
                "SELECT id, key, left_id, left_hash, right_id, right_hash, similarity, {asserted}
                 FROM memfold_flags WHERE state = 'open' AND active = 1 AND {condition}"
            );
            all(connection, &sql, params_from_iter(params), |row| {
                Ok(WaitingFlag {
                    id: row.get(0)?,
                    key: row.get(1)?,
                    sides: [(row.get(2)?, row.get(3)?), (row.get(4)?, row.get(5)?)],
                    similarity: row.get(6)?,
                    asserted: row.get::<_, Option<String>>(7)?.map(MemoryId::new),
                })
            })
        })
    }

    /// Counts the open flags of a memory.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn count_open_flags(&self, id: &MemoryId) -> Result<usize, StoreError> {
        let sql = "SELECT count(*) FROM
                   (SELECT id FROM memfold_flags WHERE left_id = ?1 AND state = 'open' AND active = 1
                    UNION SELECT id FROM memfold_flags
                    WHERE right_id = ?1 AND state = 'open' AND active = 1)";
        let count = self.first("read memfold_flags", sql, [id.as_str()], cell0::<i64>)?;
        Ok(count.and_then(|count| usize::try_from(count).ok()).unwrap_or_default())
    }

    /// Closes a flag.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn close_flag(&self, flag: i64) -> Result<(), StoreError> {
        let sql = "UPDATE memfold_flags SET state = 'closed' WHERE id = ?1";
        self.execute("close a flag", sql, [flag]).map(drop)
    }

    /// Makes a flag one of a contradiction.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn flag_as_contradiction(&self, flag: i64, score: f64) -> Result<(), StoreError> {
        let sql = "UPDATE memfold_flags SET kind = 'contradiction', score = ?2 WHERE id = ?1";
        self.execute("change a flag", sql, (flag, score)).map(drop)
    }

    /// Closes the flags of which a side was edited, archived or is gone.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn close_outdated_flags(&self) -> Result<(), StoreError> {
        for flag in self.waiting_flags("1 ORDER BY id", &[])? {
            let mut holds = true;
            for (memory, hash) in &flag.sides {
                holds &= self.query("read a memory", |c| still_says(c, memory, hash))?;
            }
            if !holds {
                self.close_flag(flag.id)?;
            }
        }
        Ok(())
    }

    /// Returns records of the flags of a unit, closed: a pair that a person took from the list stays off it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn closed_flags_of(&self, run_id: &str, unit: i64) -> Result<Vec<Record>, StoreError> {
        let columns = COPIED.join(", ");
        let sql = format!("SELECT {columns} FROM memfold_flags WHERE run_id = ?1 AND unit = ?2");
        self.all("read memfold_flags", &sql, params![run_id, unit], |row| {
            let mut cells = Vec::with_capacity(COPIED.len() + 1);
            for (at, name) in COPIED.into_iter().enumerate() {
                cells.push((name, cell(row, at)?.into()));
            }
            cells.push(("state", "closed".into()));
            Ok(Record { table: Table::Flags, cells })
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

/// Tells whether a memory is there, not archived, with the text that was flagged.
fn still_says(connection: &Connection, id: &str, hash: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT content FROM stm WHERE id = ?1 AND coalesce(source, '') NOT LIKE 'archived:%'
               AND typeof(content) = 'text'";
    let found = first(connection, sql, [id], |row| {
        let content = row.get_ref(0)?.as_bytes().unwrap_or_default();
        Ok(std::str::from_utf8(content).is_ok_and(|content| content_hash(content) == hash))
    });
    Ok(found?.unwrap_or(false))
}

/// A summary in force.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredSummary {
    /// The memory that holds its text.
    pub memory_id: MemoryId,
    /// The memories that it summarises.
    pub sources: Vec<MemoryId>,
    /// The summary's fields beside its text.
    pub summary: Summary,
}

/// The columns that [`edge`] reads.
pub(crate) const EDGE: &str = "source_id, target_id, type, weight, reason, confidence, run_id, at";

/// The time of an edge with an unreadable time.
const TIME_UNKNOWN: Instant = Instant(0);

/// Reads the columns [`EDGE`]; `None` where this version does not know the type.
pub(crate) fn edge(row: &Row<'_>, time_zone: &TimeZone) -> rusqlite::Result<Option<Edge>> {
    let Some(edge_type) = EdgeType::parse(&row.get::<_, String>(2)?) else { return Ok(None) };
    let confidence: Option<String> = row.get(5)?;
    let confidence = match confidence.as_deref() {
        // An edge that replaces a memory must state its confidence; other edges are facts.
        None if edge_type != EdgeType::Supersedes => Confidence::High,
        stated => stated.and_then(Confidence::of_name).unwrap_or(Confidence::Low),
    };
    let at: String = row.get(7)?;
    Ok(Some(Edge {
        source: MemoryId::new(row.get::<_, String>(0)?),
        target: MemoryId::new(row.get::<_, String>(1)?),
        edge_type,
        weight: row.get::<_, f64>(3)?.clamp(0.0, 1.0),
        reason: row.get::<_, Option<String>>(4)?.unwrap_or_default(),
        confidence,
        run_id: Some(row.get(6)?),
        created_at: Instant::parse(&at, time_zone).unwrap_or(TIME_UNKNOWN),
    }))
}

impl BrainDb {
    /// Returns the edges in force, by source, target and type; none where memfold never wrote to the
    /// store. Types that this version does not know are left out.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn edges(&self, time_zone: &TimeZone) -> Result<Vec<Edge>, StoreError> {
        self.edges_where("1", None, time_zone)
    }

    /// Returns the edges in force from and to a memory, as [`Self::edges`] does.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn edges_of(&self, id: &MemoryId, time_zone: &TimeZone) -> Result<Vec<Edge>, StoreError> {
        self.edges_where("(source_id = ?1 OR target_id = ?1)", Some(id), time_zone)
    }

    fn edges_where(
        &self,
        condition: &str,
        id: Option<&MemoryId>,
        time_zone: &TimeZone,
    ) -> Result<Vec<Edge>, StoreError> {
        self.consult_own("memfold_edges", |connection, _| {
            let sql = format!(
                "SELECT {EDGE} FROM memfold_edges WHERE active = 1 AND {condition}
                 ORDER BY source_id, target_id, type"
            );
            let id = params_from_iter(id.map(MemoryId::as_str));
            let edges: Vec<_> = all(connection, &sql, id, |row| edge(row, time_zone))?;
            Ok(edges.into_iter().flatten().collect())
        })
    }

    /// Returns the summaries in force with a live memory, by memory id. Unreadable rows are left
    /// out.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn summaries(&self) -> Result<Vec<StoredSummary>, StoreError> {
        self.consult_own("memfold_summaries", |connection, _| {
            let sql = "SELECT s.memory_id, s.sources, s.body FROM memfold_summaries AS s
                       JOIN stm ON stm.id = s.memory_id
                       WHERE s.active = 1 AND coalesce(stm.source, '') NOT LIKE 'archived:%'
                       ORDER BY s.memory_id, s.id DESC";
            let rows: Vec<[String; 3]> =
                all(connection, sql, [], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?;
            let mut summaries: Vec<StoredSummary> = Vec::new();
            for [id, sources, body] in rows {
                let (Ok(sources), Ok(summary)) =
                    (serde_json::from_str(&sources), serde_json::from_str(&body))
                else {
                    continue;
                };
                let memory_id = MemoryId::new(id);
                if summaries.last().is_none_or(|last| last.memory_id != memory_id) {
                    summaries.push(StoredSummary { memory_id, sources, summary });
                }
            }
            Ok(summaries)
        })
    }
}

impl Writes<'_> {
    /// Tells whether an edge is in force.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn has_edge(
        &self,
        source: &MemoryId,
        target: &MemoryId,
        kind: &str,
    ) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM memfold_edges
                   WHERE source_id = ?1 AND target_id = ?2 AND type = ?3 AND active = 1";
        self.exists("look for an edge", sql, [source.as_str(), target.as_str(), kind])
    }
}

/// Returns the memories of the summaries, in force or not, that have a memory as a source.
pub(crate) fn summaries_of(connection: &Connection, id: &str) -> rusqlite::Result<Vec<MemoryId>> {
    if Columns::of(connection, "memfold_summaries")?.is_empty() {
        return Ok(Vec::new());
    }
    let sql = "SELECT DISTINCT memory_id FROM memfold_summaries
               WHERE EXISTS (SELECT 1 FROM json_each(sources) AS source WHERE source.value = ?1)
               ORDER BY memory_id";
    all(connection, sql, [id], |row| Ok(MemoryId::new(row.get::<_, String>(0)?)))
}

/// Returns the memories beyond some that models wrote from one of them.
pub(crate) fn restated_in(
    connection: &Connection,
    ids: &BTreeSet<MemoryId>,
) -> rusqlite::Result<Vec<MemoryId>> {
    if Columns::of(connection, "memfold_edges")?.is_empty() {
        return Ok(Vec::new());
    }
    let sql = "SELECT source_id FROM memfold_edges
               WHERE target_id = ?1 AND type = 'consolidates' AND active = 1";
    let mut found = BTreeSet::new();
    for id in ids {
        let new: Vec<String> = all(connection, sql, [id.as_str()], cell0)?;
        found.extend(new.into_iter().map(MemoryId::new));
    }
    Ok(found.difference(ids).cloned().collect())
}

/// An answer of a model as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptVote {
    /// The answer; `None` where its opinions cannot be read.
    pub vote: Option<Vote>,
    /// Its cost.
    pub cost: f64,
    /// When it was kept, as the owner writes times.
    pub at: String,
}

impl BrainDb {
    /// Returns all kept answers of models, in the order of their keys. Rows that cannot be read are
    /// left out.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn votes(&self) -> Result<Vec<KeptVote>, StoreError> {
        self.consult_own("memfold_judgements", |connection, _| {
            let sql = "SELECT key, judge, opinions, cost, at FROM memfold_judgements ORDER BY key";
            let read = |row: &Row<'_>| {
                let (key, judge, opinions): (_, _, String) =
                    (row.get(0)?, row.get(1)?, row.get(2)?);
                let opinions = serde_json::from_str(&opinions).ok();
                let vote = opinions.map(|opinions| Vote { key, judge, opinions });
                Ok::<_, rusqlite::Error>(KeptVote { vote, cost: row.get(3)?, at: row.get(4)? })
            };
            let rows: Vec<Option<_>> = all(connection, sql, [], |row| Ok(read(row).ok()))?;
            Ok(rows.into_iter().flatten().collect())
        })
    }
}

impl Session {
    /// Keeps judgements, all or none; makes memfold's tables where needed. `at` is the time as the owner writes times.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn keep_judgements(&self, judgements: &[Judgement], at: &str) -> Result<(), StoreError> {
        let json = |value: serde_json::Result<String>| value.unwrap_or_default();
        let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        self.write(|writes| {
            writes.prepare(at)?;
            let sql = "INSERT OR REPLACE INTO memfold_judgements(key, judge, memories, opinions,
                           requests, prompt_tokens, completion_tokens, cost, latency_ms, at)
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
            for Judgement { vote: Vote { key, judge, opinions }, memories, usage } in judgements {
                let memories = json(serde_json::to_string(memories));
                let opinions = json(serde_json::to_string(opinions));
                let (requests, latency_ms) = (count(usage.requests), count(usage.latency_ms));
                let tokens = [usage.prompt_tokens, usage.completion_tokens].map(count);
                #[rustfmt::skip]
                let row = params![
                    key, judge, memories, opinions, requests, tokens[0], tokens[1], usage.cost,
                    latency_ms, at
                ];
                writes.execute("keep a judgement", sql, row)?;
            }
            Ok(())
        })
    }
}

/// Rows of one transaction: others wait a few milliseconds at most.
const BATCH_ROWS: usize = 2_000;

/// Tiers before the last one that are remembered of a memory.
const EARLIER_MAX: usize = 32;

/// The stored tier of a memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTier {
    /// The tier that was assigned last.
    pub tier: String,
    /// The reasons, as a JSON array of names.
    pub reasons: String,
    /// Since when it is in this tier, as the owner writes times.
    pub at: String,
    /// The tiers before and when each was assigned, oldest first; the latest 32.
    pub earlier: Vec<(String, String)>,
}

impl BrainDb {
    /// Returns the stored tiers by memory; none where no tier was ever stored.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn assigned_tiers(&self) -> Result<BTreeMap<MemoryId, String>, StoreError> {
        self.consult_own("memfold_tiers", |connection, _| {
            all(connection, "SELECT memory_id, tier FROM memfold_tiers", [], |row| {
                Ok((MemoryId::new(row.get::<_, String>(0)?), row.get(1)?))
            })
        })
    }

    /// Returns the stored tier of a memory.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn stored_tier(&self, id: &MemoryId) -> Result<Option<StoredTier>, StoreError> {
        self.consult_own("memfold_tiers", |connection, columns| {
            // Tables of an earlier version lack the column.
            let earlier = columns.expression("earlier");
            let sql = format!(
                "SELECT tier, coalesce(reasons, '[]'), at, coalesce({earlier}, '[]')
                 FROM memfold_tiers WHERE memory_id = ?1"
            );
            first(connection, &sql, [id.as_str()], |row| {
                let earlier: String = row.get(3)?;
                Ok(StoredTier {
                    tier: row.get(0)?,
                    reasons: row.get(1)?,
                    at: row.get(2)?,
                    // Unreadable values count as none.
                    earlier: serde_json::from_str(&earlier).unwrap_or_default(),
                })
            })
        })
    }
}

impl Session {
    /// Stores changed tiers in place of earlier ones and removes the tiers of memories that are `gone`;
    /// makes memfold's tables where needed. Each batch is one transaction: after an interruption
    /// the next call goes on. `at` is the time as the owner writes times.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn keep_tiers(
        &self,
        changed: &[Transition],
        gone: &[MemoryId],
        at: &str,
    ) -> Result<(), StoreError> {
        let keep = format!(
            "INSERT INTO memfold_tiers(memory_id, tier, retention, reasons, at)
             VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT(memory_id) DO UPDATE SET
             earlier = CASE WHEN tier = excluded.tier THEN earlier ELSE json_insert(
                 CASE WHEN earlier IS NULL OR NOT json_valid(earlier) THEN '[]'
                     WHEN json_array_length(earlier) < {EARLIER_MAX} THEN earlier
                     ELSE json_remove(earlier, '$[0]') END,
                 '$[#]', json_array(tier, at)) END,
             at = CASE WHEN tier = excluded.tier THEN at ELSE excluded.at END,
             tier = excluded.tier, retention = excluded.retention, reasons = excluded.reasons"
        );
        for batch in changed.chunks(BATCH_ROWS) {
            self.write(|writes| {
                writes.prepare(at)?;
                for Transition { id, to, .. } in batch {
                    let reasons = serde_json::to_string(&to.reasons).unwrap_or_default();
                    let (tier, retention) = (to.tier.as_str(), to.retention.overall);
                    let row = params![id.as_str(), tier, retention, reasons, at];
                    writes.execute("store a tier", &keep, row)?;
                }
                Ok::<_, StoreError>(())
            })?;
        }
        for batch in gone.chunks(BATCH_ROWS) {
            self.write(|writes| {
                for memory_id in batch {
                    let sql = "DELETE FROM memfold_tiers WHERE memory_id = ?1";
                    writes.execute("remove a tier", sql, [memory_id.as_str()])?;
                }
                Ok::<_, StoreError>(())
            })?;
        }
        Ok(())
    }
}

/// A request that was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnsweredRequest {
    /// A hash of the request.
    pub digest: String,
    /// The answer, JSON.
    pub answer: String,
}

impl Writes<'_> {
    /// Returns the answer to an earlier request with this name; memfold's tables must exist.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn answered(&self, key: &str) -> Result<Option<AnsweredRequest>, StoreError> {
        let sql = "SELECT digest, answer FROM memfold_requests WHERE key = ?1";
        let read = |row: &Row<'_>| Ok(AnsweredRequest { digest: row.get(0)?, answer: row.get(1)? });
        self.first("read memfold_requests", sql, [key], read)
    }

    /// Remembers an answer, in the transaction that did the work, and drops answers from before
    /// `forgotten_before`. `memories` are the ids that the answer names, a JSON array; times are as
    /// the owner writes them.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn remember_answer(
        &self,
        key: &str,
        request: &AnsweredRequest,
        memories: &str,
        at: &str,
        forgotten_before: &str,
    ) -> Result<(), StoreError> {
        let old = "DELETE FROM memfold_requests WHERE at < ?1";
        self.execute("drop old answers", old, [forgotten_before])?;
        let insert = "INSERT INTO memfold_requests(key, digest, memories, answer, at)
                      VALUES (?1, ?2, ?3, ?4, ?5)";
        let AnsweredRequest { digest, answer } = request;
        self.execute("remember an answer", insert, params![key, digest, memories, answer, at])
            .map(drop)
    }
}

/// Scheduled work as the store remembers it. Times are RFC 3339 in UTC.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScheduleRow {
    /// Its settings, JSON; none if not set.
    pub settings: Option<String>,
    /// The last planned time that was taken.
    pub slot: Option<String>,
    /// Who works on it.
    pub holder: Option<String>,
    /// When the claim ends.
    pub leased_until: Option<String>,
    /// How the last work ended, JSON.
    pub outcome: Option<String>,
}

/// A planned time to take.
#[derive(Debug, Clone, Copy)]
pub struct Lease<'a> {
    /// The planned time.
    pub slot: &'a str,
    /// Who wants it.
    pub holder: &'a str,
    /// The time now.
    pub now: &'a str,
    /// When the claim ends.
    pub until: &'a str,
}

impl BrainDb {
    /// Returns the schedule of this name; the empty row where there is none.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn schedule(&self, name: &str) -> Result<ScheduleRow, StoreError> {
        self.consult_own("memfold_schedule", |connection, _| {
            let sql = "SELECT settings, slot, holder, leased_until, outcome FROM memfold_schedule
                       WHERE name = ?1";
            let row = first(connection, sql, [name], |row| {
                Ok(ScheduleRow {
                    settings: row.get(0)?,
                    slot: row.get(1)?,
                    holder: row.get(2)?,
                    leased_until: row.get(3)?,
                    outcome: row.get(4)?,
                })
            });
            Ok(row?.unwrap_or_default())
        })
    }
}

impl Session {
    /// Stores the settings of scheduled work; makes memfold's tables where needed. The time before which nothing is made
    /// up for, `slot`, is set where none was taken yet. `at` is the time as the owner writes times.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn set_schedule(
        &self,
        name: &str,
        settings: &str,
        slot: &str,
        at: &str,
    ) -> Result<(), StoreError> {
        self.write(|writes| {
            writes.prepare(at)?;
            add_row(writes, name)?;
            let sql = "UPDATE memfold_schedule SET settings = ?2, slot = coalesce(slot, ?3)
                       WHERE name = ?1";
            writes.execute("store the schedule", sql, params![name, settings, slot]).map(drop)
        })
    }

    /// Takes a planned time, unless it or a later one is taken, or work is under way. Returns
    /// whether it was taken.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn take_slot(&self, name: &str, lease: Lease<'_>, at: &str) -> Result<bool, StoreError> {
        let Lease { slot, holder, now, until } = lease;
        self.write(|writes| {
            writes.prepare(at)?;
            add_row(writes, name)?;
            let sql = "UPDATE memfold_schedule SET slot = ?2, holder = ?3, leased_until = ?5
                       WHERE name = ?1 AND (slot IS NULL OR slot < ?2)
                         AND (leased_until IS NULL OR leased_until <= ?4)";
            let lease = [name, slot, holder, now, until];
            Ok(writes.execute("take a planned time", sql, lease)? == 1)
        })
    }

    /// Extends the claim on the work. Does nothing where another server took over.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn extend_slot(&self, name: &str, holder: &str, until: &str) -> Result<(), StoreError> {
        self.write(|writes| {
            let sql =
                "UPDATE memfold_schedule SET leased_until = ?3 WHERE name = ?1 AND holder = ?2";
            writes.execute("go on with planned work", sql, params![name, holder, until]).map(drop)
        })
    }

    /// Releases a planned time after the work, and stores the outcome. Does nothing where another
    /// server took over.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn end_slot(&self, name: &str, holder: &str, outcome: &str) -> Result<(), StoreError> {
        self.write(|writes| {
            let sql = "UPDATE memfold_schedule SET holder = NULL, leased_until = NULL, outcome = ?3
                       WHERE name = ?1 AND holder = ?2";
            writes.execute("end planned work", sql, params![name, holder, outcome]).map(drop)
        })
    }
}

fn add_row(writes: &Writes<'_>, name: &str) -> Result<(), StoreError> {
    let sql = "INSERT OR IGNORE INTO memfold_schedule(name) VALUES (?1)";
    writes.execute("store the schedule", sql, [name]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brain_db::{BrainDbWriter, CreateOptions, OpenOptions, SessionOptions};
    use std::time::Duration;

    const AT: &str = "2026-06-30T12:00:00.000000";

    fn session(folder: &std::path::Path) -> Session {
        let path = folder.join("brain.db");
        if !path.exists() {
            BrainDbWriter::create(&path, CreateOptions::default()).unwrap().finish().unwrap();
        }
        let options =
            SessionOptions { busy_timeout: Duration::from_secs(1), holder: "here 1".to_owned() };
        Session::open_beside_runs(&path, &options).unwrap()
    }

    fn lease<'a>(slot: &'a str, holder: &'a str, now: &'a str, until: &'a str) -> Lease<'a> {
        Lease { slot, holder, now, until }
    }

    /// Two servers run a planned time once; the lease of one that died runs out.
    #[test]
    fn a_planned_time_is_taken_once() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (session(folder.path()), session(folder.path()));
        let (first, second) = ("2026-07-01T02:00:00Z", "2026-07-02T02:00:00Z");
        let take = |by: &Session, lease| by.take_slot("work", lease, AT).unwrap();
        assert!(take(&one, lease(first, "one", first, "2026-07-01T03:00:00Z")));
        assert!(!take(&other, lease(first, "other", first, "2026-07-01T03:00:00Z")));
        // Still at work.
        assert!(!take(&other, lease(second, "other", "2026-07-01T02:30:00Z", second)));
        other.end_slot("work", "other", "{}").unwrap();
        assert!(!take(&other, lease(second, "other", "2026-07-01T02:30:00Z", second)));
        one.end_slot("work", "one", "{\"state\":\"done\"}").unwrap();
        assert!(!take(&other, lease(first, "other", "2026-07-01T02:30:00Z", second)));
        assert!(take(&other, lease(second, "other", second, "2026-07-02T03:00:00Z")));
        // It died.
        let third = "2026-07-03T02:00:00Z";
        assert!(take(&one, lease(third, "one", third, "2026-07-03T03:00:00Z")));
        let store = BrainDb::open(one.path(), OpenOptions::default()).unwrap();
        let row = store.schedule("work").unwrap();
        assert_eq!(row.slot.as_deref(), Some(third));
        assert_eq!(row.outcome.as_deref(), Some("{\"state\":\"done\"}"));
        assert_eq!(store.schedule("other work").unwrap(), ScheduleRow::default());
    }

    #[test]
    fn settings_are_kept_and_nothing_before_them_is_made_up_for() {
        let folder = tempfile::tempdir().unwrap();
        let session = session(folder.path());
        session.set_schedule("work", "{}", "2026-07-01T00:00:00Z", AT).unwrap();
        session.set_schedule("work", "{\"a\":1}", "2026-08-01T00:00:00Z", AT).unwrap();
        let store = BrainDb::open(session.path(), OpenOptions::default()).unwrap();
        let row = store.schedule("work").unwrap();
        assert_eq!(row.settings.as_deref(), Some("{\"a\":1}"));
        assert_eq!(row.slot.as_deref(), Some("2026-07-01T00:00:00Z"));
    }
}

//! Lineage: which memory was merged into which, by `memfold_lineage`, the archive and the rows' sources; and the other
//! facts that explain a memory: provenance, decisions and flags.

use std::collections::{BTreeSet, HashMap};

use jiff::tz::TimeZone;
use rusqlite::{Connection, Params, Row as SqlRow};
use serde_json::Value;

use crate::brain_db::read::access::{Columns, all, cell0, exists, first};
use crate::brain_db::read::load::{MEMORY_COLUMNS, raw_memory};
use crate::brain_db::read::lookup::StoreReader;
use crate::brain_db::read::open::BrainDb;
use crate::brain_db::read::rows::{content_of, id_at0};
use crate::error::StoreError;
use crate::memory_store::LoadRequest;
use memfold_core::decisions;
use memfold_core::journal::RowImage;
use memfold_core::lineage::{
    Declined, Explanation, Few, FlagNote, KeptApart, KnownBy, Lineage, MemoryView, Merge, Place,
    Promotion, Resolved, explain_merges, resolve,
};
use memfold_core::memory::{MemoryId, Status};
use memfold_core::row::{RowFacts, parse_source, row_facts};
use memfold_core::time::Instant;
use memfold_index::NoProgress;

impl BrainDb {
    /// Finds the live memory that holds the statement of the memory with this id.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn resolve(
        &self,
        id: &MemoryId,
        time_zone: &TimeZone,
        now: Instant,
    ) -> Result<Resolved, StoreError> {
        let request = LoadRequest { time_zone, now, progress: &NoProgress };
        self.look_up(&request, |reader| resolve(reader, id))
    }

    /// Returns all facts about a memory.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn explain_memory(
        &self,
        id: &MemoryId,
        time_zone: &TimeZone,
        now: Instant,
    ) -> Result<Explanation, StoreError> {
        let request = LoadRequest { time_zone, now, progress: &NoProgress };
        self.look_up(&request, |reader| reader.explain(id))
    }

    /// Returns the merges in force, in the order in which they were recorded; none where memfold
    /// never wrote to the store.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn merges(&self) -> Result<Vec<Merge>, StoreError> {
        self.consult_own("memfold_lineage", |connection, _| merges(connection, "1 ORDER BY id", []))
    }
}

/// Reads the merges in force that meet a condition; `memfold_lineage` must exist.
fn merges(
    connection: &Connection,
    condition: &str,
    params: impl Params,
) -> rusqlite::Result<Vec<Merge>> {
    let sql = format!(
        "SELECT absorbed_id, survivor_id, similarity, rule_id, reasons, run_id, at
         FROM memfold_lineage WHERE active = 1 AND {condition}"
    );
    all(connection, &sql, params, |row| {
        Ok(Merge {
            merged: MemoryId::new(row.get::<_, String>(0)?),
            survivor: MemoryId::new(row.get::<_, String>(1)?),
            similarity: row.get(2)?,
            rule_id: row.get(3)?,
            reasons: row.get(4)?,
            run_id: row.get(5)?,
            at: row.get(6)?,
            known_by: KnownBy::Lineage,
        })
    })
}

/// A row of the memory table.
struct Found {
    facts: Option<RowFacts>,
    text: Option<String>,
    created_at: Option<String>,
}

impl StoreReader<'_> {
    /// Returns the recorded merges of a memory, the latest first.
    pub(crate) fn merges_of(&self, merged: &MemoryId) -> Result<Vec<Merge>, StoreError> {
        self.merges("absorbed_id = ?1 ORDER BY id DESC", merged)
    }

    /// Returns the recorded merges into a memory, in their order.
    pub(crate) fn merges_into(&self, survivor: &MemoryId) -> Result<Vec<Merge>, StoreError> {
        self.merges("survivor_id = ?1 ORDER BY id", survivor)
    }

    fn merges(&self, condition: &str, id: &MemoryId) -> Result<Vec<Merge>, StoreError> {
        if !self.own()?.has_lineage {
            return Ok(Vec::new());
        }
        self.pass.query("memfold_lineage", |c| merges(c, condition, [id.as_str()]))
    }

    fn explain(&self, id: &MemoryId) -> Result<Explanation, StoreError> {
        let content_hash = self.place(id)?.text.as_deref().map(decisions::content_hash);
        let explained = explain_merges(self, id, self.view(id)?)?;
        self.pass.query("memfold_decisions", |c| added(c, explained, content_hash.as_deref()))
    }

    /// Returns a memory for display.
    fn view(&self, id: &MemoryId) -> Result<Option<MemoryView>, StoreError> {
        Ok(self.found(id)?.and_then(|found| {
            let facts = found.facts?;
            Some(MemoryView {
                text: found.text,
                categories: facts.categories.iter().map(ToString::to_string).collect(),
                importance: facts.importance,
                access_count: facts.access_count,
                created_at: found.created_at,
                root_source: facts.root_source.into(),
            })
        }))
    }

    /// Returns the memories that their source marks as archived, or that are in the archive table.
    pub(crate) fn archived_ids(&self) -> Result<Vec<MemoryId>, StoreError> {
        // An invalid text is not an id of any memory.
        let read = |row: &SqlRow<'_>| Ok(row.get_ref(0)?.as_str().ok().map(MemoryId::new));
        let in_place =
            "SELECT id FROM stm WHERE source LIKE 'archived:%' AND typeof(id) = 'text' ORDER BY id";
        let mut ids: Vec<Option<MemoryId>> =
            self.pass.query("stm", |c| all(c, in_place, [], read))?;
        if self.archive()?.is_some() {
            let moved = "SELECT DISTINCT memory_id FROM memfold_archive WHERE table_name = 'stm'
                         ORDER BY memory_id";
            let moved = self.pass.query("memfold_archive", |c| all(c, moved, [], read));
            ids.extend::<Vec<_>>(moved?);
        }
        Ok(ids.into_iter().flatten().collect())
    }

    /// Tells whether a memory says something else than when it was archived, as far as the journal knows.
    pub(crate) fn was_edited(&self, id: &MemoryId, text: Option<&str>) -> Result<bool, StoreError> {
        if !self.own()?.has_journal {
            return Ok(false);
        }
        let sql = "SELECT before FROM memfold_journal
                   WHERE row_key = ?1 AND table_name = 'stm' AND op = 'set'
                     AND instr(before, '\"content\"') > 0 ORDER BY seq DESC LIMIT 1";
        let before = self.pass.query("memfold_journal", |c| first(c, sql, [id.as_str()], cell0));
        let kept = before?.and_then(|json: String| text_before(&json));
        Ok(kept.is_some() && kept.as_deref() != text)
    }

    fn found(&self, id: &MemoryId) -> Result<Option<Found>, StoreError> {
        let columns = self.pass.memory_columns.expressions(&MEMORY_COLUMNS);
        let sql = format!("SELECT 0, {columns} FROM stm WHERE id = ?1 LIMIT 1");
        let LoadRequest { time_zone, now, .. } = *self.pass.request;
        let read = |row: &SqlRow<'_>| {
            let raw = raw_memory(row)?;
            Ok(Found {
                facts: row_facts(&raw, time_zone, now).ok(),
                text: raw.content.text().ok().flatten().map(Into::into),
                created_at: raw.created_at.text().ok().flatten().map(Into::into),
            })
        };
        self.pass.query("stm", |c| first(c, &sql, [id.as_str()], read))
    }

    fn claims(&self) -> Result<&Claims, StoreError> {
        if let Some(claims) = self.claims.get() {
            return Ok(claims);
        }
        let read = self.pass.query("stm", Claims::read)?;
        Ok(self.claims.get_or_init(|| read))
    }

    /// The merge of a memory by any evidence: the row's own source first, then lineage, then
    /// survivors' lists.
    fn latest(&self, id: &MemoryId) -> Result<Option<Merge>, StoreError> {
        let facts = self.found(id)?.and_then(|found| found.facts);
        let own_word = match facts.and_then(|facts| facts.merged_into) {
            Some(survivor) => Some(survivor),
            None => self.archived_record("stm", id.as_str())?.and_then(|record| record.survivor),
        };
        let mut recorded = self.merges_of(id)?.into_iter();
        if let Some(survivor) = own_word {
            let same = recorded.find(|merge| merge.survivor == survivor);
            return Ok(Some(same.unwrap_or_else(|| provenance_merge(id.clone(), survivor))));
        }
        if let Some(recorded) = recorded.next() {
            return Ok(Some(recorded));
        }
        let survivor = self.claims()?.survivor(id).cloned();
        Ok(survivor.map(|survivor| provenance_merge(id.clone(), survivor)))
    }

    /// Tells whether anything in the store remembers a memory that is not there.
    fn is_remembered(&self, id: &MemoryId) -> Result<bool, StoreError> {
        let own = self.own()?;
        let sql = "SELECT 1 FROM memfold_lineage WHERE absorbed_id = ?1 OR survivor_id = ?1";
        let is_known = |c: &Connection| exists(c, sql, [id.as_str()]);
        if own.has_lineage && self.pass.query("memfold_lineage", is_known)? {
            return Ok(true);
        }
        let sql = "SELECT 1 FROM memfold_journal WHERE row_key = ?1 AND table_name = 'stm'";
        let is_known = |c: &Connection| exists(c, sql, [id.as_str()]);
        if own.has_journal && self.pass.query("memfold_journal", is_known)? {
            return Ok(true);
        }
        let claims = self.claims()?;
        Ok(claims.survivor(id).is_some() || !claims.merged(id).is_empty())
    }
}

impl Lineage for StoreReader<'_> {
    type Error = StoreError;

    fn place(&self, id: &MemoryId) -> Result<Place, StoreError> {
        if let Some(found) = self.found(id)? {
            let status = match found.facts.map(|facts| facts.status) {
                None => Status::Unreadable,
                Some(Status::Archived) if self.latest(id)?.is_some() => Status::Merged,
                Some(status) => status,
            };
            return Ok(Place { status, text: found.text });
        }
        if let Some(record) = self.archived_record("stm", id.as_str())? {
            let text = record.image.as_ref().and_then(content_of).map(ToOwned::to_owned);
            return Ok(Place { status: Status::Moved, text });
        }
        let is_remembered = self.is_remembered(id)?;
        let status = if is_remembered { Status::Gone } else { Status::Unknown };
        Ok(Place { status, text: None })
    }

    fn merged_into(&self, id: &MemoryId) -> Result<Option<Merge>, StoreError> {
        use Status::{Expired, Live, Record, Unreadable};
        match self.place(id)?.status {
            // A row without an archive mark was brought back by the program that removed the mark.
            Live | Expired | Record | Unreadable => Ok(None),
            _ => self.latest(id),
        }
    }

    fn merged(&self, id: &MemoryId) -> Result<Vec<Merge>, StoreError> {
        let mut merges = self.merges_into(id)?;
        let claimed = self.claims()?.merged(id).iter().cloned();
        merges.extend(claimed.map(|merged| provenance_merge(merged, id.clone())));
        let mut seen = BTreeSet::new();
        merges.retain(|merge| seen.insert(merge.merged.clone()));
        let mut direct = Vec::with_capacity(merges.len());
        for merge in merges {
            // A list names all memories ever merged, also the ones that came along with another.
            if self.latest(&merge.merged)?.is_some_and(|latest| latest.survivor == *id) {
                direct.push(merge);
            }
        }
        Ok(direct)
    }
}

fn provenance_merge(merged: MemoryId, survivor: MemoryId) -> Merge {
    Merge {
        merged,
        survivor,
        similarity: None,
        rule_id: None,
        reasons: None,
        run_id: None,
        at: None,
        known_by: KnownBy::Provenance,
    }
}

/// The text in cells of the journal.
fn text_before(json: &str) -> Option<String> {
    let value: Value = serde_json::from_str(json).ok()?;
    let image = RowImage::from_json(None, &value)?;
    content_of(&image).map(ToOwned::to_owned)
}

/// The merges that the rows' sources claim, for the whole store.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    /// Merged id → survivor, by the merged row's own source.
    own: HashMap<MemoryId, MemoryId>,
    /// Merged id → survivor, by survivors' lists.
    listed: HashMap<MemoryId, MemoryId>,
    /// Survivor → all that any row says was merged into it.
    merged: HashMap<MemoryId, Vec<MemoryId>>,
}

impl Claims {
    /// Reads all rows with a source that mentions merges, in one pass.
    fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let mut claims = Self::default();
        let mut statement = connection.prepare(
            "SELECT CAST(id AS TEXT), CAST(source AS TEXT) FROM stm
             WHERE (source LIKE 'archived:%' OR source LIKE 'consolidation:{%')
               AND typeof(id) <> 'blob' AND id IS NOT NULL ORDER BY id",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            // A text that is not UTF-8 is not ours.
            let (Ok(id), Ok(source)) = (row.get_ref(0)?.as_str(), row.get_ref(1)?.as_str()) else {
                continue;
            };
            claims.take(MemoryId::new(id), source);
        }
        Ok(claims)
    }

    fn take(&mut self, id: MemoryId, source: &str) {
        let said = parse_source(source);
        if let Some(survivor) = said.merged_into {
            self.merged.entry(survivor.clone()).or_default().push(id.clone());
            self.own.insert(id.clone(), survivor);
        }
        for merged in said.merged_from.into_iter().filter(|merged| *merged != id) {
            self.merged.entry(id.clone()).or_default().push(merged.clone());
            self.listed.entry(merged).or_insert_with(|| id.clone());
        }
    }

    /// Returns the survivor that any row claims for a memory, its own row first.
    fn survivor(&self, id: &MemoryId) -> Option<&MemoryId> {
        self.own.get(id).or_else(|| self.listed.get(id))
    }

    /// Returns the memories that any row claims were merged into a memory, with repeats.
    fn merged(&self, id: &MemoryId) -> &[MemoryId] {
        self.merged.get(id).map_or(&[], Vec::as_slice)
    }
}

/// Adds decisions and flags to an explanation; `content_hash` is that of the text as it is now.
fn added(
    connection: &Connection,
    explained: Explanation,
    content_hash: Option<&str>,
) -> rusqlite::Result<Explanation> {
    let id = explained.resolved.id.clone();
    let mut explained = explained;
    let holds = |row: &SqlRow<'_>| {
        Ok::<_, rusqlite::Error>(row.get::<_, Option<String>>(2)?.as_deref() == content_hash)
    };
    if !Columns::of(connection, "memfold_decisions")?.is_empty() {
        explained.promotions = decisions(connection, "promoted", &id, |row| {
            Ok(Promotion { access_count: row.get(5)?, run_id: row.get(0)?, at: row.get(1)? })
        })?;
        let others = "SELECT memory_id FROM memfold_decisions
                      WHERE kind = 'keep_both' AND group_id = ?1 AND memory_id <> ?2 AND active = 1
                      ORDER BY id";
        explained.kept_apart = decisions(connection, "keep_both", &id, |row| {
            let group: Option<String> = row.get(3)?;
            let from = all(connection, others, (group, id.as_str()), id_at0)?;
            Ok(KeptApart { from, holds: holds(row)?, run_id: row.get(0)?, at: row.get(1)? })
        })?;
        explained.declined = decisions(connection, "declined", &id, |row| {
            let action = row.get::<_, Option<String>>(4)?.unwrap_or_default();
            Ok(Declined { action, holds: holds(row)?, run_id: row.get(0)?, at: row.get(1)? })
        })?;
    }
    if !Columns::of(connection, "memfold_flags")?.is_empty() {
        let sql = "SELECT CASE WHEN left_id = ?1 THEN right_id ELSE left_id END,
                       state, similarity, score, run_id, at
                   FROM memfold_flags
                   WHERE (left_id = ?1 OR right_id = ?1) AND active = 1 ORDER BY id DESC";
        explained.flags = all(connection, sql, [id.as_str()], |row| {
            Ok(FlagNote {
                other: id_at0(row)?,
                state: row.get(1)?,
                similarity: row.get(2)?,
                score: row.get(3)?,
                run_id: row.get(4)?,
                at: row.get(5)?,
            })
        })?;
    }
    Ok(explained)
}

/// Reads the active decisions of a kind about a memory, the latest first.
fn decisions<T>(
    connection: &Connection,
    kind: &str,
    id: &MemoryId,
    read: impl FnMut(&SqlRow<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Few<T>> {
    let sql =
        "SELECT run_id, at, content_hash, group_id, action, access_count FROM memfold_decisions
         WHERE kind = ?1 AND memory_id = ?2 AND active = 1 ORDER BY id DESC";
    all(connection, sql, (kind, id.as_str()), read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brain_db::create::FRESH_TABLES;
    use crate::brain_db::own::tables::migrate;
    use crate::brain_db::read::access::StoreVersion;
    use crate::brain_db::read::load::Pass;
    use crate::brain_db::read::open::OpenOptions;
    use memfold_core::lineage::Branch;

    const NOW: Instant = Instant(1_780_272_000_000_000);

    /// A store with rows (id, content, categories, source), and memfold's tables where wanted.
    fn store(rows: &[(&str, &str, &str, &str)], has_tables: bool) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(FRESH_TABLES).unwrap();
        for row in rows {
            connection
                .execute(
                    "INSERT INTO stm(id, content, categories, source, created_at)
                 VALUES (?1, ?2, ?3, ?4, '2026-01-02T03:04:05')",
                    *row,
                )
                .unwrap();
        }
        if has_tables {
            migrate(&connection, || Ok("s".to_owned()), "t").unwrap();
        }
        connection
    }

    /// c was merged into b, b into a; d was archived.
    fn chain(has_tables: bool) -> Connection {
        let into =
            |id: &str| format!(r#"archived:{{"merged_into":"{id}","previous_source":"agent"}}"#);
        let survivor = r#"consolidation:{"merged_from":["c","b"],"previous_source":"agent"}"#;
        let middle = r#"archived:{"merged_into":"a","previous_source":"user"}"#;
        let rows = [
            ("a", "The kiln is fired on Mondays.", r#"["pottery"]"#, survivor),
            ("b", "the kiln is fired on Mondays", r#"["archived"]"#, middle),
            ("c", "Kiln: Mondays", r#"["archived"]"#, &into("b")),
            ("d", "Old.", r#"["archived"]"#, "archived:low_utility"),
        ];
        let connection = store(&rows, has_tables);
        if has_tables {
            record(&connection, "c", "b", 1);
            record(&connection, "b", "a", 1);
        }
        connection
    }

    fn record(connection: &Connection, merged: &str, survivor: &str, active: i64) {
        connection
        .execute(
            "INSERT INTO memfold_lineage(absorbed_id, survivor_id, similarity, rule_id, reasons,
                                         run_id, unit, at, active)
             VALUES (?1, ?2, 0.97, 'R2', 'similarity >= 0.95', 'r1', 1, 't', ?3)",
            (merged, survivor, active),
        )
        .unwrap();
    }

    fn look<T>(
        connection: &Connection,
        read: impl FnOnce(&StoreReader<'_>) -> Result<T, StoreError>,
    ) -> T {
        let store = BrainDb::at("brain.db", OpenOptions::default());
        let memory_columns = &Columns::of(connection, "stm").unwrap();
        let request = &LoadRequest { time_zone: &TimeZone::UTC, now: NOW, progress: &NoProgress };
        let (store, version) = (&store, &StoreVersion::default());
        let pass = Pass { store, version, memory_columns, connection, request };
        read(&StoreReader::over(pass).unwrap()).unwrap()
    }

    fn resolved(connection: &Connection, id: &str) -> Resolved {
        look(connection, |reader| resolve(reader, &MemoryId::new(id)))
    }

    fn live(connection: &Connection, id: &str) -> Option<String> {
        resolved(connection, id).live_id().map(ToString::to_string)
    }

    fn explained(connection: &Connection, id: &str) -> Explanation {
        look(connection, |reader| reader.explain(&MemoryId::new(id)))
    }

    fn ids(branches: &Few<Branch>) -> Vec<&str> {
        branches.shown.iter().map(|branch| branch.merge.merged.as_str()).collect()
    }

    #[test]
    fn ids_lead_to_the_living_with_and_without_tables() {
        for has_tables in [true, false] {
            let connection = chain(has_tables);
            for id in ["a", "b", "c"] {
                assert_eq!(live(&connection, id).as_deref(), Some("a"), "{id} {has_tables}");
            }
            assert_eq!(resolved(&connection, "d").end, Status::Archived);
            assert_eq!(resolved(&connection, "x").end, Status::Unknown);
            let known_by = if has_tables { KnownBy::Lineage } else { KnownBy::Provenance };
            assert!(
                resolved(&connection, "c").merges.iter().all(|merge| merge.known_by == known_by)
            );
        }
    }

    #[test]
    fn a_memory_is_explained_as_a_tree() {
        for has_tables in [true, false] {
            let explained = explained(&chain(has_tables), "a");
            assert_eq!(ids(&explained.merged), ["b"], "{has_tables}");
            let b = &explained.merged.shown[0];
            assert_eq!((ids(&b.branches), b.status), (vec!["c"], Status::Merged));
            assert_eq!(b.text.as_deref(), Some("the kiln is fired on Mondays"));
            assert_eq!(b.merge.similarity, has_tables.then_some(0.97));
            let memory = explained.memory.unwrap();
            assert_eq!((&*memory.root_source, &*memory.categories[0]), ("agent", "pottery"));
        }
    }

    #[test]
    fn a_deleted_merged_row_is_found_in_its_survivors_list() {
        let connection = chain(false);
        connection.execute("DELETE FROM stm WHERE id IN ('b', 'c')", []).unwrap();
        assert_eq!(live(&connection, "c").as_deref(), Some("a"));
        assert_eq!(resolved(&connection, "c").status, Status::Gone);
        let merged = explained(&connection, "a").merged;
        assert_eq!(ids(&merged), ["c", "b"]);
        assert_eq!(merged.shown[0].status, Status::Gone);
    }

    #[test]
    fn a_deleted_survivor_is_told() {
        let connection = chain(true);
        connection.execute("DELETE FROM stm WHERE id = 'a'", []).unwrap();
        let resolved = resolved(&connection, "c");
        assert_eq!((resolved.end, resolved.last().as_str()), (Status::Gone, "a"));
        assert_eq!(resolved.live_id(), None);
    }

    #[test]
    fn what_somebody_brought_back_is_live() {
        let connection = chain(true);
        connection
            .execute("UPDATE stm SET categories = '[]', source = 'agent' WHERE id = 'b'", [])
            .unwrap();
        assert_eq!(live(&connection, "b").as_deref(), Some("b"));
        assert_eq!(live(&connection, "c").as_deref(), Some("b"));
        assert_eq!(explained(&connection, "a").merged.shown[0].status, Status::Live);
    }

    #[test]
    fn withdrawn_lineage_counts_no_more() {
        let connection =
            store(&[("a", "A.", "[]", "agent"), ("z", "Z.", r#"["archived"]"#, "x")], true);
        record(&connection, "z", "a", 0);
        assert_eq!(resolved(&connection, "z").end, Status::Archived);
        assert!(explained(&connection, "a").merged.shown.is_empty());
        record(&connection, "z", "a", 1);
        assert_eq!(live(&connection, "z").as_deref(), Some("a"));
    }

    #[test]
    fn moved_memories_are_followed_and_quoted() {
        let connection = store(&[("a", "A.", "[]", "agent")], true);
        connection
        .execute_batch(
            r#"INSERT INTO memfold_archive(memory_id, table_name, row, indexed, survivor_id, run_id, at)
               VALUES ('m', 'stm', '{"id":"m","content":"Moved text."}', 1, 'a', 'r1', 't'),
                      ('m', 'embeddings', '{"id":"e"}', 0, 'a', 'r1', 't'),
                      ('n', 'stm', '{"id":"n","content":"N."}', 1, NULL, 'r1', 't');"#,
        )
        .unwrap();
        record(&connection, "m", "a", 1);
        assert_eq!(live(&connection, "m").as_deref(), Some("a"));
        assert_eq!(resolved(&connection, "n").end, Status::Moved);
        let merged = explained(&connection, "a").merged;
        assert_eq!(merged.shown[0].text.as_deref(), Some("Moved text."));
        assert_eq!(merged.shown[0].status, Status::Moved);
    }

    #[test]
    fn sources_that_lead_in_circles_end() {
        let into = |id: &str| format!("archived:merged_into:{id}");
        let rows = [
            ("a", "A.", "[]", &*into("b")),
            ("b", "B.", "[]", &*into("a")),
            ("s", "S.", "[]", &*into("s")),
        ];
        let connection = store(&rows, false);
        assert!(resolved(&connection, "a").is_circle && resolved(&connection, "s").is_circle);
        assert_eq!(ids(&explained(&connection, "a").merged), ["b"]);
    }

    #[test]
    fn ten_thousand_merged_rows_are_counted() {
        let connection = store(&[("a", "A.", "[]", "agent")], true);
        connection
            .execute_batch(
                "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)
             INSERT INTO memfold_lineage(absorbed_id, survivor_id, run_id, unit, at, active)
             SELECT 'm' || i, 'a', 'r', 1, 't', 1 FROM n;",
            )
            .unwrap();
        let merged = explained(&connection, "a").merged;
        assert_eq!((merged.shown.len(), merged.more), (20, 9_980));
    }

    #[test]
    fn decisions_and_flags_are_told_while_they_are_active() {
        let connection = store(&[("a", "A.", "[]", "agent"), ("b", "B.", "[]", "agent")], true);
        let hash = memfold_core::decisions::content_hash("A.");
        for active in [0, 1] {
            for (kind, member) in
                [("keep_both", "a"), ("keep_both", "b"), ("promoted", "a"), ("declined", "a")]
            {
                connection
                .execute(
                    "INSERT INTO memfold_decisions(kind, group_id, memory_id, content_hash, action,
                                                   access_count, run_id, unit, at, active)
                     VALUES (?1, 'g', ?2, ?3, 'archive', 7, 'r', 1, 't', ?4)",
                    (kind, member, &hash, active),
                )
                .unwrap();
            }
            connection
            .execute(
                "INSERT INTO memfold_flags(key, left_id, right_id, left_hash, right_hash, score,
                                           state, run_id, unit, at, active)
                 VALUES ('k', 'a', 'b', '', '', 0.9, 'open', 'r', 1, 't', ?1)",
                [active],
            )
            .unwrap();
        }
        let told = explained(&connection, "a");
        assert_eq!(told.promotions.shown.len(), 1);
        assert_eq!(told.promotions.shown[0].access_count, Some(7));
        assert_eq!(told.kept_apart.shown[0].from.shown, [MemoryId::new("b")]);
        assert!(told.kept_apart.shown[0].holds);
        assert_eq!((&*told.declined.shown[0].action, told.declined.shown.len()), ("archive", 1));
        assert_eq!((told.flags.shown.len(), told.flags.shown[0].other.as_str()), (1, "b"));
        assert_eq!(explained(&connection, "b").flags.shown[0].other.as_str(), "a");
        assert!(!explained(&connection, "b").kept_apart.shown[0].holds);
    }

    #[test]
    fn odd_rows_do_not_hinder() {
        let connection = store(&[("a", "A.", "[]", "agent")], false);
        connection
            .execute_batch(
                "INSERT INTO stm(id, content, source, created_at) VALUES
                 (NULL, 'x', 'archived:x', 't'), (x'00ff', 'y', 'archived:merged_into:a', 't'),
                 ('u', 'u', CAST(x'61726368697665643aff' AS TEXT), 't'), (7, 'seven', 'agent', 't'),
                 ('e', '', 'agent', 't');",
            )
            .unwrap();
        assert!(explained(&connection, "a").merged.shown.is_empty());
        assert_eq!(live(&connection, "7").as_deref(), Some("7"));
        for id in ["u", "e"] {
            assert_eq!(resolved(&connection, id).end, Status::Unreadable, "{id}");
        }
    }
}

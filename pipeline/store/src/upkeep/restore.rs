//! [`UpkeepRun`]: a run of upkeep; [`restore`]: an archived memory lives again; [`prune`]: old entries of the journal go.

use jiff::tz::TimeZone;
use rusqlite::{Connection, params};
use serde::Serialize;

use crate::brain_db::own::archive::archived_image;
use crate::brain_db::own::runs::{NewUnit, RunStart};
use crate::brain_db::read::access::{all, cell0, cells2};
use crate::brain_db::read::lookup::StoreReader;
use crate::brain_db::read::open::BrainDb;
use crate::brain_db::write::changes::{Mark, apply};
use crate::brain_db::write::rows::Layout;
use crate::brain_db::write::session::{Session, Writes};
use crate::error::StoreError;
use crate::memory_store::LoadRequest;
use memfold_core::journal::{Change, ColumnChange, RowImage, RowKey, Table};
use memfold_core::lineage::{Lineage as _, Resolved, resolve};
use memfold_core::memory::{MemoryId, Status};
use memfold_core::merge::{DecisionAbout, decision};
use memfold_core::report::Executed;
use memfold_core::row::{RawMemory, categories_to_json, row_facts};
use memfold_core::runs::{RunKind, RunState};
use memfold_core::time::Instant;
use memfold_core::value::Value;
use memfold_guard::text::excerpt;
use memfold_index::NoProgress;

/// A run of upkeep.
#[derive(Debug, Clone, Copy)]
pub struct UpkeepRun<'a> {
    /// The id wanted for the run.
    pub run_id: &'a str,
    /// The run's time.
    pub now: Instant,
    /// The zone of naive times.
    pub time_zone: &'a TimeZone,
    /// Who runs: `<machine> <process>`.
    pub holder: &'a str,
}

impl UpkeepRun<'_> {
    /// Returns the run's time as the owner writes times.
    pub fn at(&self) -> String {
        self.now.to_naive_local(self.time_zone)
    }

    /// Begins a run, does the work, given the run's id, and records the end. Returns the id.
    pub fn carry_out<T, E: From<StoreError>>(
        &self,
        session: &Session,
        kind: RunKind,
        target: Option<&str>,
        work: impl FnOnce(&str) -> Result<(T, u64), E>,
    ) -> Result<(String, T), E> {
        let at = self.at();
        session.prepare(&at)?;
        let (run_id, holder) = (self.run_id, self.holder);
        let start = RunStart { run_id, kind, plan_id: None, target, holder, at: &at };
        let run_id = session.begin_run(&start)?;
        let worked = work(&run_id);
        let (state, applied) = match &worked {
            Ok((_, applied)) => (RunState::Done, *applied),
            Err(_) => (RunState::Failed, 0),
        };
        let executed = Executed { applied, ..Executed::default() };
        let finished = session.finish_run(&run_id, state, &at, executed);
        let (done, _) = worked?;
        finished?;
        Ok((run_id, done))
    }
}

/// Why a memory was neither restored nor forgotten.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpkeepError {
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is not archived.
    #[error("{id} is not archived: it is {}", status.name())]
    NotArchived {
        /// The memory, escaped.
        id: String,
        /// Where it is.
        status: Status,
    },
    /// It is unknown.
    #[error("{id} is not in this store")]
    Unknown {
        /// The memory, escaped.
        id: String,
    },
    /// Others were merged into it and would be lost with it.
    #[error("{} memories were merged into {id}: {}{}", merged_rows.len(), list(merged_rows), if merged_rows.len() > LISTED_MAX { ", …" } else { "" })]
    HasMerged {
        /// The memory, escaped.
        id: String,
        /// The others, escaped.
        merged_rows: Vec<String>,
    },
}

/// Ids listed in an error.
const LISTED_MAX: usize = 10;

fn list(ids: &[String]) -> String {
    ids[..ids.len().min(LISTED_MAX)].join(", ")
}

impl UpkeepError {
    /// Returns advice for the user.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Store(error) => return error.hint(),
            Self::NotArchived { status: Status::Gone, .. } => {
                "somebody deleted its row: `memfold undo DB --memory ID --recreate` may bring it back"
            }
            Self::NotArchived { status: Status::Unknown, .. } | Self::Unknown { .. } => {
                "check the id and the store"
            }
            Self::NotArchived { .. } => "`memfold explain DB ID` tells more",
            Self::HasMerged { .. } => {
                "bring them back first (`memfold undo DB --memory ID`), or forget them as well: --with-merged"
            }
        };
        Some(text.to_owned())
    }
}

/// Characters of a text.
const TEXT_CHARS: usize = 120;
/// The source of a row if others overwrote the first one.
const SOURCE_DEFAULT: &str = "agent";

/// Why an archived memory might be wanted back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RestoreReason {
    /// Its text was edited after it was archived.
    Edited,
    /// What it was merged into is gone.
    SurvivorGone,
}

/// An archived memory that might be wanted back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct RestoreCandidate {
    /// The memory.
    pub id: MemoryId,
    /// Why.
    pub reason: RestoreReason,
    /// What it was merged into, at the end of all merges.
    pub survivor: Option<MemoryId>,
    /// An excerpt of its text, escaped.
    pub text: Option<String>,
}

/// What restoring a memory means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Restoration {
    /// The memory.
    pub id: MemoryId,
    /// Where it is now.
    pub status: Status,
    /// What it will be kept apart from while the texts stay.
    pub apart_from: Vec<MemoryId>,
    /// An excerpt of its text, escaped.
    pub text: Option<String>,
}

/// Lists archived memories that were edited since, or lack their survivor.
///
/// # Errors
/// When the store cannot be read.
pub fn restorable(
    store: &BrainDb,
    time_zone: &TimeZone,
    now: Instant,
) -> Result<Vec<RestoreCandidate>, StoreError> {
    let request = LoadRequest { time_zone, now, progress: &NoProgress };
    store.look_up(&request, |lineage| {
        let mut candidates = Vec::new();
        for id in lineage.archived_ids()? {
            candidates.extend(candidate(lineage, id)?);
        }
        Ok(candidates)
    })
}

fn candidate(
    lineage: &StoreReader<'_>,
    id: MemoryId,
) -> Result<Option<RestoreCandidate>, StoreError> {
    let resolved = resolve(lineage, &id)?;
    let survivor = (!resolved.merges.is_empty()).then(|| resolved.last().clone());
    let is_lost = resolved.is_circle
        || survivor.is_some() && matches!(resolved.end, Status::Gone | Status::Unknown);
    let text = lineage.place(&id)?.text;
    let reason = if is_lost {
        RestoreReason::SurvivorGone
    } else if lineage.was_edited(&id, text.as_deref())? {
        RestoreReason::Edited
    } else {
        return Ok(None);
    };
    let text = text.map(|text| excerpt(&text, TEXT_CHARS));
    Ok(Some(RestoreCandidate { id, reason, survivor, text }))
}

/// Returns the effect of restoring a memory, without writing.
///
/// # Errors
/// When it is not archived, or the store cannot be read.
pub fn preview_restore(
    store: &BrainDb,
    id: &MemoryId,
    time_zone: &TimeZone,
    now: Instant,
) -> Result<Restoration, UpkeepError> {
    store.look_on(|reads| Ok(examine(reads, id, time_zone, now)?.restoration))
}

/// Brings an archived memory back to life and keeps it apart from its survivor. Returns the run as
/// well, which can be undone.
///
/// # Errors
/// When it is not archived, or the store cannot be written.
pub fn restore(
    session: &Session,
    id: &MemoryId,
    run: &UpkeepRun<'_>,
) -> Result<(String, Restoration), UpkeepError> {
    let UpkeepRun { time_zone, now, .. } = *run;
    session.read(|reads| examine(reads, id, time_zone, now).map(drop))?;
    let at = run.at();
    run.carry_out(session, RunKind::Restore, Some(id.as_str()), |run_id| {
        session.write(|writes| {
            let examined = examine(writes, id, time_zone, now)?;
            let mark = Mark { run_id, unit: 1, at: &at };
            let layout = writes.layout()?;
            bring_back(writes, &layout, &mark, &examined)?;
            Ok((examined.restoration, 1))
        })
    })
}

/// Brings back a memory that a rule archived, as a unit of a run under way.
///
/// # Errors
/// When it is not archived, or the store cannot be written.
pub fn revive(
    writes: &Writes<'_>,
    id: &MemoryId,
    time_zone: &TimeZone,
    now: Instant,
    mark: &Mark<'_>,
) -> Result<(), UpkeepError> {
    let examined = examine(writes, id, time_zone, now)?;
    Ok(bring_back(writes, &writes.layout()?, mark, &examined)?)
}

/// A memory to restore, as it is now.
struct Examined {
    restoration: Restoration,
    row: Archived,
    resolved: Resolved,
    /// It as it would be, if it stays archived by its own marks.
    facts: Option<(Vec<String>, String)>,
    lineage_keys: Vec<i64>,
    /// Whether full-text search does not find it where it stands.
    is_unsearchable: bool,
}

/// Where the row of an archived memory is.
enum Archived {
    InPlace(RowImage),
    Moved(RowImage),
}

impl Archived {
    const fn image(&self) -> &RowImage {
        match self {
            Self::InPlace(image) | Self::Moved(image) => image,
        }
    }
}

fn examine(
    reads: &Writes<'_>,
    id: &MemoryId,
    time_zone: &TimeZone,
    now: Instant,
) -> Result<Examined, UpkeepError> {
    let layout = reads.layout()?;
    let request = LoadRequest { time_zone, now, progress: &NoProgress };
    let resolved = reads.look_up(&request, |lineage| resolve(lineage, id))?;
    let status = resolved.status;
    let not_archived = || UpkeepError::NotArchived { id: excerpt(id.as_str(), TEXT_CHARS), status };
    let mut is_unsearchable = false;
    let row = match status {
        Status::Merged | Status::Archived => {
            let row = reads.memory(&layout, id)?.ok_or_else(not_archived)?;
            is_unsearchable = row.is_indexed == Some(false);
            Archived::InPlace(row.image)
        }
        Status::Moved => {
            Archived::Moved(archived_image(reads, id.as_str())?.ok_or_else(not_archived)?)
        }
        _ => return Err(not_archived()),
    };
    let text = row.image().get("content").and_then(Value::as_text);
    let restoration = Restoration {
        id: id.clone(),
        status,
        apart_from: apart_from(reads, &layout, &resolved)?,
        text: text.map(|text| excerpt(text, TEXT_CHARS)),
    };
    let facts = marks(row.image(), time_zone, now);
    let sql = "SELECT id FROM memfold_lineage WHERE absorbed_id = ?1 AND active = 1 ORDER BY id";
    let lineage_keys = match reads.has_own_tables()? {
        true => reads.all("read memfold_lineage", sql, [id.as_str()], cell0)?,
        false => Vec::new(),
    };
    Ok(Examined { restoration, row, resolved, facts, lineage_keys, is_unsearchable })
}

/// Its survivors that still exist: the direct one, and the one at the end of all merges.
fn apart_from(
    reads: &Writes<'_>,
    layout: &Layout,
    resolved: &Resolved,
) -> Result<Vec<MemoryId>, StoreError> {
    let mut found: Vec<MemoryId> = Vec::new();
    let ends = [resolved.merges.first(), resolved.merges.last()];
    for survivor in ends.into_iter().flatten().map(|merge| &merge.survivor) {
        let is_new = *survivor != resolved.id && !found.contains(survivor);
        if is_new && reads.memory(layout, survivor)?.is_some() {
            found.push(survivor.clone());
        }
    }
    Ok(found)
}

/// Categories and source without the marks of the archive; `None` where there are no marks.
fn marks(image: &RowImage, time_zone: &TimeZone, now: Instant) -> Option<(Vec<String>, String)> {
    let facts = row_facts(&RawMemory::from(image), time_zone, now).ok()?;
    let is_marked = matches!(facts.status, Status::Merged | Status::Archived);
    let categories = facts.categories.iter().filter(|category| &***category != "archived");
    let categories =
        categories.map(|category| category.strip_prefix("archive/").unwrap_or(category).to_owned());
    let root = &*facts.root_source;
    let is_lost = matches!(root, "archived" | "consolidation");
    let source = if is_lost { SOURCE_DEFAULT } else { root };
    is_marked.then(|| (categories.collect(), source.to_owned()))
}

/// Applies and records everything as one unit.
fn bring_back(
    writes: &Writes<'_>,
    layout: &Layout,
    mark: &Mark<'_>,
    examined: &Examined,
) -> Result<(), StoreError> {
    let id = &examined.restoration.id;
    let mut changes = Vec::new();
    if let Archived::Moved(_) = examined.row {
        changes.push(Change::PutIn { id: id.to_string(), image: None });
    }
    if let Some((categories, source)) = &examined.facts {
        changes.extend(unmarked(examined, categories, source, mark.at));
    }
    if examined.is_unsearchable {
        changes.push(Change::Index { id: id.to_string(), words: None });
    }
    changes.extend(examined.lineage_keys.iter().map(|key| withdrawn(*key)));
    apply(writes, layout, mark, &changes)?;
    apply(writes, layout, mark, &decisions(writes, layout, mark, examined)?)?;
    let unit = NewUnit { memories: vec![id], ..NewUnit::default() };
    writes.record_unit(layout, mark, &unit).map(drop)
}

fn unmarked(examined: &Examined, categories: &[String], source: &str, at: &str) -> Option<Change> {
    let image = examined.row.image();
    let wanted: [(&str, Value); 4] = [
        ("categories", categories_to_json(categories).into()),
        ("source", source.into()),
        ("archived_by", Value::Null),
        ("updated_at", at.into()),
    ];
    let columns: Vec<ColumnChange> = wanted
        .into_iter()
        .filter_map(|(name, after)| {
            let (column, before) =
                image.cells.iter().find(|(column, _)| column.eq_ignore_ascii_case(name))?;
            let change = ColumnChange::of(column, before.clone(), after);
            (change.before != change.after).then_some(change)
        })
        .collect();
    let row = RowKey::memory(examined.restoration.id.as_str());
    (!columns.is_empty()).then_some(Change::Set { row, columns, image: None })
}

fn withdrawn(lineage_key: i64) -> Change {
    let row = RowKey { table: Table::Lineage, key: lineage_key.to_string() };
    Change::of_column(row, "active", Value::Integer(1), Value::Integer(0))
}

/// Decisions that keep the next run from merging them again, while the texts stay.
fn decisions(
    writes: &Writes<'_>,
    layout: &Layout,
    mark: &Mark<'_>,
    examined: &Examined,
) -> Result<Vec<Change>, StoreError> {
    let own = &examined.restoration.id;
    let apart_from = &examined.restoration.apart_from;
    let group = format!("{}/{}", mark.run_id, mark.unit);
    let (ids, kind, about): (Vec<&MemoryId>, _, _) =
        match (examined.resolved.merges.is_empty(), apart_from.is_empty()) {
            (true, _) => (vec![own], "declined", DecisionAbout::Action("archive")),
            (false, true) => return Ok(Vec::new()),
            (false, false) => {
                let ids = std::iter::once(own).chain(apart_from).collect();
                (ids, "keep_both", DecisionAbout::Group(&group))
            }
        };
    let mut changes = Vec::new();
    for id in ids {
        let row = writes.memory(layout, id)?;
        changes.extend(row.and_then(|row| decision(&row, kind, about)));
    }
    Ok(changes)
}

/// Units removed in one transaction, so that others need not wait.
const UNITS_AT_ONCE: u32 = 100;

/// A run whose units go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Pruning {
    /// The run.
    pub run_id: String,
    /// Units that go.
    pub units: u64,
    /// Those of them in force: they can no longer be undone.
    pub no_longer_undoable: u64,
    /// Entries of the journal that go.
    pub entries: u64,
}

/// What goes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, schemars::JsonSchema)]
pub struct Pruned {
    /// Runs, the first one first.
    pub runs: Vec<Pruning>,
    /// Plans that were never applied.
    pub plans: Vec<String>,
}

impl Pruned {
    /// Tells whether nothing is old enough.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.plans.is_empty()
    }
}

/// Returns the entries older than `before`, without writing. Entries without a readable time are
/// kept.
///
/// # Errors
/// When the store cannot be read.
pub fn preview_prune(
    store: &BrainDb,
    before: Instant,
    time_zone: &TimeZone,
) -> Result<Pruned, StoreError> {
    store.look_on(|reads| old(reads, before, time_zone))
}

/// Removes units that are older than `before` with their journal, and equally old plans without
/// applied actions. This cannot be undone, nor can the removed units.
///
/// # Errors
/// When the store cannot be written; every unit is then there with all of its journal, or gone with it.
pub fn prune(
    session: &Session,
    before: Instant,
    run: &UpkeepRun<'_>,
) -> Result<(String, Pruned), StoreError> {
    run.carry_out(session, RunKind::Prune, None, |_| {
        let pruned = session.read(|reads| old(reads, before, run.time_zone))?;
        let mut units = 0;
        for run in &pruned.runs {
            units += drop_run(session, &run.run_id)?;
        }
        for plan in &pruned.plans {
            session.write::<_, StoreError>(|writes| {
                writes.query("remove a plan", |c| drop_plan(c, plan))
            })?;
        }
        Ok((pruned, units))
    })
}

fn drop_run(session: &Session, run_id: &str) -> Result<u64, StoreError> {
    let mut dropped = 0;
    loop {
        let count = session.write::<_, StoreError>(|writes| {
            writes.query("remove old units", |c| drop_units(c, run_id, UNITS_AT_ONCE))
        })?;
        if count == 0 {
            return Ok(dropped);
        }
        dropped += count as u64;
    }
}

fn old(reads: &Writes<'_>, before: Instant, time_zone: &TimeZone) -> Result<Pruned, StoreError> {
    if !reads.has_own_tables()? {
        return Ok(Pruned::default());
    }
    let is_old = |at: &str| Instant::parse(at, time_zone).is_some_and(|at| at < before);
    let runs = reads.query("read memfold_runs", ended_runs)?;
    let plans = reads.query("read memfold_plans", unapplied_plans)?;
    let runs = runs.into_iter().filter(|(started_at, _)| is_old(started_at));
    let plans = plans.into_iter().filter(|(_, saved_at)| is_old(saved_at));
    Ok(Pruned {
        runs: runs.map(|(_, run)| run).collect(),
        plans: plans.map(|(plan_id, _)| plan_id).collect(),
    })
}

/// Returns the runs that have ended and still have units, with their times.
fn ended_runs(connection: &Connection) -> rusqlite::Result<Vec<(String, Pruning)>> {
    let sql = "SELECT run_id, started_at,
            (SELECT count(*) FROM memfold_units AS u WHERE u.run_id = r.run_id),
            (SELECT count(*) FROM memfold_units AS u WHERE u.run_id = r.run_id AND u.state = 'applied'),
            (SELECT count(*) FROM memfold_journal AS j WHERE j.run_id = r.run_id)
        FROM memfold_runs AS r WHERE state <> 'running' ORDER BY seq";
    let mut runs: Vec<(String, Pruning)> = all(connection, sql, [], |row| {
        let count = |column: usize| row.get::<_, i64>(column).map(i64::unsigned_abs);
        let (units, no_longer_undoable, entries) = (count(2)?, count(3)?, count(4)?);
        let run = Pruning { run_id: row.get(0)?, units, no_longer_undoable, entries };
        Ok((row.get(1)?, run))
    })?;
    runs.retain(|(_, run)| run.units > 0 || run.entries > 0);
    Ok(runs)
}

/// Returns plans of which nothing was applied, with the times when they were saved.
fn unapplied_plans(connection: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let sql = "SELECT plan_id, saved_at FROM memfold_plans AS p
         WHERE NOT EXISTS (SELECT 1 FROM memfold_actions AS a WHERE a.plan_id = p.plan_id
                           AND a.state IN ('applied', 'undone'))
           AND NOT EXISTS (SELECT 1 FROM memfold_runs AS r WHERE r.plan_id = p.plan_id
                           AND r.state = 'running')
         ORDER BY saved_at, plan_id";
    all(connection, sql, [], cells2)
}

/// Removes up to `limit` units of a run, each with its whole journal; returns how many there were.
fn drop_units(connection: &Connection, run_id: &str, limit: u32) -> rusqlite::Result<usize> {
    let sql = "SELECT unit FROM memfold_units WHERE run_id = ?1 LIMIT ?2";
    let units: Vec<i64> = all(connection, sql, params![run_id, limit], cell0)?;
    for unit in &units {
        for table in ["memfold_journal", "memfold_units"] {
            let sql = format!("DELETE FROM {table} WHERE run_id = ?1 AND unit = ?2");
            connection.prepare_cached(&sql)?.execute(params![run_id, unit])?;
        }
    }
    Ok(units.len())
}

/// Removes a plan and its actions.
pub(crate) fn drop_plan(connection: &Connection, plan_id: &str) -> rusqlite::Result<()> {
    for table in ["memfold_actions", "memfold_plans"] {
        let sql = format!("DELETE FROM {table} WHERE plan_id = ?1");
        connection.prepare_cached(&sql)?.execute([plan_id])?;
    }
    Ok(())
}

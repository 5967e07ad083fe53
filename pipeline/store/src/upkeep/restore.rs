//! [`restore`]: an archived memory lives again.

use jiff::tz::TimeZone;
use serde::Serialize;

use crate::brain_db::own::archive::archived_image;
use crate::brain_db::own::flags::active_folds_of;
use crate::brain_db::own::units::NewUnit;
use crate::brain_db::read::lineage::StoreLineage;
use crate::brain_db::read::open::BrainDb;
use crate::brain_db::write::changes::{Mark, apply};
use crate::brain_db::write::layout::Layout;
use crate::brain_db::write::session::{Session, SessionError, Writes};
use crate::upkeep::run::{UpkeepError, UpkeepRun};
use memfold_core::journal::{Change, ColumnChange, RowImage, RowKey, Table};
use memfold_core::lineage::{Lineage as _, Resolved, resolve};
use memfold_core::memory::{MemoryId, Status};
use memfold_core::merge::{DecisionAbout, decision};
use memfold_core::row::categories_to_json;
use memfold_core::row::{RawMemory, row_facts};
use memfold_core::runs::RunKind;
use memfold_core::time::Instant;
use memfold_core::value::Value;
use memfold_guard::text::excerpt;

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
    /// What it was merged into, at the end of all folds.
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
    pub whereabouts: Status,
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
) -> Result<Vec<RestoreCandidate>, SessionError> {
    store.look_on(|reads| {
        let what = "look for memories to restore";
        reads.query(what, |connection| {
            let lineage = StoreLineage::new(connection, time_zone, now)?;
            let mut candidates = Vec::new();
            for id in lineage.archived_ids()? {
                candidates.extend(candidate(&lineage, id)?);
            }
            Ok(candidates)
        })
    })
}

fn candidate(
    lineage: &StoreLineage<'_>,
    id: MemoryId,
) -> rusqlite::Result<Option<RestoreCandidate>> {
    let resolved = resolve(lineage, &id)?;
    let survivor = (!resolved.folds.is_empty()).then(|| resolved.last().clone());
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
    let resolved = reads.query("look for the memory", |connection| {
        resolve(&StoreLineage::new(connection, time_zone, now)?, id)
    })?;
    let whereabouts = resolved.whereabouts;
    let not_archived =
        || UpkeepError::NotArchived { id: excerpt(id.as_str(), TEXT_CHARS), whereabouts };
    let mut is_unsearchable = false;
    let row = match whereabouts {
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
        whereabouts,
        apart_from: apart_from(reads, &layout, &resolved)?,
        text: text.map(|text| excerpt(text, TEXT_CHARS)),
    };
    let facts = marks(row.image(), time_zone, now);
    let lineage_keys = reads
        .query("read memfold_lineage", |connection| active_folds_of(connection, id.as_str()))?;
    Ok(Examined { restoration, row, resolved, facts, lineage_keys, is_unsearchable })
}

/// Its survivors that still exist: the direct one, and the one at the end of all merges.
fn apart_from(
    reads: &Writes<'_>,
    layout: &Layout,
    resolved: &Resolved,
) -> Result<Vec<MemoryId>, SessionError> {
    let mut found: Vec<MemoryId> = Vec::new();
    let ends = [resolved.folds.first(), resolved.folds.last()];
    for survivor in ends.into_iter().flatten().map(|fold| &fold.survivor) {
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
) -> Result<(), SessionError> {
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
            let change =
                ColumnChange { column: column.clone(), before: before.clone(), after, delta: None };
            (change.before != change.after).then_some(change)
        })
        .collect();
    let row = RowKey::memory(examined.restoration.id.as_str());
    (!columns.is_empty()).then_some(Change::Set { row, columns, image: None })
}

fn withdrawn(lineage_key: i64) -> Change {
    Change::Set {
        row: RowKey { table: Table::Lineage, key: lineage_key.to_string() },
        columns: vec![ColumnChange {
            column: "active".to_owned(),
            before: Value::Integer(1),
            after: Value::Integer(0),
            delta: None,
        }],
        image: None,
    }
}

/// Decisions that keep the next run from merging them again, while the texts stay.
fn decisions(
    writes: &Writes<'_>,
    layout: &Layout,
    mark: &Mark<'_>,
    examined: &Examined,
) -> Result<Vec<Change>, SessionError> {
    let own = &examined.restoration.id;
    let apart_from = &examined.restoration.apart_from;
    let group = format!("{}/{}", mark.run_id, mark.unit);
    let (ids, kind, about): (Vec<&MemoryId>, _, _) =
        match (examined.resolved.folds.is_empty(), apart_from.is_empty()) {
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

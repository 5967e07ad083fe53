//! [`forget`]: a memory is erased everywhere.

use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use rusqlite::types::Value;
use serde::Serialize;

use super::{UpkeepRun, scrub};
use crate::brain_db::own::forget::{
    self as rows, ACTIONS, ARCHIVE, JOURNAL, Naming, REVIVED, Renamed, SOURCES, TELLING, UNITS,
};
use crate::brain_db::{BrainDb, Layout, Session, SessionError, StoreLineage, Writes, own};
use memfold_model::lineage::{Lineage as _, Whereabouts};
use memfold_model::memory::MemoryId;
use memfold_model::runs::RunKind;
use memfold_model::text::excerpt;
use memfold_model::time::Instant;

/// Characters of an id.
const ID_CHARS: usize = 80;

/// What goes with a memory. Counts are rows, unless they say otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, schemars::JsonSchema)]
pub struct Erasure {
    /// The memories that go: the one that was named, those folded into it, and flags about them.
    pub ids: Vec<MemoryId>,
    /// Memories in the owner's table.
    pub memories: u64,
    /// Vectors.
    pub embeddings: u64,
    /// Search entries.
    pub search_entries: u64,
    /// Rows in the archive table.
    pub archived: u64,
    /// Rows of lineage.
    pub lineage: u64,
    /// Decisions.
    pub decisions: u64,
    /// Flags.
    pub flags: u64,
    /// Entries of the journal.
    pub journal: u64,
    /// Units that can no longer be undone, as `<run> <unit>`.
    pub units: Vec<String>,
    /// Actions of plans, which can no longer be applied.
    pub actions: u64,
    /// Other rows that named it and no longer will.
    pub renamed: u64,
    /// What the owner's schema does to other tables when a memory or its vector is deleted.
    pub reactions: Vec<String>,
}

/// What a forgetting did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forgotten {
    /// The run.
    pub run_id: String,
    /// What went.
    pub erasure: Erasure,
    /// Whether the write-ahead log holds no old pages any more.
    pub is_log_empty: bool,
}

/// Why a memory cannot be forgotten.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForgetError {
    /// The store cannot be read or written.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Nothing is known of it.
    #[error("{id} is not in this store")]
    Unknown {
        /// The memory, escaped.
        id: String,
    },
    /// Others were folded into it and would lose what they live on in.
    #[error("{} memories were folded into {id}: {}{}", ghosts.len(), list(ghosts), if ghosts.len() > LISTED_MAX { ", …" } else { "" })]
    HasAbsorbed {
        /// The memory, escaped.
        id: String,
        /// The others, escaped.
        ghosts: Vec<String>,
    },
}

/// Ids listed in an error.
const LISTED_MAX: usize = 10;

fn list(ids: &[String]) -> String {
    ids[..ids.len().min(LISTED_MAX)].join(", ")
}

impl ForgetError {
    /// Returns what the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Session(error) => error.hint(),
            Self::Unknown { .. } => Some("check the id and the store".to_owned()),
            Self::HasAbsorbed { .. } => Some(
                "bring them back first (`memfold restore DB ID`), or forget them as well: \
                 --with-absorbed"
                    .to_owned(),
            ),
        }
    }
}

/// Tells what forgetting a memory would erase, without writing.
///
/// # Errors
/// When nothing is known of it, when others were folded into it and `with_absorbed` is not set, or
/// when the store cannot be read.
pub fn preview_forget(
    store: &BrainDb,
    (id, with_absorbed): (&MemoryId, bool),
    (time_zone, now): (&TimeZone, Instant),
) -> Result<Erasure, ForgetError> {
    store.look_on(|reads| {
        let ids = all_ids(reads, (id, with_absorbed), (time_zone, now))?;
        Ok(Plan::of(reads, ids)?.erasure)
    })
}

/// Erases a memory everywhere in the store, in one transaction. This cannot be undone.
///
/// # Errors
/// As [`preview_forget`], and when the store cannot be written; then nothing was erased.
pub fn forget(
    session: &Session,
    (id, with_absorbed): (&MemoryId, bool),
    run: &UpkeepRun<'_>,
) -> Result<Forgotten, ForgetError> {
    let times = (run.time_zone, run.now);
    session.read(|reads| all_ids(reads, (id, with_absorbed), times).map(drop))?;
    session.overwrite_deleted()?;
    let (run_id, erasure) = run.carry_out(session, (RunKind::Forget, None), |_| {
        session.write(|writes| {
            let ids = all_ids(writes, (id, with_absorbed), times)?;
            let plan = Plan::of(writes, ids)?;
            plan.carry_out(writes)?;
            let count = plan.erasure.ids.len() as u64;
            Ok::<_, ForgetError>((plan.erasure, count))
        })
    })?;
    let is_log_empty = session.settle()?;
    Ok(Forgotten { run_id, erasure, is_log_empty })
}

/// The memory, what was folded into it, and flags about any of them in the owner's table.
fn all_ids(
    reads: &Writes<'_>,
    (id, with_absorbed): (&MemoryId, bool),
    (time_zone, now): (&TimeZone, Instant),
) -> Result<BTreeSet<MemoryId>, ForgetError> {
    let shown = |id: &MemoryId| excerpt(id.as_str(), ID_CHARS);
    let (whereabouts, ghosts) = reads.query("look for the memory", |connection| {
        let lineage = StoreLineage::new(connection, time_zone, now)?;
        Ok((lineage.place(id)?.whereabouts, ghosts(&lineage, id)?))
    })?;
    if whereabouts == Whereabouts::Unknown && !is_named(reads, id)? {
        return Err(ForgetError::Unknown { id: shown(id) });
    }
    if !ghosts.is_empty() && !with_absorbed {
        let ghosts = ghosts.iter().map(shown).collect();
        return Err(ForgetError::HasAbsorbed { id: shown(id), ghosts });
    }
    let mut ids: BTreeSet<MemoryId> = ghosts.into_iter().chain([id.clone()]).collect();
    let flags = reads.query("look for flags", rows::flag_rows)?;
    let about = flags.into_iter().filter(|(_, content)| scrub::mentions(content, &ids));
    let about: Vec<MemoryId> = about.map(|(id, _)| MemoryId::new(id)).collect();
    ids.extend(about);
    Ok(ids)
}

/// All that was folded into a memory and lives on in it only.
fn ghosts(lineage: &StoreLineage<'_>, id: &MemoryId) -> rusqlite::Result<BTreeSet<MemoryId>> {
    let mut found = BTreeSet::new();
    let mut open = vec![id.clone()];
    while let Some(next) = open.pop() {
        for fold in lineage.absorbed(&next)? {
            let is_kept = matches!(
                lineage.place(&fold.absorbed)?.whereabouts,
                Whereabouts::Ghost | Whereabouts::Moved
            );
            if fold.absorbed != *id && is_kept && found.insert(fold.absorbed.clone()) {
                open.push(fold.absorbed);
            }
        }
    }
    Ok(found)
}

/// Tells whether anything of ours names a memory that is nowhere else known.
fn is_named(reads: &Writes<'_>, id: &MemoryId) -> Result<bool, SessionError> {
    let erasure = Plan::of(reads, BTreeSet::from([id.clone()]))?.erasure;
    Ok(erasure != Erasure { ids: erasure.ids.clone(), ..Erasure::default() })
}

/// Takes ids out of a text.
type Rename = fn(&str, &BTreeSet<MemoryId>) -> Option<String>;

/// All that is to be erased, and what to write where only a name goes.
struct Plan {
    erasure: Erasure,
    units: BTreeSet<(String, i64)>,
    journal: BTreeSet<i64>,
    renamed: Vec<(Naming, Vec<Renamed>)>,
    actions: Vec<Renamed>,
    has_tables: bool,
}

impl Plan {
    fn of(reads: &Writes<'_>, ids: BTreeSet<MemoryId>) -> Result<Self, SessionError> {
        let has_tables = reads.has_own_tables()?;
        let mut plan = Self {
            erasure: Erasure { ids: ids.iter().cloned().collect(), ..Erasure::default() },
            units: BTreeSet::new(),
            journal: BTreeSet::new(),
            renamed: Vec::new(),
            actions: Vec::new(),
            has_tables,
        };
        if has_tables {
            let units = reads.query("read the journal", |c| rows::units_into(c, &ids))?;
            plan.units.extend(units);
        }
        plan.count_rows(reads)?;
        reads.query("look where it is named", |connection| {
            plan.rename(connection, &ids, (SOURCES, scrub::source))?;
            if !has_tables {
                return Ok(());
            }
            plan.rename(connection, &ids, (JOURNAL, scrub::cells))?;
            plan.rename(connection, &ids, (ARCHIVE, scrub::cells))?;
            plan.rename(connection, &ids, (UNITS, scrub::document))?;
            let names = |text: &str| scrub::mentions(text, &ids).then(String::new);
            plan.actions = ACTIONS.find(connection, &ids, names)?;
            Ok(())
        })?;
        plan.erasure.actions = plan.actions.len() as u64;
        Ok(plan)
    }

    /// Counts what goes as a whole.
    fn count_rows(&mut self, reads: &Writes<'_>) -> Result<(), SessionError> {
        let layout = reads.layout()?;
        self.count_traces_and_records(reads, &layout)?;
        if self.erasure.memories + self.erasure.embeddings > 0 {
            self.erasure.reactions.clone_from(&layout.reactions);
        }
        for (run_id, unit) in &self.units {
            let keys =
                reads.query("read the journal", |c| rows::journal_keys(c, (run_id, *unit)))?;
            self.journal.extend(keys);
            self.erasure.units.push(format!("{run_id} {unit}"));
        }
        self.erasure.journal = self.journal.len() as u64;
        Ok(())
    }

    fn count_traces_and_records(
        &mut self,
        reads: &Writes<'_>,
        layout: &Layout,
    ) -> Result<(), SessionError> {
        for id in self.erasure.ids.clone() {
            let traces = reads.traces(layout, id.as_str())?;
            self.erasure.memories += traces.rows;
            self.erasure.embeddings += traces.embeddings;
            self.erasure.search_entries += traces.search_entries;
            self.erasure.renamed += traces.references;
            if !self.has_tables {
                continue;
            }
            let units =
                reads.query("read the journal", |c| rows::units_of_memory(c, id.as_str()))?;
            self.units.extend(units);
            for telling in TELLING {
                let count = reads.query("count rows", |c| telling.count(c, id.as_str()))?;
                *self.counter(telling.table) += count;
            }
        }
        Ok(())
    }

    fn counter(&mut self, table: &str) -> &mut u64 {
        match table {
            "memfold_lineage" => &mut self.erasure.lineage,
            "memfold_decisions" => &mut self.erasure.decisions,
            "memfold_flags" => &mut self.erasure.flags,
            _ => &mut self.erasure.archived,
        }
    }

    fn rename(
        &mut self,
        connection: &rusqlite::Connection,
        ids: &BTreeSet<MemoryId>,
        (naming, rename): (Naming, Rename),
    ) -> rusqlite::Result<()> {
        let mut found = naming.find(connection, ids, |text| rename(text, ids))?;
        if naming.table == JOURNAL.table {
            let goes =
                |key: &Value| matches!(key, Value::Integer(seq) if self.journal.contains(seq));
            found.retain(|row| !goes(&row.key));
        }
        self.erasure.renamed += found.len() as u64;
        self.renamed.push((naming, found));
        Ok(())
    }

    fn carry_out(&self, writes: &Writes<'_>) -> Result<(), SessionError> {
        let layout = writes.layout()?;
        for (naming, found) in &self.renamed {
            for renamed in found {
                writes.query("take a name out", |c| naming.write(c, renamed))?;
            }
        }
        for action in &self.actions {
            writes.query("void an action", |c| rows::void_action(c, &action.key))?;
        }
        for (run_id, unit) in &self.units {
            writes.query("erase the journal", |c| rows::drop_journal(c, (run_id, *unit)))?;
        }
        for id in &self.erasure.ids {
            let id = id.as_str();
            writes.erase(&layout, id)?;
            if !self.has_tables {
                continue;
            }
            for telling in TELLING.into_iter().chain([REVIVED]) {
                writes.query("erase rows", |c| telling.delete(c, id))?;
            }
            writes.query("erase a target", |c| {
                own::runs::forget_target(c, id)?;
                own::runs::forget_target(c, &format!("memory {id}"))
            })?;
        }
        Ok(())
    }
}

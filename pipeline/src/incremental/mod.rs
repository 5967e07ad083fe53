//! [`consolidate_changed`]: a run that searches only memories changed since the last one.
//!
//! A run with `--execute` leaves behind the marks of all rows it searched ([`RowMarks`]). The next
//! one compares them, searches the neighborhood of new or different rows, by the index and exactly,
//! and loads only these memories. Its plan holds the actions that a run over everything would plan
//! for the clusters, proposals and contradictions with a changed memory. Three things are left to a
//! run over everything: rules that archive by age, actions that a cap left out earlier, and
//! contradictions between a changed memory and the former wording of another one that is not near
//! it any more.

mod neighborhood;
mod searched;

use std::collections::BTreeSet;
use std::path::Path;

use memfold_core::Snapshot;
use memfold_core::detect::join_threshold;
use memfold_core::memory::MemoryIndex;
use memfold_core::policy::{Policy, RuleAction};
use memfold_core::report::Incremental;
use memfold_guard::Guard;
use memfold_store::brain_db::StoreReader;
use memfold_store::{BrainDb, LoadRequest, StoreError};
use tracing::field::Empty;
use tracing::info_span;

pub use searched::{KeepMarksError, RowMarks, SearchedBy, targets};

use self::neighborhood::{Surroundings, neighborhood};
use self::searched::{Searched, young_since};
use crate::columns::ColumnSink;
use crate::consolidate::{Laps, Loaded, Outcome, RunContext, plan_loaded};
use crate::error::MemfoldError;
use crate::judging::Judging;
use crate::lookup::{IndexError, SearchError, StoreIndex};

/// The result of a run over changed memories.
#[derive(Debug)]
pub enum ChangedRun {
    /// Its plan, and the marks to keep once the plan is applied.
    Done(Box<Outcome>, RowMarks),
    /// Everything has to be searched; the reason in words.
    Whole(String),
}

/// Why a run over changed memories did not end.
enum Halt {
    /// Everything has to be searched.
    Whole(String),
    Failed(MemfoldError),
}

/// The part of a store that a run over changed memories works on.
struct Changed {
    snapshot: Snapshot,
    sink: ColumnSink,
    changed: BTreeSet<MemoryIndex>,
    marks: RowMarks,
    since_run: String,
}

/// Plans as [`consolidate`](crate::consolidate::consolidate) does, for memories changed since the
/// run that left its marks in `folder`, beside the index.
///
/// # Errors
/// As [`consolidate`](crate::consolidate::consolidate). A missing or useless index or file of marks
/// is not an error: [`ChangedRun::Whole`] says why.
pub fn consolidate_changed(
    store: &BrainDb,
    folder: &Path,
    policy: &Policy,
    guard: &Guard,
    context: &RunContext<'_>,
    judging: Option<&mut Judging<'_>>,
) -> Result<ChangedRun, MemfoldError> {
    let mut laps = Laps::new(context.clock);
    let found = match look_for_changes(store, folder, policy, guard, context) {
        Ok(found) => found,
        Err(Halt::Whole(reason)) => return Ok(ChangedRun::Whole(reason)),
        Err(Halt::Failed(error)) => return Err(error),
    };
    let load = laps.lap();
    let columns = found.sink.finish()?;
    let matrices = columns.matrices();
    let incremental = Incremental {
        since_run: found.since_run,
        changed: found.changed.len() as u64,
        compared: found.snapshot.memories.len() as u64,
        live: found.marks.live,
    };
    let loaded = Loaded {
        snapshot: &found.snapshot,
        matrices: &matrices,
        load,
        narrowed: Some((&found.changed, incremental)),
        refused_count: 0,
    };
    let mut policy = policy.clone();
    // They depend on the time passed, not on changes.
    policy.rules.retain(|rule| rule.then.action != RuleAction::Archive);
    let outcome = plan_loaded(loaded, &policy, guard, context, laps, judging)?;
    Ok(ChangedRun::Done(Box::new(outcome), found.marks))
}

fn look_for_changes(
    store: &BrainDb,
    folder: &Path,
    policy: &Policy,
    guard: &Guard,
    context: &RunContext<'_>,
) -> Result<Changed, Halt> {
    let index = StoreIndex::open(folder)?;
    let index =
        index.ok_or_else(|| Halt::Whole("there is no index (memfold index build)".to_owned()))?;
    let searched = Searched::open(folder).map_err(Halt::Whole)?;
    searched.serves(context.config_hash).map_err(Halt::Whole)?;
    let request =
        LoadRequest { time_zone: context.time_zone, now: context.now, progress: context.progress };
    let span = info_span!("consolidation.load", changed = Empty, memories = Empty);
    let found = span.in_scope(|| {
        store.look_up(&request, |reader| {
            changes_in(reader, &index, &searched, policy, guard, context)
        })
    })?;
    span.record("changed", found.changed.len() as i64)
        .record("memories", found.snapshot.memories.len() as i64);
    Ok(found)
}

fn changes_in(
    reader: &StoreReader<'_>,
    index: &StoreIndex,
    searched: &Searched,
    policy: &Policy,
    guard: &Guard,
    context: &RunContext<'_>,
) -> Result<Changed, Halt> {
    let reaches = reader.reaches(index.marks())?;
    if reaches.is_lost() {
        return Err(Halt::Whole("the index no longer fits the store".to_owned()));
    }
    // Memories without a vector of their own are compared with all others.
    if index.origin().without_vector.max(reader.count_without_vector()?) > 0 {
        return Err(lacks_vectors());
    }
    let mut marks = RowMarks::default();
    let mut changed = BTreeSet::new();
    let mut rows = searched.rows();
    let row_count = reader.each_mark(young_since(policy, context.now), |row| {
        marks.add(row);
        if !rows.hold(row.mark) {
            changed.insert(row.id.to_owned());
        }
    })?;
    let generation = index.files().generation().number();
    let surroundings = Surroundings {
        reader,
        index,
        reaches,
        least: join_threshold(policy),
        guard: policy.guard.enabled.then_some(guard),
        pool: context.pool,
        kernels: context.kernels,
        cancelled: &|| context.progress.cancelled(),
    };
    let edited = searched.edited_since(generation);
    let found = neighborhood(surroundings, &changed, &edited, row_count)?;
    marks.edited(found.edited, generation);
    let mut sink = ColumnSink::new(context.scratch_dir);
    let mut snapshot =
        reader.load_some(&found.ids, row_count, &index.origin().shapes, &mut sink)?;
    if policy.merge.again {
        snapshot.decisions.allow_undone_merges();
    }
    if snapshot.with_vector_count() < snapshot.live_count() {
        return Err(lacks_vectors());
    }
    let is_changed = |at: &usize| found.changed.contains(&snapshot.memories[*at].id);
    // Memories are numbered with 32 bits.
    let changed = (0..snapshot.memories.len()).filter(is_changed).map(|at| MemoryIndex(at as u32));
    let changed = changed.collect();
    Ok(Changed { changed, snapshot, sink, marks, since_run: searched.run.run_id.clone() })
}

fn lacks_vectors() -> Halt {
    Halt::Whole("some memories have no vector of the index's model (memfold embed)".to_owned())
}

impl From<MemfoldError> for Halt {
    fn from(error: MemfoldError) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<IndexError> for Halt {
    fn from(error: IndexError) -> Self {
        Self::Whole(format!("the index cannot be used: {error}"))
    }
}

impl From<SearchError> for Halt {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Store(error) => error.into(),
            SearchError::Cancelled => MemfoldError::Cancelled.into(),
            error => Self::Whole(format!("the index cannot be used: {error}")),
        }
    }
}

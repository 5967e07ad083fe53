//! [`prune`]: old entries of the journal and old plans go. Lineage, archive and decisions stay.

use jiff::tz::TimeZone;
use serde::Serialize;

use super::UpkeepRun;
use crate::brain_db::own::prune::{self as rows, OldRun};
use crate::brain_db::{BrainDb, Session, SessionError, Writes};
use memfold_model::runs::RunKind;
use memfold_model::time::Instant;

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

/// Why nothing can be pruned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PruneError {
    /// The store cannot be read or written.
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl PruneError {
    /// Returns what the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Session(error) => error.hint(),
        }
    }
}

/// Tells what is older than `before`, without writing. What bears no readable time is kept.
///
/// # Errors
/// When the store cannot be read.
pub fn preview_prune(
    store: &BrainDb,
    before: Instant,
    time_zone: &TimeZone,
) -> Result<Pruned, PruneError> {
    store.look_on(|reads| Ok(old(reads, before, time_zone)?))
}

/// Removes units that are older than `before` with their journal, and plans as old of which nothing was applied.
/// This cannot be undone, nor can those units be.
///
/// # Errors
/// When the store cannot be written; every unit is then there with all of its journal, or gone with it.
pub fn prune(
    session: &Session,
    before: Instant,
    run: &UpkeepRun<'_>,
) -> Result<(String, Pruned), PruneError> {
    run.carry_out(session, (RunKind::Prune, None), |_| {
        let pruned = session.read(|reads| old(reads, before, run.time_zone))?;
        let mut units = 0;
        for run in &pruned.runs {
            units += drop_run(session, &run.run_id)?;
        }
        for plan in &pruned.plans {
            session.write::<_, SessionError>(|writes| {
                writes.query("remove a plan", |c| rows::drop_plan(c, plan))
            })?;
        }
        Ok((pruned, units))
    })
}

fn drop_run(session: &Session, run_id: &str) -> Result<u64, SessionError> {
    let mut dropped = 0;
    loop {
        let count = session.write::<_, SessionError>(|writes| {
            writes.query("remove old units", |c| rows::drop_units(c, run_id, UNITS_AT_ONCE))
        })?;
        if count == 0 {
            return Ok(dropped);
        }
        dropped += count as u64;
    }
}

fn old(reads: &Writes<'_>, before: Instant, time_zone: &TimeZone) -> Result<Pruned, SessionError> {
    if !reads.has_own_tables()? {
        return Ok(Pruned::default());
    }
    let is_old = |at: &str| Instant::parse(at, time_zone).is_some_and(|at| at < before);
    let runs = reads.query("read memfold_runs", rows::ended_runs)?;
    let plans = reads.query("read memfold_plans", rows::unapplied_plans)?;
    let runs = runs.into_iter().filter(|run| is_old(&run.started_at));
    let pruning = |run: OldRun| Pruning {
        run_id: run.run_id,
        units: run.units,
        no_longer_undoable: run.applied,
        entries: run.entries,
    };
    let plans = plans.into_iter().filter(|(_, saved_at)| is_old(saved_at));
    Ok(Pruned {
        runs: runs.map(pruning).collect(),
        plans: plans.map(|(plan_id, _)| plan_id).collect(),
    })
}

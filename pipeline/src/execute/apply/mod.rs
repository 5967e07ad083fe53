//! [`execute`]: a run that applies a plan.

mod request;
mod outcome;
mod fresh;
mod run;

pub use fresh::preview;
pub use outcome::{Execution, RunWatcher, UnitOutcome, UnitResult, Unwatched};
pub use request::{ExecuteError, ExecuteRequest};

use std::collections::BTreeMap;

use self::fresh::{check_freshness, expected_digests};
use self::run::Run;
use super::units::units;
use memfold_model::runs::{RunKind, RunState};
use memfold_plan::plan::{SavedPlan, plan_id};
use memfold_plan::report::Executed;
use memfold_store::brain_db::{RunStart, Session, SessionError};

/// Applies the wanted actions of a plan, unit by unit, and saves the plan first.
///
/// Between two transactions others get as much time as the last one took. The cost of a unit is one commit that
/// reaches the disk and a few writes for each row.
///
/// # Errors
/// When the plan belongs to another store or configuration, when all of it is stale, or when the store
/// fails; what was applied until then stays applied, and a later run continues.
pub fn execute(session: &Session, request: &ExecuteRequest<'_>) -> Result<Execution, ExecuteError> {
    execute_watched(session, request, &mut Unwatched)
}

/// As [`execute`], telling a watcher of each step when it is done.
///
/// # Errors
/// As [`execute`].
pub fn execute_watched(
    session: &Session,
    request: &ExecuteRequest<'_>,
    watcher: &mut dyn RunWatcher,
) -> Result<Execution, ExecuteError> {
    request.rules.check(request.policy, request.plan)?;
    check_configuration(request)?;
    check_store(session, request)?;
    check_anything_fresh(session, request)?;
    let backup = session.is_first_execution()?.then(|| session.back_up(request.run_id));
    let at = request.now.to_naive_local(request.time_zone);
    let saved = save(session, request, &at)?;
    let (units, blocked) = units(&saved.actions, request.selection);
    let expected = session.read(|reads| expected_digests(reads, &saved))?;
    let run_id = begin(session, request, &saved, &at)?;
    watcher.began(&run_id);
    let mut run = Run {
        session,
        request,
        watcher,
        plan_id: &saved.plan_id,
        run_id: &run_id,
        at: &at,
        expected,
        started: (request.clock)(),
        executed: Executed::default(),
        outcomes: Vec::new(),
        kept: BTreeMap::new(),
    };
    let ended = run.apply_all(&units);
    let state = match &ended {
        Err(_) => RunState::Interrupted,
        Ok(false) => RunState::Interrupted,
        Ok(true) if run.executed.stale + run.executed.failed > 0 => RunState::Partial,
        Ok(true) => RunState::Done,
    };
    let (executed, outcomes) = (run.executed, run.outcomes);
    let notes = run.kept.iter().map(|(reason, count)| kept_note(*count, reason)).collect();
    let finished = session.write(|writes| {
        writes.finish_run(&run_id, (state, &at), executed)?;
        writes.close_outdated_flags()
    });
    match (ended, finished) {
        (Err(error), _) | (Ok(_), Err(error)) => {
            Err(ExecuteError::Stopped { run_id, executed, error })
        }
        (Ok(_), Ok(())) => Ok(Execution {
            run_id,
            plan_id: saved.plan_id,
            executed,
            remaining: (units.len() - outcomes.len()) as u64,
            outcomes,
            blocked,
            state,
            backup,
            notes,
        }),
    }
}

/// Says that archived memories stand where they stood, though they were to be moved away.
pub(crate) fn kept_note(count: u64, reason: &str) -> String {
    let memories = if count == 1 { "memory was" } else { "memories were" };
    format!("{count} {memories} archived in place, not moved to memfold_archive: {reason}")
}

fn check_configuration(request: &ExecuteRequest<'_>) -> Result<(), ExecuteError> {
    if request.plan.config_hash == request.config_hash {
        return Ok(());
    }
    Err(ExecuteError::AnotherConfiguration {
        expected: request.plan.config_hash.clone(),
        found: request.config_hash.to_owned(),
    })
}

fn check_store(session: &Session, request: &ExecuteRequest<'_>) -> Result<(), ExecuteError> {
    let found = session.store_id()?;
    if found == request.plan.store_id {
        return Ok(());
    }
    Err(ExecuteError::AnotherStore { expected: request.plan.store_id.clone(), found })
}

/// Refuses a plan of which nothing can be applied, before anything is written.
fn check_anything_fresh(
    session: &Session,
    request: &ExecuteRequest<'_>,
) -> Result<(), ExecuteError> {
    let known = session.plan(&plan_id(request.plan));
    let saved = known.unwrap_or_else(|_| SavedPlan::proposed(request.plan.clone()));
    let (units, _) = units(&saved.actions, request.selection);
    session.read(|reads| check_freshness(reads, &saved, &units))
}

fn save(
    session: &Session,
    request: &ExecuteRequest<'_>,
    at: &str,
) -> Result<SavedPlan, ExecuteError> {
    session.prepare(at)?;
    let plan_id = session.save_plan(request.plan, request.access_counts, at)?;
    Ok(session.plan(&plan_id)?)
}

/// Begins a run with tables that are there; runs that were killed are marked first.
fn begin(
    session: &Session,
    request: &ExecuteRequest<'_>,
    saved: &SavedPlan,
    at: &str,
) -> Result<String, SessionError> {
    session.begin_run(&RunStart {
        run_id: request.run_id,
        kind: RunKind::Execute,
        plan_id: Some(&saved.plan_id),
        target: None,
        holder: request.holder,
        at,
    })
}

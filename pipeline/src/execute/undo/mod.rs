//! [`undo`]: a run that takes units back, each whole or not at all.

mod request;
mod outcome;
mod find;
mod keep;
mod run;

use std::collections::BTreeSet;

pub use outcome::{Undo, UndoOutcome};
pub use request::{UndoError, UndoRequest, UndoTarget};

pub(crate) use keep::decision;

use self::find::{examine, find, key};
use self::outcome::outcome;
use self::run::Run;
use memfold_model::runs::{RunKind, RunState};
use memfold_plan::report::Executed;
use memfold_store::brain_db::{BrainDb, RunStart, Session};
use memfold_store::journal::RevertOptions;

/// Tells what an undo would take back, without writing.
///
/// # Errors
/// When there is nothing to take back, or the store cannot be read.
pub fn preview_undo(
    store: &BrainDb,
    target: &UndoTarget,
    options: RevertOptions,
) -> Result<Vec<UndoOutcome>, UndoError> {
    store.look_on(|reads| {
        let layout = reads.layout()?;
        let units = find(reads, target)?;
        let going: BTreeSet<(&str, i64)> = units.iter().map(key).collect();
        let examined = units.iter().map(|unit| {
            let found = examine(reads, &layout, unit, (options, &going))?;
            Ok(outcome(unit, found.map(drop)))
        });
        examined.collect()
    })
}

/// Takes units back, last first, and keeps the next run from doing the same again.
///
/// # Errors
/// When there is nothing to take back or the store fails; what was taken back until then stays so.
pub fn undo(session: &Session, request: &UndoRequest<'_>) -> Result<Undo, UndoError> {
    let units = session.read(|reads| find(reads, request.target))?;
    let at = request.now.to_naive_local(request.time_zone);
    session.prepare(&at)?;
    let run_id = session.begin_run(&RunStart {
        run_id: request.run_id,
        kind: RunKind::Undo,
        plan_id: None,
        target: Some(&request.target.to_string()),
        holder: request.holder,
        at: &at,
    })?;
    let mut run = Run {
        session,
        request,
        run_id: &run_id,
        at: &at,
        started: (request.clock)(),
        executed: Executed::default(),
        outcomes: Vec::new(),
    };
    let ended = run.take_all_back(&units);
    let state = match &ended {
        Err(_) | Ok(false) => RunState::Interrupted,
        Ok(true) if run.executed.stale + run.executed.failed > 0 => RunState::Partial,
        Ok(true) => RunState::Done,
    };
    let (executed, outcomes) = (run.executed, run.outcomes);
    let finished = session.finish_run(&run_id, (state, &at), executed);
    match (ended, finished) {
        (Err(error), _) | (Ok(_), Err(error)) => {
            Err(UndoError::Stopped { run_id, executed, error })
        }
        (Ok(_), Ok(())) => {
            let remaining = (units.len() - outcomes.len()) as u64;
            Ok(Undo { run_id, executed, outcomes, remaining, state })
        }
    }
}

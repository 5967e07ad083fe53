//! Whether memories are still as a plan saw them.

use std::collections::BTreeMap;

use super::{ExecuteError, UnitOutcome, UnitResult};
use crate::execute::units::units;
use crate::execute::{Blocked, ExecutionUnit, Selection};
use memfold_model::memory::MemoryId;
use memfold_plan::plan::SavedPlan;
use memfold_store::brain_db::{BrainDb, Layout, SessionError, UnitRow, Writes};

/// Tells which units would be applied and which are stale, without writing.
///
/// # Errors
/// When the store cannot be read.
pub fn preview(
    store: &BrainDb,
    saved: &SavedPlan,
    selection: &Selection,
) -> Result<(Vec<UnitOutcome>, Vec<Blocked>), SessionError> {
    let (units, blocked) = units(&saved.actions, selection);
    let outcomes = store.look_on(|reads| {
        let expected = expected_digests(reads, saved)?;
        let layout = reads.layout()?;
        let tried = units.iter().map(|unit| {
            let read = read_fresh(reads, &layout, unit, &expected)?;
            let result = read.map_or_else(UnitResult::Stale, |_| UnitResult::Applied);
            Ok(UnitOutcome::of(unit, result))
        });
        tried.collect::<Result<Vec<_>, SessionError>>()
    })?;
    Ok((outcomes, blocked))
}

/// What each memory must look like: as the plan saw it, or as earlier units of the plan left it.
pub(super) fn expected_digests(
    reads: &Writes<'_>,
    saved: &SavedPlan,
) -> Result<BTreeMap<MemoryId, String>, SessionError> {
    let mut expected = saved.plan.base_digests.clone();
    for unit in reads.units_of_plan(&saved.plan_id)? {
        expected.extend(unit.digests);
    }
    Ok(expected)
}

pub(super) fn check_freshness(
    reads: &Writes<'_>,
    saved: &SavedPlan,
    units: &[ExecutionUnit<'_>],
) -> Result<(), ExecuteError> {
    let expected = expected_digests(reads, saved)?;
    let layout = reads.layout()?;
    let mut example = None;
    for unit in units {
        match read_fresh(reads, &layout, unit, &expected)? {
            Ok(_) => return Ok(()),
            Err(reason) => {
                example.get_or_insert(reason);
            }
        }
    }
    match example {
        Some(example) => Err(ExecuteError::AllStale { units: units.len() as u64, example }),
        None => Ok(()),
    }
}

/// The rows of a unit, or why it is stale.
pub(super) fn read_fresh(
    reads: &Writes<'_>,
    layout: &Layout,
    unit: &ExecutionUnit<'_>,
    expected: &BTreeMap<MemoryId, String>,
) -> Result<Result<Vec<UnitRow>, String>, SessionError> {
    let mut rows = Vec::new();
    for id in unit.ids() {
        let Some(row) = reads.memory(layout, id)? else {
            return Ok(Err(format!("{id} is gone")));
        };
        if expected.get(id).is_none_or(|digest| *digest != row.digest.to_string()) {
            return Ok(Err(format!("{id} was changed since the plan was made")));
        }
        rows.push(row);
    }
    Ok(Ok(rows))
}

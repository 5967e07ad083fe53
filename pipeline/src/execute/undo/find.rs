//! Which units an undo is about, and what would take them back.

use std::collections::BTreeSet;

use super::outcome::Reason;
use super::{UndoError, UndoTarget};
use memfold_store::brain_db::{Layout, NowRows, SessionError, UnitRecord, Writes};
use memfold_store::journal::{Change, Conflict, RevertOptions, revert};

/// A unit's run and number.
pub(super) fn key(unit: &UnitRecord) -> (&str, i64) {
    (&unit.run_id, unit.unit)
}

/// The units to take back, last first.
pub(super) fn find(reads: &Writes<'_>, target: &UndoTarget) -> Result<Vec<UnitRecord>, UndoError> {
    let unknown = || UndoError::Unknown { target: target.to_string() };
    if !reads.has_own_tables()? {
        return Err(unknown());
    }
    let mut units = match target {
        UndoTarget::Run(run) => {
            let units = reads.units_of_run(run)?;
            if units.is_empty() {
                return Err(missing(reads, target, run)?);
            }
            units
        }
        UndoTarget::Action { run_id, label } => {
            let found = reads.unit_of_action(run_id.as_deref(), label)?;
            vec![found.ok_or_else(unknown)?]
        }
        UndoTarget::Memory(id) => {
            let found = reads.last_unit_of_memory(id)?;
            vec![found.ok_or_else(unknown)?]
        }
    };
    if let Some(by) = units.first().and_then(|unit| unit.undone_by.clone())
        && units.iter().all(|unit| !unit.is_applied)
    {
        return Err(UndoError::Undone { target: target.to_string(), by });
    }
    units.retain(|unit| unit.is_applied);
    units.reverse();
    Ok(units)
}

/// A run without units did nothing, or was pruned, or never was.
fn missing(reads: &Writes<'_>, target: &UndoTarget, run: &str) -> Result<UndoError, SessionError> {
    let applied = reads.applied_units(run)?;
    let target = target.to_string();
    Ok(match applied {
        Some(1..) => UndoError::Pruned { target },
        _ => UndoError::Unknown { target },
    })
}

pub(super) type Examined = Result<Vec<Change>, Vec<Reason>>;

/// The changes that take a unit back, or why that cannot be done. `going` are units that go in the same undo.
pub(super) fn examine(
    reads: &Writes<'_>,
    layout: &Layout,
    unit: &UnitRecord,
    (options, going): (RevertOptions, &BTreeSet<(&str, i64)>),
) -> Result<Examined, SessionError> {
    let later = reads.later_units(key(unit))?;
    let blocking = later.iter().find(|(run, number)| !going.contains(&(run.as_str(), *number)));
    if let Some((run, _)) = blocking {
        return Ok(Err(vec![(format!("a later run built on it: undo {run} first"), None)]));
    }
    let entries = reads.journal(key(unit))?;
    if entries.is_empty() {
        return Ok(Err(vec![("its journal was pruned".to_owned(), None)]));
    }
    let rows = NowRows { writes: reads, layout };
    let reverted = revert(&entries, &rows, options)?;
    Ok(reverted.map_err(|conflicts| conflicts.iter().map(told).collect()))
}

fn told(conflict: &Conflict) -> Reason {
    (conflict.to_string(), conflict.remedy())
}

//! Single actions outside of a plan: those of a save, and those that a person asks for.

use std::collections::BTreeMap;

use super::apply::kept_note;
use super::edits::{EditContext, Edited, edits};
use memfold_model::memory::{Memory, MemoryId};
use memfold_plan::plan::{
    Action, ActionState, ActionType, Evidence, Rationale, Risk, SavedAction, Values,
};
use memfold_plan::policy::MergePolicy;
use memfold_store::brain_db::{
    Deed, Layout, Mark, SessionError, UnitRecord, UnitRow, Writes, apply,
};
use memfold_store::journal::Change;

/// What a unit did, for lists of runs.
pub(crate) type DeedOf = (&'static str, ActionType, Vec<MemoryId>);

/// An action on memories, of a rule.
pub(crate) fn action_of(
    action: ActionType,
    target_ids: Vec<MemoryId>,
    (rule_id, reasons, score, evidence): (&str, Vec<String>, Option<f64>, Evidence),
) -> Action {
    Action {
        action,
        target_ids,
        canonical_id: None,
        survivor_protected: false,
        new_content: None,
        new_categories: None,
        new_importance: None,
        risk: Risk::Identical,
        rationale: Rationale { rule_id: rule_id.to_owned(), score, reasons, evidence },
    }
}

/// Folds one memory into another; the survivor takes over what merges take over.
pub(crate) fn merge_of_two(
    survivor: &Memory,
    absorbed: &Memory,
    policy: &MergePolicy,
    (rule_id, reason, evidence): (&str, &str, Evidence),
) -> Action {
    let values = Values::merged(survivor, [absorbed], policy);
    let ids = vec![survivor.id.clone(), absorbed.id.clone()];
    let why = (rule_id, vec![reason.to_owned()], None, evidence);
    Action {
        canonical_id: Some(survivor.id.clone()),
        new_categories: values.new_categories(survivor),
        new_importance: values.new_importance(survivor),
        risk: memfold_plan::plan::risk(&survivor.content, &absorbed.content, true),
        ..action_of(ActionType::Merge, ids, why)
    }
}

/// Carries out an action and further changes as one unit of a run. Returns why a memory was not moved away, though
/// that was wanted.
pub(crate) fn carry_out_alone(
    (writes, layout): (&Writes<'_>, &Layout),
    (context, unit): (EditContext<'_>, i64),
    (label, action): (&'static str, Action),
    rows: &[UnitRow],
    further: Vec<Change>,
) -> Result<Option<String>, SessionError> {
    let deed = (label, action.action, action.target_ids.clone());
    let Edited { mut changes, kept } = changes_of(action, rows, (writes, layout), context)?;
    changes.extend(further);
    let mark = Mark { run_id: context.run_id, unit, at: context.at };
    write_unit((writes, layout), &mark, deed, &changes, rows)?;
    Ok(kept.first().map(|(_, reason)| kept_note(kept.len() as u64, reason)))
}

/// Returns the changes that carry out an action.
pub(crate) fn changes_of(
    action: Action,
    rows: &[UnitRow],
    store: (&Writes<'_>, &Layout),
    context: EditContext<'_>,
) -> Result<Edited, SessionError> {
    let saved = SavedAction {
        position: 0,
        action,
        amended: None,
        state: ActionState::Proposed,
        access_count: None,
        run_id: None,
        unit: None,
        note: None,
    };
    edits(&[&saved], rows, store, context)
}

/// Carries out changes as one unit of a run and writes them down.
pub(crate) fn write_unit(
    (writes, layout): (&Writes<'_>, &Layout),
    mark: &Mark<'_>,
    (label, action, ids): DeedOf,
    changes: &[Change],
    rows: &[UnitRow],
) -> Result<(), SessionError> {
    apply(writes, layout, mark, changes)?;
    let mut digests = BTreeMap::new();
    for row in rows {
        let after = writes.memory(layout, &row.id)?;
        let digest = after.map_or_else(String::new, |row| row.digest.to_string());
        digests.insert(row.id.clone(), digest);
    }
    let record = UnitRecord {
        run_id: mark.run_id.to_owned(),
        unit: mark.unit,
        undone_by: None,
        is_applied: true,
        plan_id: None,
        deeds: vec![Deed { label: label.to_owned(), position: 0, action, ids }],
        reverts: None,
        digests,
    };
    writes.insert_unit(&record, mark.at)
}

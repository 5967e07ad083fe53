//! Units of execution: what happens to one memory happens in one transaction.

use std::collections::BTreeMap;

use super::Selection;
use memfold_model::memory::MemoryId;
use memfold_plan::plan::{Action, ActionState, ActionType, SavedAction, action_label};

/// Actions that are applied together or not at all: a merge and what follows for its survivor, or one
/// action alone.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutionUnit<'a> {
    /// The actions in plan order; a merge comes first.
    pub actions: Vec<&'a SavedAction>,
}

/// An action that cannot be applied without another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// The action, by position.
    pub position: usize,
    /// What it needs, by position.
    pub needs: usize,
}

impl<'a> ExecutionUnit<'a> {
    /// Returns the labels of the actions, `a3+a9`.
    #[must_use]
    pub fn label(&self) -> String {
        let labels = self.actions.iter().map(|action| action_label(action.position));
        labels.collect::<Vec<_>>().join("+")
    }

    /// Returns the memories that the actions name, each once, survivors first.
    #[must_use]
    pub fn ids(&self) -> Vec<&'a MemoryId> {
        let mut seen = std::collections::BTreeSet::new();
        let ids = self.actions.iter().flat_map(|action| &action.effective().target_ids);
        ids.filter(|id| seen.insert(*id)).collect()
    }
}

/// Groups the selected actions into units, in plan order.
pub(super) fn units<'a>(
    actions: &'a [SavedAction],
    selection: &Selection,
) -> (Vec<ExecutionUnit<'a>>, Vec<Blocked>) {
    let wanted = selection.wanted(actions);
    let merge_of = merges_by_survivor(actions);
    let mut units: Vec<ExecutionUnit<'a>> = Vec::new();
    let mut unit_of_merge: BTreeMap<usize, usize> = BTreeMap::new();
    let mut blocked = Vec::new();
    for action in actions.iter().filter(|action| wanted[action.position]) {
        let follows = follows_a_merge(action.effective())
            .and_then(|id| merge_of.get(id))
            .filter(|merge| merge.state != ActionState::Applied);
        match follows.map(|merge| (merge, unit_of_merge.get(&merge.position))) {
            Some((_, Some(&unit))) => units[unit].actions.push(action),
            Some((merge, None)) => {
                blocked.push(Blocked { position: action.position, needs: merge.position });
            }
            None => {
                unit_of_merge.insert(action.position, units.len());
                units.push(ExecutionUnit { actions: vec![action] });
            }
        }
    }
    (units, blocked)
}

/// The memory whose merge must come first: promotions and archivals rest on the values after it.
fn follows_a_merge(action: &Action) -> Option<&MemoryId> {
    match action.action {
        ActionType::Promote | ActionType::Archive => action.target_ids.first(),
        ActionType::Merge | ActionType::FlagContradiction | ActionType::Noop => None,
    }
}

fn merges_by_survivor(actions: &[SavedAction]) -> BTreeMap<&MemoryId, &SavedAction> {
    let merges = actions.iter().filter(|action| action.effective().action == ActionType::Merge);
    merges.filter_map(|merge| Some((merge.effective().target_ids.first()?, merge))).collect()
}

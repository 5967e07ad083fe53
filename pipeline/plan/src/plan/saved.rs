//! Plans as a store keeps them: what became of each action.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Action, ActionType, Plan, action_label, plan_digest, plan_id};

/// What became of an action.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ActionState {
    /// Nobody looked at it yet.
    Proposed,
    /// A person wants it.
    Approved,
    /// A person does not want it.
    Rejected,
    /// It was done.
    Applied,
    /// It was skipped: its memories are no longer what it rests on.
    Stale,
    /// It was done and taken back.
    Undone,
}

/// An action of a saved plan.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedAction {
    /// Its place in the plan, from 0.
    pub position: usize,
    /// As it was planned.
    pub action: Action,
    /// As a person changed it.
    pub amended: Option<Action>,
    /// What became of it.
    pub state: ActionState,
    /// The memory's access count when its promotion was planned.
    pub access_count: Option<i64>,
    /// The run that last dealt with it.
    pub run_id: Option<String>,
    /// The unit of that run.
    pub unit: Option<i64>,
    /// Why it is in this state, in words.
    pub note: Option<String>,
}

/// A plan that was written back to its store.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedPlan {
    /// Its name.
    pub plan_id: String,
    /// The plan as it was made.
    pub plan: Plan,
    /// Digest of the plan's actions as they were made.
    pub plan_digest: String,
    /// When it was saved, in the store's naive local time.
    pub saved_at: String,
    /// Its actions in plan order, and what became of them.
    pub actions: Vec<SavedAction>,
}

/// A line of a list of saved plans.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct PlanSummary {
    /// Its name.
    pub plan_id: String,
    /// When it was saved, in the store's naive local time.
    pub saved_at: String,
    /// The time it was made for, RFC 3339.
    pub now: String,
    /// Digest of its actions.
    pub plan_digest: String,
    /// Actions by type, noops included.
    pub types: BTreeMap<ActionType, u64>,
    /// Actions that are no noops, by state.
    pub states: BTreeMap<ActionState, u64>,
}

impl ActionState {
    const ALL: [Self; 6] =
        [Self::Proposed, Self::Approved, Self::Rejected, Self::Applied, Self::Stale, Self::Undone];

    /// Returns the name that the store and JSON use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Proposed => "proposed",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Applied => "applied",
            Self::Stale => "stale",
            Self::Undone => "undone",
        }
    }

    /// Returns the state of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

impl SavedAction {
    /// Returns what is to be done: the action as amended, else as planned.
    #[must_use]
    pub fn effective(&self) -> &Action {
        self.amended.as_ref().unwrap_or(&self.action)
    }

    /// Returns the name that people use: `a1`, `a2`, …
    #[must_use]
    pub fn label(&self) -> String {
        action_label(self.position)
    }

    /// Tells whether it would change something.
    #[must_use]
    pub fn is_change(&self) -> bool {
        self.action.action != ActionType::Noop
    }
}

impl SavedPlan {
    /// Returns a plan that no store holds yet: everything in it is proposed.
    #[must_use]
    pub fn proposed(plan: Plan) -> Self {
        let action = |(position, action): (usize, &Action)| SavedAction {
            position,
            action: action.clone(),
            amended: None,
            state: ActionState::Proposed,
            access_count: None,
            run_id: None,
            unit: None,
            note: None,
        };
        Self {
            plan_id: plan_id(&plan),
            plan_digest: plan_digest(&plan),
            saved_at: String::new(),
            actions: plan.actions.iter().enumerate().map(action).collect(),
            plan,
        }
    }

    /// Returns the semantic keys that were set on the command line when the plan was made.
    #[must_use]
    pub const fn overrides(&self) -> &serde_json::Map<String, serde_json::Value> {
        &self.plan.overrides
    }

    /// Returns how many changes are in a state.
    #[must_use]
    pub fn count(&self, state: ActionState) -> u64 {
        self.changes().filter(|action| action.state == state).count() as u64
    }

    /// Returns the actions that are no noops, in plan order.
    pub fn changes(&self) -> impl Iterator<Item = &SavedAction> {
        self.actions.iter().filter(|action| action.is_change())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_one_name_each() {
        for state in ActionState::ALL {
            assert_eq!(ActionState::of_name(state.name()), Some(state));
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
        assert_eq!(ActionState::of_name("done"), None);
    }
}

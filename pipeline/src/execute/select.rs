//! The selection of a plan's actions to apply: `--only`, `--except`, and the decisions of a review.

use memfold_core::plan::{Action, ActionState, ActionType, Risk, SavedAction, action_label};

/// Names actions: one by its label, or all of a risk or type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// `a17`, as its position from 0.
    Action(usize),
    /// `identical`, `trivial`, `reworded`.
    Risk(Risk),
    /// `merge`, `promote`, `archive`, `flag_contradiction`, `propose_merge`.
    Type(ActionType),
}

/// Words that name no actions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} names no actions")]
pub struct PickError {
    /// The word.
    pub word: String,
}

impl PickError {
    /// Returns advice for the user.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(
            "name actions by label (a17), by risk (identical, trivial, reworded) or by type \
             (merge, promote, archive, flag_contradiction, rewrite, summarize, supersede, \
             propose_merge)"
                .to_owned(),
        )
    }
}

const RISKS: [(&str, Risk); 3] =
    [("identical", Risk::Identical), ("trivial", Risk::Trivial), ("reworded", Risk::Reworded)];

impl std::str::FromStr for Pick {
    type Err = PickError;

    fn from_str(word: &str) -> Result<Self, PickError> {
        let word = word.trim();
        let label = word.strip_prefix('a').and_then(|number| number.parse::<usize>().ok());
        let risk = RISKS.iter().find(|(name, _)| *name == word);
        let action = ActionType::of_name(word).filter(|action| *action != ActionType::Noop);
        match (label, risk, action) {
            (Some(number @ 1..), ..) => Ok(Self::Action(number - 1)),
            (_, Some((_, risk)), _) => Ok(Self::Risk(*risk)),
            (.., Some(action)) => Ok(Self::Type(action)),
            _ => Err(PickError { word: word.to_owned() }),
        }
    }
}

impl Pick {
    fn names(self, action: &SavedAction) -> bool {
        match self {
            Self::Action(position) => action.position == position,
            Self::Risk(risk) => {
                action.effective().action == ActionType::Merge && action.effective().risk == risk
            }
            Self::Type(wanted) => action.effective().action == wanted,
        }
    }
}

/// The note on an applied action that a person had approved. With it, actions that the review left
/// undecided stay undecided.
pub(super) const APPROVED_NOTE: &str = "approved";

/// The actions to apply; by default the approved ones or, where nothing was reviewed, all.
///
/// Picks only narrow that choice: rejected actions, and in a reviewed plan all actions not
/// approved, stay out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only these; empty: no limit.
    pub only: Vec<Pick>,
    /// Not these.
    pub except: Vec<Pick>,
}

impl Selection {
    /// Tells which actions are wanted, by position. Rejected, applied and undone ones never are.
    pub(super) fn wanted(&self, actions: &[SavedAction]) -> Vec<bool> {
        let is_reviewed = actions.iter().any(was_decided);
        actions.iter().map(|action| self.wants(action, is_reviewed)).collect()
    }

    /// Returns the actions to apply.
    pub fn chosen<'a>(&self, actions: &'a [SavedAction]) -> impl Iterator<Item = &'a Action> {
        let wanted = self.wanted(actions);
        let chosen = actions.iter().filter(move |action| wanted[action.position]);
        chosen.map(SavedAction::effective)
    }

    fn wants(&self, action: &SavedAction, is_reviewed: bool) -> bool {
        let is_open = match action.state {
            ActionState::Approved | ActionState::Stale => true,
            ActionState::Proposed => {
                !is_reviewed && action.effective().action != ActionType::ProposeMerge
            }
            ActionState::Rejected | ActionState::Applied | ActionState::Undone => false,
        };
        is_open && self.picks(action)
    }

    /// Tells whether an action is picked, in any state.
    #[must_use]
    pub fn picks(&self, action: &SavedAction) -> bool {
        let named = |picks: &[Pick]| picks.iter().any(|pick| pick.names(action));
        action.effective().action != ActionType::Noop
            && (self.only.is_empty() || named(&self.only))
            && !named(&self.except)
    }

    /// Returns the labels of actions that are picked by `only` but were not approved in a review.
    #[must_use]
    pub fn not_approved(&self, actions: &[SavedAction]) -> Vec<String> {
        if self.only.is_empty() {
            return Vec::new();
        }
        let is_reviewed = actions.iter().any(was_decided);
        let is_left_out = |action: &&SavedAction| match action.state {
            ActionState::Proposed => {
                is_reviewed || action.effective().action == ActionType::ProposeMerge
            }
            ActionState::Rejected => true,
            _ => false,
        };
        let left_out = actions.iter().filter(is_left_out).filter(|action| self.picks(action));
        left_out.map(SavedAction::label).collect()
    }

    /// Returns the labels that name no action of the plan.
    #[must_use]
    pub(crate) fn unknown_labels(&self, action_count: usize) -> Vec<String> {
        let picks = self.only.iter().chain(&self.except);
        picks
            .filter_map(|pick| match pick {
                Pick::Action(position) if *position >= action_count => {
                    Some(action_label(*position))
                }
                _ => None,
            })
            .collect()
    }
}

/// Tells whether a person decided about an action.
fn was_decided(action: &SavedAction) -> bool {
    matches!(action.state, ActionState::Approved | ActionState::Rejected)
        || is_approved(action.note.as_deref())
}

/// Tells whether a note says that a person approved the action, before anything else.
pub(super) fn is_approved(note: Option<&str>) -> bool {
    let rest = note.and_then(|note| note.strip_prefix(APPROVED_NOTE));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use memfold_core::memory::MemoryId;
    use memfold_core::plan::{Action, Rationale};

    fn saved(position: usize, state: ActionState) -> SavedAction {
        let action = Action::new(
            ActionType::Merge,
            vec![MemoryId::new("a"), MemoryId::new("b")],
            Rationale::new("R", Vec::new()),
        );
        let (amended, access_count, run_id, unit, note) = (None, None, None, None, None);
        SavedAction { position, action, amended, state, access_count, run_id, unit, note }
    }

    /// `--only identical` applied actions that a person had left undecided or rejected in a review,
    /// as did a second `apply` once everything approved was applied. Picks only narrow.
    #[test]
    fn picks_never_widen_a_review() {
        use ActionState::{Applied, Approved, Proposed, Rejected, Stale, Undone};
        let only = Selection { only: vec![Pick::Risk(Risk::Identical)], ..Selection::default() };
        let all = Selection::default();
        let states = |states: &[ActionState]| -> Vec<SavedAction> {
            states.iter().enumerate().map(|(at, state)| saved(at, *state)).collect()
        };
        let reviewed = states(&[Approved, Proposed, Rejected, Stale]);
        for selection in [&only, &all] {
            assert_eq!(selection.wanted(&reviewed), [true, false, false, true]);
            assert_eq!(selection.wanted(&states(&[Proposed, Proposed])), [true, true]);
        }
        assert_eq!(only.not_approved(&reviewed), ["a2", "a3"]);
        assert_eq!(all.not_approved(&reviewed), Vec::<String>::new());
        for (state, note) in
            [(Applied, "approved"), (Undone, "approved"), (Stale, "approved; b was changed")]
        {
            let mut later = states(&[state, Proposed]);
            later[0].note = Some(note.to_owned());
            assert!(!all.wanted(&later)[1], "{state:?}");
            later[0].note = Some("approved by nobody".to_owned());
            assert!(all.wanted(&later)[1], "{state:?}");
        }
    }

    #[test]
    fn words_name_actions() {
        assert_eq!("a17".parse(), Ok(Pick::Action(16)));
        assert_eq!("identical".parse(), Ok(Pick::Risk(Risk::Identical)));
        assert_eq!(" merge ".parse(), Ok(Pick::Type(ActionType::Merge)));
        for word in ["a0", "a", "noop", "17", "", "all"] {
            assert!(word.parse::<Pick>().is_err(), "{word}");
        }
    }
}

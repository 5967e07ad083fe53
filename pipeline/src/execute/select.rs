//! Which actions of a plan to carry out: `--only`, `--except`, and what a review said.

use crate::plan::{ActionState, ActionType, Risk, SavedAction, action_label};

/// Names actions: one by its label, or all of a risk or type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// `a17`, as its position from 0.
    Action(usize),
    /// `identical`, `trivial`, `reworded`.
    Risk(Risk),
    /// `merge`, `promote`, `archive`, `flag_contradiction`.
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
    /// Returns what the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(
            "name actions by label (a17), by risk (identical, trivial, reworded) or by type \
             (merge, promote, archive, flag_contradiction)"
                .to_owned(),
        )
    }
}

const RISKS: [(&str, Risk); 3] =
    [("identical", Risk::Identical), ("trivial", Risk::Trivial), ("reworded", Risk::Reworded)];

const TYPES: [ActionType; 4] =
    [ActionType::Merge, ActionType::Promote, ActionType::Archive, ActionType::FlagContradiction];

impl std::str::FromStr for Pick {
    type Err = PickError;

    fn from_str(word: &str) -> Result<Self, PickError> {
        let word = word.trim();
        let label = word.strip_prefix('a').and_then(|number| number.parse::<usize>().ok());
        let risk = RISKS.iter().find(|(name, _)| *name == word);
        let action = TYPES.into_iter().find(|action| action.name() == word);
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

/// Which actions to carry out; by default what review approved or, where nothing was reviewed, all.
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
        let is_reviewed = actions
            .iter()
            .any(|action| matches!(action.state, ActionState::Approved | ActionState::Rejected));
        actions.iter().map(|action| self.wants(action, is_reviewed)).collect()
    }

    fn wants(&self, action: &SavedAction, is_reviewed: bool) -> bool {
        let named = |picks: &[Pick]| picks.iter().any(|pick| pick.names(action));
        let is_open = match action.state {
            ActionState::Approved | ActionState::Stale => true,
            // Naming an action is as good as approving it.
            ActionState::Proposed => !is_reviewed || named(&self.only),
            ActionState::Rejected | ActionState::Applied | ActionState::Undone => false,
        };
        action.effective().action != ActionType::Noop
            && is_open
            && (self.only.is_empty() || named(&self.only))
            && !named(&self.except)
    }

    /// Returns the labels that name no action of the plan.
    #[must_use]
    pub fn unknown_labels(&self, action_count: usize) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

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

//! [`ReviewStore`]: where answers go.

use memfold_plan::plan::{Action, SavedAction};

use crate::failure::Failure;

/// Takes each answer as it is given. A failure leaves the action as it was.
pub(crate) trait ReviewStore {
    /// The action is to be done.
    fn approve(&mut self, action: &SavedAction) -> Result<(), Failure>;

    /// The action is not to be done.
    fn reject(&mut self, action: &SavedAction) -> Result<(), Failure>;

    /// The action is not to be done, and its memories are kept apart from now on.
    fn keep_both(&mut self, action: &SavedAction) -> Result<(), Failure>;

    /// The action is another one; `None` is as planned.
    fn amend(&mut self, action: &SavedAction, amended: Option<&Action>) -> Result<(), Failure>;

    /// The last answer about the action counts no longer.
    fn take_back(&mut self, action: &SavedAction) -> Result<(), Failure>;
}

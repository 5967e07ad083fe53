//! What a person decides about a saved plan's actions.

use memfold_plan::plan::{Action, ActionState};

use super::{Session, SessionError, Writes};
use crate::brain_db::own::{self, ActionUpdate};

impl Session {
    /// Writes down that a person approves or rejects an action, or wants to think again (proposed).
    ///
    /// # Errors
    /// When the action was carried out meanwhile, or the store cannot be written.
    pub fn decide(
        &self,
        plan_id: &str,
        position: usize,
        state: ActionState,
    ) -> Result<(), SessionError> {
        self.write(|writes| {
            writes.check_undecided(plan_id, position)?;
            let update = ActionUpdate::of(state);
            writes.query("write down a decision", |connection| {
                own::plans::set_state(connection, plan_id, position, &update)
            })
        })
    }

    /// Writes down how a person changed an action; `None` is as planned.
    ///
    /// # Errors
    /// When the action was carried out meanwhile, or the store cannot be written.
    pub fn amend(
        &self,
        plan_id: &str,
        position: usize,
        amended: Option<&Action>,
    ) -> Result<(), SessionError> {
        self.write(|writes| {
            writes.check_undecided(plan_id, position)?;
            writes.query("write down an amendment", |connection| {
                own::plans::amend(connection, plan_id, position, amended)
            })
        })
    }
}

impl Writes<'_> {
    /// Writes down what became of an action; replaces run, unit and note as well.
    ///
    /// # Errors
    /// When there is no such action, or the store cannot be written.
    pub fn set_action_state(
        &self,
        plan_id: &str,
        position: usize,
        update: &ActionUpdate<'_>,
    ) -> Result<(), SessionError> {
        self.query("write down what became of an action", |connection| {
            own::plans::set_state(connection, plan_id, position, update)
        })
    }

    /// Returns what was noted of an action; `None` where nothing was, or there is no such action.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn action_note(
        &self,
        plan_id: &str,
        position: usize,
    ) -> Result<Option<String>, SessionError> {
        self.query("read an action", |connection| own::plans::note(connection, plan_id, position))
    }

    /// Refuses an action that is gone, or was carried out.
    ///
    /// # Errors
    /// Where that is so, or the store cannot be read.
    pub fn check_undecided(&self, plan_id: &str, position: usize) -> Result<(), SessionError> {
        let found = self.query("read an action", |c| own::plans::state(c, plan_id, position))?;
        let reason = match found.as_deref().map(ActionState::of_name) {
            None => "it is gone".to_owned(),
            Some(Some(state @ (ActionState::Applied | ActionState::Undone))) => {
                format!("it is {} meanwhile", state.name())
            }
            Some(_) => return Ok(()),
        };
        Err(SessionError::Refused { what: "write down a decision", reason })
    }
}

//! What a session knows and writes down of runs and plans.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Session, SessionError, Writes};
use crate::brain_db::load::derived_store_id;
use crate::brain_db::own::plans::FindPlanError;
use crate::brain_db::{BrainDb, own};
use memfold_model::memory::MemoryId;
use memfold_plan::plan::{Plan, SavedPlan, plan_id};

/// A plan may hold a hundred thousand actions; others must not wait for all of them.
const ACTIONS_AT_ONCE: usize = 500;
const PAUSE: Duration = Duration::from_millis(5);

fn store_id(reads: &Writes<'_>) -> Result<String, SessionError> {
    reads.query("read the store's name", |connection| match own::recorded(connection)? {
        Some((_, store_id)) => Ok(store_id),
        None => derived_store_id(connection).map(Into::into),
    })
}

impl BrainDb {
    /// Returns the store's name: the recorded one, or the one a reader derives, which reads the creation time and
    /// the id of each row.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn store_id(&self) -> Result<String, SessionError> {
        self.look_on(store_id)
    }
}

impl Session {
    /// Returns the store's name: the recorded one, or the one a reader derives.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn store_id(&self) -> Result<String, SessionError> {
        self.read(store_id)
    }

    /// Saves a plan for review; one that is there already is left as it is. Returns its id.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn save_plan(
        &self,
        plan: &Plan,
        access_counts: &BTreeMap<MemoryId, i64>,
        at: &str,
    ) -> Result<String, SessionError> {
        self.prepare(at)?;
        let plan_id = plan_id(plan);
        let exists = |reads: &Writes<'_>| {
            reads.query("read memfold_plans", |c| own::plans::exists(c, &plan_id))
        };
        if self.read(exists)? {
            return Ok(plan_id);
        }
        for start in (0..plan.actions.len()).step_by(ACTIONS_AT_ONCE) {
            let positions = start..plan.actions.len().min(start + ACTIONS_AT_ONCE);
            self.write(|writes| {
                writes.query("save the plan", |connection| {
                    let plan = (plan, plan_id.as_str());
                    own::plans::save_actions(connection, plan, positions, access_counts)
                })
            })?;
            std::thread::sleep(PAUSE);
        }
        self.write(|writes| {
            writes.query("save the plan", |c| own::plans::save_header(c, plan, &plan_id, at))
        })?;
        Ok(plan_id)
    }

    /// Reads a saved plan by its id, the beginning of it, or `latest`.
    ///
    /// # Errors
    /// When there is none, several begin that way, or what the store holds is no plan.
    pub fn plan(&self, name: &str) -> Result<SavedPlan, FindPlanError> {
        let begun = self.connection.unchecked_transaction()?;
        own::plans::find(&begun, name)
    }
}

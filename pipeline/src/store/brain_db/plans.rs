//! Looking at saved plans without leaving a trace.

use rusqlite::Connection;

use super::access::Stamp;
use super::open::{BrainDb, Reader};
use super::own::{FindPlanError, plans};
use crate::plan::{PlanSummary, SavedPlan};

/// How often a store is read without locks before a writer's haste calls for them.
const UNLOCKED_TRIES: u32 = 2;

impl BrainDb {
    /// Lists the saved plans, last saved first.
    ///
    /// # Errors
    /// When the store cannot be read, or a plan is damaged.
    pub fn plans(&self) -> Result<Vec<PlanSummary>, FindPlanError> {
        self.look(plans::list)
    }

    /// Finds a saved plan by its name, the first four or more characters of its name, or `latest`.
    ///
    /// # Errors
    /// When the store cannot be read, there is no such plan or more than one, or it is damaged.
    pub fn plan(&self, wanted: &str) -> Result<SavedPlan, FindPlanError> {
        self.look(|connection| plans::find(connection, wanted))
    }

    /// Reads in one read transaction, again where somebody wrote meanwhile.
    fn look<T>(
        &self,
        read: impl Fn(&Connection) -> Result<T, FindPlanError>,
    ) -> Result<T, FindPlanError> {
        for _ in 0..UNLOCKED_TRIES {
            let reader = self.connect(false)?;
            let found = self.look_once(&reader, &read);
            let (is_isolated, before) = (reader.access.is_isolated(), reader.stamp);
            if is_isolated || Stamp::take(self.path()).is_ok_and(|after| after == before) {
                return found;
            }
        }
        self.look_once(&self.connect(true)?, &read)
    }

    fn look_once<T>(
        &self,
        reader: &Reader,
        read: impl Fn(&Connection) -> Result<T, FindPlanError>,
    ) -> Result<T, FindPlanError> {
        let begun = reader.connection.unchecked_transaction().map_err(FindPlanError::from);
        begun.and_then(|transaction| read(&transaction)).map_err(|error| match error {
            FindPlanError::Sqlite(error) => self.explain(&error, &reader.stamp).into(),
            error => error,
        })
    }
}

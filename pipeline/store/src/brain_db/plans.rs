//! Looking at saved plans without leaving a trace.

use rusqlite::Connection;

use super::open::BrainDb;
use super::own::{FindPlanError, plans};
use memfold_plan::plan::{PlanSummary, SavedPlan};

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

    fn look<T>(
        &self,
        read: impl Fn(&Connection) -> Result<T, FindPlanError>,
    ) -> Result<T, FindPlanError> {
        self.traceless(|reader, connection| {
            read(connection).map_err(|error| match error {
                FindPlanError::Sqlite(error) => self.explain(&error, &reader.stamp).into(),
                error => error,
            })
        })
    }
}

//! [`UpkeepRun`]: when, where and by whom.

use jiff::tz::TimeZone;

use crate::brain_db::{RunStart, Session, SessionError};
use memfold_model::runs::{RunKind, RunState};
use memfold_model::time::Instant;
use memfold_plan::report::Executed;

/// A run of upkeep.
#[derive(Debug, Clone, Copy)]
pub struct UpkeepRun<'a> {
    /// The id wanted for the run.
    pub run_id: &'a str,
    /// The run's time.
    pub now: Instant,
    /// The zone of naive times.
    pub time_zone: &'a TimeZone,
    /// Who runs: `<machine> <process>`.
    pub holder: &'a str,
}

impl UpkeepRun<'_> {
    /// Returns the run's time as the owner writes times.
    pub fn at(&self) -> String {
        self.now.to_naive_local(self.time_zone)
    }

    /// Begins a run, does the work, given the run's id, and writes down how it ended. Returns the id.
    pub fn carry_out<T, E: From<SessionError>>(
        &self,
        session: &Session,
        (kind, target): (RunKind, Option<&str>),
        work: impl FnOnce(&str) -> Result<(T, u64), E>,
    ) -> Result<(String, T), E> {
        let at = self.at();
        session.prepare(&at)?;
        let (run_id, holder) = (self.run_id, self.holder);
        let start = RunStart { run_id, kind, plan_id: None, target, holder, at: &at };
        let run_id = session.begin_run(&start)?;
        let worked = work(&run_id);
        let (state, applied) = match &worked {
            Ok((_, applied)) => (RunState::Done, *applied),
            Err(_) => (RunState::Failed, 0),
        };
        let executed = Executed { applied, ..Executed::default() };
        let finished = session.finish_run(&run_id, (state, &at), executed);
        let (done, _) = worked?;
        finished?;
        Ok((run_id, done))
    }
}

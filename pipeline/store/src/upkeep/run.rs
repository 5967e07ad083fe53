//! [`UpkeepRun`]: a run of upkeep, and why one fails.

use jiff::tz::TimeZone;

use crate::brain_db::own::runs::RunStart;
use crate::brain_db::write::session::{Session, SessionError};
use memfold_core::memory::Status;
use memfold_core::report::Executed;
use memfold_core::runs::{RunKind, RunState};
use memfold_core::time::Instant;

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

    /// Begins a run, does the work, given the run's id, and records the end. Returns the id.
    pub fn carry_out<T, E: From<SessionError>>(
        &self,
        session: &Session,
        kind: RunKind,
        target: Option<&str>,
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
        let finished = session.finish_run(&run_id, state, &at, executed);
        let (done, _) = worked?;
        finished?;
        Ok((run_id, done))
    }
}

/// Why a memory was neither restored nor forgotten.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpkeepError {
    /// The store cannot be read or written.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// It is not archived.
    #[error("{id} is not archived: it is {}", whereabouts.name())]
    NotArchived {
        /// The memory, escaped.
        id: String,
        /// Where it is.
        whereabouts: Status,
    },
    /// It is unknown.
    #[error("{id} is not in this store")]
    Unknown {
        /// The memory, escaped.
        id: String,
    },
    /// Others were merged into it and would be lost with it.
    #[error("{} memories were merged into {id}: {}{}", ghosts.len(), list(ghosts), if ghosts.len() > LISTED_MAX { ", …" } else { "" })]
    HasAbsorbed {
        /// The memory, escaped.
        id: String,
        /// The others, escaped.
        ghosts: Vec<String>,
    },
}

/// Ids listed in an error.
const LISTED_MAX: usize = 10;

fn list(ids: &[String]) -> String {
    ids[..ids.len().min(LISTED_MAX)].join(", ")
}

impl UpkeepError {
    /// Returns advice for the user.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Session(error) => return error.hint(),
            Self::NotArchived { whereabouts: Status::Gone, .. } => {
                "somebody deleted its row: `memfold undo DB --memory ID --recreate` may bring it back"
            }
            Self::NotArchived { whereabouts: Status::Unknown, .. } | Self::Unknown { .. } => {
                "check the id and the store"
            }
            Self::NotArchived { .. } => "`memfold explain DB ID` tells more",
            Self::HasAbsorbed { .. } => {
                "bring them back first (`memfold undo DB --memory ID`), or forget them as well: --with-absorbed"
            }
        };
        Some(text.to_owned())
    }
}

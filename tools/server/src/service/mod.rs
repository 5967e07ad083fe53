//! The operations of requests, independent of the protocol: functions on stores that return plain
//! types.
//!
//! [`Service`] holds the stores and the threads, [`ServedStore`] answers. HTTP, MCP, the schedule and a
//! dashboard call the same functions.

mod problem;
mod workers;
mod store;
mod memories;
mod jobs;
mod runs;
mod plans;
mod history;

pub(crate) use history::{CompactAllAnswer, CompactAnswer, HistoryAnswer, RunAnswer, RunOptions};
pub use history::{CompactStats, HistoryAction, HistoryReport, HistorySummary, PastRun};
pub use jobs::{Job, JobDocument, JobEvent, JobState, Stage};
pub use memories::{
    MATCHES_MAX, MemoryRequest, RecallRequest, SaveAnswer, SearchRequest, user_category,
};
pub use plans::{
    Decision, DecisionsRequest, PlanDecision, Proposal, ProposalsDocument, SettleRequest,
    SettledAs, Survey,
};
pub use problem::{Problem, ProblemDocument, ProblemKind};
pub use runs::{ExecuteMode, RunRequest};
pub use store::{ServedStore, Service, Serving, name_of};
pub use workers::Workers;

pub use memfold::ops::{ApplyRequest, JudgeMode, UndoRequest};
pub use memfold::recall::RecallMode;

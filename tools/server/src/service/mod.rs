//! What a request does, apart from how it is asked: functions on stores that return plain types.
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
    Answered, Found, MATCHES_MAX, MemoryRequest, RecallDepth, RecallRequest, SaveAnswer,
    SearchRequest, user_category,
};
pub use plans::{
    Decision, DecisionsRequest, PlanDecision, Proposal, ProposalsDocument, SettleRequest,
    SettledAs, Survey,
};
pub use problem::{Problem, ProblemDocument, ProblemKind};
pub use runs::{ApplyRequest, ExecuteMode, JudgeMode, RunRequest, UndoRequest};
pub use store::{ServedStore, Service, name_of};
pub use workers::Workers;

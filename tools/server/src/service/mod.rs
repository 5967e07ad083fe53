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

pub(crate) use history::{
    CompactAllAnswer, CompactAnswer, HistoryAnswer, PastRun, RunAnswer, RunOptions,
};
pub(crate) use jobs::{Job, JobDocument, JobEvent, JobState};
pub(crate) use memories::SaveAnswer;
pub(crate) use plans::{
    Decision, DecisionsRequest, LATEST, PlanDecision, ProposalsDocument, SettleRequest,
};
pub(crate) use problem::{Problem, ProblemDocument, ProblemKind};
pub(crate) use runs::{ExecuteMode, RunRequest};
pub(crate) use store::{ServedStore, Service, Serving, name_of};

pub(crate) use memfold::ops::{ApplyRequest, JudgeMode, RecallRequest, SearchRequest, UndoRequest};
pub(crate) use memfold::quick_check::Incoming;
pub(crate) use memfold::recall::RecallMode;

//! What does a person or a model say of what the guard cannot prove?
//!
//! A [`Group`] is one question: memories that may say the same. [`ask_all`] puts the questions to a [`Judge`] in batches, keeps
//! every answer and asks nothing twice; [`accept_opinions`] then accepts only what loses no fact, whoever said it. Nothing here knows a
//! store or a plan.
//!
//! [`Chain`] asks models behind any server that speaks `/v1/chat/completions` or `/v1/systemone`.

pub mod question;
pub mod opinion;
pub mod prompt;
pub mod ask;
pub mod chain;
pub mod http;
pub mod limits;
mod chat;
mod decision;

pub use ask::{Asked, Judge, JudgeError, Judgement, Records, Reply, Tally, Usage, Vote, ask_all};
pub use chain::{Budget, Chain, ChainError, ModelEndpoint};
pub use limits::{
    Accepted, AcceptedSummary, AnswerLimits, Outcome, Refusal, Refused, accept_opinions,
    accept_summary, accept_supersession,
};
pub use opinion::{
    GroupScores, Opinion, OpinionKind, OpinionsError, SaidConfidence, SaidDecision, SaidFact,
    SaidSummary, SaidSuperseded, SaidSupersession, ScoreThresholds, SupersessionKind,
    read_opinions,
};
pub use prompt::{Prompt, Task, prompt};
pub use question::{Batch, Group, Member};

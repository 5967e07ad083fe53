//! Questions that the guard cannot decide, put to a person or a model.
//!
//! A [`Group`] is one question: memories that may say the same. [`ask_all`] puts the questions to a [`Judge`] in batches, keeps
//! every answer and asks nothing twice; [`accept_opinions`] then accepts only answers that lose no fact, from a person as
//! from a model. Nothing here knows a store or a plan.
//!
//! [`Chain`] asks models behind any server that speaks `/v1/chat/completions` or `/v1/systemone`.

mod question;
pub mod ask;
mod chain;
pub mod http;
mod limits;

pub use ask::{Asked, Judge, JudgeError, Judgement, Records, Reply, Tally, Usage, Vote, ask_all};
pub use chain::{Budget, Chain, ChainError, ModelEndpoint};
pub use limits::{
    Accepted, AcceptedSummary, AnswerLimits, Outcome, Refusal, Refused, accept_opinions,
    accept_summary, accept_supersession,
};
pub use question::{
    Batch, Group, GroupScores, Member, Opinion, OpinionKind, OpinionsError, Prompt, SaidConfidence,
    SaidDecision, SaidFact, SaidSummary, SaidSuperseded, SaidSupersession, ScoreThresholds,
    SupersessionKind, Task, prompt,
};

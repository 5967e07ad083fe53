//! The quick check: whether a memory is known already, and its save if not, before the agent goes
//! on.
//!
//! [`QuickCheck::check`] decides and writes nothing; [`QuickCheck::save`] decides and writes, in one transaction. Both run inline
//! on every save of an agent, from many processes at once, with no daemon.
//!
//! | stage | from | to |
//! |---|---|---|
//! | gather | index, store, the new memory | ids that may be alike, within the time limit |
//! | weigh | these ids | memories as they are now, judged by the fact guard |
//! | decide | the weighed memories | insert, touch, touch and flag, replace, insert and flag |
//! | write | the decision | rows, lineage and journal |
//!
//! A save weighs and decides inside `BEGIN IMMEDIATE`, on the memories found and on newer rows: a
//! stale index can hide a row, and can never cause a wrong merge; and two processes that save the
//! same text at once end with one row. An index that is missing, broken or slow never keeps a
//! memory from being saved.

mod answer;
mod gather;
mod weigh;
mod decide;
mod engine;
mod sample;
mod write;

pub(crate) use answer::importance_fault;
pub use answer::{
    Check, CheckMatch, Coverage, Decision, ElapsedUs, Incoming, IndexUsed, SaveRequest, Saved,
    SavedOnce, Written, vector_fault, with_user,
};
pub use engine::{QuickCheck, QuickCheckOptions, SaveError};

#[cfg(test)]
mod tests;

//! `memfold-bench guard` and `judge`: the guard's verdicts on texts with a relation that somebody
//! else has judged, and the judges' additions.
//!
//! [`pairs`] reads JSON Lines one by one, [`mod@run`] judges each pair and counts: verdicts by label, the share that may
//! be merged, and, where pairs are labelled `contradiction`, the share of them that a threshold of the score finds.
//! One line is in memory at a time; of each pair at most two numbers stay. [`judged`] counts
//! the pairs that a judge may merge, and queries the models of `judge.chain`, if any.

mod pairs;
mod run;
mod judged;
mod command;

#[cfg(test)]
mod tests;

pub(crate) use command::{run, run_judge};

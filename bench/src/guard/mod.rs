//! `memfold-bench guard` and `judge`: the guard's verdicts on texts with a relation that somebody
//! else has judged, and the judges' additions.
//!
//! [`LabelledPairs`] reads JSON Lines one by one, [`GuardBench`] judges each pair and counts, and
//! [`GuardBenchReport`] holds the figures: verdicts by label, the share that may be merged, and,
//! where pairs are labelled `contradiction`, the share of them that a threshold of the score finds.
//! One line is in memory at a time; of each pair at most two numbers stay. [`JudgeBench`] counts
//! the pairs that a judge may merge, and queries the models of `judge.chain`, if any.

mod pairs;
mod run;
mod judged;
mod command;

#[cfg(test)]
mod tests;

use judged::{JudgeBench, JudgeBenchReport, JudgedPairs};
use pairs::{GuardBenchError, Label, LabelledPair, LabelledPairs};
use run::{
    ContradictionFigures, CurvePoint, GuardBench, GuardBenchReport, LabelFigures, PairOutcome,
};

pub(crate) use command::{GuardArgs, JudgeArgs, run, run_judge};

//! `memfold-bench guard` and `judge`: what the guard says of texts whose relation somebody else has judged, and what judges add.
//!
//! [`LabelledPairs`] reads JSON Lines one by one, [`GuardBench`] judges each pair and counts, and [`GuardBenchReport`]
//! holds the figures: verdicts by label, the share that may be merged, and, where pairs are labelled `contradiction`,
//! what a threshold of the score finds of them. One line is in memory at a time; of each pair at most two numbers stay.
//! [`JudgeBench`] counts what a judge may merge, and asks the models of `judge.chain` where there are some.

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

//! The guard on labelled pairs: what it says of texts whose relation somebody else has judged, and what judges add.
//!
//! [`LabelledPairs`] reads JSON Lines one by one, [`GuardBench`] judges each pair and counts, and
//! [`GuardBenchReport`] holds the figures: verdicts by label, the share that may be merged, and, where pairs are
//! labelled `contradiction`, what a threshold of the score finds of them ([`ContradictionCurve`]). One line is in
//! memory at a time; of each pair at most two numbers stay.
//!
//! ```
//! use memfold_guard::Guard;
//! use memfold::guard_bench::{GuardBench, LabelledPairs};
//! use memfold_plan::policy::Policy;
//!
//! let lines = r#"{"a": "The door is purple", "b": "The door is cyan", "label": "contradiction"}"#;
//! let guard = Guard::new(&Policy::builtin().guard)?;
//! let mut bench = GuardBench::new(&guard, &|| 0.0);
//! for pair in LabelledPairs::new(lines.as_bytes()) {
//!     let outcome = bench.judge(&pair?)?;
//!     assert!(!outcome.mergeable);
//! }
//! let report = bench.report();
//! assert_eq!((report.pairs, report.labels[0].verdicts.contradictory), (1, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod pairs;
mod run;
mod judge;

#[cfg(test)]
mod tests;

pub use judge::{JudgeBench, JudgeBenchReport, JudgedByModels, JudgedPairs};
pub use pairs::{Band, GuardBenchError, Label, LabelledPair, LabelledPairs};
pub use run::{
    ContradictionCurve, ContradictionFigures, CurvePoint, GuardBench, GuardBenchReport,
    LabelFigures, MicrosecondsPerPair, PairOutcome, SortedCurve, VerdictCounts,
};

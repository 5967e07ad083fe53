//! The fact guard: whether two texts say the same thing, without a model.
//!
//! A cosine cannot tell `Oct 15` from `Oct 16`. The guard reads both texts once ([`Guard::read`]) and compares what
//! they state ([`Guard::judge`]): specifics, polarity, opposites, roles. What it does not know it takes for different.
//! It does no I/O, reads no clock and knows no store.

pub mod verdict;

mod policy;
mod compare;
mod fact_guard;
mod lexicon;
mod matching;
mod morphology;
mod number;
mod polarity;
mod proof;
mod quantity;
mod read;
mod reading;
mod roles;
mod scan;
mod shape;
mod stem;

pub use fact_guard::{Coverage, Guard, NewerText};
pub use lexicon::LexiconError;
pub use policy::{GuardPolicy, SignalWeights};
pub use proof::{Side, Step, StepKind};
pub use reading::Reading;
pub use verdict::{Difference, DifferenceKind, Judgement, Signal, Verdict};

use memfold_model::text;

#[cfg(test)]
mod tests;

//! [`Tally`]: reasons counted, with an example of each.

use std::collections::BTreeMap;

use crate::SkipReason;
use memfold_model::text;

/// Examples are cut after so many characters.
const EXAMPLE_CHARS: usize = 200;

/// Counts what was left out.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) counts: BTreeMap<SkipReason, u64>,
    pub(crate) examples: BTreeMap<SkipReason, String>,
}

impl Tally {
    /// Counts one case; `example` is made for the first one only.
    pub(crate) fn add(&mut self, reason: SkipReason, example: impl FnOnce() -> String) {
        *self.counts.entry(reason).or_insert(0) += 1;
        self.illustrate(reason, example);
    }

    /// Keeps an example of a reason that is counted elsewhere, fit to be shown.
    pub(crate) fn illustrate(&mut self, reason: SkipReason, example: impl FnOnce() -> String) {
        self.examples.entry(reason).or_insert_with(|| text::excerpt(&example(), EXAMPLE_CHARS));
    }
}

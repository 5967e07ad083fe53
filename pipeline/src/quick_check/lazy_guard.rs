//! [`LazyGuard`]: a fact guard that is made when it is first needed.

use std::sync::OnceLock;

use memfold_guard::{Guard, LexiconError};
use memfold_plan::policy::GuardPolicy;

/// A fact guard that is made when it is first needed: most memories are like none before.
pub(super) struct LazyGuard {
    policy: GuardPolicy,
    made: OnceLock<Guard>,
}

impl LazyGuard {
    /// Makes it at once where the user has a lexicon, so that a mistake in it is told.
    pub(super) fn new(policy: &GuardPolicy) -> Result<Self, LexiconError> {
        let made = match &policy.lexicon {
            Some(_) => OnceLock::from(Guard::new(policy)?),
            None => OnceLock::new(),
        };
        Ok(Self { policy: policy.clone(), made })
    }

    pub(super) fn get(&self) -> &Guard {
        self.made.get_or_init(|| Guard::new(&self.policy).expect("the built-in lexicon is valid"))
    }
}

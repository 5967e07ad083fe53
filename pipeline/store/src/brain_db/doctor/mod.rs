//! Is this store sound? An examination that leaves no trace: facts first, as plain data, then findings made of nothing
//! but facts.
//!
//! | step | purpose |
//! |---|---|
//! | [`BrainDb::checkup`](super::BrainDb::checkup) | loads the store and gathers facts |
//! | [`findings`](super::findings) | lists the problems, how bad they are, and their fixes |
//! | [`health`](super::health) | the one line that a monitor reads: counts and a quick check, no vectors |

pub(crate) mod facts;
pub(crate) mod examine;
pub(crate) mod findings;

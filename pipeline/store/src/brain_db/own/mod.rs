//! memfold's own tables in somebody else's store: prefix `memfold_`, made by the first write.

pub(crate) mod tables;
pub(crate) mod archive;
pub(crate) mod merged;
pub(crate) mod runs;
pub(crate) mod units;
pub(crate) mod flags;
pub(crate) mod plans;
pub(crate) mod judgements;
pub(crate) mod statements;
pub(crate) mod tiers;
pub(crate) mod origins;
pub(crate) mod served;

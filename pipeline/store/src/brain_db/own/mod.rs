//! memfold's own tables in somebody else's store: prefix `memfold_`, made by the first write.

pub(crate) mod tables;
pub(crate) mod archive;
pub(crate) mod runs;
pub(crate) mod plans;
pub(crate) mod statements;
pub(crate) mod origins;

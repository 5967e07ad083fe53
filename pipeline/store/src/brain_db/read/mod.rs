//! Reading somebody else's file without leaving a trace beside it.

pub(crate) mod access;
pub(crate) mod open;
pub(crate) mod load;
pub(crate) mod lookup;
pub(crate) mod rows;
pub(crate) mod lineage;

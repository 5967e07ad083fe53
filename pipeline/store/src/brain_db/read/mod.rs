//! Reading somebody else's file without leaving a trace beside it.

pub(crate) mod access;
pub(crate) mod open;
pub(crate) mod load;
pub(crate) mod recorded;
pub(crate) mod live;
pub(crate) mod vitals;
pub(crate) mod lookup;
pub(crate) mod rows;
pub(crate) mod some;
pub(crate) mod lineage;
pub(crate) mod recall;

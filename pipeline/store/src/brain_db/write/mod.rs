//! Writing to the owner's tables: one short transaction at a time, each change with its journal entry.

pub(crate) mod session;
pub(crate) mod rows;
pub(crate) mod changes;

//! The commands, one file each.

pub(crate) mod apply;
pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod consolidate;
pub(crate) mod convert;
pub(crate) mod dedup;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod embed;
pub(crate) mod explain;
pub(crate) mod explain_memory;
pub(crate) mod export;
pub(crate) mod forget;
pub(crate) mod generate;
pub(crate) mod index;
pub(crate) mod log;
pub(crate) mod man;
pub(crate) mod metrics;
pub(crate) mod outputs;
pub(crate) mod plans;
pub(crate) mod prune;
pub(crate) mod quick;
#[cfg(test)]
pub(crate) mod published;
pub(crate) mod flags;
pub(crate) mod resolve;
pub(crate) mod restore;
pub(crate) mod review;
pub(crate) mod runs;
pub(crate) mod search;
pub(crate) mod undo;
pub(crate) mod vector;
pub(crate) mod writing;

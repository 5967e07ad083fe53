//! The commands, one file each.

pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod consolidate;
pub(crate) mod writing;
pub(crate) mod apply;
pub(crate) mod undo;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod explain_memory;
pub(crate) mod export;
pub(crate) mod generate;
pub(crate) mod man;
pub(crate) mod resolve;
pub(crate) mod runs;
pub(crate) mod metrics;

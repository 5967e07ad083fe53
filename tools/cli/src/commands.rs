//! The commands, one file each. A folder holds the parts of a large one.

pub(crate) mod apply;
pub(crate) mod audit;
pub(crate) mod check;
pub(crate) mod config;
pub(crate) mod consolidate;
pub(crate) mod convert;
pub(crate) mod dedup;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod embed;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod forget;
pub(crate) mod hook;
pub(crate) mod import;
pub(crate) mod index;
pub(crate) mod man;
pub(crate) mod recall;
pub(crate) mod review;
pub(crate) mod runs;
pub(crate) mod save;
pub(crate) mod search;
pub(crate) mod status;
pub(crate) mod undo;

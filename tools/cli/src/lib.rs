//! The command line of memfold: `main.rs` only calls [`run`].
//!
//! It is a library so that `memfold-bench` can use the same terminal: options of every command
//! ([`GlobalArgs`]), configuration ([`Settings`]), progress ([`Bars`]), output ([`Printer`],
//! [`Document`]), failures and exit codes. Nothing else should depend on it; programs use
//! `memfold-pipeline`.

mod age;
mod args;
mod commands;
mod document;
mod exit;
mod failure;
mod printer;
mod progress;
mod resources;
mod review;
mod settings;

pub use args::numbers::{above_zero, whole};
pub use args::{ExportArgs, ExportFormat, ExtraColumn, GlobalArgs, StorePlaceArgs};
pub use commands::consolidate::{open_options, open_store};
pub use commands::dedup::open_vectors;
pub use commands::export::export;
pub use commands::outputs::{check as check_outputs, write as write_output};
pub use commands::quick::{index_folder, open as open_quick_check};
pub use commands::{finish, run};
pub use document::Document;
pub use exit::Exit;
pub use failure::Failure;
pub use memfold::machine::clock;
pub use printer::{Printer, table};
pub use progress::Bars;
pub use resources::{MemoryWatch, Stopwatch};
pub use settings::{FlagValue, Settings, pool, scratch_dir};

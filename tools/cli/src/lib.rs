//! The command line of memfold: `main.rs` only calls [`run`].
//!
//! It is a library so that `memfold-bench` can use the same terminal: options of every command
//! ([`GlobalArgs`]), configuration ([`Settings`]), progress ([`Bars`]), output ([`Printer`],
//! [`Document`]), failures and exit codes. Nothing else should depend on it; programs use the
//! package `memfold`.

mod cli;
mod commands;
mod context;
mod run_files;
mod writing;
mod outputs;
mod settings;
mod args;
mod progress;
mod printer;
mod failure;
mod mirrored;

pub use args::{GlobalArgs, StorePlaceArgs, above_zero, whole};
pub use cli::{finish, run};
pub use commands::check::{index_folder, open as open_quick_check};
pub use commands::export::{ExportArgs, ExportFormat, ExtraColumn, export};
pub use context::{open_options, open_store, open_vectors};
pub use failure::{Exit, Failure};
pub use memfold::machine::{Stopwatch, clock};
pub use mirrored::Mirrored;
pub use outputs::{check as check_outputs, write as write_output};
pub use printer::{Document, Printer, table};
pub use progress::{Bars, MemoryWatch};
pub use settings::{FlagValue, Settings, pool, scratch_dir};

//! The command line of memfold: `main.rs` only calls [`run`].
//!
//! It is a library so that `memfold-bench` can use the same terminal: options of every command
//! ([`GlobalArgs`]), configuration ([`Settings`]), progress ([`Bars`]), output ([`Printer`],
//! [`Document`]), failures and exit codes; and so that `memfold-server` does what commands do
//! ([`consolidate`], [`apply_saved`], [`undo_named`]) and answers with the same [`documents`](mod@documents);
//! and so that the wheel brings the command. Programs use the package `memfold`.

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
mod stages;
mod failure;
mod mirrored;

pub use args::{GlobalArgs, LogFormat, StorePlaceArgs, above_zero, threads, whole};
pub use cli::{finish, run};
pub use commands::apply::{ApplyArgs, apply_saved};
pub use commands::check::{index_folder, open as open_quick_check};
pub use commands::consolidate::judge::chain as judge_chain;
pub use commands::consolidate::{
    ConsolidateArgs, Consolidated, JudgeArg, MethodArg, TableArgs, consolidate,
};
pub use commands::export::{ExportArgs, ExportFormat, ExtraColumn, export};
pub use commands::recall::{WORDS_ALONE, candidates};
pub use commands::review::card::named_memories;
pub use commands::runs::find as find_run;
pub use commands::status::{Status, status};
pub use commands::undo::{UndoArgs, undo_named};
pub use context::{Provider, mode_like, open_options, open_store, open_test_set, open_vectors};
pub use failure::{Exit, Failure};
pub use memfold::machine::{Stopwatch, clock};
pub use mirrored::Mirrored;
pub use outputs::{check as check_outputs, write as write_output};
pub use printer::{Document, Printer, is_terminal, table};
pub use progress::{Bars, MemoryWatch, clock_seconds};
pub use settings::{FlagValue, Settings, pool, scratch_dir};
pub use stages::{Stages, watch_stages};
pub use writing::{open_own_tables, open_session, session_failure, session_options};

/// The documents of `--json` that other tools answer with.
pub mod documents {
    pub use crate::commands::apply::ApplyDocument;
    pub use crate::commands::check::{CheckDocument, SaveDocument};
    pub use crate::commands::consolidate::ConsolidateDocument;
    pub use crate::commands::recall::RecallDocument;
    pub use crate::commands::review::flags::{FlagsDocument, SettledDocument};
    pub use crate::commands::runs::plans::{PlansDocument, SavedPlanDocument};
    pub use crate::commands::runs::{RunDocument, RunsDocument};
    pub use crate::commands::search::results::SearchDocument;
    pub use crate::commands::status::StatusDocument;
    pub use crate::commands::undo::UndoDocument;
}

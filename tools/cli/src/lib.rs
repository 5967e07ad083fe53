//! The command line of memfold: `main.rs` only calls [`run`].
//!
//! Commands translate their arguments, call [`memfold::ops`] and show the results, on the terminal
//! that all programs share (`memfold-terminal`). It is a library so that the wheel brings the
//! command, and `memfold-bench` the same options ([`GlobalArgs`]). Programs use the package
//! `memfold`.

mod cli;
mod call;
mod commands;
mod context;
mod writing;
mod outputs;
mod args;
#[cfg(test)]
mod documents;
mod mirrored;

use memfold_terminal::{failure, printer, progress, stages};

pub use args::{GlobalArgs, StorePlaceArgs, above_zero, whole};
pub use cli::run;
pub use context::{open_test_set, open_vectors};
pub use outputs::{check as check_outputs, write as write_output};

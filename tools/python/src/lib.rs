//! The native module of the Python package `memfold`.
//!
//! The package `memfold` beside this crate has the public names: it prepares inputs and gives results their Python form.
//! This module does the work, with the interpreter's lock released, and knows no more of Python than it needs:
//!
//! | module | its parts in Python |
//! |---|---|
//! | `work` | exceptions with hints, Ctrl-C, progress |
//! | `vectors` | numpy arrays, Arrow data and files as a matrix; [`Table`], the type of results |
//! | `dedup` | [`Deduplication`] and [`Index`] |
//! | `tiles` | [`TilePlan`]: the join cut into tasks, for `memfold.ray` |
//! | `texts` | `consolidate_texts`: texts without a store |
//! | `memory` | [`Memory`], [`Plan`] and `compare` |

mod work;
mod vectors;
mod dedup;
mod tiles;
mod texts;
mod memory;

pub use dedup::{Deduplication, Index};
pub use memory::{Memory, Plan};
pub use tiles::TilePlan;
pub use vectors::{ArrowVectors, Table};

/// Runs a command line as the program does, and returns its exit code.
#[pyo3::pyfunction]
fn command(py: pyo3::Python<'_>, words: Vec<std::ffi::OsString>) -> u8 {
    py.detach(|| memfold_cli::run(&words)).into()
}

/// The module `memfold._memfold`.
#[pyo3::pymodule(gil_used = true)]
mod _memfold {
    #[pymodule_export]
    use super::command;
    #[pymodule_export]
    use super::dedup::{Deduplication, Index};
    #[pymodule_export]
    use super::memory::{Memory, Plan, compare};
    #[pymodule_export]
    use super::texts::consolidate_texts;
    #[pymodule_export]
    use super::tiles::TilePlan;
    #[pymodule_export]
    use super::vectors::{ArrowVectors, Table};
}

//! Shared terminal code of memfold's programs: output, progress, stages, failures as exit codes.

pub mod failure;
pub mod printer;
pub mod progress;
pub mod stages;

mod finish;

pub use finish::{LogFormat, Shown, finish, threads, whole};

//! Reports: the findings, plans and effects of a run, for programs (JSON), for people (Markdown), and the
//! few lines a run ends with.
//!
//! A [`Run`] goes in, a [`Report`] comes out; everything else is a view of the report. Texts stand in
//! it as excerpts only: cut, escaped, secrets masked.

mod build;
pub mod log_lines;
mod markdown;
mod metrics;
mod model;
mod screen;
mod write;

#[cfg(test)]
mod tests;

pub use crate::runs::Executed;
pub use build::{AppliedAction, AppliedReport, AppliedRun, Run, run_id};
pub use markdown::markdown;
pub use metrics::{StoreFigures, applied_metrics, metrics};
pub(crate) use model::REPORT_SCHEMA_VERSION;
pub use model::{
    Detected, Incremental, Judged, Loaded, MergeSample, MergedByRisk, MergedSample, Mode,
    PairSample, Piece, PieceKind, Planned, ProtectedRow, ProtectedRows, Recall, RecallKind, Report,
    RowView, Ruling, Samples, ScopeView, Seconds, Sensitivity, Stats, UnknownCategory, word_diff,
};
pub use screen::{Commands, grouped, quoted as shell_word, screen, shell_words};
pub use write::{
    ReportFileError, ReportPaths, Reported, WriteFileError, ensure_report_dir, read_plan,
    state_report_dir, write_metrics, write_plan, write_report, write_report_in,
};

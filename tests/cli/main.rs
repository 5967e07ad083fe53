//! The command line, as its users meet it: the real binary, its streams, its exit codes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;
mod schemas;

mod help;
mod consolidating;
mod doctor;
mod usage_errors;
mod outputs;
mod embedding;
mod trust;
mod texts;
mod deduping;
mod tiling;
mod importing;
mod judging;
mod judged_texts;
mod judging_by_llama;
mod upkeep;
mod torture;
mod reviewing;
mod auditing;
mod overlapping;
mod hostile_text;
mod searching;
mod recalling;
mod incremental;
mod other_stores;
mod sqlite_tables;
mod killed_stores;
mod hooks;
mod saving;
mod lifecycle;
mod mirroring;
mod markdown;
mod documents;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_memfold");

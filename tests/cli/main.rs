//! The command line, as its users meet it: the real binary, its streams, its exit codes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;
mod schemas;

mod help;
mod consolidating;
mod doctor;
mod traceless;
mod open_errors;
mod usage_errors;
mod writing;
mod outputs;
mod embedding;
mod trust;
mod vectorless;
mod texts;
mod deduping;
mod tiling;
mod dedup_refusals;
mod graph_joining;
mod streams;
mod converting;
mod importing;
mod judging;
mod judged_texts;
mod judging_by_llama;
mod private_files;
mod proposing;
mod damaged_files;
mod other_commands;
mod history;
mod upkeep;
mod busy;
mod torture;
mod model;
mod reviewing;
mod auditing;
mod printed;
mod hostile_text;
mod searching;
mod searching_files;
mod recalling;
mod incremental;
mod other_stores;
mod hooks;
mod saving;
mod lifecycle;
mod mirroring;
mod markdown;
mod documents;

/// What is tested.
const PROGRAM: &str = env!("CARGO_BIN_EXE_memfold");

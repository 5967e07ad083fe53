//! Functions for a fuzzer, from bytes to nothing, which may refuse them but not panic, hang or fill
//! the memory.
//!
//! The bytes say how an intact file is changed (`Changes`), mostly with its checksums corrected, so
//! that the code behind them is reached; some are the file itself. If the changed file opens, it is
//! used as a command would.
//!
//! The folder `fuzz` hands these functions to libFuzzer; the suite `fuzzed` runs each over a fixed stream of inputs.

mod changes;
mod files;
mod sections;
mod index;
mod manifest;
mod lookups;
mod columns;
mod corpora;
mod configuration;
mod plans;
mod guard;

use changes::Changes;

/// A function for fuzzers and its name.
#[derive(Debug, Clone, Copy)]
pub struct FuzzTarget {
    /// The name, which is also that of its file in `fuzz/fuzz_targets`.
    pub name: &'static str,
    /// Takes any bytes.
    pub run: fn(&[u8]),
}

const fn target(name: &'static str, run: fn(&[u8])) -> FuzzTarget {
    FuzzTarget { name, run }
}

/// All of them.
pub const TARGETS: [FuzzTarget; 12] = [
    target("index", index::scanned),
    target("graph", index::walked),
    target("manifest", manifest::run),
    target("lookups", lookups::run),
    target("columns", columns::run),
    target("npy", corpora::npy),
    target("arrow", corpora::arrow),
    target("parquet", corpora::parquet),
    target("configuration", configuration::run),
    target("plan_file", plans::file),
    target("saved_plan", plans::saved),
    target("guard", guard::run),
];

/// Returns the target of a name.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn fuzz_target(name: &str) -> FuzzTarget {
    let found = TARGETS.into_iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("no target {name}"))
}

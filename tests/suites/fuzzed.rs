//! Any content of a file is refused or read: no panic, and no more memory than its length warrants.
//!
//! Every target of fuzzers takes a fixed stream of inputs; with `fuzz/`, libFuzzer searches others.

use std::alloc::System;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};

use memfold_datasets::is_catching_panics;
use memfold_tests::Draws;
use memfold_tests::fuzz::{FuzzTarget, TARGETS};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const INPUT_BYTES_MAX: u64 = 96;

/// Most that one input may make a target allocate, all in all: files here have a megabyte or less.
const ALLOCATED_BYTES_MAX: usize = 64 << 20;

/// Number of inputs for each target, for a long run by hand.
const INPUTS_VARIABLE: &str = "MEMFOLD_FUZZ_INPUTS";

/// Panics that would have been reported on stderr.
static REPORTED: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of inputs for a target: targets that take a millisecond for each get fewer.
fn inputs(target: &FuzzTarget) -> u64 {
    let asked_for = std::env::var(INPUTS_VARIABLE).ok().and_then(|inputs| inputs.parse().ok());
    asked_for.unwrap_or(match target.name {
        "graph" => 300,
        "guard" => 20_000,
        "lookups" | "saved_plan" | "plan_file" => 1_000,
        _ => 3_000,
    })
}

fn input(seed: u64) -> Vec<u8> {
    let mut draws = Draws::new(seed);
    (0..draws.below(INPUT_BYTES_MAX)).map(|_| draws.below(256) as u8).collect()
}

/// One test, since tests of one process share its allocator.
///
/// A damaged Parquet file used to end in a proper error, and in a Rust panic message before it,
/// even with `-q`: panics of decoders are caught, and the hook of a program can distinguish them
/// from defects.
#[test]
fn damaged_files_are_refused_or_read() {
    panic::set_hook(Box::new(|_| {
        REPORTED.fetch_add(usize::from(!is_catching_panics()), Ordering::Relaxed);
    }));
    let ended = TARGETS.iter().try_for_each(take_inputs);
    // The hook would also silence the assertion's message.
    drop(panic::take_hook());
    assert_eq!(ended, Ok(()));
}

fn take_inputs(target: &FuzzTarget) -> Result<(), String> {
    let run = |input: &[u8]| panic::catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    // Memory that targets keep between inputs is not counted.
    run(&[]).map_err(|_| format!("{} panicked on an empty input", target.name))?;
    for seed in 0..inputs(target) {
        let input = input(seed);
        let region = Region::new(ALLOCATOR);
        let ended = run(&input);
        let allocated = region.change().bytes_allocated;
        let found = match REPORTED.load(Ordering::Relaxed) {
            _ if ended.is_err() => "panicked".to_owned(),
            0 if allocated <= ALLOCATED_BYTES_MAX => continue,
            0 => format!("allocated {allocated} bytes"),
            _ => "reported a panic that it caught".to_owned(),
        };
        return Err(format!("{} {found} at seed {seed}: {input:?}", target.name));
    }
    Ok(())
}

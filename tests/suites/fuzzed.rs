//! Whatever is in a file, it is refused or read: no panic, and no more memory than its length warrants.
//!
//! Every target of fuzzers takes a fixed stream of inputs; `fuzz/` has libFuzzer look for others.

use std::alloc::System;
use std::panic::{self, AssertUnwindSafe};

use memfold_tests::Draws;
use memfold_tests::fuzz::{FuzzTarget, TARGETS};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const INPUT_BYTES_MAX: u64 = 96;

/// Most that one input may make a target allocate, all in all: files here have a megabyte or less.
const ALLOCATED_BYTES_MAX: usize = 64 << 20;

/// Returns how many inputs a target takes: those of which one takes a millisecond get fewer.
fn inputs(target: &FuzzTarget) -> u64 {
    match target.name {
        "graph" => 300,
        "guard" => 20_000,
        "lookups" | "saved_plan" | "plan_file" => 1_000,
        _ => 3_000,
    }
}

fn input(seed: u64) -> Vec<u8> {
    let mut draws = Draws::new(seed);
    (0..draws.below(INPUT_BYTES_MAX)).map(|_| draws.below(256) as u8).collect()
}

/// One test, since tests of one process share its allocator.
#[test]
fn damaged_files_are_refused_or_read() {
    for target in TARGETS {
        // What targets keep between inputs is not counted.
        quietly(|| (target.run)(&[])).expect("an empty input changes nothing");
        for seed in 0..inputs(&target) {
            let input = input(seed);
            let region = Region::new(ALLOCATOR);
            let run = quietly(|| (target.run)(&input));
            let allocated = region.change().bytes_allocated;
            assert!(run.is_ok(), "{} panicked at seed {seed}: {input:?}", target.name);
            assert!(
                allocated <= ALLOCATED_BYTES_MAX,
                "{} allocated {allocated} bytes at seed {seed}: {input:?}",
                target.name
            );
        }
    }
}

/// Runs without a word about panics: those of decoders are caught further down, and writing a backtrace takes more memory than
/// any file.
fn quietly(run: impl FnOnce()) -> std::thread::Result<()> {
    let told = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let result = panic::catch_unwind(AssertUnwindSafe(run));
    panic::set_hook(told);
    result
}

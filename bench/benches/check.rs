//! One check of a memory against a store, in process: alone, and while another thread saves.
//!
//! Stores and checked texts are synthetic: one in four says nearly what a memory of the store says.
//! The index is a scan, so that nothing is missed; a check that runs out of time would find less,
//! and ends the benchmark. Criterion keeps the distribution of the times; their percentiles, whole
//! processes and several writers are for `memfold-bench check`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main};
use memfold::quick_check::{Incoming, QuickCheck};
use memfold_bench::is_test_run;
use memfold_bench::workload::{DIM, SyntheticStore, Workbench};
use memfold_core::time::Instant;

/// Memories of each store; a test run takes the first ones.
const ROW_COUNTS: [u32; 3] = [1_000, 10_000, 100_000];
const TEST_ROW_COUNTS: usize = 2;

/// Memories that are checked in turn.
const SAMPLE: usize = 256;

/// Time between two saves of the writer.
const PAUSE: Duration = Duration::from_millis(50);

fn check(criterion: &mut Criterion) {
    let workbench = Workbench::start();
    let mut group = criterion.benchmark_group("check");
    let sizes = if is_test_run() { TEST_ROW_COUNTS } else { ROW_COUNTS.len() };
    for &row_count in &ROW_COUNTS[..sizes] {
        let store = SyntheticStore::build(row_count);
        workbench.build_index(&store);
        let (checker, now) = (workbench.quick_check(&store), workbench.now());
        let sample = checker.sample(SAMPLE, now).expect("the store can be read");
        let name = |what| BenchmarkId::new(what, format!("synthetic-{row_count}x{DIM}"));
        measure(&mut group, name("alone"), &checker, &sample, now);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let writer = workbench.quick_check(&store);
            scope.spawn(|| save_until(&done, writer, &sample, now));
            measure(&mut group, name("beside a writer"), &checker, &sample, now);
            done.store(true, Ordering::Relaxed);
        });
    }
    group.finish();
}

fn measure(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: BenchmarkId,
    checker: &QuickCheck,
    sample: &[Incoming],
    now: Instant,
) {
    let mut incoming = sample.iter().cycle();
    group.bench_function(name, |bencher| {
        bencher.iter(|| {
            let check = checker
                .check(incoming.next().expect("a sample is not empty"), now)
                .expect("a sample is valid");
            assert!(check.checked, "a check ran out of time");
            check
        });
    });
}

/// Saves one memory after the other.
fn save_until(done: &AtomicBool, writer: QuickCheck, sample: &[Incoming], now: Instant) {
    for (at, incoming) in sample.iter().cycle().enumerate() {
        if done.load(Ordering::Relaxed) {
            return;
        }
        let text = format!("{} {at}", incoming.text.as_deref().unwrap_or_default());
        let incoming = Incoming { text: Some(text), ..incoming.clone() };
        writer.save(&incoming, now).expect("the store can be written");
        thread::sleep(PAUSE);
    }
}

criterion_group!(benches, check);
criterion_main!(benches);

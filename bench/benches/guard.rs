//! The fact guard: microseconds per pair of texts of about 100 characters, on one thread.
//!
//! `read-and-judge` is the cost of a pair of new texts, `judge` the cost when both have been read
//! before, as in a run over a store. The pairs are written for this benchmark; each kind takes
//! another way through the guard.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use memfold_core::policy::Policy;
use memfold_guard::{Guard, Reading};

/// Pairs by their relation: the older and the newer text.
const PAIRS: [(&str, &str, &str); 4] = [
    (
        "number",
        "The nightly export of the billing store runs at 02:30 and keeps 14 copies on the second disk in Oslo.",
        "The nightly export of the billing store runs at 02:30 and keeps 30 copies on the second disk in Oslo.",
    ),
    (
        "paraphrase",
        "Marta asked us to send the weekly report before noon, because her team plans the stock on Mondays.",
        "Because her team plans the stock on Mondays, Marta asked us to send the weekly report before noon.",
    ),
    (
        "negated",
        "The gateway retries a failed upload three times before it gives up and writes a line to the log.",
        "The gateway never retries a failed upload and writes no line to the log before it gives up on it.",
    ),
    (
        "unrelated",
        "Basil and tomatoes share the bed behind the shed; both want water early, before the sun gets there.",
        "The parser of version 2.4 accepts trailing commas, but only where --lenient is set in the build file.",
    ),
];

fn guard(criterion: &mut Criterion) {
    let guard = Guard::new(&Policy::builtin().guard).expect("the built-in lexicon is sound");
    let mut group = criterion.benchmark_group("guard");
    group.throughput(Throughput::Elements(1));
    for (kind, older, newer) in PAIRS {
        group.bench_function(BenchmarkId::new("read-and-judge", kind), |bencher| {
            bencher.iter(|| guard.judge(&guard.read(older), &guard.read(newer)));
        });
        let readings: [Reading; 2] = [older, newer].map(|text| guard.read(text));
        group.bench_function(BenchmarkId::new("judge", kind), |bencher| {
            bencher.iter(|| guard.judge(&readings[0], &readings[1]));
        });
    }
    group.finish();
}

criterion_group!(benches, guard);
criterion_main!(benches);

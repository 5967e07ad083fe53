//! After some queries, lookups allocate nothing: counted by the allocator of this process.

use std::alloc::System;

use memfold_index::flat::ScanMemory;
use memfold_index::graph::{Graph, GraphOptions, SearchMemory, Searcher};
use memfold_index::{FlatIndex, FlatScan, NoProgress, Pool, Row, VectorMatrix};
use memfold_simd::{Kernels, Similarity};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, Stats, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const DIM: usize = 24;
const ROWS: u32 = 6_000;

/// Rows around 60 centres, so that ranges hold some.
fn values() -> Vec<f32> {
    let value = |seed: u32| {
        let mixed = u64::from(seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 40) as f32 / 16_777_216.0
            - 0.5
    };
    let row = |row: u32| {
        (0..DIM as u32).map(move |at| {
            2.0 * value((row % 60) * 64 + at) + value(1_000_000 + row * DIM as u32 + at)
        })
    };
    (0..ROWS).flat_map(row).collect()
}

/// Counts the allocations of a second pass over the same queries; a first one is free.
fn allocations(
    vectors: &VectorMatrix<'_>,
    mut look_up: impl FnMut(&[f32]) -> usize,
) -> (Stats, usize) {
    let mut pass = || {
        let queries = (0..ROWS).step_by(40).map(|row| vectors.vector(Row(row)));
        queries.map(&mut look_up).sum()
    };
    let _first: usize = pass();
    let region = Region::new(ALLOCATOR);
    let found = pass();
    (region.change(), found)
}

/// One test, since tests of one process share its allocator.
#[test]
fn lookups_allocate_nothing() {
    let values = values();
    let vectors = VectorMatrix::from_slice(&values, DIM).unwrap();
    let (pool, kernels) = (Pool::new(None).unwrap(), Kernels::active());
    let graph =
        Graph::build(&vectors, GraphOptions::default(), &pool, kernels, &NoProgress).unwrap();
    let view = graph.view();
    assert!(view.node_count() > 5_000, "enough to be walked, not scanned");
    let flat = FlatIndex::build(&vectors, &pool, kernels).unwrap();
    let mut searcher = Searcher::new(&view, &vectors, kernels).unwrap();
    let mut scan = FlatScan::new(flat.view(), &vectors, kernels).unwrap();
    let threshold = Similarity::new(0.7).unwrap();
    let (mut search_memory, mut scan_memory) = (SearchMemory::default(), ScanMemory::default());
    let of_pass = [
        // As a lookup does it: everything is opened again, and only memory is kept.
        allocations(&vectors, |query| {
            let (memory, view) = (std::mem::take(&mut search_memory), graph.view());
            let searcher = Searcher::new(&view, &vectors, kernels).unwrap();
            let mut searcher = searcher.with_memory(memory);
            let found = searcher.k_nearest(query, 10, 64).unwrap().len();
            search_memory = searcher.into_memory();
            found
        }),
        allocations(&vectors, |query| {
            let memory = std::mem::take(&mut scan_memory);
            let scan = FlatScan::new(flat.view(), &vectors, kernels).unwrap();
            let mut scan = scan.with_memory(memory);
            let found = scan.k_nearest(query, 10).unwrap().len();
            scan_memory = scan.into_memory();
            found
        }),
        allocations(&vectors, |query| searcher.k_nearest(query, 10, 64).unwrap().len()),
        allocations(&vectors, |query| searcher.range(query, threshold, 64).unwrap().len()),
        allocations(&vectors, |query| scan.k_nearest(query, 10).unwrap().len()),
        allocations(&vectors, |query| scan.range(query, threshold).unwrap().len()),
    ];
    for (at, (stats, found)) in of_pass.iter().enumerate() {
        assert_eq!((stats.allocations, stats.reallocations), (0, 0), "lookup {at}: {stats:?}");
        assert!(*found >= 1_000, "lookup {at}: {found} rows found");
    }
    let (counted, _) = allocations(&vectors, |query| query.to_vec().len());
    assert_eq!(counted.allocations, 150, "what allocates is counted");
}

//! Promises of the graph: the same bytes, near answers, nothing lost among duplicates.

use memfold_simd::{Kernels, Level, Similarity};
use twox_hash::XxHash3_64;

use super::*;
use crate::testing::{StopAfter, matrix, near, pool};
use crate::{Neighbor, NoProgress, Row, Scan, VectorError, VectorMatrix};

/// splitmix64.
fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x1234_5678_9abc_def1);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns a value around 0: the sum of four equally distributed ones.
fn noise(seed: u64) -> f32 {
    (0..4).map(|part| (mixed(seed * 4 + part) >> 40) as f32 / 8_388_608.0 - 1.0).sum()
}

/// Rows around centres that are themselves around some: as embeddings of texts lie.
pub(super) fn clustered(row_count: usize, dim: usize, seed: u64) -> Vec<f32> {
    let value = |row: u64, at: u64| {
        let (near, far) = (mixed(seed ^ row) % 97, mixed(seed ^ row) % 7);
        let at_of = |group: u64, kind: u64| noise(seed * 31 + kind + (group * 70_000 + at) * 3);
        at_of(far, 0) + 0.8 * at_of(near, 1) + 0.5 * at_of(row + 1_000, 2)
    };
    (0..row_count as u64).flat_map(|row| (0..dim as u64).map(move |at| value(row, at))).collect()
}

fn built(matrix: &VectorMatrix<'_>) -> Graph {
    let options = GraphOptions::default();
    Graph::build(matrix, options, &pool(2), Kernels::active(), &NoProgress).unwrap()
}

fn rows(found: &[Neighbor]) -> Vec<u32> {
    found.iter().map(|neighbor| neighbor.row.0).collect()
}

/// Checks that every row finds itself, and its whole group by range.
fn check_that_nothing_is_lost(matrix: &VectorMatrix<'_>, groups: &[Vec<u32>]) {
    let graph = built(matrix);
    let view = graph.view();
    let report =
        verify::check(&view, matrix, usize::MAX, &pool(2), Kernels::active(), &NoProgress).unwrap();
    assert_eq!((report.nodes, report.found), (report.reachable, report.looked_up));
    let mut searcher = Searcher::new(&view, matrix, Kernels::active()).unwrap();
    for group in groups {
        let query = matrix.vector(Row(group[0]));
        let best = searcher.k_nearest(query, 1, 64).unwrap();
        assert_eq!(rows(best), [group[0]], "the smallest of equal rows");
        let all = searcher.range(query, Similarity::ONE, 64).unwrap();
        assert_eq!(&rows(all), group);
    }
}

fn digest(graph: &Graph) -> u64 {
    let sections = graph.sections();
    let floats = [sections.mean, sections.rotation, &[sections.step, sections.lead_share]].concat();
    let mut bytes: Vec<u8> = floats.iter().flat_map(|value| value.to_le_bytes()).collect();
    bytes.extend(sections.codes.iter().map(|&code| code.cast_unsigned()));
    bytes.extend([sections.links, sections.layer_links].concat());
    let numbers =
        [sections.layer_sizes, sections.layer_nodes, sections.member_starts, sections.member_rows];
    bytes.extend(numbers.concat().iter().flat_map(|number| number.to_le_bytes()));
    XxHash3_64::oneshot(&bytes)
}

#[test]
fn bytes_are_the_same_for_all_threads_and_levels() {
    for (dim, expected) in [(20, 0xa55210b5628b8449), (90, 0xdd322aefaadc91b7)] {
        let mut values = clustered(6_000, dim, 1);
        values.extend_from_within(..400 * dim);
        let matrix = matrix(&values, dim);
        let options = GraphOptions { degree: 8, candidates: 32, probes: 4 };
        for level in Level::available() {
            for threads in [1, 2, 8] {
                let kernels = Kernels::at(level).unwrap();
                let graph =
                    Graph::build(&matrix, options, &pool(threads), kernels, &NoProgress).unwrap();
                assert_eq!(graph.sections().rotation.is_empty(), dim < 64);
                let found = digest(&graph);
                assert_eq!(found, expected, "{found:#x}: dim {dim}, {level}, {threads} threads");
            }
        }
    }
}

#[test]
fn codes_alone_are_the_same_bytes_too() {
    let values = clustered(500, 33, 9);
    assert_eq!(digest(&built(&matrix(&values, 33))), 0xb7076f806f2be245);
}

#[test]
fn the_nearest_are_found() {
    let (values, queries) =
        (clustered(20_000, 48, 2), clustered(20_200, 48, 2).split_off(20_000 * 48));
    let (matrix, queries) = (matrix(&values, 48), matrix(&queries, 48));
    let graph = built(&matrix);
    let view = graph.view();
    assert!(view.node_count() > 19_000 && graph.sections().layer_sizes.len() > 1);
    let (pool, kernels) = (pool(2), Kernels::active());
    let scan = Scan::new(&matrix, &pool, kernels).unwrap();
    let mut searcher = Searcher::new(&view, &matrix, kernels).unwrap();
    let mut hits = 0;
    for query in queries.rows().map(|row| queries.vector(row)) {
        let expected = scan.k_nearest(query, 10).unwrap();
        let found = searcher.k_nearest(query, 10, 128).unwrap();
        assert!(found.is_sorted() && found.len() == 10);
        hits += found.iter().filter(|neighbor| expected.contains(neighbor)).count();
    }
    assert!(hits >= 1_980, "{hits} of 2,000");
}

#[test]
fn a_range_is_found_beyond_ef_search() {
    // 3,000 rows within one range, which an `ef_search` of 32 cannot hold.
    let mut values = clustered(5_000, 32, 3);
    let center: Vec<f32> = (0..32).map(|at| 12.0 * noise(at)).collect();
    for row in 0..3_000_u64 {
        values
            .extend(center.iter().zip(0..).map(|(x, at)| x + 0.3 * noise(900_000 + row * 32 + at)));
    }
    let matrix = matrix(&values, 32);
    let graph = built(&matrix);
    let (view, pool, kernels) = (graph.view(), pool(2), Kernels::active());
    let scan = Scan::new(&matrix, &pool, kernels).unwrap();
    let mut searcher = Searcher::new(&view, &matrix, kernels).unwrap();
    let threshold = near(0.99);
    let (mut found, mut expected) = (0, 0);
    for row in (5_000..8_000).step_by(100) {
        let query = matrix.vector(Row(row));
        let all = scan.range(query, threshold).unwrap();
        let ranged = searcher.range(query, threshold, 32).unwrap();
        assert!(ranged.is_sorted() && ranged.iter().all(|neighbor| all.contains(neighbor)));
        found += ranged.len();
        expected += all.len();
    }
    assert!(expected > 30_000 && found * 1_000 >= expected * 999, "{found} of {expected}");
}

#[test]
fn groups_of_equal_vectors_are_found_whole() {
    let dim = 16;
    let mut values = clustered(7_000, dim, 5);
    let mut groups = Vec::new();
    for (count, of) in [(1, 10), (49, 20), (1_061, 30), (4_999, 40)] {
        let first = (values.len() / dim) as u32;
        let vector = values[of * dim..(of + 1) * dim].to_vec();
        groups.push(std::iter::once(of as u32).chain(first..first + count).collect());
        values.extend(vector.iter().cycle().take(dim * count as usize));
    }
    // Every fourth row once more.
    for row in (1_000..7_000).step_by(4) {
        groups.push(vec![row as u32, (values.len() / dim) as u32]);
        values.extend_from_within(row * dim..(row + 1) * dim);
    }
    check_that_nothing_is_lost(&matrix(&values, dim), &groups);
}

#[test]
fn near_duplicates_do_not_swallow_what_comes_after() {
    let dim = 32;
    let mut values = Vec::new();
    // Ten clumps of 800 rows that differ in the second digit, then rows far from everything.
    for row in 0..8_000_u64 {
        let clump = row % 10;
        values.extend(
            (0..dim as u64)
                .map(|at| noise(clump * 1_000 + at) + 0.02 * noise(70_000 + row * 64 + at)),
        );
    }
    for row in 0..500_u64 {
        values.extend((0..dim as u64).map(|at| 3.0 * noise(5_000_000 + row * 64 + at)));
    }
    let groups: Vec<Vec<u32>> = (0..8_500).step_by(17).map(|row| vec![row]).collect();
    check_that_nothing_is_lost(&matrix(&values, dim), &groups);
}

#[test]
fn scaled_copies_share_a_node_and_are_all_found() {
    let base = clustered(6_000, 8, 6);
    let mut values = base.clone();
    values.extend(base.iter().map(|value| value * 3.0));
    let matrix = matrix(&values, 8);
    let graph = built(&matrix);
    let view = graph.view();
    assert!(view.node_count() <= 6_000 && view.row_count() == 12_000);
    let mut searcher = Searcher::new(&view, &matrix, Kernels::active()).unwrap();
    for row in (0..6_000).step_by(7) {
        let found = searcher.k_nearest(matrix.vector(Row(row)), 2, 32).unwrap();
        let mut found = rows(found);
        found.sort_unstable();
        assert_eq!(found, [row, row + 6_000]);
    }
}

#[test]
fn few_rows_and_degenerate_ones_are_answered() {
    let kernels = Kernels::active();
    for dim in [1, 3, 384, 768, 4_096] {
        let empty = matrix(&[], dim);
        let graph = built(&empty);
        let view = graph.view();
        let query = vec![1.0; dim];
        let mut searcher = Searcher::new(&view, &empty, kernels).unwrap();
        assert!(searcher.k_nearest(&query, 3, 8).unwrap().is_empty());
        assert!(searcher.range(&query, Similarity::ONE, 8).unwrap().is_empty());
        verify::check(&view, &empty, 10, &pool(1), kernels, &NoProgress).unwrap();
        // One row, two, and many equal ones.
        for count in [1_usize, 2, 3_000_000 / 4_096] {
            let equal = vec![0.5; count * dim];
            check_that_nothing_is_lost(&matrix(&equal, dim), &[(0..count as u32).collect()]);
        }
        let opposite = [vec![1.0; dim], vec![-1.0; dim]].concat();
        check_that_nothing_is_lost(&matrix(&opposite, dim), &[vec![0], vec![1]]);
        // Orthogonal rows: all distances are equal.
        let mut axes = vec![0.0; dim * dim.min(600)];
        axes.iter_mut().step_by(dim + 1).for_each(|value| *value = 1.0);
        let groups: Vec<Vec<u32>> = (0..dim.min(600) as u32).map(|row| vec![row]).collect();
        check_that_nothing_is_lost(&matrix(&axes, dim), &groups);
    }
}

#[test]
fn what_cannot_be_searched_is_refused() {
    let kernels = Kernels::active();
    let build = |values: &[f32], dim, options| {
        Graph::build(&matrix(values, dim), options, &pool(1), kernels, &NoProgress).unwrap_err()
    };
    let options = GraphOptions::default();
    let error = build(&[1.0, 0.0, f32::NAN, 0.0], 2, options);
    assert!(matches!(error, BuildGraphError::InvalidVector { row: 1, .. }));
    let error = build(&[0.0; 2], 2, options);
    assert!(matches!(error, BuildGraphError::InvalidVector { row: 0, .. }));
    assert_eq!(build(&[1.0], 1, GraphOptions { degree: 1, ..options }), BuildGraphError::Options);
    assert!(matches!(build(&[1.0; 40_000], 40_000, options), BuildGraphError::Coding(_)));
    let values = [1.0, 0.0, 0.0, 1.0];
    let matrix = matrix(&values, 2);
    let graph = built(&matrix);
    let view = graph.view();
    let mut searcher = Searcher::new(&view, &matrix, kernels).unwrap();
    let expected = VectorError::Dimension { expected: 2, found: 3 };
    assert_eq!(searcher.k_nearest(&[1.0; 3], 1, 8).unwrap_err(), expected);
    let error = searcher.k_nearest(&[0.0; 2], 1, 8).unwrap_err();
    assert_eq!(error, VectorError::InvalidQuery { query: 0 });
    let error = searcher.k_nearest(&[f32::INFINITY, 0.0], 1, 8).unwrap_err();
    assert_eq!(error, VectorError::InvalidQuery { query: 0 });
    let others = crate::testing::matrix(&[1.0; 3], 3);
    assert!(Searcher::new(&view, &others, kernels).is_err());
}

#[test]
fn building_stops_when_asked() {
    let values = clustered(2_000, 8, 7);
    let options = GraphOptions::default();
    let error = Graph::build(
        &matrix(&values, 8),
        options,
        &pool(2),
        Kernels::active(),
        &StopAfter::default(),
    )
    .unwrap_err();
    assert_eq!(error, BuildGraphError::Cancelled);
}

#[test]
fn a_search_goes_on_where_nothing_is_much_nearer_than_the_rest() {
    // Without any clusters: the tenth nearest is about as far as the hundredth.
    let value = |at: u64| noise(at + 77);
    let values: Vec<f32> = (0..10_000 * 32).map(value).collect();
    let queries: Vec<f32> = (10_000 * 32..10_100 * 32).map(value).collect();
    let (matrix, queries) = (matrix(&values, 32), matrix(&queries, 32));
    let graph = built(&matrix);
    let view = graph.view();
    let mut searcher = Searcher::new(&view, &matrix, Kernels::active()).unwrap();
    let pool = pool(2);
    let scan = Scan::new(&matrix, &pool, Kernels::active()).unwrap();
    let mut right = 0;
    for query in queries.rows().map(|row| queries.vector(row)) {
        let truth = rows(&scan.k_nearest(query, 10).unwrap());
        let found = searcher.k_nearest(query, 10, 24).unwrap();
        right += rows(found).iter().filter(|row| truth.contains(row)).count();
    }
    // 911 without that.
    assert!(right >= 930, "{right} of 1,000");
}

#[test]
fn links_come_back_in_three_bytes_and_in_four() {
    for (positions, width) in [(5, 3), (NARROW_POSITIONS - 1, 3), (NARROW_POSITIONS, 4)] {
        assert_eq!(link_bytes(positions), width);
        let last = positions as u32 - 1;
        let mut bytes = vec![u8::MAX; 3 * width];
        for (at, link) in [last, 0, 4].into_iter().enumerate() {
            bytes[at * width..][..width].copy_from_slice(&link.to_le_bytes()[..width]);
        }
        let links = Links::new(&bytes, positions, 3);
        assert_eq!(links.of(0).collect::<Vec<_>>(), [last, 0, 4]);
        assert_eq!(links.len(), 1);
    }
}

#[test]
fn lists_end_where_they_are_not_full() {
    let mut table = LinkTable::new(3, 2, &[&[1, 2][..], &[0], &[]]);
    let of = |table: &LinkTable, position| table.view().of(position).collect::<Vec<_>>();
    assert_eq!([of(&table, 0), of(&table, 1), of(&table, 2)], [vec![1, 2], vec![0], vec![]]);
    let parts = [LinkTable::new(3, 2, &[[1, 2]]), LinkTable::new(3, 2, &[&[0][..], &[]])];
    assert_eq!(LinkTable::joined(3, 2, &parts).as_bytes(), table.as_bytes());
    table.set(2, &[1]);
    table.set(0, &[2, 1, 0]);
    assert_eq!([of(&table, 0), of(&table, 1), of(&table, 2)], [vec![2, 1], vec![0], vec![1]]);
    assert_eq!(table.as_bytes()[6..12], [0, 0, 0, 255, 255, 255]);
}

#[test]
fn components_are_what_links_join() {
    let firsts =
        |lists: &[&[u32]]| build::first_nodes(LinkTable::new(lists.len(), 2, lists).view());
    assert_eq!(firsts(&[&[1], &[0], &[3], &[], &[3]]), [0, 2]);
    assert!(firsts(&[&[1, 2], &[0], &[]]).is_empty(), "one direction is enough");
    assert!(firsts(&[]).is_empty());
    assert_eq!(firsts(&[&[], &[]]), [0, 1]);
}

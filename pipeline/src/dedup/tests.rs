//! Clusters, counts and digests against their definitions, on rows with bit-equal groups.

use std::collections::{BTreeMap, BTreeSet};

use memfold_index::{
    JoinOptions, NoProgress, Pair, PairStream, Pool, Progress, Row, VectorMatrix, join_pairs,
};
use memfold_simd::Similarity;
use proptest::prelude::*;

use super::*;

const DIM: usize = 3;

/// Rows on a small grid: many are bit-equal, many are near.
fn grid(codes: &[u8]) -> Vec<f32> {
    let values = codes.iter().flat_map(|code| {
        let digits = [code % 4, code / 4 % 4, code / 16];
        digits.map(|digit| 1.0 + f32::from(digit))
    });
    values.collect()
}

/// A join of rows on the grid, and its inputs.
struct Joined {
    values: Vec<f32>,
    pool: Pool,
}

impl Joined {
    fn of(values: Vec<f32>) -> Self {
        Self { values, pool: Pool::new(None).unwrap() }
    }

    fn matrix(&self) -> VectorMatrix<'_> {
        VectorMatrix::from_slice(&self.values, DIM).unwrap()
    }

    fn options(&self) -> JoinOptions<'_> {
        JoinOptions::new(&self.pool)
    }

    fn pairs(&self, threshold: f64) -> PairStream {
        let threshold = Similarity::new(threshold).unwrap();
        join_pairs(&self.matrix(), threshold, &self.options()).unwrap()
    }

    fn similarity(&self, a: Row, b: Row) -> Similarity {
        let matrix = self.matrix();
        memfold_simd::canonical::similarity(matrix.vector(a), matrix.vector(b)).unwrap()
    }

    /// Every pair of rows, judged one by one.
    fn all_pairs(&self, threshold: f64) -> Vec<Pair> {
        let rows: Vec<Row> = self.matrix().rows().collect();
        let mut pairs = Vec::new();
        for (at, &left) in rows.iter().enumerate() {
            for &right in &rows[at + 1..] {
                let similarity = self.similarity(left, right);
                if similarity.get() >= threshold {
                    pairs.push(Pair { left, right, similarity });
                }
            }
        }
        pairs
    }

    fn dedup(&self, keep: &Keep, linkage: ClusterLinkage, thresholds: &[f64]) -> Vec<Clustering> {
        let lowest = thresholds.iter().copied().fold(1.0, f64::min);
        let request = DedupRequest {
            matrix: &self.matrix(),
            ordinal: &|row| u64::from(row.0) * 10,
            keep,
            linkage,
            thresholds: &thresholds
                .iter()
                .map(|&t| Similarity::new(t).unwrap())
                .collect::<Vec<_>>(),
            options: &self.options(),
        };
        dedup(&self.pairs(lowest), &request).unwrap()
    }

    /// The clusters of two or more by the definition: rows in `order`, each into the first cluster that it is near throughout.
    fn greedy(&self, order: &[Row], threshold: f64) -> BTreeSet<Vec<Row>> {
        let mut clusters: Vec<Vec<Row>> = Vec::new();
        for &row in order {
            let is_near = |&other: &Row| self.similarity(row, other).get() >= threshold;
            match clusters.iter_mut().find(|cluster| cluster.iter().all(is_near)) {
                Some(cluster) => cluster.push(row),
                None => clusters.push(vec![row]),
            }
        }
        clusters.retain(|cluster| cluster.len() > 1);
        // The survivor first, the others ascending.
        clusters.iter_mut().for_each(|cluster| cluster[1..].sort_unstable());
        clusters.into_iter().collect()
    }
}

/// The survivor first, the others ascending.
fn clusters(clustering: &Clustering) -> BTreeSet<Vec<Row>> {
    let named = clustering.clusters().map(|cluster| {
        let survivor = cluster[0].survivor;
        let others = cluster.iter().map(|member| member.row).filter(|&row| row != survivor);
        std::iter::once(survivor).chain(others).collect()
    });
    named.collect()
}

fn codes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0_u8..64, 0..60)
}

fn codes_and_keys() -> impl Strategy<Value = (Vec<u8>, Vec<u32>)> {
    codes().prop_flat_map(|codes| {
        let keys = prop::collection::vec(0_u32..20, codes.len());
        (Just(codes), keys)
    })
}

const THRESHOLDS: [f64; 3] = [0.9, 0.96, 0.99];

proptest! {
    #[test]
    fn clusters_equal_the_definition_in_any_order_of_keeping((codes, keys) in codes_and_keys()) {
        let joined = Joined::of(grid(&codes));
        let mut order: Vec<Row> = joined.matrix().rows().collect();
        order.sort_by_key(|row| (std::cmp::Reverse(keys[row.index()]), *row));
        let keep = Keep::Best(KeepOrder::largest_first(&keys));
        for clustering in joined.dedup(&keep, ClusterLinkage::GreedyComplete, &THRESHOLDS) {
            let threshold = clustering.threshold.get();
            prop_assert_eq!(clusters(&clustering), joined.greedy(&order, threshold));
            for member in &clustering.members {
                prop_assert!(member.similarity >= clustering.threshold);
                prop_assert_eq!(member.similarity, joined.similarity(member.row, member.survivor));
            }
        }
    }

    #[test]
    fn single_linkage_gives_connected_components(codes in codes()) {
        let joined = Joined::of(grid(&codes));
        let keep = Keep::Best(KeepOrder::by_row(codes.len()));
        for clustering in joined.dedup(&keep, ClusterLinkage::Single, &THRESHOLDS) {
            let pairs = joined.all_pairs(clustering.threshold.get());
            let edges = pairs.iter().map(|pair| (pair.left.0, pair.right.0));
            let expected = memfold_core::cluster::components(codes.len(), edges);
            let expected = expected.into_iter().filter(|group| group.len() > 1);
            let expected: BTreeSet<Vec<Row>> =
                expected.map(|group| group.into_iter().map(Row).collect()).collect();
            prop_assert_eq!(clusters(&clustering), expected);
        }
    }

    #[test]
    fn several_thresholds_give_what_each_gives_alone(codes in codes()) {
        let joined = Joined::of(grid(&codes));
        let keep = Keep::Best(KeepOrder::by_row(codes.len()));
        for linkage in [ClusterLinkage::GreedyComplete, ClusterLinkage::Single] {
            let together = joined.dedup(&keep, linkage, &THRESHOLDS);
            for (clustering, threshold) in together.into_iter().zip(THRESHOLDS) {
                prop_assert_eq!(vec![clustering], joined.dedup(&keep, linkage, &[threshold]));
            }
        }
    }

    #[test]
    fn pairs_are_counted_expanded_and_sorted(codes in codes()) {
        let joined = Joined::of(grid(&codes));
        let expected = joined.all_pairs(0.96);
        let pairs = joined.pairs(0.96);
        let mut found = Vec::new();
        each_logical_pair(&pairs, None, &NoProgress, |pair| {
            found.push(pair);
            Ok::<_, DedupError>(())
        }).unwrap();
        prop_assert_eq!(&found, &expected);
        let keep = Keep::Best(KeepOrder::by_row(codes.len()));
        let clusterings = joined.dedup(&keep, ClusterLinkage::GreedyComplete, &[0.9, 0.96]);
        prop_assert_eq!(clusterings[1].logical_pairs, expected.len() as u64);
        prop_assert_eq!(clusterings[1].distinct_pairs, pairs.pair_count());
    }

    #[test]
    fn the_most_central_member_stays(codes in codes()) {
        let joined = Joined::of(grid(&codes));
        let by_row = Keep::Best(KeepOrder::by_row(codes.len()));
        let linkage = ClusterLinkage::GreedyComplete;
        let expected = &joined.dedup(&by_row, linkage, &[0.9])[0];
        let found = &joined.dedup(&Keep::MostCentral, linkage, &[0.9])[0];
        let members = |clustering| -> BTreeSet<BTreeSet<Row>> {
            clusters(clustering).into_iter().map(|cluster| cluster.into_iter().collect()).collect()
        };
        prop_assert_eq!(members(found), members(expected));
        for cluster in found.clusters() {
            let mean = |row: Row| {
                let all = cluster.iter().map(|other| joined.similarity(row, other.row).get());
                all.sum::<f64>() / cluster.len() as f64
            };
            let survivor = cluster[0].survivor;
            for member in cluster {
                let behind = mean(survivor) - mean(member.row);
                prop_assert!(behind > -2e-9, "{member:?} is nearer to all by {behind}");
                prop_assert!(behind > 5e-10 || member.row >= survivor, "{member:?} ties");
            }
        }
    }
}

#[test]
fn the_digest_is_as_documented() {
    // Rows 0 and 2 are equal, row 1 is near them.
    let joined = Joined::of(vec![1.0, 2.0, 3.0, 1.0, 2.0, 3.1, 1.0, 2.0, 3.0]);
    let keep = Keep::Best(KeepOrder::by_row(3));
    let clustering = &joined.dedup(&keep, ClusterLinkage::GreedyComplete, &[0.9])[0];
    let mut bytes = Vec::new();
    bytes.extend(0_u64.to_le_bytes());
    bytes.extend(10_u64.to_le_bytes());
    bytes.extend(joined.similarity(Row(0), Row(1)).get().to_bits().to_le_bytes());
    for word in [2_u64, 0, 20] {
        bytes.extend(word.to_le_bytes());
    }
    let expected = blake3::hash(&bytes).to_hex().to_string();
    assert_eq!(clustering.pairs_digest.to_string(), expected);
    assert_eq!((clustering.distinct_pairs, clustering.logical_pairs), (1, 3));
}

#[test]
fn ten_thousand_equal_rows_cost_nothing_quadratic() {
    let joined = Joined::of([1.0, 2.0, 3.0].repeat(10_000));
    for keep in [Keep::Best(KeepOrder::by_row(10_000)), Keep::MostCentral] {
        for linkage in [ClusterLinkage::GreedyComplete, ClusterLinkage::Single] {
            let clustering = &joined.dedup(&keep, linkage, &[0.95])[0];
            assert_eq!((clustering.distinct_pairs, clustering.logical_pairs), (0, 49_995_000));
            assert_eq!(clustering.duplicate_rows(), 9_999);
            assert!(clustering.members.iter().all(|member| member.survivor == Row(0)));
        }
    }
}

/// Cancels at once.
struct Stop;

impl Progress for Stop {
    fn begin(&self, _stage: &'static str, _total: Option<u64>) {}
    fn advance(&self, _done: u64) {}
    fn end(&self) {}
    fn cancelled(&self) -> bool {
        true
    }
}

#[test]
fn who_asks_to_stop_is_heard() {
    // Some 100,000 pairs in one cluster: each loop has more than a batch.
    let values: Vec<f32> = (0..450).flat_map(|row| [1.0, 1e-4 * row as f32, 0.0]).collect();
    let joined = Joined::of(values);
    let pairs = joined.pairs(0.95);
    assert!(pairs.pair_count() > 100_000);
    let options = JoinOptions { progress: &Stop, ..joined.options() };
    for linkage in [ClusterLinkage::GreedyComplete, ClusterLinkage::Single] {
        for keep in [Keep::Best(KeepOrder::by_row(450)), Keep::MostCentral] {
            let stopped = dedup(
                &pairs,
                &DedupRequest {
                    matrix: &joined.matrix(),
                    ordinal: &|row| row.0.into(),
                    keep: &keep,
                    linkage,
                    thresholds: &[Similarity::new(0.95).unwrap()],
                    options: &options,
                },
            );
            assert!(stopped.unwrap_err().is_cancelled());
        }
    }
    let written = each_logical_pair(&pairs, None, &Stop, |_| Ok::<_, DedupError>(()));
    assert!(written.unwrap_err().is_cancelled());
}

#[test]
fn nothing_gives_nothing() {
    let joined = Joined::of(Vec::new());
    let keep = Keep::Best(KeepOrder::by_row(0));
    let clusterings = joined.dedup(&keep, ClusterLinkage::GreedyComplete, &[0.9]);
    assert!(clusterings[0].members.is_empty());
    assert_eq!(clusterings[0].logical_pairs, 0);
}

#[test]
fn the_grid_has_groups_and_chains() {
    // Else the properties above would hold for nothing.
    let codes: Vec<u8> =
        (0..60_u8).map(|code| code.wrapping_mul(7) % 64).chain([7, 7, 14]).collect();
    let joined = Joined::of(grid(&codes));
    assert!(!joined.pairs(0.9).groups().is_empty());
    let keep = Keep::Best(KeepOrder::by_row(codes.len()));
    let sizes = |linkage| -> BTreeMap<usize, usize> {
        let mut sizes = BTreeMap::new();
        for cluster in joined.dedup(&keep, linkage, &[0.96])[0].clusters() {
            *sizes.entry(cluster.len()).or_default() += 1;
        }
        sizes
    };
    assert!(sizes(ClusterLinkage::GreedyComplete).len() > 1);
    assert_ne!(sizes(ClusterLinkage::GreedyComplete), sizes(ClusterLinkage::Single));
}

//! The members of clusters of two or more, each with its survivor.

use std::cmp::Reverse;
use std::ops::Range;
use std::path::Path;

use memfold_core::cluster::Link;
use memfold_index::{ExternalSort, MeasuredRecall, Pair, PairStream, Progress, Row, Sorted};
use memfold_simd::Similarity;

use super::run::{RUN_RECORDS, watched};
use super::{DedupError, DedupRequest, Keep, PairsDigest};

/// Members for each task and between two checks for cancellation.
const BATCH_MEMBERS: usize = 4_096;

/// Mean cosines that differ by less count as equal: far above the rounding of their sums, far below
/// real differences.
const TIE: f64 = 1e-9;

/// Returns the members of all clusters of two or more, by survivor and row. `first` names a row's cluster by its
/// first member in the order of keeping.
pub(super) fn members(
    first: impl Fn(Row) -> Row,
    request: &DedupRequest<'_>,
) -> Result<Vec<Member>, DedupError> {
    let mut members = grouped(first, request);
    if *request.keep == Keep::MostCentral {
        let clusters = ranges(&members);
        let central = request.options.pool.map(clusters.len(), |cluster| {
            most_central(&members[clusters[cluster].clone()], request)
        });
        for (cluster, survivor) in clusters.into_iter().zip(central) {
            let survivor = survivor?;
            members[cluster].iter_mut().for_each(|member| member.survivor = survivor);
        }
        sort(&mut members, request);
    }
    measure(&mut members, request)?;
    Ok(members)
}

/// The members, with similarities to be measured.
fn grouped(first: impl Fn(Row) -> Row, request: &DedupRequest<'_>) -> Vec<Member> {
    let mut sizes = vec![0_u32; request.matrix.len()];
    for row in request.matrix.rows() {
        sizes[first(row).index()] += 1;
    }
    let all = request.matrix.rows().map(|row| Member {
        row,
        survivor: first(row),
        similarity: Default::default(),
    });
    let mut members: Vec<Member> =
        all.filter(|member| sizes[member.survivor.index()] > 1).collect();
    sort(&mut members, request);
    members
}

fn sort(members: &mut [Member], request: &DedupRequest<'_>) {
    request.options.pool.sort_by_key(members, |member| (member.survivor, member.row));
}

/// Where each cluster stands among its members.
fn ranges(members: &[Member]) -> Vec<Range<usize>> {
    let mut start = 0;
    let clusters = members.chunk_by(|a, b| a.survivor == b.survivor);
    clusters
        .map(|cluster| {
            start += cluster.len();
            start - cluster.len()..start
        })
        .collect()
}

/// Returns the member that [`Keep::MostCentral`] keeps.
fn most_central(cluster: &[Member], request: &DedupRequest<'_>) -> Result<Row, DedupError> {
    let matrix = request.matrix;
    let mut sum = vec![0.0; matrix.dim()];
    let mut norms = Vec::with_capacity(cluster.len());
    for batch in cluster.chunks(BATCH_MEMBERS) {
        stop_if_cancelled(request)?;
        for member in batch {
            let vector = matrix.vector(member.row);
            let norm = request.options.kernels.dot(vector, vector).sqrt();
            norms.push(norm);
            sum.iter_mut().zip(vector).for_each(|(sum, &value)| *sum += f64::from(value) / norm);
        }
    }
    let mut means = Vec::with_capacity(cluster.len());
    for (members, norms) in cluster.chunks(BATCH_MEMBERS).zip(norms.chunks(BATCH_MEMBERS)) {
        stop_if_cancelled(request)?;
        means.extend(members.iter().zip(norms).map(|(member, norm)| {
            let products = matrix.vector(member.row).iter().zip(&sum);
            let product: f64 = products.map(|(&value, sum)| f64::from(value) * sum).sum();
            product / norm / cluster.len() as f64
        }));
    }
    let largest = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let first = means.iter().position(|mean| largest - mean <= TIE);
    Ok(cluster[first.unwrap_or_default()].row)
}

/// Computes every member's similarity to its survivor.
fn measure(members: &mut [Member], request: &DedupRequest<'_>) -> Result<(), DedupError> {
    let (matrix, kernels) = (request.matrix, request.options.kernels);
    let progress = request.options.progress;
    progress.begin("measure members", Some(members.len() as u64));
    let batches: Vec<&[Member]> = members.chunks(BATCH_MEMBERS).collect();
    let similarities = request.options.pool.map(batches.len(), |batch| {
        stop_if_cancelled(request)?;
        progress.advance(batches[batch].len() as u64);
        let similarity = |member: &Member| {
            let (a, b) = (matrix.vector(member.row), matrix.vector(member.survivor));
            kernels
                .similarity(a, b, [kernels.dot(a, a), kernels.dot(b, b)])
                .expect("the join refuses vectors without a direction")
        };
        Ok(batches[batch].iter().map(similarity).collect::<Vec<_>>())
    });
    progress.end();
    for (batch, similarities) in members.chunks_mut(BATCH_MEMBERS).zip(similarities) {
        for (member, similarity) in batch.iter_mut().zip(similarities?) {
            member.similarity = similarity;
        }
    }
    Ok(())
}

fn stop_if_cancelled(request: &DedupRequest<'_>) -> Result<(), DedupError> {
    if request.options.progress.cancelled() { Err(DedupError::Cancelled) } else { Ok(()) }
}

/// The rows of a matrix in order of keeping: of two near rows the earlier one here stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeepOrder {
    row_count: u32,
    /// `None`: rows ascending.
    permutation: Option<Permutation>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Permutation {
    rows: Vec<Row>,
    ranks: Vec<u32>,
}

impl KeepOrder {
    /// Keeps the smaller row. `row_count` is that of a matrix, and so fits 32 bits.
    #[must_use]
    pub const fn by_row(row_count: usize) -> Self {
        Self { row_count: row_count as u32, permutation: None }
    }

    /// Keeps the row with the largest key, of several the smallest row; `keys` holds one for each row.
    #[must_use]
    pub fn largest_first(keys: &[u32]) -> Self {
        let mut rows: Vec<u32> = (0..keys.len() as u32).collect();
        rows.sort_unstable_by_key(|&row| (Reverse(keys[row as usize]), row));
        let mut ranks = vec![0; keys.len()];
        for (rank, &row) in rows.iter().enumerate() {
            ranks[row as usize] = rank as u32;
        }
        let rows = rows.into_iter().map(Row).collect();
        Self { row_count: keys.len() as u32, permutation: Some(Permutation { rows, ranks }) }
    }

    /// Returns the number of rows.
    pub(super) const fn row_count(&self) -> u32 {
        self.row_count
    }

    /// Returns a row's place, from 0.
    pub(super) fn rank(&self, row: Row) -> u32 {
        self.permutation.as_ref().map_or(row.0, |permutation| permutation.ranks[row.index()])
    }

    /// Returns the row at a place.
    pub(super) fn row(&self, rank: u32) -> Row {
        self.permutation.as_ref().map_or(Row(rank), |permutation| permutation.rows[rank as usize])
    }
}

/// A pair's rows and its similarity's bits, sorted by the rows.
type PairRecord = [u64; 2];

/// Calls `write` with every pair of rows by (left, right): pairs inside and between groups of bit-equal rows
/// included, as [`PairStream::logical_pairs`] counts them.
///
/// Where there are groups the pairs are sorted anew, 16 bytes each: the first 64 MiB in memory, more in
/// `scratch_dir`. Time grows with the logical pairs, which can be as many as half the square of the rows.
///
/// # Errors
/// When `write` fails, the scratch folder is full or gone, or the caller cancelled.
pub fn each_logical_pair<E: From<DedupError>>(
    pairs: &PairStream,
    scratch_dir: Option<&Path>,
    progress: &dyn Progress,
    mut write: impl FnMut(Pair) -> Result<(), E>,
) -> Result<(), E> {
    let total = Some(pairs.logical_pairs());
    if pairs.groups().is_empty() {
        progress.begin("write pairs", total);
        watched(pairs.pairs(), progress).try_for_each(|pair| write(pair?))?;
    } else {
        progress.begin("expand pairs", total);
        let sorted = sorted(pairs, scratch_dir, progress)?;
        progress.begin("write pairs", total);
        watched(sorted.iter(), progress).try_for_each(|record| write(pair(record?)))?;
    }
    progress.end();
    Ok(())
}

fn sorted(
    pairs: &PairStream,
    scratch_dir: Option<&Path>,
    progress: &dyn Progress,
) -> Result<Sorted<PairRecord>, DedupError> {
    let failed = DedupError::scratch(scratch_dir);
    let mut spool = ExternalSort::new(scratch_dir, RUN_RECORDS);
    for record in watched(expanded(pairs), progress) {
        spool.push(record?).map_err(&failed)?;
    }
    spool.finish().map_err(failed)
}

/// All pairs of rows, in no order that matters.
fn expanded(pairs: &PairStream) -> impl Iterator<Item = PairRecord> {
    let groups = pairs.groups();
    let inside = groups.iter().flat_map(|group| {
        (0..group.len()).flat_map(move |left| {
            group[left + 1..].iter().map(move |&right| record(group[left], right, Similarity::ONE))
        })
    });
    let between = pairs.pairs().flat_map(move |pair| {
        let (left, right) = (rows_of(groups, pair.left), rows_of(groups, pair.right));
        left.flat_map(move |a| {
            right.clone().map(move |b| record(a.min(b), a.max(b), pair.similarity))
        })
    });
    inside.chain(between)
}

/// The rows that a distinct row stands for, itself included.
fn rows_of(groups: &[Vec<Row>], row: Row) -> impl Iterator<Item = Row> + Clone {
    let group = groups.binary_search_by_key(&row, |group| group[0]).ok();
    let others = group.map_or(&[][..], |at| &groups[at][1..]);
    std::iter::once(row).chain(others.iter().copied())
}

fn record(left: Row, right: Row, similarity: Similarity) -> PairRecord {
    [u64::from(left.0) << 32 | u64::from(right.0), similarity.get().to_bits()]
}

fn pair([rows, bits]: PairRecord) -> Pair {
    // The bits were a similarity's, which the clamp leaves as they are.
    let similarity = Similarity::clamped(f64::from_bits(bits)).unwrap_or_default();
    Pair { left: Row((rows >> 32) as u32), right: Row(rows as u32), similarity }
}

/// The vertex of each row: the place in the order of keeping of the first row that is bit-equal to it.
pub(super) struct Vertices {
    of_row: Vec<u32>,
    /// How many rows are bit-equal to each first row of a group; empty where there are no groups.
    multiplicities: Vec<u32>,
}

impl Vertices {
    pub(super) fn of(groups: &[Vec<Row>], order: &KeepOrder) -> Self {
        let mut of_row: Vec<u32> = (0..order.row_count()).map(|row| order.rank(Row(row))).collect();
        let mut multiplicities = Vec::new();
        if !groups.is_empty() {
            multiplicities.resize(of_row.len(), 1);
        }
        for group in groups {
            let first = group.iter().map(|&row| order.rank(row)).min();
            for row in group {
                of_row[row.index()] = first.unwrap_or_default();
            }
            multiplicities[group[0].index()] = group.len() as u32;
        }
        Self { of_row, multiplicities }
    }

    /// Returns the vertex of a row.
    pub(super) fn vertex(&self, row: Row) -> u32 {
        self.of_row[row.index()]
    }

    /// Returns the two vertices of a pair in processing order.
    pub(super) fn link(&self, pair: &Pair) -> Link {
        let (a, b) = (self.vertex(pair.left), self.vertex(pair.right));
        Link { later: a.max(b), earlier: a.min(b) }
    }

    /// Returns how many pairs of rows stand behind a pair of distinct rows.
    pub(super) fn logical_pairs(&self, pair: &Pair) -> u64 {
        let count = |row: Row| self.multiplicities.get(row.index()).map_or(1, |&n| u64::from(n));
        count(pair.left) * count(pair.right)
    }
}

/// A row of a cluster of two or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// The row.
    pub row: Row,
    /// The row of its cluster that stays; it is a member too.
    pub survivor: Row,
    /// The canonical similarity of the two: 1 for the survivor itself.
    pub similarity: Similarity,
}

/// The pairs and clusters at one threshold.
#[derive(Debug, Clone, PartialEq)]
pub struct Clustering {
    /// The threshold.
    pub threshold: Similarity,
    /// Pairs of distinct rows.
    pub distinct_pairs: u64,
    /// How many of all distinct pairs these are, as measured; `None`: the join was exact.
    pub recall: Option<MeasuredRecall>,
    /// All pairs of rows, counted arithmetically.
    pub logical_pairs: u64,
    /// The digest of the pairs.
    pub pairs_digest: PairsDigest,
    /// Rows in clusters of two or more, by survivor and row.
    pub members: Vec<Member>,
}

impl Clustering {
    /// Returns the clusters of two or more by their survivors; members ascend.
    pub fn clusters(&self) -> impl Iterator<Item = &[Member]> {
        self.members.chunk_by(|a, b| a.survivor == b.survivor)
    }

    /// Returns how many rows would go if only survivors stayed.
    #[must_use]
    pub fn duplicate_rows(&self) -> u64 {
        self.members.iter().filter(|member| member.row != member.survivor).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_keys_stand_first_and_of_equal_ones_smaller_rows() {
        let order = KeepOrder::largest_first(&[0, 2, 1, 2, 0]);
        let rows: Vec<u32> = (0..5).map(|rank| order.row(rank).0).collect();
        assert_eq!(rows, [1, 3, 2, 0, 4]);
        assert!((0..5).all(|rank| order.rank(order.row(rank)) == rank));
        assert_eq!((order.row_count(), KeepOrder::by_row(5).row(3)), (5, Row(3)));
    }
}

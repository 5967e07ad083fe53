//! The members of clusters of two or more, each with its survivor.

use std::ops::Range;

use memfold_index::Row;

use super::clustering::Member;
use super::{DedupError, DedupRequest, Keep};

/// Members for each task and for each look at the wish to stop.
const BATCH_MEMBERS: usize = 4_096;

/// Mean cosines that differ by less count as equal: far above the rounding of their sums, far below what differs.
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
                .similarity(a, b, (kernels.dot(a, a), kernels.dot(b, b)))
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

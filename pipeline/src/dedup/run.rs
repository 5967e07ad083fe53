//! The steps from pairs to clusters.

use memfold_index::components::component_firsts;
use memfold_index::{PairStream, Progress, Sorted, Spool};
use memfold_simd::Similarity;

use super::clustering::Clustering;
use super::survivors::members;
use super::tally::Tally;
use super::vertices::Vertices;
use super::{ClusterLinkage, DedupError, DedupRequest, Keep, KeepOrder};
use memfold_plan::cluster::{Link, greedy_complete_streamed};

/// Links that are sorted in memory before they go to the scratch folder: 64 MiB.
pub(super) const RUN_RECORDS: usize = 1 << 22;

/// Records between two looks at the wish to stop.
const BATCH_RECORDS: usize = 1 << 16;

/// Clusters the rows behind `pairs` at each threshold, in the thresholds' order.
///
/// Takes about 30 bytes for each row and 64 MiB, and 16 bytes for each pair in the scratch folder; time grows
/// with the pairs, for each threshold anew.
///
/// # Errors
/// When the scratch folder is full or gone, or when cancelled.
///
/// # Panics
/// When the request's matrix or order has other rows than those that were joined.
pub fn dedup(
    pairs: &PairStream,
    request: &DedupRequest<'_>,
) -> Result<Vec<Clustering>, DedupError> {
    let by_row;
    let order = match request.keep {
        Keep::Best(order) => order,
        Keep::MostCentral => {
            by_row = KeepOrder::by_row(request.matrix.len());
            &by_row
        }
    };
    assert_eq!(order.row_count() as usize, request.matrix.len(), "one place for each row");
    let vertices = Vertices::of(pairs.groups(), order);
    let (tallies, links) = read(pairs, &vertices, request)?;
    let mut clusterings = Vec::with_capacity(tallies.len());
    for (&threshold, tally) in request.thresholds.iter().zip(tallies) {
        let firsts = match request.linkage {
            ClusterLinkage::GreedyComplete => greedy(order, &links, threshold, request)?,
            ClusterLinkage::Single => single(pairs, &vertices, threshold, request)?,
        };
        let survivors = |row| order.row(firsts[vertices.vertex(row) as usize]);
        let members = members(survivors, request)?;
        let tallied = tally.finish(pairs, request.ordinal);
        clusterings.push(Clustering {
            threshold,
            distinct_pairs: tallied.distinct_pairs,
            recall: pairs.measured_recall(threshold),
            logical_pairs: tallied.logical_pairs,
            pairs_digest: tallied.digest,
            members,
        });
    }
    Ok(clusterings)
}

/// A link and its similarity's bits, sorted by the link.
type LinkRecord = [u64; 2];

/// Reads all pairs once: counts them, and puts their links into processing order where that is needed.
fn read(
    pairs: &PairStream,
    vertices: &Vertices,
    request: &DedupRequest<'_>,
) -> Result<(Vec<Tally>, Sorted<LinkRecord>), DedupError> {
    let DedupRequest { options, ordinal, thresholds, .. } = *request;
    let is_ordered = request.linkage == ClusterLinkage::GreedyComplete;
    let failed = DedupError::scratch(options.scratch_dir);
    let mut tallies: Vec<Tally> = thresholds.iter().copied().map(Tally::at).collect();
    let mut links = Spool::new(options.scratch_dir, RUN_RECORDS);
    options.progress.begin("order pairs", Some(pairs.pair_count()));
    for pair in watched(pairs.pairs(), options.progress) {
        let pair = pair?;
        tallies.iter_mut().for_each(|tally| tally.add(&pair, vertices, ordinal));
        if is_ordered {
            let Link { later, earlier } = vertices.link(&pair);
            let link = u64::from(later) << 32 | u64::from(earlier);
            links.push([link, pair.similarity.get().to_bits()]).map_err(&failed)?;
        }
    }
    options.progress.end();
    let links = links.finish().map_err(failed)?;
    Ok((tallies, links))
}

fn greedy(
    order: &KeepOrder,
    links: &Sorted<LinkRecord>,
    threshold: Similarity,
    request: &DedupRequest<'_>,
) -> Result<Vec<u32>, DedupError> {
    let progress = request.options.progress;
    progress.begin("cluster", Some(links.len() as u64));
    let near = watched(links.iter(), progress).filter_map(|record| match record {
        Err(error) => Some(Err(error)),
        Ok([link, bits]) => {
            let is_near = f64::from_bits(bits) >= threshold.get();
            // The low half is the earlier vertex.
            is_near.then_some(Ok(Link { later: (link >> 32) as u32, earlier: link as u32 }))
        }
    });
    let firsts = greedy_complete_streamed(order.row_count(), near);
    progress.end();
    firsts
}

fn single(
    pairs: &PairStream,
    vertices: &Vertices,
    threshold: Similarity,
    request: &DedupRequest<'_>,
) -> Result<Vec<u32>, DedupError> {
    let progress = request.options.progress;
    progress.begin("cluster", Some(pairs.pair_count()));
    let near = watched(pairs.pairs(), progress).filter_map(|pair| match pair {
        Err(error) => Some(Err(error)),
        Ok(pair) => (pair.similarity >= threshold).then(|| {
            let Link { later, earlier } = vertices.link(&pair);
            Ok((earlier, later))
        }),
    });
    let firsts = component_firsts(request.matrix.len(), near);
    progress.end();
    firsts
}

/// Passes records on, tells of progress and ends with an error when the caller asked to stop.
pub(super) fn watched<'a, T: 'a>(
    records: impl Iterator<Item = T> + 'a,
    progress: &'a dyn Progress,
) -> impl Iterator<Item = Result<T, DedupError>> + 'a {
    records.enumerate().map(move |(position, record)| {
        if (position + 1).is_multiple_of(BATCH_RECORDS) {
            progress.advance(BATCH_RECORDS as u64);
            if progress.cancelled() {
                return Err(DedupError::Cancelled);
            }
        }
        Ok(record)
    })
}

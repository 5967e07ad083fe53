//! The steps from pairs to clusters.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use memfold_core::cluster::{Link, greedy_complete_streamed};
use memfold_core::report::Recall;
use memfold_index::{
    ExternalSort, JoinCounters, JoinOptions, Pair, PairStream, Progress, Row, Sorted, TileSummary,
    VectorMatrix, component_firsts,
};
use memfold_simd::Similarity;
use schemars::JsonSchema;
use serde::Serialize;

use super::KeepOrder;
use super::clusters::{Clustering, Vertices, members};

/// Links that are sorted in memory before they go to the scratch folder: 64 MiB.
pub(super) const RUN_RECORDS: usize = 1 << 22;

/// Records between two checks for cancellation.
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
/// When the request's matrix or order has other rows than the join.
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
    let mut links = ExternalSort::new(options.scratch_dir, RUN_RECORDS);
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

/// Passes records on, reports progress and ends with an error when the caller cancelled.
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

/// Which member of a cluster stays, its survivor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keep {
    /// The first in an order, which is the processing order too.
    Best(KeepOrder),
    /// The member with the largest mean cosine to the members; of members within 1e-9 of the largest the smallest row.
    ///
    /// Clusters are made in order of rows. The sum of a member's cosines is taken as its cosine
    /// with the sum of all members' unit vectors, in f64 and in order of rows: time grows with the members,
    /// not with their pairs.
    MostCentral,
}

/// What makes a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum), value(rename_all = "snake_case"))]
pub enum ClusterLinkage {
    /// Every two members are near; rows choose their cluster in the order of keeping.
    #[cfg_attr(feature = "clap", value(help = "Every two rows of it are near"))]
    GreedyComplete,
    /// A chain of near rows joins them: connected components. Members may be far from the survivor.
    #[cfg_attr(feature = "clap", value(help = "A chain of near rows joins them"))]
    Single,
}

/// A request to count and cluster the pairs of a join.
pub struct DedupRequest<'a> {
    /// The rows that were joined.
    pub matrix: &'a VectorMatrix<'a>,
    /// The number under which a row is known outside; larger for larger rows.
    pub ordinal: &'a (dyn Fn(Row) -> u64 + Sync),
    /// Which rows stay.
    pub keep: &'a Keep,
    /// The linkage of clusters.
    pub linkage: ClusterLinkage,
    /// At or above which similarities; none below the join's threshold.
    pub thresholds: &'a [Similarity],
    /// The options of the join: workers, kernels, scratch folder, progress.
    pub options: &'a JoinOptions<'a>,
}

/// Why pairs did not become clusters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DedupError {
    /// Pairs that memory should not hold could not be kept on disk.
    #[error("keep pairs in {}: {source}", dir.display())]
    Scratch {
        /// The folder.
        dir: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The caller cancelled.
    #[error("interrupted")]
    Cancelled,
}

impl DedupError {
    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Scratch { .. } => {
                Some("free some space there, or set TMPDIR to a folder with more".into())
            }
            Self::Cancelled => None,
        }
    }

    /// Tells whether the caller cancelled.
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled)
    }

    /// A refusal of the system to keep records in `dir`; `None`: in memory, which refuses nothing.
    pub(super) fn scratch(dir: Option<&Path>) -> impl Fn(io::Error) -> Self {
        move |source| Self::Scratch { dir: dir.unwrap_or(Path::new("memory")).to_owned(), source }
    }
}

/// What `memfold dedup --json` prints.
///
/// With one threshold its figures stand at the top; with several they stand in `results`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DedupReport {
    /// Version of this format.
    pub schema_version: u32,
    /// Rows of all inputs; those left out are among them.
    pub rows: u64,
    /// Components of each vector; 0 where there are no rows.
    pub dim: u64,
    /// Rows that differ in at least one bit.
    pub distinct_rows: u64,
    /// Rows left out, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// How pairs were searched: `exact` or `graph`.
    pub method: &'static str,
    /// The index of `graph`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<&'static str>,
    /// The figures of the only threshold.
    #[serde(flatten)]
    pub figures: Option<DedupFigures>,
    /// The figures of several thresholds, in the order in which they were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub results: Option<Vec<DedupFigures>>,
    /// What the join did.
    pub counters: DedupCounters,
    /// The tiles of a join by tiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tiles: Option<DedupTiles>,
    /// Wall time by stage.
    pub seconds: DedupSeconds,
    /// The largest resident size, with mapped files; null where the system does not tell.
    pub peak_rss_bytes: Option<u64>,
    /// The largest anonymous size; null where the system does not tell.
    pub peak_anon_bytes: Option<u64>,
    /// Worker threads.
    pub threads: usize,
    /// The instruction set of the kernels.
    pub isa: &'static str,
}

/// What was found at one threshold.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DedupFigures {
    /// The threshold.
    pub threshold: f64,
    /// All pairs of rows, groups of bit-equal rows expanded arithmetically.
    pub pairs: u64,
    /// Pairs of distinct rows.
    pub distinct_pairs: u64,
    /// How complete the pairs are.
    pub pair_recall: Recall,
    /// Clusters of two or more.
    pub clusters: u64,
    /// Rows in clusters that are not their survivor.
    pub duplicate_rows: u64,
    /// blake3 of the distinct pairs and the groups, in hexadecimal digits.
    pub pairs_digest: String,
}

/// What the join did to find the pairs. Unlike the pairs, it may differ a little between instruction sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct DedupCounters {
    /// Directions of the first test; 0 where every pair was judged.
    pub first_width: u32,
    /// Pairs of distinct rows.
    pub pairs_total: u64,
    /// Pairs that the first test looked at.
    pub pairs_tested: u64,
    /// Pairs that passed the first test.
    pub pairs_passed_first: u64,
    /// Pairs that the canonical similarity was asked about; by a graph, those that rows found, from both sides.
    pub pairs_judged: u64,
    /// By a graph, pairs that only one of both rows found.
    pub pairs_found_once: u64,
}

/// How a join was cut into tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DedupTiles {
    /// How many tiles there are.
    pub tiles: u64,
    /// Their bytes.
    pub tile_bytes: u64,
    /// Pairs of tiles that were compared.
    pub tasks: u64,
    /// Pairs of tiles.
    pub tasks_total: u64,
    /// Tasks that an earlier run had finished.
    pub tasks_resumed: u64,
    /// Pairs of distinct rows in tasks.
    pub pairs_in_tasks: u64,
}

impl From<&TileSummary> for DedupTiles {
    fn from(summary: &TileSummary) -> Self {
        Self {
            tiles: summary.tiles,
            tile_bytes: summary.tile_bytes,
            tasks: summary.tasks,
            tasks_total: summary.tasks_total,
            tasks_resumed: summary.tasks_resumed,
            pairs_in_tasks: summary.pairs_in_tasks,
        }
    }
}

/// Wall time by stage.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema)]
pub struct DedupSeconds {
    /// Reading the inputs.
    pub load: f64,
    /// Validating vectors, collapsing bit-equal ones, encoding, building a graph.
    pub prepare: f64,
    /// Comparing pairs, or searching a graph.
    pub join: f64,
    /// Measuring how many pairs a graph found.
    pub audit: f64,
    /// Clustering, and measuring members.
    pub cluster: f64,
    /// Writing files.
    pub write: f64,
    /// From start to report.
    pub total: f64,
}

impl From<&JoinCounters> for DedupCounters {
    fn from(counters: &JoinCounters) -> Self {
        Self {
            first_width: counters.first_width,
            pairs_total: counters.pairs_total,
            pairs_tested: counters.pairs_tested,
            pairs_passed_first: counters.pairs_passed_first,
            pairs_judged: counters.pairs_judged,
            pairs_found_once: counters.pairs_found_once,
        }
    }
}

impl DedupFigures {
    /// Counts the clusters and rows of a clustering.
    #[must_use]
    pub fn of(clustering: &Clustering) -> Self {
        Self {
            threshold: clustering.threshold.get(),
            pairs: clustering.logical_pairs,
            distinct_pairs: clustering.distinct_pairs,
            pair_recall: Recall::from(clustering.recall),
            clusters: clustering.clusters().count() as u64,
            duplicate_rows: clustering.duplicate_rows(),
            pairs_digest: clustering.pairs_digest.to_string(),
        }
    }
}

/// blake3 of the pairs at one threshold; every number is 8 bytes, little-endian.
///
/// For each pair of distinct rows, by (left, right): left, right and the bits of the similarity as f64. Then
/// for each group of two or more bit-equal rows, by its smallest row: how many they are, and the rows,
/// ascending. Rows are ordinals over all inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairsDigest(pub [u8; 32]);

impl fmt::Display for PairsDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A [`PairsDigest`] in the making.
#[derive(Debug, Default)]
pub(super) struct PairsHasher {
    hasher: blake3::Hasher,
}

impl PairsHasher {
    /// Adds a pair of distinct rows.
    pub(super) fn pair(&mut self, pair: &Pair, ordinal: &dyn Fn(Row) -> u64) {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&ordinal(pair.left).to_le_bytes());
        bytes[8..16].copy_from_slice(&ordinal(pair.right).to_le_bytes());
        bytes[16..].copy_from_slice(&pair.similarity.get().to_le_bytes());
        self.hasher.update(&bytes);
    }

    /// Adds all groups, after the last pair.
    pub(super) fn groups(
        mut self,
        groups: &[Vec<Row>],
        ordinal: &dyn Fn(Row) -> u64,
    ) -> PairsDigest {
        for group in groups {
            self.hasher.update(&(group.len() as u64).to_le_bytes());
            for &row in group {
                self.hasher.update(&ordinal(row).to_le_bytes());
            }
        }
        PairsDigest(*self.hasher.finalize().as_bytes())
    }
}

/// Counts of the pairs at one threshold, as they stream by in order.
pub(super) struct Tally {
    threshold: Similarity,
    distinct_pairs: u64,
    between_groups: u64,
    hasher: PairsHasher,
}

/// The counts of the pairs at one threshold.
pub(super) struct Tallied {
    pub(super) distinct_pairs: u64,
    pub(super) logical_pairs: u64,
    pub(super) digest: PairsDigest,
}

impl Tally {
    pub(super) fn at(threshold: Similarity) -> Self {
        let hasher = PairsHasher::default();
        Self { threshold, distinct_pairs: 0, between_groups: 0, hasher }
    }

    pub(super) fn add(&mut self, pair: &Pair, vertices: &Vertices, ordinal: &dyn Fn(Row) -> u64) {
        if pair.similarity < self.threshold {
            return;
        }
        self.distinct_pairs += 1;
        self.between_groups += vertices.logical_pairs(pair);
        self.hasher.pair(pair, ordinal);
    }

    /// Adds the pairs inside groups: they are at or above every threshold.
    pub(super) fn finish(self, pairs: &PairStream, ordinal: &dyn Fn(Row) -> u64) -> Tallied {
        let inside = |group: &Vec<Row>| group.len() as u64 * (group.len() as u64 - 1) / 2;
        let inside: u64 = pairs.groups().iter().map(inside).sum();
        Tallied {
            distinct_pairs: self.distinct_pairs,
            logical_pairs: self.between_groups + inside,
            digest: self.hasher.groups(pairs.groups(), ordinal),
        }
    }
}

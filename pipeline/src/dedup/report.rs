//! [`DedupReport`]: the figures of a run, for programs.

use std::collections::BTreeMap;

use memfold_index::JoinCounters;
use schemars::JsonSchema;
use serde::Serialize;

use super::Clustering;
use memfold_plan::report::Recall;

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
    /// Counts what a clustering holds.
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

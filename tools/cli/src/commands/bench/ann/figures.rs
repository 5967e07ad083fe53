//! What one setting of an index reaches, as `--json` prints it on a line.

use memfold_index::{Neighbor, VectorMatrix};
use memfold_simd::Kernels;

use super::measure::Latencies;
use crate::document::documents;

documents! { "bench-ann" => AnnFigures }

/// One line of `memfold bench ann --json`.
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct AnnFigures {
    pub(super) schema_version: u32,
    /// What answered: `graph`, `scan`, `hnsw_rs` or `exact`.
    pub(super) method: &'static str,
    pub(super) rows: u64,
    pub(super) dim: u64,
    pub(super) queries: u64,
    /// Neighbours asked for.
    pub(super) k: u64,
    /// efSearch; `null` where the method has no beam.
    pub(super) search_beam_width: Option<u64>,
    /// The share of right neighbours, mean over the queries; ties count, the same row twice does not.
    pub(super) recall_at_k: f64,
    /// The share of right neighbours for the query that fares worst.
    pub(super) recall_min: f64,
    pub(super) qps_one_thread: f64,
    pub(super) latency_us: Latencies,
    pub(super) build_seconds: f64,
    /// All that answers but the vectors; of `hnsw_rs` an estimate that holds its copy of them.
    pub(super) index_bytes: u64,
    pub(super) bytes_per_vector: f64,
    /// Peak resident memory of the process; `null` where the system does not tell.
    pub(super) peak_rss_bytes: Option<u64>,
    /// Peak anonymous memory of the process; `null` where the system does not tell.
    pub(super) peak_anon_bytes: Option<u64>,
    /// Threads that built.
    pub(super) threads: u64,
    pub(super) isa: &'static str,
}

/// What an index is and took to build.
#[derive(Debug, Clone, Copy)]
pub(super) struct Built {
    pub(super) method: &'static str,
    pub(super) seconds: f64,
    pub(super) bytes: u64,
    pub(super) threads: usize,
}

/// What lookups of one setting gave.
#[derive(Debug)]
pub(super) struct Swept {
    pub(super) search_beam_width: Option<usize>,
    /// One for each query.
    pub(super) recalls: Vec<f64>,
    pub(super) latencies: Latencies,
}

impl AnnFigures {
    pub(super) fn new(rows: &VectorMatrix<'_>, k: usize, built: Built, swept: &Swept) -> Self {
        let Swept { search_beam_width, recalls, latencies } = swept;
        Self {
            schema_version: 1,
            method: built.method,
            rows: rows.len() as u64,
            dim: rows.dim() as u64,
            queries: recalls.len() as u64,
            k: k as u64,
            search_beam_width: search_beam_width.map(|width| width as u64),
            recall_at_k: recalls.iter().sum::<f64>() / recalls.len().max(1) as f64,
            recall_min: recalls.iter().copied().fold(1.0, f64::min),
            qps_one_thread: latencies.per_second,
            latency_us: *latencies,
            build_seconds: built.seconds,
            index_bytes: built.bytes,
            bytes_per_vector: built.bytes as f64 / rows.len().max(1) as f64,
            peak_rss_bytes: None,
            peak_anon_bytes: None,
            threads: built.threads as u64,
            isa: Kernels::active().level().name(),
        }
    }
}

/// The right answers, one for each query.
pub(super) type Truth = Vec<Vec<Neighbor>>;

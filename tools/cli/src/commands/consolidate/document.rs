//! What `memfold consolidate` prints with `--json`.

use memfold_plan::report::{
    Detected, Executed, Loaded, Mode, Planned, Report, ScopeView, Seconds, Stats,
};
use serde::Serialize;

use crate::document::documents;

documents! { "consolidate" => ConsolidateDocument<'_> }

/// `memfold consolidate --json`, and `memfold demo --json`: the report without its lists for people.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ConsolidateDocument<'a> {
    schema_version: u32,
    /// `YYYYMMDDTHHMMSSZ-<8 hex>`.
    run_id: &'a str,
    mode: Mode,
    /// sha256 of the canonical JSON of the actions.
    plan_digest: &'a str,
    /// sha256 of the semantic configuration.
    config_hash: &'a str,
    scope: &'a ScopeView,
    loaded: &'a Loaded,
    detected: &'a Detected,
    planned: Planned,
    executed: Executed,
    seconds: Seconds,
    /// The largest resident size, with mapped files; 0 where the system does not tell.
    peak_rss_bytes: u64,
    /// The largest anonymous size; 0 where the system does not tell.
    peak_anon_bytes: u64,
    /// Worker threads.
    threads: usize,
    /// The instruction set of the kernels.
    isa: &'a str,
    stats: &'a Stats,
    notes: &'a [String],
}

impl<'a> ConsolidateDocument<'a> {
    pub(super) fn of(report: &'a Report) -> Self {
        Self {
            schema_version: report.schema_version,
            run_id: &report.run_id,
            mode: report.mode,
            plan_digest: &report.plan_digest,
            config_hash: &report.config_hash,
            scope: &report.scope,
            loaded: &report.loaded,
            detected: &report.detected,
            planned: report.planned,
            executed: report.executed,
            seconds: report.seconds,
            peak_rss_bytes: report.peak_rss_bytes,
            peak_anon_bytes: report.peak_anon_bytes,
            threads: report.threads,
            isa: &report.isa,
            stats: &report.stats,
            notes: &report.notes,
        }
    }
}

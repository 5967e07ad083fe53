//! What `memfold consolidate --json` prints.

use memfold_core::report::{
    Detected, Incremental, Judged, Loaded, Mode, Planned, Report, ScopeView, Seconds, Stats,
};
use memfold_core::runs::Executed;
use serde::Serialize;

use crate::printer::documents;

documents! { "consolidate" => ConsolidateDocument<'_> }

/// `memfold consolidate --json`, and `memfold demo --json`: the report without its lists for people.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ConsolidateDocument<'a> {
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
    /// What was searched, where it was not the whole store.
    #[serde(skip_serializing_if = "Option::is_none")]
    incremental: Option<&'a Incremental>,
    /// What models decided about proposals, where they were asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    judged: Option<&'a Judged>,
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
    /// Takes a report.
    pub fn of(report: &'a Report) -> Self {
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
            incremental: report.incremental.as_ref(),
            judged: report.judged.as_ref(),
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

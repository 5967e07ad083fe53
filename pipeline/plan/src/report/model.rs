//! The report's fields.

use std::collections::BTreeMap;

use memfold_model::runs::Executed;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Piece, Recall};
use crate::plan::{Action, Risk};

/// Version of the report's format.
pub const REPORT_SCHEMA_VERSION: u32 = 1;

/// Whether a run wrote to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It planned only.
    DryRun,
    /// It applied its plan.
    Execute,
}

impl Mode {
    /// Returns the mode of a run that wrote, or did not.
    #[must_use]
    pub const fn of(wrote: bool) -> Self {
        if wrote { Self::Execute } else { Self::DryRun }
    }

    /// Returns the name that JSON, log lines and metrics use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DryRun => "dry_run",
            Self::Execute => "execute",
        }
    }
}

/// What a run found, planned and did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Version of this format.
    pub schema_version: u32,
    /// `YYYYMMDDTHHMMSSZ-<8 hex>`.
    pub run_id: String,
    /// Whether the store was written to.
    pub mode: Mode,
    /// sha256 of the canonical JSON of the actions.
    pub plan_digest: String,
    /// sha256 of the semantic configuration.
    pub config_hash: String,
    /// Which memories took part.
    pub scope: ScopeView,
    /// What was read.
    pub loaded: Loaded,
    /// What was found.
    pub detected: Detected,
    /// Actions by type.
    pub planned: Planned,
    /// What was done.
    pub executed: Executed,
    /// Wall time by stage.
    pub seconds: Seconds,
    /// The largest resident size, with mapped files.
    pub peak_rss_bytes: u64,
    /// The largest anonymous size.
    pub peak_anon_bytes: u64,
    /// Worker threads.
    pub threads: usize,
    /// The instruction set of the kernels.
    pub isa: String,
    /// Figures derived from the plan.
    pub stats: Stats,
    /// Remarks.
    pub notes: Vec<String>,
    /// Excerpts for people.
    pub samples: Samples,
    /// Pairs worth a look though nothing is planned for them.
    pub near_misses: Vec<PairSample>,
    /// How the number of linked pairs changes with the threshold.
    pub sensitivity: Vec<Sensitivity>,
    /// What protection keeps.
    pub protected: ProtectedRows,
    /// One example of each reason for leaving rows out.
    pub skipped_examples: BTreeMap<String, String>,
    /// The plan's actions in plan order.
    pub actions: Vec<Action>,
}

/// The scope of a run; empty or null: no limit.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ScopeView {
    /// Any of these categories.
    pub categories: Vec<String>,
    /// Created at or after (RFC 3339).
    pub since: Option<String>,
    /// Created before (RFC 3339).
    pub until: Option<String>,
    /// Root sources starting with any of these.
    pub sources: Vec<String>,
    /// Only the newest so many.
    pub limit: Option<usize>,
    /// Those of the categories that no live memory has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_categories: Vec<UnknownCategory>,
}

/// A category that no live memory has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnknownCategory {
    /// As it was asked for.
    pub category: String,
    /// A category of the store that was probably meant.
    pub nearest: Option<String>,
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Loaded {
    /// Rows in the store's memory table.
    pub memories: u64,
    /// Candidates.
    pub live: u64,
    /// Candidates with a valid vector.
    pub with_embedding: u64,
    /// Rows and embeddings left out, by reason.
    pub skipped: BTreeMap<String, u64>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Detected {
    /// Clusters of two or more.
    pub clusters: u64,
    /// Groups of equal text.
    pub duplicate_groups: u64,
    /// Pairs at or above the merge threshold.
    pub pairs: u64,
    /// Contradictory pairs.
    pub contradiction_pairs: u64,
    /// Flags of earlier runs that wait for a person.
    pub flags_open: u64,
    /// Contradictory pairs that the caps on flags left out.
    pub flags_deferred: u64,
    /// How complete `pairs` is.
    pub pair_recall: Recall,
}

/// Actions by type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Planned {
    /// Merges.
    pub merge: u64,
    /// Promotions.
    pub promote: u64,
    /// Archivals.
    pub archive: u64,
    /// Flags.
    pub flag_contradiction: u64,
    /// Rows left alone.
    pub noop: u64,
}

/// Wall time by stage.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Seconds {
    /// Reading the store.
    pub load: f64,
    /// Writing the columns.
    pub export: f64,
    /// Finding pairs.
    pub join: f64,
    /// Judging and clustering.
    pub cluster: f64,
    /// Deciding.
    pub plan: f64,
    /// Writing to the store.
    pub execute: f64,
    /// From start to report.
    pub total: f64,
}

/// Figures derived from the plan.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Stats {
    /// Live memories after the plan.
    pub live_after: u64,
    /// Memories that merges absorb, by the risk of their merge.
    pub absorbed: AbsorbedByRisk,
    /// Tokens that readers of all live memories save: a low estimate, one for five characters.
    pub tokens_saved: u64,
    /// Merges by rule.
    pub merges_by_rule: BTreeMap<String, u64>,
    /// Rows left alone, by cause.
    pub noops_by_cause: BTreeMap<String, u64>,
    /// Judged pairs by verdict.
    pub verdicts: BTreeMap<String, u64>,
    /// Deferred flags by the kinds of their signs.
    pub deferred_patterns: BTreeMap<String, u64>,
}

/// Memories that merges absorb.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct AbsorbedByRisk {
    /// In merges of equal texts.
    pub identical: u64,
    /// In merges that change small words only.
    pub trivial: u64,
    /// In other merges.
    pub reworded: u64,
}

/// Excerpts for people.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Samples {
    /// Merges, in plan order: of each risk at most as many as the report shows.
    pub merges: Vec<MergeSample>,
    /// Merges without an excerpt here, by risk.
    pub merges_not_shown: AbsorbedByRisk,
    /// The flagged contradictions.
    pub contradictions: Vec<PairSample>,
}

/// A merge with its texts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MergeSample {
    /// The action's label: `a1`, `a2`, …
    pub action: String,
    /// How much a person should look at it.
    pub risk: Risk,
    /// The rule.
    pub rule_id: String,
    /// The cluster.
    pub cluster_id: Option<String>,
    /// The smallest similarity among its rows.
    pub similarity: Option<f64>,
    /// The survivor as it is.
    pub survivor: RowView,
    /// Whether the survivor stays as it is.
    pub survivor_protected: bool,
    /// Categories that the survivor newly gets.
    pub categories_gained: Vec<String>,
    /// The survivor's importance afterwards.
    pub importance_after: f64,
    /// The survivor's access count afterwards.
    pub access_count_after: i64,
    /// What folds into it: the first 20.
    pub absorbed: Vec<AbsorbedSample>,
    /// Absorbed rows beyond those.
    pub absorbed_not_shown: u64,
    /// What the survivor lacks.
    pub lacks: Vec<String>,
}

/// An absorbed row with its text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AbsorbedSample {
    /// The row.
    pub row: RowView,
    /// Its similarity to the survivor.
    pub similarity: Option<f64>,
    /// From its words to the survivor's; empty where the texts are equal.
    pub diff: Vec<Piece>,
}

/// A memory, fit to be shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RowView {
    /// Its id.
    pub id: String,
    /// Its creation time (RFC 3339), or the store's unreadable text.
    pub created_at: String,
    /// Its age in days.
    pub age_days: Option<f64>,
    /// The source before any consolidation.
    pub root_source: String,
    /// Its importance.
    pub importance: f64,
    /// Its access count.
    pub access_count: i64,
    /// Its categories.
    pub categories: Vec<String>,
    /// The beginning of its text.
    pub excerpt: String,
}

/// Two memories side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairSample {
    /// The older one.
    pub older: RowView,
    /// The newer one.
    pub newer: RowView,
    /// Their similarity.
    pub similarity: f64,
    /// How contradictory, where that was judged.
    pub score: Option<f64>,
    /// The guard's verdict, where it keeps them apart.
    pub verdict: Option<String>,
    /// From the older's words to the newer's.
    pub diff: Vec<Piece>,
}

/// Linked pairs at another threshold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sensitivity {
    /// Change of the threshold.
    pub delta: f64,
    /// Linked pairs then.
    pub pairs: u64,
}

/// What protection keeps.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ProtectedRows {
    /// Protected live memories in scope.
    pub total: u64,
    /// By kind of protection.
    pub by_kind: BTreeMap<String, u64>,
    /// The newest 100.
    pub rows: Vec<ProtectedRow>,
}

/// A protected memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProtectedRow {
    /// Its id.
    pub id: String,
    /// Why.
    pub reason: String,
}

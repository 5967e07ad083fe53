//! The report's fields, and word diffs: from the removed text to the kept one.

use crate::memory::named;
use std::collections::BTreeMap;

use crate::runs::Executed;
use memfold_index::MeasuredRecall;
use memfold_simd::Similarity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::{Action, ActionType, Risk};

/// Version of the report's format.
pub(crate) const REPORT_SCHEMA_VERSION: u32 = 1;

named! {
    /// Whether a run wrote to the store.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Mode {
        /// It planned only.
        DryRun = "dry_run",
        /// It applied its plan.
        Execute = "execute",
    }
}

impl Mode {
    /// Returns the mode of a run that wrote, or did not.
    #[must_use]
    pub const fn of(wrote: bool) -> Self {
        if wrote { Self::Execute } else { Self::DryRun }
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
    /// What was searched, where it was not the whole store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incremental: Option<Incremental>,
    /// What models decided about proposals, where they were asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judged: Option<Judged>,
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

/// What a run searched that looked only at what changed. All other figures of its report are those of the memories
/// that were compared, but for `loaded.memories` and `loaded.live`, which count the whole store.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Incremental {
    /// The run that had searched everything before.
    pub since_run: String,
    /// Live memories that are new or changed since.
    pub changed: u64,
    /// Memories that were compared: these, and those that stand near them.
    pub compared: u64,
    /// Live memories of the store.
    pub live: u64,
}

/// What models decided about proposals.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Judged {
    /// Proposals they were asked about.
    pub proposals: u64,
    /// Of these, with a merge that is planned now.
    pub merged: u64,
    /// Of these, kept separate.
    pub kept_separate: u64,
    /// Of these, left for a person.
    pub left: u64,
    /// Votes that were recorded before.
    pub votes_recorded: u64,
    /// Votes that were given now.
    pub votes_given: u64,
    /// Votes that are missing.
    pub votes_missing: u64,
    /// Why votes are missing, with how many.
    pub failures: BTreeMap<String, u64>,
    /// Why opinions were not followed, with how many.
    pub refusals: BTreeMap<String, u64>,
    /// Requests.
    pub requests: u64,
    /// Tokens that were sent.
    pub prompt_tokens: u64,
    /// Tokens of the answers.
    pub completion_tokens: u64,
    /// What the answers cost, in the currency of the configured prices; 0 where none are.
    pub cost: f64,
    /// Groups that models were asked about, by task.
    pub groups: BTreeMap<String, u64>,
    /// Statements of summaries that no source states, and that were dropped.
    pub statements_dropped: u64,
    /// Memories that stand among too many near ones to be summarised.
    pub left_out: u64,
    /// What became of each group, in their order.
    pub rulings: Vec<Ruling>,
}

/// What became of memories that a model was asked about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ruling {
    /// `merge`, `rewrite`, `summarize`, `supersede`, `keep_separate`, `skip`, `refused` or `unanswered`.
    pub action: String,
    /// The memories, of a merge the survivor first.
    pub ids: Vec<String>,
    /// Who said it; empty where nobody did.
    pub judge: String,
    /// Why: the model's words, or why they were not followed.
    pub reason: String,
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
    /// Groups that may say the same and that the cap on proposals left out.
    pub proposals_deferred: u64,
    /// How complete `pairs` is, of the memories and similarities that were compared.
    pub pair_recall: Recall,
    /// Memories near to so many others that they were compared with none.
    #[serde(default)]
    pub series_memories: u64,
    /// The similarity from which memories were compared, where too many are near to each other at the merge threshold.
    #[serde(default)]
    pub compared_from: Option<f64>,
}

impl Detected {
    /// Says which pairs were looked for where some were not: `from a similarity of 0.970 on`.
    #[must_use]
    pub fn compared(&self) -> Option<String> {
        let from = self.compared_from.map(|from| format!("from a similarity of {from:.3} on"));
        let series = (self.series_memories > 0).then(|| {
            let plural = if self.series_memories == 1 { "memory" } else { "memories" };
            format!("without those of {} {plural} in series", super::grouped(self.series_memories))
        });
        let parts: Vec<String> = from.into_iter().chain(series).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
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
    /// New memories that take the place of others.
    pub rewrite: u64,
    /// Summaries.
    pub summarize: u64,
    /// Memories that hold in the place of older ones.
    pub supersede: u64,
    /// Merges that a person should decide.
    pub propose_merge: u64,
    /// Rows left alone.
    pub noop: u64,
}

impl Planned {
    /// Counts the actions of each type.
    #[must_use]
    pub fn count(count: impl Fn(ActionType) -> u64) -> Self {
        let mut planned = Self::default();
        for action in ActionType::ALL {
            *planned.of_mut(action) = count(action);
        }
        planned
    }

    const fn of_mut(&mut self, action: ActionType) -> &mut u64 {
        match action {
            ActionType::Merge => &mut self.merge,
            ActionType::Promote => &mut self.promote,
            ActionType::Archive => &mut self.archive,
            ActionType::FlagContradiction => &mut self.flag_contradiction,
            ActionType::Rewrite => &mut self.rewrite,
            ActionType::Summarize => &mut self.summarize,
            ActionType::Supersede => &mut self.supersede,
            ActionType::ProposeMerge => &mut self.propose_merge,
            ActionType::Noop => &mut self.noop,
        }
    }

    /// Returns each count with its name in documents.
    #[must_use]
    pub(crate) fn by_type(mut self) -> [(&'static str, u64); 9] {
        ActionType::ALL.map(|action| (action.name(), *self.of_mut(action)))
    }

    /// Returns how many actions change the store without further questions.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.by_type().iter().map(|(_, count)| count).sum::<u64>() - self.propose_merge - self.noop
    }
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
    /// Asking models, and what comes of their answers.
    pub judge: f64,
    /// Writing to the store.
    pub execute: f64,
    /// Assigning tiers, where they are stored.
    pub tier: f64,
    /// From start to report.
    pub total: f64,
}

impl Seconds {
    /// Returns the time of each stage with its name.
    pub(super) const fn stages(&self) -> [(&'static str, f64); 9] {
        [
            ("load", self.load),
            ("export", self.export),
            ("join", self.join),
            ("cluster", self.cluster),
            ("plan", self.plan),
            ("judge", self.judge),
            ("execute", self.execute),
            ("tier", self.tier),
            ("total", self.total),
        ]
    }
}

/// Figures derived from the plan.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Stats {
    /// Live memories after the plan.
    pub live_after: u64,
    /// Memories that merge into others, by the risk of their merge.
    #[serde(alias = "absorbed")]
    pub merged: MergedByRisk,
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

/// Counts of merged memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct MergedByRisk {
    /// In merges of equal texts.
    pub identical: u64,
    /// In merges that change small words only.
    pub trivial: u64,
    /// In other merges.
    pub reworded: u64,
}

impl MergedByRisk {
    /// Returns the count of a risk.
    pub(super) const fn of(&mut self, risk: Risk) -> &mut u64 {
        match risk {
            Risk::Identical => &mut self.identical,
            Risk::Trivial => &mut self.trivial,
            Risk::Reworded => &mut self.reworded,
        }
    }

    /// Returns each count with the name of its risk.
    pub(super) fn by_risk(mut self) -> [(&'static str, u64); 3] {
        Risk::ALL.map(|risk| (risk.name(), *self.of(risk)))
    }
}

/// Excerpts for people.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Samples {
    /// Merges, in plan order: of each risk at most as many as the report shows.
    pub merges: Vec<MergeSample>,
    /// Merges without an excerpt here, by risk.
    pub merges_not_shown: MergedByRisk,
    /// The flagged contradictions.
    pub contradictions: Vec<PairSample>,
    /// Merges that a person should decide.
    pub proposals: Vec<MergeSample>,
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
    /// Of a proposal: how probable it is that its rows say the same, in hundredths.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub probability: Option<f64>,
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
    /// The rows that merge into it: the first 20.
    #[serde(alias = "absorbed")]
    pub merged: Vec<MergedSample>,
    /// How many more there are.
    #[serde(alias = "absorbed_not_shown")]
    pub merged_not_shown: u64,
    /// The steps of each proof but for what is equal.
    pub proofs: Vec<String>,
}

/// A merged row with its text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MergedSample {
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
    /// Of a flag: `contradiction` or `update`.
    pub kind: Option<String>,
    /// Of a flag: the name of the pair, for `memfold review`.
    pub key: Option<String>,
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

/// A recall and how it is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recall {
    /// How it is known.
    pub kind: RecallKind,
    /// The value or its estimate.
    pub value: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the 95 % interval.
    pub high: f64,
    /// Distinct vectors whose pairs were all looked for, where it is sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled_rows: Option<u64>,
    /// How many pairs these have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled_pairs: Option<u64>,
}

/// How a recall is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecallKind {
    /// Every pair was looked at or excluded by proof.
    Exact,
    /// From an exact audit of a sample.
    Sampled,
}

impl From<Option<MeasuredRecall>> for Recall {
    /// Takes the measurement; `None`: the join was exact.
    fn from(measured: Option<MeasuredRecall>) -> Self {
        let exact = Self {
            kind: RecallKind::Exact,
            value: 1.0,
            low: 1.0,
            high: 1.0,
            sampled_rows: None,
            sampled_pairs: None,
        };
        measured.map_or(exact, |measured| Self {
            kind: RecallKind::Sampled,
            value: measured.value,
            low: measured.low,
            high: measured.high,
            sampled_rows: Some(measured.sampled_rows),
            sampled_pairs: Some(measured.sampled_pairs),
        })
    }
}

impl Recall {
    /// Returns the estimate and its interval, `0.998 (0.995 to 1.000)`: cut to `digits`, never rounded up but at the
    /// upper end.
    #[must_use]
    pub fn estimate(&self, digits: usize) -> String {
        let (value, low) = (cut(self.value, digits), cut(self.low, digits));
        format!("{value} ({low} to {:.digits$})", self.high)
    }

    /// Returns a note for a person about the pairs at or above `threshold`, where fewer than the share `target` of them
    /// may have been found: where the interval's lower end is below it.
    #[must_use]
    pub fn remark(&self, threshold: Similarity, target: f64) -> Option<String> {
        if self.low >= target {
            return None;
        }
        let percent = |share: f64| format!("{} %", cut(100.0 * share, 2));
        let (value, target_percent) = (percent(self.value), percent(target));
        let interval =
            format!("95 % interval {} to {}", cut(100.0 * self.low, 2), percent(self.high));
        let found = if self.sampled_pairs == Some(0) {
            format!(
                "no audited vector has another at or above {threshold}: how many pairs the graph found there is not \
                 known"
            )
        } else if self.value < target {
            format!(
                "the graph found {value} of the pairs at or above {threshold} ({interval}), less than {target_percent}"
            )
        } else {
            format!(
                "the graph found {value} of the audited pairs at or above {threshold}; they are too few to tell that it \
                 found {target_percent} of all ({interval})"
            )
        };
        Some(format!("{found}: use --method exact"))
    }
}

/// Writes a share with its further digits cut off.
fn cut(value: f64, digits: usize) -> String {
    let scale = 10_f64.powi(digits as i32);
    // A value of 0.29 to the last bit may be a little less than 29 hundredths.
    format!("{:.digits$}", (value * scale + 1e-9).floor() / scale)
}

/// What a piece of a diff is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PieceKind {
    /// In both texts.
    Same,
    /// In the first text only.
    Gone,
    /// In the second text only.
    New,
}

/// Words in a row of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Piece {
    /// What they are.
    pub kind: PieceKind,
    /// The words, with single spaces between.
    pub text: String,
}

/// Tables larger than this are not filled: the differing middles then stand as a whole.
const TABLE_CELLS_MAX: usize = 250_000;

/// Returns the pieces that lead from one text to another, by a longest common subsequence of words.
///
/// Quadratic in the words between the common beginning and the common end, up to 250,000 cells; beyond
/// that linear: everything between is gone and new.
#[must_use]
pub fn word_diff(from: &str, to: &str) -> Vec<Piece> {
    let from: Vec<&str> = from.split_whitespace().collect();
    let to: Vec<&str> = to.split_whitespace().collect();
    let head = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let (from_rest, to_rest) = (&from[head..], &to[head..]);
    let tail = from_rest.iter().rev().zip(to_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let (gone, end) = from_rest.split_at(from_rest.len() - tail);
    let new = &to_rest[..to_rest.len() - tail];

    let mut pieces = Pieces::default();
    from[..head].iter().for_each(|word| pieces.push(PieceKind::Same, word));
    if gone.len() * new.len() <= TABLE_CELLS_MAX {
        push_subsequence(&mut pieces, gone, new);
    } else {
        gone.iter().for_each(|word| pieces.push(PieceKind::Gone, word));
        new.iter().for_each(|word| pieces.push(PieceKind::New, word));
    }
    end.iter().for_each(|word| pieces.push(PieceKind::Same, word));
    pieces.0
}

#[derive(Default)]
struct Pieces(Vec<Piece>);

impl Pieces {
    fn push(&mut self, kind: PieceKind, word: &str) {
        match self.0.last_mut() {
            Some(last) if last.kind == kind => {
                last.text.push(' ');
                last.text.push_str(word);
            }
            _ => self.0.push(Piece { kind, text: word.to_owned() }),
        }
    }
}

/// Walks a longest common subsequence; removed words stand before added ones.
fn push_subsequence(pieces: &mut Pieces, gone: &[&str], new: &[&str]) {
    let width = new.len() + 1;
    let mut lengths = vec![0_u32; (gone.len() + 1) * width];
    for i in (0..gone.len()).rev() {
        for j in (0..new.len()).rev() {
            lengths[i * width + j] = if gone[i] == new[j] {
                lengths[(i + 1) * width + j + 1] + 1
            } else {
                lengths[(i + 1) * width + j].max(lengths[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < gone.len() || j < new.len() {
        if i < gone.len() && j < new.len() && gone[i] == new[j] {
            pieces.push(PieceKind::Same, gone[i]);
            (i, j) = (i + 1, j + 1);
        } else if j == new.len()
            || (i < gone.len() && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1])
        {
            pieces.push(PieceKind::Gone, gone[i]);
            i += 1;
        } else {
            pieces.push(PieceKind::New, new[j]);
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn measured(value: f64, low: f64, sampled_pairs: u64) -> Recall {
        let (high, sampled_rows, pairs_expected) = (1.0, 100, 50.0);
        Recall::from(Some(MeasuredRecall {
            value,
            low,
            high,
            sampled_rows,
            sampled_pairs,
            pairs_expected,
        }))
    }

    fn remark(recall: &Recall) -> String {
        recall.remark(Similarity::clamped(0.95).unwrap(), 0.99).unwrap_or_default()
    }

    #[test]
    fn an_estimate_is_never_rounded_up() {
        assert_eq!(measured(0.999_96, 0.29, 9).estimate(3), "0.999 (0.290 to 1.000)");
        assert_eq!(measured(1.0, 0.996_49, 9).estimate(4), "1.0000 (0.9964 to 1.0000)");
    }

    #[test]
    fn what_may_be_below_the_target_is_said() {
        assert_eq!(remark(&Recall::from(None)), "");
        assert_eq!(remark(&measured(1.0, 0.99, 9)), "");
        assert_eq!(
            remark(&measured(0.971, 0.9602, 900)),
            "the graph found 97.10 % of the pairs at or above 0.95 (95 % interval 96.02 to 100.00 %), less than 99.00 %: \
             use --method exact"
        );
        let few = remark(&measured(1.0, 0.95, 30));
        assert!(few.contains("too few to tell that it found 99.00 % of all"), "{few}");
        assert!(remark(&measured(1.0, 0.0, 0)).contains("is not known: use --method exact"));
    }

    fn side(pieces: &[Piece], without: PieceKind) -> String {
        let words: Vec<&str> =
            pieces.iter().filter(|p| p.kind != without).map(|p| p.text.as_str()).collect();
        words.join(" ")
    }

    #[test]
    fn what_goes_stands_before_what_comes() {
        let pieces = word_diff("port is 8080 now", "port is 9090 now");
        let shown: Vec<_> = pieces.iter().map(|p| (p.kind, p.text.as_str())).collect();
        use PieceKind::{Gone, New, Same};
        assert_eq!(shown, [(Same, "port is"), (Gone, "8080"), (New, "9090"), (Same, "now")]);
    }

    #[test]
    fn long_texts_are_diffed_as_a_whole() {
        let (from, to) = ("a ".repeat(2_000) + "x", "b ".repeat(2_000) + "x");
        assert_eq!(word_diff(&from, &to).len(), 3);
    }

    proptest! {
        #[test]
        fn both_texts_can_be_read_back(from in "([abc] ){0,12}", to in "([abc] ){0,12}") {
            let pieces = word_diff(&from, &to);
            let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            prop_assert_eq!(side(&pieces, PieceKind::New), plain(&from));
            prop_assert_eq!(side(&pieces, PieceKind::Gone), plain(&to));
        }
    }
}

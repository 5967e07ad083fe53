//! From a run to its report; [`AppliedReport`]: the effects of applying a saved plan. Nothing was detected in such a run, so it says
//! nothing of pairs, clusters and recall: the report of the plan does.

use std::collections::{BTreeMap, BTreeSet};

use crate::memory::CategoryList;
use crate::memory::{CreatedAt, Memory, MemoryId, MemoryIndex, Status};
use crate::runs::RunState;
use crate::time::Instant;
use crate::{SkipReason, Snapshot};
use jiff::Timestamp;
use memfold_guard::text;
use memfold_simd::Similarity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::markdown::{cell, heading_row};
use super::{
    Detected, Executed, Incremental, Loaded, MergeSample, MergedByRisk, MergedSample, Mode,
    PairSample, Planned, ProtectedRow, ProtectedRows, REPORT_SCHEMA_VERSION, Recall, Report,
    Reported, RowView, Samples, ScopeView, Seconds, Sensitivity, Stats, UnknownCategory, word_diff,
};
use crate::detect::Detection;
use crate::plan::{
    Action, ActionState, ActionType, Decided, Risk, SavedPlan, SimilarityOf, UPDATE, action_label,
    flag_key, plan_digest,
};
use crate::policy::{Policy, name_of, nearest};

/// A run, as far as a report tells of it.
pub struct Run<'a> {
    /// The store as read.
    pub snapshot: &'a Snapshot,
    /// The detections.
    pub detection: &'a Detection,
    /// What was decided.
    pub decided: &'a Decided,
    /// The policy.
    pub policy: &'a Policy,
    /// Canonical similarity.
    pub similarity: &'a SimilarityOf<'a>,
    /// The searched part of the store, where it is not all.
    pub incremental: Option<Incremental>,
    /// The run's time.
    pub now: Instant,
    /// Whether the store was written to.
    pub mode: Mode,
    /// The change of it.
    pub executed: Executed,
    /// Wall time by stage.
    pub seconds: Seconds,
    /// The largest resident size.
    pub peak_rss_bytes: u64,
    /// The largest anonymous size.
    pub peak_anon_bytes: u64,
    /// Worker threads.
    pub threads: usize,
    /// The instruction set of the kernels.
    pub isa: &'a str,
}

/// Returns the name of a run: its time to the second in UTC, and 8 hex digits of a hash of its inputs.
#[must_use]
pub fn run_id(store_id: &str, now: Instant, config_hash: &str) -> String {
    let seconds = Timestamp::from_microsecond(now.0)
        .map_or_else(|_| format!("{}us", now.0), |at| at.strftime("%Y%m%dT%H%M%SZ").to_string());
    let mut hasher = blake3::Hasher::new();
    for part in [store_id.as_bytes(), &now.0.to_le_bytes(), config_hash.as_bytes()] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    format!("{seconds}-{}", &hasher.finalize().to_hex()[..8])
}

/// Protected rows that are listed.
const PROTECTED_SHOWN_MAX: usize = 100;

/// Characters for one token: English has about four, so savings are rather understated.
const CHARS_PER_TOKEN: u64 = 5;

impl From<&Run<'_>> for Report {
    fn from(run: &Run<'_>) -> Self {
        let Decided { plan, .. } = run.decided;
        let sampler = Sampler::new(run);
        let loaded = loaded(run);
        let near_misses = run.detection.near_misses.iter().map(|miss| {
            let memory = |index: crate::memory::MemoryIndex| &run.snapshot.memories[index.index()];
            let mut pair =
                sampler.pair(memory(miss.older), memory(miss.newer), miss.similarity.get());
            if let Some(judgement) = &miss.kept_apart {
                pair.score = Some(judgement.contradiction_score);
                pair.verdict = Some(name_of(judgement.verdict));
            }
            pair
        });
        let sensitivity =
            run.detection.sensitivity.iter().map(|&(delta, pairs)| Sensitivity { delta, pairs });
        let notes = [&run.snapshot.notes, &run.detection.notes, &run.decided.notes];
        Self {
            schema_version: REPORT_SCHEMA_VERSION,
            run_id: run_id(&plan.store_id, run.now, &plan.config_hash),
            mode: run.mode,
            plan_digest: plan_digest(plan),
            config_hash: plan.config_hash.clone(),
            scope: scope(run),
            detected: detected(run),
            planned: Planned::count(|action| plan.count(action)),
            incremental: run.incremental.clone(),
            judged: None,
            executed: run.executed,
            seconds: run.seconds,
            peak_rss_bytes: run.peak_rss_bytes,
            peak_anon_bytes: run.peak_anon_bytes,
            threads: run.threads,
            isa: run.isa.to_owned(),
            stats: stats(run, &sampler, loaded.live),
            notes: notes.into_iter().flatten().cloned().collect(),
            samples: sampler.samples(),
            near_misses: near_misses.collect(),
            sensitivity: sensitivity.collect(),
            protected: protected(run),
            skipped_examples: run
                .snapshot
                .skip_examples
                .iter()
                .map(|(reason, example)| (name_of(reason), text::excerpt(example, 200)))
                .collect(),
            actions: plan.actions.clone(),
            loaded,
        }
    }
}

fn loaded(run: &Run<'_>) -> Loaded {
    let live = || run.snapshot.memories.iter().filter(|memory| memory.status == Status::Live);
    let mut skipped: BTreeMap<String, u64> =
        run.snapshot.skipped.iter().map(|(reason, &count)| (name_of(reason), count)).collect();
    if run.detection.out_of_scope > 0 {
        skipped.insert(name_of(SkipReason::OutOfScope), run.detection.out_of_scope);
    }
    Loaded {
        memories: run.snapshot.rows_total,
        live: run.incremental.as_ref().map_or_else(|| live().count() as u64, |part| part.live),
        with_embedding: live().filter(|memory| memory.embedding.vector().is_some()).count() as u64,
        skipped,
    }
}

fn detected(run: &Run<'_>) -> Detected {
    let Detection { clusters, duplicate_groups, pairs, .. } = run.detection;
    let listed = run.detection.contradictions.len() as u64;
    let contradiction_pairs = run.detection.contradiction_pairs.max(listed);
    Detected {
        clusters: clusters.len() as u64,
        duplicate_groups: *duplicate_groups,
        pairs: *pairs,
        contradiction_pairs,
        flags_open: run.snapshot.decisions.open_flags.len() as u64,
        flags_deferred: run.decided.flags_deferred + (contradiction_pairs - listed),
        proposals_deferred: run.decided.proposals_deferred,
        pair_recall: Recall::from(run.detection.pair_recall),
        series_memories: run.detection.series_rows,
        compared_from: run.detection.compared_from.map(Similarity::get),
    }
}

fn scope(run: &Run<'_>) -> ScopeView {
    let scope = &run.policy.scope;
    ScopeView {
        categories: scope.categories.clone(),
        since: scope.since.map(Instant::to_rfc3339),
        until: scope.until.map(Instant::to_rfc3339),
        sources: scope.sources.clone(),
        unknown_categories: unknown_categories(&scope.categories, run.snapshot),
    }
}

/// The wanted categories that no live memory has.
fn unknown_categories(wanted: &[String], snapshot: &Snapshot) -> Vec<UnknownCategory> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let live = snapshot.memories.iter().filter(|memory| memory.status == Status::Live);
    let known: BTreeSet<&str> = live.flat_map(|m| m.categories.iter().map(AsRef::as_ref)).collect();
    let unknown = wanted.iter().filter(|category| !known.contains(category.as_str()));
    unknown
        .map(|category| UnknownCategory {
            category: category.clone(),
            nearest: nearest(category, known.iter().copied()).map(str::to_owned),
        })
        .collect()
}

fn stats(run: &Run<'_>, sampler: &Sampler<'_>, live: u64) -> Stats {
    let chars_of = |id| {
        let chars = |memory: &Memory| memory.content.chars().count() as u64;
        sampler.memory(id).map_or(0, |(_, memory)| chars(memory))
    };
    let mut stats = Stats { live_after: live, ..Stats::default() };
    let mut chars_saved = 0_u64;
    for action in &run.decided.plan.actions {
        let rule_id = || action.rationale.rule_id.clone();
        match action.action {
            ActionType::Merge | ActionType::Rewrite => {
                *stats.merges_by_rule.entry(rule_id()).or_default() += 1;
                *stats.merged.of(action.risk) += action.merged_ids().len() as u64;
            }
            ActionType::Noop => *stats.noops_by_cause.entry(rule_id()).or_default() += 1,
            ActionType::ProposeMerge => continue,
            ActionType::Promote
            | ActionType::Archive
            | ActionType::FlagContradiction
            | ActionType::Summarize
            | ActionType::Supersede => {}
        }
        let new = action.new_content.as_ref().map_or(0, |text| text.chars().count() as u64);
        stats.live_after += u64::from(action.new_content.is_some());
        let leaving = action.leaving_ids().count() as u64;
        // The live rows of a run over changed memories are counted before others wrote.
        stats.live_after = stats.live_after.saturating_sub(leaving);
        if action.action != ActionType::Summarize {
            let gone = action.leaving_ids().map(chars_of).sum::<u64>();
            chars_saved += gone.saturating_sub(new);
        }
    }
    let verdicts = run.detection.verdicts.iter();
    stats.verdicts = verdicts.map(|(verdict, &count)| ((*verdict).to_owned(), count)).collect();
    stats.deferred_patterns.clone_from(&run.decided.deferred_patterns);
    stats.tokens_saved = chars_saved / CHARS_PER_TOKEN;
    stats
}

fn protected(run: &Run<'_>) -> ProtectedRows {
    let mut by_kind = BTreeMap::new();
    for (_, by) in &run.decided.protected {
        *by_kind.entry(by.kind().to_owned()).or_default() += 1;
    }
    let shown = run.decided.protected.iter().take(PROTECTED_SHOWN_MAX);
    let row = |(index, by): &(crate::memory::MemoryIndex, crate::plan::ProtectedBy)| ProtectedRow {
        id: text::excerpt(run.snapshot.memories[index.index()].id.as_str(), 120),
        reason: by.to_string(),
    };
    ProtectedRows {
        total: run.decided.protected.len() as u64,
        by_kind,
        rows: shown.map(row).collect(),
    }
}

/// Merges shown with their texts, by risk: a person reads the reworded ones.
const fn shown_max(risk: Risk) -> u64 {
    match risk {
        Risk::Identical => 50,
        Risk::Trivial => 200,
        Risk::Reworded => 500,
    }
}

/// Merged rows shown of one merge.
const MERGED_SHOWN_MAX: usize = 20;

/// Characters of a text that are compared and shown.
const EXCERPT_CHARS: usize = 600;

/// Characters of ids, sources and categories that are shown.
const NAME_CHARS: usize = 120;

/// Looks up the shown parts of memories.
pub(super) struct Sampler<'a> {
    run: &'a Run<'a>,
    by_id: BTreeMap<&'a MemoryId, MemoryIndex>,
}

impl<'a> Sampler<'a> {
    pub(super) fn new(run: &'a Run<'a>) -> Self {
        let memories = run.snapshot.memories.iter().zip(0_u32..);
        Self { run, by_id: memories.map(|(memory, at)| (&memory.id, MemoryIndex(at))).collect() }
    }

    pub(super) fn samples(&self) -> Samples {
        let mut samples = Samples::default();
        let mut shown = MergedByRisk::default();
        for (position, action) in self.run.decided.plan.actions.iter().enumerate() {
            match action.action {
                ActionType::Merge if *shown.of(action.risk) < shown_max(action.risk) => {
                    *shown.of(action.risk) += 1;
                    samples.merges.extend(self.merge(position, action));
                }
                ActionType::Merge => *samples.merges_not_shown.of(action.risk) += 1,
                ActionType::FlagContradiction => samples.contradictions.extend(self.flag(action)),
                ActionType::ProposeMerge => samples.proposals.extend(self.merge(position, action)),
                _ => {}
            }
        }
        samples
    }

    pub(super) fn memory(&self, id: &MemoryId) -> Option<(MemoryIndex, &'a Memory)> {
        let index = *self.by_id.get(id)?;
        Some((index, &self.run.snapshot.memories[index.index()]))
    }

    fn merge(&self, position: usize, action: &Action) -> Option<MergeSample> {
        let (survivor_index, survivor) = self.memory(action.target_ids.first()?)?;
        let all: Vec<_> = action.merged_ids().iter().filter_map(|id| self.memory(id)).collect();
        let gained = action.new_categories.iter().flatten();
        let own: CategoryList = survivor.categories.iter().collect();
        let gained = gained.filter(|category| !own.has(category));
        let summed = all
            .iter()
            .fold(survivor.access_count, |sum, (_, row)| sum.saturating_add(row.access_count));
        let merged = all.iter().take(MERGED_SHOWN_MAX).map(|&(index, row)| MergedSample {
            row: self.row(row),
            similarity: (self.run.similarity)(survivor_index, index).map(|s| s.get()),
            diff: diff(row, survivor),
        });
        Some(MergeSample {
            action: action_label(position),
            risk: action.risk,
            rule_id: action.rationale.rule_id.clone(),
            cluster_id: action.rationale.evidence.cluster_id.clone(),
            similarity: action.rationale.evidence.similarity,
            probability: action.rationale.evidence.probability,
            survivor: self.row(survivor),
            survivor_protected: action.survivor_protected,
            categories_gained: gained.map(|category| text::excerpt(category, NAME_CHARS)).collect(),
            importance_after: action.new_importance.unwrap_or(survivor.importance),
            access_count_after: if action.survivor_protected {
                survivor.access_count
            } else {
                summed
            },
            merged: merged.collect(),
            merged_not_shown: all.len().saturating_sub(MERGED_SHOWN_MAX) as u64,
            proofs: action.rationale.evidence.differences.clone(),
        })
    }

    fn flag(&self, action: &Action) -> Option<PairSample> {
        let [older, newer] = action.target_ids.as_slice() else { return None };
        let similarity = action.rationale.evidence.similarity?;
        let mut pair = self.pair(self.memory(older)?.1, self.memory(newer)?.1, similarity);
        pair.score = action.rationale.score;
        let signals = &action.rationale.evidence.contradiction_signals;
        let is_update = signals.first().is_some_and(|sign| sign == UPDATE);
        pair.kind = Some(if is_update { UPDATE } else { "contradiction" }.to_owned());
        pair.key = Some(flag_key(older, newer));
        Some(pair)
    }

    pub(super) fn pair(&self, older: &Memory, newer: &Memory, similarity: f64) -> PairSample {
        PairSample {
            older: self.row(older),
            newer: self.row(newer),
            similarity,
            kind: None,
            key: None,
            score: None,
            verdict: None,
            diff: diff(older, newer),
        }
    }

    fn row(&self, memory: &Memory) -> RowView {
        let name = |name: &str| text::excerpt(name, NAME_CHARS);
        let (created_at, age_days) = match &memory.created_at {
            CreatedAt::At(at) => {
                (at.to_rfc3339(), Some((self.run.now.days_since(*at) * 10.0).round() / 10.0))
            }
            CreatedAt::Unreadable(unreadable) => (name(unreadable), None),
        };
        RowView {
            id: name(memory.id.as_str()),
            created_at,
            age_days,
            root_source: name(&memory.root_source),
            importance: memory.importance,
            access_count: memory.access_count,
            categories: memory.categories.iter().map(|category| name(category)).collect(),
            excerpt: text::excerpt(&memory.content, EXCERPT_CHARS),
        }
    }
}

/// The word diff of two excerpts; empty where the shown parts are equal.
fn diff(from: &Memory, to: &Memory) -> Vec<super::Piece> {
    let [from, to] = [from, to].map(|memory| text::excerpt(&memory.content, EXCERPT_CHARS));
    if from == to { Vec::new() } else { word_diff(&from, &to) }
}

/// The most actions that the page for people names.
const ACTIONS_SHOWN_MAX: usize = 1_000;

/// The effects of applying a saved plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AppliedReport {
    /// Version of this format.
    pub schema_version: u32,
    /// `YYYYMMDDTHHMMSSZ-<8 hex>`.
    pub run_id: String,
    /// Always that the store was written to.
    pub mode: Mode,
    /// The plan's name in the store.
    pub plan_id: String,
    /// sha256 of the canonical JSON of the plan's actions as they were made.
    pub plan_digest: String,
    /// The time the plan was made for, RFC 3339.
    pub planned_for: String,
    /// sha256 of the semantic configuration.
    pub config_hash: String,
    /// The plan's actions by type.
    pub planned: Planned,
    /// The changes, by unit.
    pub executed: Executed,
    /// Units that were not tried.
    pub remaining: u64,
    /// How the run ended.
    pub state: String,
    /// Memories merged into others, by the risk of their merge.
    #[serde(alias = "absorbed")]
    pub merged: MergedByRisk,
    /// Wall time of writing to the store.
    pub seconds_execute: f64,
    /// The plan's actions that were tried, in plan order.
    pub actions: Vec<AppliedAction>,
}

/// An action and its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AppliedAction {
    /// The name that people use: `a1`, `a2`, …
    pub label: String,
    /// Whether it was applied in this run.
    pub applied: bool,
    /// Why it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The action, as amended in a review.
    pub action: Action,
}

/// A run that applied a saved plan, as far as a report tells of it.
#[derive(Debug, Clone)]
pub struct AppliedRun<'a> {
    /// The run.
    pub run_id: &'a str,
    /// The positions of the actions that were tried, each with the reason why it was not applied.
    pub tried: BTreeMap<usize, Option<&'a str>>,
    /// Units by result.
    pub executed: Executed,
    /// Units that were not tried.
    pub remaining: u64,
    /// How the run ended.
    pub state: RunState,
    /// Wall time of writing to the store.
    pub seconds_execute: f64,
}

impl AppliedReport {
    /// Tells of a run that applied a plan.
    #[must_use]
    pub fn of(saved: &SavedPlan, run: AppliedRun<'_>) -> Self {
        let AppliedRun { run_id, tried, executed, remaining, state, seconds_execute } = run;
        let mut merged = MergedByRisk::default();
        let mut actions = Vec::with_capacity(tried.len());
        for (position, reason) in tried {
            let Some(action) = saved.actions.get(position) else { continue };
            let effective = action.effective();
            if effective.action.merges() && reason.is_none() {
                *merged.of(effective.risk) += effective.merged_ids().len() as u64;
            }
            actions.push(AppliedAction {
                label: action.label(),
                applied: reason.is_none(),
                reason: reason.map(str::to_owned),
                action: effective.clone(),
            });
        }
        Self {
            schema_version: REPORT_SCHEMA_VERSION,
            run_id: run_id.to_owned(),
            mode: Mode::Execute,
            plan_id: saved.plan_id.clone(),
            plan_digest: saved.plan_digest.clone(),
            planned_for: saved.plan.now.clone(),
            config_hash: saved.plan.config_hash.clone(),
            planned: planned(saved),
            executed,
            remaining,
            state: state.name().to_owned(),
            merged,
            seconds_execute,
            actions,
        }
    }

    /// Tells whether all that was tried was applied, and nothing interrupted the run.
    pub(crate) fn is_whole(&self) -> bool {
        self.state == RunState::Done.name()
    }
}

/// The changes of a plan, as reviewed.
fn planned(saved: &SavedPlan) -> Planned {
    let count = |wanted| {
        let of_type = saved.actions.iter().filter(|a| a.effective().action == wanted);
        of_type.filter(|action| action.state != ActionState::Rejected).count() as u64
    };
    Planned::count(count)
}

impl Reported for AppliedReport {
    fn run_id(&self) -> &str {
        &self.run_id
    }

    fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec_pretty(self)
    }

    fn to_markdown(&self) -> String {
        let mut page = format!(
            "# Consolidation {}\n\nplan {} of {}, applied: {}\n\n",
            self.run_id, self.plan_id, self.planned_for, self.state
        );
        page.push_str(&heading_row(["what", "count"]));
        for (name, count) in [
            ("units applied", self.executed.applied),
            ("stale", self.executed.stale),
            ("failed", self.executed.failed),
            ("not tried", self.remaining),
        ] {
            page.push_str(&format!("| {name} | {count} |\n"));
        }
        for (risk, count) in self.merged.by_risk() {
            page.push_str(&format!("| merged, {risk} | {count} |\n"));
        }
        page.push_str("\n## Actions\n\n");
        page.push_str(&heading_row(["action", "memories"]));
        for action in self.actions.iter().take(ACTIONS_SHOWN_MAX) {
            page.push_str(&action.row());
        }
        let hidden = self.actions.len().saturating_sub(ACTIONS_SHOWN_MAX);
        if hidden > 0 {
            page.push_str(&format!("\n{hidden} more stand in the JSON report only.\n"));
        }
        page
    }
}

impl AppliedAction {
    fn row(&self) -> String {
        let Action { action, target_ids, risk, .. } = &self.action;
        let risk = match action {
            ActionType::Merge => format!(" {}", risk.name()),
            _ => String::new(),
        };
        let ids: Vec<String> = target_ids.iter().map(|id| cell(id.as_str())).collect();
        let between = if action.merges() { " ← " } else { ", " };
        let ids = match ids.split_first() {
            Some((first, rest)) if !rest.is_empty() => {
                format!("{first}{between}{}", rest.join(", "))
            }
            _ => ids.concat(),
        };
        let why = self
            .reason
            .as_deref()
            .map_or_else(String::new, |reason| format!(": not applied, {}", cell(reason)));
        format!("| {} {}{risk} | {ids}{why} |\n", self.label, action.name())
    }
}

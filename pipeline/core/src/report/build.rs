//! From a run to its report.

use std::collections::{BTreeMap, BTreeSet};

use crate::memory::CategoryList;
use crate::memory::{CreatedAt, Memory, MemoryId, MemoryIndex, Status};
use crate::time::Instant;
use crate::{SkipReason, Snapshot};
use jiff::Timestamp;
use memfold_guard::text;

use super::{
    AbsorbedByRisk, AbsorbedSample, Detected, Executed, Incremental, Loaded, MergeSample, Mode,
    PairSample, Planned, ProtectedRow, ProtectedRows, REPORT_SCHEMA_VERSION, Recall, Report,
    RowView, Samples, ScopeView, Seconds, Sensitivity, Stats, UnknownCategory, word_diff,
};
use crate::detect::Detection;
use crate::plan::{
    Action, ActionType, Decided, Risk, SimilarityOf, UPDATE, action_label, flag_key, plan_digest,
    rfc3339,
};
use crate::policy::{Policy, nearest};

/// A run, as far as a report tells of it.
pub struct Run<'a> {
    /// The store as read.
    pub snapshot: &'a Snapshot,
    /// What was detected.
    pub detection: &'a Detection,
    /// What was decided.
    pub decided: &'a Decided,
    /// The policy.
    pub policy: &'a Policy,
    /// Canonical similarity.
    pub similarity: &'a SimilarityOf<'a>,
    /// What of the store was searched, where it is not all.
    pub incremental: Option<Incremental>,
    /// The run's time.
    pub now: Instant,
    /// Whether the store was written to.
    pub mode: Mode,
    /// What was done to it.
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

/// Returns the name of a run: its time to the second in UTC, and 8 hex digits of what it was made from.
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
                pair.verdict = Some(name_of(&judgement.verdict));
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
        skipped.insert(name_of(&SkipReason::OutOfScope), run.detection.out_of_scope);
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
    }
}

fn scope(run: &Run<'_>) -> ScopeView {
    let scope = &run.policy.scope;
    ScopeView {
        categories: scope.categories.clone(),
        since: scope.since.map(rfc3339),
        until: scope.until.map(rfc3339),
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
                stats.absorbed.add(action.risk, action.absorbed_ids().len() as u64);
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

/// The name that JSON uses for a variant.
fn name_of(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => "other".to_owned(),
    }
}

/// Merges shown with their texts, by risk: a person reads the reworded ones.
const IDENTICAL_SHOWN_MAX: u64 = 50;
const TRIVIAL_SHOWN_MAX: u64 = 200;
const REWORDED_SHOWN_MAX: u64 = 500;

/// Absorbed rows shown of one merge.
const ABSORBED_SHOWN_MAX: usize = 20;

/// Characters of a text that are compared and shown.
const EXCERPT_CHARS: usize = 600;

/// Characters of ids, sources and categories that are shown.
const NAME_CHARS: usize = 120;

/// Looks up what a report shows of memories.
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
        let mut shown = AbsorbedByRisk::default();
        for (position, action) in self.run.decided.plan.actions.iter().enumerate() {
            match action.action {
                ActionType::Merge if shown.take(action.risk) => {
                    samples.merges.extend(self.merge(position, action));
                }
                ActionType::Merge => samples.merges_not_shown.add(action.risk, 1),
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
        let all: Vec<_> = action.absorbed_ids().iter().filter_map(|id| self.memory(id)).collect();
        let gained = action.new_categories.iter().flatten();
        let own: CategoryList = survivor.categories.iter().collect();
        let gained = gained.filter(|category| !own.has(category));
        let summed = all
            .iter()
            .fold(survivor.access_count, |sum, (_, row)| sum.saturating_add(row.access_count));
        let absorbed = all.iter().take(ABSORBED_SHOWN_MAX).map(|&(index, row)| AbsorbedSample {
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
            absorbed: absorbed.collect(),
            absorbed_not_shown: all.len().saturating_sub(ABSORBED_SHOWN_MAX) as u64,
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
                let age_us = self.run.now.0.saturating_sub(at.0).max(0);
                (rfc3339(*at), Some((age_us as f64 / 86_400e6 * 10.0).round() / 10.0))
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

/// The word diff of two excerpts; empty where nothing of what is shown differs.
fn diff(from: &Memory, to: &Memory) -> Vec<super::Piece> {
    let [from, to] = [from, to].map(|memory| text::excerpt(&memory.content, EXCERPT_CHARS));
    if from == to { Vec::new() } else { word_diff(&from, &to) }
}

impl AbsorbedByRisk {
    pub(super) fn add(&mut self, risk: Risk, count: u64) {
        match risk {
            Risk::Identical => self.identical += count,
            Risk::Trivial => self.trivial += count,
            Risk::Reworded => self.reworded += count,
        }
    }

    /// Counts one more of a risk, unless as many as fit are shown already.
    fn take(&mut self, risk: Risk) -> bool {
        let (shown, most) = match risk {
            Risk::Identical => (self.identical, IDENTICAL_SHOWN_MAX),
            Risk::Trivial => (self.trivial, TRIVIAL_SHOWN_MAX),
            Risk::Reworded => (self.reworded, REWORDED_SHOWN_MAX),
        };
        let fits = shown < most;
        if fits {
            self.add(risk, 1);
        }
        fits
    }
}

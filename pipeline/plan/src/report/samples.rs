//! Excerpts of what a plan touches.

use std::collections::BTreeMap;

use super::{
    AbsorbedByRisk, AbsorbedSample, MergeSample, PairSample, RowView, Run, Samples, word_diff,
};
use crate::plan::{Action, ActionType, Risk, action_label, rfc3339};
use memfold_model::categories::CategoryList;
use memfold_model::memory::{CreatedAt, Memory, MemoryId, MemoryIndex};
use memfold_model::text;

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
            lacks: action.rationale.evidence.differences.clone(),
        })
    }

    fn flag(&self, action: &Action) -> Option<PairSample> {
        let [older, newer] = action.target_ids.as_slice() else { return None };
        let similarity = action.rationale.evidence.similarity?;
        let mut pair = self.pair(self.memory(older)?.1, self.memory(newer)?.1, similarity);
        pair.score = action.rationale.score;
        Some(pair)
    }

    pub(super) fn pair(&self, older: &Memory, newer: &Memory, similarity: f64) -> PairSample {
        PairSample {
            older: self.row(older),
            newer: self.row(newer),
            similarity,
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

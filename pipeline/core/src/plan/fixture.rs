//! Hand-made snapshots and detections for tests: five lines each.

use memfold_index::Row;
use memfold_simd::Similarity;

use super::{Decided, FactGuard, PlanInput, decide};
use crate::Snapshot;
use crate::detect::{Cluster, Contradiction, Detection, Unit, newest_first};
use crate::memory::{
    BaseDigest, CreatedAt, Embedding, Memory, MemoryId, MemoryIndex, SpaceIndex, Status,
};
use crate::policy::{ConfigLoader, Policy};
use crate::time::Instant;
use memfold_guard::text;
use memfold_guard::{Difference, DifferenceKind, Judgement, Side, Verdict};

pub(crate) const NOW: Instant = Instant(1_780_000_000_000_000);
const DAY_US: i64 = 86_400_000_000;

/// A live memory of importance 1, read once, with a vector.
pub(crate) fn row(id: &str, content: &str, age_days: i64) -> Memory {
    Memory {
        rowid: 0,
        id: MemoryId::new(id),
        content: content.into(),
        categories: Vec::new(),
        importance: 1.0,
        access_count: 1,
        created_at: CreatedAt::At(Instant(NOW.0 - age_days * DAY_US)),
        expires_at: None,
        last_accessed: None,
        source: "agent".into(),
        root_source: "agent".into(),
        status: Status::Live,
        merged_into: None,
        embedding: Embedding::Vector { space: SpaceIndex(0), row: Row(0) },
        base_digest: BaseDigest([7; 32]),
    }
}

impl Memory {
    /// Makes it a memory that was merged into another.
    pub(crate) fn merge_into(&mut self, survivor: &str) {
        self.status = Status::Merged;
        self.merged_into = Some(MemoryId::new(survivor));
    }
}

/// Memories that all stand at one similarity to each other.
pub(crate) struct Fixture {
    pub(crate) snapshot: Snapshot,
    pub(crate) clusters: Vec<Vec<&'static str>>,
    pub(crate) contradictions: Vec<(&'static str, &'static str, f64)>,
    pub(crate) policy: Policy,
    pub(crate) similarity: f64,
}

impl Fixture {
    pub(crate) fn new(memories: Vec<Memory>) -> Self {
        let snapshot = Snapshot {
            store_id: "store".into(),
            rows_total: memories.len() as u64,
            memories,
            ..Snapshot::default()
        };
        let (clusters, contradictions) = (Vec::new(), Vec::new());
        Self { snapshot, clusters, contradictions, policy: Policy::builtin(), similarity: 0.96 }
    }

    pub(crate) fn cluster(mut self, ids: &[&'static str]) -> Self {
        self.clusters.push(ids.to_vec());
        self
    }

    /// Turns the rule that archives on.
    pub(crate) fn archiving(mut self) -> Self {
        let loader = ConfigLoader::new().set("rules.R4-archive-low-utility.enabled=true");
        self.policy = loader.load().unwrap().policy;
        self
    }

    pub(crate) fn at(mut self, similarity: f64) -> Self {
        self.similarity = similarity;
        self
    }

    fn index(&self, id: &str) -> MemoryIndex {
        let at = self.snapshot.memories.iter().position(|m| m.id.as_str() == id).unwrap();
        MemoryIndex(at as u32)
    }

    pub(crate) fn similarity_of(
        &self,
        left: MemoryIndex,
        right: MemoryIndex,
    ) -> Option<Similarity> {
        let has = |at: MemoryIndex| self.snapshot.memories[at.index()].embedding.vector().is_some();
        (has(left) && has(right)).then(|| Similarity::new(self.similarity).unwrap())
    }

    pub(crate) fn detection(&self) -> Detection {
        let memories = &self.snapshot.memories;
        let all = || (0..memories.len() as u32).map(MemoryIndex);
        let is_live = |at: &MemoryIndex| memories[at.index()].status == Status::Live;
        let by_age = |a: &MemoryIndex, b: &MemoryIndex| {
            newest_first(&memories[a.index()], &memories[b.index()])
        };
        let mut live: Vec<_> = all().filter(is_live).collect();
        live.sort_by(by_age);
        let merged_rows = |of: MemoryIndex| {
            let into = Some(&memories[of.index()].id);
            all().filter(|at| memories[at.index()].merged_into.as_ref() == into).collect()
        };
        let cluster = |ids: &Vec<&str>| {
            let mut members: Vec<_> = ids.iter().map(|id| self.index(id)).collect();
            members.sort_by(by_age);
            let key = |at: &MemoryIndex| text::strict_key(&memories[at.index()].content);
            Cluster {
                min_similarity: self.similarity_of(members[0], members[1]),
                probability: None,
                equal_text: members.iter().all(|at| key(at) == key(&members[0])),
                members,
            }
        };
        let mut clusters: Vec<_> = self.clusters.iter().map(cluster).collect();
        clusters.sort_by(|a, b| by_age(&a.members[0], &b.members[0]));
        let contradiction = |&(older, newer, score): &(&str, &str, f64)| Contradiction {
            older: self.index(older),
            newer: self.index(newer),
            similarity: Similarity::new(self.similarity).unwrap(),
            judgement: judgement(Verdict::Conflict, score),
        };
        Detection {
            units: live
                .into_iter()
                .map(|live| Unit { live, merged_rows: merged_rows(live) })
                .collect(),
            clusters,
            contradictions: self.contradictions.iter().map(contradiction).collect(),
            contradiction_pairs: self.contradictions.len() as u64,
            pairs: 1,
            sensitivity: vec![(-0.02, 3), (0.02, 1)],
            ..Detection::default()
        }
    }

    pub(crate) fn decide(&self) -> Decided {
        self.decide_on(&self.detection())
    }

    pub(crate) fn decide_on(&self, detection: &Detection) -> Decided {
        decide(&PlanInput {
            snapshot: &self.snapshot,
            detection,
            policy: &self.policy,
            only: None,
            guard: &WordGuard(&self.snapshot.memories),
            similarity: &|left, right| self.similarity_of(left, right),
            now: NOW,
            config_hash: "sha256:00",
        })
    }

    /// The plan in short: `merge a<b,c`, `noop d guard`.
    pub(crate) fn actions(&self) -> Vec<String> {
        let short = |action: &super::Action| {
            let ids: Vec<&str> = action.target_ids.iter().map(MemoryId::as_str).collect();
            let rule = action.rationale.rule_id.split('-').next().unwrap();
            format!("{} {} {rule}", action.action.name(), ids.join("<"))
        };
        self.decide().plan.actions.iter().map(short).collect()
    }
}

fn judgement(verdict: Verdict, score: f64) -> Judgement {
    let (left_text, right_text) = (String::new(), String::new());
    let (kind, left, right) = (DifferenceKind::Number, None, None);
    let difference = Difference { kind, left, right, left_text, right_text };
    let differences = if verdict == Verdict::Conflict { vec![difference] } else { vec![] };
    let (longer, steps, update, could_be_same) = (None, vec![], false, true);
    let contradiction_score = score;
    Judgement { verdict, longer, steps, contradiction_score, update, could_be_same, differences }
}

/// A guard that asks only whether every word of the row stands in the survivor; a word in capitals on
/// both sides makes texts different.
struct WordGuard<'a>(&'a [Memory]);

impl WordGuard<'_> {
    fn lacking(&self, whole: MemoryIndex, part: MemoryIndex) -> Vec<String> {
        let words = |at: MemoryIndex| text::tokens(&self.0[at.index()].content).map(|t| t.text);
        let whole: Vec<&str> = words(whole).collect();
        words(part).filter(|word| !whole.contains(word)).map(ToString::to_string).collect()
    }
}

impl FactGuard for WordGuard<'_> {
    fn judge(&self, older: MemoryIndex, newer: MemoryIndex) -> Judgement {
        let (lost, gained) = (self.lacking(newer, older), self.lacking(older, newer));
        let shouts = |words: &[String]| words.iter().any(|w| w.chars().all(char::is_uppercase));
        let (verdict, longer) = match (lost.is_empty(), gained.is_empty()) {
            (true, true) => (Verdict::Same, None),
            (true, false) => (Verdict::Extends, Some(Side::Right)),
            (false, true) => (Verdict::Extends, Some(Side::Left)),
            _ if shouts(&lost) && shouts(&gained) => (Verdict::Different, None),
            _ => (Verdict::Undecided, None),
        };
        Judgement { longer, ..judgement(verdict, 0.0) }
    }

    fn probability(&self, older: MemoryIndex, newer: MemoryIndex, similarity: Similarity) -> f64 {
        if self.judge(older, newer).verdict == Verdict::Different { 0.0 } else { similarity.get() }
    }

    fn informativeness(&self, row: MemoryIndex) -> (usize, usize) {
        super::conditions::informativeness(&self.0[row.index()].content)
    }
}

//! Proposals: near memories of which nothing proves that they say the same, and nothing that they do not. A person or a
//! judge decides.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::decisions::share;
use crate::memory::MemoryIndex;
use memfold_simd::Similarity;

use super::context::{Context, Member, Values, has_vector};
use super::{Action, ActionType, Evidence, Rationale, Risk, conditions};
use crate::detect::{Cluster, PROPOSE_PROBABILITY_MIN};

/// Memories of one question, at most.
const PROPOSAL_MEMBERS_MAX: usize = 10;

/// Questions that one cluster comes to, at most; further ones follow once these are answered.
const QUESTIONS_PER_CLUSTER_MAX: usize = 10;

/// The rule that stands in the rationale of proposals.
pub(crate) const PROPOSE: &str = "propose";

/// The reason of proposals in which one of each two memories says all that the other says.
pub const ONE_SAYS_MORE: &str = "one only says more";

/// Proposes merges, the most probable first, within the cap; counts the candidates beyond it. `context` shows the
/// memories as the merges of the plan leave them; `touched` are those that the plan flags, promotes or archives.
pub(super) fn proposals(
    context: &Context<'_>,
    touched: &BTreeSet<MemoryIndex>,
) -> (Vec<Action>, u64) {
    let policy = &context.input.policy.propose;
    let mut candidates: Vec<(Vec<MemoryIndex>, &Cluster)> = context
        .input
        .detection
        .proposals
        .iter()
        .map(|cluster| (standing(context, touched, cluster), cluster))
        .filter(|(rows, _)| rows.len() > 1)
        .collect();
    candidates.sort_by_cached_key(|(rows, cluster)| Reverse(order(context, rows, cluster)));
    let mut proposals = Vec::new();
    let mut asked = BTreeSet::new();
    let mut rest = candidates.iter();
    while proposals.len() < policy.max_per_run {
        let Some((rows, _)) = rest.next() else { break };
        let room = policy.max_per_run - proposals.len();
        proposals.extend(questions(context, rows, &mut asked).into_iter().take(room));
    }
    (proposals, rest.len() as u64)
}

/// The members of a cluster as the merges leave them, without those that must not be touched.
fn standing(
    context: &Context<'_>,
    touched: &BTreeSet<MemoryIndex>,
    cluster: &Cluster,
) -> Vec<MemoryIndex> {
    let mut rows: Vec<MemoryIndex> = Vec::new();
    for row in cluster.members.iter().map(|&row| context.live(row)) {
        let free = !context.protected.contains_key(&row)
            && !context.was_flagged(row)
            && !context.is_flagged(row)
            && !touched.contains(&row);
        if free && !rows.contains(&row) {
            rows.push(row);
        }
    }
    rows
}

/// The most probable first, then what saves the longest texts, then those that are read most.
fn order(context: &Context<'_>, rows: &[MemoryIndex], cluster: &Cluster) -> (u32, usize, i64) {
    let similarity = || cluster.min_similarity.map(Similarity::get);
    let probability = cluster.probability.or_else(similarity).unwrap_or_default();
    let hundredths = (probability * 100.0).round() as u32;
    let memories = || rows.iter().map(|&row| context.memory(row));
    let lengths = || memories().map(|memory| memory.content.len());
    let saved = lengths().sum::<usize>() - lengths().max().unwrap_or(0);
    let reads = memories().fold(0_i64, |sum, memory| sum.saturating_add(memory.access_count));
    (hundredths, saved, reads)
}

/// Makes questions of the rows of a cluster: of those that may all stand for one another, then of each one that is left,
/// with the others. Two texts are `asked` about together once in a plan.
fn questions(
    context: &Context<'_>,
    rows: &[MemoryIndex],
    asked: &mut BTreeSet<[MemoryIndex; 2]>,
) -> Vec<Action> {
    let mut questions = Vec::new();
    let mut open: BTreeSet<MemoryIndex> = rows.iter().copied().collect();
    for &first in rows {
        if !open.remove(&first) || questions.len() == QUESTIONS_PER_CLUSTER_MAX {
            continue;
        }
        let others = rows.iter().filter(|row| **row != first);
        let (waiting, placed): (Vec<_>, Vec<_>) = others.partition(|row| open.contains(row));
        let mut members = vec![context.member(first)];
        let mut near = Near { similarity: Similarity::ONE, probability: 1.0, extends: true };
        for &row in waiting.into_iter().chain(placed) {
            if members.len() == PROPOSAL_MEMBERS_MAX {
                break;
            }
            let member = context.member(row);
            let pair = |other: &Member<'_>| {
                let is_asked = other.key != member.key
                    && asked.contains(&[other.index.min(row), other.index.max(row)]);
                if is_asked { None } else { nearness(context, other, &member) }
            };
            let found = members.iter().map(pair).collect::<Option<Vec<_>>>();
            if let Some(found) = found {
                near = found.into_iter().fold(near, Near::least);
                members.push(member);
            }
        }
        for (at, member) in members.iter().enumerate() {
            open.remove(&member.index);
            let pairs = members[at + 1..].iter().map(|other| [member.index, other.index]);
            asked.extend(pairs.map(|[a, b]| [a.min(b), a.max(b)]));
        }
        questions.extend(proposal(context, members, near));
    }
    questions
}

/// Makes one question of members that may all stand for one another.
fn proposal(context: &Context<'_>, mut members: Vec<Member<'_>>, near: Near) -> Option<Action> {
    if members.iter().all(|member| member.key == members[0].key) {
        return None;
    }
    // The newest that says most: what only the others say would be out of sight.
    let first = members.iter().position(|member| has_vector(member.memory)).unwrap_or(0);
    let says = |at: usize| context.input.guard.informativeness(members[at].index);
    let survivor = (first + 1..members.len()).fold(first, |best, at| {
        let better = has_vector(members[at].memory) && says(at) > says(best);
        if better { at } else { best }
    });
    let survivor = members.remove(survivor);
    let absorbed = members.iter().map(|member| member.memory);
    let values = Values::merged(survivor.memory, absorbed, &context.input.policy.merge);
    let rows = std::iter::once(&survivor).chain(&members).map(|member| member.index);
    let built_in = context.built_in(Some(near.similarity), rows);
    let ids = std::iter::once(&survivor).chain(&members).map(|member| member.memory.id.clone());
    let minimum = context.input.policy.propose.min_similarity;
    let reasons = vec![
        format!("similarity >= {minimum}"),
        if near.extends { ONE_SAYS_MORE } else { "not proven" }.to_owned(),
    ];
    let evidence = Evidence {
        similarity: Some(near.similarity.get()),
        probability: Some(near.probability),
        built_in,
        differences: members.iter().filter_map(|row| said(context, &survivor, row)).collect(),
        ..Evidence::default()
    };
    let rationale = Rationale { evidence, ..Rationale::new(PROPOSE, reasons) };
    Some(Action {
        canonical_id: Some(survivor.memory.id.clone()),
        new_categories: values.new_categories(survivor.memory),
        new_importance: values.new_importance(survivor.memory),
        risk: Risk::Reworded,
        ..Action::new(ActionType::ProposeMerge, ids.collect(), rationale)
    })
}

/// How near two rows are.
#[derive(Clone, Copy)]
struct Near {
    similarity: Similarity,
    probability: f64,
    /// One of two is proven to say all that the other says.
    extends: bool,
}

impl Near {
    fn least(self, other: Self) -> Self {
        Self {
            similarity: self.similarity.min(other.similarity),
            probability: self.probability.min(other.probability),
            extends: self.extends && other.extends,
        }
    }
}

/// How near two rows are that may be proposed together; `None` where they may not.
fn nearness(context: &Context<'_>, one: &Member<'_>, other: &Member<'_>) -> Option<Near> {
    let (a, b) = (one.index, other.index);
    let kept_apart = share(context.apart_groups(a), context.apart_groups(b))
        || context.is_settled(a, b)
        || context.contradict(a, b);
    let similarity = context.effective(one, other)?;
    if kept_apart || similarity < context.input.policy.propose.min_similarity {
        return None;
    }
    if one.key == other.key {
        return Some(Near { similarity, probability: 1.0, extends: true });
    }
    let probability = context.input.guard.probability(a, b, similarity);
    let extends = context.input.guard.judge(a, b).verdict.is_proven();
    (probability >= PROPOSE_PROBABILITY_MIN).then_some(Near { similarity, probability, extends })
}

/// What each of two texts says alone, in words.
fn said(context: &Context<'_>, survivor: &Member<'_>, row: &Member<'_>) -> Option<String> {
    if survivor.key == row.key {
        return None;
    }
    let judgement = context.input.guard.judge(row.index, survivor.index);
    let (older, newer) = (&row.memory.content, &survivor.memory.content);
    let differences = if judgement.verdict.is_proven() {
        conditions::proof_steps(&judgement, older, newer)
    } else {
        conditions::differences(&judgement, older, newer)
    };
    (!differences.is_empty()).then(|| format!("{}: {}", row.memory.id, differences.join(", ")))
}

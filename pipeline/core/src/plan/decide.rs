//! [`decide`]: from a detection to a plan; proposals: near memories of which nothing proves that they say the same, and nothing
//! that they do not. A person or a judge decides.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use memfold_simd::Similarity;
use serde_json::Map;

use super::action::risk;
use super::conditions::met;
use super::context::{Context, Member, Merge, Merged, combine, has_vector};
use super::flags::{Flag, Flags, flags};
use super::merging::{LeftAlone, Outcome, merge_cluster};
use super::single::single_actions;
use super::{
    Action, ActionType, Evidence, PLAN_SCHEMA_VERSION, Plan, PlanInput, ProtectedBy, Rationale,
    Risk, conditions,
};
use crate::decisions::share;
use crate::detect::{Cluster, PROPOSE_PROBABILITY_MIN};
use crate::memory::{Memory, MemoryId, MemoryIndex};

/// A plan, and the further parts of its report.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    /// The plan.
    pub plan: Plan,
    /// Access counts at which the plan's promotions are recorded once they are applied.
    pub access_counts: BTreeMap<MemoryId, i64>,
    /// Protected units, newest first, and why.
    pub protected: Vec<(MemoryIndex, ProtectedBy)>,
    /// Contradictory pairs of units that the caps on flags left out.
    pub flags_deferred: u64,
    /// These pairs by the kinds of their signs.
    pub deferred_patterns: BTreeMap<String, u64>,
    /// Groups that may say the same and that the cap on proposals left out.
    pub proposals_deferred: u64,
    /// Rules that were off, and why.
    pub notes: Vec<String>,
}

/// Decides the actions. Pure: the answer depends on its input only.
///
/// The cost is that of the guard and similarities within clusters: linear in the members where they
/// merge, quadratic in the members of a cluster of at most 512.
#[must_use]
pub fn decide(input: &PlanInput<'_>) -> Decided {
    let unchanged = Merged::default();
    let context = Context::new(input, &unchanged);
    let Outcome { merges, left } = merge_all(&context);
    let Flags { flags, deferred, deferred_patterns } = flags(&context, &merges);
    let (singles, notes) = single_actions(&context, &merges, &flags);

    let access_counts = singles.iter().filter_map(|single| {
        let count = single.access_count?;
        Some((context.memory(single.row).id.clone(), count))
    });
    let access_counts = access_counts.collect();
    let changed = singles.iter().filter(|single| single.action.action != ActionType::Noop);
    let flagged = flags.iter().flat_map(|flag| [flag.pair.0, flag.pair.1]);
    let touched: BTreeSet<MemoryIndex> = changed.map(|single| single.row).chain(flagged).collect();
    let mut actions: Vec<Action> = merges.iter().map(|m| merge_action(&context, m)).collect();
    let mut singles: Vec<Action> = singles.into_iter().map(|single| single.action).collect();
    singles.sort_by_key(|action| match action.action {
        ActionType::Promote => 0,
        ActionType::Rewrite => 1,
        ActionType::Archive => 2,
        _ => 3,
    });
    let left_alone = singles.partition_point(|action| action.action != ActionType::Noop);
    let left_alone = singles.split_off(left_alone);
    actions.extend(singles);
    actions.extend(flags.iter().map(|flag| flag_action(&context, flag)));
    let mut merged = Merged::default();
    merged.add(&context, &merges);
    let (proposals, proposals_deferred) = proposals(&Context::new(input, &merged), &touched);
    actions.extend(proposals);
    actions.extend(left.iter().map(|left| noop_action(&context, left)));
    actions.extend(left_alone);

    let units = &input.detection.units;
    Decided {
        access_counts,
        protected: units
            .iter()
            .filter(|unit| input.looks_at(unit.live))
            .filter_map(|unit| Some((unit.live, context.protected.get(&unit.live)?.clone())))
            .collect(),
        plan: plan(input, actions),
        flags_deferred: deferred,
        deferred_patterns,
        proposals_deferred,
        notes,
    }
}

/// Merges clusters until nothing is left to merge, looking again at each cluster as its merges leave it: else the next
/// run would do that.
fn merge_all<'a>(context: &Context<'a>) -> Outcome<'a> {
    let clusters = &context.input.detection.clusters;
    let mut outcome = Outcome::default();
    let mut open: Vec<(usize, Cluster)> = Vec::new();
    for (number, cluster) in (1..).zip(clusters) {
        let found = merge_cluster(context, number, cluster);
        let merged: usize = found.merges.iter().map(|merge| merge.merged.len()).sum();
        if merged > 0 && merged + 1 < cluster.members.len() {
            open.push((number, cluster.clone()));
        }
        outcome.merges.extend(found.merges);
        outcome.left.extend(found.left);
    }
    if open.is_empty() {
        return outcome;
    }
    let mut merged = Merged::default();
    merged.add(context, &outcome.merges);
    while !open.is_empty() {
        for (_, cluster) in &mut open {
            cluster.members.retain(|&member| !merged.is_merged(member));
        }
        let round = merge_again(context, &merged, &open);
        let rows = |merge: &Merge<'_>| [&[merge.survivor], &*merge.merged].concat();
        let changed: BTreeSet<MemoryIndex> = round.iter().flat_map(rows).collect();
        open.retain(|(_, cluster)| cluster.members.iter().any(|row| changed.contains(row)));
        outcome.left.retain(|left| !changed.contains(&left.row));
        merged.add(context, &round);
        combine(&mut outcome.merges, round);
    }
    outcome.merges.sort_by_key(|merge| merge.cluster);
    outcome
}

/// Merges clusters as the merges so far leave them.
fn merge_again<'a>(
    context: &Context<'a>,
    merged: &Merged,
    clusters: &[(usize, Cluster)],
) -> Vec<Merge<'a>> {
    let later = Context::new(context.input, merged);
    let merges = clusters
        .iter()
        .flat_map(|(number, cluster)| merge_cluster(&later, *number, cluster).merges);
    let of_context = |merge: Merge<'_>| {
        let rule = context.rules.iter().find(|rule| rule.id == merge.rule.id)?;
        Some(Merge { rule, ..merge })
    };
    merges.filter_map(of_context).collect()
}

fn plan(input: &PlanInput<'_>, actions: Vec<Action>) -> Plan {
    let digests: BTreeMap<&MemoryId, _> =
        input.snapshot.memories.iter().map(|m| (&m.id, m.base_digest)).collect();
    let touched = actions
        .iter()
        .filter(|action| action.action != ActionType::Noop)
        .flat_map(|action| &action.target_ids);
    let base_digests = touched
        .filter_map(|id| digests.get(id).map(|digest| (id.clone(), digest.to_string())))
        .collect();
    Plan {
        schema_version: PLAN_SCHEMA_VERSION,
        store_id: input.snapshot.store_id.to_string(),
        config_hash: input.config_hash.to_owned(),
        engine_version: env!("CARGO_PKG_VERSION").to_owned(),
        now: input.now.to_rfc3339(),
        overrides: Map::new(),
        actions,
        base_digests,
    }
}

fn cluster_id(number: usize) -> Option<String> {
    Some(format!("cluster_{number:04}"))
}

fn merge_action(context: &Context<'_>, merge: &Merge<'_>) -> Action {
    let survivor = context.memory(merge.survivor);
    let merged: Vec<&Memory> = merge.merged.iter().map(|&row| context.memory(row)).collect();
    let rows = std::iter::once(merge.survivor).chain(merge.merged.iter().copied());
    let mut reasons = merge_reasons(merge);
    if merge.survivor_protected {
        reasons.push("survivor is protected and stays as it is".to_owned());
    }
    let evidence = Evidence {
        similarity: merge.similarity.map(Similarity::get),
        built_in: context.built_in(merge.similarity, rows),
        cluster_id: cluster_id(merge.cluster),
        differences: proofs(context, merge),
        ..Evidence::default()
    };
    let rationale = Rationale { evidence, ..Rationale::new(&merge.rule.id, reasons) };
    let policy = &context.input.policy.merge;
    let mut action = Action::merging(ActionType::Merge, survivor, &merged, policy, rationale);
    if merge.survivor_protected {
        action.survivor_protected = true;
        (action.new_categories, action.new_importance) = (None, None);
    }
    action.risk = merge_risk(context, merge);
    action
}

/// The conditions that held; equal text stands for a similarity that was not needed.
fn merge_reasons(merge: &Merge<'_>) -> Vec<String> {
    let mut when = merge.rule.when.clone();
    let minimum = when.min_similarity;
    let is_near = minimum.is_none_or(|minimum| merge.similarity.is_some_and(|s| s >= minimum));
    if !is_near {
        when.min_similarity = None;
    }
    let mut reasons = met(&when);
    if merge.equal_text {
        reasons.insert(0, "equal text".to_owned());
    }
    reasons
}

fn merge_risk(context: &Context<'_>, merge: &Merge<'_>) -> Risk {
    if merge.equal_text {
        return Risk::Identical;
    }
    let survivor = &context.memory(merge.survivor).content;
    let guarded = context.input.policy.guard.enabled;
    let risks =
        merge.merged.iter().map(|&row| risk(survivor, &context.memory(row).content, guarded));
    risks.max().unwrap_or(Risk::Identical)
}

/// The proofs that the survivor says all that the merged rows say, but for equal parts.
fn proofs(context: &Context<'_>, merge: &Merge<'_>) -> Vec<String> {
    if merge.equal_text || !context.input.policy.guard.enabled {
        return Vec::new();
    }
    let survivor = context.member(merge.survivor);
    let rows = merge.merged.iter().map(|&row| context.member(row));
    rows.filter_map(|row| context.said(&survivor, &row)).collect()
}

fn flag_action(context: &Context<'_>, flag: &Flag<'_>) -> Action {
    let contradiction = flag.contradiction;
    let judgement = &contradiction.judgement;
    let (older, newer) = (context.memory(contradiction.older), context.memory(contradiction.newer));
    let targets = [flag.pair.0, flag.pair.1];
    let mut action = plain_action(
        context,
        ActionType::FlagContradiction,
        &targets,
        &flag.rule.id,
        flag.reasons.clone(),
    );
    action.risk = Risk::Reworded;
    action.rationale.score = Some(judgement.contradiction_score);
    action.rationale.evidence = Evidence {
        similarity: Some(contradiction.similarity.get()),
        built_in: context.built_in(Some(contradiction.similarity), targets),
        contradiction_signals: conditions::signal_kinds(judgement),
        differences: conditions::differences(judgement, &older.content, &newer.content),
        ..Evidence::default()
    };
    action
}

fn noop_action(context: &Context<'_>, left: &LeftAlone) -> Action {
    let reasons = vec![left.rejection.reason.clone()];
    let mut action =
        plain_action(context, ActionType::Noop, &[left.row], &left.rejection.cause, reasons);
    action.rationale.evidence.cluster_id = cluster_id(left.cluster);
    action
}

/// An action that changes no text.
fn plain_action(
    context: &Context<'_>,
    action: ActionType,
    targets: &[MemoryIndex],
    rule_id: &str,
    reasons: Vec<String>,
) -> Action {
    let ids = targets.iter().map(|&row| context.memory(row).id.clone()).collect();
    Action::new(action, ids, Rationale::new(rule_id, reasons))
}

/// Memories of one question, at most.
const PROPOSAL_MEMBERS_MAX: usize = 10;

/// Questions that one cluster comes to, at most; further ones follow once these are answered.
const QUESTIONS_PER_CLUSTER_MAX: usize = 10;

/// The rule that stands in the rationale of proposals.
pub(crate) const PROPOSE: &str = "propose";

/// The reason of proposals in which one of each two memories says all that the other says.
pub const ONE_SAYS_MORE: &str = "one only says more";

/// Proposes merges, the most probable first, within the cap; counts the candidates beyond it. `context` shows the
/// memories as the merges of the plan leave them; `touched` are the ones that the plan flags, promotes or archives.
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
        .map(|cluster| (open_members(context, touched, cluster), cluster))
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

/// The members of a cluster as the merges leave them, without the ones that must not be touched.
fn open_members(
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

/// The most probable first, then by the saved text, then by reads.
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

/// Makes questions of the rows of a cluster: of the ones that may all stand for one another, then of each one that is left,
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
    // The newest that says most: facts that only the others state would be out of sight.
    let first = members.iter().position(|member| has_vector(member.memory)).unwrap_or(0);
    let says = |at: usize| context.input.guard.informativeness(members[at].index);
    let survivor = (first + 1..members.len()).fold(first, |best, at| {
        let better = has_vector(members[at].memory) && says(at) > says(best);
        if better { at } else { best }
    });
    let survivor = members.remove(survivor);
    let rows = std::iter::once(&survivor).chain(&members).map(|member| member.index);
    let built_in = context.built_in(Some(near.similarity), rows);
    let minimum = context.input.policy.propose.min_similarity;
    let reasons = vec![
        format!("similarity >= {minimum}"),
        if near.extends { ONE_SAYS_MORE } else { "not proven" }.to_owned(),
    ];
    let evidence = Evidence {
        similarity: Some(near.similarity.get()),
        probability: Some(near.probability),
        built_in,
        differences: members.iter().filter_map(|row| context.said(&survivor, row)).collect(),
        ..Evidence::default()
    };
    let rationale = Rationale { evidence, ..Rationale::new(PROPOSE, reasons) };
    let merged: Vec<&Memory> = members.iter().map(|member| member.memory).collect();
    let (kind, policy) = (ActionType::ProposeMerge, &context.input.policy.merge);
    let action = Action::merging(kind, survivor.memory, &merged, policy, rationale);
    Some(Action { risk: Risk::Reworded, ..action })
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

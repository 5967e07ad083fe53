//! [`decide`]: from a detection to a plan.

use std::collections::{BTreeMap, BTreeSet};

use memfold_simd::Similarity;
use serde_json::Map;

use super::action::risk;
use super::conditions::met;
use super::context::{Context, Folded, Merge, Values, combine};
use super::flags::{Flag, Flags, flags};
use super::fold::{Fates, LeftAlone, fold};
use super::propose::proposals;
use super::single::{Change, Fate, Written, single_fates};
use super::{
    Action, ActionType, Evidence, PLAN_SCHEMA_VERSION, Plan, PlanInput, ProtectedBy, Rationale,
    Risk, conditions,
};
use crate::detect::Cluster;
use crate::memory::{MemoryId, MemoryIndex};
use crate::time::Instant;

/// A plan, and what a report says beside it.
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
    /// Those pairs by the kinds of their signs.
    pub deferred_patterns: BTreeMap<String, u64>,
    /// Groups that may say the same and that the cap on proposals left out.
    pub proposals_deferred: u64,
    /// Rules that were off, and why.
    pub notes: Vec<String>,
}

/// Decides what should be done. Pure: the answer depends on its input only.
///
/// The cost is that of the guard and similarities within clusters: linear in the members where they
/// fold, quadratic in the members of a cluster of at most 512.
#[must_use]
pub fn decide(input: &PlanInput<'_>) -> Decided {
    let unchanged = Folded::default();
    let context = Context::new(input, &unchanged);
    let Fates { merges, left } = fold_all(&context);
    let Flags { flags, deferred, deferred_patterns } = flags(&context, &merges);
    let (singles, notes) = single_fates(&context, &merges, &flags);

    let access_counts = singles.iter().filter_map(|fate| match fate.change {
        Change::Promote { access_count, .. } => {
            Some((context.memory(fate.row).id.clone(), access_count))
        }
        Change::Copy { access_count, .. } => {
            Some((context.memory(fate.row).id.clone(), access_count))
        }
        Change::Archive { .. } | Change::Shorten(_) | Change::LeaveAlone => None,
    });
    let access_counts = access_counts.collect();
    let changed = singles.iter().filter(|fate| !matches!(fate.change, Change::LeaveAlone));
    let flagged = flags.iter().flat_map(|flag| [flag.pair.0, flag.pair.1]);
    let touched: BTreeSet<MemoryIndex> = changed.map(|fate| fate.row).chain(flagged).collect();
    let mut actions: Vec<Action> = merges.iter().map(|m| merge_action(&context, m)).collect();
    let mut singles: Vec<Action> =
        singles.iter().map(|fate| single_action(&context, fate)).collect();
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
    let mut folded = Folded::default();
    folded.add(&context, &merges);
    let (proposals, proposals_deferred) = proposals(&Context::new(input, &folded), &touched);
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

/// Folds clusters until nothing is left to merge, looking again at each cluster as its merges leave it: else the next
/// run would do that.
fn fold_all<'a>(context: &Context<'a>) -> Fates<'a> {
    let clusters = &context.input.detection.clusters;
    let mut fates = Fates::default();
    let mut open: Vec<(usize, Cluster)> = Vec::new();
    for (number, cluster) in (1..).zip(clusters) {
        let found = fold(context, number, cluster);
        let absorbed: usize = found.merges.iter().map(|merge| merge.absorbed.len()).sum();
        if absorbed > 0 && absorbed + 1 < cluster.members.len() {
            open.push((number, cluster.clone()));
        }
        fates.merges.extend(found.merges);
        fates.left.extend(found.left);
    }
    if open.is_empty() {
        return fates;
    }
    let mut folded = Folded::default();
    folded.add(context, &fates.merges);
    while !open.is_empty() {
        for (_, cluster) in &mut open {
            cluster.members.retain(|&member| !folded.is_absorbed(member));
        }
        let round = fold_again(context, &folded, &open);
        let rows = |merge: &Merge<'_>| [&[merge.survivor], &*merge.absorbed].concat();
        let changed: BTreeSet<MemoryIndex> = round.iter().flat_map(rows).collect();
        open.retain(|(_, cluster)| cluster.members.iter().any(|row| changed.contains(row)));
        fates.left.retain(|left| !changed.contains(&left.row));
        folded.add(context, &round);
        combine(&mut fates.merges, round);
    }
    fates.merges.sort_by_key(|merge| merge.cluster);
    fates
}

/// Folds clusters as the merges so far leave them.
fn fold_again<'a>(
    context: &Context<'a>,
    folded: &Folded,
    clusters: &[(usize, Cluster)],
) -> Vec<Merge<'a>> {
    let later = Context::new(context.input, folded);
    let merges =
        clusters.iter().flat_map(|(number, cluster)| fold(&later, *number, cluster).merges);
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
        now: rfc3339(input.now),
        overrides: Map::new(),
        actions,
        base_digests,
    }
}

/// Writes an instant in UTC.
pub(crate) fn rfc3339(instant: Instant) -> String {
    instant.to_rfc3339()
}

fn cluster_id(number: usize) -> Option<String> {
    Some(format!("cluster_{number:04}"))
}

fn merge_action(context: &Context<'_>, merge: &Merge<'_>) -> Action {
    let survivor = context.memory(merge.survivor);
    let values = Values::after(context, merge);
    let rows = std::iter::once(merge.survivor).chain(merge.absorbed.iter().copied());
    let mut target_ids = vec![survivor.id.clone()];
    target_ids.extend(merge.absorbed.iter().map(|&row| context.memory(row).id.clone()));
    let mut reasons = merge_reasons(merge);
    if merge.survivor_protected {
        reasons.push("survivor is protected and stays as it is".to_owned());
    }
    Action {
        action: ActionType::Merge,
        target_ids,
        canonical_id: Some(survivor.id.clone()),
        survivor_protected: merge.survivor_protected,
        new_content: None,
        summary: None,
        new_categories: values.new_categories(survivor),
        new_importance: values.new_importance(survivor),
        risk: merge_risk(context, merge),
        rationale: Rationale {
            rule_id: merge.rule.id.clone(),
            score: None,
            reasons,
            evidence: Evidence {
                similarity: merge.similarity.map(Similarity::get),
                built_in: context.built_in(merge.similarity, rows),
                cluster_id: cluster_id(merge.cluster),
                differences: proofs(context, merge),
                ..Evidence::default()
            },
        },
    }
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
        merge.absorbed.iter().map(|&row| risk(survivor, &context.memory(row).content, guarded));
    risks.max().unwrap_or(Risk::Identical)
}

/// What proves that the survivor says what the absorbed rows say, but for what is equal.
fn proofs(context: &Context<'_>, merge: &Merge<'_>) -> Vec<String> {
    if merge.equal_text || !context.input.policy.guard.enabled {
        return Vec::new();
    }
    let survivor = context.member(merge.survivor);
    let proof = |&row: &MemoryIndex| {
        let member = context.member(row);
        if member.key == survivor.key {
            return None;
        }
        let judgement = context.input.guard.judge(row, survivor.index);
        let (said, says) = (&member.memory.content, &survivor.memory.content);
        let steps = conditions::proof_steps(&judgement, said, says);
        (!steps.is_empty()).then(|| format!("{}: {}", member.memory.id, steps.join(", ")))
    };
    merge.absorbed.iter().filter_map(proof).collect()
}

fn single_action(context: &Context<'_>, fate: &Fate<'_>) -> Action {
    let (action, new_categories, new_importance) = match &fate.change {
        Change::Promote { new_importance, new_categories, .. } => {
            (ActionType::Promote, new_categories.clone(), *new_importance)
        }
        Change::Archive { new_categories } => {
            (ActionType::Archive, Some(new_categories.clone()), None)
        }
        Change::Shorten(written) => {
            return written_action(context, fate, ActionType::Rewrite, written);
        }
        Change::Copy { copy, .. } => {
            return written_action(context, fate, ActionType::Promote, copy);
        }
        Change::LeaveAlone => (ActionType::Noop, None, None),
    };
    Action {
        new_categories,
        new_importance,
        ..plain_action(context, action, &[fate.row], &fate.rule.id, fate.reasons.clone())
    }
}

/// An action by which a new memory is written.
fn written_action(
    context: &Context<'_>,
    fate: &Fate<'_>,
    action: ActionType,
    written: &Written,
) -> Action {
    let reworded = action == ActionType::Rewrite;
    Action {
        canonical_id: Some(written.id.clone()),
        new_content: Some(written.content.clone()),
        new_categories: Some(written.categories.clone()),
        new_importance: Some(context.memory(fate.row).importance),
        risk: if reworded { Risk::Reworded } else { Risk::Identical },
        ..plain_action(context, action, &[fate.row], &fate.rule.id, fate.reasons.clone())
    }
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
    let reasons = vec![left.obstacle.reason.clone()];
    let mut action =
        plain_action(context, ActionType::Noop, &[left.row], &left.obstacle.cause, reasons);
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

//! Promotion and archival: rules about one memory, as the merges of the plan leave it.

use std::collections::{BTreeMap, BTreeSet};

use super::conditions::{Subject, idle_days, met, unmet_kind, unmet_measure, unmet_shape};
use super::context::Merge;
use super::context::{Context, Values, largest_own_count};
use super::flags::Flag;
use super::{ProtectedBy, extract};
use crate::decisions::SingleAction;
use crate::memory::{Memory, MemoryId, MemoryIndex, attribute, attribute_of};
use crate::policy::defaults::PROMOTE_INCREASE;
use crate::policy::{Rule, RuleAction};

/// What becomes of one memory.
pub(super) struct Fate<'a> {
    pub(super) row: MemoryIndex,
    pub(super) rule: &'a Rule,
    pub(super) reasons: Vec<String>,
    pub(super) change: Change,
}

/// The change itself.
pub(super) enum Change {
    Promote {
        new_importance: Option<f64>,
        new_categories: Option<Vec<String>>,
        /// What the promotion is recorded at.
        access_count: i64,
    },
    Archive {
        new_categories: Vec<String>,
    },
    /// A shorter text takes its place.
    Shorten(Written),
    /// A copy stands in a wider scope.
    Copy {
        copy: Written,
        /// What the promotion is recorded at.
        access_count: i64,
    },
    LeaveAlone,
}

/// A memory that is to be written.
pub(super) struct Written {
    pub(super) id: MemoryId,
    pub(super) content: String,
    pub(super) categories: Vec<String>,
}

/// Archival by access count says nothing where this share of live rows was never read.
const UNREAD_SHARE_MAX: f64 = 0.9;

/// Decides on each unit that is neither protected nor absorbed, newest first; notes say which rules
/// are off.
pub(super) fn single_fates<'a>(
    context: &Context<'a>,
    merges: &[Merge<'a>],
    flags: &[Flag<'_>],
) -> (Vec<Fate<'a>>, Vec<String>) {
    let absorbed: BTreeSet<_> = merges.iter().flat_map(|merge| &merge.absorbed).copied().collect();
    let survivors: BTreeMap<_, _> = merges.iter().map(|merge| (merge.survivor, merge)).collect();
    let (rules, notes) = usable_rules(context);
    if rules.is_empty() {
        return (Vec::new(), notes);
    }
    let holds = Holds::new(context, merges, &absorbed, flags);
    let units = &context.input.detection.units;
    let fates = units
        .iter()
        .map(|unit| unit.live)
        .filter(|row| context.input.looks_at(*row))
        .filter(|row| !absorbed.contains(row) && !is_closed(context, &rules, *row))
        .filter_map(|row| fate(context, &rules, &holds, row, survivors.get(&row).copied()))
        .collect();
    (fates, notes)
}

/// Tells whether no rule may change a memory: a copy in a wider scope leaves what is protected for being read often.
fn is_closed(context: &Context<'_>, rules: &[&Rule], row: MemoryIndex) -> bool {
    let copies = || rules.iter().any(|rule| rule.then.action == RuleAction::PromoteScope);
    match context.protected.get(&row) {
        Some(ProtectedBy::AccessCount(_)) => !copies(),
        Some(_) => true,
        None => false,
    }
}

/// What keeps rules about single memories off some of them.
struct Holds {
    /// Sides of flags that are planned.
    flagged: BTreeSet<MemoryIndex>,
    /// Memories beside which others of their cluster stay.
    clustered: BTreeSet<MemoryIndex>,
    /// Survivors of which a part contradicts another memory.
    contradictory: BTreeSet<MemoryIndex>,
}

impl Holds {
    fn new(
        context: &Context<'_>,
        merges: &[Merge<'_>],
        absorbed: &BTreeSet<MemoryIndex>,
        flags: &[Flag<'_>],
    ) -> Self {
        let clusters = context.input.detection.clusters.iter();
        let staying = clusters.map(|cluster| {
            let members = cluster.members.iter().copied();
            members.filter(|member| !absorbed.contains(member)).collect::<Vec<_>>()
        });
        let contradictory = merges
            .iter()
            .filter(|merge| merge.absorbed.iter().any(|&row| context.is_contradicted(row)));
        Self {
            flagged: flags.iter().flat_map(|flag| [flag.pair.0, flag.pair.1]).collect(),
            clustered: staying.filter(|members| members.len() > 1).flatten().collect(),
            contradictory: contradictory.map(|merge| merge.survivor).collect(),
        }
    }

    /// Returns why a change is not for now, if so. What is archived takes no part in the next run: where others look
    /// at it now, they would do without it then, and be clustered or flagged anew.
    fn against(
        &self,
        context: &Context<'_>,
        change: &Change,
        row: MemoryIndex,
    ) -> Option<&'static str> {
        if matches!(change, Change::LeaveAlone) {
            return None;
        }
        if self.flagged.contains(&row) || context.was_flagged(row) {
            return Some("in a conflict that waits for a person");
        }
        if !matches!(change, Change::Archive { .. } | Change::Shorten(_)) {
            return None;
        }
        if context.is_contradicted(row) || self.contradictory.contains(&row) {
            return Some("contradicts another memory");
        }
        if self.clustered.contains(&row) {
            return Some("near duplicates of it stay");
        }
        context.shares_vector(row).then_some("its vector says nothing")
    }
}

/// The rules about single memories that run, without archivals by a counter that says nothing.
fn usable_rules<'a>(context: &Context<'a>) -> (Vec<&'a Rule>, Vec<String>) {
    let (known, unread) = known_and_unread(&context.input.snapshot.memories);
    let silent = known > 0 && unread as f64 >= UNREAD_SHARE_MAX * known as f64;
    let mut notes = Vec::new();
    let mut rules = Vec::new();
    for &rule in &context.rules {
        match rule.then.action {
            RuleAction::Archive if silent && rule.when.max_access_count.is_some() => {
                notes.push(format!(
                    "rule {} is off: {unread} of {known} memories have access_count 0, so the \
                     counter says nothing about their use",
                    rule.id
                ));
            }
            RuleAction::Promote
            | RuleAction::Archive
            | RuleAction::Summarize
            | RuleAction::PromoteScope
            | RuleAction::Noop => rules.push(rule),
            RuleAction::Merge | RuleAction::FlagContradiction => {}
        }
    }
    let only_noops = rules.iter().all(|rule| rule.then.action == RuleAction::Noop);
    (if only_noops { Vec::new() } else { rules }, notes)
}

/// Counts memories, and those never read. What was merged counts as itself, and its survivor without what it took
/// over: so neither merges nor undoing them turn a rule on or off.
fn known_and_unread(memories: &[Memory]) -> (usize, usize) {
    let mut taken_over: BTreeMap<&MemoryId, i64> = BTreeMap::new();
    for memory in memories {
        if let Some(survivor) = &memory.merged_into {
            let sum = taken_over.entry(survivor).or_default();
            *sum = sum.saturating_add(memory.access_count);
        }
    }
    let known = || memories.iter().filter(|memory| !memory.status.is_excluded());
    let is_unread = |memory: &&Memory| {
        let taken_over = taken_over.get(&memory.id).copied().unwrap_or(0);
        // A protected survivor takes over nothing.
        memory.access_count == 0 || taken_over > 0 && memory.access_count == taken_over
    };
    (known().count(), known().filter(is_unread).count())
}

/// The first rule that matches and would change something; a noop rule before it stops it. What a person
/// took back gives way to the rules behind it.
fn fate<'a>(
    context: &Context<'a>,
    rules: &[&'a Rule],
    holds: &Holds,
    row: MemoryIndex,
    merge: Option<&Merge<'a>>,
) -> Option<Fate<'a>> {
    let memory = context.memory(row);
    let values = merge.map_or_else(|| Values::of(memory), |merge| Values::after(context, merge));
    let mut stopped_by: Option<&'a Rule> = None;
    let mut declined: Option<Fate<'a>> = None;
    let only_copies = context.protected.contains_key(&row);
    for &rule in rules {
        if only_copies && rule.then.action != RuleAction::PromoteScope {
            continue;
        }
        if !matches(context, rule, row, memory, &values, merge) {
            continue;
        }
        let change = match rule.then.action {
            RuleAction::Promote => promote(context, rule, row, &values, merge),
            RuleAction::Archive => Some(archive(&values)),
            // What merges just changed is written anew when it has settled.
            RuleAction::Summarize if merge.is_none() => shorten(context, memory),
            RuleAction::PromoteScope if merge.is_none() => {
                let access_count = values.access_count;
                copy(context, memory).map(|copy| Change::Copy { copy, access_count })
            }
            RuleAction::Summarize | RuleAction::PromoteScope => None,
            _ => {
                stopped_by.get_or_insert(rule);
                None
            }
        };
        let Some(change) = change else { continue };
        if let Some(by) = stopped_by {
            return Some(Fate {
                row,
                rule: by,
                reasons: met(&by.when),
                change: Change::LeaveAlone,
            });
        }
        let against = if is_declined(context, &change, row, merge) {
            Some("a person took this back")
        } else {
            holds.against(context, &change, row)
        };
        let Some(against) = against else {
            return Some(Fate { row, rule, reasons: met(&rule.when), change });
        };
        declined.get_or_insert_with(|| left_alone(row, rule, against));
    }
    // A survivor has its fate already.
    declined.filter(|_| merge.is_none())
}

/// Tells whether a person took this action on any member of the unit back.
fn is_declined(
    context: &Context<'_>,
    change: &Change,
    row: MemoryIndex,
    merge: Option<&Merge<'_>>,
) -> bool {
    let declined = &context.input.snapshot.decisions.declined;
    let action = match change {
        Change::Promote { .. } | Change::Copy { .. } => SingleAction::Promote,
        Change::Archive { .. } => SingleAction::Archive,
        Change::Shorten(_) => SingleAction::Summarize,
        Change::LeaveAlone => return false,
    };
    if rows(row, merge).any(|row| context.is_taken_back(row)) {
        return true;
    }
    !declined.is_empty()
        && members(context, row, merge)
            .any(|member| declined.contains(&(context.memory(member).id.clone(), action)))
}

fn left_alone<'a>(row: MemoryIndex, rule: &'a Rule, why: &str) -> Fate<'a> {
    let mut reasons = met(&rule.when);
    reasons.push(why.to_owned());
    Fate { row, rule, reasons, change: Change::LeaveAlone }
}

fn matches(
    context: &Context<'_>,
    rule: &Rule,
    row: MemoryIndex,
    memory: &Memory,
    values: &Values,
    merge: Option<&Merge<'_>>,
) -> bool {
    let access_count = match rule.then.action {
        RuleAction::Promote => largest_count(context, row, merge),
        _ => values.access_count,
    };
    let subject = Subject {
        age_days: context.age_days(row),
        idle_days: idle_days(memory, context.input.now),
        access_count,
        importance: values.importance,
        categories: &values.categories,
    };
    let (size, similarity) =
        merge.map_or((1, None), |merge| (merge.absorbed.len() + 1, merge.similarity));
    unmet_shape(&rule.when, size, similarity).is_none()
        && unmet_kind(&rule.when, &subject).is_none()
        && unmet_measure(&rule.when, &subject).is_none()
}

/// The rows whose units a merge joins, or the one row.
fn rows<'m>(
    row: MemoryIndex,
    merge: Option<&'m Merge<'_>>,
) -> impl Iterator<Item = MemoryIndex> + 'm {
    std::iter::once(row).chain(merge.into_iter().flat_map(|merge| merge.absorbed.iter().copied()))
}

/// Live rows and ghosts of those units.
fn members<'m>(
    context: &'m Context<'_>,
    row: MemoryIndex,
    merge: Option<&'m Merge<'_>>,
) -> impl Iterator<Item = MemoryIndex> + 'm {
    rows(row, merge).flat_map(|row| {
        let ghosts = context.ghosts.get(&row).copied().unwrap_or_default();
        std::iter::once(row).chain(ghosts.iter().copied())
    })
}

fn largest_count(context: &Context<'_>, row: MemoryIndex, merge: Option<&Merge<'_>>) -> i64 {
    let count = |row| {
        let ghosts = context.ghosts.get(&row).copied().unwrap_or_default();
        largest_own_count(&context.input.snapshot.memories, row, ghosts)
    };
    rows(row, merge).map(count).max().unwrap_or(0)
}

/// The access count at which any member of the unit was promoted last.
fn promoted_at(context: &Context<'_>, row: MemoryIndex, merge: Option<&Merge<'_>>) -> Option<i64> {
    let promotions = &context.input.snapshot.decisions.promoted_at_access;
    if promotions.is_empty() {
        return None;
    }
    members(context, row, merge)
        .filter_map(|row| promotions.get(&context.memory(row).id).copied())
        .max()
}

/// What a promotion changes; nothing where it would change nothing, or not enough was read since the
/// last one.
fn promote(
    context: &Context<'_>,
    rule: &Rule,
    row: MemoryIndex,
    values: &Values,
    merge: Option<&Merge<'_>>,
) -> Option<Change> {
    if let Some(before) = promoted_at(context, row, merge) {
        let since = largest_count(context, row, merge).saturating_sub(before);
        if rule.when.min_access_count.is_none_or(|minimum| since < minimum.max(1)) {
            return None;
        }
    }
    let cap = context.input.policy.merge.importance_cap;
    let importance = (values.importance + PROMOTE_INCREASE).min(cap).max(values.importance);
    let after = Values { importance, ..values.clone() };
    let memory = context.memory(row);
    (after != *values).then(|| Change::Promote {
        new_importance: after.new_importance(memory),
        new_categories: after.new_categories(memory),
        access_count: largest_count(context, row, merge),
    })
}

/// `archived`, and each category as `archive/<category>`.
fn archive(values: &Values) -> Change {
    let old = values.categories.iter().map(|category| format!("archive/{category}"));
    Change::Archive { new_categories: std::iter::once("archived".to_owned()).chain(old).collect() }
}

/// What is this short stays as it is.
const SUMMARIZED_ABOVE_CHARS: usize = 5_000;
/// The tag of what was shortened.
const SUMMARIZED: &str = "summarized";
/// The tag of a copy in a wider scope.
const PROMOTED: &str = "promoted";
/// The attribute by which an original names its copy.
const PROMOTED_TO: &str = "promoted_to";

/// Teams by the first part of their agents' names.
const TEAMS: [(&str, &str); 4] =
    [("DEV", "development"), ("SEC", "security"), ("INF", "infrastructure"), ("QA", "qa")];

/// The memory without what says nothing specific; nothing where that is hardly shorter.
fn shorten(context: &Context<'_>, memory: &Memory) -> Option<Change> {
    if memory.content.chars().count() <= SUMMARIZED_ABOVE_CHARS {
        return None;
    }
    let content = extract(&memory.content)?;
    let mut categories: Vec<String> = memory.categories.iter().map(ToString::to_string).collect();
    categories.push(SUMMARIZED.to_owned());
    let id = new_id(context, SUMMARIZED, memory, &content);
    Some(Change::Shorten(Written { id, content, categories }))
}

/// A copy of an agent's memory for its team, or of a team's for everybody; nothing where it has one, or where nobody
/// knows whose team it is.
fn copy(context: &Context<'_>, memory: &Memory) -> Option<Written> {
    if attribute(&memory.categories, PROMOTED_TO).is_some() {
        return None;
    }
    let team = || {
        let made_by = || attribute(&memory.categories, "created_by");
        let agent = attribute(&memory.categories, "scope_id").or_else(made_by)?;
        let name = agent.split('-').next()?;
        let known = TEAMS.iter().find(|(first, _)| *first == name);
        known.map(|(_, team)| (*team).to_owned())
    };
    let is_global = attribute(&memory.categories, "scope") == Some("team");
    let scope = if is_global { "global" } else { "team" };
    let scope_id = if is_global { None } else { Some(team()?) };
    let is_kept = |category: &&str| {
        !attribute_of(category).is_some_and(|(name, _)| name == "scope" || name == "scope_id")
            && *category != PROMOTED
    };
    let kept = memory.categories.iter().map(|category| &**category).filter(is_kept);
    let kept = kept.map(str::to_owned);
    let scopes = [format!("scope:{scope}")].into_iter();
    let scopes = scopes.chain(scope_id.map(|id| format!("scope_id:{id}")));
    let categories = kept.chain(scopes).chain([PROMOTED.to_owned()]).collect();
    let id = new_id(context, scope, memory, &memory.content);
    Some(Written { id, content: memory.content.to_string(), categories })
}

/// An id that no memory has: the same for the same memory and text.
fn new_id(context: &Context<'_>, kind: &str, memory: &Memory, content: &str) -> MemoryId {
    const ID_DIGITS: usize = 12;
    let mut seed = format!("{kind}\0{}\0{content}", memory.id);
    loop {
        let digest = blake3::hash(seed.as_bytes()).to_hex();
        let id = MemoryId::new(format!("mem_{}", &digest[..ID_DIGITS]));
        if !context.input.snapshot.memories.iter().any(|memory| memory.id == id) {
            return id;
        }
        seed.push('+');
    }
}

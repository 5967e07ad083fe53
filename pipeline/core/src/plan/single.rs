//! Promotion and archival: rules about one memory, as the merges of the plan leave it; [`extract`]: a shorter text made of
//! sentences of a long one.

use std::collections::{BTreeMap, BTreeSet};

use super::conditions::{met, unmet_kind, unmet_measure, unmet_shape};
use super::context::{Context, Merge, largest_own_count, new_categories};
use super::flags::Flag;
use super::{Action, ActionType, ProtectedBy, Rationale, Risk};
use crate::decisions::SingleAction;
use crate::memory::{Memory, MemoryId, MemoryIndex, attribute, attribute_of};
use crate::policy::defaults::PROMOTE_INCREASE;
use crate::policy::{Rule, RuleAction};

/// The action on one memory.
pub(super) struct RowAction {
    pub(super) row: MemoryIndex,
    pub(super) action: Action,
    /// The access count that a promotion is recorded at.
    pub(super) access_count: Option<i64>,
}

/// Archival by access count says nothing where this share of live rows was never read.
const UNREAD_SHARE_MAX: f64 = 0.9;

/// Decides on each unit that is neither protected nor merged, newest first; notes say which rules
/// are off.
pub(super) fn single_actions<'a>(
    context: &Context<'a>,
    merges: &[Merge<'a>],
    flags: &[Flag<'_>],
) -> (Vec<RowAction>, Vec<String>) {
    let merged: BTreeSet<_> = merges.iter().flat_map(|merge| &merge.merged).copied().collect();
    let survivors: BTreeMap<_, _> = merges.iter().map(|merge| (merge.survivor, merge)).collect();
    let (rules, notes) = usable_rules(context);
    if rules.is_empty() {
        return (Vec::new(), notes);
    }
    let holds = Holds::new(context, merges, &merged, flags);
    let units = &context.input.detection.units;
    let actions = units
        .iter()
        .map(|unit| unit.live)
        .filter(|row| context.input.looks_at(*row))
        .filter(|row| !merged.contains(row) && !is_closed(context, &rules, *row))
        .filter_map(|row| action_on(context, &rules, &holds, row, survivors.get(&row).copied()))
        .collect();
    (actions, notes)
}

/// Tells whether no rule may change a memory: a copy in a wider scope leaves memories that are protected for being read often.
fn is_closed(context: &Context<'_>, rules: &[&Rule], row: MemoryIndex) -> bool {
    let copies = || rules.iter().any(|rule| rule.then.action == RuleAction::PromoteScope);
    match context.protected.get(&row) {
        Some(ProtectedBy::AccessCount(_)) => !copies(),
        Some(_) => true,
        None => false,
    }
}

/// Reasons to keep rules about single memories off some of them.
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
        merged: &BTreeSet<MemoryIndex>,
        flags: &[Flag<'_>],
    ) -> Self {
        let clusters = context.input.detection.clusters.iter();
        let staying = clusters.map(|cluster| {
            let members = cluster.members.iter().copied();
            members.filter(|member| !merged.contains(member)).collect::<Vec<_>>()
        });
        let contradictory = merges
            .iter()
            .filter(|merge| merge.merged.iter().any(|&row| context.is_contradicted(row)));
        Self {
            flagged: flags.iter().flat_map(|flag| [flag.pair.0, flag.pair.1]).collect(),
            clustered: staying.filter(|members| members.len() > 1).flatten().collect(),
            contradictory: contradictory.map(|merge| merge.survivor).collect(),
        }
    }

    /// Returns why a change is not for now, if so. An archived memory takes no part in the next run: where others look
    /// at it now, they would do without it then, and be clustered or flagged anew.
    fn against(
        &self,
        context: &Context<'_>,
        change: ActionType,
        row: MemoryIndex,
    ) -> Option<&'static str> {
        if self.flagged.contains(&row) || context.was_flagged(row) {
            return Some("in a conflict that waits for a person");
        }
        if change == ActionType::Promote {
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

/// Counts memories, and the never read ones. A merged memory counts as itself, and its survivor without the reads it took
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

/// The first rule that matches and would change something; a noop rule before it stops it. A change that a person undid
/// gives way to the rules behind it.
fn action_on<'a>(
    context: &Context<'a>,
    rules: &[&'a Rule],
    holds: &Holds,
    row: MemoryIndex,
    merge: Option<&Merge<'a>>,
) -> Option<RowAction> {
    let memory = context.memory(row);
    let after = context.after(row, merge);
    let of_rule = |rule: &Rule, against: Option<&str>| {
        let reasons = met(&rule.when).into_iter().chain(against.map(str::to_owned));
        let rationale = Rationale::new(&rule.id, reasons.collect());
        Action::new(ActionType::Noop, vec![memory.id.clone()], rationale)
    };
    let left_alone = |action: Action| RowAction { row, action, access_count: None };
    let mut stopped_by: Option<&'a Rule> = None;
    let mut declined: Option<RowAction> = None;
    let only_copies = context.protected.contains_key(&row);
    for &rule in rules {
        if only_copies && rule.then.action != RuleAction::PromoteScope {
            continue;
        }
        if !matches(context, rule, row, &after, merge) {
            continue;
        }
        let (change, access_count) = match rule.then.action {
            RuleAction::Promote => {
                let count = largest_count(context, row, merge);
                (promote(context, rule, row, &after, merge), Some(count))
            }
            RuleAction::Archive => (Some(archive(&after)), None),
            // A memory that merges just changed is written anew when it has settled.
            RuleAction::Summarize if merge.is_none() => (shorten(context, memory), None),
            RuleAction::PromoteScope if merge.is_none() => {
                (copy(context, memory), Some(after.access_count))
            }
            RuleAction::Summarize | RuleAction::PromoteScope => continue,
            _ => {
                stopped_by.get_or_insert(rule);
                continue;
            }
        };
        let Some(change) = change else { continue };
        if let Some(by) = stopped_by {
            return Some(left_alone(of_rule(by, None)));
        }
        let kind = change.action;
        let against = if is_declined(context, kind, row, merge) {
            Some("a person took this back")
        } else {
            holds.against(context, kind, row)
        };
        if against.is_none() {
            let Action { target_ids, rationale, .. } = of_rule(rule, None);
            return Some(RowAction {
                row,
                action: Action { target_ids, rationale, ..change },
                access_count,
            });
        }
        declined.get_or_insert_with(|| left_alone(of_rule(rule, against)));
    }
    // A survivor has its action already.
    declined.filter(|_| merge.is_none())
}

/// Tells whether a person took this action on any member of the unit back.
fn is_declined(
    context: &Context<'_>,
    change: ActionType,
    row: MemoryIndex,
    merge: Option<&Merge<'_>>,
) -> bool {
    let declined = &context.input.snapshot.decisions.declined;
    let action = match change {
        ActionType::Promote => SingleAction::Promote,
        ActionType::Archive => SingleAction::Archive,
        _ => SingleAction::Summarize,
    };
    if rows(row, merge).any(|row| context.is_taken_back(row)) {
        return true;
    }
    !declined.is_empty()
        && members(context, row, merge)
            .any(|member| declined.contains(&(context.memory(member).id.clone(), action)))
}

/// A change that does not say yet of which memory and why.
fn change(action: ActionType) -> Action {
    Action::new(action, Vec::new(), Rationale::new("", Vec::new()))
}

fn matches(
    context: &Context<'_>,
    rule: &Rule,
    row: MemoryIndex,
    after: &Memory,
    merge: Option<&Merge<'_>>,
) -> bool {
    let access_count = match rule.then.action {
        RuleAction::Promote => largest_count(context, row, merge),
        _ => after.access_count,
    };
    let (size, similarity) =
        merge.map_or((1, None), |merge| (merge.merged.len() + 1, merge.similarity));
    unmet_shape(&rule.when, size, similarity).is_none()
        && unmet_kind(&rule.when, &after.categories).is_none()
        && unmet_measure(&rule.when, after, access_count, context.input.now).is_none()
}

/// The rows of the units that a merge joins, or the one row.
fn rows<'m>(
    row: MemoryIndex,
    merge: Option<&'m Merge<'_>>,
) -> impl Iterator<Item = MemoryIndex> + 'm {
    std::iter::once(row).chain(merge.into_iter().flat_map(|merge| merge.merged.iter().copied()))
}

/// Live rows and merged rows of these units.
fn members<'m>(
    context: &'m Context<'_>,
    row: MemoryIndex,
    merge: Option<&'m Merge<'_>>,
) -> impl Iterator<Item = MemoryIndex> + 'm {
    rows(row, merge).flat_map(|row| {
        let merged_rows = context.merged_rows.get(&row).copied().unwrap_or_default();
        std::iter::once(row).chain(merged_rows.iter().copied())
    })
}

fn largest_count(context: &Context<'_>, row: MemoryIndex, merge: Option<&Merge<'_>>) -> i64 {
    let count = |row| {
        let merged_rows = context.merged_rows.get(&row).copied().unwrap_or_default();
        largest_own_count(&context.input.snapshot.memories, row, merged_rows)
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

/// The changes of a promotion; none where it would change nothing, or not enough was read since the
/// last one.
fn promote(
    context: &Context<'_>,
    rule: &Rule,
    row: MemoryIndex,
    after: &Memory,
    merge: Option<&Merge<'_>>,
) -> Option<Action> {
    if let Some(before) = promoted_at(context, row, merge) {
        let since = largest_count(context, row, merge).saturating_sub(before);
        if rule.when.min_access_count.is_none_or(|minimum| since < minimum.max(1)) {
            return None;
        }
    }
    let cap = context.input.policy.merge.importance_cap;
    let importance = (after.importance + PROMOTE_INCREASE).min(cap).max(after.importance);
    let before = context.memory(row);
    importance.total_cmp(&after.importance).is_ne().then(|| Action {
        new_importance: importance.total_cmp(&before.importance).is_ne().then_some(importance),
        new_categories: new_categories(after, before),
        ..change(ActionType::Promote)
    })
}

/// `archived`, and each category as `archive/<category>`.
fn archive(after: &Memory) -> Action {
    let old = after.categories.iter().map(|category| format!("archive/{category}"));
    let categories = std::iter::once("archived".to_owned()).chain(old).collect();
    Action { new_categories: Some(categories), ..change(ActionType::Archive) }
}

/// A text this short stays as it is.
const SUMMARIZED_ABOVE_CHARS: usize = 5_000;
/// The tag of a shortened memory.
const SUMMARIZED: &str = "summarized";
/// The tag of a copy in a wider scope.
const PROMOTED: &str = "promoted";
/// The attribute by which an original names its copy.
const PROMOTED_TO: &str = "promoted_to";

/// Teams by the first part of their agents' names.
const TEAMS: [(&str, &str); 4] =
    [("DEV", "development"), ("SEC", "security"), ("INF", "infrastructure"), ("QA", "qa")];

/// The memory without unspecific sentences; none where that is hardly shorter.
fn shorten(context: &Context<'_>, memory: &Memory) -> Option<Action> {
    if memory.content.chars().count() <= SUMMARIZED_ABOVE_CHARS {
        return None;
    }
    let content = extract(&memory.content)?;
    let mut categories: Vec<String> = memory.categories.iter().map(ToString::to_string).collect();
    categories.push(SUMMARIZED.to_owned());
    let rewrite = Action { risk: Risk::Reworded, ..change(ActionType::Rewrite) };
    Some(written(context, rewrite, SUMMARIZED, memory, content, categories))
}

/// A copy of an agent's memory for its team, or of a team's for everybody; nothing where it has one, or where nobody
/// knows the team.
fn copy(context: &Context<'_>, memory: &Memory) -> Option<Action> {
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
    let content = memory.content.to_string();
    Some(written(context, change(ActionType::Promote), scope, memory, content, categories))
}

/// An action by which a new memory is written.
fn written(
    context: &Context<'_>,
    action: Action,
    kind: &str,
    memory: &Memory,
    content: String,
    categories: Vec<String>,
) -> Action {
    Action {
        canonical_id: Some(new_id(context, kind, memory, &content)),
        new_content: Some(content),
        new_categories: Some(categories),
        new_importance: Some(memory.importance),
        ..action
    }
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

// `extract` reads lines as adapters write them: a first line with the subject, prose, `name: value`. It says nothing
// that the text does not say, and nothing in another order.

/// Lines `name: value` that stay whole: outcomes and lessons.
const RESULTS: &str =
    "outcome result decision lessons lessons_learned learnings key_facts participants";

/// Events: the first and the last of them stay.
const TIMELINE: &str = "timeline";

/// So many events stay at either end.
const EVENTS_KEPT: usize = 3;

/// Words of sentences that say why something happened, or its consequence.
const TELLING: &str = "because caused decided due failed fixed learned lesson must never outcome resolved \
     result root solved therefore";

fn is_one_of(list: &str, word: &str) -> bool {
    list.split(' ').any(|known| known == word)
}

/// Returns the sentences that carry specifics, outcome and lessons, in their order; `None` where that is hardly shorter.
#[must_use]
pub fn extract(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let is_event = |line: &str| label(line) == Some(TIMELINE);
    let events = lines.iter().filter(|line| is_event(line)).count();
    let mut event = 0;
    let mut said = BTreeSet::new();
    let mut kept = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if is_event(line) {
            event += 1;
            if event <= EVENTS_KEPT || event + EVENTS_KEPT > events {
                kept.push((*line).to_owned());
            }
        } else if at == 0 && sentences(line).count() == 1
            || label(line).is_some_and(|label| is_one_of(RESULTS, label))
        {
            said.extend(specifics(line));
            kept.push((*line).to_owned());
        } else {
            kept.extend(telling(line, &mut said));
        }
    }
    let short = kept.join("\n");
    let is_short = short.chars().count() * 100 <= text.chars().count() * PERCENT_KEPT_MAX;
    (is_short && !short.is_empty()).then_some(short)
}

/// A text that keeps more of its characters than so many in a hundred is no summary.
const PERCENT_KEPT_MAX: usize = 80;

/// The name of a line `name: value`.
fn label(line: &str) -> Option<&str> {
    let (name, _) = line.split_once(": ")?;
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte == b'_' || byte == b'.';
    (!name.is_empty() && name.bytes().all(is_name)).then_some(name)
}

/// Keeps the sentences of a line that say something specific for the first time, or why.
fn telling<'t>(line: &'t str, said: &mut BTreeSet<&'t str>) -> Option<String> {
    let name = label(line);
    let prose = name.map_or(line, |name| &line[name.len() + 2..]);
    let kept: Vec<&str> = sentences(prose)
        .filter(|sentence| {
            let words = words(sentence).map(str::to_lowercase);
            let tells = words.into_iter().any(|word| is_one_of(TELLING, &word));
            specifics(sentence).into_iter().fold(tells, |news, word| said.insert(word) || news)
        })
        .collect();
    if kept.is_empty() {
        return None;
    }
    let label = name.map_or(String::new(), |name| format!("{name}: "));
    Some(label + &kept.join(" "))
}

/// The sentences of a line, each with its end.
fn sentences(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        if rest.is_empty() {
            return None;
        }
        let ends = rest.char_indices().find(|(at, character)| {
            let after = &rest[at + character.len_utf8()..];
            match character {
                '.' | '!' | '?' => after.is_empty() || after.starts_with(char::is_whitespace),
                '。' | '！' | '？' => true,
                _ => false,
            }
        });
        let end = ends.map_or(rest.len(), |(at, character)| at + character.len_utf8());
        let (sentence, after) = rest.split_at(end);
        rest = after;
        Some(sentence.trim_end())
    })
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()))
        .filter(|word| !word.is_empty())
}

/// Words that name something: with a digit, a capital inside or a sign of code, or a capital in mid-sentence.
fn specifics(sentence: &str) -> Vec<&str> {
    let is_specific = |at: usize, word: &str| {
        let mut characters = word.chars();
        let first = characters.next().is_some_and(char::is_uppercase);
        word.chars().any(char::is_numeric)
            || characters.any(|c| c.is_uppercase() || "/_@#:=".contains(c))
            || at > 0 && first && word.chars().count() > 1
    };
    let words = words(sentence).enumerate().filter(|(at, word)| is_specific(*at, word));
    words.map(|(_, word)| word).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn specifics_outcome_and_lessons_stay() {
        let chatter = "We kept looking at it for a while. ".repeat(20);
        let events: Vec<String> =
            (1..=9).map(|n| format!("timeline: time: 10:0{n}; event: step")).collect();
        let text = format!(
            "Outage of the queue\n{chatter}Port 8080 was closed. {chatter}Port 8080 was closed. It failed because nobody \
             looked.\noutcome: restarted\nlessons: look earlier\n{}",
            events.join("\n")
        );
        let short = extract(&text).unwrap();
        assert_eq!(
            short,
            format!(
                "Outage of the queue\nPort 8080 was closed. It failed because nobody looked.\noutcome: restarted\n\
                 lessons: look earlier\n{}\n{}",
                events[..3].join("\n"),
                events[6..].join("\n")
            )
        );
        assert_eq!(extract(&short), None, "once is enough");
        assert_eq!(extract("Text 1."), None);
    }

    proptest! {
        #[test]
        fn it_says_nothing_of_its_own(
            lines in prop::collection::vec("(timeline: |outcome: |note: |)([A-Za-z0-9 ]{0,12}[.!?。] ?){0,6}", 0..20),
        ) {
            let text = lines.join("\n");
            let Some(short) = extract(&text) else { return Ok(()) };
            let mut rest = text.as_str();
            for line in short.lines() {
                let name = label(line);
                for sentence in sentences(name.map_or(line, |name| &line[name.len() + 2..])) {
                    let found = rest.find(sentence);
                    prop_assert!(found.is_some(), "{:?} is not in the rest of {:?}", sentence, text);
                    rest = &rest[found.unwrap_or(0) + sentence.len()..];
                }
            }
        }
    }
}

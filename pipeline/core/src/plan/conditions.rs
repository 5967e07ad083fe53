//! The conditions of a rule.
//!
//! Of a merge, `min_similarity` and `min_cluster_size` speak of the rows that would really be merged;
//! categories of each of them; age, access count and importance of each merged row; `tag_overlap_min`
//! compares each merged row with its survivor. Of a promotion or archival, all speak of the memory as the merges of the plan leave
//! it, with the cluster it is the survivor of. Of a flag, of both sides.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::memory::{Memory, MemoryIndex, attribute, attribute_of};
use crate::time::Instant;
use memfold_guard::text;
use memfold_guard::{Difference, Guard, Judgement, Reading, Side, Step, StepKind};
use memfold_simd::Similarity;

use super::SHOWN_WORD_CHARS;
use crate::policy::{Conditions, Policy, name_of};

/// Returns the first condition on age, access count or importance that does not hold. A promotion looks at another
/// access count than that of the memory.
pub(super) fn unmet_measure(
    when: &Conditions,
    memory: &Memory,
    access_count: i64,
    now: Instant,
) -> Option<String> {
    let importance = memory.importance;
    let old_enough = |minimum: f64| age_days(memory, now).is_some_and(|days| days >= minimum);
    let idle_enough = |minimum: f64| idle_days(memory, now).is_some_and(|days| days >= minimum);
    None.or_else(|| unmet("age_days >=", when.min_age_days, old_enough))
        .or_else(|| unmet("access_count >=", when.min_access_count, |n| access_count >= n))
        .or_else(|| unmet("access_count <=", when.max_access_count, |n| access_count <= n))
        .or_else(|| unmet("importance >=", when.min_importance, |x| importance >= x))
        .or_else(|| unmet("importance <=", when.max_importance, |x| importance <= x))
        .or_else(|| unmet("idle_days >=", when.min_idle_days, idle_enough))
}

/// Returns the first condition on categories that does not hold.
pub(super) fn unmet_kind(when: &Conditions, categories: &[Box<str>]) -> Option<String> {
    let has = |wanted: &String| has_category(categories, wanted);
    let list = |name: &str, wanted: &[String]| Some(format!("{name} {}", wanted.join(", ")));
    let (any, none, all) = (&when.categories_any, &when.categories_none, &when.categories_all);
    if !any.is_empty() && !any.iter().any(has) {
        list("categories_any", any)
    } else if none.iter().any(has) {
        list("categories_none", none)
    } else if !all.iter().all(has) {
        list("categories_all", all)
    } else {
        None
    }
}

/// Returns the first attribute that is to be the same and is not.
pub(super) fn unmet_sameness(
    when: &Conditions,
    left: &[Box<str>],
    right: &[Box<str>],
) -> Option<String> {
    let differs = |name: &&String| attribute(left, name) != attribute(right, name);
    when.same.iter().find(differs).map(|name| format!("same {name}"))
}

/// Returns the condition on the tags that are shared with the survivor, where it does not hold.
pub(super) fn unmet_likeness(
    when: &Conditions,
    left: &[Box<str>],
    right: &[Box<str>],
) -> Option<String> {
    let overlap = |minimum: f64| category_overlap(left, right) >= minimum;
    unmet("tag_overlap >=", when.tag_overlap_min, overlap)
}

/// Returns the first condition on size or smallest similarity that does not hold.
pub(super) fn unmet_shape(
    when: &Conditions,
    size: usize,
    similarity: Option<Similarity>,
) -> Option<String> {
    let above = |minimum| similarity.is_some_and(|value| value >= minimum);
    unmet("similarity >=", when.min_similarity, above)
        .or_else(|| unmet("cluster_size >=", when.min_cluster_size, |minimum| size >= minimum))
}

/// Returns the conditions of a rule that held, in words.
pub(super) fn met(when: &Conditions) -> Vec<String> {
    fn shown(name: &str, value: Option<impl fmt::Display>) -> Option<String> {
        value.map(|value| format!("{name} {value}"))
    }
    let list = |name: &str, values: &[String]| {
        (!values.is_empty()).then(|| format!("{name} {}", values.join(", ")))
    };
    let conditions = [
        shown("similarity >=", when.min_similarity),
        when.is_proven_same().then(|| "proven to say the same".to_owned()),
        shown("cluster_size >=", when.min_cluster_size),
        shown("age_days >=", when.min_age_days),
        shown("access_count >=", when.min_access_count),
        shown("access_count <=", when.max_access_count),
        shown("importance >=", when.min_importance),
        shown("importance <=", when.max_importance),
        shown("tag_overlap >=", when.tag_overlap_min),
        shown("idle_days >=", when.min_idle_days),
        list("categories_any", &when.categories_any),
        list("categories_none", &when.categories_none),
        list("categories_all", &when.categories_all),
        list("same", &when.same),
    ];
    conditions.into_iter().flatten().collect()
}

/// Tells whether categories hold one, whatever its case.
pub(super) fn has_category(categories: &[Box<str>], wanted: &str) -> bool {
    let wanted = wanted.to_lowercase();
    categories.iter().any(|category| category.to_lowercase() == wanted)
}

/// The Jaccard index of two sets of categories without attributes; 1 where both are empty.
fn category_overlap(left: &[Box<str>], right: &[Box<str>]) -> f64 {
    let [left, right] = [left, right].map(|categories| {
        let tags = categories.iter().filter(|category| attribute_of(category).is_none());
        tags.collect::<BTreeSet<_>>()
    });
    match left.union(&right).count() {
        0 => 1.0,
        all => left.intersection(&right).count() as f64 / all as f64,
    }
}

fn unmet<T: Copy + std::fmt::Display>(
    name: &str,
    bound: Option<T>,
    holds: impl Fn(T) -> bool,
) -> Option<String> {
    bound.filter(|&bound| !holds(bound)).map(|bound| format!("{name} {bound}"))
}

/// Why a memory is protected.
#[derive(Debug, Clone, PartialEq)]
pub enum ProtectedBy {
    /// It carries a protecting category.
    Category(String),
    /// Its id is reserved.
    Id,
    /// It comes from a protecting source.
    Source(String),
    /// It is at least this important.
    Importance(f64),
    /// It is younger than so many hours.
    Age(f64),
    /// It is read at least this often.
    AccessCount(i64),
}

impl ProtectedBy {
    /// Returns the kind of protection, for counting.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Category(_) => "category",
            Self::Id => "id",
            Self::Source(_) => "source",
            Self::Importance(_) => "importance",
            Self::Age(_) => "age",
            Self::AccessCount(_) => "access_count",
        }
    }
}

impl fmt::Display for ProtectedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Category(category) => write!(f, "category {category}"),
            Self::Id => write!(f, "reserved id"),
            Self::Source(source) => write!(f, "source {source}"),
            Self::Importance(minimum) => write!(f, "importance >= {minimum}"),
            Self::Age(hours) => write!(f, "younger than {hours} hours"),
            Self::AccessCount(minimum) => write!(f, "access_count >= {minimum}"),
        }
    }
}

/// Returns why a memory is protected, if it is. `promoted`: a run of ours has raised it before.
pub fn protected_by(
    memory: &Memory,
    promoted: bool,
    policy: &Policy,
    now: Instant,
) -> Option<ProtectedBy> {
    let protection = &policy.protection;
    if !protection.enabled {
        return None;
    }
    let category = || {
        let lower: Vec<String> = memory.categories.iter().map(|c| c.to_lowercase()).collect();
        let protects = |pattern: &&String| {
            let pattern = pattern.to_lowercase();
            lower.iter().any(|category| is_or_is_below(category, &pattern))
        };
        protection.categories.iter().find(protects).cloned()
    };
    let source = || {
        let root = memory.root_source.to_lowercase();
        protection.sources.iter().find(|prefix| root.starts_with(&prefix.to_lowercase())).cloned()
    };
    let raised_by_us = promoted && memory.importance <= policy.merge.importance_cap;
    let important = memory.importance >= protection.importance_min && !raised_by_us;
    let fresh = age_days(memory, now).is_some_and(|days| days * 24.0 < protection.min_age_hours);
    let read = protection.access_count_min.filter(|&minimum| memory.access_count >= minimum);
    category()
        .map(ProtectedBy::Category)
        .or_else(|| {
            let reserved = protection.ids.iter().any(|id| **id == *memory.id.as_str());
            reserved.then_some(ProtectedBy::Id)
        })
        .or_else(|| source().map(ProtectedBy::Source))
        .or_else(|| important.then_some(ProtectedBy::Importance(protection.importance_min)))
        .or_else(|| fresh.then_some(ProtectedBy::Age(protection.min_age_hours)))
        .or_else(|| read.map(ProtectedBy::AccessCount))
}

/// Returns a memory's age in days: 0 for future times, `None` for unreadable ones.
pub(super) fn age_days(memory: &Memory, now: Instant) -> Option<f64> {
    memory.created_at.instant().map(|created| now.days_since(created))
}

/// Returns for how many days a memory has not been read; one that was never read counts from its creation.
fn idle_days(memory: &Memory, now: Instant) -> Option<f64> {
    memory.last_accessed.max(memory.created_at.instant()).map(|last| now.days_since(last))
}

/// Tells whether a category is the protecting one or one below it (`decisions/architecture`), both in lower case.
fn is_or_is_below(category: &str, protecting: &str) -> bool {
    category.strip_prefix(protecting).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Canonical similarity of two memories; `None` unless both have vectors of one space.
pub type SimilarityOf<'a> = dyn Fn(MemoryIndex, MemoryIndex) -> Option<Similarity> + 'a;

/// The guard's view of the memories of a snapshot.
pub trait FactGuard {
    /// Judges two texts.
    fn judge(&self, older: MemoryIndex, newer: MemoryIndex) -> Judgement;

    /// Returns the probability that two texts of a similarity say the same, in hundredths; 0 where they cannot.
    fn probability(&self, older: MemoryIndex, newer: MemoryIndex, similarity: Similarity) -> f64;

    /// Returns how much a text says, for `canonical: most_informative`: words with a digit or a
    /// capital inside, then distinct words.
    fn informativeness(&self, row: MemoryIndex) -> (usize, usize);
}

/// A [`Guard`] over the texts of memories. A pair is judged once in a run.
#[derive(Debug)]
pub struct GuardedTexts<'a> {
    guard: &'a Guard,
    memories: &'a [Memory],
    judged: RefCell<BTreeMap<(MemoryIndex, MemoryIndex), Judgement>>,
}

impl<'a> GuardedTexts<'a> {
    /// Judges the memories of a snapshot.
    #[must_use]
    pub const fn new(guard: &'a Guard, memories: &'a [Memory]) -> Self {
        Self { guard, memories, judged: RefCell::new(BTreeMap::new()) }
    }

    fn read(&self, index: MemoryIndex) -> Reading {
        self.memories[index.index()].reading(self.guard)
    }

    fn content(&self, index: MemoryIndex) -> &str {
        &self.memories[index.index()].content
    }
}

impl FactGuard for GuardedTexts<'_> {
    fn judge(&self, older: MemoryIndex, newer: MemoryIndex) -> Judgement {
        if let Some(known) = self.judged.borrow().get(&(older, newer)) {
            return known.clone();
        }
        let judgement = self.guard.judge(&self.read(older), &self.read(newer));
        self.judged.borrow_mut().insert((older, newer), judgement.clone());
        judgement
    }

    fn probability(&self, older: MemoryIndex, newer: MemoryIndex, similarity: Similarity) -> f64 {
        let judgement = self.judge(older, newer);
        self.guard.probability(&self.read(older), &self.read(newer), &judgement, similarity.get())
    }

    fn informativeness(&self, row: MemoryIndex) -> (usize, usize) {
        informativeness(self.content(row))
    }
}

/// Counts the distinct words of a text that look specific, and all distinct words.
pub(super) fn informativeness(content: &str) -> (usize, usize) {
    let mut words: Vec<&str> = text::tokens(content).map(|token| token.text).collect();
    words.sort_unstable();
    words.dedup();
    let is_specific = |word: &&&str| {
        word.chars().any(|c| c.is_numeric()) || word.chars().skip(1).any(char::is_uppercase)
    };
    (words.iter().filter(is_specific).count(), words.len())
}

/// So many differences or lacking words are named; the rest is counted.
const NAMED_MAX: usize = 8;

/// Names the differences of a judgement of two texts: `number "8080" / "9090"`.
pub fn differences(judgement: &Judgement, left: &str, right: &str) -> Vec<String> {
    let (left, right) = (Content::of(left), Content::of(right));
    named(judgement.differences.len(), |at| {
        let Difference { kind, left_text, right_text, .. } = &judgement.differences[at];
        format!("{} {} / {}", name_of(kind), left.quoted(left_text), right.quoted(right_text))
    })
}

/// Names the values that only the left text has, where it says more than the right one.
pub fn lacks(judgement: &Judgement, left: &str) -> Vec<String> {
    let content = Content::of(left);
    let added: Vec<_> = match judgement.longer {
        Some(Side::Left) => judgement.additions().collect(),
        _ => vec![],
    };
    named(added.len(), |at| content.quoted(&left[added[at].clone()]))
}

/// Names the steps of a proof but for equal parts: `quantity "300 s" / "5 minutes"`.
pub fn proof_steps(judgement: &Judgement, left: &str, right: &str) -> Vec<String> {
    let (own, other) = (Content::of(left), Content::of(right));
    let steps: Vec<&Step> =
        judgement.steps.iter().filter(|step| step.kind != StepKind::Equal).collect();
    named(steps.len(), |at| {
        let Step { kind, left: from, right: to } = steps[at];
        let (from, to) = (own.quoted(&left[from.clone()]), other.quoted(&right[to.clone()]));
        format!("{} {from} / {to}", name_of(kind))
    })
}

/// Letters by which full words are longer than short forms, at least; spellings like `colour` are no better.
const LONGER_MIN: i64 = 2;

/// Tells whether the left one of two texts that say the same is written better: with capitals where the other has none
/// (or nothing else), or with full words where the other has short forms.
#[must_use]
pub fn is_written_better(judgement: &Judgement, left: &str, right: &str) -> bool {
    let is_mixed =
        |text: &str| text.contains(char::is_lowercase) && text.contains(char::is_uppercase);
    if is_mixed(left) != is_mixed(right) {
        return is_mixed(left);
    }
    let is_word = |step: &&Step| matches!(step.kind, StepKind::Notation | StepKind::Abbreviation);
    let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).count() as i64;
    let surplus =
        |step: &Step| letters(&left[step.left.clone()]) - letters(&right[step.right.clone()]);
    judgement.steps.iter().filter(is_word).map(surplus).sum::<i64>() >= LONGER_MIN
}

/// Stands first among the kinds of signs where the newer text holds another value in the same place.
pub const UPDATE: &str = "update";

/// Names the kind of a judgement's conflict, behind whether it is an update.
pub fn signal_kinds(judgement: &Judgement) -> Vec<String> {
    let mut kinds: Vec<String> = Vec::new();
    kinds.extend(judgement.update.then(|| UPDATE.to_owned()));
    kinds.extend(judgement.conflict().map(name_of));
    kinds
}

fn named(count: usize, name: impl Fn(usize) -> String) -> Vec<String> {
    let mut names: Vec<String> = (0..count.min(NAMED_MAX)).map(name).collect();
    if count > NAMED_MAX {
        names.push(format!("{} more", count - NAMED_MAX));
    }
    names
}

const MASK: &str = "[masked]";

/// A text, shown by its words.
struct Content {
    /// As it would be shown as a whole, in lower case, where that masks anything.
    masked: Option<String>,
}

impl Content {
    /// Looks through a text once, for however many of its words.
    fn of(content: &str) -> Self {
        let whole = text::excerpt(content, content.len().saturating_mul(8));
        Self { masked: whole.contains(MASK).then(|| whole.to_lowercase()) }
    }

    /// Quotes words of it, unless they may be part of a secret.
    fn quoted(&self, words: &str) -> String {
        if words.is_empty() {
            return "nothing".to_owned();
        }
        let excerpt = text::excerpt(words, SHOWN_WORD_CHARS);
        let is_open = |masked: &String| masked.contains(&excerpt.to_lowercase());
        let shown = if self.masked.as_ref().is_none_or(is_open) { &*excerpt } else { MASK };
        format!("\"{shown}\"")
    }
}

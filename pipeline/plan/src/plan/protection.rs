//! Protection: what is never changed and never absorbed.

use std::fmt;

use crate::policy::{Policy, RuleAction};
use memfold_model::memory::Memory;
use memfold_model::time::Instant;

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
    let raised_by_us = promoted && memory.importance <= promotion_cap(policy);
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
    let created = memory.created_at.instant()?;
    let age_us = now.0.saturating_sub(created.0).max(0);
    Some(age_us as f64 / MICROSECONDS_PER_DAY)
}

const MICROSECONDS_PER_DAY: f64 = 86_400e6;

/// Tells whether a category is the protecting one or one below it (`decisions/architecture`), both in lower case.
fn is_or_is_below(category: &str, protecting: &str) -> bool {
    category.strip_prefix(protecting).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The highest importance that a promotion of this policy reaches.
fn promotion_cap(policy: &Policy) -> f64 {
    let caps = policy.rules.iter().filter_map(|rule| match rule.then {
        RuleAction::Promote { cap, .. } => Some(cap),
        _ => None,
    });
    caps.fold(policy.merge.importance_cap, f64::max)
}

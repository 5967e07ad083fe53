//! Retention: how alive a memory is.
//!
//! [`retention`] is a function of one row and the time. Runs leave no trace in it: one pass a
//! year and one pass an hour agree.

use crate::memory::Memory;
use crate::time::Instant;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Days in which recency halves; document 001.
pub const HALF_LIFE_DAYS: f64 = 30.0;
/// Weight of recency; document 001.
pub const RECENCY_WEIGHT: f64 = 0.4;
/// Weight of activation; document 001.
pub const ACTIVATION_WEIGHT: f64 = 0.2;
/// Weight of importance; document 001.
pub const IMPORTANCE_WEIGHT: f64 = 0.4;
/// Reads from which on activation is 1: the `ln 21` of document 001.
pub const ACTIVATION_CAP: u32 = 20;
/// Factor of a superseded memory; document 001. Even the best one (0.2) is COLD then.
pub const SUPERSEDED_FACTOR: f64 = 0.2;
/// HOT from here on; document 001.
pub const HOT_MIN: f64 = 0.6;
/// WARM from here on; document 001.
pub const WARM_MIN: f64 = 0.3;
/// ARCHIVED below. Document 001 has 0.1 and its code 0.3, which would leave COLD empty.
pub const ARCHIVE_BELOW: f64 = 0.1;
/// Importance that pins: `brain.db` calls 3 critical.
pub const PINNED_IMPORTANCE_MIN: f64 = 3.0;
/// Recency of a memory whose creation time is unreadable: neither fresh nor stale.
pub const UNKNOWN_RECENCY: f64 = 0.5;
/// Importance by category or namespace; document 001.
pub const CATEGORY_IMPORTANCE: [(&str, f64); 10] = [
    ("decisions", 1.0),
    ("learnings", 0.9),
    ("patterns", 0.85),
    ("retrospective", 0.8),
    ("inception", 0.7),
    ("blockers", 0.7),
    ("research", 0.6),
    ("elicitation", 0.6),
    ("progress", 0.5),
    ("reviews", 0.5),
];

const MICROS_PER_DAY: f64 = 86_400e6;

/// Scores are rounded to this many steps per unit. See [`retention`].
const STEPS_PER_UNIT: f64 = 1e9;

/// What retention and tiers depend on besides the row and the time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RetentionPolicy {
    /// Days in which recency halves; above 0.
    pub half_life_days: f64,
    /// Weight of recency. The three weights add up to 1.
    pub recency_weight: f64,
    /// Weight of activation.
    pub activation_weight: f64,
    /// Weight of importance.
    pub importance_weight: f64,
    /// Reads from which on activation is 1; at least 1.
    pub activation_cap: u32,
    /// Factor of a superseded memory, in \[0, 1\].
    pub superseded_factor: f64,
    /// HOT from here on.
    pub hot_min: f64,
    /// WARM from here on; not above `hot_min`.
    pub warm_min: f64,
    /// ARCHIVED below; not above `warm_min`. 0 archives nothing.
    pub archive_below: f64,
    /// Importance from which on a memory counts as pinned.
    pub pinned_importance_min: f64,
    /// Importance by category, in \[0, 1\]. Case and a plural `s` do not count.
    pub category_importance: Vec<(String, f64)>,
}

impl Default for RetentionPolicy {
    fn default() -> Self {
        let table = CATEGORY_IMPORTANCE.iter().map(|(name, value)| ((*name).to_owned(), *value));
        Self {
            half_life_days: HALF_LIFE_DAYS,
            recency_weight: RECENCY_WEIGHT,
            activation_weight: ACTIVATION_WEIGHT,
            importance_weight: IMPORTANCE_WEIGHT,
            activation_cap: ACTIVATION_CAP,
            superseded_factor: SUPERSEDED_FACTOR,
            hot_min: HOT_MIN,
            warm_min: WARM_MIN,
            archive_below: ARCHIVE_BELOW,
            pinned_importance_min: PINNED_IMPORTANCE_MIN,
            category_importance: table.collect(),
        }
    }
}

/// Why a [`RetentionPolicy`] cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RetentionPolicyError {
    /// A number is out of its range.
    #[error("{name} is {found}, expected {expected}")]
    OutOfRange {
        /// The field, or the category of the table.
        name: String,
        /// Its value.
        found: f64,
        /// Its range.
        expected: &'static str,
    },
    /// The weights do not add up to 1: retention would not span 0 to 1.
    #[error("the weights of recency, activation and importance add up to {found}, expected 1")]
    Weights {
        /// Their sum.
        found: f64,
    },
    /// The thresholds are out of order.
    #[error("tier thresholds {archive_below}, {warm_min}, {hot_min} must not decrease")]
    Thresholds {
        /// ARCHIVED below.
        archive_below: f64,
        /// WARM from here on.
        warm_min: f64,
        /// HOT from here on.
        hot_min: f64,
    },
}

impl RetentionPolicy {
    /// Returns the policy if every number is in its range. The functions of this crate rely on
    /// that.
    ///
    /// # Errors
    ///
    /// The first number out of its range, weights that do not add up to 1 (within 10⁻⁶), or
    /// thresholds out of order.
    pub fn validated(self) -> Result<Self, RetentionPolicyError> {
        if !(self.half_life_days.is_finite() && self.half_life_days > 0.0) {
            return Err(out_of_range("half_life_days", self.half_life_days, "above 0"));
        }
        if self.activation_cap == 0 {
            return Err(out_of_range("activation_cap", 0.0, "at least 1"));
        }
        if self.pinned_importance_min.is_nan() {
            return Err(out_of_range("pinned_importance_min", f64::NAN, "a number"));
        }
        let table = self.category_importance.iter().map(|(name, value)| (name.as_str(), *value));
        let outside = self.shares().into_iter().chain(table).find(|(_, value)| !is_share(*value));
        if let Some((name, found)) = outside {
            return Err(out_of_range(name, found, "0 to 1"));
        }
        let sum = self.recency_weight + self.activation_weight + self.importance_weight;
        if (sum - 1.0).abs() > 1e-6 {
            return Err(RetentionPolicyError::Weights { found: sum });
        }
        if self.archive_below > self.warm_min || self.warm_min > self.hot_min {
            return Err(RetentionPolicyError::Thresholds {
                archive_below: self.archive_below,
                warm_min: self.warm_min,
                hot_min: self.hot_min,
            });
        }
        Ok(self)
    }

    fn shares(&self) -> [(&'static str, f64); 7] {
        [
            ("recency_weight", self.recency_weight),
            ("activation_weight", self.activation_weight),
            ("importance_weight", self.importance_weight),
            ("superseded_factor", self.superseded_factor),
            ("hot_min", self.hot_min),
            ("warm_min", self.warm_min),
            ("archive_below", self.archive_below),
        ]
    }
}

fn is_share(value: f64) -> bool {
    (0.0..=1.0).contains(&value)
}

fn out_of_range(name: &str, found: f64, expected: &'static str) -> RetentionPolicyError {
    RetentionPolicyError::OutOfRange { name: name.to_owned(), found, expected }
}

/// What retention and tier of one memory depend on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetentionInput<'a> {
    /// When it was made; none where the store's text is unreadable.
    pub created_at: Option<Instant>,
    /// When it was last read, if ever.
    pub last_accessed: Option<Instant>,
    /// How often it was read; below 0 counts as 0.
    pub access_count: i64,
    /// Categories, or the namespace.
    pub categories: &'a [Box<str>],
    /// The store's importance, 1 being normal and 3 critical.
    pub importance: f64,
    /// Whether a SUPERSEDES edge of high confidence ends here; see [`crate::lifecycle::superseded_by`].
    pub is_superseded: bool,
    /// Whether it is pinned or protected.
    pub is_pinned: bool,
    /// Whether a consolidation wrote it as a summary.
    pub is_summary: bool,
}

impl<'a> RetentionInput<'a> {
    /// Takes what a loaded row knows. Last access and the flags are the caller's to set.
    #[must_use]
    pub fn of(memory: &'a Memory) -> Self {
        Self {
            created_at: memory.created_at.instant(),
            last_accessed: None,
            access_count: memory.access_count,
            categories: &memory.categories,
            importance: memory.importance,
            is_superseded: false,
            is_pinned: false,
            is_summary: false,
        }
    }
}

/// How alive a memory is. All values are in \[0, 1\].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Retention {
    /// The weighted sum, with the factor of a superseded memory.
    pub overall: f64,
    /// 2^(−age / half-life), age counted from creation or the last access, whichever is later.
    pub recency: f64,
    /// ln(1 + reads) / ln(1 + cap), at most 1.
    pub activation: f64,
    /// That of its categories, or of the row.
    pub importance: f64,
}

/// Computes how alive a memory is at `now`; it never rises with time alone.
///
/// A future date counts as age 0. Without a creation time recency stays [`UNKNOWN_RECENCY`]. Of
/// several categories the most important one counts; without any of the table importance is
/// 0.25 + 0.25 · the row's importance, clamped.
///
/// `overall` is rounded to nine decimals. A sum that is 0.6 on paper may be off by one unit in
/// the last place, upward or downward with the order of terms and the platform's `exp2`. Rounded,
/// it is the double nearest to 0.6, which is what a threshold written as `0.6` is: a plain `>=`
/// decides the boundary.
///
/// # Examples
///
/// ```
/// use memfold_core::lifecycle::{RetentionInput, RetentionPolicy, Tier, assign, retention};
/// use memfold_core::time::Instant;
///
/// let categories: [Box<str>; 1] = ["decision".into()];
/// let input = RetentionInput {
///     created_at: Some(Instant(0)),
///     last_accessed: None,
///     access_count: 0,
///     categories: &categories,
///     importance: 1.0,
///     is_superseded: false,
///     is_pinned: false,
///     is_summary: false,
/// };
/// let after_30_days = Instant(30 * 86_400_000_000);
/// let policy = RetentionPolicy::default();
/// assert_eq!(retention(&input, after_30_days, &policy).overall, 0.6);
/// assert_eq!(assign(&input, after_30_days, &policy).tier, Tier::Hot);
/// ```
#[must_use]
pub fn retention(input: &RetentionInput<'_>, now: Instant, policy: &RetentionPolicy) -> Retention {
    let recency = recency(input, now, policy.half_life_days);
    let activation = activation(input.access_count, policy.activation_cap);
    let importance = importance(input, policy);
    let sum = policy.recency_weight * recency
        + policy.activation_weight * activation
        + policy.importance_weight * importance;
    let factor = if input.is_superseded { policy.superseded_factor } else { 1.0 };
    let overall = ((sum * factor).clamp(0.0, 1.0) * STEPS_PER_UNIT).round() / STEPS_PER_UNIT;
    Retention { overall, recency, activation, importance }
}

fn recency(input: &RetentionInput<'_>, now: Instant, half_life_days: f64) -> f64 {
    let Some(created) = input.created_at else { return UNKNOWN_RECENCY };
    let latest = input.last_accessed.map_or(created, |accessed| accessed.max(created));
    halving(latest, now, half_life_days)
}

/// 2^(−age / half-life): 1 for dates not before `now`.
pub(crate) fn halving(since: Instant, now: Instant, half_life_days: f64) -> f64 {
    let age_micros = now.0.saturating_sub(since.0).max(0) as f64;
    (-age_micros / (half_life_days * MICROS_PER_DAY)).exp2()
}

fn activation(access_count: i64, cap: u32) -> f64 {
    let reads = access_count.max(0) as f64;
    (reads.ln_1p() / f64::from(cap).ln_1p()).min(1.0)
}

fn importance(input: &RetentionInput<'_>, policy: &RetentionPolicy) -> f64 {
    let known = input.categories.iter().filter_map(|category| {
        policy.category_importance.iter().find(|(name, _)| is_same_category(name, category))
    });
    match known.map(|(_, value)| *value).max_by(f64::total_cmp) {
        Some(value) => value,
        None if input.importance.is_nan() => UNKNOWN_RECENCY,
        None => (0.25 + 0.25 * input.importance).clamp(0.0, 1.0),
    }
}

/// `Decision` and `decisions` are the same, as are `progress` and `progress`.
fn is_same_category(one: &str, other: &str) -> bool {
    fn stem(name: &str) -> &str {
        let name = name.trim();
        name.strip_suffix(['s', 'S']).unwrap_or(name)
    }
    stem(one).eq_ignore_ascii_case(stem(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DAY: i64 = 86_400_000_000;
    const NOW: Instant = Instant(20_000 * DAY);

    fn input(age_days: i64, categories: &[Box<str>]) -> RetentionInput<'_> {
        RetentionInput {
            created_at: Some(Instant(NOW.0 - age_days * DAY)),
            last_accessed: None,
            access_count: 0,
            categories,
            importance: 1.0,
            is_superseded: false,
            is_pinned: false,
            is_summary: false,
        }
    }

    /// Computed with 30 decimal digits outside this program, then rounded to nine.
    #[test]
    fn overall_is_that_of_the_table() {
        // Category, age in days, days since the last read (-1: none), reads, superseded, overall.
        let table: [(&str, i64, i64, i64, bool, f64); 26] = [
            ("decisions", 0, -1, 0, false, 0.8),
            ("decisions", 30, -1, 0, false, 0.6),
            ("decisions", 60, -1, 0, false, 0.5),
            ("decisions", 90, -1, 0, false, 0.45),
            ("decisions", 36_500, -1, 0, false, 0.4),
            ("decisions", 0, -1, 20, false, 1.0),
            ("decisions", 0, -1, 1_000_000, false, 1.0),
            ("decisions", 30, -1, 20, true, 0.16),
            ("decisions", 0, -1, 20, true, 0.2),
            ("decisions", 36_500, -1, 0, true, 0.08),
            ("learnings", 0, -1, 0, false, 0.76),
            ("learnings", 30, -1, 0, false, 0.56),
            ("learnings", 15, -1, 3, false, 0.733_910_812),
            ("patterns", 60, -1, 0, false, 0.44),
            ("retrospective", 0, -1, 0, false, 0.72),
            ("inception", 30, -1, 0, false, 0.48),
            ("blockers", 120, 30, 7, false, 0.616_602_149),
            ("research", 90, -1, 0, false, 0.29),
            ("elicitation", 0, -1, 0, false, 0.64),
            ("progress", 0, -1, 0, false, 0.6),
            ("progress", 60, -1, 0, false, 0.3),
            ("progress", 61, -1, 0, false, 0.297_715_997),
            ("progress", 36_500, -1, 0, false, 0.2),
            ("reviews", 30, -1, -5, false, 0.4),
            ("reviews", 60, 90, 1, false, 0.345_534_050),
            ("anything", -40, -1, 0, false, 0.6),
        ];
        for (category, age, read_days_ago, reads, is_superseded, expected) in table {
            let categories = [category.into()];
            let mut row = input(age, &categories);
            row.access_count = reads;
            row.is_superseded = is_superseded;
            let read = (read_days_ago >= 0).then_some(Instant(NOW.0 - read_days_ago * DAY));
            row.last_accessed = read;
            let found = retention(&row, NOW, &RetentionPolicy::default()).overall;
            assert!(found.to_bits() == expected.to_bits(), "{category} {age}: {found} {expected}");
        }
    }

    #[test]
    fn categories_are_read_in_any_number_and_case() {
        let policy = RetentionPolicy::default();
        let importance_of = |names: &[&str], importance: f64| {
            let categories: Vec<Box<str>> = names.iter().map(|name| (*name).into()).collect();
            retention(&RetentionInput { importance, ..input(0, &categories) }, NOW, &policy)
                .importance
        };
        for (names, importance, expected) in [
            (&["decision"][..], 0.0, 1.0),
            (&[" Decisions "], 0.0, 1.0),
            (&["PROGRESS"], 3.0, 0.5),
            (&["retrospectives"], 1.0, 0.8),
            (&["blocker"], 1.0, 0.7),
            (&["progress", "learning"], 1.0, 0.9),
            (&["unknown"], 1.0, 0.5),
            (&[], 2.0, 0.75),
            (&[], 3.0, 1.0),
            (&[], 9.0, 1.0),
            (&[], -3.0, 0.0),
            (&[], f64::NAN, 0.5),
            (&[], f64::INFINITY, 1.0),
        ] {
            let found = importance_of(names, importance);
            assert!((found - expected).abs() < 1e-12, "{names:?} {importance}: {found}");
        }
    }

    #[test]
    fn a_policy_out_of_range_is_refused() {
        type Change = fn(&mut RetentionPolicy);
        let changes: [(Change, &str); 8] = [
            (|policy| policy.half_life_days = 0.0, "half_life_days is 0, expected above 0"),
            (|policy| policy.half_life_days = f64::NAN, "half_life_days is NaN, expected above 0"),
            (|policy| policy.activation_cap = 0, "activation_cap is 0, expected at least 1"),
            (|policy| policy.superseded_factor = 1.5, "superseded_factor is 1.5, expected 0 to 1"),
            (|policy| policy.category_importance[0].1 = -1.0, "decisions is -1, expected 0 to 1"),
            (
                |policy| policy.recency_weight = 0.5,
                "the weights of recency, activation and importance add up to 1.1, expected 1",
            ),
            (
                |policy| policy.archive_below = 0.5,
                "tier thresholds 0.5, 0.3, 0.6 must not decrease",
            ),
            (|policy| policy.hot_min = 0.2, "tier thresholds 0.1, 0.3, 0.2 must not decrease"),
        ];
        assert!(RetentionPolicy::default().validated().is_ok());
        for (change, expected) in changes {
            let mut policy = RetentionPolicy::default();
            change(&mut policy);
            assert_eq!(policy.validated().unwrap_err().to_string(), expected);
        }
    }

    proptest! {
        #[test]
        fn any_row_is_scored_and_time_alone_never_raises_it(
            created in proptest::option::of(any::<i64>()),
            accessed in proptest::option::of(any::<i64>()),
            access_count in any::<i64>(),
            importance in any::<f64>(),
            is_superseded in any::<bool>(),
            now in any::<i64>(),
            later in 0_i64..i64::MAX,
        ) {
            let row = RetentionInput {
                created_at: created.map(Instant),
                last_accessed: accessed.map(Instant),
                access_count,
                importance,
                is_superseded,
                ..input(0, &[])
            };
            let policy = RetentionPolicy::default();
            let early = retention(&row, Instant(now), &policy);
            let late = retention(&row, Instant(now.saturating_add(later)), &policy);
            for value in [early.overall, early.recency, early.activation, early.importance] {
                prop_assert!((0.0..=1.0).contains(&value));
            }
            prop_assert!(late.overall <= early.overall);
        }
    }
}

//! Retention: how alive a memory is; tiers: which searches find it, and the changes since the last run.
//!
//! [`retention`] is a function of one row and the time. Runs leave no trace in it: one pass a
//! year and one pass an hour agree.

use std::collections::BTreeMap;
use std::fmt;

use crate::memory::{Memory, MemoryId};
use crate::time::Instant;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Days in which recency halves; document 001.
pub(crate) const HALF_LIFE_DAYS: f64 = 30.0;
/// Weight of recency; document 001.
const RECENCY_WEIGHT: f64 = 0.4;
/// Weight of activation; document 001.
const ACTIVATION_WEIGHT: f64 = 0.2;
/// Weight of importance; document 001.
const IMPORTANCE_WEIGHT: f64 = 0.4;
/// Reads from which on activation is 1: the `ln 21` of document 001.
const ACTIVATION_CAP: f64 = 20.0;
/// Factor of a superseded memory; document 001. Even the best one (0.2) is COLD then.
const SUPERSEDED_FACTOR: f64 = 0.2;
/// HOT from here on; document 001.
const HOT_MIN: f64 = 0.6;
/// WARM from here on; document 001.
pub(crate) const WARM_MIN: f64 = 0.3;
/// ARCHIVED below. Document 001 has 0.1 and its code 0.3, which would leave COLD empty.
pub(crate) const ARCHIVE_BELOW: f64 = 0.1;
/// Importance that pins: `brain.db` calls 3 critical.
const PINNED_IMPORTANCE_MIN: f64 = 3.0;
/// Recency without a readable creation time, and importance that is not a number: neither high nor low.
const UNKNOWN: f64 = 0.5;
/// Importance by category or namespace; document 001.
const CATEGORY_IMPORTANCE: [(&str, f64); 10] = [
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

/// The settings of retention and tiers in the configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct RetentionPolicy {
    /// Days in which recency halves; above 0.
    pub half_life_days: f64,
    /// ARCHIVED below, at most the score from which a memory is WARM. 0 archives nothing.
    pub archive_below: f64,
}

impl Default for RetentionPolicy {
    fn default() -> Self {
        Self { half_life_days: HALF_LIFE_DAYS, archive_below: ARCHIVE_BELOW }
    }
}

/// The inputs of the retention and tier of one memory.
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
    /// Takes the values of a loaded row. The flags are the caller's to set.
    #[must_use]
    pub fn of(memory: &'a Memory) -> Self {
        Self {
            created_at: memory.created_at.instant(),
            last_accessed: memory.last_accessed,
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
/// A future date counts as age 0. Without a creation time recency is 0.5. Of
/// several categories the most important one counts; without any of the table importance is
/// 0.25 + 0.25 · the row's importance, clamped.
///
/// `overall` is rounded to nine decimals. A sum that is 0.6 on paper may be off by one unit in
/// the last place, upward or downward with the order of terms and the platform's `exp2`. Rounded,
/// it is the double nearest to 0.6, as is a threshold written as `0.6`: a plain `>=`
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
    let latest =
        input.created_at.map(|created| input.last_accessed.unwrap_or(created).max(created));
    let recency = latest.map_or(UNKNOWN, |at| halving(at, now, policy.half_life_days));
    let reads = input.access_count.max(0) as f64;
    let activation = (reads.ln_1p() / ACTIVATION_CAP.ln_1p()).min(1.0);
    let importance = importance(input);
    let sum =
        RECENCY_WEIGHT * recency + ACTIVATION_WEIGHT * activation + IMPORTANCE_WEIGHT * importance;
    let factor = if input.is_superseded { SUPERSEDED_FACTOR } else { 1.0 };
    let overall = ((sum * factor).clamp(0.0, 1.0) * STEPS_PER_UNIT).round() / STEPS_PER_UNIT;
    Retention { overall, recency, activation, importance }
}

/// 2^(−age / half-life): 1 for dates not before `now`.
pub(crate) fn halving(since: Instant, now: Instant, half_life_days: f64) -> f64 {
    let age_micros = now.0.saturating_sub(since.0).max(0) as f64;
    (-age_micros / (half_life_days * MICROS_PER_DAY)).exp2()
}

fn importance(input: &RetentionInput<'_>) -> f64 {
    let known = input.categories.iter().filter_map(|category| {
        CATEGORY_IMPORTANCE.iter().find(|(name, _)| is_same_category(name, category))
    });
    match known.map(|(_, value)| *value).max_by(f64::total_cmp) {
        Some(value) => value,
        None if input.importance.is_nan() => UNKNOWN,
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

/// How readily a memory is found, least first: `a > b` says that `a` is more alive.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Found by an exhaustive search only.
    Archived,
    /// Found by a deep search.
    Cold,
    /// Found by default.
    Warm,
    /// Offered unasked.
    Hot,
}

#[cfg(feature = "clap")]
impl clap::ValueEnum for Tier {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        let (name, help) = match self {
            Self::Hot => ("hot", "Offered unasked"),
            Self::Warm => ("warm", "Found by default"),
            Self::Cold => ("cold", "Found by a deep search"),
            Self::Archived => ("archived", "Found by an exhaustive search only"),
        };
        Some(clap::builder::PossibleValue::new(name).help(help))
    }
}

impl Tier {
    /// Every tier, most alive first.
    pub const ALL: [Self; 4] = [Self::Hot, Self::Warm, Self::Cold, Self::Archived];

    /// Returns the stored name: `hot`, `warm`, `cold` or `archived`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Warm => "warm",
            Self::Cold => "cold",
            Self::Archived => "archived",
        }
    }

    /// Reads a name, in any case.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tier| tier.as_str().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What made a memory's tier.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TierReason {
    /// Retention against the thresholds.
    Retention,
    /// A newer memory supersedes it: its retention carries the factor.
    Superseded,
    /// Pinned, protected or critical: raised to WARM.
    Pinned,
    /// A summary: raised to WARM.
    SummaryKept,
    /// A summary that nobody has read yet: lowered to WARM.
    SummaryUnread,
    /// Its age is unknown: not archived.
    UnreadableTime,
}

impl TierReason {
    /// Returns the reason in words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retention => "retention",
            Self::Superseded => "superseded",
            Self::Pinned => "pinned or critical, never below warm",
            Self::SummaryKept => "summary, not below warm",
            Self::SummaryUnread => "summary not read yet, not above warm",
            Self::UnreadableTime => "unreadable creation time, never archived",
        }
    }
}

impl fmt::Display for TierReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A memory's tier at a time, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TierAssignment {
    /// The tier.
    pub tier: Tier,
    /// The scores behind it.
    pub retention: Retention,
    /// [`TierReason::Retention`] first, then whatever changed the result.
    pub reasons: Vec<TierReason>,
}

/// Computes retention and tier at `now`.
///
/// 1. The thresholds decide.
/// 2. A summary is WARM, as document 001 wants it: not HOT before its first read, since a run may
///    write hundreds, and not below for as long as nothing supersedes it, since it stands for its
///    sources.
/// 3. Without a creation time a memory is never ARCHIVED.
/// 4. Pinned, protected and critical memories are never below WARM, even when superseded.
#[must_use]
pub fn assign(
    input: &RetentionInput<'_>,
    now: Instant,
    policy: &RetentionPolicy,
) -> TierAssignment {
    let retention = retention(input, now, policy);
    let mut tier = match retention.overall {
        HOT_MIN.. => Tier::Hot,
        WARM_MIN.. => Tier::Warm,
        overall if overall >= policy.archive_below => Tier::Cold,
        _ => Tier::Archived,
    };
    let mut reasons = vec![TierReason::Retention];
    if input.is_superseded {
        reasons.push(TierReason::Superseded);
    }
    if input.is_summary && input.access_count <= 0 && tier > Tier::Warm {
        tier = Tier::Warm;
        reasons.push(TierReason::SummaryUnread);
    }
    let is_pinned = input.is_pinned || input.importance >= PINNED_IMPORTANCE_MIN;
    let floors = [
        (input.created_at.is_none(), Tier::Cold, TierReason::UnreadableTime),
        (input.is_summary && !input.is_superseded, Tier::Warm, TierReason::SummaryKept),
        (is_pinned, Tier::Warm, TierReason::Pinned),
    ];
    for (applies, floor, reason) in floors {
        if applies && tier < floor {
            tier = floor;
            reasons.push(reason);
        }
    }
    TierAssignment { tier, retention, reasons }
}

/// A change of tier. Its text is the log line `CONSOLIDATE/TIER id=… from=… to=… retention=…`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Transition {
    /// The memory.
    pub id: MemoryId,
    /// The stored tier; none where the memory had none yet.
    pub from: Option<Tier>,
    /// The tier and its reasons now.
    pub to: TierAssignment,
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.id.as_str().escape_debug();
        let from = self.from.map_or("none", Tier::as_str);
        let (to, score) = (self.to.tier, self.to.retention.overall);
        write!(f, "CONSOLIDATE/TIER id={id} from={from} to={to} retention={score:.3}")
    }
}

/// Lists the memories whose tier is not the stored one, by id.
///
/// A memory that is gone from `now` changes nothing. One without a stored tier has `from: None`:
/// a first run returns them all, to be stored.
#[must_use]
pub fn transitions(
    stored: &BTreeMap<MemoryId, Tier>,
    now: &BTreeMap<MemoryId, TierAssignment>,
) -> Vec<Transition> {
    now.iter()
        .map(|(id, to)| (id, stored.get(id).copied(), to))
        .filter(|(_, from, to)| *from != Some(to.tier))
        .map(|(id, from, to)| Transition { id: id.clone(), from, to: to.clone() })
        .collect()
}

/// How many memories each tier has. Collects from an iterator of tiers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct TierCounts {
    /// HOT.
    pub hot: u64,
    /// WARM.
    pub warm: u64,
    /// COLD.
    pub cold: u64,
    /// ARCHIVED.
    pub archived: u64,
}

impl TierCounts {
    /// Returns the count of one tier.
    #[must_use]
    pub const fn of(mut self, tier: Tier) -> u64 {
        *self.of_mut(tier)
    }

    const fn of_mut(&mut self, tier: Tier) -> &mut u64 {
        match tier {
            Tier::Hot => &mut self.hot,
            Tier::Warm => &mut self.warm,
            Tier::Cold => &mut self.cold,
            Tier::Archived => &mut self.archived,
        }
    }

    /// Returns the count of all tiers.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.hot + self.warm + self.cold + self.archived
    }
}

impl FromIterator<Tier> for TierCounts {
    fn from_iter<I: IntoIterator<Item = Tier>>(tiers: I) -> Self {
        let mut counts = Self::default();
        tiers.into_iter().for_each(|tier| *counts.of_mut(tier) += 1);
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DAY: i64 = 86_400_000_000;
    const NOW: Instant = Instant(20_000 * DAY);
    const TEN_YEARS_DAYS: i64 = 3653;

    fn day(days: i64) -> Instant {
        Instant(NOW.0 + days * DAY)
    }

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

    fn tier_at(row: &RetentionInput<'_>, days: i64) -> Tier {
        assign(row, day(days), &RetentionPolicy::default()).tier
    }

    #[test]
    fn boundaries_belong_to_the_upper_tier() {
        let decision = ["decision".into()];
        assert_eq!(tier_at(&input(0, &decision), 30), Tier::Hot);
        assert_eq!(tier_at(&input(0, &decision), 31), Tier::Warm);
        assert_eq!(tier_at(&input(0, &decision), 36_500), Tier::Warm, "decisions stay at 0.4");
        let progress = ["progress".into()];
        assert_eq!(tier_at(&input(0, &progress), 0), Tier::Hot);
        assert_eq!(tier_at(&input(0, &progress), 1), Tier::Warm);
        assert_eq!(tier_at(&input(0, &progress), 60), Tier::Warm);
        assert_eq!(tier_at(&input(0, &progress), 61), Tier::Cold);
        assert_eq!(tier_at(&input(0, &progress), 36_500), Tier::Cold, "others stay at 0.2");
        let superseded = RetentionInput { is_superseded: true, ..input(0, &decision) };
        assert_eq!(tier_at(&superseded, 0), Tier::Cold);
        assert_eq!(tier_at(&superseded, 60), Tier::Cold, "0.2 of 0.5 is the threshold");
        assert_eq!(tier_at(&superseded, 61), Tier::Archived);
    }

    #[test]
    fn floors_and_ceilings_give_their_reasons() {
        use TierReason as R;
        let unread = RetentionInput { is_summary: true, ..input(0, &[]) };
        let gone = RetentionInput { is_superseded: true, importance: 0.0, ..input(0, &[]) };
        let cases = [
            (unread, 0, Tier::Warm, vec![R::Retention, R::SummaryUnread]),
            (RetentionInput { access_count: 1, ..unread }, 0, Tier::Hot, vec![R::Retention]),
            (unread, 900, Tier::Warm, vec![R::Retention, R::SummaryKept]),
            (
                RetentionInput { is_superseded: true, ..unread },
                900,
                Tier::Archived,
                vec![R::Retention, R::Superseded],
            ),
            (gone, 900, Tier::Archived, vec![R::Retention, R::Superseded]),
            (
                RetentionInput { created_at: None, ..gone },
                900,
                Tier::Cold,
                vec![R::Retention, R::Superseded, R::UnreadableTime],
            ),
            (
                RetentionInput { is_pinned: true, ..gone },
                900,
                Tier::Warm,
                vec![R::Retention, R::Superseded, R::Pinned],
            ),
            (
                RetentionInput { importance: 3.0, is_superseded: true, ..gone },
                900,
                Tier::Warm,
                vec![R::Retention, R::Superseded, R::Pinned],
            ),
        ];
        for (row, days, tier, reasons) in cases {
            let found = assign(&row, day(days), &RetentionPolicy::default());
            assert_eq!((found.tier, found.reasons), (tier, reasons), "{row:?}");
        }
    }

    #[test]
    fn each_change_is_listed_once() {
        let policy = RetentionPolicy::default();
        let id = |name: &str| MemoryId::new(name);
        let now: BTreeMap<_, _> = ["a", "b", "c\n"]
            .into_iter()
            .map(|name| (id(name), assign(&input(0, &[]), day(1), &policy)))
            .collect();
        let stored = BTreeMap::from([(id("a"), Tier::Warm), (id("b"), Tier::Hot)]);
        let changes = transitions(&stored, &now);
        let lines: Vec<String> = changes.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "CONSOLIDATE/TIER id=b from=hot to=warm retention=0.591",
                "CONSOLIDATE/TIER id=c\\n from=none to=warm retention=0.591",
            ]
        );
        let stored = now.iter().map(|(id, to)| (id.clone(), to.tier)).collect();
        assert_eq!(transitions(&stored, &now), []);
        let counts: TierCounts = stored.values().copied().collect();
        assert_eq!((counts.of(Tier::Warm), counts.total()), (3, 3));
    }

    #[test]
    fn names_read_back() {
        for tier in Tier::ALL {
            assert_eq!(Tier::parse(&tier.to_string().to_uppercase()), Some(tier));
        }
        assert_eq!(Tier::parse("lukewarm"), None);
        assert!(Tier::Hot > Tier::Warm && Tier::Cold > Tier::Archived);
    }

    fn rows() -> impl Strategy<Value = (RetentionInput<'static>, bool)> {
        let times = (any::<bool>(), proptest::option::of(-400_i64..400));
        let flags = (any::<bool>(), any::<bool>(), any::<bool>());
        (times, 0_i64..40, -1.0..4.0_f64, flags).prop_map(|(times, reads, importance, flags)| {
            let row = RetentionInput {
                created_at: times.0.then_some(NOW),
                last_accessed: times.1.map(day),
                access_count: reads,
                importance,
                is_superseded: flags.0,
                is_pinned: flags.1,
                is_summary: flags.2,
                ..input(0, &[])
            };
            (row, flags.1 || importance >= 3.0)
        })
    }

    proptest! {
        /// Nights of ten years without a read: tiers only fall, so that each boundary is
        /// crossed at most once.
        #[test]
        fn tiers_do_not_flap_and_pins_stay((row, is_pinned) in rows()) {
            let policy = RetentionPolicy::default();
            let mut last = tier_at(&row, 0);
            for days in 1..TEN_YEARS_DAYS {
                let tier = assign(&row, day(days), &policy).tier;
                prop_assert!(tier <= last);
                prop_assert!(!is_pinned || tier >= Tier::Warm);
                prop_assert!(row.created_at.is_some() || tier > Tier::Archived);
                last = tier;
            }
        }

        /// Many passes store the same as one pass at the end.
        #[test]
        fn passes_leave_no_trace(
            (row, _) in rows(),
            nights in 1_i64..1000,
            every in 1_i64..60,
        ) {
            let policy = RetentionPolicy::default();
            let id = MemoryId::new("m");
            let pass = |stored: &mut BTreeMap<MemoryId, Tier>, days: i64| {
                let now = BTreeMap::from([(id.clone(), assign(&row, day(days), &policy))]);
                for change in transitions(stored, &now) {
                    stored.insert(change.id, change.to.tier);
                }
            };
            let (mut often, mut once) = (BTreeMap::new(), BTreeMap::new());
            (0..nights)
                .step_by(usize::try_from(every).unwrap())
                .for_each(|night| pass(&mut often, night));
            pass(&mut often, nights);
            pass(&mut once, nights);
            prop_assert_eq!(often, once);
        }
    }
}

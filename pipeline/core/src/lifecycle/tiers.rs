//! Tiers: which searches find a memory, and what changed since the last run.

use std::collections::BTreeMap;
use std::fmt;

use crate::memory::MemoryId;
use crate::time::Instant;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lifecycle::retention::{Retention, RetentionInput, RetentionPolicy, retention};

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
    let (tier, reasons) = tier(&retention, input, policy);
    TierAssignment { tier, retention, reasons }
}

fn tier(
    retention: &Retention,
    input: &RetentionInput<'_>,
    policy: &RetentionPolicy,
) -> (Tier, Vec<TierReason>) {
    let mut tier = tier_of_score(retention.overall, policy);
    let mut reasons = vec![TierReason::Retention];
    if input.is_superseded {
        reasons.push(TierReason::Superseded);
    }
    if input.is_summary && input.access_count <= 0 && tier > Tier::Warm {
        tier = Tier::Warm;
        reasons.push(TierReason::SummaryUnread);
    }
    let is_pinned = input.is_pinned || input.importance >= policy.pinned_importance_min;
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
    (tier, reasons)
}

fn tier_of_score(overall: f64, policy: &RetentionPolicy) -> Tier {
    if overall >= policy.hot_min {
        Tier::Hot
    } else if overall >= policy.warm_min {
        Tier::Warm
    } else if overall >= policy.archive_below {
        Tier::Cold
    } else {
        Tier::Archived
    }
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
    pub const fn of(self, tier: Tier) -> u64 {
        match tier {
            Tier::Hot => self.hot,
            Tier::Warm => self.warm,
            Tier::Cold => self.cold,
            Tier::Archived => self.archived,
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
        for tier in tiers {
            match tier {
                Tier::Hot => counts.hot += 1,
                Tier::Warm => counts.warm += 1,
                Tier::Cold => counts.cold += 1,
                Tier::Archived => counts.archived += 1,
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DAY: i64 = 86_400_000_000;
    const TEN_YEARS_DAYS: i64 = 3653;
    const BORN: Instant = Instant(20_000 * DAY);

    fn day(days: i64) -> Instant {
        Instant(BORN.0 + days * DAY)
    }

    fn input(categories: &[Box<str>]) -> RetentionInput<'_> {
        RetentionInput {
            created_at: Some(BORN),
            last_accessed: None,
            access_count: 0,
            categories,
            importance: 1.0,
            is_superseded: false,
            is_pinned: false,
            is_summary: false,
        }
    }

    fn tier_at(row: &RetentionInput<'_>, days: i64) -> Tier {
        assign(row, day(days), &RetentionPolicy::default()).tier
    }

    #[test]
    fn boundaries_belong_to_the_upper_tier() {
        let decision = ["decision".into()];
        assert_eq!(tier_at(&input(&decision), 30), Tier::Hot);
        assert_eq!(tier_at(&input(&decision), 31), Tier::Warm);
        assert_eq!(tier_at(&input(&decision), 36_500), Tier::Warm, "decisions stay at 0.4");
        let progress = ["progress".into()];
        assert_eq!(tier_at(&input(&progress), 0), Tier::Hot);
        assert_eq!(tier_at(&input(&progress), 1), Tier::Warm);
        assert_eq!(tier_at(&input(&progress), 60), Tier::Warm);
        assert_eq!(tier_at(&input(&progress), 61), Tier::Cold);
        assert_eq!(tier_at(&input(&progress), 36_500), Tier::Cold, "others stay at 0.2");
        let superseded = RetentionInput { is_superseded: true, ..input(&decision) };
        assert_eq!(tier_at(&superseded, 0), Tier::Cold);
        assert_eq!(tier_at(&superseded, 60), Tier::Cold, "0.2 of 0.5 is the threshold");
        assert_eq!(tier_at(&superseded, 61), Tier::Archived);
    }

    #[test]
    fn floors_and_ceilings_give_their_reasons() {
        use TierReason as R;
        let unread = RetentionInput { is_summary: true, ..input(&[]) };
        let gone = RetentionInput { is_superseded: true, importance: 0.0, ..input(&[]) };
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
            .map(|name| (id(name), assign(&input(&[]), day(1), &policy)))
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
                created_at: times.0.then_some(BORN),
                last_accessed: times.1.map(day),
                access_count: reads,
                categories: &[],
                importance,
                is_superseded: flags.0,
                is_pinned: flags.1,
                is_summary: flags.2,
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

        /// What is stored after many passes is what one pass at the end stores.
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

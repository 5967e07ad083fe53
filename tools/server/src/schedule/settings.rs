//! [`ScheduleSettings`] and the arithmetic of planned times.
//!
//! Around a change of the clock, by croner: a fixed time that does not exist (a gap) runs right after the gap, one
//! that exists twice (a fold) runs once, the first time; times with wildcards follow the clock on the wall.

use std::str::FromStr as _;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::service::{ExecuteMode, Problem};

/// Every night at two.
pub(crate) const SCHEDULE_DEFAULT: &str = "0 2 * * *";
/// Planned times that are checked one by one; with more of them, only the last day counts: it has
/// 1,440 minutes.
const SLOTS_MAX: usize = 2_000;
const RECENT_SECONDS: i64 = 86_400;
/// Longest expression.
const CRON_CHARS_MAX: usize = 200;

/// When scheduled runs of a store start, and their settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ScheduleSettings {
    /// A cron expression of five fields; by default `0 2 * * *`.
    pub(crate) schedule: String,
    /// An IANA time zone; by default that of the store's configuration.
    pub(crate) timezone: Option<String>,
    /// Whether anything runs by itself.
    pub(crate) enabled: bool,
    /// What of the plan is applied; by default nothing.
    pub(crate) execute: ExecuteMode,
    /// Search only changes since the last run that wrote.
    pub(crate) incremental: bool,
    /// Also run when a run is due, as `memfold status` says, at most once an hour.
    pub(crate) triggers: bool,
}

impl Default for ScheduleSettings {
    fn default() -> Self {
        Self {
            schedule: SCHEDULE_DEFAULT.to_owned(),
            timezone: None,
            enabled: true,
            execute: ExecuteMode::None,
            incremental: false,
            triggers: false,
        }
    }
}

/// A cron expression in its zone.
#[derive(Debug, Clone)]
pub(crate) struct Cron {
    cron: croner::Cron,
    zone: TimeZone,
}

impl ScheduleSettings {
    /// Reads the expression and the zone.
    ///
    /// # Errors
    /// When one of them is none.
    pub(crate) fn cron(&self, zone_default: &TimeZone) -> Result<Cron, Problem> {
        let zone = match self.timezone.as_deref() {
            None => zone_default.clone(),
            Some(name) => memfold_core::policy::time_zone(name).ok_or_else(|| {
                Problem::unprocessable(format!("the time zone {name:?} is not known"))
                    .with_hint("use an IANA name such as Europe/Berlin, or UTC")
            })?,
        };
        let fields = self.schedule.split_whitespace().count();
        let is_short = self.schedule.len() <= CRON_CHARS_MAX;
        let cron = croner::Cron::from_str(&self.schedule).ok();
        let cron = cron.filter(|_| fields == 5 && is_short).ok_or_else(|| {
            Problem::unprocessable(format!("{:?} is no cron expression", self.schedule))
                .with_hint("give minute, hour, day, month and weekday, such as \"0 2 * * *\"")
        })?;
        // Any moment serves: a date that never comes ("0 0 30 2 *") has no time after it.
        let start = Timestamp::UNIX_EPOCH.to_zoned(zone.clone());
        if cron.find_next_occurrence(&start, false).is_err() {
            let detail = format!("the schedule {:?} has no time at which it runs", self.schedule);
            return Err(Problem::unprocessable(detail).with_hint("name a day that its month has"));
        }
        Ok(Cron { cron, zone })
    }
}

impl Cron {
    /// Returns the next planned times after one.
    pub(crate) fn next(&self, after: Timestamp, count: usize) -> Vec<Zoned> {
        self.after(after).take(count).collect()
    }

    /// Says it in words.
    pub(crate) fn words(&self) -> String {
        self.cron.describe()
    }

    fn after(&self, after: Timestamp) -> impl Iterator<Item = Zoned> + use<'_> {
        let mut last = after.to_zoned(self.zone.clone());
        std::iter::from_fn(move || {
            let next = self.cron.find_next_occurrence(&last, false).ok()?;
            // An end where time would stand still.
            if next.timestamp() <= last.timestamp() {
                return None;
            }
            last = next.clone();
            Some(next)
        })
    }
}

/// Returns the planned time that is to be worked on: the latest one after `taken` that is over. Times before it were missed,
/// and are made up for by this one.
pub(crate) fn due_slot(cron: &Cron, taken: Timestamp, now: Timestamp) -> Option<Timestamp> {
    let over = |since: Timestamp| {
        let times = cron.after(since).map(|at| at.timestamp()).take_while(move |at| *at <= now);
        times.take(SLOTS_MAX).fold((None, 0), |(_, count), at| (Some(at), count + 1))
    };
    match over(taken) {
        (found, count) if count < SLOTS_MAX => found,
        (found, _) => {
            let recent = Timestamp::from_second(now.as_second() - RECENT_SECONDS).ok()?;
            over(recent.max(taken)).0.or(found)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cron(expression: &str, zone: &str) -> Cron {
        let settings = ScheduleSettings {
            schedule: expression.to_owned(),
            timezone: Some(zone.to_owned()),
            ..ScheduleSettings::default()
        };
        settings.cron(&TimeZone::UTC).unwrap()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// The runs of a server that checks every minute, by a clock that is advanced by hand.
    fn ran(cron: &Cron, from: &str, until: &str) -> Vec<String> {
        let (mut now, until) = (at(from), at(until));
        let mut taken = now;
        let mut ran = Vec::new();
        while now <= until {
            if let Some(slot) = due_slot(cron, taken, now) {
                ran.push(slot.to_string());
                taken = slot;
            }
            now += jiff::SignedDuration::from_mins(1);
        }
        ran
    }

    /// "0 0 30 2 *" was accepted and never ran.
    #[test]
    fn a_schedule_that_never_comes_is_refused() {
        for (expression, is_valid) in [
            ("0 0 30 2 *", false),
            ("0 0 31 4,6 *", false),
            ("0 0 29 2 *", true),
            ("0 2 * * *", true),
        ] {
            let settings =
                ScheduleSettings { schedule: expression.to_owned(), ..ScheduleSettings::default() };
            assert_eq!(settings.cron(&TimeZone::UTC).is_ok(), is_valid, "{expression}");
        }
    }

    /// Berlin puts its clocks from 02:00 to 03:00 on 2026-03-29 (01:00Z).
    #[test]
    fn a_time_in_a_gap_runs_right_after_it() {
        for (expression, that_day) in
            [("0 2 * * *", "2026-03-29T01:00:00Z"), ("30 2 * * *", "2026-03-29T01:00:00Z")]
        {
            let cron = cron(expression, "Europe/Berlin");
            let ran = ran(&cron, "2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z");
            assert_eq!(ran, [that_day], "{expression}");
        }
        let cron = cron("0 2 * * *", "Europe/Berlin");
        let ran = ran(&cron, "2026-03-27T12:00:00Z", "2026-03-30T12:00:00Z");
        assert_eq!(ran, ["2026-03-28T01:00:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"]);
    }

    /// Berlin puts its clocks from 03:00 to 02:00 on 2026-10-25 (01:00Z).
    #[test]
    fn a_time_in_a_fold_runs_once() {
        let cron = cron("30 2 * * *", "Europe/Berlin");
        let ran = ran(&cron, "2026-10-23T12:00:00Z", "2026-10-26T12:00:00Z");
        assert_eq!(ran, ["2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
    }

    #[test]
    fn each_hour_goes_on_through_both_changes() {
        let cron = cron("0 * * * *", "America/New_York");
        let spring = ran(&cron, "2026-03-08T04:30:00Z", "2026-03-08T09:30:00Z");
        assert_eq!(spring.len(), 5, "{spring:?}");
        let autumn = ran(&cron, "2026-11-01T03:30:00Z", "2026-11-01T08:30:00Z");
        assert_eq!(autumn.len(), 5, "{autumn:?}");
    }

    #[test]
    fn what_was_missed_is_made_up_for_once() {
        let nightly = cron("0 2 * * *", "UTC");
        let slot = due_slot(&nightly, at("2026-06-01T02:00:00Z"), at("2026-06-30T12:00:00Z"));
        assert_eq!(slot, Some(at("2026-06-30T02:00:00Z")));
        assert_eq!(due_slot(&nightly, slot.unwrap(), at("2026-06-30T12:00:00Z")), None);
        let minutes = cron("* * * * *", "UTC");
        let slot = due_slot(&minutes, at("2025-01-01T00:00:00Z"), at("2026-06-30T12:00:30Z"));
        assert_eq!(slot, Some(at("2026-06-30T12:00:00Z")));
    }

    #[test]
    fn nonsense_is_refused() {
        for expression in ["", "0 2 * *", "61 2 * * *", "0 2 * * * *", "@daily x", "never"] {
            let settings =
                ScheduleSettings { schedule: expression.to_owned(), ..Default::default() };
            assert!(settings.cron(&TimeZone::UTC).is_err(), "{expression:?}");
        }
        let elsewhere =
            ScheduleSettings { timezone: Some("Mars/Base".to_owned()), ..Default::default() };
        assert!(elsewhere.cron(&TimeZone::UTC).is_err());
        assert!(ScheduleSettings::default().cron(&TimeZone::UTC).is_ok());
    }
}

//! Due: whether a consolidation should run now.

use std::fmt;

use crate::time::Instant;
use schemars::JsonSchema;
use serde::Serialize;

/// New memories that make a run due; document 001.
pub(crate) const NEW_MEMORIES_MIN: u64 = 50;
/// Hours after which a run is due; document 001.
const INTERVAL_HOURS: u64 = 24;
/// Entries outside the index up to which a search by the index stays fast enough.
const UNINDEXED_MAX: u64 = 100;
/// Minutes without a write that make a store idle; document 001.
const IDLE_MINUTES: u64 = 30;

const MICROS_PER_MINUTE: i64 = 60_000_000;

/// Where a store stands since its last run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DueState {
    /// When the last completed run ended, if any did.
    pub last_run: Option<Instant>,
    /// When a memory was last written, if known.
    pub last_write: Option<Instant>,
    /// Memories written since the last run; all of them where none was.
    pub new_memories: u64,
    /// Memories that the index does not have yet.
    pub unindexed: u64,
    /// Whether a session has just ended.
    pub is_session_end: bool,
}

/// Why a run is due. Its text is the reason in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
#[non_exhaustive]
pub enum DueReason {
    /// A session ended and something is new.
    SessionEnd {
        /// Memories since the last run.
        new_memories: u64,
    },
    /// Much is new.
    NewMemories {
        /// Memories since the last run.
        new_memories: u64,
        /// Those that make a run due.
        min: u64,
    },
    /// The index lags behind.
    Unindexed {
        /// Memories outside the index.
        unindexed: u64,
        /// Those that are tolerated.
        max: u64,
    },
    /// Something is there and no run ever was.
    NeverRun {
        /// Memories so far.
        new_memories: u64,
    },
    /// The last run is long ago.
    Interval {
        /// Whole hours since.
        hours: u64,
    },
    /// Something is new and nobody writes.
    Idle {
        /// Whole minutes since the last write.
        minutes: u64,
        /// Memories since the last run.
        new_memories: u64,
    },
}

impl fmt::Display for DueReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SessionEnd { new_memories } => {
                write!(f, "a session ended with {}", new(*new_memories))
            }
            Self::NewMemories { new_memories, min } => {
                write!(f, "{} since the last run (from {min} on)", new(*new_memories))
            }
            Self::Unindexed { unindexed, max } => {
                write!(f, "{unindexed} memories are not in the index (over {max})")
            }
            Self::NeverRun { new_memories } => {
                write!(f, "{} and no run yet", new(*new_memories))
            }
            Self::Interval { hours } if *hours < 72 => {
                write!(f, "the last run was {hours} hours ago")
            }
            Self::Interval { hours } => write!(f, "the last run was {} days ago", hours / 24),
            Self::Idle { minutes, new_memories } => {
                write!(f, "no write for {minutes} minutes, {}", new(*new_memories))
            }
        }
    }
}

fn new(count: u64) -> String {
    format!("{count} new {}", if count == 1 { "memory" } else { "memories" })
}

/// Decides whether a run is due at `now`: the first reason that applies, in the order of
/// [`DueReason`]. `new_memories_min` new memories make a run due; 0 counts as 1.
///
/// The interval alone makes a run due even where nothing is new, for tiers change with time.
/// Times in the future (a clock set back) count as now.
#[must_use]
pub fn due(state: &DueState, now: Instant, new_memories_min: u64) -> Option<DueReason> {
    let DueState { last_run, last_write, new_memories, unindexed, is_session_end } = *state;
    let minutes_since = |at: Instant| {
        u64::try_from(now.0.saturating_sub(at.0).max(0) / MICROS_PER_MINUTE).unwrap_or_default()
    };
    let is_new = new_memories > 0;
    if is_session_end && is_new {
        return Some(DueReason::SessionEnd { new_memories });
    }
    if is_new && new_memories >= new_memories_min {
        return Some(DueReason::NewMemories { new_memories, min: new_memories_min });
    }
    if unindexed > UNINDEXED_MAX {
        return Some(DueReason::Unindexed { unindexed, max: UNINDEXED_MAX });
    }
    match last_run.map(minutes_since) {
        None if is_new => return Some(DueReason::NeverRun { new_memories }),
        Some(minutes) if minutes >= INTERVAL_HOURS * 60 => {
            return Some(DueReason::Interval { hours: minutes / 60 });
        }
        _ => {}
    }
    let minutes = last_write.map(minutes_since)?;
    let is_idle = is_new && minutes >= IDLE_MINUTES;
    is_idle.then_some(DueReason::Idle { minutes, new_memories })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant(1_000_000 * MICROS_PER_MINUTE);

    fn before(minutes: i64) -> Option<Instant> {
        Some(Instant(NOW.0 - minutes * MICROS_PER_MINUTE))
    }

    #[test]
    fn each_trigger_starts_at_its_bound() {
        let calm = DueState { last_run: before(1439), ..DueState::default() };
        let cases = [
            (calm, None),
            (DueState::default(), None),
            (DueState { new_memories: 49, ..calm }, None),
            (
                DueState { new_memories: 50, ..calm },
                Some("50 new memories since the last run (from 50 on)"),
            ),
            (DueState { unindexed: 100, ..calm }, None),
            (
                DueState { unindexed: 101, ..calm },
                Some("101 memories are not in the index (over 100)"),
            ),
            (DueState { last_run: before(1440), ..calm }, Some("the last run was 24 hours ago")),
            (DueState { last_run: before(7200), ..calm }, Some("the last run was 5 days ago")),
            (DueState { last_run: before(-99), ..calm }, None),
            (
                DueState { new_memories: 1, last_run: None, ..calm },
                Some("1 new memory and no run yet"),
            ),
            (DueState { new_memories: 1, last_write: before(29), ..calm }, None),
            (DueState { last_write: before(300), ..calm }, None),
            (
                DueState { new_memories: 3, last_write: before(30), ..calm },
                Some("no write for 30 minutes, 3 new memories"),
            ),
            (DueState { is_session_end: true, ..calm }, None),
            (
                DueState { is_session_end: true, new_memories: 2, ..calm },
                Some("a session ended with 2 new memories"),
            ),
        ];
        for (state, expected) in cases {
            let found = due(&state, NOW, NEW_MEMORIES_MIN).map(|reason| reason.to_string());
            assert_eq!(found.as_deref(), expected, "{state:?}");
        }
    }

    #[test]
    fn the_ends_of_time_are_no_trouble() {
        let state = DueState { last_run: Some(Instant(i64::MIN)), ..DueState::default() };
        assert!(due(&state, Instant(i64::MAX), NEW_MEMORIES_MIN).is_some());
    }
}

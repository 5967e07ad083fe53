//! `memfold-bench years`: how the memories of a store move through the tiers in ten years.

use jiff::tz::TimeZone;
use memfold::lifecycle::Tiers;
use memfold_core::lifecycle::{RetentionPolicy, Tier};
use memfold_core::memory::Memory;
use memfold_core::policy::Policy;
use memfold_core::time::Instant;
use memfold_index::NoProgress;
use memfold_store::brain_db::OpenOptions;
use memfold_store::{BrainDb, LoadRequest};
use memfold_terminal::failure::{Exit, Failure};
use memfold_terminal::printer::Printer;
use serde_json::{Value, json};

use crate::args::YearsArgs;
use crate::common::instant;

const DAY: i64 = 86_400_000_000;
const NIGHTS: i64 = 3_653;
/// Every so manieth night is kept.
const KEPT: i64 = 30;

pub(crate) fn run(args: &YearsArgs, printer: Printer) -> Result<Exit, Failure> {
    let failed = |error: &(dyn std::error::Error + 'static)| Failure::new("measure", error, None);
    let start = instant(&args.now)?;
    let store = BrainDb::open(&args.db, OpenOptions::default()).map_err(|error| failed(&error))?;
    let (policy, retention) = (Policy::builtin(), RetentionPolicy::default());
    let time_zone = &TimeZone::UTC;
    let at = |night: i64| LoadRequest {
        time_zone,
        now: Instant(start.0 + night * DAY),
        progress: &NoProgress,
    };
    // Read once: nothing is written to the store meanwhile.
    let memories = store.live_without_texts(&at(0)).map_err(|error| failed(&error))?;
    let mut points: Vec<Value> = Vec::new();
    let (mut last, mut changes, mut low_pins) = (None::<Tiers>, 0_u64, 0_u64);
    for night in 0..=NIGHTS {
        let tiers = Tiers::of_memories(&store, &memories, &at(night), &policy, &retention);
        let tiers = tiers.map_err(|error| failed(&error))?;
        if let Some(last) = &last {
            let moved = |(id, now): &(&_, &memfold_core::lifecycle::TierAssignment)| {
                last.assignments.get(*id).is_some_and(|before| before.tier != now.tier)
            };
            changes += tiers.assignments.iter().filter(moved).count() as u64;
        }
        let is_pin = |memory: &&Memory| memory.importance >= 3.0;
        let is_low = |memory: &&Memory| {
            let assigned = tiers.assignments.get(&memory.id);
            assigned.map(|assigned| assigned.tier) < Some(Tier::Warm)
        };
        low_pins += memories.iter().filter(is_pin).filter(is_low).count() as u64;
        if night % KEPT == 0 {
            let counts = tiers.counts();
            let [hot, warm, cold, archived] = Tier::ALL.map(|tier| counts.of(tier));
            points.push(json!([night, hot, warm, cold, archived]));
        }
        last = Some(tiers);
    }
    let line = json!({
        "memories": memories.len(),
        "nights": NIGHTS,
        "changes_of_tier": changes,
        "important_below_warm": low_pins,
        "columns": ["night", "hot", "warm", "cold", "archived"],
        "points": points,
    });
    printer.data(&format!("{line}\n")).map(|()| Exit::Done)
}

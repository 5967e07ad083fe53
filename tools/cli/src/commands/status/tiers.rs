//! `memfold status --list`: the memories of a tier. The distribution of tiers as a table.

use std::collections::BTreeMap;

use memfold::lifecycle::Tiers;
use memfold::ops::memories_of_tier;
use memfold_core::lifecycle::{Tier, TierAssignment, TierCounts};
use memfold_guard::text::excerpt;

use crate::printer::table;
use crate::writing::counted;

/// Characters of an id that are displayed.
const ID_CHARS: usize = 40;

/// Columns of a bar that stands for all memories.
const BAR_COLUMNS: u64 = 40;

/// The tiers with their memories as a table with bars.
pub(super) fn distribution(counts: TierCounts) -> String {
    let total = counts.total().max(1);
    let rows = Tier::ALL.into_iter().map(|tier| {
        let count = counts.of(tier);
        // At least one column stands for a memory.
        let columns = (count * BAR_COLUMNS / total).max(u64::from(count > 0));
        let share = format!("{:.1} %", 100.0 * count as f64 / total as f64);
        vec![tier.to_string(), count.to_string(), share, "█".repeat(columns as usize)]
    });
    table(&["tier", "memories", "share", ""], rows.collect())
}

/// The memories of a tier as a table, most alive first.
pub(super) fn list_text(tiers: &Tiers, tier: Tier) -> String {
    let listed = memories_of_tier(tiers, tier);
    if listed.is_empty() {
        return format!("no memory is {tier}\n");
    }
    let rows = listed.into_iter().map(|(id, TierAssignment { retention, reasons, .. })| {
        let score = |value: f64| format!("{value:.3}");
        // The first reason is always retention itself.
        let further: Vec<&str> = reasons.iter().skip(1).map(|reason| reason.as_str()).collect();
        vec![
            excerpt(id.as_str(), ID_CHARS),
            score(retention.overall),
            score(retention.recency),
            score(retention.activation),
            score(retention.importance),
            further.join("; "),
        ]
    });
    table(&["id", "retention", "recency", "activation", "importance", "why"], rows.collect())
}

/// Counts the differences from the stored tiers.
pub(super) fn changes(tiers: &Tiers) -> String {
    let mut kinds: BTreeMap<(Option<Tier>, Tier), u64> = BTreeMap::new();
    for transition in &tiers.transitions {
        *kinds.entry((transition.from, transition.to.tier)).or_default() += 1;
    }
    if kinds.is_empty() {
        return "no tier has changed since tiers were last stored\n".to_owned();
    }
    let parts: Vec<String> = kinds
        .into_iter()
        .map(|((from, to), count)| {
            let from = from.map_or("new", Tier::as_str);
            format!("{from} to {to} {count}")
        })
        .collect();
    let changes = counted(tiers.transitions.len() as u64, "change", "changes");
    format!("{changes} since tiers were last stored: {}\n", parts.join(", "))
}

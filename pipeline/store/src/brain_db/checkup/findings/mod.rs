//! From facts to findings. Each file judges one part; none of them reads anything but the facts.

mod files;
mod own;
mod rows;
mod text_index;
mod vectors;

pub(super) use files::size;

use super::facts::{Facts, MemoryFacts};
use super::finding::{Finding, Severity, counted};
use crate::SkipReason;
use crate::brain_db::Rival;

/// Returns what the facts mean, the worst first. `store` is the store's path as commands shall name it.
#[must_use]
pub fn findings(facts: &Facts, store: &str) -> Vec<Finding> {
    let mut found = vec![damage(facts, store), references(facts)];
    found.extend(text_index::judge(&facts.full_text, facts.memories.as_ref()));
    if let Some(memories) = &facts.memories {
        found.extend(rows::judge(memories, store));
        found.extend(vectors::judge(memories));
    }
    if let Some(own) = &facts.own {
        found.extend(own::judge(own, store));
    }
    found.extend(files::judge(&facts.files, store));
    found.extend(facts.rivals.iter().map(rival));
    found.extend(reactions(&facts.reactions));
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    found
}

/// What keeps memories from being moved away.
fn reactions(reactions: &[String]) -> Option<Finding> {
    let first = reactions.first()?;
    let what = format!("memories are archived in place, not moved to memfold_archive: {first}");
    let mut finding = Finding::new(Severity::Info, "moves_refused", what);
    finding.examples = reactions.to_vec();
    let advice = "deleting a row could change other tables of yours; drop what depends on it, or leave it so";
    Some(finding.count(reactions.len() as u64).advice(advice))
}

/// Rows tell that another consolidator was here, its own tables that it may be at work.
fn rival(rival: &Rival) -> Finding {
    let what = format!("{}: {}", rival.place, rival.what);
    match rival.rows {
        Some(rows) => Finding::new(Severity::Info, "rival_traces", what)
            .count(rows)
            .advice(format!("make sure that it works on this store no longer: {}", rival.stop)),
        None => Finding::new(Severity::Warning, "rival", what)
            .advice(format!("let only one consolidator work on a store: {}", rival.stop)),
    }
}

fn damage(facts: &Facts, store: &str) -> Finding {
    let Some(first) = facts.damage.first() else {
        return Finding::new(Severity::Ok, "sound", "SQLite's integrity check says ok");
    };
    let (from, to) = (memfold_plan::report::shell_word(store), format!("{store}.recovered"));
    let mut finding = Finding::new(
        Severity::Critical,
        "damaged",
        format!("the file is damaged: {}", memfold_model::text::excerpt(first, 120)),
    );
    finding.examples.clone_from(&facts.damage);
    finding
        .advice("stop every program that writes to it; copy it with its -wal file; then")
        .shell(format!(
            "sqlite3 {from} .recover | sqlite3 {}",
            memfold_plan::report::shell_word(&to)
        ))
        .advice("or go back to a backup: docs/recovery.md says how")
}

fn references(facts: &Facts) -> Finding {
    let count = facts.broken_references.values().sum::<u64>();
    if count == 0 {
        return Finding::new(Severity::Ok, "references_hold", "all foreign keys hold");
    }
    let pairs: Vec<String> = facts
        .broken_references
        .iter()
        .map(|((table, parent), count)| {
            format!("{count} from {} to {}", table.escape_debug(), parent.escape_debug())
        })
        .collect();
    let what = format!(
        "{} to rows that are not there: {}",
        counted(count, "row refers", "rows refer"),
        pairs.join(", ")
    );
    let finding = Finding::new(Severity::Warning, "references_broken", what).count(count);
    let is_messages = |(table, parent): &(String, String)| table == "stm" && parent == "messages";
    if facts.broken_references.keys().any(is_messages) {
        return finding.sql(
            "UPDATE stm SET source_message_id = NULL WHERE source_message_id NOT IN \
             (SELECT id FROM messages);",
        );
    }
    finding.advice("`PRAGMA foreign_key_check;` lists them")
}

/// Adds up the counts of several reasons, and names those that were met.
fn parts(memories: &MemoryFacts, kinds: &[(SkipReason, &str)]) -> (u64, String) {
    let met: Vec<(u64, &str)> = kinds
        .iter()
        .filter_map(|(reason, name)| Some((memories.skipped.get(reason)?.count, *name)))
        .collect();
    let names: Vec<String> = met.iter().map(|(count, name)| format!("{count} {name}")).collect();
    (met.iter().map(|(count, _)| count).sum(), names.join(", "))
}

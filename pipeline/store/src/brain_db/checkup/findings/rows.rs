//! The memories: what cannot be read, what readers still see, what lost its survivor.

use crate::SkipReason;
use crate::brain_db::checkup::facts::{Found, MemoryFacts};
use crate::brain_db::checkup::finding::{Finding, Severity, counted, sql_text};

/// Commands that are spelled out for the first cases.
const COMMANDS_MAX: usize = 3;

const LOOK_AT_UNREADABLE: &str = "SELECT rowid, id, content FROM stm WHERE typeof(id) <> 'text' \
                                  OR typeof(content) <> 'text' OR trim(content) = '';";

const LOOK_AT_REPEATED: &str =
    "SELECT id, count(*) FROM stm GROUP BY id HAVING count(*) > 1 AND id IS NOT NULL;";

pub(super) fn judge(memories: &MemoryFacts, store: &str) -> Vec<Finding> {
    let parts = [
        unreadable(memories),
        repeated(memories),
        Some(times(memories)),
        visible_archived(memories),
        to_restore(
            &memories.survivor_gone,
            ("survivor_gone", "folded into a memory that is gone"),
            store,
        ),
        to_restore(
            &memories.archived_edited,
            ("archived_edited", "changed since memfold archived it"),
            store,
        ),
    ];
    parts.into_iter().flatten().collect()
}

fn unreadable(memories: &MemoryFacts) -> Option<Finding> {
    let kinds = [
        (SkipReason::IdNull, "without an id"),
        (SkipReason::IdBlob, "with bytes for an id"),
        (SkipReason::ContentMissing, "without a text"),
        (SkipReason::InvalidUtf8, "that are no UTF-8"),
    ];
    let (count, parts) = super::parts(memories, &kinds);
    if count == 0 {
        return None;
    }
    let what = format!(
        "{} no part: {parts}",
        counted(count, "unreadable row takes", "unreadable rows take")
    );
    Some(Finding::new(Severity::Info, "rows_unreadable", what).count(count).sql(LOOK_AT_UNREADABLE))
}

fn repeated(memories: &MemoryFacts) -> Option<Finding> {
    let found = memories.skipped.get(&SkipReason::IdRepeated)?;
    let rows = counted(found.count, "row repeats", "rows repeat");
    let what = format!("{rows} the id of another; the last one counts");
    Some(Finding::new(Severity::Warning, "ids_repeated", what).cases(found).sql(LOOK_AT_REPEATED))
}

fn times(memories: &MemoryFacts) -> Finding {
    let Some(found) = memories.skipped.get(&SkipReason::CreatedAtUnreadable) else {
        return Finding::new(Severity::Ok, "times_readable", "every creation time can be read");
    };
    let count = counted(found.count, "creation time", "creation times");
    let what = format!("{count} cannot be read: such memories count as the oldest");
    let finding = Finding::new(Severity::Warning, "times_unreadable", what).cases(found);
    match found.examples.first() {
        Some(id) => finding.sql(format!(
            "UPDATE stm SET created_at = 'YYYY-MM-DDTHH:MM:SS' WHERE id = {};",
            sql_text(id)
        )),
        None => finding,
    }
}

fn visible_archived(memories: &MemoryFacts) -> Option<Finding> {
    let count = memories.visible_archived;
    if count == 0 {
        return None;
    }
    let what = format!(
        "{} still in the memory table: readers that filter nothing see them",
        counted(count, "archived memory is", "archived memories are")
    );
    let advice = "merges move what they fold out of the table, unless merge.absorbed is archive";
    Some(Finding::new(Severity::Info, "archived_visible", what).count(count).advice(advice))
}

fn to_restore(found: &Found, (code, what): (&'static str, &str), store: &str) -> Option<Finding> {
    if found.is_empty() {
        return None;
    }
    let count = counted(found.count, "archived memory:", "archived memories:");
    let finding = Finding::new(Severity::Warning, code, format!("{count} {what}")).cases(found);
    let examples = found.examples.iter().take(COMMANDS_MAX);
    Some(examples.fold(finding, |finding, id| {
        finding.command(&["memfold", "restore", store, id, "--execute"])
    }))
}

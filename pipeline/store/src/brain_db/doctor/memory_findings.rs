//! The memories: unreadable rows, dead rows that readers still see, merged rows without a survivor.

use crate::brain_db::doctor::facts::{Facts, Found, FullText, FullTextKind, MemoryFacts};
use crate::brain_db::doctor::findings::{Finding, Severity, counted, parts, sql_list, sql_text};
use memfold_core::SkipReason;
use memfold_guard::text::excerpt;

/// Commands that are spelled out for the first cases.
const COMMANDS_MAX: usize = 3;

const LOOK_AT_UNREADABLE: &str = "SELECT rowid, id, content FROM stm WHERE typeof(id) <> 'text' \
                                  OR typeof(content) <> 'text' OR trim(content) = '';";

const LOOK_AT_REPEATED: &str =
    "SELECT id, count(*) FROM stm GROUP BY id HAVING count(*) > 1 AND id IS NOT NULL;";

pub(crate) fn judge_rows(memories: &MemoryFacts, store: &str) -> Vec<Finding> {
    let parts = [
        unreadable(memories),
        repeated_ids(memories),
        Some(times(memories)),
        visible_archived(memories),
        to_restore(
            &memories.survivor_gone,
            "survivor_gone",
            "merged into a memory that is gone",
            store,
        ),
        to_restore(
            &memories.archived_edited,
            "archived_edited",
            "changed since memfold archived it",
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
    let (count, parts) = parts(memories, &kinds);
    if count == 0 {
        return None;
    }
    let what = format!(
        "{} no part: {parts}",
        counted(count, "unreadable row takes", "unreadable rows take")
    );
    Some(Finding::new(Severity::Info, "rows_unreadable", what).count(count).sql(LOOK_AT_UNREADABLE))
}

fn repeated_ids(memories: &MemoryFacts) -> Option<Finding> {
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
    let advice = "merges move what they merge out of the table, unless merge.absorbed is archive";
    Some(Finding::new(Severity::Info, "archived_visible", what).count(count).advice(advice))
}

fn to_restore(found: &Found, code: &'static str, what: &str, store: &str) -> Option<Finding> {
    if found.is_empty() {
        return None;
    }
    let count = counted(found.count, "archived memory:", "archived memories:");
    let finding = Finding::new(Severity::Warning, code, format!("{count} {what}")).cases(found);
    let examples = found.examples.iter().take(COMMANDS_MAX);
    Some(examples.fold(finding, |finding, id| {
        finding.command(&["memfold", "undo", store, "--memory", id, "--execute"])
    }))
}

/// Puts missing memories into the index.
const FILL_INDEX: &str = "INSERT INTO stm_fts(rowid, content) SELECT rowid, content FROM stm \
                    WHERE typeof(content) = 'text' AND rowid NOT IN (SELECT id FROM stm_fts_docsize);";

/// Makes an index without a copy of the texts anew.
const RENEW: &str = "BEGIN IMMEDIATE; INSERT INTO stm_fts(stm_fts) VALUES ('delete-all'); \
                     INSERT INTO stm_fts(rowid, content) SELECT rowid, content FROM stm \
                     WHERE typeof(content) = 'text'; COMMIT;";

/// Makes an index over another table anew.
const REBUILD: &str = "INSERT INTO stm_fts(stm_fts) VALUES ('rebuild');";

const DROP_ORPHANS: &str = "DELETE FROM stm_fts WHERE rowid NOT IN (SELECT rowid FROM stm);";

/// Full-text indexes that SQLite finds damaged: their words come from the texts, so `.recover` is
/// not needed.
pub(crate) fn judge_damaged_index(facts: &Facts) -> Option<Finding> {
    let first = facts.full_text_damage.first()?;
    let what = format!(
        "a full-text index is damaged, so memories cannot be saved or merged: {}",
        excerpt(first, 120)
    );
    let mut finding = Finding::new(Severity::Critical, "full_text_damaged", what);
    finding.examples.clone_from(&facts.full_text_damage);
    if !facts.full_text_damage.iter().any(|line| line.contains("stm_fts")) {
        return Some(finding.advice("let the store's owner fill that index anew"));
    }
    Some(match facts.full_text.kind {
        FullTextKind::Contentless => finding.sql(RENEW),
        _ => finding.sql(REBUILD),
    })
}

pub(crate) fn judge_full_text(index: &FullText, memories: Option<&MemoryFacts>) -> Vec<Finding> {
    match index.kind {
        FullTextKind::Absent => {
            let what = "there is no full-text index stm_fts: a search for words finds nothing";
            let advice = "the store's owner makes it when it opens the store";
            return vec![Finding::new(Severity::Info, "full_text_absent", what).advice(advice)];
        }
        FullTextKind::Opaque => {
            let what = "the full-text index keeps no list of its rows; it was not compared";
            return vec![Finding::new(Severity::Info, "full_text_opaque", what)];
        }
        FullTextKind::Unusable => {
            let reason = index.refusal.as_deref().unwrap_or_default();
            let what = format!(
                "the full-text index stm_fts cannot be used here ({reason}): no memory can be saved or merged"
            );
            let advice = "its tokenizer is in an extension that memfold does not load; make the index \
                          with one that SQLite has, such as unicode61";
            return vec![
                Finding::new(Severity::Critical, "full_text_unusable", what).advice(advice),
            ];
        }
        FullTextKind::Contentless | FullTextKind::Stored | FullTextKind::External => {}
    }
    let mut found = Vec::new();
    found.extend(missing_entries(index));
    found.extend(orphan_entries(index));
    if found.is_empty() && memories.is_some() {
        let what = "the full-text index holds every live memory and nothing else";
        found.push(Finding::new(Severity::Ok, "full_text_complete", what));
    }
    found
}

fn missing_entries(index: &FullText) -> Option<Finding> {
    if index.missing.is_empty() {
        return None;
    }
    let count = counted(index.missing.count, "live memory is", "live memories are");
    let what = format!("{count} not in the full-text index: no search for words finds them");
    let mend = if index.kind == FullTextKind::External { REBUILD } else { FILL_INDEX };
    let finding = Finding::new(Severity::Warning, "full_text_missing", what);
    Some(finding.cases(&index.missing).sql(mend))
}

fn orphan_entries(index: &FullText) -> Option<Finding> {
    if index.orphans == 0 {
        return None;
    }
    let count = counted(index.orphans, "full-text entry has", "full-text entries have");
    let what = if index.orphans_ahead > 0 {
        format!("{count} no row; the next new memories will be found by these old words")
    } else {
        format!("{count} no row")
    };
    let severity = if index.orphans_ahead > 0 { Severity::Warning } else { Severity::Info };
    let mend = match index.kind {
        FullTextKind::External => REBUILD,
        FullTextKind::Stored => DROP_ORPHANS,
        _ => RENEW,
    };
    Some(Finding::new(severity, "full_text_orphans", what).count(index.orphans).sql(mend))
}

/// Maximum characters of a model's name.
const MODEL_CHARS: usize = 40;

/// Spaces that are named.
const SPACES_SHOWN: usize = 4;

const REFILL: &str = "then let the store's embedder fill what is missing";

const FILL: &str = "start the embeddings daemon of the store's owner (port 8030) and run `memfold embed DB --set \
                    embed.provider=daemon --execute`; the owner's own embed_pending does the same";

const DELETE_STALE: &str = "DELETE FROM embeddings WHERE source_type = 'stm' AND EXISTS (SELECT 1 FROM stm \
     WHERE stm.id = embeddings.source_id AND embeddings.content <> stm.content AND \
     (length(embeddings.content) < 500 OR \
     substr(stm.content, 1, length(embeddings.content)) <> embeddings.content));";

const DELETE_ORPHANS: &str = "DELETE FROM embeddings WHERE source_type = 'stm' AND source_id NOT IN \
                              (SELECT id FROM stm WHERE id IS NOT NULL);";

const DELETE_REPEATED: &str = "DELETE FROM embeddings WHERE source_type = 'stm' AND rowid NOT IN (SELECT max(rowid) \
     FROM embeddings WHERE source_type = 'stm' GROUP BY source_id);";

pub(crate) fn judge_vectors(memories: &MemoryFacts) -> Vec<Finding> {
    let mut found: Vec<Finding> = [
        invalid(memories),
        stale(memories),
        missing(memories),
        shared(memories),
        orphans(memories),
        repeated(memories),
        spaces(memories),
    ]
    .into_iter()
    .flatten()
    .collect();
    let lacking = |(reason, _): (&SkipReason, &Found)| reason.leaves_out_vector();
    if !memories.skipped.iter().any(lacking) {
        let what = "every live memory has a usable vector";
        found.push(Finding::new(Severity::Ok, "embeddings_complete", what));
    }
    found
}

fn invalid(memories: &MemoryFacts) -> Option<Finding> {
    let kinds = [
        (SkipReason::EmbeddingLength, "of a wrong length"),
        (SkipReason::EmbeddingNotFinite, "not finite"),
        (SkipReason::EmbeddingZero, "zero"),
        (SkipReason::EmbeddingUnreadable, "no numbers at all"),
    ];
    let (count, parts) = parts(memories, &kinds);
    if count == 0 {
        return None;
    }
    let mut found = Found { count, examples: Vec::new() };
    for id in kinds.iter().filter_map(|(reason, _)| memories.skipped.get(reason)) {
        id.examples.iter().for_each(|id| found.illustrate(id));
    }
    let embeddings = counted(count, "embedding is", "embeddings are");
    let what = format!("{embeddings} no usable vector: {parts}");
    let finding = Finding::new(Severity::Warning, "embeddings_invalid", what).cases(&found);
    let ids = &memories.invalid_embeddings;
    let named = &ids[..ids.len().min(IDS_IN_SQL_MAX)];
    let finding = finding.sql(format!(
        "DELETE FROM embeddings WHERE source_type = 'stm' AND source_id IN ({});",
        sql_list(named)
    ));
    let finding = if named.len() < ids.len() {
        let (named, all) = (named.len(), ids.len());
        finding.advice(format!("this names {named} of {all}: run doctor again for the others"))
    } else {
        finding
    };
    Some(finding.advice(REFILL))
}

/// A statement names at most this many ids: terminals and SQLite accept a line of that length.
const IDS_IN_SQL_MAX: usize = 1_000;

fn stale(memories: &MemoryFacts) -> Option<Finding> {
    let found = memories.skipped.get(&SkipReason::EmbeddingStale)?;
    let count = counted(found.count, "embedding was", "embeddings were");
    let what =
        format!("{count} made for an earlier text: those memories are compared by their words");
    let finding = Finding::new(Severity::Warning, "embeddings_stale", what).cases(found);
    Some(finding.sql(DELETE_STALE).advice(REFILL))
}

fn missing(memories: &MemoryFacts) -> Option<Finding> {
    let found = memories.skipped.get(&SkipReason::EmbeddingMissing)?;
    let count = counted(found.count, "live memory has", "live memories have");
    let what = format!("{count} no embedding: they are compared by their words");
    let finding = Finding::new(Severity::Warning, "embeddings_missing", what).cases(found);
    Some(finding.advice(FILL))
}

fn shared(memories: &MemoryFacts) -> Option<Finding> {
    let found = &memories.shared_vectors;
    if found.is_empty() {
        return None;
    }
    let what = format!(
        "{} under many different texts ({}): an embedder's fault, they take no part",
        counted(found.count, "vector stands", "vectors stand"),
        counted(memories.sharing_memories, "memory", "memories")
    );
    let finding = Finding::new(Severity::Warning, "vectors_shared", what).cases(found);
    Some(finding.advice("find out why the embedder failed, and let it embed these texts again"))
}

fn orphans(memories: &MemoryFacts) -> Option<Finding> {
    let found = memories.skipped.get(&SkipReason::EmbeddingOrphan)?;
    let count = counted(found.count, "embedding belongs", "embeddings belong");
    let what = format!("{count} to no memory; harmless");
    let finding = Finding::new(Severity::Info, "embeddings_orphaned", what).cases(found);
    Some(finding.sql(DELETE_ORPHANS))
}

fn repeated(memories: &MemoryFacts) -> Option<Finding> {
    let found = memories.skipped.get(&SkipReason::EmbeddingRepeated)?;
    let count = counted(found.count, "memory has", "memories have");
    let what = format!("{count} more than one embedding; the last one counts");
    let finding = Finding::new(Severity::Info, "embeddings_repeated", what).cases(found);
    Some(finding.sql(DELETE_REPEATED))
}

fn spaces(memories: &MemoryFacts) -> Option<Finding> {
    if memories.spaces.len() < 2 {
        return None;
    }
    let mut names: Vec<String> = memories
        .spaces
        .iter()
        .take(SPACES_SHOWN)
        .map(|space| {
            let model = excerpt(&space.space.model, MODEL_CHARS);
            format!("{} of {model} with {} dimensions", space.vectors, space.space.dim)
        })
        .collect();
    if memories.spaces.len() > SPACES_SHOWN {
        names.push("…".to_owned());
    }
    let what =
        format!("vectors are compared within a model and dimension only: {}", names.join(", "));
    let finding = Finding::new(Severity::Info, "spaces_mixed", what);
    let advice = "embed everything with one model if all shall be compared";
    Some(finding.count(memories.spaces.len() as u64).advice(advice))
}

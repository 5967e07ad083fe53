//! The embeddings.

use crate::SkipReason;
use crate::brain_db::checkup::facts::{Found, MemoryFacts};
use crate::brain_db::checkup::finding::{Finding, Severity, counted, sql_list};
use memfold_model::text::excerpt;

/// Names of models are cut after so many characters.
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

pub(super) fn judge(memories: &MemoryFacts) -> Vec<Finding> {
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
    let (count, parts) = super::parts(memories, &kinds);
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

/// A statement names at most so many ids: terminals and SQLite take such a line.
const IDS_IN_SQL_MAX: usize = 1_000;

fn stale(memories: &MemoryFacts) -> Option<Finding> {
    let found = memories.skipped.get(&SkipReason::EmbeddingStale)?;
    let count = counted(found.count, "embedding was", "embeddings were");
    let what = format!("{count} made for an earlier text: only equal texts are found for them");
    let finding = Finding::new(Severity::Warning, "embeddings_stale", what).cases(found);
    Some(finding.sql(DELETE_STALE).advice(REFILL))
}

fn missing(memories: &MemoryFacts) -> Option<Finding> {
    let found = memories.skipped.get(&SkipReason::EmbeddingMissing)?;
    let count = counted(found.count, "live memory has", "live memories have");
    let what = format!("{count} no embedding: only equal texts are found for them");
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

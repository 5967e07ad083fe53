//! [`RowFacts`]: what the cells of one row say, whatever else is in the store.

use std::borrow::Cow;

use jiff::tz::TimeZone;

use super::cell::{Cell, InvalidUtf8};
use super::memories::RawMemory;
use super::provenance::{self, Provenance};
use super::{categories, digest};
use crate::SkipReason;
use memfold_model::memory::{BaseDigest, Exclusion, MemoryId, Standing};
use memfold_model::time::Instant;

const IMPORTANCE_DEFAULT: f64 = 1.0;
const SOURCE_DEFAULT: &str = "agent";

/// What a readable row says.
#[derive(Debug, Clone, PartialEq)]
pub struct RowFacts {
    /// Categories in the order of the store, without repeats.
    pub categories: Vec<Box<str>>,
    /// Importance; NULL reads 1.0.
    pub(crate) importance: f64,
    /// How often it was read; NULL reads 0.
    pub access_count: i64,
    /// When it stops to count, if ever.
    pub expires_at: Option<Instant>,
    /// The first source, before any consolidation.
    pub root_source: Box<str>,
    /// The memories that its source names as folded into it; the list may be cut.
    pub merged_from: Vec<MemoryId>,
    /// How many memories its source says were folded into it.
    pub merged_count: u64,
    /// What it may take part in, by its own word.
    pub(crate) standing: Standing,
}

/// The text columns of a row, valid UTF-8.
pub(super) struct Texts<'a> {
    pub(super) id: Cow<'a, str>,
    pub(super) content: Cow<'a, str>,
    pub(super) categories: Option<Cow<'a, str>>,
    pub(super) source: Cow<'a, str>,
}

/// Reads one row; an error where a load would leave it out.
pub fn row_facts(
    raw: &RawMemory<'_>,
    time_zone: &TimeZone,
    now: Instant,
) -> Result<RowFacts, SkipReason> {
    Ok(facts(raw, &texts(raw)?, time_zone, now))
}

/// Returns the base digest of a row and its embedding as stored, NULL where there is none.
pub fn base_digest(columns: &RawMemory<'_>, embedding: Cell<'_>) -> BaseDigest {
    digest::with_embedding(digest::of_columns(columns), embedding)
}

pub(super) fn facts(
    raw: &RawMemory<'_>,
    texts: &Texts<'_>,
    time_zone: &TimeZone,
    now: Instant,
) -> RowFacts {
    let categories = texts.categories.as_deref().map(categories::parse).unwrap_or_default();
    let provenance = provenance::parse(&texts.source);
    let expires_at = raw.expires_at.instant(time_zone);
    let archived = provenance.archived
        || !matches!(raw.archived_by, Cell::Null)
        || categories.iter().any(|category| provenance::archives(category));
    let expired = expires_at.is_some_and(|at| at <= now);
    RowFacts {
        categories,
        importance: raw.importance.number().unwrap_or(IMPORTANCE_DEFAULT),
        access_count: raw.access_count.count().unwrap_or(0),
        expires_at,
        standing: standing(&provenance, archived, expired),
        root_source: provenance.root,
        merged_from: provenance.merged_from,
        merged_count: provenance.merged_count,
    }
}

pub(super) fn texts<'a>(raw: &RawMemory<'a>) -> Result<Texts<'a>, SkipReason> {
    let invalid = |_: InvalidUtf8| SkipReason::InvalidUtf8;
    let no_id = if matches!(raw.id, Cell::Null) { SkipReason::IdNull } else { SkipReason::IdBlob };
    let id = raw.id.text().map_err(invalid)?.ok_or(no_id)?;
    let content = raw.content.text().map_err(invalid)?.ok_or(SkipReason::ContentMissing)?;
    if content.trim().is_empty() {
        return Err(SkipReason::ContentMissing);
    }
    let categories = raw.categories.text().map_err(invalid)?;
    let source = raw.source.text().map_err(invalid)?.unwrap_or(SOURCE_DEFAULT.into());
    Ok(Texts { id, content, categories, source })
}

fn standing(provenance: &Provenance, archived: bool, expired: bool) -> Standing {
    match (&provenance.merged_into, archived) {
        (Some(survivor), true) => Standing::Ghost { survivor: survivor.clone() },
        (None, true) => Standing::Excluded(Exclusion::Archived),
        _ if provenance.record => Standing::Excluded(Exclusion::ConsolidationRecord),
        _ if expired => Standing::Excluded(Exclusion::Expired),
        _ => Standing::Live,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant(1_780_272_000_000_000);

    fn row<'a>(categories: &'a str, source: &'a str) -> RawMemory<'a> {
        RawMemory {
            id: Cell::Text(b"a"),
            content: Cell::Text(b"text"),
            categories: Cell::Text(categories.as_bytes()),
            source: Cell::Text(source.as_bytes()),
            ..RawMemory::default()
        }
    }

    fn read(raw: &RawMemory<'_>) -> RowFacts {
        row_facts(raw, &TimeZone::UTC, NOW).unwrap()
    }

    #[test]
    fn a_survivor_says_what_was_folded_into_it() {
        let source = r#"consolidation:{"merged_from":["b","c"],"merged_count":180,"previous_source":"user"}"#;
        let facts = read(&row(r#"["sop"]"#, source));
        assert_eq!(facts.merged_from, [MemoryId::new("b"), MemoryId::new("c")]);
        assert_eq!((facts.merged_count, &*facts.root_source), (180, "user"));
        assert_eq!((facts.importance, facts.access_count), (1.0, 0));
        assert_eq!((&*facts.categories[0], facts.standing), ("sop", Standing::Live));
    }

    #[test]
    fn standing_follows_marks_and_time() {
        let archived = read(&row(r#"["archived"]"#, r#"archived:{"merged_into":"b"}"#)).standing;
        assert_eq!(archived, Standing::Ghost { survivor: MemoryId::new("b") });
        let expires_at = Cell::Text(b"2026-06-01T00:00:00Z");
        let expiring = RawMemory { expires_at, ..row("[]", "agent") };
        assert_eq!(read(&expiring).standing, Standing::Excluded(Exclusion::Expired));
        let earlier = row_facts(&expiring, &TimeZone::UTC, Instant(NOW.0 - 1)).unwrap();
        assert_eq!(earlier.standing, Standing::Live);
    }

    #[test]
    fn what_a_load_leaves_out_has_no_facts() {
        let broken = RawMemory { categories: Cell::Text(b"\xff"), ..row("", "agent") };
        assert_eq!(row_facts(&broken, &TimeZone::UTC, NOW), Err(SkipReason::InvalidUtf8));
    }

    #[test]
    fn the_digest_is_the_one_that_a_load_gives() {
        let raw = row("[]", "agent");
        let columns = digest::of_columns(&raw);
        assert_eq!(
            base_digest(&raw, Cell::Blob(b"v")),
            digest::with_embedding(columns, Cell::Blob(b"v"))
        );
        assert_ne!(base_digest(&raw, Cell::Null), base_digest(&raw, Cell::Blob(b"v")));
    }
}

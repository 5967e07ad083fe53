//! How rows of any store are understood: their categories, their provenance, their part in consolidation, their digest.

use std::borrow::Cow;
use std::fmt::Write as _;

use jiff::tz::TimeZone;
use serde_json::{Map, Value as Json};

use crate::SkipReason;
use crate::journal::RowImage;
use crate::memory::{BaseDigest, CategoryList, MemoryId, Status};
use crate::time::Instant;
use crate::value::{InvalidUtf8, ValueRef};

/// Declares the columns of a memory table that are understood.
macro_rules! raw_memory {
    ($($column:ident)*) => {
        /// Values of a [`RawMemory`].
        pub const MEMORY_CELLS: usize = [$(stringify!($column)),*].len();

        /// A row of a memory table as stored; columns that do not exist are NULL.
        #[derive(Debug, Clone, Copy)]
        pub struct RawMemory<'a> {
            $(
                /// The column of this name.
                pub $column: ValueRef<'a>,
            )*
        }

        impl<'a> RawMemory<'a> {
            /// Takes the values in the order of the fields.
            #[must_use]
            pub const fn of_cells(cells: [ValueRef<'a>; MEMORY_CELLS]) -> Self {
                let [$($column),*] = cells;
                Self { $($column),* }
            }
        }

        impl<'a> From<&'a RowImage> for RawMemory<'a> {
            fn from(row: &'a RowImage) -> Self {
                Self { $($column: row.value(stringify!($column))),* }
            }
        }
    };
}

raw_memory! {
    id content categories importance access_count created_at expires_at source archived_by last_accessed
}

impl Default for RawMemory<'_> {
    fn default() -> Self {
        Self::of_cells([ValueRef::Null; MEMORY_CELLS])
    }
}

const IMPORTANCE_DEFAULT: f64 = 1.0;
const SOURCE_DEFAULT: &str = "agent";

/// The contents of a readable row.
#[derive(Debug, Clone, PartialEq)]
pub struct RowFacts {
    /// Categories in the order of the store, without repeats.
    pub categories: Vec<Box<str>>,
    /// Importance; NULL reads 1.0.
    pub importance: f64,
    /// How often it was read; NULL reads 0.
    pub access_count: i64,
    /// When it stops to count, if ever.
    pub expires_at: Option<Instant>,
    /// The first source, before any consolidation.
    pub root_source: Box<str>,
    /// The memories that its source names as merged into it; the list may be cut.
    pub merged_from: Vec<MemoryId>,
    /// How many memories its source says were merged into it.
    pub merged_count: u64,
    /// Its status, by its own word.
    pub status: Status,
    /// Its survivor, by its own word.
    pub merged_into: Option<MemoryId>,
}

/// The text columns of a row, valid UTF-8.
pub struct Texts<'a> {
    /// The id; numbers in decimal.
    pub id: Cow<'a, str>,
    /// The text.
    pub content: Cow<'a, str>,
    /// The categories as stored.
    pub categories: Option<Cow<'a, str>>,
    /// Where it came from; NULL reads `agent`.
    pub source: Cow<'a, str>,
}

/// Interprets one row.
///
/// # Errors
/// Where a load would leave it out.
pub fn row_facts(
    raw: &RawMemory<'_>,
    time_zone: &TimeZone,
    now: Instant,
) -> Result<RowFacts, SkipReason> {
    Ok(facts_of(raw, &texts_of(raw)?, time_zone, now))
}

/// Returns the base digest of a row and its embedding as stored, NULL where there is none.
#[must_use]
pub fn base_digest(columns: &RawMemory<'_>, embedding: ValueRef<'_>) -> BaseDigest {
    digest_with_embedding(digest_of_columns(columns), embedding)
}

/// Interprets a row after its texts were read.
#[must_use]
pub fn facts_of(
    raw: &RawMemory<'_>,
    texts: &Texts<'_>,
    time_zone: &TimeZone,
    now: Instant,
) -> RowFacts {
    let categories = texts.categories.as_deref().map(parse_categories).unwrap_or_default();
    let provenance = parse_source(&texts.source);
    let expires_at = raw.expires_at.instant(time_zone);
    let archived = provenance.archived
        || !matches!(raw.archived_by, ValueRef::Null)
        || categories.iter().any(|category| archives(category));
    let expired = expires_at.is_some_and(|at| at <= now);
    RowFacts {
        categories,
        importance: raw.importance.number().unwrap_or(IMPORTANCE_DEFAULT),
        access_count: raw.access_count.count().unwrap_or(0),
        expires_at,
        status: status(&provenance, archived, expired),
        merged_into: provenance.merged_into.filter(|_| archived),
        root_source: provenance.root,
        merged_from: provenance.merged_from,
        merged_count: provenance.merged_count,
    }
}

/// Reads the text columns of a row; an error where a load leaves the row out.
///
/// # Errors
/// When the id or the text is missing or a text is not UTF-8.
pub fn texts_of<'a>(raw: &RawMemory<'a>) -> Result<Texts<'a>, SkipReason> {
    let invalid = |_: InvalidUtf8| SkipReason::InvalidUtf8;
    let no_id =
        if matches!(raw.id, ValueRef::Null) { SkipReason::IdNull } else { SkipReason::IdBlob };
    let id = raw.id.text().map_err(invalid)?.ok_or(no_id)?;
    let content = raw.content.text().map_err(invalid)?.ok_or(SkipReason::ContentMissing)?;
    if content.trim().is_empty() {
        return Err(SkipReason::ContentMissing);
    }
    let categories = raw.categories.text().map_err(invalid)?;
    let source = raw.source.text().map_err(invalid)?.unwrap_or(SOURCE_DEFAULT.into());
    Ok(Texts { id, content, categories, source })
}

fn status(provenance: &Provenance, archived: bool, expired: bool) -> Status {
    match (&provenance.merged_into, archived) {
        (Some(_), true) => Status::Merged,
        (None, true) => Status::Archived,
        _ if provenance.record => Status::Record,
        _ if expired => Status::Expired,
        _ => Status::Live,
    }
}

/// The columns of most rows need no more bytes.
const ROW_BYTES: usize = 1_024;

/// Hashes the columns of a row that a plan rests on; [`digest_with_embedding`] completes the digest.
#[must_use]
pub fn digest_of_columns(raw: &RawMemory<'_>) -> BaseDigest {
    let mut bytes = Vec::with_capacity(ROW_BYTES);
    bytes.extend_from_slice(b"memfold base columns 1");
    for cell in [
        raw.id,
        raw.content,
        raw.categories,
        raw.importance,
        raw.created_at,
        raw.expires_at,
        raw.source,
        raw.archived_by,
    ] {
        push(&mut bytes, cell);
    }
    BaseDigest(*blake3::hash(&bytes).as_bytes())
}

/// Completes the digest of a row with its embedding as stored, NULL where there is none.
#[must_use]
pub fn digest_with_embedding(columns: BaseDigest, embedding: ValueRef<'_>) -> BaseDigest {
    let mut bytes = b"memfold base row 1".to_vec();
    bytes.extend_from_slice(&columns.0);
    push(&mut bytes, embedding);
    BaseDigest(*blake3::hash(&bytes).as_bytes())
}

/// Adds type tag, length and value, so that no two sequences of cells look the same.
fn push(hashed: &mut Vec<u8>, cell: ValueRef<'_>) {
    let number;
    let (tag, bytes): (u8, &[u8]) = match cell {
        ValueRef::Null => (0, &[]),
        ValueRef::Integer(value) => {
            number = value.to_le_bytes();
            (1, &number)
        }
        ValueRef::Real(value) => {
            number = value.to_bits().to_le_bytes();
            (2, &number)
        }
        ValueRef::Text(bytes) => (3, bytes),
        ValueRef::Blob(bytes) => (4, bytes),
    };
    let mut head = [tag; 9];
    head[1..].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
    hashed.extend_from_slice(&head);
    hashed.extend_from_slice(bytes);
}

/// Reads categories in their order, without repeats and empty ones.
///
/// Text that is no JSON array or string is one category, as the owner's readers take it.
#[must_use]
pub fn parse_categories(text: &str) -> Vec<Box<str>> {
    let trimmed = text.trim();
    let mut categories = CategoryList::default();
    if let Some(simple) = parse_simple_list(trimmed) {
        simple.into_iter().for_each(|category| add(&mut categories, category));
        return categories.into_list();
    }
    match serde_json::from_str::<Json>(trimmed) {
        Ok(Json::Array(items)) => items.iter().for_each(|item| add_value(&mut categories, item)),
        Ok(Json::String(single)) => add(&mut categories, &single),
        Ok(Json::Null) => {}
        _ => add(&mut categories, trimmed),
    }
    categories.into_list()
}

/// Reads the common form, a flat list of strings without escapes; `None` for anything else.
fn parse_simple_list(text: &str) -> Option<Vec<&str>> {
    let inside = text.strip_prefix('[')?.strip_suffix(']')?;
    if inside.contains('\\') || inside.bytes().any(|byte| byte < 0x20) {
        return None;
    }
    let mut rest = inside.trim();
    let mut items = Vec::new();
    while !rest.is_empty() {
        let (item, after) = rest.strip_prefix('"')?.split_once('"')?;
        items.push(item);
        rest = after.trim_start();
        if !rest.is_empty() {
            rest = rest.strip_prefix(',')?.trim_start();
            // A trailing comma is no JSON.
            if rest.is_empty() {
                return None;
            }
        }
    }
    Some(items)
}

fn add_value(categories: &mut CategoryList, value: &Json) {
    match value {
        Json::String(text) => add(categories, text),
        Json::Array(items) => items.iter().for_each(|item| add_value(categories, item)),
        Json::Number(number) => add(categories, &number.to_string()),
        Json::Null | Json::Bool(_) | Json::Object(_) => {}
    }
}

fn add(categories: &mut CategoryList, category: &str) {
    if !category.trim().is_empty() {
        categories.add(category);
    }
}

/// Writes categories as Python's `json.dumps` does by default: `", "` between, ASCII only.
///
/// Others filter the raw text with `LIKE '%"category"%'`.
#[must_use]
pub fn categories_to_json<S: AsRef<str>>(categories: &[S]) -> String {
    let items: Vec<_> = categories.iter().map(|category| quote(category.as_ref())).collect();
    format!("[{}]", items.join(", "))
}

fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match escape(character) {
            Some(escaped) => quoted.push_str(&escaped),
            None => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

fn escape(character: char) -> Option<Cow<'static, str>> {
    Some(match character {
        '"' => "\\\"".into(),
        '\\' => "\\\\".into(),
        '\n' => "\\n".into(),
        '\r' => "\\r".into(),
        '\t' => "\\t".into(),
        '\u{8}' => "\\b".into(),
        '\u{c}' => "\\f".into(),
        ' '..='~' => return None,
        other => {
            let mut units = [0; 2];
            let mut escaped = String::new();
            for unit in other.encode_utf16(&mut units) {
                // Writing to a String cannot fail.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
            escaped.into()
        }
    })
}

/// Wrapped sources are unwrapped this deep; deeper ones stay wrapped.
const DEPTH_MAX: usize = 16;

/// The meaning of a `source`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// The first source; `consolidation` or `archived` where the original was overwritten.
    pub root: Box<str>,
    /// The memory this row was merged into.
    pub merged_into: Option<MemoryId>,
    /// The memories that were merged into this row.
    pub merged_from: Vec<MemoryId>,
    /// How many that were: the list may be cut.
    pub merged_count: u64,
    /// Whether the source marks the row as archived.
    pub archived: bool,
    /// Whether the row is a record about other rows.
    pub record: bool,
}

/// Reads a source, one of `<name>`, `consolidation:{json}`, `archived:{json}`,
/// `consolidation:contradiction:<key>`, `archived:merged_into:<id>` or `archived:<reason>`.
#[must_use]
pub fn parse_source(source: &str) -> Provenance {
    let mut provenance = Provenance {
        root: root_source(source, DEPTH_MAX).into(),
        merged_into: None,
        merged_from: Vec::new(),
        merged_count: 0,
        archived: false,
        record: source.starts_with("consolidation:contradiction:"),
    };
    if let Some(rest) = source.strip_prefix("archived:") {
        provenance.archived = true;
        provenance.merged_into = merged_into(rest);
    } else if let Some(rest) = source.strip_prefix("consolidation:") {
        let fields = object(rest).unwrap_or_default();
        provenance.merged_from = merged_from(&fields);
        let listed = provenance.merged_from.len() as u64;
        provenance.merged_count =
            fields.get("merged_count").and_then(Json::as_u64).unwrap_or(listed);
    }
    provenance
}

/// Returns how a source begins that tells the status of its row: writing one hides the row, or what it claims to have
/// merged.
#[must_use]
pub fn reserved_prefix(source: &str) -> Option<&'static str> {
    // Readers in SQL compare with LIKE, to which capitals are the same.
    let begins = |prefix: &str| {
        source.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    ["archived:", "consolidation:"].into_iter().find(|prefix| begins(prefix))
}

/// Tells whether a source says that a rule archived its row, into nothing: a run of ours, not the owner.
#[must_use]
pub fn is_archived_by_run(source: &str) -> bool {
    let fields = source.strip_prefix("archived:").and_then(object);
    fields
        .is_some_and(|fields| fields.contains_key("run_id") && !fields.contains_key("merged_into"))
}

/// Tells whether a category marks its row as archived.
#[must_use]
pub fn archives(category: &str) -> bool {
    category == "archived" || category.starts_with("archive/")
}

fn root_source(source: &str, depth: usize) -> String {
    if source.starts_with("consolidation:contradiction:") {
        return source.into();
    }
    for wrapper in ["consolidation", "archived"] {
        let Some(rest) = source.strip_prefix(wrapper).and_then(|rest| rest.strip_prefix(':'))
        else {
            continue;
        };
        return match object(rest).as_ref().and_then(|fields| text(fields, "previous_source")) {
            Some(previous) if depth > 0 => root_source(previous, depth - 1),
            _ => wrapper.into(),
        };
    }
    source.into()
}

fn merged_into(rest: &str) -> Option<MemoryId> {
    let id = match rest.strip_prefix("merged_into:") {
        Some(id) => id.trim().to_owned(),
        None => text(&object(rest)?, "merged_into")?.to_owned(),
    };
    (!id.is_empty()).then(|| MemoryId::new(id))
}

fn merged_from(fields: &Map<String, Json>) -> Vec<MemoryId> {
    let ids = fields.get("merged_from").and_then(Json::as_array).into_iter().flatten();
    ids.filter_map(Json::as_str).map(MemoryId::new).collect()
}

fn object(text: &str) -> Option<Map<String, Json>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    serde_json::from_str(text).ok()
}

fn text<'a>(fields: &'a Map<String, Json>, key: &str) -> Option<&'a str> {
    fields.get(key).and_then(Json::as_str)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Instant = Instant(1_780_272_000_000_000);

    fn row<'a>(categories: &'a str, source: &'a str) -> RawMemory<'a> {
        RawMemory {
            id: ValueRef::Text(b"a"),
            content: ValueRef::Text(b"text"),
            categories: ValueRef::Text(categories.as_bytes()),
            source: ValueRef::Text(source.as_bytes()),
            ..RawMemory::default()
        }
    }

    fn read(raw: &RawMemory<'_>) -> RowFacts {
        row_facts(raw, &TimeZone::UTC, NOW).unwrap()
    }

    #[test]
    fn a_survivor_names_the_rows_merged_into_it() {
        let source = r#"consolidation:{"merged_from":["b","c"],"merged_count":180,"previous_source":"user"}"#;
        let facts = read(&row(r#"["sop"]"#, source));
        assert_eq!(facts.merged_from, [MemoryId::new("b"), MemoryId::new("c")]);
        assert_eq!((facts.merged_count, &*facts.root_source), (180, "user"));
        assert_eq!((facts.importance, facts.access_count), (1.0, 0));
        assert_eq!((&*facts.categories[0], facts.status), ("sop", Status::Live));
    }

    #[test]
    fn status_follows_marks_and_time() {
        let merged = read(&row(r#"["archived"]"#, r#"archived:{"merged_into":"b"}"#));
        assert_eq!((merged.status, merged.merged_into), (Status::Merged, Some(MemoryId::new("b"))));
        let expires_at = ValueRef::Text(b"2026-06-01T00:00:00Z");
        let expiring = RawMemory { expires_at, ..row("[]", "agent") };
        assert_eq!(read(&expiring).status, Status::Expired);
        let earlier = row_facts(&expiring, &TimeZone::UTC, Instant(NOW.0 - 1)).unwrap();
        assert_eq!(earlier.status, Status::Live);
    }

    #[test]
    fn what_a_load_leaves_out_has_no_facts() {
        let broken = RawMemory { categories: ValueRef::Text(b"\xff"), ..row("", "agent") };
        assert_eq!(row_facts(&broken, &TimeZone::UTC, NOW), Err(SkipReason::InvalidUtf8));
    }

    fn digest(
        id: &'static [u8],
        content: ValueRef<'static>,
        embedding: ValueRef<'_>,
    ) -> BaseDigest {
        let raw = RawMemory { id: ValueRef::Text(id), content, ..RawMemory::default() };
        digest_with_embedding(digest_of_columns(&raw), embedding)
    }

    #[test]
    fn every_stored_difference_shows() {
        let digests = [
            digest(b"a", ValueRef::Text(b"bc"), ValueRef::Null),
            digest(b"ab", ValueRef::Text(b"c"), ValueRef::Null),
            digest(b"a", ValueRef::Blob(b"bc"), ValueRef::Null),
            digest(b"a", ValueRef::Text(b"bc"), ValueRef::Blob(&[])),
            digest(b"a", ValueRef::Text(b"bc"), ValueRef::Blob(&[0])),
            digest(b"a", ValueRef::Integer(1), ValueRef::Null),
            digest(b"a", ValueRef::Real(1.0), ValueRef::Null),
            digest(b"a", ValueRef::Text(b"1"), ValueRef::Null),
        ];
        let distinct: std::collections::BTreeSet<_> = digests.iter().collect();
        assert_eq!(distinct.len(), digests.len());
        assert_eq!(digests[0], digest(b"a", ValueRef::Text(b"bc"), ValueRef::Null));
    }

    #[test]
    fn counters_do_not_show() {
        let read = RawMemory { access_count: ValueRef::Integer(7), ..RawMemory::default() };
        assert_eq!(digest_of_columns(&read), digest_of_columns(&RawMemory::default()));
    }

    fn categories(text: &str) -> Vec<String> {
        parse_categories(text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn reads_every_form() {
        assert_eq!(categories(r#"["sop", "coding"]"#), ["sop", "coding"]);
        assert_eq!(categories(r#"["sop","coding","sop"]"#), ["sop", "coding"]);
        assert_eq!(categories(r#"["caf\u00e9", "\ud83d\ude00"]"#), ["café", "😀"]);
        assert_eq!(categories(r#""quoted""#), ["quoted"]);
        assert_eq!(categories("trading"), ["trading"]);
        assert_eq!(categories(" a, b "), ["a, b"]);
        assert_eq!(categories(r#"[["x", ["y"]], 3, null, {"z": 1}, true]"#), ["x", "y", "3"]);
        assert_eq!(categories(r#"["open"#), [r#"["open"#]);
        assert_eq!(categories(r#"["a",]"#), [r#"["a",]"#]);
        assert_eq!(categories(r#"{"a": 1}"#), [r#"{"a": 1}"#]);
        assert!(categories("").is_empty());
        assert!(categories("null").is_empty());
        assert!(categories("[]").is_empty());
        assert!(categories(r#"["", " "]"#).is_empty());
    }

    #[test]
    fn writes_what_python_writes() {
        assert_eq!(categories_to_json(&["sop", "a\"b\\c\n"]), r#"["sop", "a\"b\\c\n"]"#);
        assert_eq!(
            categories_to_json(&["café", "😀", "\u{7f}"]),
            r#"["caf\u00e9", "\ud83d\ude00", "\u007f"]"#
        );
        assert_eq!(categories_to_json::<&str>(&[]), "[]");
    }

    proptest! {
        #[test]
        fn written_categories_read_back(list in prop::collection::btree_set("\\PC{1,12}", 0..5)) {
            let list: Vec<String> = list.into_iter().filter(|c| !c.trim().is_empty()).collect();
            let json = categories_to_json(&list);
            prop_assert!(json.is_ascii());
            prop_assert_eq!(categories(&json), list);
        }

        #[test]
        fn the_fast_path_agrees_with_the_parser(text in r#"\[["a,\[\] ]{0,16}\]"#) {
            if let Some(fast) = parse_simple_list(&text) {
                let slow: Vec<String> = serde_json::from_str(&text).unwrap();
                prop_assert_eq!(fast, slow);
            }
        }
    }

    fn root(source: &str) -> String {
        parse_source(source).root.into()
    }

    #[test]
    fn unwraps_to_the_first_source() {
        assert_eq!(root("agent"), "agent");
        assert_eq!(root("migrated:stm.json"), "migrated:stm.json");
        assert_eq!(
            root(r#"consolidation:{"merged_from":["a"],"previous_source":"manual"}"#),
            "manual"
        );
        let inner = r#"consolidation:{"previous_source":"user"}"#.replace('"', "\\\"");
        let nested = format!(r#"archived:{{"merged_into":"b","previous_source":"{inner}"}}"#);
        assert_eq!(root(&nested), "user");
        assert_eq!(root(r#"consolidation:{"merged_from":["a"]}"#), "consolidation");
        assert_eq!(root("consolidation"), "consolidation");
        assert_eq!(root("consolidation:{broken"), "consolidation");
        assert_eq!(root("archived:merged_into:stm_1"), "archived");
        assert_eq!(root("archived:low_utility"), "archived");
        assert_eq!(root("consolidation:contradiction:00ff"), "consolidation:contradiction:00ff");
    }

    #[test]
    fn a_source_that_wraps_itself_for_ever_ends() {
        let mut source = "agent".to_owned();
        for _ in 0..18 {
            source = format!("archived:{}", serde_json::json!({ "previous_source": source }));
        }
        assert_eq!(root(&source), "archived");
    }

    #[test]
    fn reads_the_survivor_of_each_merged_row() {
        let survivor = Some(MemoryId::new("stm_1"));
        assert_eq!(parse_source("archived:merged_into:stm_1").merged_into, survivor);
        assert_eq!(parse_source(r#"archived:{"merged_into": "stm_1"}"#).merged_into, survivor);
        assert_eq!(parse_source("archived:low_utility").merged_into, None);
        assert_eq!(parse_source("archived:merged_into:").merged_into, None);
        let listed = parse_source(r#"consolidation:{"merged_from":["a","b",3]}"#);
        assert_eq!(listed.merged_from, [MemoryId::new("a"), MemoryId::new("b")]);
        assert_eq!(listed.merged_count, 2);
        let cut = parse_source(r#"consolidation:{"merged_from":["a"],"merged_count":101}"#);
        assert_eq!((cut.merged_from.len(), cut.merged_count), (1, 101));
        assert!(parse_source("archived:x").archived && !parse_source("archived").archived);
        assert!(parse_source("consolidation:contradiction:1").record);
    }
}

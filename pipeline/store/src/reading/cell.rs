//! [`Cell`]: a value as a store holds it, storage class included.

use std::borrow::Cow;
use std::fmt::Write as _;

use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use memfold_core::memory::CategoryList;
use memfold_core::memory::MemoryId;
use memfold_core::time::Instant;

/// A value and its storage class. Text is bytes, because stores hold text that is no UTF-8.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell<'a> {
    /// No value.
    Null,
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    /// Text.
    Text(&'a [u8]),
    /// Bytes.
    Blob(&'a [u8]),
}

/// Text that is no UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidUtf8;

impl<'a> Cell<'a> {
    /// Returns the text, numbers in decimal; `None` for NULL and bytes.
    pub fn text(self) -> Result<Option<Cow<'a, str>>, InvalidUtf8> {
        match self {
            Self::Null | Self::Blob(_) => Ok(None),
            Self::Integer(value) => Ok(Some(value.to_string().into())),
            Self::Real(value) => Ok(Some(format!("{value:?}").into())),
            Self::Text(bytes) => {
                std::str::from_utf8(bytes).map(|text| Some(text.into())).map_err(|_| InvalidUtf8)
            }
        }
    }

    /// Returns a finite number, also one written as text.
    pub fn number(self) -> Option<f64> {
        let value = match self {
            Self::Integer(value) => value as f64,
            Self::Real(value) => value,
            Self::Text(bytes) => std::str::from_utf8(bytes).ok()?.trim().parse().ok()?,
            Self::Null | Self::Blob(_) => return None,
        };
        value.is_finite().then_some(value)
    }

    /// Returns a whole number, fractions cut off.
    pub fn count(self) -> Option<i64> {
        match self {
            Self::Integer(value) => Some(value),
            _ => self.number().map(|value| value as i64),
        }
    }

    /// Returns a time in any spelling or as an epoch number.
    pub fn instant(self, time_zone: &TimeZone) -> Option<Instant> {
        match self {
            Self::Integer(value) => Instant::from_epoch(value as f64),
            Self::Real(value) => Instant::from_epoch(value),
            Self::Text(bytes) => Instant::parse(std::str::from_utf8(bytes).ok()?, time_zone),
            Self::Null | Self::Blob(_) => None,
        }
    }

    /// Returns a short, printable form for an example.
    pub(crate) fn shown(self) -> String {
        const SHOWN_CHARS: usize = 60;
        match self {
            Self::Null => "NULL".into(),
            Self::Blob(bytes) => format!("a blob of {} bytes", bytes.len()),
            Self::Integer(value) => value.to_string(),
            Self::Real(value) => value.to_string(),
            Self::Text(bytes) => {
                let head = &bytes[..bytes.len().min(4 * SHOWN_CHARS)];
                let text = String::from_utf8_lossy(head);
                format!("{:?}", text.chars().take(SHOWN_CHARS).collect::<String>())
            }
        }
    }
}

/// Reads categories in their order, without repeats and empty ones.
///
/// Text that is no JSON array or string is one category, as the owner's readers take it.
pub(crate) fn parse_categories(text: &str) -> Vec<Box<str>> {
    let trimmed = text.trim();
    let mut categories = CategoryList::default();
    if let Some(simple) = parse_simple_list(trimmed) {
        simple.into_iter().for_each(|category| add(&mut categories, category));
        return categories.into_list();
    }
    match serde_json::from_str::<Value>(trimmed) {
        Ok(Value::Array(items)) => items.iter().for_each(|item| add_value(&mut categories, item)),
        Ok(Value::String(single)) => add(&mut categories, &single),
        Ok(Value::Null) => {}
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

fn add_value(categories: &mut CategoryList, value: &Value) {
    match value {
        Value::String(text) => add(categories, text),
        Value::Array(items) => items.iter().for_each(|item| add_value(categories, item)),
        Value::Number(number) => add(categories, &number.to_string()),
        Value::Null | Value::Bool(_) | Value::Object(_) => {}
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

/// Wrapped sources are unwrapped this deep; what lies deeper stays wrapped.
const DEPTH_MAX: usize = 16;

/// What a `source` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Provenance {
    /// The first source; `consolidation` or `archived` where the original was overwritten.
    pub(crate) root: Box<str>,
    /// The memory this row was merged into.
    pub(crate) merged_into: Option<MemoryId>,
    /// The memories that were merged into this row.
    pub(crate) merged_from: Vec<MemoryId>,
    /// How many that were: the list may be cut.
    pub(crate) merged_count: u64,
    /// Whether the source marks the row as archived.
    pub(crate) archived: bool,
    /// Whether the row is a record about other rows.
    pub(crate) record: bool,
}

/// Reads a source, one of `<name>`, `consolidation:{json}`, `archived:{json}`,
/// `consolidation:contradiction:<key>`, `archived:merged_into:<id>` or `archived:<reason>`.
pub(crate) fn parse_source(source: &str) -> Provenance {
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
            fields.get("merged_count").and_then(Value::as_u64).unwrap_or(listed);
    }
    provenance
}

/// Returns how a source begins that says what became of its row: whoever writes one hides the row, or what it claims to have
/// absorbed.
pub fn reserved_prefix(source: &str) -> Option<&'static str> {
    // Readers in SQL compare with LIKE, to which capitals are the same.
    let begins = |prefix: &str| {
        source.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    ["archived:", "consolidation:"].into_iter().find(|prefix| begins(prefix))
}

/// Tells whether a source says that a rule archived its row, into nothing: a run of ours, not the owner.
pub(crate) fn is_archived_by_run(source: &str) -> bool {
    let fields = source.strip_prefix("archived:").and_then(object);
    fields
        .is_some_and(|fields| fields.contains_key("run_id") && !fields.contains_key("merged_into"))
}

/// Tells whether a category marks its row as archived.
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

fn merged_from(fields: &Map<String, Value>) -> Vec<MemoryId> {
    let ids = fields.get("merged_from").and_then(Value::as_array).into_iter().flatten();
    ids.filter_map(Value::as_str).map(MemoryId::new).collect()
}

fn object(text: &str) -> Option<Map<String, Value>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    serde_json::from_str(text).ok()
}

fn text<'a>(fields: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    fields.get(key).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_every_storage_class() {
        assert_eq!(Cell::Text(b" 2.0 ").number(), Some(2.0));
        assert_eq!(Cell::Integer(3).number(), Some(3.0));
        assert_eq!(Cell::Text(b"NaN").number(), None);
        assert_eq!(Cell::Text(b"inf").number(), None);
        assert_eq!(Cell::Blob(b"2").number(), None);
        assert_eq!(Cell::Real(4.9).count(), Some(4));
        assert_eq!(Cell::Text(b"7").count(), Some(7));
        assert_eq!(Cell::Integer(i64::MAX).count(), Some(i64::MAX));
    }

    #[test]
    fn examples_are_short_and_escaped() {
        assert_eq!(Cell::Text(b"a\x1b[31m\xff").shown(), "\"a\\u{1b}[31m\u{fffd}\"");
        assert_eq!(Cell::Blob(&[0; 7]).shown(), "a blob of 7 bytes");
    }
}

#[cfg(test)]
mod categories_tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Vec<String> {
        parse_categories(text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn reads_every_form() {
        assert_eq!(read(r#"["sop", "coding"]"#), ["sop", "coding"]);
        assert_eq!(read(r#"["sop","coding","sop"]"#), ["sop", "coding"]);
        assert_eq!(read(r#"["caf\u00e9", "\ud83d\ude00"]"#), ["café", "😀"]);
        assert_eq!(read(r#""quoted""#), ["quoted"]);
        assert_eq!(read("trading"), ["trading"]);
        assert_eq!(read(" a, b "), ["a, b"]);
        assert_eq!(read(r#"[["x", ["y"]], 3, null, {"z": 1}, true]"#), ["x", "y", "3"]);
        assert_eq!(read(r#"["open"#), [r#"["open"#]);
        assert_eq!(read(r#"["a",]"#), [r#"["a",]"#]);
        assert_eq!(read(r#"{"a": 1}"#), [r#"{"a": 1}"#]);
        assert!(read("").is_empty());
        assert!(read("null").is_empty());
        assert!(read("[]").is_empty());
        assert!(read(r#"["", " "]"#).is_empty());
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
            prop_assert_eq!(read(&json), list);
        }

        #[test]
        fn the_fast_path_agrees_with_the_parser(text in r#"\[["a,\[\] ]{0,16}\]"#) {
            if let Some(fast) = parse_simple_list(&text) {
                let slow: Vec<String> = serde_json::from_str(&text).unwrap();
                prop_assert_eq!(fast, slow);
            }
        }
    }
}

#[cfg(test)]
mod provenance_tests {
    use super::*;

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
    fn knows_who_was_folded_into_whom() {
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

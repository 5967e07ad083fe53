//! Where a row came from and what became of it, read from its `source` and archive marks.

use serde_json::{Map, Value};

use memfold_model::memory::MemoryId;

/// Wrapped sources are unwrapped this deep; what lies deeper stays wrapped.
const DEPTH_MAX: usize = 16;

/// What a `source` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Provenance {
    /// The first source; `consolidation` or `archived` where the original was overwritten.
    pub(crate) root: Box<str>,
    /// The memory this row was folded into.
    pub(crate) merged_into: Option<MemoryId>,
    /// The memories that were folded into this row.
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
pub(crate) fn parse(source: &str) -> Provenance {
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

    fn root(source: &str) -> String {
        parse(source).root.into()
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
        assert_eq!(parse("archived:merged_into:stm_1").merged_into, survivor);
        assert_eq!(parse(r#"archived:{"merged_into": "stm_1"}"#).merged_into, survivor);
        assert_eq!(parse("archived:low_utility").merged_into, None);
        assert_eq!(parse("archived:merged_into:").merged_into, None);
        let listed = parse(r#"consolidation:{"merged_from":["a","b",3]}"#);
        assert_eq!(listed.merged_from, [MemoryId::new("a"), MemoryId::new("b")]);
        assert_eq!(listed.merged_count, 2);
        let cut = parse(r#"consolidation:{"merged_from":["a"],"merged_count":101}"#);
        assert_eq!((cut.merged_from.len(), cut.merged_count), (1, 101));
        assert!(parse("archived:x").archived && !parse("archived").archived);
        assert!(parse("consolidation:contradiction:1").record);
    }
}

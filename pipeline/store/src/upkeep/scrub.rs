//! Taking ids out of texts that name memories.

use std::collections::BTreeSet;

use serde_json::Value;

use memfold_model::memory::MemoryId;

/// Provenance is unwrapped this deep.
const DEPTH_MAX: usize = 16;

/// Returns a row's `source` without the ids; `None` where it names none of them.
pub(super) fn source(source: &str, ids: &BTreeSet<MemoryId>) -> Option<String> {
    scrubbed_source(source, ids, DEPTH_MAX)
}

fn scrubbed_source(source: &str, ids: &BTreeSet<MemoryId>, depth: usize) -> Option<String> {
    if let Some(id) = source.strip_prefix("archived:merged_into:") {
        return names(ids, id.trim()).then(|| "archived:forgotten".to_owned());
    }
    let (prefix, json) = ["consolidation:", "archived:"]
        .into_iter()
        .find_map(|prefix| Some((prefix, source.strip_prefix(prefix)?)))?;
    let Ok(Value::Object(mut fields)) = serde_json::from_str::<Value>(json) else { return None };
    let mut changed = false;
    if let Some(Value::Array(from)) = fields.get_mut("merged_from") {
        let before = from.len();
        from.retain(|id| !id.as_str().is_some_and(|id| names(ids, id)));
        changed |= from.len() < before;
    }
    if fields.get("merged_into").and_then(Value::as_str).is_some_and(|id| names(ids, id)) {
        fields.remove("merged_into");
        changed = true;
    }
    let previous = fields.get("previous_source").and_then(Value::as_str);
    let previous = previous.filter(|_| depth > 0);
    if let Some(scrubbed) = previous.and_then(|text| scrubbed_source(text, ids, depth - 1)) {
        fields.insert("previous_source".to_owned(), scrubbed.into());
        changed = true;
    }
    changed.then(|| format!("{prefix}{}", Value::Object(fields)))
}

/// Returns cells (of the journal, of the archive) without the ids in their `source`; `None` where there is none.
pub(super) fn cells(json: &str, ids: &BTreeSet<MemoryId>) -> Option<String> {
    let Ok(Value::Object(mut cells)) = serde_json::from_str::<Value>(json) else { return None };
    let (_, value) = cells.iter_mut().find(|(name, _)| name.eq_ignore_ascii_case("source"))?;
    *value = source(value.as_str()?, ids)?.into();
    Some(Value::Object(cells).to_string())
}

/// Returns a JSON document without list items and members that are one of the ids; `None` where there are none.
pub(super) fn document(json: &str, ids: &BTreeSet<MemoryId>) -> Option<String> {
    let mut value = serde_json::from_str(json).ok()?;
    remove(&mut value, ids).then(|| value.to_string())
}

fn remove(value: &mut Value, ids: &BTreeSet<MemoryId>) -> bool {
    match value {
        Value::Array(items) => {
            let before = items.len();
            items.retain(|item| !item.as_str().is_some_and(|id| names(ids, id)));
            let mut changed = items.len() < before;
            for item in items {
                changed |= remove(item, ids);
            }
            changed
        }
        Value::Object(members) => {
            let before = members.len();
            members.retain(|name, _| !names(ids, name));
            let mut changed = members.len() < before;
            for (_, member) in members.iter_mut() {
                changed |= remove(member, ids);
            }
            changed
        }
        _ => false,
    }
}

/// Tells whether a JSON document names one of the ids, as a whole string or a member's name.
pub(super) fn mentions(json: &str, ids: &BTreeSet<MemoryId>) -> bool {
    fn look(value: &Value, ids: &BTreeSet<MemoryId>) -> bool {
        match value {
            Value::String(text) => names(ids, text),
            Value::Array(items) => items.iter().any(|item| look(item, ids)),
            Value::Object(members) => {
                members.iter().any(|(name, member)| names(ids, name) || look(member, ids))
            }
            _ => false,
        }
    }
    serde_json::from_str(json).is_ok_and(|value| look(&value, ids))
}

fn names(ids: &BTreeSet<MemoryId>, id: &str) -> bool {
    ids.contains(&MemoryId::new(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids() -> BTreeSet<MemoryId> {
        BTreeSet::from([MemoryId::new("a"), MemoryId::new("é")])
    }

    #[test]
    fn sources_lose_the_ids_and_nothing_else() {
        for (before, after) in [
            (
                r#"consolidation:{"merged_count":3,"merged_from":["x","a","é"],"previous_source":"user"}"#,
                Some(
                    r#"consolidation:{"merged_count":3,"merged_from":["x"],"previous_source":"user"}"#,
                ),
            ),
            (
                r#"consolidation:{"merged_from": ["\u00e9"]}"#,
                Some(r#"consolidation:{"merged_from":[]}"#),
            ),
            (r#"archived:{"merged_into":"a","run_id":"r"}"#, Some(r#"archived:{"run_id":"r"}"#)),
            ("archived:merged_into:a", Some("archived:forgotten")),
            (
                r#"archived:{"previous_source":"archived:merged_into:a"}"#,
                Some(r#"archived:{"previous_source":"archived:forgotten"}"#),
            ),
            (r#"consolidation:{"merged_from":["ab"]}"#, None),
            ("archived:merged_into:ab", None),
            ("consolidation:contradiction:a", None),
            ("agent:a", None),
            ("consolidation:{broken a", None),
        ] {
            assert_eq!(source(before, &ids()).as_deref(), after, "{before}");
        }
    }

    #[test]
    fn documents_lose_items_and_members() {
        let deeds = r#"[{"ids":["b","a"],"label":"a"}]"#;
        assert_eq!(document(deeds, &ids()).as_deref(), Some(r#"[{"ids":["b"],"label":"a"}]"#));
        assert_eq!(document(r#"{"a":"1","b":"2"}"#, &ids()).as_deref(), Some(r#"{"b":"2"}"#));
        assert_eq!(document(r#"{"b":"2"}"#, &ids()), None);
        assert!(mentions(r#"{"x":[{"é":1}]}"#, &ids()) && mentions(r#"{"x":"a"}"#, &ids()));
        assert!(!mentions(r#"{"x":"an a in a text"}"#, &ids()));
    }

    #[test]
    fn cells_lose_ids_in_their_source() {
        let before = r#"{"id":"b","source":"archived:merged_into:a"}"#;
        let after = r#"{"id":"b","source":"archived:forgotten"}"#;
        assert_eq!(cells(before, &ids()).as_deref(), Some(after));
        assert_eq!(cells(r#"{"id":"a","source":null}"#, &ids()), None);
    }
}

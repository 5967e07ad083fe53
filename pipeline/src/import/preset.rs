//! Lines of other systems that were imported as memories, exported as they came.
//!
//! A [`Shape`] says where each field of a memory stands. The line itself is kept beside the memory;
//! an export restores it byte for byte if the memory is unchanged, and else changes the fields that
//! differ.

use super::line::Line;
use memfold_datasets::texts::{IMPORTANCE_TOP, SCOPES, Shape, TextRole};
use memfold_store::brain_db::{MemoryState, MirrorMemory, MirroredRecord, Writes};
use memfold_store::origin::{OriginRecord, OriginStatus};
use memfold_store::{BrainDb, StoreError};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

/// Begins the mark of a record that came by a preset.
const MARK: &str = "preset:";
/// Where merged memories are named, beside the metadata.
const CONSOLIDATED_FROM: &str = "consolidated_from";

fn mark(shape: &Shape) -> String {
    format!("{MARK}{}", shape.name)
}

/// Returns the line of a changed memory.
fn changed(
    shape: &Shape,
    raw: &str,
    memory: &MirrorMemory,
    before: &MemoryState,
) -> Option<String> {
    let mut line: Value = serde_json::from_str(raw).ok()?;
    let holds_text = |path: &&str| at(&line, path).is_some_and(Value::is_string);
    let path = shape.fields(TextRole::Text).find(holds_text);
    if let Some(path) = path
        && at(&line, path).and_then(Value::as_str) != Some(&*memory.content)
    {
        set(&mut line, path, memory.content.as_str().into());
    }
    set_fields(shape, &mut line, memory, Some(before));
    serde_json::to_string(&line).ok()
}

/// Returns the line of a memory that did not come from a file.
fn new_line(shape: &Shape, id: &str, memory: &MirrorMemory) -> Option<String> {
    let mut line = json!({});
    let mut put = |role: TextRole, value: &str| {
        if let Some(path) = shape.fields(role).next() {
            set(&mut line, path, value.into());
        }
    };
    put(TextRole::Id, id);
    put(TextRole::Text, &memory.content);
    if !memory.created_at.is_empty() {
        put(TextRole::CreatedAt, &memory.created_at);
    }
    set_fields(shape, &mut line, memory, None);
    serde_json::to_string(&line).ok()
}

fn set_fields(
    shape: &Shape,
    line: &mut Value,
    memory: &MirrorMemory,
    before: Option<&MemoryState>,
) {
    let MemoryState { categories, importance, access_count, merged, .. } = &memory.state;
    if before.is_none_or(|before| before.categories != *categories)
        && let Some(path) = shape.fields(TextRole::Tags).next()
    {
        let is_attribute = |category: &str| {
            let name = category.split_once(':').map(|(name, _)| name);
            let scopes = SCOPES.iter().map(|(known, _)| *known);
            shape.attributes().chain(scopes).any(|known| Some(known) == name)
        };
        let tags: Vec<&String> =
            categories.iter().filter(|category| !is_attribute(category)).collect();
        let is_text = at(line, path).is_some_and(Value::is_string);
        let tags = json!(tags);
        set(line, path, if is_text { tags.to_string().into() } else { tags });
    }
    if let Some(path) = shape.fields(TextRole::Importance).next()
        && before.is_none_or(|before| before.importance.to_bits() != importance.to_bits())
    {
        set(line, path, json!(importance / IMPORTANCE_TOP));
    }
    if let Some(path) = shape.fields(TextRole::AccessCount).next()
        && before.is_none_or(|before| before.access_count != *access_count)
    {
        set(line, path, json!(access_count));
    }
    if before.is_some_and(|before| before.merged != *merged) {
        let holder = shape.metadata.map(|holder| format!("{holder}.")).unwrap_or_default();
        set(line, &format!("{holder}{CONSOLIDATED_FROM}"), json!(merged));
    }
}

/// Finds a field that is there and not null, by its dotted name.
fn at<'v>(line: &'v Value, path: &str) -> Option<&'v Value> {
    let found = path.split('.').try_fold(line, |value, name| value.get(name));
    found.filter(|value| !value.is_null())
}

fn set(line: &mut Value, path: &str, value: Value) {
    let mut holder = line;
    let (outer, name) = path.rsplit_once('.').unwrap_or(("", path));
    for name in outer.split('.').filter(|name| !name.is_empty()) {
        if !holder[name].is_object() {
            holder[name] = json!({});
        }
        holder = &mut holder[name];
    }
    holder[name] = value;
}

/// Keeps the lines that came in beside their memories.
pub(super) fn keep_lines(
    writes: &Writes<'_>,
    shape: &Shape,
    lines: &[&Line],
    at: &str,
) -> Result<(), StoreError> {
    let mut memories = writes.mirror_memories()?;
    for line in lines {
        let Some(raw) = &line.raw else { continue };
        let (id, number) = (&line.memory.id, line.place);
        let Some(memory) = memories.remove(id) else { continue };
        let record = OriginRecord {
            id: id.clone(),
            place: format!("{number:012}"),
            raw: raw.clone(),
            ..OriginRecord::default()
        };
        writes.put_mirrored(
            &MirroredRecord {
                id: id.clone(),
                mark: mark(shape),
                digest: record.digest(),
                record,
                pulled: memory.state.clone(),
                published: memory.state,
                is_ours: false,
            },
            at,
        )?;
    }
    Ok(())
}

/// Lines to write, and how they differ from the imported ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ExportedLines {
    /// The lines, without line ends; as JSON their count.
    #[serde(serialize_with = "count")]
    pub lines: Vec<String>,
    /// Lines that are as they came in.
    pub unchanged: u64,
    /// Lines with other values.
    pub changed: u64,
    /// Lines of memories that did not come from a file.
    pub added: u64,
    /// Memories that were merged, archived or forgotten since.
    pub left_out: u64,
}

fn count<S: Serializer>(lines: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(lines.len() as u64)
}

/// Returns the live memories of a store as lines of another system, in the order in which they came in.
///
/// # Errors
/// When the store cannot be read.
pub fn export_lines(store: &BrainDb, shape: &Shape) -> Result<ExportedLines, StoreError> {
    let (records, mut memories) = store.look_on(|reads| {
        Ok::<_, StoreError>((reads.mirrored_records()?, reads.mirror_memories()?))
    })?;
    let mut records: Vec<MirroredRecord> =
        records.into_values().filter(|record| record.mark == mark(shape)).collect();
    records.sort_by(|a, b| (&a.record.place, &a.id).cmp(&(&b.record.place, &b.id)));
    let mut exported = ExportedLines::default();
    for known in records {
        let memory = memories.remove(&known.id);
        let memory = memory.filter(|memory| memory.state.status == OriginStatus::Live);
        let line = match &memory {
            None => {
                exported.left_out += 1;
                continue;
            }
            Some(memory) if memory.state == known.pulled => {
                exported.unchanged += 1;
                Some(known.record.raw)
            }
            Some(memory) => {
                exported.changed += 1;
                changed(shape, &known.record.raw, memory, &known.pulled)
            }
        };
        exported.lines.extend(line);
    }
    let live = memories.iter().filter(|(_, memory)| memory.state.status == OriginStatus::Live);
    for (id, memory) in live {
        exported.lines.extend(new_line(shape, id, memory));
        exported.added += 1;
    }
    Ok(exported)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_changed() {
        let raw = r#"{"b":1,"document":"x","metadata":{"z":true,"tags":"[\"a\"]","usage_count":2},"id":"m"}"#;
        let shape = Shape::named("agentic-memories").unwrap();
        let before = MemoryState {
            status: OriginStatus::Live,
            content: String::new(),
            categories: vec!["a".to_owned()],
            importance: 1.0,
            access_count: 2,
            merged: Vec::new(),
        };
        let mut state = before.clone();
        state.access_count = 5;
        state.merged = vec!["n".to_owned()];
        let memory = MirrorMemory {
            state,
            content: "x".to_owned(),
            created_at: String::new(),
            source: String::new(),
        };
        let expected = r#"{"b":1,"document":"x","metadata":{"z":true,"tags":"[\"a\"]","usage_count":5,"consolidated_from":["n"]},"id":"m"}"#;
        assert_eq!(changed(shape, raw, &memory, &before).unwrap(), expected);
    }
}

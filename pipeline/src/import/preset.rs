//! Presets: lines of other systems, imported as memories and exported as they came.
//!
//! A preset is a table: where on a line each field of a memory stands. The line itself is kept beside the memory; an
//! export gives it back byte for byte where the memory is what it was, and else changes the fields that differ.

use std::collections::BTreeMap;

use super::line::{SCOPES, scopes};
use memfold_store::BrainDb;
use memfold_store::brain_db::{MemoryState, MirrorMemory, MirroredRecord, SessionError, Writes};
use memfold_store::origin::{OriginRecord, OriginStanding};
use serde_json::{Map, Value, json};

/// The top of the scale of importance in a `brain.db`.
const IMPORTANCE_TOP: f64 = 3.0;
/// Begins the mark of a record that came by a preset.
const MARK: &str = "preset:";
/// Where merged memories are named, beside the metadata.
const CONSOLIDATED_FROM: &str = "consolidated_from";

/// How lines of another system are spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    text: Path,
    tags: &'static [Path],
    /// Attributes, which become categories `name:value`.
    attributes: &'static [(&'static str, Path)],
    /// Importance from 0 to 1.
    importance: Option<Path>,
    access_count: Option<Path>,
    created_at: Path,
    updated_at: Option<Path>,
    expires_at: Option<Path>,
    source: Option<Path>,
    vector: Option<Path>,
    model: Option<Path>,
    /// Where further fields go.
    metadata: Option<&'static str>,
    /// Marks what its system deleted and kept: it is left out.
    deleted: Option<Path>,
}

/// Names of fields, from the outermost inwards.
type Path = &'static [&'static str];

/// All presets.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "mem0",
        text: &["memory"],
        tags: &[&["categories"]],
        attributes: &[("user", &["user_id"]), ("agent", &["agent_id"]), ("app", &["app_id"])],
        importance: None,
        access_count: None,
        created_at: &["created_at"],
        updated_at: Some(&["updated_at"]),
        expires_at: Some(&["expiration_date"]),
        source: None,
        vector: None,
        model: None,
        metadata: Some("metadata"),
        deleted: None,
    },
    Preset {
        name: "letta",
        text: &["text"],
        tags: &[&["tags"]],
        attributes: &[("agent", &["agent_id"]), ("archive", &["archive_id"])],
        importance: None,
        access_count: None,
        created_at: &["created_at"],
        updated_at: Some(&["updated_at"]),
        expires_at: None,
        source: None,
        vector: Some(&["embedding"]),
        model: Some(&["embedding_config", "embedding_model"]),
        metadata: Some("metadata"),
        deleted: Some(&["is_deleted"]),
    },
    Preset {
        name: "chroma",
        text: &["document"],
        tags: &[&["metadata", "tags"]],
        attributes: &[("user", &["metadata", "user_id"]), ("agent", &["metadata", "agent_id"])],
        importance: None,
        access_count: None,
        created_at: &["metadata", "created_at"],
        updated_at: Some(&["metadata", "updated_at"]),
        expires_at: None,
        source: None,
        vector: Some(&["embedding"]),
        model: None,
        metadata: Some("metadata"),
        deleted: None,
    },
    Preset {
        name: "secureyeoman",
        text: &["content"],
        tags: &[&["tags"]],
        attributes: &[("type", &["type"]), ("agent", &["personality_id"])],
        importance: Some(&["importance"]),
        access_count: Some(&["access_count"]),
        created_at: &["created_at"],
        updated_at: Some(&["updated_at"]),
        expires_at: Some(&["expires_at"]),
        source: Some(&["source"]),
        vector: Some(&["embedding"]),
        model: None,
        metadata: Some("context"),
        deleted: None,
    },
    Preset {
        name: "agentic-memories",
        text: &["document"],
        tags: &[&["metadata", "tags"], &["metadata", "persona_tags"]],
        attributes: &[
            ("user", &["metadata", "user_id"]),
            ("layer", &["metadata", "layer"]),
            ("type", &["metadata", "type"]),
            ("confidence", &["metadata", "confidence"]),
        ],
        importance: Some(&["metadata", "importance"]),
        access_count: Some(&["metadata", "usage_count"]),
        created_at: &["metadata", "timestamp"],
        updated_at: None,
        expires_at: Some(&["metadata", "ttl_epoch"]),
        source: Some(&["metadata", "source"]),
        vector: Some(&["embedding"]),
        model: None,
        metadata: Some("metadata"),
        deleted: None,
    },
];

impl Preset {
    /// Finds a preset by its name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        PRESETS.iter().find(|preset| preset.name == name).copied()
    }

    fn mark(&self) -> String {
        format!("{MARK}{}", self.name)
    }

    /// Spells a line as `memfold import` reads it; `None` where its system deleted it.
    pub(super) fn to_line(self, bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let line: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if !line.is_object() {
            return Err("expected an object".to_owned());
        }
        if self.deleted.and_then(|path| at(&line, path)).is_some_and(is_true) {
            return Ok(None);
        }
        let text = at(&line, self.text).and_then(Value::as_str);
        let text = text.ok_or_else(|| {
            format!(
                "there is no text: expected a field {:?} of preset {}",
                self.text.join("."),
                self.name
            )
        })?;
        let mut fields = Map::new();
        fields.insert("text".to_owned(), text.into());
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value.filter(|value| !value.is_null()) {
                fields.insert(name.to_owned(), value);
            }
        };
        put("id", at(&line, &["id"]).cloned());
        let mut categories: Vec<String> =
            self.tags.iter().flat_map(|path| tags(&line, path)).collect();
        categories.extend(self.attribute_values(&line));
        put("categories", (!categories.is_empty()).then(|| json!(categories)));
        let importance = self.importance.and_then(|path| at(&line, path)?.as_f64());
        put("importance", importance.map(|share| json!(share.clamp(0.0, 1.0) * IMPORTANCE_TOP)));
        put("access_count", self.access_count.and_then(|path| at(&line, path).cloned()));
        put("created_at", at(&line, self.created_at).map(seconds));
        put("updated_at", self.updated_at.and_then(|path| at(&line, path)).map(seconds));
        put("expires_at", self.expires_at.and_then(|path| at(&line, path)).map(seconds));
        put("source", self.source.and_then(|path| at(&line, path).cloned()));
        put("vector", self.vector.and_then(|path| at(&line, path).cloned()));
        put("model", self.model.and_then(|path| at(&line, path).cloned()));
        serde_json::to_vec(&fields).map(Some).map_err(|error| error.to_string())
    }

    fn attribute_values(&self, line: &Value) -> Vec<String> {
        let values = self.attributes.iter().filter_map(|(name, path)| {
            let value = match at(line, path)? {
                Value::String(text) if !text.is_empty() => text.clone(),
                Value::Number(number) => number.to_string(),
                _ => return None,
            };
            Some(format!("{name}:{value}"))
        });
        let mut values: Vec<String> = values.collect();
        // What the preset reads itself counts; another spelling of it does where that is missing.
        let is_new = |scope: &String| {
            let name = scope.split_once(':').map_or("", |(name, _)| name);
            values.iter().all(|value| value.split_once(':').is_none_or(|(known, _)| known != name))
        };
        let further: Vec<String> = scopes(line).into_iter().filter(is_new).collect();
        values.extend(further);
        values
    }

    /// Returns the line of a memory that is no longer what it was.
    fn changed(&self, raw: &str, memory: &MirrorMemory, before: &MemoryState) -> Option<String> {
        let mut line: Value = serde_json::from_str(raw).ok()?;
        if at(&line, self.text).and_then(Value::as_str) != Some(&*memory.content) {
            set(&mut line, self.text, memory.content.as_str().into());
        }
        self.set_fields(&mut line, memory, Some(before));
        serde_json::to_string(&line).ok()
    }

    /// Returns the line of a memory that did not come from a file.
    fn new_line(&self, id: &str, memory: &MirrorMemory) -> Option<String> {
        let mut line = json!({ "id": id });
        set(&mut line, self.text, memory.content.as_str().into());
        if !memory.created_at.is_empty() {
            set(&mut line, self.created_at, memory.created_at.as_str().into());
        }
        self.set_fields(&mut line, memory, None);
        serde_json::to_string(&line).ok()
    }

    fn set_fields(&self, line: &mut Value, memory: &MirrorMemory, before: Option<&MemoryState>) {
        let MemoryState { categories, importance, access_count, merged, .. } = &memory.state;
        if before.is_none_or(|before| before.categories != *categories)
            && let Some(path) = self.tags.first()
        {
            let is_attribute = |category: &str| {
                let name = category.split_once(':').map(|(name, _)| name);
                let own = self.attributes.iter().map(|(known, _)| *known);
                own.chain(SCOPES.iter().map(|(known, _)| *known)).any(|known| Some(known) == name)
            };
            let tags: Vec<&String> =
                categories.iter().filter(|category| !is_attribute(category)).collect();
            let is_text = at(line, path).is_some_and(Value::is_string);
            let tags = json!(tags);
            set(line, path, if is_text { tags.to_string().into() } else { tags });
        }
        if let Some(path) = self.importance
            && before.is_none_or(|before| before.importance.to_bits() != importance.to_bits())
        {
            set(line, path, json!(importance / IMPORTANCE_TOP));
        }
        if let Some(path) = self.access_count
            && before.is_none_or(|before| before.access_count != *access_count)
        {
            set(line, path, json!(access_count));
        }
        if before.is_some_and(|before| before.merged != *merged) {
            let holder: Vec<&str> = self.metadata.into_iter().chain([CONSOLIDATED_FROM]).collect();
            set(line, &holder, json!(merged));
        }
    }
}

fn is_true(value: &Value) -> bool {
    matches!(value, Value::Bool(true)) || value.as_i64() == Some(1)
}

/// Finds a field that is there and not null.
fn at<'v>(line: &'v Value, path: &[&str]) -> Option<&'v Value> {
    let found = path.iter().try_fold(line, |value, name| value.get(name));
    found.filter(|value| !value.is_null())
}

fn set(line: &mut Value, path: &[&str], value: Value) {
    let Some((name, outer)) = path.split_last() else { return };
    let mut holder = line;
    for name in outer {
        if !holder[*name].is_object() {
            holder[*name] = json!({});
        }
        holder = &mut holder[*name];
    }
    holder[*name] = value;
}

/// Tags as a list, as a list in a text (where fields must be scalars), or as one text.
fn tags(line: &Value, path: &[&str]) -> Vec<String> {
    let texts = |items: &[Value]| -> Vec<String> {
        items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    match at(line, path) {
        Some(Value::Array(items)) => texts(items),
        Some(Value::String(text)) => match serde_json::from_str(text) {
            Ok(Value::Array(items)) => texts(&items),
            _ if text.trim().is_empty() => Vec::new(),
            _ => vec![text.clone()],
        },
        _ => Vec::new(),
    }
}

/// Times in milliseconds become seconds: no memory was made after the year 5000.
fn seconds(time: &Value) -> Value {
    const MILLISECONDS_FROM: f64 = 1e11;
    match time.as_f64() {
        Some(number) if number.abs() >= MILLISECONDS_FROM => json!(number / 1000.0),
        _ => time.clone(),
    }
}

/// Keeps the lines that came in beside their memories.
pub(super) fn keep_lines(
    writes: &Writes<'_>,
    preset: &Preset,
    lines: &BTreeMap<String, (u64, String)>,
    at: &str,
) -> Result<(), SessionError> {
    let mut memories = writes.mirror_memories()?;
    for (id, (number, raw)) in lines {
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
                mark: preset.mark(),
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

/// Lines to write, and what became of those that came in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportedLines {
    /// The lines, without line ends.
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

/// Returns the live memories of a store as lines of another system, in the order in which they came in.
///
/// # Errors
/// When the store cannot be read.
pub fn export_lines(store: &BrainDb, preset: &Preset) -> Result<ExportedLines, SessionError> {
    let (records, mut memories) = store.look_on(|reads| {
        Ok::<_, SessionError>((reads.mirrored_records()?, reads.mirror_memories()?))
    })?;
    let mut records: Vec<MirroredRecord> =
        records.into_values().filter(|record| record.mark == preset.mark()).collect();
    records.sort_by(|a, b| (&a.record.place, &a.id).cmp(&(&b.record.place, &b.id)));
    let mut exported = ExportedLines::default();
    for known in records {
        let memory = memories.remove(&known.id);
        let memory = memory.filter(|memory| memory.state.standing == OriginStanding::Live);
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
                preset.changed(&known.record.raw, memory, &known.pulled)
            }
        };
        exported.lines.extend(line);
    }
    let live = memories.iter().filter(|(_, memory)| memory.state.standing == OriginStanding::Live);
    for (id, memory) in live {
        exported.lines.extend(preset.new_line(id, memory));
        exported.added += 1;
    }
    Ok(exported)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(preset: &str, text: &str) -> Value {
        let line = Preset::named(preset).unwrap().to_line(text.as_bytes()).unwrap();
        serde_json::from_slice(&line.unwrap()).unwrap()
    }

    #[test]
    fn every_preset_finds_its_fields() {
        let found = line(
            "mem0",
            r#"{"id":"a","memory":"Prefers tea","user_id":"u1","categories":["food"],"created_at":"2026-01-01T00:00:00Z"}"#,
        );
        assert_eq!(found["text"], "Prefers tea");
        assert_eq!(found["categories"], json!(["food", "user:u1"]));
        let found = line(
            "letta",
            r#"{"id":"p","text":"x","embedding":[1,0],"embedding_config":{"embedding_model":"m"},"tags":null}"#,
        );
        assert_eq!((&found["vector"], &found["model"]), (&json!([1, 0]), &"m".into()));
        let found = line(
            "secureyeoman",
            r#"{"id":"m","type":"semantic","content":"x","importance":0.5,"access_count":3,"created_at":1767225600000,"personality_id":"p"}"#,
        );
        assert_eq!(
            (&found["importance"], &found["created_at"]),
            (&json!(1.5), &json!(1767225600.0))
        );
        assert_eq!(found["categories"], json!(["type:semantic", "agent:p"]));
        let found = line(
            "agentic-memories",
            r#"{"id":"m","document":"x","metadata":{"user_id":"u","layer":"semantic","confidence":0.9,"tags":"[\"a\"]","usage_count":2}}"#,
        );
        let expected = json!(["a", "user:u", "layer:semantic", "confidence:0.9"]);
        assert_eq!((&found["categories"], &found["access_count"]), (&expected, &json!(2)));
    }

    /// Passages that Letta deleted and keeps were imported as live memories.
    #[test]
    fn what_its_system_deleted_is_left_out() {
        let letta = Preset::named("letta").unwrap();
        let deleted = br#"{"id":"p","text":"x","is_deleted":true}"#;
        assert_eq!(letta.to_line(deleted), Ok(None));
        let kept = br#"{"id":"p","text":"x","is_deleted":false}"#;
        assert!(letta.to_line(kept).unwrap().is_some());
    }

    /// Memories of two users were merged where a preset, or a plain line, kept the user under another name.
    #[test]
    fn every_spelling_of_a_scope_becomes_a_category() {
        let found =
            line("chroma", r#"{"id":"a","document":"x","metadata":{"userId":"u","app_id":7}}"#);
        assert_eq!(found["categories"], json!(["user:u", "app:7"]));
        let found =
            line("mem0", r#"{"id":"a","memory":"x","user_id":"u","metadata":{"user":"v"}}"#);
        assert_eq!(found["categories"], json!(["user:u"]));
        let found = line("letta", r#"{"id":"a","text":"x","namespace":["a","b"],"owner":null}"#);
        assert_eq!(found["categories"], json!(["ns:a/b"]));
    }

    #[test]
    fn a_line_of_another_system_says_what_is_missing() {
        let preset = Preset::named("mem0").unwrap();
        let refused = preset.to_line(br#"{"text":"x"}"#).unwrap_err();
        assert!(refused.contains("\"memory\" of preset mem0"), "{refused}");
        assert!(Preset::named("none").is_none());
    }

    #[test]
    fn only_what_differs_is_changed() {
        let raw = r#"{"b":1,"document":"x","metadata":{"z":true,"tags":"[\"a\"]","usage_count":2},"id":"m"}"#;
        let preset = Preset::named("agentic-memories").unwrap();
        let before = MemoryState {
            standing: OriginStanding::Live,
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
        assert_eq!(preset.changed(raw, &memory, &before).unwrap(), expected);
    }
}

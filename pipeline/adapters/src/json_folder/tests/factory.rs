//! Memory folders of our own making, of every shape that the adapter reads.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::edit::Style;
use super::super::{JsonFolder, JsonFolderOptions};
use memfold_store::origin::{Origin as _, OriginChange, OriginRecord, OriginUnit};

/// A folder as text: paths and what the files hold.
pub(super) type Files = BTreeMap<String, String>;

/// How a file is laid out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// `entries`, `memories`, `log`, a bare list, or a file for each memory.
    container: usize,
    /// Indentation and line ends.
    style: usize,
}

/// A folder with files in several scopes, and how many memories it has.
pub(super) fn any_folder() -> impl Strategy<Value = (Files, usize)> {
    let layout =
        (0..5_usize, 0..6_usize).prop_map(|(container, style)| Layout { container, style });
    let entries = prop::collection::vec((0..3_usize, 0..5_usize, 0..8_usize), 0..5);
    let file = (0..SCOPES.len(), layout, entries);
    (prop::collection::vec(file, 1..6), any::<bool>()).prop_map(|(files, with_indexes)| {
        let mut folder = Files::new();
        let mut number = 0;
        for (at, (scope, layout, kinds)) in files.into_iter().enumerate() {
            let entries: Vec<Value> = kinds
                .into_iter()
                .map(|(shape, content, seed)| {
                    number += 1;
                    entry(number, SCOPES[scope], shape, content, seed)
                })
                .collect();
            add_file(&mut folder, SCOPES[scope], at, layout, &entries);
        }
        if with_indexes {
            for scope in ["global", "agents/DEV-001", "teams/development"] {
                folder.insert(format!("{scope}/_index.json"), EMPTY_INDEX.to_owned());
            }
        }
        (folder, number)
    })
}

const SCOPES: [&str; 4] = ["global", "agents/DEV-001", "teams/development", "long-term"];

const EMPTY_INDEX: &str = "{\n  \"version\": \"1.0.0\",\n  \"last_updated\": \"\",\n  \"entry_count\": 0,\n  \
    \"entries\": [],\n  \"tag_index\": {},\n  \"type_index\": {},\n  \"own\": [1.0]\n}\n";

fn add_file(folder: &mut Files, scope: &str, at: usize, layout: Layout, entries: &[Value]) {
    if layout.container == 4 {
        for (n, entry) in entries.iter().enumerate() {
            folder.insert(format!("{scope}/f{at}-{n}x.json"), styled(entry, layout.style));
        }
        return;
    }
    let list = Value::from(entries);
    let value = match layout.container {
        0 => json!({"version": "1.0", "entries": list, "after": {"x": 1}}),
        1 => json!({"memories": list}),
        2 => json!({"log": list}),
        _ => list,
    };
    folder.insert(format!("{scope}/f{at}.json"), styled(&value, layout.style));
}

/// Writes a value in one of six styles.
pub(super) fn styled(value: &Value, style: usize) -> String {
    let tabs = || Style::of("{\n\t\"a\": 1\n}").write(value, "");
    match style {
        0 => format!("{value:#}\n"),
        1 => Style::of("{\n    \"a\": 1\n}").write(value, "") + "\n",
        2 => tabs(),
        3 => value.to_string(),
        4 => Style::of("{\"a\": 1}").write(value, "") + "\n",
        _ => format!("\u{feff}{}", tabs()).replace('\n', "\r\n"),
    }
}

/// An entry of one of three shapes with one of five contents.
pub(super) fn entry(
    number: usize,
    scope: &str,
    shape: usize,
    content: usize,
    seed: usize,
) -> Value {
    let text = format!("Fact {number} of module {seed}: the limit is {} s.", number * 7);
    let content = match content {
        0 => {
            json!({"title": format!("T{number}"), "details": text, "outcome": "ok", "lessons": ["a", "b"]})
        }
        1 => {
            json!({"concept": "Limit", "definition": text, "weight": 1.50, "nested": {"deep": [1, {"x": null}]}})
        }
        2 => {
            json!({"timeline": [{"time": "10:00", "event": text, "actor": "DEV-001"}], "title": "Été ☃"})
        }
        _ => Value::from(text),
    };
    let tags: Vec<String> = (0..seed % 4).map(|tag| format!("tag{tag}")).collect();
    let (folder, scope_id) = scope.split_once('/').unwrap_or((scope, ""));
    let mut members = match shape {
        0 => json!({
            "id": format!("mem_{number:012}"), "type": "procedural", "subtype": "workflow", "created_by": "DEV-001",
            "created_at": "2025-11-01T10:00:00Z", "updated_at": "2025-11-01T10:00:00+08:00",
            "scope": folder.trim_end_matches('s'), "scope_id": scope_id, "tags": tags, "priority": "medium",
            "content": content, "access_count": seed, "supersedes": null, "superseded_by": null,
        }),
        1 => json!({
            "id": format!("MEM-20251101-{number:06}"), "title": format!("Title {number}"), "content": content,
            "ttl": "3650d", "version": 1, "lifecycle": "active", "tags": tags, "supersedes": [],
            "superseded_by": [], "unknown": {"kept": [true, 1e3]},
        }),
        _ => json!({
            "id": format!("lt-{number}"), "type": "fact", "content": content, "confidence": 0.90,
            "created_at": "2025-11-01T10:00:00+02:00", "source": "chat",
        }),
    };
    if seed.is_multiple_of(3) {
        members
            .as_object_mut()
            .map(|members: &mut Map<String, Value>| members.shift_remove("tags"));
    }
    members
}

/// Writes files.
pub(super) fn put(root: &Path, files: &Files) {
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// A folder on the disk.
pub(super) fn on_disk(files: &Files) -> (tempfile::TempDir, JsonFolder) {
    let above = tempfile::tempdir().unwrap();
    let root = above.path().join("memory");
    fs::create_dir_all(&root).unwrap();
    put(&root, files);
    let folder = JsonFolder::open(&root, JsonFolderOptions::default()).unwrap();
    (above, folder)
}

/// All files of a folder but the log.
pub(super) fn image(above: &tempfile::TempDir) -> Files {
    fn walk(folder: &Path, within: &str, files: &mut Files) {
        for item in fs::read_dir(folder).unwrap() {
            let item = item.unwrap();
            let name = item.file_name().into_string().unwrap();
            let path = if within.is_empty() { name } else { format!("{within}/{name}") };
            if item.file_type().unwrap().is_dir() {
                walk(&item.path(), &path, files);
            } else {
                files.insert(path, fs::read_to_string(item.path()).unwrap());
            }
        }
    }
    let mut files = Files::new();
    walk(&above.path().join("memory"), "", &mut files);
    files
}

/// Files without the log, and indexes as values without the time.
pub(super) fn settled(files: &Files) -> BTreeMap<String, Result<String, Value>> {
    let files = files.iter().filter(|(path, _)| !path.starts_with("ops/"));
    let value = |(path, text): (&String, &String)| {
        let is_index = path.ends_with("_index.json");
        let mut value: Value =
            if is_index { serde_json::from_str(text).unwrap() } else { Value::Null };
        value.as_object_mut().map(|index| index.shift_remove("last_updated"));
        (path.clone(), if is_index { Err(sorted(value)) } else { Ok(text.clone()) })
    };
    files.map(value).collect()
}

/// The value with members in the order of their keys.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let map: BTreeMap<String, Value> =
                map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(map.into_iter().collect())
        }
        plain => plain,
    }
}

/// The records, by id.
pub(super) fn records(folder: &JsonFolder) -> BTreeMap<String, OriginRecord> {
    let contents = folder.read().unwrap();
    contents.records.into_iter().map(|record| (record.id.clone(), record)).collect()
}

pub(super) fn unit(changes: Vec<OriginChange>) -> OriginUnit {
    OriginUnit {
        run_id: "run-1".into(),
        at: "2026-01-02T03:04:05Z".into(),
        rule: "R1".into(),
        changes,
    }
}

pub(super) fn retire(record: &OriginRecord, into: Option<&str>) -> OriginChange {
    OriginChange::Retire {
        before: record.digest(),
        id: record.id.clone(),
        into: into.map(str::to_owned),
        reason: "stale".into(),
    }
}

pub(super) fn restore(record: &OriginRecord) -> OriginChange {
    OriginChange::Restore { before: None, record: Box::new(record.clone()) }
}

pub(super) fn update(record: &OriginRecord, tags: &[&str], merged: &[&str]) -> OriginChange {
    let mut new = record.clone();
    new.tags.extend(tags.iter().map(|tag| (*tag).to_owned()));
    OriginChange::Update {
        before: record.digest(),
        record: Box::new(new),
        merged: merged.iter().map(|id| (*id).to_owned()).collect(),
    }
}

//! Taking ids out of texts that name memories.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::Serialize;
use serde_json::Value;

use crate::brain_db::read::open::{BrainDb, OpenOptions};
use crate::brain_db::write::session::SessionError;
use memfold_core::memory::MemoryId;

/// Provenance is unwrapped this deep.
const DEPTH_MAX: usize = 16;

/// Returns a row's `source` without the ids; `None` where it names none of them.
pub(crate) fn scrub_source(source: &str, ids: &BTreeSet<MemoryId>) -> Option<String> {
    scrubbed_source(source, ids, DEPTH_MAX)
}

fn scrubbed_source(source: &str, ids: &BTreeSet<MemoryId>, depth: usize) -> Option<String> {
    if let Some(id) = source.strip_prefix("archived:merged_into:") {
        return is_one_of(ids, id.trim()).then(|| "archived:forgotten".to_owned());
    }
    let (prefix, json) = ["consolidation:", "archived:"]
        .into_iter()
        .find_map(|prefix| Some((prefix, source.strip_prefix(prefix)?)))?;
    let Ok(Value::Object(mut fields)) = serde_json::from_str::<Value>(json) else { return None };
    let mut changed = false;
    if let Some(Value::Array(from)) = fields.get_mut("merged_from") {
        let before = from.len();
        from.retain(|id| !id.as_str().is_some_and(|id| is_one_of(ids, id)));
        changed |= from.len() < before;
    }
    if fields.get("merged_into").and_then(Value::as_str).is_some_and(|id| is_one_of(ids, id)) {
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
pub(crate) fn scrub_cells(json: &str, ids: &BTreeSet<MemoryId>) -> Option<String> {
    let Ok(Value::Object(mut cells)) = serde_json::from_str::<Value>(json) else { return None };
    let (_, value) = cells.iter_mut().find(|(name, _)| name.eq_ignore_ascii_case("source"))?;
    *value = scrub_source(value.as_str()?, ids)?.into();
    Some(Value::Object(cells).to_string())
}

/// Returns a JSON document without list items and members that are one of the ids; `None` where there are none.
pub(crate) fn scrub_document(json: &str, ids: &BTreeSet<MemoryId>) -> Option<String> {
    let mut value = serde_json::from_str(json).ok()?;
    remove(&mut value, ids).then(|| value.to_string())
}

fn remove(value: &mut Value, ids: &BTreeSet<MemoryId>) -> bool {
    match value {
        Value::Array(items) => {
            let before = items.len();
            items.retain(|item| !item.as_str().is_some_and(|id| is_one_of(ids, id)));
            let mut changed = items.len() < before;
            for item in items {
                changed |= remove(item, ids);
            }
            changed
        }
        Value::Object(members) => {
            let before = members.len();
            members.retain(|name, _| !is_one_of(ids, name));
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
pub(crate) fn names_any(json: &str, ids: &BTreeSet<MemoryId>) -> bool {
    fn look(value: &Value, ids: &BTreeSet<MemoryId>) -> bool {
        match value {
            Value::String(text) => is_one_of(ids, text),
            Value::Array(items) => items.iter().any(|item| look(item, ids)),
            Value::Object(members) => {
                members.iter().any(|(name, member)| is_one_of(ids, name) || look(member, ids))
            }
            _ => false,
        }
    }
    serde_json::from_str(json).is_ok_and(|value| look(&value, ids))
}

fn is_one_of(ids: &BTreeSet<MemoryId>, id: &str) -> bool {
    ids.contains(&MemoryId::new(id))
}

/// The part of a backup's name after the store's.
const BACKUP_SUFFIX: &str = ".memfold-backup-";

/// Files that name a memory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, schemars::JsonSchema)]
pub struct Mentions {
    /// Reports and plans.
    pub reports: Vec<PathBuf>,
    /// Backups that hold it, or that cannot be read.
    pub backups: Vec<PathBuf>,
}

/// Searches the files of the folders of reports, and the backups beside a store.
///
/// # Errors
/// When a file cannot be read; a folder that does not exist has no files.
pub fn mentions(
    store: &Path,
    report_folders: &[PathBuf],
    ids: &[MemoryId],
) -> io::Result<Mentions> {
    let mut found = Mentions::default();
    for folder in report_folders {
        for file in files(folder)? {
            let text = fs::read(&file)?;
            if ids.iter().any(|id| names(&text, id.as_str().as_bytes())) {
                found.reports.push(file);
            }
        }
    }
    let folder = store.parent().filter(|folder| !folder.as_os_str().is_empty());
    let name = store.file_name().unwrap_or_default().to_string_lossy();
    let prefix = format!("{name}{BACKUP_SUFFIX}");
    for file in files(folder.unwrap_or(Path::new(".")))? {
        let is_backup =
            file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix));
        if is_backup && may_hold(&file, ids) {
            found.backups.push(file);
        }
    }
    Ok(found)
}

/// The files of a folder, by name.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Tells whether an id stands in a text as a word of its own.
fn names(text: &[u8], id: &[u8]) -> bool {
    if id.is_empty() {
        return false;
    }
    let is_inside =
        |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    text.windows(id.len()).enumerate().any(|(at, window)| {
        window == id
            && !is_inside(at.checked_sub(1).and_then(|before| text.get(before)))
            && !is_inside(text.get(at + id.len()))
    })
}

/// A backup that cannot be read counts as holding it.
fn may_hold(path: &Path, ids: &[MemoryId]) -> bool {
    let Ok(store) = BrainDb::open(path, OpenOptions::default()) else { return true };
    let held = store.look_on::<_, SessionError>(|reads| {
        reads.query("look into a backup", |connection| {
            let mut statement = connection.prepare("SELECT 1 FROM stm WHERE id = ?1")?;
            for id in ids {
                if statement.exists([id.as_str()])? {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    });
    held.unwrap_or(true)
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
            assert_eq!(scrub_source(before, &ids()).as_deref(), after, "{before}");
        }
    }

    #[test]
    fn documents_lose_items_and_members() {
        let deeds = r#"[{"ids":["b","a"],"label":"a"}]"#;
        assert_eq!(
            scrub_document(deeds, &ids()).as_deref(),
            Some(r#"[{"ids":["b"],"label":"a"}]"#)
        );
        assert_eq!(scrub_document(r#"{"a":"1","b":"2"}"#, &ids()).as_deref(), Some(r#"{"b":"2"}"#));
        assert_eq!(scrub_document(r#"{"b":"2"}"#, &ids()), None);
        assert!(names_any(r#"{"x":[{"é":1}]}"#, &ids()) && names_any(r#"{"x":"a"}"#, &ids()));
        assert!(!names_any(r#"{"x":"an a in a text"}"#, &ids()));
    }

    #[test]
    fn cells_lose_ids_in_their_source() {
        let before = r#"{"id":"b","source":"archived:merged_into:a"}"#;
        let after = r#"{"id":"b","source":"archived:forgotten"}"#;
        assert_eq!(scrub_cells(before, &ids()).as_deref(), Some(after));
        assert_eq!(scrub_cells(r#"{"id":"a","source":null}"#, &ids()), None);
    }
}

#[cfg(test)]
mod mentions_tests {
    use super::*;

    #[test]
    fn ids_are_found_as_whole_words() {
        for (text, found) in [
            ("m1", true),
            ("\"m1\"", true),
            ("a m1, b", true),
            ("m10", false),
            ("xm1 m1x _m1", false),
            ("", false),
        ] {
            assert_eq!(names(text.as_bytes(), b"m1"), found, "{text}");
        }
        assert!(!names(b"abc", b""));
    }

    #[test]
    fn files_that_name_a_memory_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("brain.db");
        let reports = folder.path().join("reports");
        fs::create_dir(&reports).unwrap();
        fs::write(reports.join("a.json"), "{\"targetIds\":[\"m1\"]}").unwrap();
        fs::write(reports.join("b.json"), "{\"targetIds\":[\"m10\"]}").unwrap();
        fs::write(folder.path().join("brain.db.memfold-backup-x"), "no store").unwrap();
        let none = folder.path().join("none");
        let found = mentions(&store, &[reports.clone(), none], &[MemoryId::new("m1")]).unwrap();
        assert_eq!(found.reports, [reports.join("a.json")]);
        assert_eq!(found.backups, [folder.path().join("brain.db.memfold-backup-x")]);
    }
}

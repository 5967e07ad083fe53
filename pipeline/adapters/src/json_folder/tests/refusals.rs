//! What is left alone, and why.

use std::io;
use std::path::Path;

use serde_json::json;

use super::super::files::{FileLayer, SystemFiles, leftovers};
use super::super::{JsonFolder, JsonFolderOptions};
use super::factory::{
    Files, entry, image, on_disk, put, records, restore, retire, styled, unit, update,
};
use memfold_store::origin::{Origin as _, OriginChange};

fn three() -> Files {
    let entries: Vec<_> = (0..3).map(|n| entry(n, "global", 0, 3, 1)).collect();
    [("global/a.json".to_owned(), styled(&json!({ "entries": entries }), 0))].into()
}

#[test]
fn a_unit_with_a_changed_memory_is_left_alone_as_a_whole() {
    let (above, folder) = on_disk(&three());
    let known: Vec<_> = records(&folder).into_values().collect();
    let changed = three().into_iter().map(|(path, text)| (path, text.replace("Fact 1", "Fakt 1")));
    put(&above.path().join("memory"), &changed.collect());
    let before = image(&above);
    let units = [unit(vec![
        update(&known[0], &["t"], &[&known[1].id]),
        retire(&known[1], Some(&known[0].id)),
    ])];
    let published = folder.write(&units).unwrap();
    assert!(published.units.is_empty());
    let conflict = &published.conflicts[0];
    assert_eq!((conflict.unit, &conflict.id), (0, &known[1].id));
    assert_eq!(conflict.reason, "it was changed after it was read");
    assert_eq!(image(&above), before);
}

#[test]
fn what_cannot_be_understood_is_told_with_its_place() {
    let mut files = three();
    for (path, text) in [
        ("global/b.json", "{\"entries\": [{\"id\": \"x\"}, 7, {\"content\": \"c\"}]}"),
        ("global/c.json", "{\"entries\": ["),
        ("global/d.json", "{\"settings\": 1}"),
        (
            "global/g.json",
            "{\"user_preferences\": {\"rules\": [{\"id\": \"r\", \"content\": \"c\"}]}}",
        ),
        ("global/h.json", "{\"entries\": [], \"more\": [{\"id\": \"m\", \"content\": \"c\"}]}"),
        ("global/e.json", "[{\"id\": \"mem_000000000001\", \"content\": \"again\"}]"),
        ("global/notes.md", "no memory"),
        ("ops/gc-log.json", "{\"log\": []}"),
        (".memfold/state.json", "{}"),
        ("schemas/entry.json", "{}"),
        ("archive/global/a.json", "[{\"id\": \"mem_000000000002\", \"content\": \"copy\"}]"),
    ] {
        files.insert(path.to_owned(), text.to_owned());
    }
    let (above, folder) = on_disk(&files);
    std::fs::write(above.path().join("memory/global/f.json"), b"\xff").unwrap();
    let contents = folder.read().unwrap();
    assert_eq!(contents.records.len(), 2);
    let told: Vec<String> =
        contents.skipped.iter().map(|s| format!("{}: {}", s.place, s.reason)).collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    global/c.json: expected a value at line 1, column 14
    global/d.json: it is neither a memory nor a list of memories
    global/f.json: it is no UTF-8
    global/g.json: a list of memories under user_preferences.rules: only one list at the top of a file is read
    global/h.json: a list of memories under more: only one list at the top of a file is read
    global/a.json#1: its id stands at global/a.json#1 and global/e.json#0: give each memory an id of its own
    global/b.json#0: it says nothing
    global/b.json#1: it is no object
    global/b.json#2: it has no id
    global/e.json#0: its id stands at global/a.json#1 and global/e.json#0: give each memory an id of its own
    archive/global/a.json#0: another memory with the id of global/a.json#2
    ");
}

#[cfg(unix)]
#[test]
fn links_and_paths_out_of_the_folder_are_refused() {
    use std::os::unix::fs::symlink;
    let (above, folder) = on_disk(&three());
    let root = above.path().join("memory");
    let elsewhere = above.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("x.json"), "[{\"id\": \"x\", \"content\": \"c\"}]").unwrap();
    symlink(&elsewhere, root.join("archive")).unwrap();
    symlink(elsewhere.join("x.json"), root.join("global/x.json")).unwrap();
    let contents = folder.read().unwrap();
    assert_eq!((contents.records.len(), contents.skipped.len()), (3, 2));
    let error = folder.write(&[unit(vec![retire(&contents.records[0], None)])]).unwrap_err();
    assert!(error.to_string().contains("it is a link"), "{error}");
    for place in
        ["../x.json#0", "/etc/x.json", "global/../../x.json", ".hidden/x.json", "ops/x.json", ""]
    {
        let mut record = contents.records[0].clone();
        (record.id, record.place) = ("new".into(), place.into());
        let published = folder.write(&[unit(vec![restore(&record)])]).unwrap();
        assert_eq!(published.conflicts.len(), 1, "{place}");
    }
    let mut copy = contents.records[0].clone();
    copy.id = "mem_copy00000001".into();
    copy.attributes = vec![("scope".into(), "team".into()), ("scope_id".into(), "../..".into())];
    let create = OriginChange::Create { record: Box::new(copy), made_of: Vec::new() };
    assert_eq!(folder.write(&[unit(vec![create])]).unwrap().conflicts.len(), 1);
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 1);
}

/// Another program changes an entry of the same file just before each of the first writes.
#[derive(Debug)]
struct Meddling(std::sync::atomic::AtomicUsize);

impl FileLayer for Meddling {
    fn write(&self, path: &Path, text: &str, expected: Option<&str>) -> io::Result<bool> {
        let is_live = path.ends_with("memory/global/a.json");
        let count = self.0.fetch_add(is_live.into(), std::sync::atomic::Ordering::Relaxed);
        if is_live && count < 2 {
            let now = std::fs::read_to_string(path)?;
            let other = now.replace("Fact 2", &format!("Fact 2, edit {count};"));
            std::fs::write(path, other)?;
        }
        SystemFiles.write(path, text, expected)
    }

    fn remove(&self, path: &Path, expected: &str) -> io::Result<bool> {
        SystemFiles.remove(path, expected)
    }
}

/// What another program wrote between the look and the rename was taken back.
#[test]
fn an_edit_just_before_the_rename_stays() {
    let (above, folder) = on_disk(&three());
    let known: Vec<_> = records(&folder).into_values().collect();
    let root = above.path().join("memory");
    let meddling = Box::new(Meddling(0.into()));
    let options = JsonFolderOptions::default();
    let folder = JsonFolder::open_with(&root, options, meddling).unwrap();
    let merged = unit(vec![
        update(&known[0], &["t"], &[&known[1].id]),
        retire(&known[1], Some(&known[0].id)),
    ]);
    assert_eq!(folder.write(&[merged]).unwrap().units, [0]);
    let after = std::fs::read_to_string(root.join("global/a.json")).unwrap();
    assert!(after.contains("edit") && !after.contains("Fact 1"), "{after}");
    assert!(leftovers(&root).is_empty());
}

/// Entries were moved before it turned out that the log is no log.
#[test]
fn a_log_that_is_none_is_noticed_before_anything_is_written() {
    let mut files = three();
    files.insert("ops/consolidation-log.json".to_owned(), "no log".to_owned());
    let (above, folder) = on_disk(&files);
    let known: Vec<_> = records(&folder).into_values().collect();
    let before = image(&above);
    let refused = folder.write(&[unit(vec![retire(&known[0], None)])]).unwrap_err();
    assert!(refused.to_string().contains("consolidation log"), "{refused}");
    assert_eq!(image(&above), before);
    let advice = folder.advice();
    assert!(advice.iter().any(|text| text.contains("no run can write")), "{advice:?}");
}

/// A killed process leaves whole files under temporary names.
#[test]
fn what_a_killed_process_left_is_named_and_removed() {
    let (above, folder) = on_disk(&three());
    let left = above.path().join("memory/global/.memfold-abc123-a.json.tmp");
    std::fs::write(&left, "[]").unwrap();
    let advice = folder.advice();
    assert!(advice.iter().any(|text| text.contains(".memfold-abc123")), "{advice:?}");
    folder.write(&[]).unwrap();
    assert!(!left.exists());
}

#[test]
fn a_call_changes_only_so_many() {
    let (above, folder) = on_disk(&three());
    let known: Vec<_> = records(&folder).into_values().collect();
    let options = JsonFolderOptions { changes_max: Some(2), ..JsonFolderOptions::default() };
    let folder = JsonFolder::open(&above.path().join("memory"), options).unwrap();
    let units: Vec<_> = known.iter().map(|record| unit(vec![retire(record, None)])).collect();
    assert_eq!(folder.write(&units).unwrap().units, [0, 1]);
    assert_eq!(folder.write(&units).unwrap().units, [0, 1, 2]);
}

#[test]
fn a_folder_is_known_by_its_layout() {
    let (above, _) = on_disk(&three());
    let root = above.path().join("memory");
    assert!(!JsonFolder::detect(&root));
    std::fs::create_dir(root.join("agents")).unwrap();
    assert!(JsonFolder::detect(&root));
    assert!(JsonFolder::open(&root.join("global/a.json"), JsonFolderOptions::default()).is_err());
}

/// The layout's own files of decisions and events were no memories.
#[test]
fn lists_of_decisions_and_events_are_read() {
    let files = ["decisions", "events"].map(|key| {
        let text =
            format!("{{\"version\":\"1.0\",\"{key}\":[{{\"id\":\"{key}\",\"content\":\"c\"}}]}}");
        (format!("long-term/{key}.json"), text)
    });
    let (_above, folder) = on_disk(&files.into());
    let contents = folder.read().unwrap();
    assert_eq!((contents.records.len(), contents.skipped.len()), (2, 0), "{contents:?}");
}

/// The rules of such folders: 50 changes in a run, 100 ms between two indexes.
#[test]
fn folders_are_written_as_their_rules_ask() {
    let options = JsonFolderOptions::hivemind();
    assert_eq!(options.changes_max, Some(50));
    assert_eq!(options.index_pause, std::time::Duration::from_millis(100));
}

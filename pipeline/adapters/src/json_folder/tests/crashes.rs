//! A crash between any two changes of files: nothing is lost, and writing again ends what was begun.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::super::files::{FileLayer, SystemFiles};
use super::super::{JsonFolder, JsonFolderOptions};
use super::factory::{
    Files, entry, image, on_disk, put, records, retire, settled, styled, unit, update,
};
use memfold_store::origin::{Origin as _, OriginChange, OriginError, OriginRecord, OriginUnit};

/// Dies at the k-th change, before it or right after it.
#[derive(Debug)]
struct Dying {
    left: AtomicUsize,
    after: bool,
}

impl Dying {
    fn change(&self, change: impl FnOnce() -> io::Result<bool>) -> io::Result<bool> {
        let left = self.left.load(Ordering::Relaxed);
        let dead = || Err(io::Error::other("killed"));
        match left {
            0 => dead(),
            1 if !self.after => {
                self.left.store(0, Ordering::Relaxed);
                dead()
            }
            _ => {
                self.left.store(left - 1, Ordering::Relaxed);
                let changed = change()?;
                if left == 1 { dead() } else { Ok(changed) }
            }
        }
    }
}

impl FileLayer for Dying {
    fn write(&self, path: &Path, text: &str, expected: Option<&str>) -> io::Result<bool> {
        self.change(|| SystemFiles.write(path, text, expected))
    }

    fn remove(&self, path: &Path, expected: &str) -> io::Result<bool> {
        self.change(|| SystemFiles.remove(path, expected))
    }
}

fn folder() -> Files {
    let list = |numbers: std::ops::Range<usize>, scope: &str| {
        let entries: Vec<_> = numbers.map(|n| entry(n, scope, n % 3, n % 5, n)).collect();
        styled(&json!({ "entries": entries }), 0)
    };
    let index = r#"{"entry_count": 0, "entries": [], "tag_index": {}, "type_index": {}, "last_updated": ""}"#;
    [
        ("global/a.json", list(0..4, "global")),
        ("agents/DEV-001/b.json", list(4..7, "agents/DEV-001")),
        ("long-term/one.json", styled(&entry(7, "long-term", 2, 3, 1), 4)),
        ("global/_index.json", index.to_owned()),
        ("agents/DEV-001/_index.json", index.to_owned()),
        ("_index.json", index.to_owned()),
    ]
    .map(|(path, text)| (path.to_owned(), text))
    .into()
}

/// Merges across files, a file that is a memory, copies for a team, a new text in the place of an old one.
fn work(known: &[OriginRecord]) -> Vec<OriginUnit> {
    let id = |at: usize| known[at].id.as_str();
    let mut copy = known[6].clone();
    copy.id = "mem_copy00000001".into();
    copy.tags.push("promoted".into());
    for (name, value) in &mut copy.attributes {
        if name == "scope" {
            *value = "team".into();
        }
    }
    copy.attributes.retain(|(name, _)| name != "scope_id" && name != "scope");
    copy.attributes.extend([("scope".into(), "team".into()), ("scope_id".into(), "dev".into())]);
    let mut shorter = known[2].clone();
    shorter.id = "mem_short0000001".into();
    shorter.text = "Shorter.".into();
    let create = |record: &OriginRecord, of: &str| OriginChange::Create {
        record: Box::new(record.clone()),
        made_of: vec![of.to_owned()],
    };
    let mut original = known[6].clone();
    original.attributes.push(("promoted_to".into(), copy.id.clone()));
    let promoted = OriginChange::Update {
        before: known[6].digest(),
        record: Box::new(original),
        merged: Vec::new(),
    };
    vec![
        unit(vec![
            update(&known[0], &["t"], &[id(1), id(4)]),
            retire(&known[1], Some(id(0))),
            retire(&known[4], Some(id(0))),
        ]),
        unit(vec![retire(&known[7], None)]),
        unit(vec![create(&copy, id(6)), promoted]),
        unit(vec![create(&shorter, id(2)), retire(&known[2], Some(&shorter.id))]),
        unit(vec![update(&known[3], &[], &[id(0)]), retire(&known[0], Some(id(3)))]),
    ]
}

/// Takes the work back from what it left.
fn undoing(known: &[OriginRecord], left: &BTreeMap<String, OriginRecord>) -> Vec<OriginUnit> {
    let before = |id: &str| left.get(id).map(OriginRecord::digest);
    let restore = |record: &OriginRecord| OriginChange::Restore {
        before: before(&record.id),
        record: Box::new(record.clone()),
    };
    let remove = |id: &str| OriginChange::Remove { before: before(id), id: id.to_owned() };
    vec![
        unit(vec![restore(&known[3]), restore(&known[0])]),
        unit(vec![restore(&known[2]), remove("mem_short0000001")]),
        unit(vec![remove("mem_copy00000001"), restore(&known[6])]),
        unit(vec![restore(&known[7])]),
        unit(vec![restore(&known[0]), restore(&known[1]), restore(&known[4])]),
    ]
}

fn ordered(folder: &JsonFolder) -> Vec<OriginRecord> {
    let mut known: Vec<_> = records(folder).into_values().collect();
    let number = |record: &OriginRecord| {
        let digits: String = record.id.chars().rev().take_while(char::is_ascii_digit).collect();
        digits.chars().rev().collect::<String>().parse::<u64>().unwrap()
    };
    known.sort_by_key(number);
    known
}

fn dying(above: &tempfile::TempDir, left: usize, after: bool) -> JsonFolder {
    let files = Dying { left: AtomicUsize::new(left), after };
    let root = above.path().join("memory");
    JsonFolder::open_with(&root, JsonFolderOptions::default(), Box::new(files)).unwrap()
}

/// Kills the writing of units at every change; returns how often.
fn killed_everywhere(before: &Files, units: &[OriginUnit], ids: &BTreeSet<String>) -> usize {
    let (above, undisturbed) = on_disk(before);
    let published = undisturbed.write(units).unwrap();
    assert_eq!(published.units.len(), units.len(), "{:?}", published.conflicts);
    let expected = image(&above);
    for after in [false, true] {
        for left in 1.. {
            let (above, folder) = on_disk(before);
            let died = match dying(&above, left, after).write(units) {
                Ok(_) => false,
                Err(OriginError::Io { .. }) => true,
                Err(other) => panic!("{other}"),
            };
            let now: BTreeSet<String> = records(&folder).into_keys().collect();
            assert!(now.is_superset(ids), "lost after {left} changes");
            let published = folder.write(units).unwrap();
            assert_eq!(published.units.len(), units.len(), "{left}: {:?}", published.conflicts);
            assert_eq!(image(&above), expected, "after {left} changes");
            if !died {
                if after {
                    return left;
                }
                break;
            }
        }
    }
    unreachable!()
}

#[test]
fn a_crash_at_any_change_is_mended_by_writing_again() {
    let (above, folder) = on_disk(&folder());
    let stale = folder.stale_indexes().unwrap();
    assert_eq!(stale.len(), 3);
    assert_eq!(folder.rebuild_indexes("t").unwrap(), stale);
    assert!(folder.stale_indexes().unwrap().is_empty());
    let (before, known) = (image(&above), ordered(&folder));
    let full = folder.full_indexes(3).unwrap();
    assert_eq!(full, [("global/_index.json".to_owned(), 4)]);
    let ids: BTreeSet<String> = known.iter().map(|record| record.id.clone()).collect();
    let units = work(&known);
    assert!(killed_everywhere(&before, &units, &ids) > 15);
    folder.write(&units).unwrap();
    let left = records(&folder);
    assert!(folder.rebuild_indexes("t").unwrap().is_empty(), "indexes are in step");
    let done = image(&above);
    let back = undoing(&known, &left);
    assert!(killed_everywhere(&done, &back, &ids) > 15);
    folder.write(&back).unwrap();
    assert_eq!(settled(&image(&above)), settled(&before), "undone");
}

/// An undo wrote over what a person had changed since: in the list, in the archive, in a copy that memfold made.
#[test]
fn an_undo_leaves_what_others_changed_since() {
    for (path, written, edited) in [
        ("global/a.json", "\"t\"", "\"mine\""),
        ("archive/long-term/one.json", "Fact 7", "Fact seven"),
        ("teams/dev/memories.json", "\"promoted\"", "\"promoted\", \"mine\""),
    ] {
        let (above, folder) = on_disk(&folder());
        let known = ordered(&folder);
        let units = &work(&known)[..4];
        folder.write(units).unwrap();
        let back = undoing(&known, &records(&folder));
        let mut files = image(&above);
        let text = files.get_mut(path).unwrap();
        assert!(text.contains(written), "{path}: {text}");
        *text = text.replacen(written, edited, 1);
        put(&above.path().join("memory"), &files);
        let published = folder.write(&back[1..]).unwrap();
        assert_eq!((published.units.len(), published.conflicts.len()), (3, 1), "{path}");
        assert_eq!(published.conflicts[0].reason, "it was changed after it was read");
        assert!(image(&above)[path].contains(edited), "{path}");
    }
}

#[test]
fn two_writers_take_turns() {
    let (above, folder) = on_disk(&folder());
    let known = ordered(&folder);
    let units = work(&known);
    let root = above.path().join("memory");
    let write = || loop {
        let folder = JsonFolder::open(&root, JsonFolderOptions::default()).unwrap();
        match folder.write(&units) {
            Ok(published) => return published,
            Err(OriginError::Locked { .. }) => std::thread::yield_now(),
            Err(other) => panic!("{other}"),
        }
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4).map(|_| scope.spawn(write)).collect();
        for writer in writers {
            assert_eq!(writer.join().unwrap().units.len(), units.len());
        }
    });
    let both = image(&above);
    let (above, folder) = on_disk(&super::crashes::folder());
    folder.write(&units).unwrap();
    assert_eq!(both, image(&above));
}

//! The adapter against folders of every shape: reading, writing, crashes and refusals.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::json::Style;
use crate::testing::{Files, at_every_change, dying, put, records, restore, retire, undo, unit};
use memfold_store::origin::OriginChange;

/// A folder with files in several scopes, and how many memories it has.
fn any_folder() -> impl Strategy<Value = (Files, usize)> {
    let entries = prop::collection::vec((0..3_usize, 0..5_usize, 0..8_usize), 0..5);
    let file = (0..SCOPES.len(), 0..5_usize, 0..STYLES, entries);
    (prop::collection::vec(file, 1..6), any::<bool>()).prop_map(|(files, with_indexes)| {
        let mut folder = Files::new();
        let mut number = 0;
        for (at, (scope, container, style, kinds)) in files.into_iter().enumerate() {
            let mut entry = |(shape, content, seed)| {
                number += 1;
                entry(number, SCOPES[scope], shape, content, seed)
            };
            let entries: Vec<Value> = kinds.into_iter().map(&mut entry).collect();
            let name = format!("{}/f{at}", SCOPES[scope]);
            folder.extend(files_of(&name, container, style, &entries));
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

/// Entries under `entries`, `memories`, `log`, in a bare list, or each in a file of its own.
fn files_of(name: &str, container: usize, style: usize, entries: &[Value]) -> Files {
    let value = match container {
        0 => json!({ "version": "1.0", "entries": entries, "after": { "x": 1 } }),
        1 => json!({ "memories": entries }),
        2 => json!({ "log": entries }),
        3 => Value::from(entries),
        _ => {
            let files = entries.iter().enumerate();
            let file = |(n, entry)| (format!("{name}-{n}x.json"), styled(entry, style));
            return files.map(file).collect();
        }
    };
    [(format!("{name}.json"), styled(&value, style))].into()
}

const STYLES: usize = 6;

/// Writes a value in one of six styles.
fn styled(value: &Value, style: usize) -> String {
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
fn entry(number: usize, scope: &str, shape: usize, content: usize, seed: usize) -> Value {
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

/// A folder on the disk, written without pauses and limits.
struct Disk {
    above: tempfile::TempDir,
    folder: JsonFolder,
}

impl Disk {
    fn new(files: &Files) -> Self {
        let above = tempfile::tempdir().unwrap();
        fs::create_dir(above.path().join("memory")).unwrap();
        put(&above.path().join("memory"), files);
        let folder = open(&above.path().join("memory"));
        Self { above, folder }
    }

    fn root(&self) -> PathBuf {
        self.above.path().join("memory")
    }

    fn put(&self, files: &Files) {
        put(&self.root(), files);
    }

    fn image(&self) -> Files {
        crate::testing::image(&self.root())
    }

    /// The files without the log, and indexes as values without the time.
    fn settled(&self) -> BTreeMap<String, Result<String, Value>> {
        settled(&self.image())
    }

    fn records(&self) -> BTreeMap<String, OriginRecord> {
        records(&self.folder)
    }

    /// The records in the order of the numbers of their ids.
    fn ordered(&self) -> Vec<OriginRecord> {
        let mut known: Vec<_> = self.records().into_values().collect();
        known.sort_by_key(|record| {
            let digits = record.id.trim_start_matches(|c: char| !c.is_ascii_digit());
            digits.rsplit('-').next().unwrap().parse::<u64>().unwrap()
        });
        known
    }

    /// Writes units, all of which are possible.
    fn write(&self, units: &[OriginUnit]) {
        let published = self.folder.write(units).unwrap();
        let all = (0..units.len()).collect();
        assert_eq!(published, Published { units: all, conflicts: Vec::new() });
    }

    fn rebuild(&self) -> Vec<String> {
        self.folder.rebuild("t").unwrap()
    }
}

fn open(root: &Path) -> JsonFolder {
    let mut folder = JsonFolder::open(root).unwrap();
    (folder.changes_max, folder.index_pause) = (usize::MAX, Duration::ZERO);
    folder
}

fn settled(files: &Files) -> BTreeMap<String, Result<String, Value>> {
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

/// Merges memories into one that gets tags.
fn update(record: &OriginRecord, tags: &[&str], merged: &[&str]) -> OriginChange {
    let mut new = record.clone();
    new.tags.extend(tags.iter().map(|tag| (*tag).to_owned()));
    crate::testing::update(record, new, merged)
}

fn path_of(record: &OriginRecord) -> &str {
    record.place.split_once('#').map_or(&record.place, |(path, _)| path)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_memory_is_read_and_an_update_keeps_every_other_byte(
        (files, count) in any_folder(),
        pick in any::<prop::sample::Index>(),
    ) {
        let disk = Disk::new(&files);
        let contents = disk.folder.read().unwrap();
        prop_assert_eq!(contents.records.len(), count, "{:?}", contents.skipped);
        prop_assert!(contents.skipped.iter().all(|skipped| skipped.reason.contains("neither")));
        prop_assert!(contents.records.iter().all(|record| files[path_of(record)].contains(&record.raw)));
        let known = disk.records();
        prop_assume!(!known.is_empty());
        let same: Vec<_> = known.values().map(|record| unit(vec![update(record, &[], &[])])).collect();
        disk.write(&same);
        disk.rebuild();
        let before = disk.image();
        let record = known.values().nth(pick.index(known.len())).unwrap();
        let units = [unit(vec![update(record, &["new"], &["x"])])];
        disk.write(&units);
        let new = &disk.records()[&record.id];
        prop_assert_eq!(new.tags.last().map(String::as_str), Some("new"));
        prop_assert_eq!((&new.text, &new.place), (&record.text, &record.place));
        let after = disk.image();
        for (name, text) in &before {
            if name == path_of(record) {
                prop_assert_eq!(text.replace(&record.raw, ""), after[name].replace(&new.raw, ""));
            } else if !name.starts_with("ops/") && !name.ends_with("_index.json") {
                prop_assert_eq!(text, &after[name]);
            }
        }
        disk.write(&units);
        prop_assert_eq!(&disk.image(), &after, "written again");
        disk.write(&[unit(vec![restore(record)])]);
        prop_assert_eq!(disk.settled(), settled(&before), "and back");
    }

    #[test]
    fn what_is_retired_comes_back(
        (files, _) in any_folder(),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 1..6),
        (together, merged) in (any::<bool>(), any::<bool>()),
    ) {
        let disk = Disk::new(&files);
        disk.rebuild();
        let (before, known) = (disk.image(), disk.records());
        prop_assume!(!known.is_empty());
        let picked: BTreeSet<usize> = picks.iter().map(|pick| pick.index(known.len())).collect();
        let picked: Vec<_> = picked.iter().map(|at| known.values().nth(*at).unwrap()).collect();
        let into = merged.then_some("survivor");
        let split = |changes: Vec<_>| match together {
            true => vec![unit(changes)],
            false => changes.into_iter().map(|change| unit(vec![change])).collect::<Vec<_>>(),
        };
        let units = split(picked.iter().map(|record| retire(record, into)).collect());
        disk.write(&units);
        let (after, now) = (disk.image(), disk.records());
        prop_assert_eq!(now.len(), known.len());
        for record in &picked {
            let retired = &now[&record.id];
            prop_assert!(retired.place.starts_with("archive/"));
            let expected = match into {
                Some(into) => OriginStatus::Merged { into: into.into() },
                None => OriginStatus::Archived,
            };
            prop_assert_eq!((&retired.status, &retired.text), (&expected, &record.text));
        }
        prop_assert!(disk.rebuild().is_empty(), "indexes are in step");
        disk.write(&units);
        prop_assert_eq!(&disk.image(), &after, "written again");
        let units = split(picked.iter().map(|record| restore(record)).collect());
        disk.write(&units);
        prop_assert_eq!(disk.settled(), settled(&before), "and back");
        let again = disk.image();
        disk.write(&units);
        prop_assert_eq!(&disk.image(), &again, "restored again");
    }
}

/// An empty list shows neither its line ends nor that it was written without white space: a list of which all memories
/// left came back with `, ` between them.
#[test]
fn whole_lists_come_back_in_every_style() {
    for (style, count) in (0..STYLES).flat_map(|style| [(style, 1), (style, 3)]) {
        let list: Vec<Value> = (0..count).map(|n| entry(n, "global", 0, 0, 1)).collect();
        for value in [json!({ "entries": list }), Value::from(list.clone())] {
            let files: Files = [("global/a.json".to_owned(), styled(&value, style))].into();
            let disk = Disk::new(&files);
            let known: Vec<_> = disk.records().into_values().collect();
            disk.write(&[unit(known.iter().map(|record| retire(record, None)).collect())]);
            disk.write(&[unit(known.iter().rev().map(restore).collect())]);
            assert_eq!(disk.settled(), settled(&files), "style {style}");
        }
    }
}

#[test]
fn the_log_keeps_its_key_and_counts() {
    let list = Value::from(vec![entry(1, "global", 0, 0, 1), entry(2, "global", 0, 3, 2)]);
    let files = [("global/a.json", &*list.to_string()), (LOG, "{\"log\":[]}")];
    let disk = Disk::new(&files.map(|(path, text)| (path.to_owned(), text.to_owned())).into());
    let known: Vec<_> = disk.records().into_values().collect();
    let merge = [unit(vec![
        update(&known[1], &[], &[&known[0].id]),
        retire(&known[0], Some(&known[1].id)),
    ])];
    disk.write(&merge);
    disk.write(&merge);
    let log: Value = serde_json::from_str(&disk.image()[LOG]).unwrap();
    assert_eq!(log["log"].as_array().unwrap().len(), 1);
    assert_eq!(log["log"][0]["stats"]["memories_merged"], 1);
    assert_eq!(log["log"][0]["actions"][0]["type"], "merge");
    assert_eq!(log["log"][0]["actions"].as_array().unwrap().len(), 1);
}

/// The source's own folder is read in seconds, not minutes.
#[test]
#[expect(clippy::disallowed_methods, reason = "it measures")]
fn ten_thousand_files_are_read_in_time() {
    let mut files = Files::new();
    for number in 0..10_000 {
        let scope = ["global", "agents/DEV-001", "teams/qa"][number % 3];
        let value = entry(number, scope, number % 3, number % 5, number % 8);
        files.insert(format!("{scope}/m{number}.json"), format!("{value:#}\n"));
    }
    let disk = Disk::new(&files);
    let start = std::time::Instant::now();
    let contents = disk.folder.read().unwrap();
    let took = start.elapsed();
    assert_eq!((contents.records.len(), contents.skipped.len()), (10_000, 0));
    assert!(took < Duration::from_secs(10), "{took:?}");
}

/// Files of several scopes with indexes.
fn scopes() -> Files {
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
    let mut copy = OriginRecord { id: "mem_copy00000001".into(), ..known[6].clone() };
    copy.tags.push("promoted".into());
    copy.attributes.retain(|(name, _)| name != "scope_id" && name != "scope");
    copy.attributes.extend([("scope".into(), "team".into()), ("scope_id".into(), "dev".into())]);
    let shorter =
        OriginRecord { id: "mem_short0000001".into(), text: "Shorter.".into(), ..known[2].clone() };
    let create = |record: &OriginRecord, of: &str| OriginChange::Create {
        record: Box::new(record.clone()),
        made_of: vec![of.to_owned()],
    };
    let mut original = known[6].clone();
    original.attributes.push(("promoted_to".into(), copy.id.clone()));
    let promoted = crate::testing::update(&known[6], original, &[]);
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

/// Undoes the work.
fn undoing(known: &[OriginRecord], left: &BTreeMap<String, OriginRecord>) -> Vec<OriginUnit> {
    let back = |of: &[usize], made: &[&str]| {
        let records: Vec<&OriginRecord> = of.iter().map(|at| &known[*at]).collect();
        unit(undo(left, &records, made))
    };
    let mut copy = back(&[6], &["mem_copy00000001"]);
    copy.changes.reverse();
    let short = back(&[2], &["mem_short0000001"]);
    vec![back(&[3, 0], &[]), short, copy, back(&[7], &[]), back(&[0, 1, 4], &[])]
}

/// Kills the writing of units at every change; returns how often.
fn killed_everywhere(before: &Files, units: &[OriginUnit], ids: &BTreeSet<&String>) -> usize {
    let undisturbed = Disk::new(before);
    undisturbed.write(units);
    let expected = undisturbed.image();
    at_every_change(|left, is_after| {
        let disk = Disk::new(before);
        let mut killed = open(&disk.root());
        killed.files = dying(left, is_after);
        let died = match killed.write(units) {
            Ok(_) => false,
            Err(OriginError::Io { .. }) => true,
            Err(other) => panic!("{other}"),
        };
        let now = disk.records();
        assert!(ids.iter().all(|id| now.contains_key(*id)), "lost after {left} changes");
        disk.write(units);
        assert_eq!(disk.image(), expected, "after {left} changes");
        died
    })
}

#[test]
fn a_crash_at_any_change_is_mended_by_writing_again() {
    let disk = Disk::new(&scopes());
    let stale = disk.folder.stale_indexes().unwrap();
    assert_eq!(stale.len(), 3);
    assert_eq!(disk.rebuild(), stale);
    assert!(disk.folder.stale_indexes().unwrap().is_empty());
    let (before, known) = (disk.image(), disk.ordered());
    let full = disk.folder.full_indexes(3).unwrap();
    assert_eq!(full, [("global/_index.json".to_owned(), 4)]);
    let ids: BTreeSet<&String> = known.iter().map(|record| &record.id).collect();
    let units = work(&known);
    assert!(killed_everywhere(&before, &units, &ids) > 30);
    disk.write(&units);
    let back = undoing(&known, &disk.records());
    assert!(disk.rebuild().is_empty(), "indexes are in step");
    assert!(killed_everywhere(&disk.image(), &back, &ids) > 30);
    disk.write(&back);
    assert_eq!(disk.settled(), settled(&before), "undone");
}

/// An undo wrote over later changes of a person: in the list, in the archive, in a copy that memfold made.
#[test]
fn an_undo_leaves_what_others_changed_since() {
    for (path, written, edited) in [
        ("global/a.json", "\"t\"", "\"mine\""),
        ("archive/long-term/one.json", "Fact 7", "Fact seven"),
        ("teams/dev/memories.json", "\"promoted\"", "\"promoted\", \"mine\""),
    ] {
        let disk = Disk::new(&scopes());
        let known = disk.ordered();
        disk.write(&work(&known)[..4]);
        let back = undoing(&known, &disk.records());
        let mut files = disk.image();
        let text = files.get_mut(path).unwrap();
        assert!(text.contains(written), "{path}: {text}");
        *text = text.replacen(written, edited, 1);
        disk.put(&files);
        let published = disk.folder.write(&back[1..]).unwrap();
        assert_eq!((published.units.len(), published.conflicts.len()), (3, 1), "{path}");
        assert_eq!(published.conflicts[0].reason, "it was changed after it was read");
        assert!(disk.image()[path].contains(edited), "{path}");
    }
}

#[test]
fn two_writers_take_turns() {
    let [shared, alone] = [0, 1].map(|_| Disk::new(&scopes()));
    let units = work(&shared.ordered());
    let write = || loop {
        match open(&shared.root()).write(&units) {
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
    alone.write(&units);
    assert_eq!(shared.image(), alone.image());
}

fn three() -> Files {
    let entries: Vec<_> = (0..3).map(|n| entry(n, "global", 0, 3, 1)).collect();
    [("global/a.json".to_owned(), styled(&json!({ "entries": entries }), 0))].into()
}

fn merge(known: &[OriginRecord]) -> [OriginUnit; 1] {
    let [survivor, older] = [&known[0], &known[1]];
    let changes = vec![update(survivor, &["t"], &[&older.id]), retire(older, Some(&survivor.id))];
    [unit(changes)]
}

#[test]
fn a_unit_with_a_changed_memory_is_left_alone_as_a_whole() {
    let disk = Disk::new(&three());
    let known = disk.ordered();
    disk.put(&three().into_iter().map(|(p, text)| (p, text.replace("Fact 1", "Fakt 1"))).collect());
    let before = disk.image();
    let published = disk.folder.write(&merge(&known)).unwrap();
    assert!(published.units.is_empty());
    let conflict = &published.conflicts[0];
    assert_eq!((conflict.unit, &conflict.id), (0, &known[1].id));
    assert_eq!(conflict.reason, "it was changed after it was read");
    assert_eq!(disk.image(), before);
}

/// The layout's own files of decisions and events were no memories.
#[test]
fn what_cannot_be_understood_is_told_with_its_place() {
    let disk = Disk::new(&three());
    let list_of = |key: &str| {
        format!("{{\"version\":\"1.0\",\"{key}\":[{{\"id\":\"{key}\",\"content\":\"c\"}}]}}")
    };
    put(
        &disk.root(),
        ["decisions", "events"].map(|key| (format!("long-term/{key}.json"), list_of(key))),
    );
    put(
        &disk.root(),
        [
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
        ],
    );
    put(&disk.root(), [("global/f.json", b"\xff")]);
    let contents = disk.folder.read().unwrap();
    assert_eq!(contents.records.len(), 4);
    let told: Vec<String> =
        contents.skipped.iter().map(|s| format!("{}: {}", s.place, s.reason)).collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    global/c.json: EOF while parsing a list at line 1 column 13
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
    let disk = Disk::new(&three());
    let root = disk.root();
    let elsewhere = disk.above.path().join("elsewhere");
    put(&elsewhere, [("x.json", "[{\"id\": \"x\", \"content\": \"c\"}]")]);
    symlink(&elsewhere, root.join("archive")).unwrap();
    symlink(elsewhere.join("x.json"), root.join("global/x.json")).unwrap();
    let contents = disk.folder.read().unwrap();
    assert_eq!((contents.records.len(), contents.skipped.len()), (3, 2));
    let error = disk.folder.write(&[unit(vec![retire(&contents.records[0], None)])]).unwrap_err();
    assert!(error.to_string().contains("it is a link"), "{error}");
    for place in
        ["../x.json#0", "/etc/x.json", "global/../../x.json", ".hidden/x.json", "ops/x.json", ""]
    {
        let mut record = contents.records[0].clone();
        (record.id, record.place) = ("new".into(), place.into());
        let published = disk.folder.write(&[unit(vec![restore(&record)])]).unwrap();
        assert_eq!(published.conflicts.len(), 1, "{place}");
    }
    let mut copy = contents.records[0].clone();
    copy.id = "mem_copy00000001".into();
    copy.attributes = vec![("scope".into(), "team".into()), ("scope_id".into(), "../..".into())];
    let create = OriginChange::Create { record: Box::new(copy), made_of: Vec::new() };
    assert_eq!(disk.folder.write(&[unit(vec![create])]).unwrap().conflicts.len(), 1);
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1);
}

/// An edit of another program between the look and the rename was undone.
#[test]
fn an_edit_just_before_the_rename_stays() {
    let mut disk = Disk::new(&three());
    let known = disk.ordered();
    // Another program changes an entry of the same file just before each of the first writes.
    let count = AtomicUsize::new(0);
    disk.folder.files = FileLayer(Some(Box::new(move |path, is_done| {
        let is_first = !is_done && path.ends_with("memory/global/a.json");
        if is_first && count.fetch_add(1, Ordering::Relaxed) < 2 {
            let now = fs::read_to_string(path)?;
            fs::write(path, now.replace("Fact 2", "Fact 2, edit;"))?;
        }
        Ok(())
    })));
    disk.write(&merge(&known));
    let after = &disk.image()["global/a.json"];
    assert!(after.contains("edit") && !after.contains("Fact 1"), "{after}");
    assert!(leftovers(&disk.root()).is_empty());
}

/// Entries were moved before it turned out that the log is no log.
#[test]
fn a_log_that_is_none_is_noticed_before_anything_is_written() {
    let mut files = three();
    files.insert(LOG.to_owned(), "no log".to_owned());
    let disk = Disk::new(&files);
    let refused = disk.folder.write(&[unit(vec![retire(&disk.ordered()[0], None)])]).unwrap_err();
    assert!(refused.to_string().contains("consolidation log"), "{refused}");
    assert_eq!(disk.image(), files);
    let advice = disk.folder.advice();
    assert!(advice.iter().any(|text| text.contains("no run can write")), "{advice:?}");
}

/// A killed process leaves whole files under temporary names.
#[test]
fn what_a_killed_process_left_is_named_and_removed() {
    let disk = Disk::new(&three());
    let left = disk.root().join("global/.memfold-abc123-a.json.tmp");
    fs::write(&left, "[]").unwrap();
    let advice = disk.folder.advice();
    assert!(advice.iter().any(|text| text.contains(".memfold-abc123")), "{advice:?}");
    disk.write(&[]);
    assert!(!left.exists());
}

/// The rules of these folders: 50 changes in a run, 100 ms between two indexes.
#[test]
fn a_call_changes_only_so_many() {
    let mut disk = Disk::new(&three());
    let units: Vec<_> =
        disk.ordered().iter().map(|record| unit(vec![retire(record, None)])).collect();
    disk.folder.changes_max = 2;
    assert_eq!(disk.folder.write(&units).unwrap().units, [0, 1]);
    disk.write(&units);
    let folder = JsonFolder::open(&disk.root()).unwrap();
    assert_eq!((folder.changes_max, folder.index_pause), (50, Duration::from_millis(100)));
}

#[test]
fn a_folder_is_known_by_its_layout() {
    let disk = Disk::new(&three());
    assert!(!is_one(&disk.root()));
    fs::create_dir(disk.root().join("agents")).unwrap();
    assert!(is_one(&disk.root()));
    assert!(JsonFolder::open(&disk.root().join("global/a.json")).is_err());
}

//! What holds for every folder.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::Value;

use super::factory::{
    Files, any_folder, entry, image, on_disk, put, records, restore, retire, settled, unit, update,
};
use memfold_store::origin::{Origin as _, OriginStanding, OriginUnit, Published};

fn all(units: &[OriginUnit]) -> Published {
    Published { units: (0..units.len()).collect(), conflicts: Vec::new() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_memory_is_read((files, count) in any_folder()) {
        let (_above, folder) = on_disk(&files);
        let contents = folder.read().unwrap();
        prop_assert_eq!(contents.records.len(), count, "{:?}", contents.skipped);
        prop_assert!(contents.skipped.iter().all(|skipped| skipped.reason.contains("neither")));
        for record in &contents.records {
            let (path, _) = record.place.split_once('#').unwrap_or((&record.place, ""));
            prop_assert!(files[path].contains(&record.raw));
        }
    }

    #[test]
    fn an_update_keeps_every_other_byte((files, _) in any_folder(), pick in any::<prop::sample::Index>()) {
        let (above, folder) = on_disk(&files);
        let known = records(&folder);
        prop_assume!(!known.is_empty());
        let same: Vec<_> = known.values().map(|record| unit(vec![update(record, &[], &[])])).collect();
        prop_assert_eq!(folder.write(&same).unwrap(), all(&same));
        folder.rebuild_indexes("t").unwrap();
        let before = image(&above);
        let record = known.values().nth(pick.index(known.len())).unwrap();
        let units = [unit(vec![update(record, &["new"], &["x"])])];
        prop_assert_eq!(folder.write(&units).unwrap(), all(&units));
        let new = &records(&folder)[&record.id];
        prop_assert_eq!(new.tags.last().map(String::as_str), Some("new"));
        prop_assert_eq!(&new.text, &record.text);
        prop_assert_eq!(&new.place, &record.place);
        let after = image(&above);
        let (path, _) = record.place.split_once('#').unwrap_or((&record.place, ""));
        for (name, text) in &before {
            if name == path {
                prop_assert_eq!(text.replace(&record.raw, ""), after[name].replace(&new.raw, ""));
            } else if !name.starts_with("ops/") && !name.ends_with("_index.json") {
                prop_assert_eq!(text, &after[name]);
            }
        }
        prop_assert_eq!(folder.write(&units).unwrap(), all(&units));
        prop_assert_eq!(&image(&above), &after, "written again");
        let back = [unit(vec![restore(record)])];
        folder.write(&back).unwrap();
        prop_assert_eq!(settled(&image(&above)), settled(&before), "and back");
    }

    #[test]
    fn what_is_retired_comes_back(
        (files, _) in any_folder(),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 1..6),
        (together, merged) in (any::<bool>(), any::<bool>()),
    ) {
        let (above, folder) = on_disk(&files);
        folder.rebuild_indexes("t").unwrap();
        let before = image(&above);
        let known = records(&folder);
        prop_assume!(!known.is_empty());
        let mut picked: Vec<_> = Vec::new();
        for pick in picks {
            let record = known.values().nth(pick.index(known.len())).unwrap();
            if !picked.contains(&record) {
                picked.push(record);
            }
        }
        let into = merged.then_some("survivor");
        let split = |changes: Vec<_>| match together {
            true => vec![unit(changes)],
            false => changes.into_iter().map(|change| unit(vec![change])).collect::<Vec<_>>(),
        };
        let units = split(picked.iter().map(|record| retire(record, into)).collect());
        prop_assert_eq!(folder.write(&units).unwrap(), all(&units));
        let after = image(&above);
        let now = records(&folder);
        prop_assert_eq!(now.len(), known.len());
        for record in &picked {
            let retired = &now[&record.id];
            prop_assert!(retired.place.starts_with("archive/"));
            let expected = match into {
                Some(into) => OriginStanding::Merged { into: into.into() },
                None => OriginStanding::Archived,
            };
            prop_assert_eq!(&retired.standing, &expected);
            prop_assert_eq!(&retired.text, &record.text);
        }
        prop_assert!(folder.rebuild_indexes("t").unwrap().is_empty(), "indexes are in step");
        prop_assert_eq!(folder.write(&units).unwrap(), all(&units));
        prop_assert_eq!(&image(&above), &after, "written again");
        let units = split(picked.iter().map(|record| restore(record)).collect());
        prop_assert_eq!(folder.write(&units).unwrap(), all(&units));
        prop_assert_eq!(settled(&image(&above)), settled(&before), "and back");
        let again = image(&above);
        prop_assert_eq!(folder.write(&units).unwrap(), all(&units));
        prop_assert_eq!(&image(&above), &again, "restored again");
    }
}

/// Files of the owner's tools differ in style; a retired memory must come back to the same bytes in each. An empty list
/// no longer shows that its lines ended in CR LF.
#[test]
fn the_last_memory_of_a_list_comes_back_in_every_style() {
    for style in 0..6 {
        let list = serde_json::json!([entry(1, "global", 0, 0, 1)]);
        for value in [serde_json::json!({ "entries": list }), list] {
            let text = super::factory::styled(&value, style);
            let files: Files = [("global/a.json".to_owned(), text)].into();
            let (above, folder) = on_disk(&files);
            let record = records(&folder).into_values().next().unwrap();
            folder.write(&[unit(vec![retire(&record, None)])]).unwrap();
            folder.write(&[unit(vec![restore(&record)])]).unwrap();
            assert_eq!(settled(&image(&above)), settled(&files), "style {style}");
        }
    }
}

/// All memories of a list without white space left at once and came back with `, ` between them: an empty list does not
/// show how it was written.
#[test]
fn a_whole_list_comes_back_in_every_style() {
    for style in 0..6 {
        let list: Vec<Value> = (0..3).map(|n| entry(n, "global", 0, 0, 1)).collect();
        for value in [serde_json::json!({ "entries": list }), Value::from(list)] {
            let text = super::factory::styled(&value, style);
            let files: Files = [("global/a.json".to_owned(), text)].into();
            let (above, folder) = on_disk(&files);
            let known: Vec<_> = records(&folder).into_values().collect();
            let unit = |changes| [unit(changes)];
            folder.write(&unit(known.iter().map(|record| retire(record, None)).collect())).unwrap();
            folder.write(&unit(known.iter().rev().map(restore).collect())).unwrap();
            assert_eq!(settled(&image(&above)), settled(&files), "style {style}");
        }
    }
}

#[test]
fn the_log_keeps_its_key_and_counts() {
    let mut files: Files = [(
        "global/a.json".to_owned(),
        Value::from(vec![entry(1, "global", 0, 0, 1), entry(2, "global", 0, 3, 2)]).to_string(),
    )]
    .into();
    files.insert("ops/consolidation-log.json".into(), "{\"log\":[]}".into());
    let (above, folder) = on_disk(&files);
    let known: Vec<_> = records(&folder).into_values().collect();
    let merge =
        unit(vec![update(&known[1], &[], &[&known[0].id]), retire(&known[0], Some(&known[1].id))]);
    folder.write(std::slice::from_ref(&merge)).unwrap();
    folder.write(&[merge]).unwrap();
    let log: Value = serde_json::from_str(&image(&above)["ops/consolidation-log.json"]).unwrap();
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
    let above = tempfile::tempdir().unwrap();
    put(&above.path().join("memory"), &files);
    let folder =
        super::super::JsonFolder::open(&above.path().join("memory"), Default::default()).unwrap();
    let start = std::time::Instant::now();
    let contents = folder.read().unwrap();
    let took = start.elapsed();
    assert_eq!((contents.records.len(), contents.skipped.len()), (10_000, 0));
    assert!(took < Duration::from_secs(10), "{took:?}");
}

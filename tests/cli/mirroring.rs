//! Stores of another kind than brain.db: `memory.jsonl` of the MCP memory server through every
//! command.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::support::TestFolder;

/// Two lists with repeated texts, unknown fields, escapes, line ends of two kinds, a blank and two bad lines.
const MEMORY: &str = concat!(
    "{\"type\":\"entity\",\"name\":\"Alice\",\"entityType\":\"person\",\"observations\":[\"Prefers green tea in the morning\",\"Lives in Bern\",\"Prefers green tea in the morning\",\"Plays the cello\"]}\n",
    "{\"type\": \"entity\", \"mood\": {\"a\": [1]}, \"observations\": [\"Lives in Bern\", \"Sp\\u00e4t am Abend schreibt Bob Briefe\", \"Lives in Bern\"], \"name\": \"Bob\", \"entityType\": \"person\"}\r\n",
    "\n",
    "{\"type\":\"relation\",\"from\":\"Alice\",\"to\":\"Bob\",\"relationType\":\"knows\"}\n",
    "no JSON at all\n",
    "{\"type\":\"entity\",\"entityType\":\"person\",\"observations\":[\"nameless\"]}\n",
    "{\"type\":\"entity\",\"name\":\"Kiln\",\"entityType\":\"machine\",\"observations\":[\"雨の日は窯を使わない\",\"雨の日は窯を使わない\",7]}",
);

const EXECUTE: [&str; 7] = [
    "consolidate",
    "memory.jsonl",
    "--now",
    "2026-06-30T12:00:00Z",
    "--execute",
    "--max-change-share",
    "1",
];

fn dir() -> TestFolder {
    let dir = TestFolder::new();
    dir.write("memory.jsonl", MEMORY);
    dir
}

/// The server's view: the observations of each entity.
fn as_the_server_reads(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut entities = BTreeMap::new();
    for line in text.lines() {
        let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
        if value["type"] != "entity" || !value["name"].is_string() {
            continue;
        }
        let observations = value["observations"].as_array().unwrap();
        let texts = observations.iter().map(|text| text.as_str().unwrap_or("7").to_owned());
        let before = entities.insert(value["name"].as_str().unwrap().to_owned(), texts.collect());
        assert!(before.is_none(), "{line}");
    }
    entities
}

#[test]
fn merges_stay_within_an_entity_and_are_undone_byte_for_byte() {
    let dir = dir();
    let original = dir.own_files();
    dir.succeed(&EXECUTE);
    let text = dir.read("memory.jsonl");
    let entities = as_the_server_reads(&text);
    let texts = |name: &str| entities[name].iter().cloned().collect::<BTreeSet<_>>().len();
    for (name, count) in [("Alice", 3), ("Bob", 2), ("Kiln", 2)] {
        assert_eq!((entities[name].len(), texts(name)), (count, count), "{name}");
    }

    let (before, after): (Vec<&str>, Vec<&str>) =
        (MEMORY.split('\n').collect(), text.split('\n').collect());
    assert_eq!(before[2..6], after[2..6]);
    assert!(after[1].contains("\\u00e4t am Abend") && after[1].ends_with('\r'), "{}", after[1]);
    let start = "{\"type\": \"entity\", \"mood\": {\"a\": [1]}, ";
    assert!(after[1].starts_with(start), "{}", after[1]);
    assert_eq!(dir.read("memory.memfold-archive.jsonl").lines().count(), 3);

    let files = dir.own_files();
    let again = dir.run(&EXECUTE);
    assert!(again.code == Some(0) && !again.err.contains("published"), "{again:?}");
    assert_eq!(dir.own_files(), files);

    let undone = dir.run("undo memory.jsonl latest --execute");
    assert_eq!(undone.code, Some(0), "{undone:?}");
    assert!(undone.err.contains("published 3 units to memory.jsonl"), "{}", undone.err);
    assert_eq!(dir.own_files(), original);
    let again = dir.json("consolidate memory.jsonl --json");
    assert_eq!(again["planned"]["merge"], 0, "what was undone stays undone");
}

/// A first save went to an entity `memories`, regardless of the entity that it named.
#[test]
fn a_first_save_goes_to_the_entity_that_it_names() {
    for text in [
        "{\"type\":\"relation\",\"from\":\"X\",\"to\":\"Y\",\"relationType\":\"r\"}\n",
        "{\"type\":\"entity\",\"name\":\"Alice\",\"entityType\":\"person\",\"observations\":[]}\n",
    ] {
        let dir = TestFolder::new();
        dir.write("memory.jsonl", text);
        dir.succeed(&["save", "memory.jsonl", "--text", "Prefers tea", "-c", "entity:Alice"]);
        let entities = as_the_server_reads(&dir.read("memory.jsonl"));
        assert_eq!(entities["Alice"], ["Prefers tea"], "{text}");
    }
}

#[test]
fn saves_go_to_their_entity_and_can_be_undone() {
    let dir = dir();
    let saved =
        ["save", "memory.jsonl", "--text", "Repairs old clocks", "--category", "entity:Bob"];
    dir.succeed(&saved);
    let entities = as_the_server_reads(&dir.read("memory.jsonl"));
    assert_eq!(entities["Bob"].last().unwrap(), "Repairs old clocks");
    dir.succeed(&["save", "memory.jsonl", "--text", "The deploy port is 8080."]);
    let entities = as_the_server_reads(&dir.read("memory.jsonl"));
    assert_eq!(entities["memories"], ["The deploy port is 8080."]);
    let known = dir.succeed(&["save", "memory.jsonl", "--text", "The deploy port is 8080."]);
    assert!(known.starts_with("known already"), "{known}");
    assert_eq!(as_the_server_reads(&dir.read("memory.jsonl"))["memories"].len(), 1);
    let check = ["check", "memory.jsonl", "--text", "Repairs old clocks"];
    let found = dir.succeed(&[&check[..], &["--category", "entity:Bob"]].concat());
    assert!(found.starts_with("touch: the same text as"), "{found}");
    let found = dir.succeed(&check);
    assert!(found.starts_with("insert"), "another entity may say the same: {found}");
    std::fs::remove_dir_all(dir.path(".memfold")).unwrap();
    let before = dir.read("memory.jsonl");
    let known = dir.succeed(&saved);
    assert!(known.starts_with("known already"), "{known}");
    assert_eq!(dir.read("memory.jsonl"), before, "a mirror made anew has nothing to publish");
}

#[test]
fn messages_name_the_store_and_its_mirror_works_as_well() {
    let dir = dir();
    let planned = dir.run("consolidate memory.jsonl");
    assert!(planned.out.contains("memfold consolidate memory.jsonl --execute"), "{}", planned.out);
    assert!(
        planned.err.contains("2 places of memory.jsonl")
            || planned.err.contains("3 places of memory.jsonl"),
        "{}",
        planned.err
    );
    let doctor = dir.run("doctor memory.jsonl");
    for part in ["is of kind mcp_memory", "left out: memory.jsonl:5: no JSON", "memory.jsonl:6"] {
        assert!(doctor.err.contains(part), "{part}: {}", doctor.err);
    }
    let mirror = ".memfold/memory.jsonl.mirror.db";
    dir.succeed(&["consolidate", mirror, "--execute", "--max-change-share", "1"]);
    assert_eq!(as_the_server_reads(&dir.read("memory.jsonl"))["Alice"].len(), 3);
}

#[test]
fn impossible_mirror_commands_are_refused() {
    let dir = dir();
    let refused = dir.run("forget memory.jsonl x --execute");
    refused.fails_with(2, &["are not forgotten by memfold", "delete the mirror"]);
    let sample = TestFolder::with_pair();
    let refused = sample.run("doctor brain.db --rebuild-indexes");
    refused.fails_with(2, &["is a brain.db", "memfold index build"]);
    let refused = sample.run("consolidate brain.db --mirror m.db");
    refused.fails_with(2, &["needs no mirror"]);
    dir.write("other.jsonl", "{\"type\":\"entity\",\"name\":\"A\",\"observations\":[]}\n");
    dir.succeed("status memory.jsonl --mirror here.db");
    let refused = dir.run("status other.jsonl --mirror here.db");
    refused.fails_with(1, &["is no mirror of", "name another file: --mirror PATH"]);
}

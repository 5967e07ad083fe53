//! Stores of another kind than brain.db: `memory.jsonl` of the MCP memory server through every
//! command.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

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

fn memory(dir: &TestFolder) -> String {
    std::fs::read_to_string(dir.path("memory.jsonl")).unwrap()
}

/// Files of the folder but for the mirror and reports.
fn own_files(dir: &TestFolder) -> BTreeMap<PathBuf, Vec<u8>> {
    let mirror = dir.path(".memfold");
    dir.files().into_iter().filter(|(path, _)| !path.starts_with(&mirror)).collect()
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
fn merges_stay_within_an_entity() {
    let dir = dir();
    dir.succeed(&EXECUTE);
    let text = memory(&dir);
    let entities = as_the_server_reads(&text);
    assert_eq!(entities["Alice"].len(), 3);
    assert_eq!(entities["Bob"].len(), 2);
    assert_eq!(entities["Kiln"].len(), 2);
    let texts = |name: &str| entities[name].iter().cloned().collect::<BTreeSet<_>>().len();
    assert_eq!((texts("Alice"), texts("Bob"), texts("Kiln")), (3, 2, 2));
    let (before, after): (Vec<&str>, Vec<&str>) =
        (MEMORY.split('\n').collect(), text.split('\n').collect());
    assert_eq!(before[2..6], after[2..6]);
    assert!(after[1].contains("\\u00e4t am Abend") && after[1].ends_with('\r'), "{}", after[1]);
    assert!(
        after[1].starts_with("{\"type\": \"entity\", \"mood\": {\"a\": [1]}, "),
        "{}",
        after[1]
    );
    let archive = std::fs::read_to_string(dir.path("memory.memfold-archive.jsonl")).unwrap();
    assert_eq!(archive.lines().count(), 3);

    let again = dir.json(&[&EXECUTE[..], &["--json"]].concat());
    assert_eq!(again["planned"]["merge"], 0);
    let files = own_files(&dir);
    let again = dir.run(&EXECUTE);
    assert!(again.code == Some(0) && !again.err.contains("published"), "{again:?}");
    assert_eq!(own_files(&dir), files);
}

#[test]
fn undo_restores_memory_jsonl_byte_for_byte() {
    let dir = dir();
    let before = own_files(&dir);
    dir.succeed(&EXECUTE);
    assert_ne!(memory(&dir), MEMORY);
    let undone = dir.run("undo memory.jsonl latest --execute");
    assert_eq!(undone.code, Some(0), "{undone:?}");
    assert!(undone.err.contains("published 3 units to memory.jsonl"), "{}", undone.err);
    assert_eq!(own_files(&dir), before);
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
        let entities = as_the_server_reads(&memory(&dir));
        assert_eq!(entities["Alice"], ["Prefers tea"], "{text}");
    }
}

#[test]
fn saves_go_to_their_entity_and_can_be_undone() {
    let dir = dir();
    let saved =
        ["save", "memory.jsonl", "--text", "Repairs old clocks", "--category", "entity:Bob"];
    dir.succeed(&saved);
    let entities = as_the_server_reads(&memory(&dir));
    assert_eq!(entities["Bob"].last().unwrap(), "Repairs old clocks");
    dir.succeed(&["save", "memory.jsonl", "--text", "The deploy port is 8080."]);
    let entities = as_the_server_reads(&memory(&dir));
    assert_eq!(entities["memories"], ["The deploy port is 8080."]);
    let known = dir.succeed(&["save", "memory.jsonl", "--text", "The deploy port is 8080."]);
    assert!(known.starts_with("known already"), "{known}");
    assert_eq!(as_the_server_reads(&memory(&dir))["memories"].len(), 1);
    let check = ["check", "memory.jsonl", "--text", "Repairs old clocks"];
    let found = dir.succeed(&[&check[..], &["--category", "entity:Bob"]].concat());
    assert!(found.starts_with("touch: the same text as"), "{found}");
    let found = dir.succeed(&check);
    assert!(found.starts_with("insert"), "another entity may say the same: {found}");
    std::fs::remove_dir_all(dir.path(".memfold")).unwrap();
    let before = memory(&dir);
    let known = dir.succeed(&saved);
    assert!(known.starts_with("known already"), "{known}");
    assert_eq!(memory(&dir), before, "a mirror made anew has nothing to publish");
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
    assert_eq!(as_the_server_reads(&memory(&dir))["Alice"].len(), 3);
}

#[test]
fn impossible_mirror_commands_are_refused() {
    let dir = dir();
    let refused = dir.run("consolidate memory.jsonl --store-kind mcp");
    refused.fails_with(2, &["--store-kind \"mcp\" is no kind of store", "mcp_memory"]);
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

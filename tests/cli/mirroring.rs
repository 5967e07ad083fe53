//! Stores that are no brain.db: `memory.jsonl` of the MCP memory server through every command.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use memfold_tests::torture::{Calls, Fault, FaultKind, Shim};
use serde_json::{Value, json};

use crate::support::Place;

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

fn place() -> Place {
    let place = Place::new();
    place.write("memory.jsonl", MEMORY);
    place
}

fn memory(place: &Place) -> String {
    std::fs::read_to_string(place.path("memory.jsonl")).unwrap()
}

/// Files of the folder but for the mirror and reports.
fn own_files(place: &Place) -> BTreeMap<PathBuf, Vec<u8>> {
    let mirror = place.path(".memfold");
    place.files().into_iter().filter(|(path, _)| !path.starts_with(&mirror)).collect()
}

/// What the server reads: the observations of each entity.
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
fn a_dry_run_leaves_every_byte() {
    let place = place();
    let before = own_files(&place);
    let report = place.json(&["consolidate", "memory.jsonl", "--json"]);
    assert_eq!(report["planned"]["merge"], 3, "{report}");
    place.succeed(&["status", "memory.jsonl"]);
    place.succeed(&["doctor", "memory.jsonl"]);
    assert_eq!(own_files(&place), before);
}

#[test]
fn merges_stay_within_an_entity_and_everything_else_as_it_was() {
    let place = place();
    place.succeed(&EXECUTE);
    let text = memory(&place);
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
    let archive = std::fs::read_to_string(place.path("memory.memfold-archive.jsonl")).unwrap();
    assert_eq!(archive.lines().count(), 3);

    let again = place.json(&[&EXECUTE[..], &["--json"]].concat());
    assert_eq!(again["planned"]["merge"], 0);
    let files = own_files(&place);
    let again = place.run(&EXECUTE);
    assert!(again.code == Some(0) && !again.err.contains("published"), "{again:?}");
    assert_eq!(own_files(&place), files);
}

#[test]
fn an_undo_leaves_the_bytes_that_there_were() {
    let place = place();
    let before = own_files(&place);
    place.succeed(&EXECUTE);
    assert_ne!(memory(&place), MEMORY);
    let undone = place.run(&["undo", "memory.jsonl", "latest", "--execute"]);
    assert_eq!(undone.code, Some(0), "{undone:?}");
    assert!(undone.err.contains("published 3 units to memory.jsonl"), "{}", undone.err);
    assert_eq!(own_files(&place), before);
    let again = place.json(&["consolidate", "memory.jsonl", "--json"]);
    assert_eq!(again["planned"]["merge"], 0, "what was undone stays undone");
}

/// A clone of a repository may bring `.memfold` as a link; a dry run wrote a mirror where it led.
#[cfg(unix)]
#[test]
fn a_mirror_is_never_made_through_a_link() {
    let place = Place::new();
    let [store, victim] = ["store", "victim"].map(|name| place.path(name));
    for folder in [&store, &victim] {
        std::fs::create_dir(folder).unwrap();
    }
    place.write("store/memory.jsonl", MEMORY);
    std::os::unix::fs::symlink(&victim, store.join(".memfold")).unwrap();
    let refused = place.run(&["consolidate", "store/memory.jsonl"]);
    refused.fails_with(1, &["leads out of"]);
    assert_eq!(std::fs::read_dir(&victim).unwrap().count(), 0);
}

/// A first save went to an entity `memories`, whatever entity it named.
#[test]
fn a_first_save_goes_to_the_entity_that_it_names() {
    for text in [
        "{\"type\":\"relation\",\"from\":\"X\",\"to\":\"Y\",\"relationType\":\"r\"}\n",
        "{\"type\":\"entity\",\"name\":\"Alice\",\"entityType\":\"person\",\"observations\":[]}\n",
    ] {
        let place = Place::new();
        place.write("memory.jsonl", text);
        place.succeed(&["save", "memory.jsonl", "--text", "Prefers tea", "-c", "entity:Alice"]);
        let entities = as_the_server_reads(&memory(&place));
        assert_eq!(entities["Alice"], ["Prefers tea"], "{text}");
    }
}

#[test]
fn a_deleted_mirror_is_made_again_without_what_was_merged() {
    let place = place();
    place.succeed(&EXECUTE);
    let files = own_files(&place);
    std::fs::remove_dir_all(place.path(".memfold")).unwrap();
    let report = place.json(&["consolidate", "memory.jsonl", "--json"]);
    assert_eq!((&report["planned"]["merge"], &report["loaded"]["live"]), (&0.into(), &6.into()));
    assert_eq!(own_files(&place), files);
}

#[test]
fn what_others_write_is_taken_in() {
    let place = place();
    place.succeed(&["consolidate", "memory.jsonl"]);
    let text =
        memory(&place).replace("\"Plays the cello\"]", "\"Plays the viola\",\"Lives in Bern\"]");
    place.write("memory.jsonl", &text);
    let pulled = place.run(&["doctor", "memory.jsonl"]).err;
    assert!(pulled.contains("2 new") && pulled.contains("1 removed"), "{pulled}");
    let report = place.json(&["consolidate", "memory.jsonl", "--json"]);
    assert_eq!(report["planned"]["merge"], 4);
}

#[test]
fn saves_go_to_their_entity_and_can_be_undone() {
    let place = place();
    let saved =
        ["save", "memory.jsonl", "--text", "Repairs old clocks", "--category", "entity:Bob"];
    place.succeed(&saved);
    let entities = as_the_server_reads(&memory(&place));
    assert_eq!(entities["Bob"].last().unwrap(), "Repairs old clocks");
    place.succeed(&["save", "memory.jsonl", "--text", "The deploy port is 8080."]);
    let entities = as_the_server_reads(&memory(&place));
    assert_eq!(entities["memories"], ["The deploy port is 8080."]);
    let known = place.succeed(&["save", "memory.jsonl", "--text", "The deploy port is 8080."]);
    assert!(known.starts_with("known already"), "{known}");
    assert_eq!(as_the_server_reads(&memory(&place))["memories"].len(), 1);
    let check = ["check", "memory.jsonl", "--text", "Repairs old clocks"];
    let found = place.succeed(&[&check[..], &["--category", "entity:Bob"]].concat());
    assert!(found.starts_with("touch: the same text as"), "{found}");
    let found = place.succeed(&check);
    assert!(found.starts_with("insert"), "another entity may say the same: {found}");
    std::fs::remove_dir_all(place.path(".memfold")).unwrap();
    let before = memory(&place);
    let known = place.succeed(&saved);
    assert!(known.starts_with("known already"), "{known}");
    assert_eq!(memory(&place), before, "a mirror made anew has nothing to publish");
}

#[test]
fn plans_are_saved_reviewed_and_applied_through_the_mirror() {
    let place = place();
    let now = "2026-06-30T12:00:00Z";
    place.succeed(&["consolidate", "memory.jsonl", "--save-plan", "--now", now]);
    assert_eq!(memory(&place), MEMORY);
    let shown = place.succeed(&["runs", "memory.jsonl", "latest", "--plans"]);
    assert!(shown.contains("merge"), "{shown}");
    place.succeed(&["apply", "memory.jsonl", "latest", "--only", "a1", "--execute"]);
    let archive = std::fs::read_to_string(place.path("memory.memfold-archive.jsonl")).unwrap();
    assert_eq!(archive.lines().count(), 1);
    let entry: Value = serde_json::from_str(archive.lines().next().unwrap()).unwrap();
    let id = entry["id"].as_str().unwrap();
    let explained = place.json(&["explain", "memory.jsonl", id, "--json"]);
    assert_eq!(explained["live_id"], entry["merged_into"]);
}

#[test]
fn messages_name_the_store_and_its_mirror_works_as_well() {
    let place = place();
    let planned = place.run(&["consolidate", "memory.jsonl"]);
    assert!(planned.out.contains("memfold consolidate memory.jsonl --execute"), "{}", planned.out);
    assert!(
        planned.err.contains("2 places of memory.jsonl")
            || planned.err.contains("3 places of memory.jsonl"),
        "{}",
        planned.err
    );
    let doctor = place.run(&["doctor", "memory.jsonl"]);
    for part in ["is of kind mcp_memory", "left out: memory.jsonl:5: no JSON", "memory.jsonl:6"] {
        assert!(doctor.err.contains(part), "{part}: {}", doctor.err);
    }
    let mirror = ".memfold/memory.jsonl.mirror.db";
    place.succeed(&["consolidate", mirror, "--execute", "--max-change-share", "1"]);
    assert_eq!(as_the_server_reads(&memory(&place))["Alice"].len(), 3);
}

/// A server that appends leaves an entity on several lines: it is one entity, and what it says twice is merged.
#[test]
fn an_entity_on_two_lines_is_one_and_other_spellings_of_the_format_are_read() {
    let place = Place::new();
    let text = concat!(
        "{\"_type\":\"entity\",\"name\":\"Alice\",\"entityType\":\"person\",\"observations\":[\"Lives in Bern\"]}\n",
        "{\"_type\":\"relation\",\"from\":\"Alice\",\"to\":\"Acme\",\"relationType\":\"works_at\"}\n",
        "{\"type\":\"entity\",\"name\":\"Alice\",\"entityType\":\"person\",\"observations\":[\"Plays chess\",\"Lives in Bern\"]}\n",
        "{\"type\":\"entity\",\"name\":\"alice\",\"entityType\":\"person\",\"observations\":[\"Lives in Bern\"]}\n",
    );
    place.write("memory.jsonl", text);
    let doctor = place.run(&["doctor", "memory.jsonl"]);
    for part in ["seem to be one entity of one type", "\"Alice\" stands on 2 lines"] {
        assert!(doctor.err.contains(part), "{part}: {}", doctor.err);
    }
    assert!(!doctor.err.contains("left out"), "{}", doctor.err);
    place.succeed(&EXECUTE);
    let written = memory(&place);
    // `alice` is somebody else.
    assert_eq!(written.matches("Lives in Bern").count(), 2, "{written}");
    assert!(written.lines().nth(3) == text.lines().nth(3), "{written}");
    assert!(written.starts_with("{\"_type\":\"entity\",\"name\":\"Alice\""), "{written}");
    place.succeed(&["undo", "memory.jsonl", "latest", "--execute"]);
    assert_eq!(memory(&place), text);
}

/// A list of one's own took the place of what the kind of the store keeps apart, and entities merged.
#[test]
fn entities_stay_apart_whatever_is_configured() {
    let place = place();
    let own = "cluster.separate_by=[private]";
    let report = place.json(&["consolidate", "memory.jsonl", "--json", "--set", own]);
    assert_eq!(report["planned"]["merge"], 3, "{report}");
}

#[test]
fn what_cannot_be_done_says_so() {
    let place = place();
    let refused = place.run(&["consolidate", "memory.jsonl", "--store-kind", "mcp"]);
    refused.fails_with(2, &["--store-kind \"mcp\" is no kind of store", "mcp_memory"]);
    let refused = place.run(&["forget", "memory.jsonl", "x", "--execute"]);
    refused.fails_with(2, &["are not forgotten by memfold", "delete the mirror"]);
    let sample = Place::with_pair();
    let refused = sample.run(&["doctor", "brain.db", "--rebuild-indexes"]);
    refused.fails_with(2, &["is a brain.db", "memfold index build"]);
    let refused = sample.run(&["consolidate", "brain.db", "--mirror", "m.db"]);
    refused.fails_with(2, &["needs no mirror"]);
    place.write("other.jsonl", "{\"type\":\"entity\",\"name\":\"A\",\"observations\":[]}\n");
    place.succeed(&["status", "memory.jsonl", "--mirror", "here.db"]);
    let refused = place.run(&["status", "other.jsonl", "--mirror", "here.db"]);
    refused.fails_with(1, &["is no mirror of", "name another file: --mirror PATH"]);
}

#[cfg(unix)]
#[test]
fn the_mirror_of_a_folder_that_cannot_be_written_is_in_the_cache() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = place();
    let folder = place.path("locked");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("memory.jsonl"), MEMORY).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o555)).unwrap();
    // Root may write anywhere.
    let is_writable = std::fs::write(folder.join("probe"), "").is_ok();
    if !is_writable {
        place.succeed(&["consolidate", "locked/memory.jsonl"]);
        assert!(!folder.join(".memfold").exists());
    }
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn two_processes_at_once_do_it_once() {
    let place = place();
    let start = || place.command(&EXECUTE).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let codes: Vec<Option<i32>> = [start(), start(), start()]
        .into_iter()
        .map(|child| child.wait_with_output().unwrap().status.code())
        .collect();
    // Who finds the mirror locked, or memories merged by another one meanwhile, says so.
    assert!(codes.iter().all(|code| matches!(code, Some(0 | 1 | 4 | 5))), "{codes:?}");
    assert!(codes.contains(&Some(0)), "{codes:?}");
    let entities = as_the_server_reads(&memory(&place));
    assert_eq!((entities["Alice"].len(), entities["Bob"].len(), entities["Kiln"].len()), (3, 2, 2));
    let again = place.run(&EXECUTE);
    assert!(!again.err.contains("published"), "{again:?}");
}

/// A kill while the mirror was made left a store under a temporary name, which nothing removed.
#[test]
fn what_a_kill_left_of_a_mirror_is_removed() {
    let place = place();
    std::fs::create_dir(place.path(".memfold")).unwrap();
    for left in ["abc123-memory.jsonl.mirror.db", "abc123-memory.jsonl.mirror.db-journal"] {
        place.write(&format!(".memfold/.memfold-{left}"), "half");
    }
    let other = ".memfold-abc123-my-memory.jsonl.mirror.db";
    place.write(&format!(".memfold/{other}"), "of another store");
    place.succeed(&["doctor", "memory.jsonl"]);
    let names = std::fs::read_dir(place.path(".memfold")).unwrap();
    let mut names: Vec<_> = names.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.starts_with(".memfold-") || name == ".gitignore");
    names.sort();
    assert_eq!(names, [".gitignore", other]);
}

/// What a kill must not change: the file, and what the archive says of whom.
fn outcome(place: &Place) -> (String, BTreeSet<(String, String)>) {
    let archive = std::fs::read_to_string(place.path("memory.memfold-archive.jsonl"));
    let entries = archive.unwrap_or_default();
    let merges = entries.lines().map(|line| {
        let entry: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        (text("id"), text("merged_into"))
    });
    (memory(place), merges.collect())
}

#[test]
fn death_at_any_write_is_healed_by_the_next_command() {
    let Some(shim) = Shim::build() else { return skipped("no C compiler on Linux") };
    let undisturbed = place();
    let mut command = undisturbed.command(&EXECUTE);
    let counter = shim.count(&mut command, undisturbed.folder(), Calls::Writes);
    assert!(command.output().unwrap().status.success());
    let writes: u64 = std::fs::read_to_string(counter).unwrap().parse().unwrap();
    let expected = outcome(&undisturbed);
    assert!(writes > 20, "{writes}");
    // The last ones are those of the publication.
    let step = (writes / 24).max(1);
    let tail = writes.saturating_sub(12);
    for at in (1..=writes).filter(|at| at % step == 0 || *at > tail) {
        let place = place();
        let mut command = place.command(&EXECUTE);
        let fault = Fault { kind: FaultKind::Kill, at, is_sticky: true };
        shim.inject(&mut command, place.folder(), fault);
        let output = command.output().unwrap();
        readable(&place, at);
        place.succeed(&EXECUTE);
        assert_eq!(outcome(&place), expected, "write {at}: {output:?}");
        place.succeed(&["undo", "memory.jsonl", "latest", "--execute"]);
    }
}

/// At every instant each observation is in the file or in the archive.
fn readable(place: &Place, at: u64) {
    let archive = std::fs::read_to_string(place.path("memory.memfold-archive.jsonl"));
    let both = memory(place) + &archive.unwrap_or_default();
    for text in ["Prefers green tea", "Lives in Bern", "Plays the cello", "am Abend", "雨の日は"]
    {
        assert!(both.contains(text), "write {at}: {text}");
    }
    assert!(Path::new(&place.path("memory.jsonl")).exists());
}

/// Asks the MCP memory server, started with its file; `None` where there is none to start.
fn ask_the_server(place: &Place, tool: &str, arguments: &Value) -> Option<Value> {
    let folder = PathBuf::from(std::env::var_os("MEMFOLD_MCP_SERVER")?);
    let program = "node_modules/@modelcontextprotocol/server-memory/dist/index.js";
    let mut server = Command::new("node")
        .arg(folder.join(program))
        .env("MEMORY_FILE_PATH", place.path("memory.jsonl"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut requests = server.stdin.take().unwrap();
    let mut answers = BufReader::new(server.stdout.take().unwrap()).lines();
    let about = json!({ "name": "test", "version": "1" });
    let hello = json!({ "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": about });
    let mut request = |message: Value| {
        writeln!(requests, "{message}").unwrap();
        requests.flush().unwrap();
    };
    request(json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }));
    answers.next().unwrap().unwrap();
    request(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let call = json!({ "name": tool, "arguments": arguments });
    request(json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call }));
    let answer: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    let text = answer["result"]["content"][0]["text"].as_str();
    Some(serde_json::from_str(text.unwrap_or_else(|| panic!("{answer}"))).unwrap())
}

/// The server reads what memfold wrote, and memfold what the server wrote in between.
#[test]
fn the_server_itself_goes_on_with_the_file() {
    let place = Place::new();
    let observations = ["Prefers green tea", "Lives in Bern"];
    let alice = json!({ "name": "Alice", "entityType": "person", "observations": observations });
    let entities = json!({ "entities": [alice] });
    if ask_the_server(&place, "create_entities", &entities).is_none() {
        return skipped("MEMFOLD_MCP_SERVER is not set");
    }
    let doubled =
        memory(&place).replace("\"Lives in Bern\"", "\"Lives in Bern\",\"Lives in Bern\"");
    place.write("memory.jsonl", &doubled);
    place.succeed(&EXECUTE);
    let graph = ask_the_server(&place, "read_graph", &json!({})).unwrap();
    assert_eq!(graph["entities"][0]["observations"], json!(observations));
    let added = json!([{ "entityName": "Alice", "contents": ["Plays chess"] }]);
    ask_the_server(&place, "add_observations", &json!({ "observations": added })).unwrap();
    let pulled = place.run(&["doctor", "memory.jsonl"]).err;
    assert!(pulled.contains("1 new"), "{pulled}");
    place.succeed(&["undo", "memory.jsonl", "latest", "--execute"]);
    let graph = ask_the_server(&place, "read_graph", &json!({})).unwrap();
    let found = &graph["entities"][0]["observations"];
    let expected = ["Prefers green tea", "Lives in Bern", "Lives in Bern", "Plays chess"];
    assert_eq!(*found, json!(expected));
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}

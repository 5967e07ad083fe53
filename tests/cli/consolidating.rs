//! `memfold demo` and `consolidate`, the output on each stream, and the smaller commands.

use std::process::Stdio;

use serde_json::Value;

use crate::support::{TestFolder, consolidate};

#[test]
fn the_demo_builds_and_consolidates_its_sample() {
    let dir = TestFolder::new();
    let first = dir.run("demo");
    assert_eq!(first.code, Some(0), "{first:?}");
    insta::assert_snapshot!("demo-screen", first.out);
    assert!(dir.path("memfold-demo/brain.db").is_file());
    assert!(dir.path("memfold-demo/plan.json").is_file());
    assert!(first.err.contains("dry run: nothing was written to the store"), "{}", first.err);
    // It is ours, so it is rebuilt.
    assert_eq!(dir.succeed("demo"), first.out);
}

#[test]
fn the_demo_refuses_a_folder_with_other_files() {
    let dir = TestFolder::new();
    std::fs::create_dir(dir.path("mine")).unwrap();
    dir.write("mine/letter.txt", "dear");
    dir.run("demo --dir mine").fails(
        2,
        "mine holds other files; the demo writes only into a folder of its own",
        "name a new folder: memfold demo --dir DIR",
    );
    assert!(!dir.path("mine/brain.db").exists());
}

#[test]
fn exit_code_three_means_changes() {
    let dir = TestFolder::with_pair();
    assert_eq!(dir.run(&consolidate(&["--exit-code"])).code, Some(3));
    assert_eq!(dir.run(&consolidate(&[])).code, Some(0));
    assert_eq!(dir.run(&consolidate(&["--exit-code", "--category", "none"])).code, Some(0));
}

#[test]
fn scope_flags_reach_the_report() {
    let dir = TestFolder::with_sample();
    let flags = ["--category", "facts", "--since", "2026-03-01", "--until", "2026-06-01", "--json"];
    let document = dir.json(&consolidate(&flags));
    let scope = &document["scope"];
    assert_eq!(scope["categories"], serde_json::json!(["facts"]));
    assert_eq!(scope["since"], "2026-03-01T00:00:00Z");
    assert_eq!(scope["until"], "2026-06-01T00:00:00Z");
}

#[test]
fn store_file_configures_and_working_directory_does_not() {
    let dir = TestFolder::with_pair();
    dir.write("memfold.yaml", "protection:\n  categories: [general]\n");
    let merged = |arguments: &[&str]| dir.json(arguments)["planned"]["merge"].clone();
    assert_eq!(merged(&consolidate(&["--json"])), 0);
    assert_eq!(merged(&consolidate(&["--json", "--set", "protection.enabled=false"])), 1);
    std::fs::create_dir(dir.path("store")).unwrap();
    std::fs::rename(dir.path("brain.db"), dir.path("store/brain.db")).unwrap();
    let elsewhere = ["consolidate", "store/brain.db", "--json"];
    assert_eq!(merged(&elsewhere), 1);
}

#[test]
fn closed_pipe_is_not_an_error() {
    let dir = TestFolder::with_sample();
    for arguments in [
        consolidate(&[]),
        consolidate(&["--json"]),
        vec!["config", "schema"],
        vec!["--help"],
        vec!["completions", "bash"],
    ] {
        let mut child =
            dir.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let answer = dir.answer(child.wait_with_output().unwrap());
        assert!(!answer.err.contains("panicked"), "{arguments:?}: {answer:?}");
        assert_eq!(answer.code, Some(0), "{arguments:?}: {answer:?}");
    }
}

#[test]
fn pipes_and_no_color_are_uncoloured() {
    let dir = TestFolder::with_sample();
    for arguments in [consolidate(&[]), vec!["doctor", "brain.db"], vec!["--help"]] {
        let plain = dir.run(&arguments);
        let output = dir.command(&arguments).env("NO_COLOR", "1").output().unwrap();
        let uncoloured = dir.answer(output);
        assert!(!plain.out.contains('\u{1b}') && !plain.err.contains('\u{1b}'), "{arguments:?}");
        assert_eq!(plain.out, uncoloured.out);
    }
}

#[test]
fn the_screen_is_as_published() {
    let screen = TestFolder::with_sample().succeed(&consolidate(&[]));
    let mut remarks = screen.lines().filter(|line| !line.starts_with("next: "));
    assert!(remarks.all(|line| line.chars().count() <= 80), "{screen}");
    insta::assert_snapshot!("screen", screen);
}

#[test]
fn the_configuration_is_shown_with_its_sources() {
    let dir = TestFolder::with_pair();
    let file = dir.write("memfold.yaml", "cluster:\n  linkage: average\n");
    let shown = dir.succeed("config show brain.db --set guard.enabled=false");
    let line = |key: &str| shown.lines().find(|line| line.contains(key)).unwrap().to_owned();
    assert!(line(" guard.enabled").contains("false"), "{shown}");
    assert!(line(" cluster.linkage").contains("average"), "{shown}");
    assert!(line(" read_only").contains("built-in"), "{shown}");
    let document = dir.json("config show brain.db --json");
    assert_eq!(document["merged"]["cluster"]["linkage"], "average");
    assert!(shown.contains("\nfiles, later ones win:\n"), "{shown} {}", file.display());
    assert!(shown.ends_with("memfold.yaml\n"), "{shown}");
    assert_eq!(document["files"][0]["layer"], "store");
}

/// Counts the keys of a schema.
fn keys(schema: &Value, root: &Value) -> usize {
    let target = schema["$ref"].as_str().and_then(|to| root.pointer(&to[1..]));
    let options = || schema["anyOf"].as_array()?.iter().find(|one| one["type"] != "null");
    if let Some(schema) = target.or_else(options) {
        return keys(schema, root);
    }
    match (schema["properties"].as_object(), schema.get("items")) {
        (Some(properties), _) => properties.values().map(|inner| keys(inner, root)).sum(),
        (None, Some(items)) => keys(items, root),
        (None, None) => 1,
    }
}

/// A configuration that fits into a head: a new key takes the place of one that is missed less.
#[test]
fn configuration_has_few_keys() {
    let schema: Value = serde_json::from_str(&TestFolder::new().succeed("config schema")).unwrap();
    let of_rules = keys(&schema["properties"]["rules"], &schema);
    assert_eq!((keys(&schema, &schema) - of_rules, of_rules), (53, 20));
}

#[test]
fn two_texts_are_explained() {
    let dir = TestFolder::new();
    let texts = ["explain", "--texts", "The port is 8080.", "The port is 9090."];
    insta::assert_snapshot!("explain", dir.succeed(&texts));
    let document = dir.json(&[&texts[..], &["--json"]].concat());
    assert_eq!(document["verdict"], "conflict");
    assert_eq!(document["mergeable"], false);
    let same = ["explain", "--texts", "The port is 8080", "the port is 8080.", "--json"];
    assert_eq!(dir.json(&same)["mergeable"], true);
}

/// All of these were "no SQLite file", and a JSON file had to be "decrypted first".
#[test]
fn json_files_and_repositories_are_named() {
    let dir = TestFolder::new();
    for folder in ["brain.db", "brain.db/.git"] {
        std::fs::create_dir(dir.path(folder)).unwrap();
    }
    let is = |what: &str| {
        format!("failed to open the store: brain.db is {what}, expected a SQLite file")
    };
    dir.run(&consolidate(&[])).fails_with(1, &[&is("a git repository without notes of memories")]);
    std::fs::remove_dir(dir.path("brain.db/.git")).unwrap();
    dir.write("brain.db/a.json", "{}");
    let hint = "--store-kind json_folder";
    dir.run(&consolidate(&[])).fails_with(1, &[&is("a folder of JSON files"), hint]);
    std::fs::remove_dir_all(dir.path("brain.db")).unwrap();
    for text in ["{\"text\": \"User likes tea\"}\n", "\n  [1]"] {
        dir.write("brain.db", text);
        let hint = "memfold import brain.db --into brain.db makes a store of it";
        dir.run(&consolidate(&[])).fails_with(1, &[&is("a JSON file"), hint]);
    }
}

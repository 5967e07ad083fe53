//! `memfold demo` and `memfold consolidate`.

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
fn exit_code_three_tells_of_changes_only() {
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
fn the_file_beside_the_store_configures_it_and_the_working_directory_does_not() {
    let dir = TestFolder::with_pair();
    dir.write("memfold.yaml", "protection:\n  categories: [general]\n");
    let merged = |arguments: &[&str]| dir.json(arguments)["planned"]["merge"].clone();
    assert_eq!(merged(&consolidate(&["--json"])), 0);
    std::fs::create_dir(dir.path("store")).unwrap();
    std::fs::rename(dir.path("brain.db"), dir.path("store/brain.db")).unwrap();
    let elsewhere = ["consolidate", "store/brain.db", "--json"];
    assert_eq!(merged(&elsewhere), 1);
}

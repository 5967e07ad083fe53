//! `memfold demo` and `memfold consolidate`.

use serde_json::Value;

use crate::support::{Place, consolidate};

/// The fields that other programs rely on, with their JSON types.
const FIELDS: &[(&str, &str)] = &[
    ("/schema_version", "integer"),
    ("/run_id", "string"),
    ("/mode", "string"),
    ("/plan_digest", "string"),
    ("/config_hash", "string"),
    ("/scope", "object"),
    ("/loaded/memories", "integer"),
    ("/loaded/live", "integer"),
    ("/loaded/with_embedding", "integer"),
    ("/loaded/skipped", "object"),
    ("/detected/clusters", "integer"),
    ("/detected/duplicate_groups", "integer"),
    ("/detected/pairs", "integer"),
    ("/detected/contradiction_pairs", "integer"),
    ("/detected/flags_deferred", "integer"),
    ("/detected/pair_recall/kind", "string"),
    ("/detected/pair_recall/value", "number"),
    ("/detected/pair_recall/low", "number"),
    ("/detected/pair_recall/high", "number"),
    ("/planned/merge", "integer"),
    ("/planned/promote", "integer"),
    ("/planned/archive", "integer"),
    ("/planned/flag_contradiction", "integer"),
    ("/planned/noop", "integer"),
    ("/executed/applied", "integer"),
    ("/executed/stale", "integer"),
    ("/executed/failed", "integer"),
    ("/seconds/load", "number"),
    ("/seconds/export", "number"),
    ("/seconds/join", "number"),
    ("/seconds/cluster", "number"),
    ("/seconds/plan", "number"),
    ("/seconds/execute", "number"),
    ("/seconds/total", "number"),
    ("/peak_rss_bytes", "integer"),
    ("/peak_anon_bytes", "integer"),
    ("/threads", "integer"),
    ("/isa", "string"),
];

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_u64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[test]
fn the_json_has_every_published_field() {
    let document = Place::with_sample().json(&consolidate(&["--json"]));
    for (field, expected) in FIELDS {
        let found = document.pointer(field).map_or("missing", type_of);
        assert_eq!(found, *expected, "{field}");
    }
    assert_eq!(document["mode"], "dry_run");
    assert_eq!(document["detected"]["pair_recall"]["kind"], "exact");
    let run_id = document["run_id"].as_str().unwrap();
    let (time, hex) = run_id.split_once('-').unwrap();
    assert_eq!(time, "20260630T120000Z");
    assert!(hex.len() == 8 && hex.bytes().all(|b| b.is_ascii_hexdigit()), "{run_id}");
    assert!(document["config_hash"].as_str().unwrap().starts_with("sha256:"));
}

#[test]
fn planning_twice_gives_the_same_plan_and_run() {
    let place = Place::with_sample();
    let documents = ["1", "2", "8"].map(|threads| {
        let mut document = place.json(&consolidate(&["--json", "--threads", threads]));
        let fields = document.as_object_mut().unwrap();
        for varying in ["seconds", "peak_rss_bytes", "peak_anon_bytes", "threads"] {
            fields.remove(varying);
        }
        document
    });
    assert_eq!(documents[0], documents[1]);
    assert_eq!(documents[0], documents[2]);
}

#[test]
fn the_demo_builds_and_consolidates_its_sample() {
    let place = Place::new();
    let first = place.run(&["demo"]);
    assert_eq!(first.code, Some(0), "{first:?}");
    insta::assert_snapshot!("demo-screen", first.out);
    assert!(place.path("memfold-demo/brain.db").is_file());
    assert!(place.path("memfold-demo/plan.json").is_file());
    assert!(first.err.contains("dry run: nothing was written to the store"), "{}", first.err);
    // It is ours, so it is rebuilt.
    assert_eq!(place.succeed(&["demo"]), first.out);
}

#[test]
fn the_demo_refuses_a_folder_with_other_files() {
    let place = Place::new();
    std::fs::create_dir(place.path("mine")).unwrap();
    place.write("mine/letter.txt", "dear");
    place.run(&["demo", "--dir", "mine"]).fails(
        2,
        "mine holds other files; the demo writes only into a folder of its own",
        "name a new folder: memfold demo --dir DIR",
    );
    assert!(!place.path("mine/brain.db").exists());
}

#[test]
fn exit_code_three_tells_of_changes_only() {
    let place = Place::with_pair();
    assert_eq!(place.run(&consolidate(&["--exit-code"])).code, Some(3));
    assert_eq!(place.run(&consolidate(&[])).code, Some(0));
    assert_eq!(place.run(&consolidate(&["--exit-code", "--category", "none"])).code, Some(0));
}

#[test]
fn scope_flags_reach_the_report() {
    let place = Place::with_sample();
    let flags = ["--category", "facts", "--since", "2026-03-01", "--until", "2026-06-01", "--json"];
    let document = place.json(&consolidate(&flags));
    let scope = &document["scope"];
    assert_eq!(scope["categories"], serde_json::json!(["facts"]));
    assert_eq!(scope["since"], "2026-03-01T00:00:00Z");
    assert_eq!(scope["until"], "2026-06-01T00:00:00Z");
}

#[test]
fn a_higher_threshold_merges_less() {
    let place = Place::with_sample();
    let merges = |threshold| {
        let document = place.json(&consolidate(&["--json", "--threshold", threshold]));
        document["planned"]["merge"].as_u64().unwrap()
    };
    assert!(merges("0.9") >= merges("0.95"));
    assert!(merges("0.95") > merges("0.999"));
}

#[test]
fn a_forced_isa_level_is_used_and_gives_the_same_plan() {
    let place = Place::with_sample();
    let best = place.json(&consolidate(&["--json"]));
    let output = place.command(&consolidate(&["--json"])).env("MEMFOLD_ISA", "scalar").output();
    let scalar: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    assert_eq!(scalar["isa"], "scalar");
    assert_eq!(scalar["plan_digest"], best["plan_digest"]);
}

#[test]
fn the_file_beside_the_store_configures_it_and_the_working_directory_does_not() {
    let place = Place::with_pair();
    place.write("memfold.yaml", "protection:\n  categories: [general]\n");
    let merged = |arguments: &[&str]| place.json(arguments)["planned"]["merge"].clone();
    assert_eq!(merged(&consolidate(&["--json"])), 0);
    std::fs::create_dir(place.path("store")).unwrap();
    std::fs::rename(place.path("brain.db"), place.path("store/brain.db")).unwrap();
    let elsewhere = ["consolidate", "store/brain.db", "--json"];
    assert_eq!(merged(&elsewhere), 1);
}

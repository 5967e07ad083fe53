//! The smaller commands.

use memfold_datasets::{Column, MappedColumns};
use serde_json::Value;

use crate::support::{Place, consolidate};

#[test]
fn the_configuration_is_shown_with_its_sources() {
    let place = Place::with_pair();
    let file = place.write("memfold.yaml", "cluster:\n  linkage: average\n");
    let shown = place.succeed(&["config", "show", "brain.db", "--set", "guard.enabled=false"]);
    let line = |key: &str| shown.lines().find(|line| line.contains(key)).unwrap().to_owned();
    assert!(line(" guard.enabled").contains("false"), "{shown}");
    assert!(line(" cluster.linkage").contains("average"), "{shown}");
    assert!(line(" read_only").contains("built-in"), "{shown}");
    let document = place.json(&["config", "show", "brain.db", "--json"]);
    assert_eq!(document["merged"]["cluster"]["linkage"], "average");
    assert!(shown.contains("\nfiles, later ones win:\n"), "{shown} {}", file.display());
    assert!(shown.ends_with("memfold.yaml\n"), "{shown}");
    assert_eq!(document["files"][0]["layer"], "store");
}

#[test]
fn the_schema_is_a_json_schema_of_every_section() {
    let schema: Value = serde_json::from_str(&Place::new().succeed(&["config", "schema"])).unwrap();
    assert!(schema["$schema"].as_str().is_some_and(|uri| uri.contains("json-schema.org")));
    for section in ["rules", "detect", "cluster", "guard", "protection", "merge", "scope"] {
        assert!(schema["properties"].get(section).is_some(), "{section}");
    }
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
fn the_keys_of_the_configuration_stay_few() {
    let schema: Value = serde_json::from_str(&Place::new().succeed(&["config", "schema"])).unwrap();
    let of_rules = keys(&schema["properties"]["rules"], &schema);
    assert_eq!((keys(&schema, &schema) - of_rules, of_rules), (50, 20));
}

#[test]
fn two_texts_are_explained() {
    let place = Place::new();
    let texts = ["explain", "--texts", "The port is 8080.", "The port is 9090."];
    insta::assert_snapshot!("explain", place.succeed(&texts));
    let document = place.json(&[&texts[..], &["--json"]].concat());
    assert_eq!(document["verdict"], "conflict");
    assert_eq!(document["mergeable"], false);
    let same = ["explain", "--texts", "The port is 8080", "the port is 8080.", "--json"];
    assert_eq!(place.json(&same)["mergeable"], true);
    assert_eq!(place.run(&["explain", "--texts", "alone"]).code, Some(2));
}

#[test]
fn the_doctor_tells_what_is_in_a_store() {
    let place = Place::with_sample();
    let document = place.json(&["doctor", "brain.db", "--json"]);
    assert_eq!(document["memories"], 377);
    assert_eq!(document["spaces"][0]["dim"], 384);
    for (reason, count) in document["skipped"].as_object().unwrap() {
        assert!(count.as_u64() > Some(0), "{reason}");
        assert!(document["examples"].get(reason).is_some(), "{reason} has no example");
    }
    let text = place.succeed(&["doctor", "brain.db"]);
    assert!(text.starts_with("377 memories, "), "{text}");
}

#[test]
fn an_export_is_read_back_as_it_was() {
    let place = Place::with_sample();
    let document = place.json(&["export", "brain.db", "-o", "x.arrow", "--with", "text", "--json"]);
    let columns = MappedColumns::open(&place.path("x.arrow")).unwrap();
    assert_eq!(document["rows"].as_u64(), Some(columns.vectors().len() as u64));
    assert_eq!(columns.vectors().dim(), 384);
    assert!(columns.meta().columns.contains(Column::Text));
    let sample = memfold_datasets::sample::memories();
    let known: std::collections::BTreeSet<Vec<u32>> = (0..sample.memories.len())
        .filter_map(|i| sample.vector(i))
        .map(|vector| vector.iter().map(|value| (value + 0.0).to_bits()).collect())
        .collect();
    for row in columns.vectors().rows() {
        let bits: Vec<u32> = columns.vectors().vector(row).iter().map(|v| v.to_bits()).collect();
        assert!(known.contains(&bits), "row {}", row.0);
    }
}

#[test]
fn an_export_without_a_format_says_what_to_give() {
    Place::with_sample().run(&["export", "brain.db", "-o", "x.dat"]).fails(
        2,
        "x.dat does not tell the format",
        "end the name in .arrow, .parquet, .jsonl or .csv, or give --format; memfold convert \
         makes npy and other formats of these",
    );
}

#[test]
fn variables_and_flags_lie_over_files() {
    let place = Place::with_pair();
    place.write("memfold.yaml", "protection:\n  categories: [general]\n");
    let flags = ["--json", "--set", "protection.enabled=false"];
    assert_eq!(place.json(&consolidate(&flags))["planned"]["merge"], 1);
}

//! The smaller commands.

use serde_json::Value;

use crate::support::{TestFolder, consolidate};

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
fn the_keys_of_the_configuration_stay_few() {
    let schema: Value = serde_json::from_str(&TestFolder::new().succeed("config schema")).unwrap();
    let of_rules = keys(&schema["properties"]["rules"], &schema);
    assert_eq!((keys(&schema, &schema) - of_rules, of_rules), (50, 20));
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
    assert_eq!(dir.run("explain --texts alone").code, Some(2));
}

#[test]
fn variables_and_flags_lie_over_files() {
    let dir = TestFolder::with_pair();
    dir.write("memfold.yaml", "protection:\n  categories: [general]\n");
    let flags = ["--json", "--set", "protection.enabled=false"];
    assert_eq!(dir.json(&consolidate(&flags))["planned"]["merge"], 1);
}

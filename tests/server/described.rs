//! The OpenAPI description is the published one, and tells of every path.

use std::path::Path;

use serde_json::Value;

use crate::support::TestFolder;

#[test]
fn the_description_is_the_published_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas/server.openapi.json");
    let dir = TestFolder::new();
    let output = dir.command(&["openapi"]).output().unwrap();
    assert!(output.status.success());
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &output.stdout).unwrap();
    }
    let published = std::fs::read(&path).unwrap_or_default();
    assert!(published == output.stdout, "{} is old: run with BLESS=1", path.display());
    let served = dir.serve(&[]).get("/openapi.json").json();
    let published: Value = serde_json::from_slice(&published).unwrap();
    assert_eq!(served, published);
    assert_eq!(published["openapi"], "3.1.0");
}

/// Whatever is described is there, and needs nothing else than is described.
#[test]
fn every_path_that_is_described_is_served() {
    let dir = TestFolder::new();
    let server = dir.serve(&[]);
    let described = server.get("/openapi.json").json();
    for (path, methods) in described["paths"].as_object().unwrap() {
        let path = path.replace("{id}", "nothing").replace("{key}", "nothing");
        for method in methods.as_object().unwrap().keys() {
            let answer = server.send(&method.to_uppercase(), &path, &[], "");
            assert_ne!(answer.status, 405, "{method} {path}");
            let is_missing = answer.body.contains("there is nothing at this path");
            assert!(!is_missing && answer.status > 0, "{method} {path}: {answer:?}");
        }
    }
}

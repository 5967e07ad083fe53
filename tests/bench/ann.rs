//! `memfold-bench ann`: vectors in; recall and speed of an index out.

use serde_json::{Value, json};

use crate::schemas::assert_fits;
use crate::support::TestFolder;

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_method_answers_and_fits_the_published_schema() {
    let dir = TestFolder::new();
    dir.succeed("generate --rows 1500 --dim 32 -o base.npy");
    for (method, ef_search, bytes) in [
        ("graph", [Some(16), Some(64)], 150.0..350.0),
        ("scan", [None, None], 200.0..400.0),
        ("hnsw_rs", [Some(16), Some(64)], 1_000.0..4_000.0),
        ("exact", [None, None], 8.0..8.1),
    ] {
        let words = ["ann", "--base", "base.npy", "--ef-search", "16,64", "--json"];
        let said = dir.succeed(&[&words[..], &["--method", method]].concat());
        let found = lines(&said);
        let expected = if ef_search[0].is_some() { &ef_search[..] } else { &ef_search[..1] };
        let found_ef_search: Vec<_> = found.iter().map(|line| line["ef_search"].as_u64()).collect();
        assert_eq!(found_ef_search, expected, "{method}");
        for line in &found {
            assert_fits("bench-ann", line);
            assert_eq!((&line["method"], &line["rows"]), (&json!(method), &json!(1_350)));
            let (recall, per_vector) =
                (line["recall_at_k"].as_f64().unwrap(), line["bytes_per_vector"].as_f64().unwrap());
            assert!(recall >= if ef_search[0].is_some() { 0.9 } else { 1.0 }, "{line}");
            assert!(bytes.contains(&per_vector), "{method}: {per_vector}");
        }
        let screen = dir.succeed(&[&words[..5], &["--method", method]].concat());
        let built = screen.lines().nth(1).unwrap();
        assert!(built.starts_with(&format!("{method}: built in ")), "{screen}");
        assert_eq!(built.ends_with(" with the vector"), method == "hnsw_rs", "{screen}");
        assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    }
}

#[test]
fn an_hdf5_file_brings_its_queries() {
    let dir = TestFolder::new();
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../datasets/tests-data/hdf5");
    let file = &*format!("{data}/h5py_contiguous.hdf5");
    for words in [&["--base", file][..], &["--base", file, "--queries", file]] {
        let said = dir.succeed(&[&["ann", "--method", "exact", "--json"], words].concat());
        let line = &lines(&said)[0];
        assert_eq!((&line["rows"], &line["queries"]), (&3.into(), &1.into()), "{said}");
        assert_eq!(line["recall_within_epsilon"], 1.0);
    }
    // Without a set `test`, the vectors are found as in any other file.
    let others = format!("{data}/h5py_others.h5");
    let words = ["ann", "--base", file, "--queries", &*others];
    dir.run(&words).fails_with(1, &["no array that is the only matrix", "found \"f2\""]);
}

#[test]
fn impossible_ann_requests_are_refused() {
    let dir = TestFolder::new();
    for (rows, dim, name) in
        [("30", "16", "base.npy"), ("20", "8", "short.npy"), ("3", "8", "three.npy")]
    {
        dir.succeed(&["generate", "--rows", rows, "--dim", dim, "-o", name]);
    }
    for (code, words, expected) in [
        (1, &["--base", "base.npy", "--queries", "short.npy"][..], "queries of dimension 8"),
        (1, &["--base", "three.npy"], "three.npy has too few vectors to hold some out"),
        (1, &["--base", "missing.npy"], "missing.npy"),
        (2, &["--base", "base.npy", "--ef-search", "0"], "from 1 to 65535"),
        (2, &["--base", "base.npy", "--degree", "1"], "from 2 to 64"),
        (2, &["--base", "base.npy", "--method", "hnsw"], "graph, scan, hnsw_rs, exact"),
    ] {
        dir.run(&[&["ann"], words].concat()).fails_with(code, &[expected]);
    }
    dir.run("check x.db --checks 0").fails_with(2, &["expected a whole number, 1 or more"]);
    dir.run("check x.db --rate nan").fails_with(2, &["expected a number above 0"]);
    // With fewer rows than requested neighbours, all are found.
    let said = dir.succeed("ann --base short.npy -k 1000 --json");
    assert!(lines(&said).iter().all(|line| line["recall_at_k"] == 1.0), "{said}");
}

//! `memfold-bench ann`: vectors in; recall and speed of an index out.

use serde_json::{Value, json};

use crate::schemas::assert_fits;
use crate::support::Place;

/// Enough rows that the graph is walked and not scanned.
fn with_vectors() -> Place {
    let place = Place::new();
    let base = ["generate", "--rows", "6000", "--dim", "48", "-o", "base.npy"];
    place.succeed(&base);
    place
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_larger_ef_search_finds_more() {
    let place = with_vectors();
    let said = place.succeed(&["ann", "--base", "base.npy", "--ef-search", "24,256", "--json"]);
    let found = lines(&said);
    assert_eq!(found.len(), 2);
    let recall = |line: &Value| line["recall_at_k"].as_f64().unwrap();
    assert!(recall(&found[0]) <= recall(&found[1]) && recall(&found[1]) >= 0.97, "{said}");
    for line in &found {
        // A tenth of 6,000 is held out.
        assert_eq!((&line["rows"], &line["queries"]), (&5_400.into(), &600.into()));
        assert_eq!(
            (&line["k"], &line["method"], &line["dim"]),
            (&10.into(), &"graph".into(), &48.into())
        );
        assert!(line["bytes_per_vector"].as_f64().unwrap() < 200.0, "{line}");
        assert!(line["qps_one_thread"].as_f64().unwrap() > 0.0);
        let time = &line["latency_us"];
        assert!(time["p50"].as_f64().unwrap() <= time["p999"].as_f64().unwrap(), "{line}");
    }
}

#[test]
fn the_exact_answer_is_right() {
    let place = with_vectors();
    let few = ["generate", "--rows", "40", "--dim", "48", "--seed", "9", "-o", "queries.parquet"];
    place.succeed(&few);
    let words = ["ann", "--base", "base.npy", "--queries", "queries.parquet", "-k", "3"];
    let said = place.succeed(&[&words[..], &["--method", "exact", "--json"]].concat());
    let found = lines(&said);
    assert_eq!((found.len(), &found[0]["recall_at_k"]), (1, &1.0.into()), "{said}");
    assert!(found[0]["ef_search"].is_null());
    let screen = place.succeed(&words);
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    assert!(screen.starts_with("40 queries, 6,000 vectors × 48 from base.npy\n"), "{screen}");
    assert!(screen.contains("recall@3") && screen.contains("\n 256 "), "{screen}");
}

#[test]
fn every_method_answers_and_fits_the_published_schema() {
    let place = Place::new();
    place.succeed(&["generate", "--rows", "1500", "--dim", "32", "-o", "base.npy"]);
    for (method, ef_search, bytes) in [
        ("graph", [Some(16), Some(64)], 150.0..350.0),
        ("scan", [None, None], 200.0..400.0),
        ("hnsw_rs", [Some(16), Some(64)], 1_000.0..4_000.0),
        ("exact", [None, None], 8.0..8.1),
    ] {
        let words = ["ann", "--base", "base.npy", "--ef-search", "16,64", "--json"];
        let said = place.succeed(&[&words[..], &["--method", method]].concat());
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
        let screen = place.succeed(&[&words[..5], &["--method", method]].concat());
        let built = screen.lines().nth(1).unwrap();
        assert!(built.starts_with(&format!("{method}: built in ")), "{screen}");
        assert_eq!(built.ends_with(" with the vector"), method == "hnsw_rs", "{screen}");
        assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    }
}

#[test]
fn an_hdf5_file_brings_its_queries() {
    let place = Place::new();
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../datasets/tests-data/hdf5");
    let file = &*format!("{data}/h5py_contiguous.hdf5");
    for words in [&["--base", file][..], &["--base", file, "--queries", file]] {
        let said = place.succeed(&[&["ann", "--method", "exact", "--json"], words].concat());
        let line = &lines(&said)[0];
        assert_eq!((&line["rows"], &line["queries"]), (&3.into(), &1.into()), "{said}");
        assert_eq!(line["recall_within_epsilon"], 1.0);
    }
    // Without a set `test`, the vectors are looked for as in any other file.
    let others = format!("{data}/h5py_others.h5");
    let words = ["ann", "--base", file, "--queries", &*others];
    place.run(&words).fails_with(1, &["no array that is the only matrix", "found \"f2\""]);
}

#[test]
fn what_cannot_be_looked_up_is_said() {
    let place = with_vectors();
    place.succeed(&["generate", "--rows", "20", "--dim", "8", "-o", "short.npy"]);
    place.succeed(&["generate", "--rows", "3", "--dim", "8", "-o", "three.npy"]);
    for (code, words, expected) in [
        (1, &["--base", "base.npy", "--queries", "short.npy"][..], "queries of dimension 8"),
        (1, &["--base", "three.npy"], "three.npy has too few vectors to hold some out"),
        (1, &["--base", "missing.npy"], "missing.npy"),
        (2, &["--base", "base.npy", "--ef-search", "0"], "from 1 to 65535"),
        (2, &["--base", "base.npy", "--degree", "1"], "from 2 to 64"),
        (2, &["--base", "base.npy", "--method", "hnsw"], "graph, scan, hnsw_rs, exact"),
    ] {
        place.run(&[&["ann"], words].concat()).fails_with(code, &[expected]);
    }
    // Where fewer rows are than neighbours asked for, all are found.
    let said = place.succeed(&["ann", "--base", "short.npy", "-k", "1000", "--json"]);
    assert!(lines(&said).iter().all(|line| line["recall_at_k"] == 1.0), "{said}");
}

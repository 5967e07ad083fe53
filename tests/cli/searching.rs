//! `memfold index` and `memfold search`.

use memfold_datasets::sample;
use serde_json::Value;

use crate::support::{TestFolder, consolidate};

fn ids(found: &Value) -> Vec<&str> {
    found["matches"].as_array().unwrap().iter().map(|found| found["id"].as_str().unwrap()).collect()
}

/// The first vector of the sample as JSON.
fn vector() -> String {
    let sample = sample::memories();
    let at = (0..sample.memories.len()).find_map(|at| sample.vector(at)).unwrap();
    serde_json::to_string(at).unwrap()
}

#[test]
fn an_index_is_built_inspected_and_verified() {
    let dir = TestFolder::with_sample();
    let built = dir.json("index build brain.db --json");
    assert_eq!((&built["generation"], &built["tier"]), (&1.into(), &"scan".into()));
    let rows = built["rows"].as_u64().unwrap();
    assert!(rows > 300 && built["dim"] == 384, "{built}");
    let info = dir.json("index info brain.db --json");
    assert_eq!((&info["rows"], &info["fresh_rows"]), (&rows.into(), &0.into()), "{info}");
    assert_eq!(info["verified"], serde_json::Value::Null);
    let verify = ["index", "info", "brain.db", "--verify"];
    let verified = dir.json(&[&verify[..], &["--json"]].concat())["verified"].clone();
    assert_eq!((&verified["store"]["same"], &verified["store"]["gone"]), (&rows.into(), &0.into()));
    let bytes: u64 = info["bytes"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(verified["bytes"], bytes);
    for words in [&["index", "build", "brain.db"][..], &["index", "info", "brain.db"], &verify] {
        let screen = dir.succeed(words);
        assert!(screen.lines().all(|line| line.chars().count() <= 100), "{screen}");
    }
    assert!(dir.succeed(&verify).contains("compared with the store"));
    assert_eq!(dir.json("index info brain.db --json")["generation"], 2);
}

#[test]
fn a_run_that_builds_the_index_anew_keeps_its_graph() {
    let dir = TestFolder::with_pair();
    dir.succeed("index build brain.db --tier graph");
    dir.succeed(&consolidate(&["--execute", "--max-change-share", "1"]));
    let info = dir.json("index info brain.db --json");
    assert_eq!((&info["generation"], &info["tier"]), (&2.into(), &"graph".into()), "{info}");
}

#[test]
fn a_search_gives_the_same_answer_with_and_without_an_index() {
    let dir = TestFolder::with_sample();
    let vector = vector();
    let search = ["search", "brain.db", "--vector", &vector, "--json"];
    let without = dir.json(&search);
    assert_eq!(without["index"]["kind"], "none");
    dir.succeed("index build brain.db");
    let with = dir.json(&search);
    assert_eq!(with["index"]["kind"], "scan");
    assert_eq!((ids(&with).len(), ids(&with)), (10, ids(&without)));
    assert_eq!(with["matches"], without["matches"]);
    dir.succeed("index build brain.db --tier graph");
    assert_eq!(dir.json(&search)["matches"], without["matches"]);
    let near = dir.json(&[&search[..], &["--threshold", "0.5"]].concat());
    let least = |found: &Value| found["similarity"].as_f64().unwrap() >= 0.5;
    assert!(near["matches"].as_array().unwrap().iter().all(least), "{near}");
}

#[test]
fn memories_and_texts_are_searched_for_by_example() {
    let dir = TestFolder::with_sample();
    dir.succeed("index build brain.db");
    let vector = vector();
    let found = dir.json(&["search", "brain.db", "--vector", &vector, "-k", "3", "--json"]);
    let first = &found["matches"][0];
    let (id, text) = (first["id"].as_str().unwrap(), first["text"].as_str().unwrap());
    let by_id = dir.json(&["search", "brain.db", "--id", id, "-k", "2", "--json"]);
    assert_eq!(ids(&by_id), ids(&found)[1..], "itself is no answer");
    let spaced = format!("  {}", text.replace(' ', "  "));
    let by_text = dir.json(&["search", "brain.db", "--text", &spaced, "-k", "3", "--json"]);
    assert_eq!(by_text["matches"][0]["similarity"], 1.0);
    let reworded = format!("so, {} indeed", text.to_lowercase());
    let answer = dir.run(&["search", "brain.db", "--text", &reworded, "-k", "1"]);
    assert!(answer.out.contains(id), "{answer:?}");
    assert!(answer.err.contains("note: compared by words"), "{}", answer.err);
    let answer = dir.run("search brain.db --text 🎉");
    answer.fails_with(1, &["no word of it is known", "hint: search by another text"]);
    let answer = dir.run("search brain.db --id nobody");
    assert!(answer.code == Some(1) && answer.err.contains("\"nobody\""), "{}", answer.err);
}

#[test]
fn what_cannot_be_searched_is_said() {
    let dir = TestFolder::with_sample();
    dir.write("words.txt", "no vector at all");
    for (words, code, said) in [
        (&["search", "brain.db"][..], 2, "--vector"),
        (&["search", "brain.db", "--vector", "[1,2,3]"], 1, "with 3 components"),
        (&["search", "brain.db", "--vector", "nothing"], 2, "no vector and no file"),
        (&["search", "brain.db", "--vector", "words.txt", "-k", "0"], 2, "0"),
        (&["search", "missing.db", "--vector", "[1]"], 1, "missing.db"),
        (&["search", "brain.db", "--queries", "words.txt"], 2, "--output"),
        (&["index", "info", "brain.db"], 1, "index build"),
        (&["index", "info", "brain.db", "--verify"], 1, "no index in"),
        (&["index", "build", "words.txt"], 1, "words.txt"),
        (&["index", "build", "brain.db", "--model", "other"], 1, "other"),
    ] {
        let answer = dir.run(words);
        assert_eq!(answer.code, Some(code), "{words:?}: {}", answer.err);
        assert!(answer.err.contains(said), "{words:?}: {}", answer.err);
    }
    assert!(!dir.path("brain.db.memfold/MANIFEST").exists(), "nothing was built");
}

#[test]
fn a_damaged_index_is_found_out_and_done_without() {
    let dir = TestFolder::with_sample();
    let vector = vector();
    let search = ["search", "brain.db", "--vector", &vector, "--json"];
    let right = dir.json(&search);
    dir.succeed("index build brain.db");
    let file = dir.path("brain.db.memfold/gen-000001/columns.arrow");
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, &bytes).unwrap();
    let answer = dir.run("index info brain.db --verify");
    assert!(
        answer.code == Some(1) && answer.err.contains("columns.arrow: damaged"),
        "{}",
        answer.err
    );
    std::fs::write(dir.path("brain.db.memfold/MANIFEST"), "nonsense").unwrap();
    let answer = dir.run(&search);
    assert_eq!(answer.code, Some(0));
    assert!(answer.err.contains("the index cannot be used"), "{}", answer.err);
    let found: Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(found["matches"], right["matches"]);
}

//! `memfold index` and `memfold search`, for stores and for files of vectors.

use memfold_datasets::sample;
use memfold_tests::npy_of_rows;
use parquet::file::reader::FileReader as _;
use parquet::file::reader::SerializedFileReader;
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
fn impossible_searches_are_refused() {
    let dir = TestFolder::with_sample();
    for (words, code, said) in [
        (&["search", "brain.db", "--vector", "[1,2,3]"][..], 1, "with 3 components"),
        (&["search", "brain.db", "--vector", "nothing"], 2, "no vector and no file"),
        (&["index", "info", "brain.db", "--verify"], 1, "no index in"),
        (&["index", "build", "brain.db", "--model", "other"], 1, "other"),
    ] {
        let answer = dir.run(words);
        assert_eq!(answer.code, Some(code), "{words:?}: {}", answer.err);
        assert!(answer.err.contains(said), "{words:?}: {}", answer.err);
    }
    assert!(!dir.path("brain.db.memfold/MANIFEST").exists(), "nothing was built");
}

#[test]
fn damaged_index_is_reported_and_bypassed() {
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
    answer.fails_with(1, &["columns.arrow: damaged"]);
    std::fs::write(dir.path("brain.db.memfold/MANIFEST"), "nonsense").unwrap();
    let answer = dir.run(&search);
    assert_eq!(answer.code, Some(0));
    assert!(answer.err.contains("the index cannot be used"), "{}", answer.err);
    let found: Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(found["matches"], right["matches"]);
}

/// 300 rows without ids as `rows.npy`.
pub(crate) fn with_rows() -> TestFolder {
    let dir = TestFolder::new();
    generate(&dir, 300, 5, "rows.npy");
    dir
}

fn generate(dir: &TestFolder, rows: u32, seed: u64, file: &str) {
    npy_of_rows(&dir.path(file), rows, 24, seed);
}

/// The sample's memories with their ids as `rows.parquet`.
fn with_ids() -> TestFolder {
    let dir = TestFolder::with_sample();
    dir.succeed("export brain.db --with text -o rows.parquet");
    std::fs::remove_file(dir.path("brain.db")).unwrap();
    dir
}

/// Runs with `--json`.
fn json_of(dir: &TestFolder, words: &[&str]) -> Value {
    dir.json(&[words, &["--json"]].concat())
}

#[test]
fn many_queries_go_to_a_file() {
    for (dir, file) in [(with_rows(), "rows.npy"), (with_ids(), "rows.parquet")] {
        let words = ["search", file, "--queries", file, "-k", "4", "-o"];
        let first = json_of(&dir, &[&words[..], &["one.parquet"]].concat());
        let count = first["queries"].as_u64().unwrap();
        assert_eq!(first["neighbors"], 4 * count);
        dir.succeed(&["index", "build", file]);
        json_of(&dir, &[&words[..], &["two.parquet"]].concat());
        let bytes = |name| std::fs::read(dir.path(name)).unwrap();
        assert!(bytes("one.parquet") == bytes("two.parquet"), "{file}");
        let written = std::fs::File::open(dir.path("one.parquet")).unwrap();
        let written = SerializedFileReader::new(written).unwrap();
        let ids = written.metadata().row_group(0).column(4);
        assert_eq!((ids.column_descr().name(), ids.num_values()), ("id", 4 * count as i64));
        let without_id = ids.statistics().and_then(|found| found.null_count_opt());
        assert_eq!(without_id, Some(if file == "rows.npy" { 4 * count } else { 0 }));
    }
}

#[test]
fn impossible_file_searches_are_refused() {
    let dir = with_rows();
    dir.write("words.npy", "no numbers");
    let build = |further: &[&'static str]| [&["index", "build", "rows.npy"], further].concat();
    let search = |further: &[&'static str]| [&["search", "rows.npy"], further].concat();
    for (words, code, said) in [
        (build(&["--append"]), 2, "--append is for stores"),
        (build(&["--model", "m"]), 2, "--vector-column NAME"),
        (search(&["--text", "words"]), 2, "--text is for stores"),
        (search(&["--id", "someone"]), 1, "with --row N"),
        (search(&["--vector", "[1, 2]"]), 1, "query of dimension 2, expected 24"),
        (search(&[]), 2, "--row"),
        (vec!["index", "info", "rows.npy"], 1, "no index in"),
        (vec!["index", "build", "words.npy"], 1, "words.npy"),
    ] {
        let answer = dir.run(&words);
        assert_eq!((answer.code, &*answer.out), (Some(code), ""), "{words:?}: {}", answer.err);
        assert!(answer.err.contains(said), "{words:?}: {}", answer.err);
    }
    assert!(!dir.path("rows.npy.memfold/MANIFEST").exists(), "nothing was built");
    let store = TestFolder::with_pair();
    for words in [
        &["search", "brain.db", "--row", "1"][..],
        &["search", "brain.db", "--vector", "[1]", "--id-column", "id"],
        &["index", "build", "brain.db", "--vector-column", "vector"],
    ] {
        store.run(words).fails_with(2, &["for files of vectors, not for a store"]);
    }
}

//! `memfold index` and `memfold search` for files of vectors.

use memfold_tests::npy_of_rows;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use serde_json::{Value, json};

use crate::support::TestFolder;

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
fn an_index_is_built_inspected_and_verified() {
    for (dir, file) in [(with_rows(), "rows.npy"), (with_ids(), "rows.parquet")] {
        for tier in ["scan", "graph"] {
            let words = ["index", "build", file, "--tier", tier];
            let built = json_of(&dir, &words);
            assert_eq!((&built["tier"], &built["model"]), (&tier.into(), &Value::Null));
            let found = built["rows"].as_u64().unwrap();
            assert!(if file == "rows.npy" { found == 300 } else { found > 300 }, "{built}");
            let info = json_of(&dir, &["index", "info", file]);
            assert_eq!((&info["rows"], &info["fresh_rows"]), (&found.into(), &0.into()), "{info}");
            assert_eq!((&info["foreign"], &info["tier"]), (&false.into(), &tier.into()));
            let verified = dir.json(&["index", "info", file, "--verify", "--json"]);
            let same = json!({ "same": found, "changed": 0, "gone": 0, "fresh": 0 });
            assert_eq!(verified["verified"]["store"], same);
            for words in [&["index", "build", file][..], &["index", "info", file, "--verify"]] {
                let screen = dir.succeed(words);
                assert!(screen.lines().all(|line| line.chars().count() <= 100), "{screen}");
            }
        }
        assert!(dir.path(&format!("{file}.memfold/MANIFEST")).exists());
    }
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
fn what_cannot_be_done_is_said() {
    let dir = with_rows();
    dir.write("words.npy", "no numbers");
    let build = |further: &[&'static str]| [&["index", "build", "rows.npy"], further].concat();
    let search = |further: &[&'static str]| [&["search", "rows.npy"], further].concat();
    for (words, code, said) in [
        (build(&["--append"]), 2, "--append is for stores"),
        (build(&["--model", "m"]), 2, "--vector-column NAME"),
        (search(&["--text", "words"]), 2, "--text is for stores"),
        (search(&["--row", "300"]), 1, "no row 300: there are 300"),
        (search(&["--row", "-1"]), 2, "--row"),
        (search(&["--id", "someone"]), 1, "with --row N"),
        (search(&["--vector", "[1, 2]"]), 1, "query of dimension 2, expected 24"),
        (search(&[]), 2, "--row"),
        (vec!["index", "info", "rows.npy"], 1, "no index in"),
        (vec!["index", "info", "rows.npy", "--verify"], 1, "index build"),
        (vec!["index", "build", "missing.npy"], 1, "missing.npy"),
        (vec!["search", "missing.parquet", "--row", "1"], 1, "missing.parquet"),
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

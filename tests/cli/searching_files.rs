//! `memfold index` and `memfold search` for files of vectors.

use memfold_datasets::sample;
use memfold_tests::npy_of_rows;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use serde_json::{Value, json};

use crate::support::Place;

/// 300 rows without ids as `rows.npy`.
pub(crate) fn with_rows() -> Place {
    let place = Place::new();
    generate(&place, 300, 5, "rows.npy");
    place
}

fn generate(place: &Place, rows: u32, seed: u64, file: &str) {
    npy_of_rows(&place.path(file), rows, 24, seed);
}

/// The sample's memories with their ids as `rows.parquet`.
fn with_ids() -> Place {
    let place = Place::with_sample();
    place.succeed(&["export", "brain.db", "--with", "text", "-o", "rows.parquet"]);
    std::fs::remove_file(place.path("brain.db")).unwrap();
    place
}

/// Runs with `--json`.
fn json_of(place: &Place, words: &[&str]) -> Value {
    place.json(&[words, &["--json"]].concat())
}

#[test]
fn an_index_is_built_inspected_and_verified() {
    for (place, file) in [(with_rows(), "rows.npy"), (with_ids(), "rows.parquet")] {
        for tier in ["scan", "graph"] {
            let words = ["index", "build", file, "--tier", tier];
            let built = json_of(&place, &words);
            assert_eq!((&built["tier"], &built["model"]), (&tier.into(), &Value::Null));
            let found = built["rows"].as_u64().unwrap();
            assert!(if file == "rows.npy" { found == 300 } else { found > 300 }, "{built}");
            let info = json_of(&place, &["index", "info", file]);
            assert_eq!((&info["rows"], &info["fresh_rows"]), (&found.into(), &0.into()), "{info}");
            assert_eq!((&info["foreign"], &info["tier"]), (&false.into(), &tier.into()));
            let verified = place.json(&["index", "info", file, "--verify", "--json"]);
            let same = json!({ "same": found, "changed": 0, "gone": 0, "fresh": 0 });
            assert_eq!(verified["verified"]["store"], same);
            for words in [&["index", "build", file][..], &["index", "info", file, "--verify"]] {
                let screen = place.succeed(words);
                assert!(screen.lines().all(|line| line.chars().count() <= 100), "{screen}");
            }
        }
        assert!(place.path(&format!("{file}.memfold/MANIFEST")).exists());
    }
}

#[test]
fn a_search_gives_the_same_answer_with_and_without_an_index() {
    let place = with_rows();
    let vector = serde_json::to_string(&(1..=24).collect::<Vec<_>>()).unwrap();
    let searches: [&[&str]; 4] = [
        &["--vector", &vector],
        &["--row", "17", "-k", "4"],
        &["--row", "0", "--threshold", "0.5"],
        &["--row", "299", "--threshold", "-1", "-k", "299"],
    ];
    let ask = |search: &[&str]| json_of(&place, &[&["search", "rows.npy"], search].concat());
    let without = searches.map(ask);
    assert_eq!(
        without[0]["index"],
        json!({ "kind": "none", "rows": 0, "fresh_rows": 300, "foreign": false })
    );
    assert_eq!(without[0]["matches"].as_array().unwrap().len(), 10);
    assert_eq!(without[3]["matches"].as_array().unwrap().len(), 299, "the row itself is no answer");
    for tier in ["scan", "graph"] {
        place.succeed(&["index", "build", "rows.npy", "--tier", tier]);
        for (search, without) in searches.iter().zip(&without) {
            let with = ask(search);
            assert_eq!(
                (&with["index"]["kind"], &with["index"]["rows"]),
                (&tier.into(), &300.into())
            );
            assert_eq!(with["matches"], without["matches"], "{tier}: {search:?}");
        }
    }
    insta::assert_snapshot!(
        "rows",
        place.succeed(&["search", "rows.npy", "--row", "17", "-k", "4"])
    );
    let nothing = ["search", "rows.npy", "--row", "17", "--threshold", "1"];
    assert_eq!(place.succeed(&nothing), "no row is near\n");
}

#[test]
fn rows_are_searched_by_their_ids() {
    let place = with_ids();
    let id = sample::memories().memories[0].id.to_string();
    let words = ["search", "rows.parquet", "--id", &id, "-k", "3"];
    let without = json_of(&place, &words);
    place.succeed(&["index", "build", "rows.parquet"]);
    let with = json_of(&place, &words);
    assert_eq!((&with["matches"], &with["index"]["kind"]), (&without["matches"], &"scan".into()));
    let found = with["matches"].as_array().unwrap();
    assert_eq!(found.len(), 3);
    assert!(found.iter().all(|found| found["id"].is_string() && found["id"] != id.as_str()));
    // By its place it is the same row.
    let nearest = found[0]["row"].to_string();
    let back =
        place.json(&["search", "rows.parquet", "--row", &nearest, "--threshold", "-1", "--json"]);
    let row = back["matches"].as_array().unwrap().iter().find(|row| row["id"] == id.as_str());
    assert_eq!(row.unwrap()["similarity"], found[0]["similarity"]);
    insta::assert_snapshot!("rows-with-ids", place.succeed(&words));
}

#[test]
fn other_columns_are_read_when_they_are_named() {
    let place = with_ids();
    let text = sample::memories().memories[0].content.clone();
    let (search, column) = (["search", "rows.parquet", "--json"], ["--id-column", "text"]);
    let by_text = [&search[..], &["--id", &text]].concat();
    place.run(&by_text).fails_with(1, &["no row with a vector has the id"]);
    place.succeed(&[&["index", "build", "rows.parquet"][..], &column].concat());
    let found = place.json(&by_text);
    assert_eq!(found["index"]["kind"], "scan", "an index knows its columns");
    assert_eq!(place.json(&[&by_text[..], &column].concat())["matches"], found["matches"]);
    let other = place.run(&[&search[..], &["--row", "0", "--id-column", "id"]].concat());
    assert!(other.err.contains("the index is of other columns"), "{}", other.err);
    place
        .run(&["index", "build", "rows.parquet", "--vector-column", "nothing"])
        .fails_with(1, &["no column nothing", "--vector-column NAME"]);
}

#[test]
fn a_file_that_has_changed_is_read_instead_of_its_index() {
    let place = with_rows();
    place.succeed(&["index", "build", "rows.npy"]);
    generate(&place, 280, 6, "rows.npy");
    let search = ["search", "rows.npy", "--row", "3", "--json"];
    let answer = place.run(&search);
    assert_eq!(
        answer.err,
        "note: the index no longer fits the file, so all 280 vectors were read; run `memfold index build`\n"
    );
    let found: Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(found["index"]["foreign"], true);
    assert_eq!(found["matches"], place.json(&[&search[..], &["--no-index"]].concat())["matches"]);
    let info = place.json(&["index", "info", "rows.npy", "--json"]);
    assert_eq!((&info["foreign"], &info["fresh_rows"]), (&true.into(), &Value::Null));
    assert!(place.succeed(&["index", "info", "rows.npy"]).contains("the file has changed since"));
    let verified = place.json(&["index", "info", "rows.npy", "--verify", "--json"]);
    let verified = &verified["verified"];
    assert_eq!(
        (&verified["store"]["changed"], &verified["store"]["gone"]),
        (&280.into(), &20.into())
    );
    place.succeed(&["index", "build", "rows.npy"]);
    assert_eq!(place.run(&search).err, "");
}

#[test]
fn many_queries_go_to_a_file() {
    for (place, file) in [(with_rows(), "rows.npy"), (with_ids(), "rows.parquet")] {
        let words = ["search", file, "--queries", file, "-k", "4", "-o"];
        let first = json_of(&place, &[&words[..], &["one.parquet"]].concat());
        let count = first["queries"].as_u64().unwrap();
        assert_eq!(first["neighbors"], 4 * count);
        place.succeed(&["index", "build", file]);
        json_of(&place, &[&words[..], &["two.parquet"]].concat());
        let bytes = |name| std::fs::read(place.path(name)).unwrap();
        assert!(bytes("one.parquet") == bytes("two.parquet"), "{file}");
        let written = std::fs::File::open(place.path("one.parquet")).unwrap();
        let written = SerializedFileReader::new(written).unwrap();
        let ids = written.metadata().row_group(0).column(4);
        assert_eq!((ids.column_descr().name(), ids.num_values()), ("id", 4 * count as i64));
        let without_id = ids.statistics().and_then(|found| found.null_count_opt());
        assert_eq!(without_id, Some(if file == "rows.npy" { 4 * count } else { 0 }));
    }
}

#[test]
fn what_cannot_be_done_is_said() {
    let place = with_rows();
    place.write("words.npy", "no numbers");
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
        let answer = place.run(&words);
        assert_eq!((answer.code, &*answer.out), (Some(code), ""), "{words:?}: {}", answer.err);
        assert!(answer.err.contains(said), "{words:?}: {}", answer.err);
    }
    assert!(!place.path("rows.npy.memfold/MANIFEST").exists(), "nothing was built");
    let store = Place::with_pair();
    for words in [
        &["search", "brain.db", "--row", "1"][..],
        &["search", "brain.db", "--vector", "[1]", "--id-column", "id"],
        &["index", "build", "brain.db", "--vector-column", "vector"],
    ] {
        store.run(words).fails_with(2, &["for files of vectors, not for a store"]);
    }
}

#[test]
fn the_index_of_another_kind_is_named() {
    let place = with_rows();
    place.succeed(&["index", "build", "rows.npy", "--index-dir", "of-a-file"]);
    let store = Place::with_sample();
    store.succeed(&["index", "build", "brain.db", "--index-dir", "of-a-store"]);
    let folder = |place: &Place, name: &str| place.path(name).display().to_string();
    let swapped = [
        (&store, "brain.db", folder(&place, "of-a-file"), "a file of vectors, not of a store"),
        (&place, "rows.npy", folder(&store, "of-a-store"), "a store, not of a file of vectors"),
    ];
    for (place, name, folder, kind) in swapped {
        let reason = format!("this is the index of {kind}");
        let words = ["index", "info", name, "--index-dir", &folder];
        place.run(&words).fails_with(1, &[&reason, "memfold index build"]);
    }
}

//! `memfold dedup --tiles` and `--tiles-for`: the same answer as in one piece, in tasks that survive the process.

use std::process::Stdio;

use serde_json::{Value, json};

use memfold_tests::npy_of_rows;

use crate::support::{TestFolder, wait_until};

/// Enough rows for several tiles.
const ROWS: u32 = 40_000;

fn with_rows(rows: u32) -> TestFolder {
    let dir = TestFolder::new();
    npy_of_rows(&dir.path("rows.npy"), rows, 48, 1);
    dir
}

const BY_TILES: [&str; 6] = ["dedup", "rows.npy", "--threshold", "0.9", "--tiles", "tiles"];

/// The facts of an answer about pairs and clusters.
fn findings(document: &Value) -> Vec<&Value> {
    let names = [
        "rows",
        "distinct_rows",
        "pairs",
        "distinct_pairs",
        "clusters",
        "duplicate_rows",
        "pairs_digest",
    ];
    names.map(|name| &document[name]).to_vec()
}

#[test]
fn tiles_give_the_answer_of_one_piece_also_after_kills() {
    let dir = with_rows(ROWS);
    let expected = dir.json("dedup rows.npy --threshold 0.9 --json");
    assert!(expected["pairs"].as_u64() > Some(0) && expected.get("tiles").is_none());
    let done = || std::fs::read_dir(dir.path("tiles/pairs")).map_or(0, Iterator::count);
    let mut kills = 0;
    for finished in 1..4 {
        let mut child =
            dir.command(&BY_TILES).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until(|| done() >= finished || child.try_wait().unwrap().is_some());
        kills += usize::from(child.try_wait().unwrap().is_none());
        let _ended_already = child.kill();
        child.wait().unwrap();
    }
    assert!(kills > 0, "every run ended before it could be killed");
    let resumed = done() as u64;
    let by_tiles = || dir.json(&[&BY_TILES[..], &["--json"]].concat());
    let found = by_tiles();
    assert_eq!(findings(&found), findings(&expected));
    assert!(found["tiles"]["tiles"].as_u64() >= Some(3), "{found}");
    assert!(resumed > 0 && found["tiles"]["tasks_resumed"] == json!(resumed), "{resumed} {found}");
    assert_eq!(std::fs::read_dir(dir.path("tiles/partial")).unwrap().count(), 0);

    let again = by_tiles();
    assert_eq!(findings(&again), findings(&expected));
    assert_eq!(again["tiles"]["tasks_resumed"], found["tiles"]["tasks"]);
    let answer = dir.run(&BY_TILES);
    assert!(
        answer.err.contains("of them from an earlier run; they stay in tiles"),
        "{}",
        answer.err
    );
}

#[test]
fn a_plan_for_many_rows_is_estimated_from_few() {
    let dir = with_rows(5000);
    let words = ["dedup", "rows.npy", "--tiles-for", "100e6", "--threshold", "0.9"];
    let document = dir.json(&[&words[..], &["--json"]].concat());
    assert_eq!((&document["rows"], &document["dim"]), (&json!(100_000_000), &json!(48)));
    assert_eq!(document["sampled_rows"], json!(5_000));
    assert_eq!(document["pairs_total"], json!(4_999_999_950_000_000_u64));
    let number = |name: &str| document[name].as_f64().unwrap();
    assert!(number("tiles") >= 100e6 / 16_384.0 && number("tasks") <= number("tasks_total"));
    assert!(number("tile_bytes") > 100e6 * 48.0 * 4.0 && number("core_hours") > 0.0);
    assert!(number("core_hours") <= number("core_hours_without_bounds"));
    let text = dir.succeed(&words);
    assert!(text.starts_with("100,000,000 rows of 48 dimensions at or above 0.9, by a sample"));
    dir.run("dedup --tiles-for 7").fails_with(2, &["INPUT"]);
    dir.run(&[&words[..], &["--tiles", "d"]].concat()).fails_with(2, &["--tiles"]);
    npy_of_rows(&dir.path("one.npy"), 1, 48, 1);
    dir.run("dedup one.npy --tiles-for 7").fails_with(1, &["1 rows with a vector", "hint: "]);
    assert_eq!(dir.temporary_files(), 0);
}

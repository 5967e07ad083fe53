//! `memfold dedup --tiles` and `--tiles-for`: the same answer as in one piece, in tasks that survive the process.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use memfold_tests::npy_of_rows;

use crate::support::{Place, interrupt};

/// Enough rows for several tiles.
const ROWS: u32 = 40_000;

fn with_rows(rows: u32) -> Place {
    let place = Place::new();
    npy_of_rows(&place.path("rows.npy"), rows, 48, 1);
    place
}

const BY_TILES: [&str; 6] = ["dedup", "rows.npy", "--threshold", "0.9", "--tiles", "tiles"];

/// What an answer says of pairs and clusters.
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
fn tiles_give_the_answer_of_one_piece() {
    let place = with_rows(ROWS);
    let expected = place.json(&["dedup", "rows.npy", "--threshold", "0.9", "--json"]);
    assert!(expected["pairs"].as_u64() > Some(0) && expected.get("tiles").is_none());
    let found = place.json(&[&BY_TILES[..], &["--json"]].concat());
    assert_eq!(findings(&found), findings(&expected));
    let tiles = &found["tiles"];
    assert!(tiles["tiles"].as_u64() >= Some(3), "{tiles}");
    assert_eq!(tiles["tasks_resumed"], 0);
    let again = place.json(&[&BY_TILES[..], &["--json"]].concat());
    assert_eq!(findings(&again), findings(&expected));
    assert_eq!(again["tiles"]["tasks_resumed"], tiles["tasks"]);
    let answer = place.run(&BY_TILES);
    assert!(
        answer.err.contains("of them from an earlier run; they stay in tiles"),
        "{}",
        answer.err
    );
}

#[test]
fn several_files_and_thresholds_are_one_join() {
    let place = with_rows(3000);
    for (name, seed) in [("a.npy", 5), ("b.npy", 6)] {
        npy_of_rows(&place.path(name), 700, 48, seed);
    }
    let words = ["dedup", "rows.npy", "a.npy", "b.npy", "--threshold", "0.8,0.9", "--json"];
    let expected = place.json(&words);
    let found = place.json(&[&words[..], &["--tiles", "tiles"]].concat());
    assert_eq!(found["results"], expected["results"]);
}

#[test]
fn a_killed_run_goes_on_where_it_was() {
    let place = with_rows(ROWS);
    let expected = place.json(&["dedup", "rows.npy", "--threshold", "0.9", "--json"]);
    let receipts = || std::fs::read_dir(place.path("tiles/receipts")).map_or(0, Iterator::count);
    let mut kills = 0;
    for finished in 1..4 {
        let mut child =
            place.command(&BY_TILES).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while receipts() < finished && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        kills += usize::from(child.try_wait().unwrap().is_none());
        let _ended_already = child.kill();
        child.wait().unwrap();
    }
    assert!(kills > 0, "every run ended before it could be killed");
    let resumed = receipts() as u64;
    let found = place.json(&[&BY_TILES[..], &["--json"]].concat());
    assert_eq!(findings(&found), findings(&expected));
    assert!(resumed > 0 && found["tiles"]["tasks_resumed"] == json!(resumed), "{resumed} {found}");
    assert_eq!(std::fs::read_dir(place.path("tiles/partial")).unwrap().count(), 0);
}

#[test]
fn an_interrupted_run_leaves_a_folder_to_go_on_with() {
    let place = with_rows(ROWS);
    let mut child =
        place.command(&BY_TILES).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !place.path("tiles/plan.mfi").exists() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    interrupt(&child);
    let code = child.wait().unwrap().code();
    assert!(matches!(code, Some(0 | 130)), "{code:?}");
    place.succeed(&BY_TILES);
}

#[test]
fn files_that_are_gone_or_damaged_are_named() {
    let place = with_rows(ROWS);
    place.succeed(&BY_TILES);
    let first = |folder: &str| {
        let entries = std::fs::read_dir(place.path("tiles").join(folder)).unwrap();
        entries.map(|entry| entry.unwrap().path()).min().unwrap()
    };
    let pairs = first("pairs");
    let whole = std::fs::read(&pairs).unwrap();
    let name = pairs.file_name().unwrap().to_str().unwrap();
    std::fs::write(&pairs, &whole[..whole.len() - 1]).unwrap();
    place
        .run(&BY_TILES)
        .fails_with(1, &[name, "bytes long, expected", "hint: remove", "run again"]);
    std::fs::remove_file(&pairs).unwrap();
    place.run(&BY_TILES).fails_with(1, &[name, "the file is missing", "that task alone"]);
    std::fs::remove_file(first("receipts")).unwrap();
    place.succeed(&BY_TILES);
    assert_eq!(std::fs::read(&pairs).unwrap(), whole);
    let tile = first("tiles");
    let mut bytes = std::fs::read(&tile).unwrap();
    bytes[9_000] ^= 1;
    std::fs::write(&tile, &bytes).unwrap();
    std::fs::remove_file(first("receipts")).unwrap();
    place.run(&BY_TILES).fails_with(1, &["000000.mfi", "damaged", "hint: remove the folder"]);
    std::fs::remove_file(&tile).unwrap();
    place.run(&BY_TILES).fails_with(1, &["000000.mfi", "the file is missing", "hint: remove"]);
}

/// As a full disk: the system takes no more bytes.
#[cfg(unix)]
#[test]
fn a_limit_on_files_is_told_and_work_goes_on_without_it() {
    let place = with_rows(ROWS);
    let binary = env!("CARGO_BIN_EXE_memfold");
    // 512 KiB or 1 MiB, by the shell: tiles are larger.
    let script = format!("ulimit -f 1024; exec '{binary}' {}", BY_TILES.join(" "));
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script]).current_dir(place.folder()).env("HOME", place.folder());
    place.answer(shell.output().unwrap()).fails_with(1, &["tiles: File too large", "hint: raise"]);
    assert!(!place.path("tiles/plan.mfi").exists());
    place.succeed(&BY_TILES);
}

#[test]
fn other_inputs_thresholds_and_folders_are_refused() {
    let place = with_rows(300);
    place.succeed(&BY_TILES);
    let tiles = |threshold: &str, folder: &str| {
        place.run(&["dedup", "rows.npy", "--threshold", threshold, "--tiles", folder])
    };
    tiles("0.8", "tiles").fails_with(1, &["the threshold 0.9, not of the threshold 0.8", "hint: "]);
    npy_of_rows(&place.path("rows.npy"), 300, 48, 9);
    tiles("0.9", "tiles").fails_with(1, &["the input has changed", "hint: name another folder"]);
    tiles("0.9", ".").fails_with(1, &["which is no part of a plan of tiles", "hint: "]);
    tiles("0.9", "rows.npy").fails_with(1, &["rows.npy"]);
    let graph = ["dedup", "rows.npy", "--tiles", "other", "--method", "graph"];
    place.run(&graph).fails(
        2,
        "--tiles cuts the exact join, --method graph is another",
        "leave one of the two out",
    );
    assert!(!place.path("other").exists());
    npy_of_rows(&place.path("none.npy"), 0, 48, 1);
    place.succeed(&["dedup", "none.npy", "--tiles", "empty"]);
}

#[test]
fn a_plan_for_many_rows_is_estimated_from_few() {
    let place = with_rows(5000);
    let words = ["dedup", "rows.npy", "--tiles-for", "100e6", "--threshold", "0.9"];
    let document = place.json(&[&words[..], &["--json"]].concat());
    assert_eq!((&document["rows"], &document["dim"]), (&json!(100_000_000), &json!(48)));
    assert_eq!(document["sampled_rows"], json!(5_000));
    assert_eq!(document["pairs_total"], json!(4_999_999_950_000_000_u64));
    let number = |name: &str| document[name].as_f64().unwrap();
    assert!(number("tiles") >= 100e6 / 16_384.0 && number("tasks") <= number("tasks_total"));
    assert!(number("tile_bytes") > 100e6 * 48.0 * 4.0 && number("core_hours") > 0.0);
    assert!(number("core_hours") <= number("core_hours_without_bounds"));
    let text = place.succeed(&words);
    assert!(text.starts_with("100,000,000 rows of 48 dimensions at or above 0.9, by a sample"));
    place.run(&["dedup", "rows.npy", "--tiles-for", "1.5"]).fails_with(2, &["100e6"]);
    place.run(&["dedup", "--tiles-for", "7"]).fails_with(2, &["INPUT"]);
    place.run(&[&words[..], &["--tiles", "d"]].concat()).fails_with(2, &["--tiles"]);
    npy_of_rows(&place.path("one.npy"), 1, 48, 1);
    place
        .run(&["dedup", "one.npy", "--tiles-for", "7"])
        .fails_with(1, &["1 rows with a vector", "hint: "]);
    assert_eq!(place.temporary_files(), 0);
}

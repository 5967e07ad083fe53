//! `memfold dedup`: pairs, clusters and figures of files of vectors, by the exact join and by a graph.

use std::fs::File;
use std::path::Path;

use memfold_datasets::npy::{Component, NpyWriter};
use memfold_datasets::schema::ColumnSet;
use memfold_datasets::{ColumnRecord, ColumnsMeta, ColumnsWriter};
use memfold_simd::canonical;
use memfold_tests::npy_of_rows;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row, RowAccessor};
use serde_json::{Value, json};

use crate::support::TestFolder;

/// A unit vector at an angle: the cosine of two is that of the difference.
fn at(angle: f32) -> [f32; 2] {
    [angle.cos(), angle.sin()]
}

fn npy(path: &Path, dim: usize, values: &[f32]) {
    let mut writer = NpyWriter::create(path, dim, Component::F32).unwrap();
    writer.push(values).unwrap();
    writer.finish().unwrap();
}

type PairLine = (u64, u64, f64);

fn read(path: &Path) -> Vec<Row> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    reader.get_row_iter(None).unwrap().map(Result::unwrap).collect()
}

fn line(row: &Row) -> PairLine {
    (row.get_ulong(0).unwrap(), row.get_ulong(1).unwrap(), row.get_double(2).unwrap())
}

fn pairs(path: &Path) -> Vec<PairLine> {
    let rows = read(path);
    for row in &rows {
        let names: Vec<_> = row.get_column_iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["left", "right", "similarity"]);
    }
    rows.iter().map(line).collect()
}

/// Row, cluster and similarity.
fn clusters(path: &Path) -> Vec<PairLine> {
    read(path).iter().map(line).collect()
}

#[test]
fn rows_are_numbered_over_files_of_every_format() {
    let dir = TestFolder::new();
    npy(&dir.path("a.npy"), 2, &[at(0.0), [0.0, 0.0], at(0.1)].concat());
    let meta = ColumnsMeta::vectors(2);
    let mut columns = ColumnsWriter::create(&dir.path("b.arrow"), &meta).unwrap();
    let mut parquet = ColumnsWriter::create_parquet(&dir.path("c.parquet"), &meta).unwrap();
    for (first, second) in [(0.1, 1.5), (1.5, 0.0)] {
        columns.push_vector(&at(first)).unwrap();
        parquet.push_vector(&at(second)).unwrap();
    }
    columns.finish().unwrap();
    parquet.publish().unwrap();
    let found = dir.json("dedup a.npy b.arrow c.parquet --threshold 0.99 --json --pairs p.parquet --clusters k.parquet");
    assert_eq!((&found["rows"], &found["dim"]), (&json!(7), &json!(2)));
    assert_eq!(found["skipped"], json!({"vector_zero": 1}));
    assert_eq!((&found["distinct_rows"], &found["distinct_pairs"]), (&json!(3), &json!(1)));
    assert_eq!((&found["pairs"], &found["method"]), (&json!(7), &json!("exact")));
    assert_eq!((&found["clusters"], &found["duplicate_rows"]), (&json!(2), &json!(4)));
    assert_eq!(found["threshold"], json!(0.99));
    let recall = json!({"kind": "exact", "value": 1.0, "low": 1.0, "high": 1.0});
    assert_eq!(found["pair_recall"], recall);
    assert_eq!(found["pairs_digest"].as_str().unwrap().len(), 64);
    for stage in ["load", "prepare", "join", "cluster", "write", "total"] {
        assert!(found["seconds"][stage].as_f64().unwrap() > 0.0, "{stage}");
    }
    // Row 1 is the zero vector; rows 0 and 5, 2 and 3, 4 and 6 are equal: b is 0.1, 1.5; c is 1.5, 0.
    let near = canonical::similarity(&at(0.0), &at(0.1)).unwrap().get();
    let expected = [
        (0, 2, near),
        (0, 3, near),
        (0, 6, 1.0),
        (2, 3, 1.0),
        (2, 6, near),
        (3, 6, near),
        (4, 5, 1.0),
    ];
    assert_eq!(pairs(&dir.path("p.parquet")), expected);
    let expected = [(0, 0, 1.0), (2, 0, near), (3, 0, near), (6, 0, 1.0), (4, 4, 1.0), (5, 4, 1.0)];
    assert_eq!(clusters(&dir.path("k.parquet")), expected);
    assert_eq!(dir.temporary_files(), 0);
}

/// Three rows that are all near, with columns to choose by.
fn records(dir: &TestFolder) {
    let columns = ColumnSet::Records { text: true, lineage: false };
    let meta = ColumnsMeta { columns, ..ColumnsMeta::vectors(2) };
    let mut writer = ColumnsWriter::create_parquet(&dir.path("rows.parquet"), &meta).unwrap();
    let rows = [(Some(1), 1.0, 7), (None, 3.0, 1), (Some(5), 2.0, 7)];
    for (row, (created_at, importance, access_count)) in rows.into_iter().enumerate() {
        let record = ColumnRecord {
            rowid: row as i64,
            id: &format!("id-{row}"),
            created_at,
            categories: &[],
            importance,
            access_count,
            source: "agent",
            model: "m",
            text: Some(&format!("Kiln {row} is fired on Mondays.\u{1b}[2J")),
            lineage: None,
            vector: &at(0.1 * row as f32),
        };
        writer.push(&record).unwrap();
    }
    writer.publish().unwrap();
}

#[test]
fn keep_chooses_the_survivor() {
    let dir = TestFolder::new();
    records(&dir);
    for (keep, survivor) in [
        ("first", 0),
        ("newest", 2),
        ("column:importance", 1),
        ("column:access_count", 0),
        ("column:id", 2),
        ("most_central", 1),
    ] {
        let words = ["dedup", "rows.parquet", "--threshold", "0.97", "--clusters", "k.parquet"];
        dir.succeed(&[&words[..], &["--keep", keep, "--force"]].concat());
        let found = clusters(&dir.path("k.parquet"));
        let found = found.into_iter().map(|(row, cluster, _)| (row, cluster));
        assert_eq!(found.collect::<Vec<_>>(), [0, 1, 2].map(|row| (row, survivor)), "{keep}");
    }
    let rows = read(&dir.path("k.parquet"));
    let ids: Vec<_> = rows.iter().map(|row| row.get_string(3).unwrap()).collect();
    assert_eq!(ids, ["id-0", "id-1", "id-2"]);
}

#[test]
fn annotated_input_marks_survivors() {
    let dir = TestFolder::new();
    records(&dir);
    let screen = dir.succeed(
        "dedup rows.parquet --threshold 0.99 --keep column:importance --annotate annotated.parquet",
    );
    assert!(screen.ends_with("next: keep the rows of annotated.parquet where is_survivor\n"));
    let cell = |row: &Row, name: &str| {
        let found = row.get_column_iter().find(|(column, _)| *column == name);
        found.unwrap_or_else(|| panic!("no column {name}")).1.clone()
    };
    let rows = read(&dir.path("annotated.parquet"));
    let all = |name: &str| rows.iter().map(|row| cell(row, name)).collect::<Vec<_>>();
    // Row 1 is first and takes one neighbour; the two others are not near each other.
    let near = canonical::similarity(&at(0.1), &at(0.2)).unwrap().get();
    assert_eq!(all("cluster"), [Field::Null, Field::ULong(1), Field::ULong(1)]);
    assert_eq!(all("cluster_size"), [Field::Null, Field::ULong(2), Field::ULong(2)]);
    assert_eq!(all("cluster_similarity"), [Field::Null, Field::Double(1.0), Field::Double(near)]);
    assert_eq!(all("is_survivor"), [true, true, false].map(Field::Bool));
    assert_eq!(all("id"), ["id-0", "id-1", "id-2"].map(|id| Field::Str(id.to_owned())));
}

#[test]
fn the_screen_is_as_published() {
    let dir = TestFolder::new();
    records(&dir);
    npy(&dir.path("more.npy"), 2, &[at(0.2), [0.0, 0.0], at(1.2)].concat());
    for (name, threshold) in [("dedup-screen", "0.97"), ("dedup-screen-several", "0.97,0.99,1")] {
        let screen = dir.succeed(&["dedup", "rows.parquet", "more.npy", "--threshold", threshold]);
        let mut remarks = screen.lines().filter(|line| !line.starts_with("next: "));
        assert!(remarks.all(|line| line.chars().count() <= 80), "{screen}");
        assert!(!screen.contains('\u{1b}'));
        insta::assert_snapshot!(name, screen);
    }
}

#[test]
fn inputs_without_rows_or_duplicates_succeed() {
    let dir = TestFolder::new();
    npy(&dir.path("none.npy"), 2, &[]);
    npy(&dir.path("zeros.npy"), 2, &[0.0; 6]);
    npy(&dir.path("one.npy"), 2, &at(1.0));
    for (name, rows) in [("none.npy", 0), ("zeros.npy", 3), ("one.npy", 1)] {
        let found = dir.json(&["dedup", name, "--json", "--clusters", "k.parquet", "--force"]);
        assert_eq!((&found["rows"], &found["pairs"]), (&json!(rows), &json!(0)), "{name}");
        assert!(clusters(&dir.path("k.parquet")).is_empty());
        assert!(dir.succeed(&["dedup", name]).contains("nothing is there twice"));
    }
}

fn with_vectors(names: &[&str]) -> TestFolder {
    let dir = TestFolder::new();
    for name in names {
        npy_of_rows(&dir.path(name), 20, 8, 1);
    }
    dir
}

#[test]
fn missing_and_doubled_inputs_are_errors() {
    let dir = with_vectors(&["b.npy", "a.npy", "[x].npy"]);
    dir.run("dedup nowhere.npy").fails_with(1, &["nowhere.npy"]);
    dir.run("dedup *.parquet").fails(
        1,
        "no file matches *.parquet",
        "check the folder and the ending of the pattern",
    );
    dir.run("dedup .").fails_with(1, &[". is a folder", "hint: name its files"]);
    dir.run("dedup a.npy ?.npy").fails(
        2,
        "a.npy is named twice",
        "name each input once: all its rows would be duplicates",
    );
    assert!(dir.succeed("dedup ?.npy").starts_with("40 rows of 8 dimensions from 2 files"));
    assert!(dir.succeed("dedup [x].npy").starts_with("20 rows of 8 dimensions from 1 file "));
    dir.write("text.npy", "not vectors");
    dir.run("dedup text.npy").fails_with(1, &["failed to read the vectors", "text.npy"]);
    dir.run("dedup a.npy --keep newest").fails_with(1, &["created_at"]);
}

/// A pattern panicked where any file of the folder had a name that is not UTF-8.
#[cfg(unix)]
#[test]
fn pattern_passes_over_names_that_are_not_utf_8() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let dir = with_vectors(&["a.npy", "b.npy"]);
    let odd = OsStr::from_bytes(b"caf\xe9.npy");
    std::fs::rename(dir.path("b.npy"), dir.folder().join(odd)).unwrap();
    std::fs::create_dir_all(dir.path("deep/er")).unwrap();
    std::fs::copy(dir.path("a.npy"), dir.path("deep/er/c.npy")).unwrap();
    for (pattern, files) in [("a*.npy", 1), ("*.npy", 2), ("**/*.npy", 3), ("./deep/*/?.npy", 1)] {
        let screen = dir.succeed(&["dedup", pattern]);
        let rows = format!("{} rows of 8 dimensions from {files} file", 20 * files);
        assert!(screen.starts_with(&rows), "{pattern}: {screen}");
    }
}

#[test]
fn dedup_outputs_are_checked_before_the_join() {
    let dir = with_vectors(&["x.npy"]);
    dir.write("there.parquet", "mine");
    let before = dir.files();
    let dedup = |further: &[&str]| dir.run(&[&["dedup", "x.npy"], further].concat());
    dedup(&["--pairs", "there.parquet"]).fails(
        2,
        "there.parquet exists",
        "name another file, or replace it with --force",
    );
    for flag in ["--pairs", "--clusters", "--annotate"] {
        dedup(&[flag, "./x.npy", "--force"]).fails(
            2,
            &format!("{flag} ./x.npy is an input"),
            "name another file: inputs are never changed",
        );
    }
    dedup(&["--pairs", "p", "--clusters", "./p"]).fails(
        2,
        "--pairs and --clusters name the same file, ./p",
        "name two files",
    );
    dedup(&["--pairs", "nowhere/p"]).fails_with(1, &["nowhere/p", "hint: make the folder first"]);
    dedup(&["--annotate", "a.txt"]).fails_with(2, &["a.txt: unknown extension", "hint: "]);
    dedup(&["--annotate", "a.parquet", "--threshold", "0.8,0.9"]).fails(
        2,
        "--annotate takes one threshold: a row has one cluster in it",
        "choose one, or write the clusters of all with --clusters",
    );
    assert!(before == dir.files());
    assert_eq!(dedup(&["--pairs", "there.parquet", "--force"]).code, Some(0));
    assert!(before != dir.files());
}

#[cfg(target_os = "linux")]
#[test]
fn interrupted_dedup_leaves_no_files() {
    use std::process::Stdio;

    use crate::support::interrupt;

    let dir = TestFolder::new();
    // Every two of them are near each other: some hundred million pairs to be put in order.
    let mut writer = NpyWriter::create(&dir.path("x.npy"), 2, Component::F32).unwrap();
    for row in 0..20_000 {
        writer.push(&[1.0, row as f32 * 1e-6]).unwrap();
    }
    writer.finish().unwrap();
    let before = dir.files();
    let typed = "dedup x.npy --pair-budget 1000000000 --pairs p.parquet --clusters k.parquet";
    let mut command = dir.command(&typed.split(' ').collect::<Vec<_>>());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    interrupt(&child);
    let answer = dir.answer(child.wait_with_output().unwrap());
    assert_eq!(answer.code, Some(130), "{answer:?}");
    assert_eq!(answer.out, "");
    assert_eq!(answer.err, "error: interrupted; nothing was written\n");
    assert!(before == dir.files());
    assert_eq!(dir.temporary_files(), 0);
}

/// The graph finds nearly all pairs, and says of how many rows it knows that; the recall itself is measured in `index`.
#[test]
fn graph_method_measures_its_recall() {
    let dir = TestFolder::new();
    npy_of_rows(&dir.path("a.npy"), 4_000, 24, 5);
    let dedup =
        |further: &str| dir.json(format!("dedup a.npy --threshold 0.9 --json {further}").as_str());
    let exact = dedup("");
    assert!(exact["index"].is_null() && exact["seconds"]["audit"] == 0.0);
    for (method, index) in [("graph", "memfold"), ("hnsw_rs", "hnsw_rs")] {
        let found = dedup(&format!("--method {method}"));
        assert_eq!((&found["method"], &found["index"]), (&json!("graph"), &json!(index)));
        assert_eq!(found["distinct_rows"], exact["distinct_rows"]);
        let number = |of: &Value, name: &str| of[name].as_f64().unwrap();
        let share = number(&found, "distinct_pairs") / number(&exact, "distinct_pairs");
        let recall = &found["pair_recall"];
        assert_eq!(recall["kind"], "sampled");
        let interval = number(recall, "low")..=number(recall, "high");
        assert!(share > 0.99 && interval.contains(&share), "{share}: {recall}");
        assert!(number(recall, "sampled_rows") > 0.0 && number(recall, "sampled_pairs") > 0.0);
        for stage in ["prepare", "join", "audit", "cluster"] {
            assert!(number(&found["seconds"], stage) > 0.0, "{stage}");
        }
    }
    // Too few pairs to measure a recall.
    npy_of_rows(&dir.path("b.npy"), 14_000, 24, 5);
    let answer = dir.run("dedup b.npy --threshold 0.9999 --method graph");
    assert!(answer.code == Some(0) && answer.err.contains("use --method exact"), "{answer:?}");
    assert!(answer.out.contains("audited with 8,192 rows"), "{answer:?}");
    npy_of_rows(&dir.path("c.npy"), 400, 24, 5);
    let screen = dir.succeed("dedup c.npy --threshold 0.9 --method hnsw_rs");
    assert!(screen.contains("--method hnsw_rs"), "{screen}");
}

//! Files of vectors in; pairs, clusters and figures out: what `memfold dedup` finds and writes.

use std::fs::File;
use std::path::Path;

use memfold_datasets::npy::{Component, NpyWriter};
use memfold_datasets::schema::ColumnSet;
use memfold_datasets::{ColumnRecord, ColumnsMeta, ColumnsWriter};
use memfold_simd::canonical;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row, RowAccessor};
use serde_json::json;

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

fn pairs(path: &Path) -> Vec<PairLine> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap);
    rows.map(|row| {
        assert_eq!(
            row.get_column_iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            ["left", "right", "similarity"]
        );
        (row.get_ulong(0).unwrap(), row.get_ulong(1).unwrap(), row.get_double(2).unwrap())
    })
    .collect()
}

/// Row, cluster and similarity; the column `skip` is not looked at.
fn clusters(path: &Path, first_column: usize) -> Vec<PairLine> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap);
    rows.map(|row| {
        let ordinal = |column| row.get_ulong(first_column + column).unwrap();
        (ordinal(0), ordinal(1), row.get_double(first_column + 2).unwrap())
    })
    .collect()
}

fn survivors(path: &Path) -> Vec<(u64, u64)> {
    clusters(path, 0).into_iter().map(|(row, cluster, _)| (row, cluster)).collect()
}

#[test]
fn one_run_reads_every_format_and_numbers_rows_over_all_of_them() {
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
    assert_eq!(clusters(&dir.path("k.parquet"), 0), expected);
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
fn who_stays_is_a_choice() {
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
        dir.succeed(&[
            "dedup",
            "rows.parquet",
            "--threshold",
            "0.97",
            "--keep",
            keep,
            "--clusters",
            "k.parquet",
            "--force",
        ]);
        let found = survivors(&dir.path("k.parquet"));
        assert_eq!(found, [(0, survivor), (1, survivor), (2, survivor)], "{keep}");
    }
    let reader = File::open(dir.path("k.parquet")).unwrap();
    let reader = SerializedFileReader::new(reader).unwrap();
    let ids =
        reader.get_row_iter(None).unwrap().map(|row| row.unwrap().get_string(3).unwrap().clone());
    assert_eq!(ids.collect::<Vec<_>>(), ["id-0", "id-1", "id-2"]);
}

#[test]
fn the_annotated_input_says_who_stays() {
    let dir = TestFolder::new();
    records(&dir);
    let screen = dir.succeed(
        "dedup rows.parquet --threshold 0.99 --keep column:importance --annotate annotated.parquet",
    );
    assert!(screen.ends_with("next: keep the rows of annotated.parquet where is_survivor\n"));
    let file = File::open(dir.path("annotated.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let cell = |row: &Row, name: &str| {
        let found = row.get_column_iter().find(|(column, _)| *column == name);
        found.unwrap_or_else(|| panic!("no column {name}")).1.clone()
    };
    let rows: Vec<Row> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
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
    let screen = dir.succeed("dedup rows.parquet more.npy --threshold 0.97");
    assert!(!screen.contains('\u{1b}'));
    let mut remarks = screen.lines().filter(|line| !line.starts_with("next: "));
    assert!(remarks.all(|line| line.chars().count() <= 80), "{screen}");
    insta::assert_snapshot!("dedup-screen", screen);
    let several = dir.succeed("dedup rows.parquet more.npy --threshold 0.97,0.99,1");
    let mut remarks = several.lines().filter(|line| !line.starts_with("next: "));
    assert!(remarks.all(|line| line.chars().count() <= 80), "{several}");
    insta::assert_snapshot!("dedup-screen-several", several);
}

#[test]
fn no_rows_and_no_duplicates_are_answers() {
    let dir = TestFolder::new();
    npy(&dir.path("none.npy"), 2, &[]);
    npy(&dir.path("zeros.npy"), 2, &[0.0; 6]);
    npy(&dir.path("one.npy"), 2, &at(1.0));
    for (name, rows) in [("none.npy", 0), ("zeros.npy", 3), ("one.npy", 1)] {
        let found = dir.json(&["dedup", name, "--json", "--clusters", "k.parquet", "--force"]);
        assert_eq!((&found["rows"], &found["pairs"]), (&json!(rows), &json!(0)), "{name}");
        assert!(clusters(&dir.path("k.parquet"), 0).is_empty());
        assert!(dir.succeed(&["dedup", name]).contains("nothing is there twice"));
    }
}

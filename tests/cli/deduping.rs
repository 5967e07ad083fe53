//! Files of vectors in; pairs, clusters and figures out: what `memfold dedup` finds and writes.

use std::fs::File;
use std::path::Path;

use memfold_datasets::npy::{Component, NpyWriter};
use memfold_datasets::schema::ColumnSet;
use memfold_datasets::{ColumnRecord, ColumnsMeta, ColumnsWriter};
use memfold_simd::{Level, canonical};
use memfold_tests::{Draws, generated_rows};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row, RowAccessor};
use serde_json::{Value, json};

use crate::support::Place;

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

/// Every pair at or above a threshold, judged one by one.
fn all_pairs(values: &[f32], dim: usize, threshold: f64) -> Vec<PairLine> {
    let rows: Vec<&[f32]> = values.chunks_exact(dim).collect();
    let mut pairs = Vec::new();
    for (left, a) in rows.iter().enumerate() {
        for (right, b) in rows.iter().enumerate().skip(left + 1) {
            let similarity = canonical::similarity(a, b).unwrap().get();
            if similarity >= threshold {
                pairs.push((left as u64, right as u64, similarity));
            }
        }
    }
    pairs
}

/// What does not depend on time, memory and the way to the answer.
fn findings(mut document: Value) -> Value {
    for name in ["counters", "seconds", "peak_rss_bytes", "peak_anon_bytes", "threads", "isa"] {
        assert!(document.as_object_mut().unwrap().remove(name).is_some(), "no {name}");
    }
    document
}

#[test]
fn one_run_reads_every_format_and_numbers_rows_over_all_of_them() {
    let place = Place::new();
    npy(&place.path("a.npy"), 2, &[at(0.0), [0.0, 0.0], at(0.1)].concat());
    let meta = ColumnsMeta::vectors(2);
    let mut columns = ColumnsWriter::create(&place.path("b.arrow"), &meta).unwrap();
    let mut parquet = ColumnsWriter::create_parquet(&place.path("c.parquet"), &meta).unwrap();
    for (first, second) in [(0.1, 1.5), (1.5, 0.0)] {
        columns.push_vector(&at(first)).unwrap();
        parquet.push_vector(&at(second)).unwrap();
    }
    columns.finish().unwrap();
    parquet.publish().unwrap();
    let found = place.json(&[
        "dedup",
        "a.npy",
        "b.arrow",
        "c.parquet",
        "--threshold",
        "0.99",
        "--json",
        "--pairs",
        "p.parquet",
        "--clusters",
        "k.parquet",
    ]);
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
    assert_eq!(pairs(&place.path("p.parquet")), expected);
    let expected = [(0, 0, 1.0), (2, 0, near), (3, 0, near), (6, 0, 1.0), (4, 4, 1.0), (5, 4, 1.0)];
    assert_eq!(clusters(&place.path("k.parquet"), 0), expected);
    assert_eq!(place.temporary_files(), 0);
}

/// Three rows that are all near, with columns to choose by.
fn records(place: &Place) {
    let columns = ColumnSet::Records { text: true, lineage: false };
    let meta = ColumnsMeta { columns, ..ColumnsMeta::vectors(2) };
    let mut writer = ColumnsWriter::create_parquet(&place.path("rows.parquet"), &meta).unwrap();
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
    let place = Place::new();
    records(&place);
    for (keep, survivor) in [
        ("first", 0),
        ("newest", 2),
        ("column:importance", 1),
        ("column:access_count", 0),
        ("column:id", 2),
        ("most_central", 1),
    ] {
        place.succeed(&[
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
        let found = survivors(&place.path("k.parquet"));
        assert_eq!(found, [(0, survivor), (1, survivor), (2, survivor)], "{keep}");
    }
    let reader = File::open(place.path("k.parquet")).unwrap();
    let reader = SerializedFileReader::new(reader).unwrap();
    let ids =
        reader.get_row_iter(None).unwrap().map(|row| row.unwrap().get_string(3).unwrap().clone());
    assert_eq!(ids.collect::<Vec<_>>(), ["id-0", "id-1", "id-2"]);
}

#[test]
fn the_annotated_input_says_who_stays() {
    let place = Place::new();
    records(&place);
    let screen = place.succeed(&[
        "dedup",
        "rows.parquet",
        "--threshold",
        "0.99",
        "--keep",
        "column:importance",
        "--annotate",
        "annotated.parquet",
    ]);
    assert!(screen.ends_with("next: keep the rows of annotated.parquet where is_survivor\n"));
    let file = File::open(place.path("annotated.parquet")).unwrap();
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
fn a_chain_is_one_cluster_by_single_linkage_only() {
    let place = Place::new();
    npy(&place.path("x.npy"), 2, &[at(0.0), at(0.1), at(0.2), at(0.3)].concat());
    for (linkage, expected) in [
        ("greedy_complete", vec![(0, 0), (1, 0), (2, 2), (3, 2)]),
        ("single", vec![(0, 0), (1, 0), (2, 0), (3, 0)]),
    ] {
        place.succeed(&[
            "dedup",
            "x.npy",
            "--threshold",
            "0.99",
            "--linkage",
            linkage,
            "--clusters",
            "k.parquet",
            "--force",
        ]);
        assert_eq!(survivors(&place.path("k.parquet")), expected, "{linkage}");
    }
}

#[test]
fn several_thresholds_give_what_each_gives_alone() {
    let place = Place::new();
    npy(&place.path("x.npy"), 48, &generated_rows(1_500, 48, 11));
    let together = place.json(&[
        "dedup",
        "x.npy",
        "--threshold",
        "0.95,0.9,0.97,0.9",
        "--json",
        "--clusters",
        "all.parquet",
        "--pairs",
        "all-pairs.parquet",
    ]);
    let together = findings(together);
    let results = together["results"].as_array().unwrap();
    let mut lines = clusters(&place.path("all.parquet"), 1).into_iter();
    for (result, threshold) in results.iter().zip(["0.9", "0.95", "0.97"]) {
        let mut alone = findings(place.json(&[
            "dedup",
            "x.npy",
            "--threshold",
            threshold,
            "--json",
            "--clusters",
            "one.parquet",
            "--pairs",
            "one-pairs.parquet",
            "--force",
        ]));
        for (name, value) in result.as_object().unwrap() {
            assert_eq!(alone.as_object_mut().unwrap().remove(name).as_ref(), Some(value), "{name}");
        }
        for (name, value) in alone.as_object().unwrap() {
            assert_eq!(&together[name], value, "{name}");
        }
        let one = clusters(&place.path("one.parquet"), 0);
        assert!(!one.is_empty());
        assert_eq!(lines.by_ref().take(one.len()).collect::<Vec<_>>(), one);
        let least: f64 = threshold.parse().unwrap();
        let all = pairs(&place.path("all-pairs.parquet")).into_iter();
        let near: Vec<PairLine> = all.filter(|&(_, _, similarity)| similarity >= least).collect();
        assert_eq!(near, pairs(&place.path("one-pairs.parquet")));
    }
    assert_eq!((results.len(), lines.next()), (3, None));
}

#[test]
fn many_exact_duplicates_are_counted_and_expanded() {
    let place = Place::new();
    let (rows, dim) = (900, 24);
    let mut values = generated_rows(rows, dim, 5);
    let mut draws = Draws::new(6);
    // 24 % of the rows become copies of a row that may itself be one.
    for row in 0..rows as usize {
        if draws.uniform() < 0.24 {
            let from = draws.below(rows.into()) as usize * dim;
            values.copy_within(from..from + dim, row * dim);
        }
    }
    npy(&place.path("x.npy"), dim, &values);
    let expected = all_pairs(&values, dim, 0.9);
    let found =
        place.json(&["dedup", "x.npy", "--threshold", "0.9", "--json", "--pairs", "p.parquet"]);
    assert!(found["distinct_rows"].as_u64().unwrap() < 750, "{found}");
    assert_eq!(found["pairs"].as_u64().unwrap(), expected.len() as u64);
    assert_eq!(pairs(&place.path("p.parquet")), expected);
    let arguments = ["--pairs-form", "distinct", "--pairs", "d.parquet"];
    place.succeed(&[&["dedup", "x.npy", "--threshold", "0.9"], &arguments[..]].concat());
    let distinct = pairs(&place.path("d.parquet"));
    assert_eq!(found["distinct_pairs"].as_u64().unwrap(), distinct.len() as u64);
    assert!(distinct.iter().all(|pair| expected.contains(pair)));
}

#[test]
fn equal_rows_cost_nothing_quadratic() {
    let place = Place::new();
    for (equal, pair_count) in [(1_062_u64, 563_391_u64), (10_000, 49_995_000)] {
        let values = [at(0.3).repeat(equal as usize), at(1.5).to_vec()].concat();
        npy(&place.path("x.npy"), 2, &values);
        let found = place.json(&["dedup", "x.npy", "--json"]);
        assert_eq!(found["pairs"], json!(pair_count));
        assert_eq!((&found["distinct_rows"], &found["distinct_pairs"]), (&json!(2), &json!(0)));
        assert_eq!((&found["clusters"], &found["duplicate_rows"]), (&json!(1), &json!(equal - 1)));
    }
    let answer = place.run(&["dedup", "x.npy", "--pairs", "p.parquet"]);
    answer.fails_with(
        1,
        &[
            "equal vectors make 49995000 pairs, more than the pair budget of 1000000",
            "--pairs-form distinct",
            "--pair-budget 49995000",
        ],
    );
    assert!(!place.path("p.parquet").exists());
    place.succeed(&["dedup", "x.npy", "--pairs", "p.parquet", "--pairs-form", "distinct"]);
    assert!(pairs(&place.path("p.parquet")).is_empty());
}

#[test]
fn a_jittered_clique_is_refused_with_advice_or_counted_when_allowed() {
    let place = Place::new();
    let (rows, dim) = (5_000, 32);
    let mut draws = Draws::new(9);
    let jitter = |_| 1.0 + (draws.uniform() * 2.0 - 1.0) as f32 * 1e-6;
    npy(&place.path("x.npy"), dim, &(0..rows * dim).map(jitter).collect::<Vec<f32>>());
    let answer = place.run(&["dedup", "x.npy", "--pairs", "p.parquet"]);
    answer.fails_with(
        1,
        &[
            "0.95 is met by more than 1000000 pairs",
            "at or above",
            "hint: nearly all of these vectors point the same way",
            "--pair-budget N",
        ],
    );
    let found = place.json(&["dedup", "x.npy", "--json", "--pair-budget", "20000000"]);
    assert_eq!(
        (&found["pairs"], &found["distinct_pairs"]),
        (&json!(12_497_500), &json!(12_497_500))
    );
    assert_eq!((&found["clusters"], &found["duplicate_rows"]), (&json!(1), &json!(4_999)));
    assert_eq!(place.temporary_files(), 0);
}

#[test]
fn threads_and_isa_levels_do_not_matter() {
    let place = Place::new();
    npy(&place.path("x.npy"), 100, &generated_rows(2_500, 100, 3));
    let mut first = None;
    for level in Level::available() {
        for threads in ["1", "2", "8"] {
            let arguments = [
                "dedup",
                "x.npy",
                "--threshold",
                "0.88,0.95",
                "--keep",
                "most_central",
                "--json",
                "--threads",
                threads,
                "--clusters",
                "k.parquet",
                "--pairs",
                "p.parquet",
                "--force",
            ];
            let mut command = place.command(&arguments);
            let answer = place.answer(command.env("MEMFOLD_ISA", level.name()).output().unwrap());
            let document: Value = serde_json::from_str(&answer.out).unwrap();
            assert_eq!(document["isa"], json!(level.name()));
            let files =
                ["k.parquet", "p.parquet"].map(|name| std::fs::read(place.path(name)).unwrap());
            let found = (findings(document), files);
            assert!(found.0["results"][0]["pairs"].as_u64().unwrap() > 500);
            let expected = first.get_or_insert_with(|| found.clone());
            assert_eq!(found.0, expected.0, "{threads} threads, {level}");
            assert!(found.1 == expected.1, "{threads} threads, {level}");
        }
    }
}

#[test]
fn shuffled_rows_have_the_same_pairs() {
    let place = Place::new();
    let dim = 48;
    let values = generated_rows(1_200, dim, 21);
    let mut order: Vec<u64> = (0..1_200).collect();
    order.sort_by_key(|row| (row + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let shuffled = order.iter().flat_map(|&row| &values[row as usize * dim..][..dim]);
    npy(&place.path("a.npy"), dim, &values);
    npy(&place.path("b.npy"), dim, &shuffled.copied().collect::<Vec<_>>());
    let find = |name: &str| {
        place.succeed(&["dedup", name, "--threshold", "0.9", "--pairs", "p.parquet", "--force"]);
        pairs(&place.path("p.parquet"))
    };
    let expected = find("a.npy");
    let mapped = find("b.npy").into_iter().map(|(left, right, similarity)| {
        let (left, right) = (order[left as usize], order[right as usize]);
        (left.min(right), left.max(right), similarity)
    });
    let mut mapped: Vec<PairLine> = mapped.collect();
    mapped.sort_by_key(|&(left, right, _)| (left, right));
    assert!(!expected.is_empty());
    assert_eq!(mapped, expected);
}

#[test]
fn the_screen_is_as_published() {
    let place = Place::new();
    records(&place);
    npy(&place.path("more.npy"), 2, &[at(0.2), [0.0, 0.0], at(1.2)].concat());
    let screen = place.succeed(&["dedup", "rows.parquet", "more.npy", "--threshold", "0.97"]);
    assert!(!screen.contains('\u{1b}'));
    let mut remarks = screen.lines().filter(|line| !line.starts_with("next: "));
    assert!(remarks.all(|line| line.chars().count() <= 80), "{screen}");
    insta::assert_snapshot!("dedup-screen", screen);
    let several =
        place.succeed(&["dedup", "rows.parquet", "more.npy", "--threshold", "0.97,0.99,1"]);
    let mut remarks = several.lines().filter(|line| !line.starts_with("next: "));
    assert!(remarks.all(|line| line.chars().count() <= 80), "{several}");
    insta::assert_snapshot!("dedup-screen-several", several);
}

#[test]
fn no_rows_and_no_duplicates_are_answers() {
    let place = Place::new();
    npy(&place.path("none.npy"), 2, &[]);
    npy(&place.path("zeros.npy"), 2, &[0.0; 6]);
    npy(&place.path("one.npy"), 2, &at(1.0));
    for (name, rows) in [("none.npy", 0), ("zeros.npy", 3), ("one.npy", 1)] {
        let found = place.json(&["dedup", name, "--json", "--clusters", "k.parquet", "--force"]);
        assert_eq!((&found["rows"], &found["pairs"]), (&json!(rows), &json!(0)), "{name}");
        assert!(clusters(&place.path("k.parquet"), 0).is_empty());
        assert!(place.succeed(&["dedup", name]).contains("nothing is there twice"));
    }
}

//! `memfold convert`: the same vectors in another file.

use std::process::Stdio;

use memfold_datasets::npy::{Component, NpyWriter};
use memfold_datasets::{ColumnsMeta, ColumnsWriter, MappedColumns, VectorFile};

use crate::support::Place;

const ROWS: [f32; 6] = [0.5, -0.0, 1.0, f32::MIN_POSITIVE / 2.0, 3.0, -4.25];

/// Three vectors in `in.npy`.
fn with_npy() -> Place {
    let place = Place::new();
    let mut writer = NpyWriter::create(&place.path("in.npy"), 2, Component::F32).unwrap();
    writer.push(&ROWS).unwrap();
    writer.finish().unwrap();
    place
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// The figures that depend on the clock are replaced.
fn without_clock(line: &str) -> String {
    let (before, after) = line.split_once(" in ").unwrap();
    let (rate, rest) = after.split_once("GB/s").unwrap();
    let (seconds, rate) = rate.split_once(" s, ").unwrap();
    assert!(seconds.parse::<f64>().is_ok() && rate.trim().parse::<f64>().is_ok(), "{line}");
    format!("{before} in N s, N GB/s{rest}")
}

#[test]
fn vectors_go_round_through_every_format_that_is_read() {
    let place = with_npy();
    for (from, to) in [("in.npy", "a.arrow"), ("a.arrow", "b.parquet"), ("b.parquet", "c.npy")] {
        let answer = place.run(&["convert", from, to]);
        assert_eq!((answer.code, answer.out.as_str()), (Some(0), ""), "{answer:?}");
    }
    let read = VectorFile::open(&place.path("c.npy")).unwrap().read_all().unwrap();
    assert_eq!(bits(&read), bits(&ROWS));
    let mapped = MappedColumns::open(&place.path("a.arrow")).unwrap();
    assert_eq!((mapped.len(), mapped.dim()), (3, 2));
}

#[test]
fn the_remark_says_what_was_written_and_what_not() {
    let place = with_npy();
    let answer = place.run(&["convert", "in.npy", "a.arrow"]);
    assert_eq!(
        without_clock(&answer.err),
        "wrote 3 rows of 2 × f32 to a.arrow (npy to arrow) in N s, N GB/s\n"
    );
    let answer = place.run(&["convert", "a.arrow", "a.bin", "--to", "fvecs"]);
    assert_eq!(
        without_clock(&answer.err),
        "wrote 3 rows of 2 × f32 to a.bin (arrow to fvecs) in N s, N GB/s\n\
         fvecs holds vectors alone; left out: row\n"
    );
    let mut expected = Vec::new();
    for row in ROWS.chunks(2) {
        expected.extend(2_u32.to_le_bytes());
        expected.extend(row.iter().flat_map(|value| value.to_le_bytes()));
    }
    assert_eq!(std::fs::read(place.path("a.bin")).unwrap(), expected);
    let quiet = place.run(&["convert", "in.npy", "b.npz", "--quiet"]);
    assert_eq!((quiet.code, quiet.err.as_str()), (Some(0), ""));
}

#[test]
fn documents_fit_the_published_schema() {
    let place = with_npy();
    place.succeed(&["convert", "in.npy", "a.parquet"]);
    let mut found = place.json(&["convert", "a.parquet", "a.f16bin", "--type", "f16", "--json"]);
    let seconds = found.as_object_mut().unwrap().remove("seconds").unwrap();
    assert!(seconds.as_f64().unwrap() > 0.0);
    assert!(found.as_object_mut().unwrap().remove("peak_anon_bytes").is_some());
    insta::assert_json_snapshot!("document", found);
    assert_eq!(std::fs::metadata(place.path("a.f16bin")).unwrap().len(), 8 + 12);
}

#[test]
fn a_file_is_replaced_only_where_asked() {
    let place = with_npy();
    place.write("a.arrow", "precious");
    let hint = "name another file, or replace it with --force";
    place.run(&["convert", "in.npy", "a.arrow"]).fails(2, "a.arrow exists", hint);
    assert_eq!(std::fs::read(place.path("a.arrow")).unwrap(), b"precious");
    place.succeed(&["convert", "in.npy", "a.arrow", "--force"]);
    assert_eq!(MappedColumns::open(&place.path("a.arrow")).unwrap().len(), 3);
    let before = place.files();
    let hint = "name another file: inputs are never changed";
    let itself = ["convert", "in.npy", "in.npy", "--force"];
    place.run(&itself).fails(2, "OUT in.npy is an input", hint);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(place.path("in.npy"), place.path("link.npy")).unwrap();
        let linked = ["convert", "in.npy", "link.npy", "--force", "--to", "arrow"];
        place.run(&linked).fails(2, "OUT link.npy is an input", hint);
        let linked = ["convert", "link.npy", "in.npy", "--force", "--to", "arrow"];
        place.run(&linked).fails(2, "OUT in.npy is an input", hint);
        std::fs::remove_file(place.path("link.npy")).unwrap();
    }
    assert_eq!(place.files(), before);
}

#[test]
fn mistakes_are_told_before_anything_is_read() {
    let place = with_npy();
    place.run(&["convert", "in.npy", "a.csv"]).fails(
        2,
        "a.csv: unknown extension",
        "name the format with --to: arrow, parquet, jsonl, npy, npz, safetensors, fvecs, ivecs, \
         bvecs, fbin, f16bin, u8bin, i8bin, ibin",
    );
    place.run(&["convert", "in.npy", "a.fvecs", "--type", "u8"]).fails(
        2,
        "a.fvecs: fvecs holds f32, not u8",
        "choose a format that holds all types, such as npy",
    );
    let unknown = place.run(&["convert", "in.npy", "a.npy", "--type", "f8"]);
    unknown.fails_with(2, &["invalid value 'f8'", "f16, f32, f64, u8, i8, i32"]);
    let unknown = place.run(&["convert", "in.npy", "a.npy", "--to", "csv"]);
    unknown.fails_with(2, &["invalid value 'csv'", "safetensors"]);
    assert_eq!(place.run(&["convert", "in.npy"]).code, Some(2));
    assert_eq!(place.files().len(), 1);
}

#[test]
fn what_cannot_be_converted_leaves_nothing() {
    let place = with_npy();
    place.run(&["convert", "in.npy", "a.u8bin"]).fails(
        1,
        "failed to convert in.npy: row 0: component 0 is 0.5, which u8 does not hold exactly",
        "round with --type u8, or write a format that holds all types, such as npy",
    );
    place.run(&["convert", "in.npy", "a.u8bin", "--type", "u8"]).fails(
        1,
        "failed to convert in.npy: row 2: component 1 is -4.25, out of the range of u8",
        "choose a wider type",
    );
    let bytes = std::fs::read(place.path("in.npy")).unwrap();
    let damaged = [&bytes[..bytes.len() - 4], &f32::NAN.to_le_bytes()].concat();
    place.write("nan.npy", damaged);
    place.run(&["convert", "nan.npy", "a.arrow"]).fails(
        1,
        "failed to convert nan.npy: row 2: component 1 is NaN",
        "leave such rows out of the file",
    );
    place.write("cut.npy", &bytes[..bytes.len() - 1]);
    place
        .run(&["convert", "cut.npy", "a.arrow"])
        .fails_with(1, &["cut.npy: damaged: 151 bytes", "hint: "]);
    place
        .run(&["convert", "none.npy", "a.arrow"])
        .fails_with(1, &["none.npy: No such file", "hint: check the path"]);
    place.succeed(&["convert", "in.npy", "b.parquet"]);
    place.run(&["convert", "b.parquet", "a.npy", "--column", "row"]).fails_with(
        1,
        &["column \"row\" is UInt32, expected a list", "hint: choose a column with --column NAME"],
    );
    let names: Vec<_> = place.files().into_keys().collect();
    let expected = ["b.parquet", "cut.npy", "in.npy", "nan.npy"].map(|name| place.path(name));
    assert_eq!(names, expected);
}

#[cfg(target_os = "linux")]
#[test]
fn an_interruption_leaves_nothing() {
    use crate::support::interrupt;
    let place = Place::new();
    let mut writer =
        ColumnsWriter::create_parquet(&place.path("in.parquet"), &ColumnsMeta::vectors(256));
    let writer_ref = writer.as_mut().unwrap();
    for row in 0..60_000 {
        writer_ref.push_vector(&[row as f32; 256]).unwrap();
    }
    writer.unwrap().publish().unwrap();
    let mut command = place.command(&["convert", "in.parquet", "out.jsonl"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    interrupt(&child);
    let answer = place.answer(child.wait_with_output().unwrap());
    assert_eq!(answer.code, Some(130), "{answer:?}");
    assert_eq!(answer.err, "error: interrupted; nothing was written\n");
    assert_eq!(place.files().len(), 1);
}

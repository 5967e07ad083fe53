//! `memfold convert`: the same vectors in another file.

use memfold_datasets::npy::{Component, NpyWriter};
use memfold_datasets::{MappedColumns, VectorFile};

use crate::support::TestFolder;

const ROWS: [f32; 6] = [0.5, -0.0, 1.0, f32::MIN_POSITIVE / 2.0, 3.0, -4.25];

/// Three vectors in `in.npy`.
fn with_npy() -> TestFolder {
    let dir = TestFolder::new();
    let mut writer = NpyWriter::create(&dir.path("in.npy"), 2, Component::F32).unwrap();
    writer.push(&ROWS).unwrap();
    writer.finish().unwrap();
    dir
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn vectors_go_round_through_every_format_that_is_read() {
    let dir = with_npy();
    for (from, to) in [("in.npy", "a.arrow"), ("a.arrow", "b.parquet"), ("b.parquet", "c.npy")] {
        let answer = dir.run(&["convert", from, to]);
        assert_eq!((answer.code, answer.out.as_str()), (Some(0), ""), "{answer:?}");
    }
    let read = VectorFile::open(&dir.path("c.npy")).unwrap().read_all().unwrap();
    assert_eq!(bits(&read), bits(&ROWS));
    let mapped = MappedColumns::open(&dir.path("a.arrow")).unwrap();
    assert_eq!((mapped.len(), mapped.dim()), (3, 2));
}

#[test]
fn documents_fit_the_published_schema() {
    let dir = with_npy();
    dir.succeed("convert in.npy a.parquet");
    let mut found = dir.json("convert a.parquet a.f16bin --type f16 --json");
    let seconds = found.as_object_mut().unwrap().remove("seconds").unwrap();
    assert!(seconds.as_f64().unwrap() > 0.0);
    assert!(found.as_object_mut().unwrap().remove("peak_anon_bytes").is_some());
    insta::assert_json_snapshot!("document", found);
    assert_eq!(std::fs::metadata(dir.path("a.f16bin")).unwrap().len(), 8 + 12);
}

#[test]
fn what_cannot_be_converted_leaves_nothing() {
    let dir = with_npy();
    dir.run("convert in.npy a.u8bin").fails(
        1,
        "failed to convert in.npy: row 0: component 0 is 0.5, which u8 does not hold exactly",
        "round with --type u8, or write a format that holds all types, such as npy",
    );
    dir.run("convert in.npy a.u8bin --type u8").fails(
        1,
        "failed to convert in.npy: row 2: component 1 is -4.25, out of the range of u8",
        "choose a wider type",
    );
    let bytes = std::fs::read(dir.path("in.npy")).unwrap();
    let damaged = [&bytes[..bytes.len() - 4], &f32::NAN.to_le_bytes()].concat();
    dir.write("nan.npy", damaged);
    dir.run("convert nan.npy a.arrow").fails(
        1,
        "failed to convert nan.npy: row 2: component 1 is NaN",
        "leave such rows out of the file",
    );
    dir.write("cut.npy", &bytes[..bytes.len() - 1]);
    dir.run("convert cut.npy a.arrow").fails_with(1, &["cut.npy: damaged: 151 bytes", "hint: "]);
    dir.run("convert none.npy a.arrow")
        .fails_with(1, &["none.npy: No such file", "hint: check the path"]);
    dir.succeed("convert in.npy b.parquet");
    dir.run("convert b.parquet a.npy --column row").fails_with(
        1,
        &["column \"row\" is UInt32, expected a list", "hint: choose a column with --column NAME"],
    );
    let names: Vec<_> = dir.files().into_keys().collect();
    let expected = ["b.parquet", "cut.npy", "in.npy", "nan.npy"].map(|name| dir.path(name));
    assert_eq!(names, expected);
}

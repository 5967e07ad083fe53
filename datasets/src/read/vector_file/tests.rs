use std::path::{Path, PathBuf};

use super::*;
use crate::error::EXPECTED_FORMATS;
use crate::npy::{Component, NpyWriter};
use crate::{ColumnsMeta, ColumnsWriter, ParquetWriter};

const ROWS: [f32; 6] = [0.5, -0.0, 1.0, 2.0, f32::MIN_POSITIVE / 2.0, 6.0];

/// Writes the same rows in every format, under names that do not tell.
fn write_all(folder: &Path) -> Vec<(PathBuf, VectorFormat)> {
    let path = |name: &str| folder.join(name);
    let meta = ColumnsMeta::vectors(2);
    let mut columns = ColumnsWriter::create(&path("a"), &meta).unwrap();
    let mut parquet = ParquetWriter::create(&path("b.npy"), &meta).unwrap();
    for row in ROWS.chunks(2) {
        columns.push_vector(row).unwrap();
        parquet.push_vector(row).unwrap();
    }
    columns.finish().unwrap();
    parquet.finish().unwrap();
    let mut npy = NpyWriter::create(&path("c.parquet"), 2, Component::F32).unwrap();
    npy.push(&ROWS).unwrap();
    npy.finish().unwrap();
    vec![
        (path("a"), VectorFormat::Columns),
        (path("b.npy"), VectorFormat::Parquet),
        (path("c.parquet"), VectorFormat::Npy),
    ]
}

#[test]
fn every_format_is_read_by_content() {
    let folder = tempfile::tempdir().unwrap();
    for (path, format) in write_all(folder.path()) {
        let mut file = VectorFile::open(&path).unwrap();
        assert_eq!((file.format(), file.len(), file.dim()), (format, 3, 2));
        assert_eq!(file.meta().is_some(), format != VectorFormat::Npy);
        let mut values = vec![9.0];
        assert_eq!(file.read_rows(2, &mut values).unwrap(), 2);
        assert_eq!(values, ROWS[..4]);
        assert_eq!(file.read_rows(2, &mut values).unwrap(), 1);
        assert_eq!(values, ROWS[4..]);
        assert_eq!(file.read_rows(2, &mut values).unwrap(), 0);
        assert!(values.is_empty());
        let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        let all = VectorFile::open(&path).unwrap().read_all().unwrap();
        assert_eq!(bits(&all), bits(&ROWS));
    }
}

#[test]
fn what_fits_no_format_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let said = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let error = VectorFile::open(&path).unwrap_err();
        assert!(error.hint().is_some());
        error.to_string().replace(&format!("{}: ", path.display()), "")
    };
    assert_eq!(
        said("rows.csv", b"a,b\n1,2\n"),
        format!(r#"expected {EXPECTED_FORMATS}, found a file that begins with "a,b\n1,2\n""#)
    );
    assert_eq!(
        said("rows", b""),
        format!(r#"expected {EXPECTED_FORMATS}, found a file that begins with """#)
    );
    assert_eq!(said("rows.NPY", b"a,b\n1,2\n"), r#"it begins with "a,b\n1,2\n", not an npy file"#);
    assert_eq!(
        said("rows.parquet", b"a,b\n1,2\n"),
        r#"not a readable Parquet file (it begins with "a,b\n")"#
    );
    assert!(said("rows.arrow", b"a,b\n1,2\n").starts_with("not a finished Arrow IPC file"));
    let missing = VectorFile::open(&folder.path().join("missing")).unwrap_err();
    assert!(missing.to_string().contains("missing: "), "{missing}");
}

#[test]
fn a_component_damaged_in_a_column_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = write_all(folder.path()).remove(0);
    let mut bytes = std::fs::read(&path).unwrap();
    let needle: Vec<u8> = ROWS[2..4].iter().flat_map(|x| x.to_le_bytes()).collect();
    let at = bytes.windows(8).position(|window| window == needle).unwrap();
    bytes[at + 4..at + 8].copy_from_slice(&f32::INFINITY.to_le_bytes());
    std::fs::write(&path, &bytes).unwrap();
    let error = VectorFile::open(&path).unwrap().read_all().unwrap_err();
    assert_eq!(error.to_string(), format!("{}: row 1: component 1 is inf", path.display()));
}

#[test]
fn vectors_are_read_on_any_thread() {
    let folder = tempfile::tempdir().unwrap();
    for (path, _) in write_all(folder.path()) {
        let file = VectorFile::open(&path).unwrap();
        let read = std::thread::spawn(move || file.read_all()).join().unwrap();
        assert_eq!(read.unwrap().len(), ROWS.len());
    }
}

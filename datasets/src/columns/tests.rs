//! Written and read back; damaged files are refused.

use std::path::Path;

use memfold_index::Row;
use proptest::prelude::*;

use super::*;
use crate::DataError;
use crate::schema::{BATCH_ROWS, ColumnSet, ColumnsMeta};

fn records_meta(text: bool) -> ColumnsMeta {
    ColumnsMeta {
        dim: 3,
        model: Some("all-MiniLM-L6-v2".into()),
        normalised: true,
        source_hash: Some("ab12".into()),
        synthetic: false,
        columns: ColumnSet::Records { text, lineage: text },
    }
}

fn record<'a>(id: &'a str, categories: &'a [Box<str>], vector: &'a [f32]) -> ColumnRecord<'a> {
    ColumnRecord {
        rowid: 7,
        id,
        created_at: (id != "b").then_some(1_700_000_000_000_000),
        categories,
        importance: 1.5,
        access_count: 3,
        source: "agent",
        model: "m",
        text: (id != "a").then_some("text, ünï"),
        lineage: None,
        vector,
    }
}

fn write_three(path: &Path) -> MappedColumns {
    let mut writer = ColumnsWriter::create(path, &records_meta(true)).unwrap();
    let categories: [Box<str>; 2] = ["one".into(), "två".into()];
    for (i, id) in ["a", "b", "c"].into_iter().enumerate() {
        let vector = [i as f32, -0.0, f32::MIN_POSITIVE / 2.0];
        let row = writer.push(&record(id, &categories[..i.min(2)], &vector)).unwrap();
        assert_eq!(row.index(), i);
    }
    writer.finish().unwrap()
}

#[test]
fn rows_come_back_bit_equal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("columns.arrow");
    write_three(&path);
    let columns = MappedColumns::open(&path).unwrap();
    assert_eq!((columns.len(), columns.dim()), (3, 3));
    assert_eq!(*columns.meta(), records_meta(true));
    let vector = columns.vectors().vector(Row(2)).iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(vector, [2.0f32, -0.0, f32::MIN_POSITIVE / 2.0].map(f32::to_bits));
    assert!(columns.ids().unwrap().iter().eq([Some("a"), Some("b"), Some("c")]));
    for (row, id) in (0..).zip(["a", "b", "c"]) {
        assert_eq!(
            (columns.id_at(Row(row)).unwrap(), columns.rowid_at(Row(row)).unwrap()),
            (id, 7)
        );
    }
    let records = columns.records().unwrap();
    let last = records.record(Row(2));
    assert_eq!(last.categories, ["one".into(), "två".into()]);
    assert_eq!((last.created_at, last.text), (Some(1_700_000_000_000_000), Some("text, ünï")));
    assert_eq!((last.rowid, last.access_count, last.source, last.model), (7, 3, "agent", "m"));
    assert_eq!(records.record(Row(1)).created_at, None);
    assert_eq!(records.record(Row(0)).text, None);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn vectors_are_lent_from_the_map_at_aligned_places() {
    let folder = tempfile::tempdir().unwrap();
    let columns = write_three(&folder.path().join("columns.arrow"));
    let matrix = columns.vectors();
    assert_eq!(matrix.vector(Row(0)).as_ptr() as usize % 64, 0);
    assert!(std::ptr::eq(matrix.vector(Row(0)), columns.clone().vectors().vector(Row(0))));
}

#[test]
fn batches_join_into_one_matrix() {
    let mut writer =
        ColumnsWriter::from_file(tempfile::tempfile().unwrap(), &ColumnsMeta::vectors(1)).unwrap();
    let count = 2 * BATCH_ROWS + 5;
    for i in 0..count {
        writer.push_vector(&[i as f32]).unwrap();
    }
    let columns = writer.finish().unwrap();
    let matrix = columns.vectors();
    assert_eq!(matrix.len(), count);
    assert!(matrix.rows().all(|row| matrix.vector(row) == [row.index() as f32]));
    let error = columns.records().unwrap_err();
    assert_eq!(error.to_string(), "unnamed file: no column id, found row, vector");
}

#[test]
fn an_empty_file_has_no_rows() {
    let folder = tempfile::tempdir().unwrap();
    let writer = ColumnsWriter::create_unlinked(folder.path(), &ColumnsMeta::vectors(4)).unwrap();
    let columns = writer.finish().unwrap();
    assert!(columns.is_empty() && columns.vectors().is_empty());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn what_does_not_fit_is_refused_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("columns.arrow");
    let mut writer = ColumnsWriter::create(&path, &ColumnsMeta::vectors(2)).unwrap();
    let said = |error: DataError| error.to_string();
    assert_eq!(
        said(writer.push_vector(&[1.0]).unwrap_err()),
        "row 0: vector has 1 components, expected 2"
    );
    assert_eq!(
        said(writer.push_vector(&[1.0, f32::NAN]).unwrap_err()),
        "row 0: component 1 is NaN"
    );
    assert_eq!(
        said(writer.push(&record("a", &[], &[1.0, 0.0])).unwrap_err()),
        "row 0: a record in a file of bare vectors"
    );
    drop(writer);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let mut writer = ColumnsWriter::create(&path, &records_meta(false)).unwrap();
    assert_eq!(
        said(writer.push_vector(&[1.0, 0.0, 0.0]).unwrap_err()),
        "row 0: a bare vector in a file of records"
    );
    let error = ColumnsWriter::create(&path, &ColumnsMeta::vectors(0)).err().unwrap();
    assert_eq!(said(error), "vectors of 0 components, expected 1 to 65536");
    let nowhere = folder.path().join("missing").join("columns.arrow");
    let error = ColumnsWriter::create(&nowhere, &ColumnsMeta::vectors(1)).err().unwrap();
    assert_eq!(error.hint().as_deref(), Some("create the folder first"));
    assert!(said(error).starts_with(&format!("{}: ", nowhere.display())));
}

#[test]
fn other_files_are_named_as_what_they_are() {
    let open = |bytes: &[u8]| {
        let buffer = arrow_buffer::Buffer::from(bytes);
        MappedColumns::from_buffer(buffer, Path::new("f")).unwrap_err().to_string()
    };
    assert_eq!(open(b""), "f: not a finished Arrow IPC file (0 bytes)");
    assert_eq!(
        open(b"PAR1 and more bytes"),
        "f: not a finished Arrow IPC file (it begins with \"PAR1 a\")"
    );
    assert_eq!(
        open(b"ARROW1\0\0 cut in the middle"),
        "f: not a finished Arrow IPC file (it ends with \"middle\")"
    );
    assert_eq!(
        open(b"ARROW1\0\0\xFF\xFF\0\0ARROW1"),
        "f: not a finished Arrow IPC file (a footer of 65535 bytes)"
    );
}

#[test]
fn every_truncation_is_an_error() {
    let bytes = file_bytes();
    for length in 0..bytes.len() {
        let buffer = arrow_buffer::Buffer::from(&bytes[..length]);
        MappedColumns::from_buffer(buffer, Path::new("f")).unwrap_err();
    }
}

fn file_bytes() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("columns.arrow");
    write_three(&path);
    std::fs::read(path).unwrap()
}

fn read_all(bytes: &[u8]) -> Result<usize, DataError> {
    let columns = MappedColumns::from_buffer(arrow_buffer::Buffer::from(bytes), Path::new("f"))?;
    let matrix = columns.vectors();
    let values: usize = matrix.rows().map(|row| matrix.vector(row).len()).sum();
    let ids: usize = columns.ids()?.iter().flatten().map(str::len).sum();
    let records = columns.records()?;
    let texts: usize = matrix.rows().map(|row| records.record(row).source.len()).sum();
    Ok(values + ids + texts)
}

#[test]
fn no_flipped_bit_makes_it_panic() {
    let mut bytes = file_bytes();
    let mut errors = 0;
    for position in 0..bytes.len() * 8 {
        bytes[position / 8] ^= 1 << (position % 8);
        errors += usize::from(read_all(&bytes).is_err());
        bytes[position / 8] ^= 1 << (position % 8);
    }
    assert!(errors > 1000, "{errors} errors");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn no_overwritten_bytes_make_it_panic(
        at in any::<prop::sample::Index>(),
        with in prop::collection::vec(prop_oneof![Just(0u8), Just(0xFF), any::<u8>()], 1..9),
    ) {
        static BYTES: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
        let mut bytes = BYTES.get_or_init(file_bytes).clone();
        let start = at.index(bytes.len() - with.len());
        bytes[start..start + with.len()].copy_from_slice(&with);
        let _ = read_all(&bytes);
    }
}

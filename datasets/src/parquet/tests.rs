use crate::DataError;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, ListArray, RecordBatch};
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;

use super::*;
use crate::VectorFile;
use crate::columns::ColumnRecord;
use crate::schema::{BATCH_ROWS, ColumnSet, ColumnsMeta};

mod plain;
mod written;

/// What the files of `tests-data/parquet` hold.
const ROWS: [f32; 9] = [0.5, -0.25, 3.0, 1.0, 0.0, -0.0, 65504.0, 0.125, -2.0];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests-data/parquet/{name}.parquet"))
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn records_meta() -> ColumnsMeta {
    ColumnsMeta {
        dim: 3,
        model: Some("all-MiniLM-L6-v2".into()),
        normalised: true,
        source_hash: Some("ab12".into()),
        synthetic: false,
        columns: ColumnSet::Records { text: true, lineage: false },
    }
}

fn write_records(path: &Path) {
    let mut writer = ParquetWriter::create(path, &records_meta()).unwrap();
    let categories: [Box<str>; 2] = ["one".into(), "två".into()];
    for (i, vector) in ROWS.chunks(3).enumerate() {
        let id = format!("stm_{i}");
        let row = writer.push(&ColumnRecord {
            rowid: i as i64,
            id: &id,
            created_at: (i != 1).then_some(1_700_000_000_000_000),
            categories: &categories[..i.min(2)],
            importance: 1.5,
            access_count: 3,
            source: "agent",
            model: "m",
            text: (i != 1).then_some("text, ünï"),
            lineage: None,
            vector,
        });
        assert_eq!(row.unwrap().index(), i);
    }
    assert_eq!(writer.len(), 3);
    writer.finish().unwrap();
}

#[test]
fn files_of_other_programs_are_read_bit_equal() {
    let names =
        ["list_f32", "large_list_f64", "fixed_list_f16", "fixed_list_f32_pages_v2", "fixed_binary"];
    for name in names {
        let reader = VectorFile::open(&fixture(name)).unwrap();
        assert_eq!((reader.len(), reader.dim(), reader.meta()), (3, 3, None), "{name}");
        assert_eq!(bits(&reader.read_all().unwrap()), bits(&ROWS), "{name}");
    }
}

#[test]
fn every_codec_is_read() {
    let gzip = VectorFile::open(&fixture("gzip")).unwrap();
    assert_eq!(bits(&gzip.read_all().unwrap()), bits(&ROWS));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    let rows = (0..500).map(|i| Some([Some(i % 7), Some(i)]));
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(rows));
    let batch = RecordBatch::try_from_iter([("vector", lists)]).unwrap();
    for codec in [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(ZstdLevel::default()),
        Compression::GZIP(GzipLevel::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::BROTLI(BrotliLevel::default()),
    ] {
        let properties = WriterProperties::builder().set_compression(codec).build();
        let file = File::create(&path).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let values = VectorFile::open(&path).unwrap().read_all().unwrap();
        assert!((0..500).all(|i| values[2 * i..][..2] == [(i % 7) as f32, i as f32]), "{codec}");
    }
}

#[test]
fn a_column_can_be_chosen() {
    let path = fixture("two_vectors");
    assert_eq!(VectorFile::open(&path).unwrap().dim(), 2);
    let reader = VectorFile::open_member(&path, Some("embedding")).unwrap();
    assert_eq!(bits(&reader.read_all().unwrap()), bits(&ROWS));
}

#[test]
fn integers_are_read_where_f32_holds_them() {
    let reader = VectorFile::open(&fixture("integers")).unwrap();
    assert_eq!(reader.read_all().unwrap(), [1.0, 2.0, 3.0]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    let rows = [[1, -2], [7, (1 << 24) + 1]].map(|row| Some(row.map(Some)));
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(rows));
    let batch = RecordBatch::try_from_iter([("vector", lists)]).unwrap();
    let mut writer =
        ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let error = VectorFile::open(&path).unwrap().read_all().unwrap_err();
    assert!(error.hint().is_some());
    let said = error.to_string();
    assert!(
        said.ends_with("row 1: component 1 is 16777217, which f32 does not hold exactly"),
        "{said}"
    );
}

#[test]
fn texts_are_read_in_order() {
    let read = |name: &str, names: &[&str]| -> Vec<Option<String>> {
        ParquetText::open(&fixture(name), names).unwrap().map(Result::unwrap).collect()
    };
    let some = |text: &str| Some(text.to_owned());
    let texts = [some("first"), None, some("drei ünï")];
    assert_eq!(read("list_f32", &["content", "text"]), texts);
    assert_eq!(read("two_vectors", &["text"]), [some("a"), some("b"), some("a")]);
    let text = ParquetText::open(&fixture("list_f32"), &["content", "text"]).unwrap();
    assert_eq!((text.row_count(), text.column()), (3, "text"));
}

#[test]
fn real_texts_are_read_beside_their_vectors() {
    let Some(folder) = std::env::var_os("MEMFOLD_DATA") else {
        let _ = std::io::stdout().write_all(b"skipped: MEMFOLD_DATA is not set\n");
        return;
    };
    let folder = Path::new(&folder).join("embeddings");
    let vectors = crate::VectorFile::open(&folder.join("vectors_f16.npy")).unwrap();
    for name in ["text", "created_at"] {
        let texts = ParquetText::open(&folder.join("texts.parquet"), &[name]).unwrap();
        assert_eq!(texts.row_count(), vectors.len());
        let texts: Vec<String> = texts.map(|text| text.unwrap().unwrap()).collect();
        assert_eq!(texts.len(), vectors.len());
        assert!(texts.iter().all(|text| !text.is_empty()));
    }
}

#[test]
fn what_is_wrong_is_named() {
    let said = |name: &str| -> String {
        let read = VectorFile::open(&fixture(name)).and_then(VectorFile::read_all);
        let message = read.unwrap_err().to_string();
        let prefix = format!("{}: ", fixture(name).display());
        message.strip_prefix(&prefix).expect("a message begins with the path").to_owned()
    };
    assert_eq!(said("null_row"), "row 1: the vector is null");
    assert_eq!(said("null_component"), "row 1: component 1 is null");
    assert_eq!(said("ragged"), "row 2: vector has 1 components, expected 3");
    assert_eq!(said("not_finite"), "row 1: component 1 is inf");
    assert_eq!(
        said("no_vector"),
        r#"no column vector, embedding, embeddings, emb, found "row" (Int64), "text" (Utf8), "score" (Float64)"#
    );
    let column =
        VectorFile::open_member(&fixture("list_f32"), Some("text")).unwrap_err().to_string();
    assert!(
        column.ends_with(
            r#"column "text" is Utf8, expected a list of f16, f32, f64, i8, u8, i32 or i64, or fixed-size binary of 4-byte floats"#
        ),
        "{column}"
    );
    let text = ParquetText::open(&fixture("list_f32"), &["row"]).unwrap_err().to_string();
    assert!(text.ends_with(r#"column "row" is Int64, expected text"#), "{text}");
}

#[test]
fn other_files_are_named_as_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.parquet");
    let said = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let error = VectorFile::open(&path).unwrap_err();
        assert!(error.hint().is_some());
        error.to_string().replace(&format!("{}: not a readable Parquet file ", path.display()), "")
    };
    let bytes = std::fs::read(fixture("list_f32")).unwrap();
    assert_eq!(said(b""), r#"(it begins with "")"#);
    assert_eq!(said(b"PAR1PAR1"), "(cut off after 8 bytes)");
    assert_eq!(said(&bytes[..100]), r#"(cut off: it ends in "\x00\x00\x11\x11")"#);
    assert_eq!(said(b"PAR1\xFF\xFF\xFF\x7FPAR1"), "(a footer of 2147483647 bytes in 12)");
    assert_eq!(said(b"PAR1\0\0\0\0PARE"), "(its footer is encrypted)");
    std::fs::remove_file(&path).unwrap();
    let missing = VectorFile::open(&path).unwrap_err();
    assert!(missing.to_string().starts_with(&format!("{}: No such file", path.display())));
}

#[test]
fn our_columns_come_back_with_their_metadata() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    write_records(&path);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let reader = VectorFile::open(&path).unwrap();
    assert_eq!(reader.meta(), Some(records_meta()));
    assert_eq!(bits(&reader.read_all().unwrap()), bits(&ROWS));
    let column = |name: &str| -> Vec<Option<String>> {
        ParquetText::open(&path, &[name]).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(column("text"), [Some("text, ünï".into()), None, Some("text, ünï".into())]);
    assert_eq!(column("id"), ["stm_0", "stm_1", "stm_2"].map(|id| Some(id.to_owned())));
}

#[test]
fn the_same_rows_make_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
    write_records(&a);
    write_records(&b);
    assert!(std::fs::read(a).unwrap() == std::fs::read(b).unwrap());
}

#[test]
fn row_groups_join_and_rows_come_in_portions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    let mut writer = ParquetWriter::create(&path, &ColumnsMeta::vectors(2)).unwrap();
    let count = BATCH_ROWS + 5;
    for i in 0..count {
        writer.push_vector(&[i as f32, 1.0]).unwrap();
    }
    writer.finish().unwrap();
    let mut reader = VectorFile::open(&path).unwrap();
    assert_eq!((reader.len(), reader.meta()), (count, Some(ColumnsMeta::vectors(2))));
    let (mut row, mut values) = (0, vec![7.0]);
    loop {
        let rows = reader.read_rows(1000, &mut values).unwrap();
        assert_eq!(values.len(), 2 * rows);
        assert!(values.chunks(2).enumerate().all(|(i, v)| v == [(row + i) as f32, 1.0]));
        row += rows;
        if rows == 0 {
            break;
        }
        assert!(rows == 1000 || row == count);
    }
    assert_eq!(row, count);
}

#[test]
fn an_empty_file_keeps_its_dimension() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    ParquetWriter::create(&path, &ColumnsMeta::vectors(4)).unwrap().finish().unwrap();
    let reader = VectorFile::open(&path).unwrap();
    assert_eq!((reader.dim(), reader.is_empty()), (4, true));
    assert!(reader.read_all().unwrap().is_empty());
}

#[test]
fn an_abandoned_file_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    let mut writer = ParquetWriter::create(&path, &ColumnsMeta::vectors(2)).unwrap();
    let error = writer.push_vector(&[1.0, f32::INFINITY]).unwrap_err();
    assert_eq!(error.to_string(), "row 0: component 1 is inf");
    drop(writer);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let nowhere = folder.path().join("missing").join("rows.parquet");
    let error = ParquetWriter::create(&nowhere, &ColumnsMeta::vectors(2)).err().unwrap();
    assert!(matches!(error, DataError::Io { .. }));
}

/// A copy of a fixture to be damaged in place: writing a file anew waits for the disk.
struct Damaged {
    file: tempfile::NamedTempFile,
    bytes: Vec<u8>,
}

impl Damaged {
    fn new(name: &str) -> Self {
        let bytes = std::fs::read(fixture(name)).unwrap();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        Self { file, bytes }
    }

    fn overwrite(&mut self, at: usize, with: &[u8]) {
        self.file.seek(SeekFrom::Start(at as u64)).unwrap();
        self.file.write_all(with).unwrap();
    }

    /// Reads everything; returns how many rows were there.
    fn read(&self) -> Result<usize, DataError> {
        let text =
            ParquetText::open(self.file.path(), &["text"])?.collect::<Result<Vec<_>, _>>()?;
        let reader = VectorFile::open(self.file.path())?;
        let dim = reader.dim();
        let rows = reader.read_all()?.len() / dim;
        assert_eq!(rows, text.len());
        Ok(rows)
    }
}

#[test]
fn every_truncation_is_an_error() {
    let damaged = Damaged::new("list_f32");
    for length in (0..damaged.bytes.len()).rev() {
        damaged.file.as_file().set_len(length as u64).unwrap();
        assert!(damaged.read().is_err(), "{length}");
    }
}

#[test]
fn no_flipped_bit_makes_it_panic() {
    for name in ["list_f32", "fixed_list_f32_pages_v2", "fixed_binary"] {
        let mut damaged = Damaged::new(name);
        let mut errors = 0;
        for position in 0..damaged.bytes.len() * 8 {
            let (at, byte) = (position / 8, damaged.bytes[position / 8]);
            damaged.overwrite(at, &[byte ^ 1 << (position % 8)]);
            errors += usize::from(damaged.read().is_err());
            damaged.overwrite(at, &[byte]);
        }
        assert!(errors > 1000, "{name}: {errors} errors");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn no_overwritten_bytes_make_it_panic(
        at in any::<prop::sample::Index>(),
        with in prop::collection::vec(prop_oneof![Just(0u8), Just(0xFF), any::<u8>()], 1..9),
    ) {
        static DAMAGED: std::sync::OnceLock<std::sync::Mutex<Damaged>> = std::sync::OnceLock::new();
        let damaged = DAMAGED.get_or_init(|| std::sync::Mutex::new(Damaged::new("list_f32")));
        let mut damaged = damaged.lock().unwrap();
        let start = at.index(damaged.bytes.len() - with.len());
        damaged.overwrite(start, &with);
        let _ = damaged.read();
        let before = damaged.bytes[start..start + with.len()].to_vec();
        damaged.overwrite(start, &before);
    }
}

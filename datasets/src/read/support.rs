//! Files of every format for tests.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Cursor, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::builder::{
    FixedSizeBinaryBuilder, FixedSizeListBuilder, Float32Builder, Float64Builder, LargeListBuilder,
    ListBuilder, StringBuilder,
};
use arrow_array::types::Int8Type;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray, StringViewArray,
    StructArray, TimestampMicrosecondArray,
};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{DataType, Field, Schema};
use memfold_index::Progress;
use parquet::arrow::ArrowWriter;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::{DECODE_ROWS, Source, SourceOptions, Texts, open, vectors_of};
use crate::npy::{Component, NpyWriter};
use crate::vectors::VectorCells;
use crate::{ColumnRecord, ColumnSet, ColumnsMeta, ColumnsWriter, DataError};

/// The form of a test file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Parquet,
    Arrow,
    ArrowLz4,
    ArrowZstd,
    ArrowStream,
}

impl Form {
    pub(crate) const ALL: [Self; 5] =
        [Self::Parquet, Self::Arrow, Self::ArrowLz4, Self::ArrowZstd, Self::ArrowStream];

    const fn file_name(self) -> &'static str {
        match self {
            Self::Parquet => "rows.parquet",
            Self::Arrow => "rows.arrow",
            Self::ArrowLz4 => "lz4.arrow",
            Self::ArrowZstd => "zstd.arrow",
            Self::ArrowStream => "stream.arrow",
        }
    }
}

/// A file that a foreign program wrote, with the rows of [`ROWS`].
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests-data").join(name)
}

/// The vectors of the files in `tests-data`.
pub(crate) const ROWS: [f32; 9] = [0.5, -0.25, 3.0, 1.0, 0.0, -0.0, 65504.0, 0.125, -2.0];

/// Makes a batch with nullable columns.
pub(crate) fn batch(columns: &[(&str, ArrayRef)]) -> RecordBatch {
    let fields = columns.iter().map(|(name, c)| Field::new(*name, c.data_type().clone(), true));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    let columns = columns.iter().map(|(_, column)| Arc::clone(column)).collect();
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

/// Writes batches of one schema into `folder`.
pub(crate) fn write(folder: &Path, form: Form, batches: &[RecordBatch]) -> PathBuf {
    let path = folder.join(form.file_name());
    write_as(&path, form, batches);
    path
}

/// Writes batches of one schema to `path`.
pub(crate) fn write_as(path: &Path, form: Form, batches: &[RecordBatch]) {
    let (file, schema) = (File::create(path).unwrap(), batches[0].schema());
    let compression = match form {
        Form::ArrowLz4 => Some(CompressionType::LZ4_FRAME),
        Form::ArrowZstd => Some(CompressionType::ZSTD),
        _ => None,
    };
    match form {
        Form::Parquet => {
            let mut writer = ArrowWriter::try_new(file, schema, None).unwrap();
            for batch in batches {
                writer.write(batch).unwrap();
                // A row group of its own, so that files have several.
                writer.flush().unwrap();
            }
            writer.close().unwrap();
        }
        Form::ArrowStream => {
            let mut writer = StreamWriter::try_new(file, &schema).unwrap();
            batches.iter().for_each(|batch| writer.write(batch).unwrap());
            writer.finish().unwrap();
        }
        Form::Arrow | Form::ArrowLz4 | Form::ArrowZstd => {
            let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
            let mut writer = FileWriter::try_new_with_options(file, &schema, options).unwrap();
            batches.iter().for_each(|batch| writer.write(batch).unwrap());
            writer.finish().unwrap();
        }
    }
}

/// Changes a file as far as its time tells.
pub(crate) fn touch(path: &Path) -> File {
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    file
}

/// Opens the file at `path`.
pub(crate) fn opened(path: &Path) -> Result<Arc<dyn Source>, crate::DataError> {
    open(path, &SourceOptions::default()).map(|opened| opened.source)
}

/// Reads all columns of the file at `path`.
pub(crate) fn read(path: &Path) -> Vec<RecordBatch> {
    let file = opened(path).unwrap();
    let positions: Vec<usize> = (0..file.schema().fields().len()).collect();
    file.batches(&positions, DECODE_ROWS).unwrap().map(Result::unwrap).collect()
}

/// Rows after their number and that of their components.
pub(crate) fn bin(rows: u32, dim: u32, data: &[u8]) -> Vec<u8> {
    [&rows.to_le_bytes()[..], &dim.to_le_bytes(), data].concat()
}

/// Rows of `row_bytes`, each after its number of components.
pub(crate) fn vecs(dim: u32, row_bytes: usize, data: &[u8]) -> Vec<u8> {
    data.chunks(row_bytes).flat_map(|row| [&dim.to_le_bytes()[..], row].concat()).collect()
}

/// An npy file of version 1.
pub(crate) fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let header = format!("{header:<117}\n");
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), data].concat()
}

pub(crate) fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

/// A zip file of arrays: name, content, and whether it is deflated.
pub(crate) fn zip(members: &[(&str, &[u8], bool)]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, data, is_deflated) in members {
        let method = [CompressionMethod::Stored, CompressionMethod::Deflated];
        let method = method[usize::from(*is_deflated)];
        let options = SimpleFileOptions::default().compression_method(method);
        archive.start_file(*name, options).unwrap();
        archive.write_all(data).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// Reads all vectors, each of which must be finite and as long as the others; `member` names their
/// column or array.
pub(crate) fn vectors_in(path: &Path, member: Option<&str>) -> Result<Vec<f32>, DataError> {
    let options = SourceOptions { member: member.map(str::to_owned), ..SourceOptions::default() };
    let source = open(path, &options)?.source;
    let (position, dim) = vectors_of(&*source, path, member)?;
    let (mut values, mut row) = (Vec::new(), 0);
    for batch in source.batches(&[position], DECODE_ROWS)? {
        let cells = VectorCells::of(batch?.column(0)).unwrap();
        for i in 0..cells.len() {
            if let Some(fault) = cells.fault(i, dim, true) {
                return Err(DataError::Vector { path: path.into(), row, fault });
            }
            cells.append(i, &mut values);
            row += 1;
        }
    }
    Ok(values)
}

/// Reads all vectors, which fails, and returns the error without the path.
#[track_caller]
pub(crate) fn said(path: &Path, member: Option<&str>) -> String {
    let read = vectors_in(path, member);
    let error = read.map(|values| values.len()).expect_err(&path.display().to_string());
    assert!(error.hint().is_some() || matches!(error, DataError::Io { .. }), "{error}");
    error.to_string().replace(&format!("{}: ", path.display()), "")
}

/// Checks the message about each file: a line of `expected`, which begins with a blank one.
#[track_caller]
pub(crate) fn check_said(files: Vec<(&str, Vec<u8>)>, expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let found = files.into_iter().enumerate().map(|(i, (name, bytes))| {
        let path = folder.path().join(format!("{i}_{name}"));
        std::fs::write(&path, bytes).unwrap();
        format!("\n{}", said(&path, None))
    });
    let found: String = found.collect();
    assert!(found == expected, "found:{found}\n\nexpected:{expected}");
}

/// Returns every row of a column as text, for any encoding and batches.
pub(crate) fn shown(batches: &[RecordBatch], column: &str) -> Vec<String> {
    let columns = batches.iter().map(|batch| batch.column_by_name(column).unwrap());
    let shown = columns.flat_map(|values| match Texts::of(values) {
        Some(texts) => (0..values.len()).map(|i| format!("{:?}", texts.get(i))).collect::<Vec<_>>(),
        None => (0..values.len()).map(|i| format!("{:?}", values.slice(i, 1))).collect(),
    });
    shown.collect()
}

/// Checks that a file made of [`many_columns`] begins with these columns, all `but` one the same;
/// dictionaries become texts in Arrow.
#[track_caller]
pub(crate) fn check_columns(path: &Path, before: &[RecordBatch], but: &str) {
    let (file, after) = (opened(path).unwrap(), read(path));
    assert_eq!(file.schema().metadata()["made"], "by a test");
    for (was, is) in before[0].schema().fields().iter().zip(file.schema().fields()) {
        assert_eq!(was.name(), is.name());
        let is_text = was.name() == "kind" && path.extension().is_some_and(|it| it == "arrow");
        let data_type = if is_text { &DataType::LargeUtf8 } else { was.data_type() };
        if was.name() != but {
            assert_eq!(is.data_type(), data_type, "{was}");
            assert!(shown(&after, was.name()) == shown(before, was.name()), "{was}");
        }
    }
}

/// Columns of many types with nulls, and vectors of each form, for some rows.
pub(crate) fn many_columns(rows: Range<i64>) -> RecordBatch {
    let each = || rows.clone();
    let text = |row: i64| (row % 4 != 1).then(|| format!("a \"text\" of some length {row}\n"));
    let mut tags = ListBuilder::new(StringBuilder::new());
    let mut lists = ListBuilder::new(Float64Builder::new());
    let mut large = LargeListBuilder::new(Float32Builder::new());
    let mut bytes = FixedSizeBinaryBuilder::new(8);
    let [mut vectors, mut holes] =
        [(); 2].map(|()| FixedSizeListBuilder::new(Float32Builder::new(), 2));
    for row in each() {
        tags.append_option((row % 5 != 2).then(|| (0..row % 3).map(text).collect::<Vec<_>>()));
        let (x, y) = (row as f64 / 7.0, -0.0);
        lists.append_value([Some(x), Some(y)]);
        large.append_value([Some(x as f32), Some(y as f32)]);
        bytes.append_value([(x as f32).to_le_bytes(), (y as f32).to_le_bytes()].concat()).unwrap();
        // Every seventh vector is zero.
        vectors.values().append_slice(&[if row % 7 == 3 { 0.0 } else { 1.0 }, 0.0]);
        vectors.append(true);
        holes.values().append_slice(&[x as f32, y as f32]);
        holes.append(row % 3 != 0);
    }
    let numbers: ArrayRef =
        Arc::new(each().map(|row| (row % 3 != 0).then_some(row)).collect::<Int64Array>());
    let nested = Field::new("n", DataType::Int64, true);
    let times = TimestampMicrosecondArray::from_iter_values(each()).with_timezone("UTC");
    let kinds: DictionaryArray<Int8Type> =
        each().map(|row| ["x", "y"].get(row as usize % 3).copied()).collect();
    let plain = batch(&[
        ("id", Arc::new(each().map(text).collect::<StringArray>()) as ArrayRef),
        ("view", Arc::new(each().map(text).collect::<StringViewArray>())),
        ("kind", Arc::new(kinds)),
        ("at", Arc::new(times)),
        ("tags", Arc::new(tags.finish())),
        ("both", Arc::new(StructArray::new(vec![nested].into(), vec![numbers], None))),
        ("vector", Arc::new(vectors.finish())),
        ("lists", Arc::new(lists.finish())),
        ("large", Arc::new(large.finish())),
        ("bytes", Arc::new(bytes.finish())),
        ("holes", Arc::new(holes.finish())),
    ]);
    with_metadata(&plain, [("made".to_owned(), "by a test".to_owned())].into())
}

pub(crate) fn with_metadata(batch: &RecordBatch, metadata: HashMap<String, String>) -> RecordBatch {
    let schema = Schema::clone(&batch.schema()).with_metadata(metadata);
    RecordBatch::try_new(Arc::new(schema), batch.columns().to_vec()).unwrap()
}

/// Writes an npy file of f32.
pub(crate) fn write_npy(path: &Path, dim: usize, values: &[f32]) {
    let mut writer = NpyWriter::create(path, dim, Component::F32).unwrap();
    writer.push(values).unwrap();
    writer.finish().unwrap();
}

/// Metadata of a column file of records with three components.
pub(crate) fn records_meta(text: bool, lineage: bool) -> ColumnsMeta {
    ColumnsMeta {
        model: Some("all-MiniLM-L6-v2".into()),
        normalised: true,
        source_hash: Some("ab12".into()),
        columns: ColumnSet::Records { text, lineage },
        ..ColumnsMeta::vectors(3)
    }
}

/// Appends some records, with nulls here and there, and publishes the file.
pub(crate) fn write_records(mut writer: ColumnsWriter, vectors: &[f32]) {
    let categories: [Box<str>; 2] = ["one".into(), "två".into()];
    for (i, vector) in vectors.chunks(3).enumerate() {
        let row = writer.push(&ColumnRecord {
            rowid: 7 * i as i64,
            id: &format!("m{i}"),
            created_at: (i % 5 != 1).then_some(1_700_000_000_000_000),
            categories: &categories[..i % 3],
            importance: 1.5,
            access_count: 3,
            source: "agent",
            model: "m",
            text: (i % 7 != 0).then_some("text, ünï"),
            lineage: None,
            vector,
        });
        assert_eq!(row.unwrap().index(), i);
    }
    assert_eq!(writer.len(), vectors.len() / 3);
    writer.publish().unwrap();
}

/// Counts rows, and asks to stop after some.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    pub(crate) done: AtomicU64,
    pub(crate) total: AtomicU64,
    pub(crate) stop_after: u64,
}

impl Progress for Counting {
    fn begin(&self, _: &'static str, total: Option<u64>) {
        self.total.store(total.unwrap(), Ordering::Relaxed);
    }
    fn advance(&self, done: u64) {
        self.done.fetch_add(done, Ordering::Relaxed);
    }
    fn end(&self) {}
    fn cancelled(&self) -> bool {
        self.done.load(Ordering::Relaxed) >= self.stop_after
    }
}

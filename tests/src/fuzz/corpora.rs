//! Corpora: npy, Arrow and Parquet, of ours and of other programs.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use memfold_datasets::npy::{Component, NpyWriter};
use memfold_datasets::{ColumnSet, ColumnsMeta, ColumnsWriter, Corpus, CorpusOptions};
use memfold_index::Row;

use super::files::{folder, with_file};
use super::{Changes, columns};

const NPY_WORDS: &str = "\
    descr fortran_order shape <f2 <f4 <f8 >f4 |O False True ( ) , ' { } 3 65536 4294967295 \
    18446744073709551615";

fn npy_files() -> &'static [Vec<u8>] {
    static FILES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    FILES.get_or_init(|| {
        let folder = folder();
        let path = folder.path().join("vectors.npy");
        let made = |component| {
            let mut writer = NpyWriter::create(&path, 3, component).expect("it can be written");
            writer.push(&[0.5, -1.0, 2.0, 0.0, 0.0, 0.0, 1.0, 0.25, 3.0]).expect("three rows");
            writer.finish().expect("it can be written");
            std::fs::read(&path).expect("it was written a moment ago")
        };
        [Component::F16, Component::F32, Component::F64].map(made).to_vec()
    })
}

/// Takes an npy file.
pub(super) fn npy(bytes: &[u8]) {
    let mut changes = Changes::new(bytes);
    let kind = changes.below(4);
    let files = npy_files();
    let mut file = changes.pick(&[0, 1, 2].map(|i: usize| &files[i % files.len()])).clone();
    match kind {
        0 => file = changes.rest().to_vec(),
        1 => changes.apply(&mut file),
        _ => changes.apply_to_text(&mut file, NPY_WORDS),
    }
    with_file("fuzzed.npy", &file, read_corpus);
}

/// Files that other programs wrote; tests/data/fuzz/README.md says how.
const ARROW_FILES: [&[u8]; 3] = [
    include_bytes!("../../data/fuzz/lists.arrow"),
    include_bytes!("../../data/fuzz/lists-lz4.arrows"),
    include_bytes!("../../data/fuzz/fixed-zstd.arrow"),
];

/// Takes an Arrow file or stream.
pub(super) fn arrow(bytes: &[u8]) {
    let mut changes = Changes::new(bytes);
    let which = changes.below(8);
    let mut file = match which {
        0 => changes.clone().rest().to_vec(),
        1 | 2 => columns::intact()[which % 2].clone(),
        _ => ARROW_FILES[which % ARROW_FILES.len()].to_vec(),
    };
    if which != 0 {
        changes.apply(&mut file);
    }
    with_file("fuzzed.arrow", &file, read_corpus);
}

const PARQUET_FILES: [&[u8]; 2] = [
    include_bytes!("../../data/fuzz/lists.parquet"),
    include_bytes!("../../data/fuzz/lists-v2.parquet"),
];

fn own_parquet() -> &'static [u8] {
    static FILE: OnceLock<Vec<u8>> = OnceLock::new();
    FILE.get_or_init(|| {
        let folder = folder();
        let path = folder.path().join("vectors.parquet");
        let meta = ColumnsMeta { columns: ColumnSet::Vectors, ..ColumnsMeta::vectors(3) };
        let mut writer = ColumnsWriter::create_parquet(&path, &meta).expect("it can be written");
        for row in 0..9_u8 {
            writer.push_vector(&[1.0, f32::from(row), -0.5]).expect("the vector is valid");
        }
        writer.publish().expect("it can be written");
        std::fs::read(&path).expect("it was written a moment ago")
    })
}

/// Takes a Parquet file.
pub(super) fn parquet(bytes: &[u8]) {
    let mut changes = Changes::new(bytes);
    let which = changes.below(8);
    let mut file = match which {
        0 => changes.clone().rest().to_vec(),
        1 => own_parquet().to_vec(),
        _ => PARQUET_FILES[which % PARQUET_FILES.len()].to_vec(),
    };
    if which != 0 {
        changes.apply(&mut file);
    }
    with_file("fuzzed.parquet", &file, read_corpus);
}

/// Reads a file in all ways.
fn read_corpus(path: &Path) {
    let scratch = path.parent().unwrap_or(Path::new("."));
    let named = CorpusOptions {
        id_column: Some("id".into()),
        order_column: Some("order".into()),
        vector_column: Some("vector".into()),
        ..CorpusOptions::new(scratch)
    };
    for options in [CorpusOptions::new(scratch), named] {
        let Ok(corpus) = Corpus::open(&[PathBuf::from(path)], &options) else { continue };
        let matrix = corpus.matrix();
        assert!((matrix.len() + corpus.skipped().len()) as u64 <= corpus.rows());
        for row in matrix.rows() {
            assert_eq!(matrix.vector(row).len(), corpus.dim());
            let ordinal = corpus.ordinal(row);
            assert_eq!(corpus.row_at(ordinal), Some(row));
            assert_eq!(corpus.place(ordinal).path, path);
            let _ = corpus.id(row);
        }
        let rows: Vec<Row> = matrix.rows().collect();
        let _ = corpus.excerpts(&rows);
    }
}

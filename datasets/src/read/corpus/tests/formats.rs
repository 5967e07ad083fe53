//! A corpus of files of every format.

use crate::DataError;
use memfold_index::Row;

use super::*;

/// The files of other programs that hold [`ROWS`].
const FLOATS: &[&str] = &[
    "bare/numpy.fbin",
    "bare/numpy.f16bin",
    "bare/numpy.fvecs",
    "npz/numpy_stored.npz",
    "npz/numpy_deflated_f64.npz",
    "safetensors/numpy_f32.safetensors",
    "safetensors/numpy_f64.safetensors",
    #[cfg(feature = "hdf5")]
    "hdf5/h5py_gzip_f64.hdf5",
    #[cfg(feature = "hdf5")]
    "hdf5/h5py_contiguous.hdf5",
    "jsonl/python.jsonl",
];

#[test]
fn every_format_is_one_corpus() {
    let names: Vec<PathBuf> = FLOATS.iter().map(|name| fixture(name)).collect();
    let corpus = open(&names).unwrap();
    let expected: Vec<Vec<f32>> =
        names.iter().flat_map(|_| ROWS.chunks(3).map(<[f32]>::to_vec)).collect();
    assert_eq!(vectors_of(&corpus), expected);
}

fn open_named(names: &[PathBuf], vector_column: &str) -> Result<Corpus, DataError> {
    let folder = std::env::temp_dir();
    let vector_column = Some(vector_column.to_owned());
    Corpus::open(names, &CorpusOptions { vector_column, ..CorpusOptions::new(&folder) })
}

#[test]
fn arrays_are_chosen_by_name() {
    for (name, array, rows) in [
        ("npz/numpy_several.npz", "emb", 3),
        ("npz/numpy_unnamed.npz", "a", 3),
        ("safetensors/numpy_f32.safetensors", "weights", 2),
        #[cfg(feature = "hdf5")]
        ("hdf5/h5py_gzip_f64.hdf5", "test", 1),
        // These have no names.
        ("bare/numpy.fbin", "anything", 3),
        ("bare/numpy.fvecs", "anything", 3),
    ] {
        let corpus = open_named(&[fixture(name)], array).unwrap();
        assert_eq!(vectors_of(&corpus).concat(), ROWS[..3 * rows], "{name}");
    }
    let error = open_named(&[fixture("npz/numpy_several.npz")], "embedding").unwrap_err();
    let (said, hint) = (error.to_string(), error.hint().unwrap());
    assert!(said.contains("no array \"embedding\", found \"emb\""), "{said}");
    assert_eq!(hint, "name the array that holds the vectors");
}

#[test]
fn whole_numbers_become_floats() {
    let names: Vec<PathBuf> = ["ibin", "u8bin", "i8bin", "ivecs", "bvecs"]
        .iter()
        .map(|name| fixture(&format!("bare/numpy.{name}")))
        .collect();
    let corpus = open(&names).unwrap();
    let expected = [[1.0, 2.0, 3.0], [0.0, 127.0, 5.0], [100.0, 101.0, 102.0]];
    assert_eq!(vectors_of(&corpus), expected.repeat(5));
    let folder = tempfile::tempdir().unwrap();
    let lists: ArrayRef = {
        let mut builder = ListBuilder::new(arrow_array::builder::Int64Builder::new());
        for row in [[3, -4], [0, 0], [i64::MAX, 1]] {
            builder.append_value(row.map(Some));
        }
        Arc::new(builder.finish())
    };
    let path = one(folder.path(), Form::Parquet, &[("vector", lists)]);
    let corpus = open(&[path]).unwrap();
    assert_eq!(vectors_of(&corpus), [[3.0, -4.0], [9_223_372_036_854_775_807_i64 as f32, 1.0]]);
    assert_eq!(corpus.skipped().examples()[0].reason, SkipReason::VectorZero);
}

#[test]
fn json_lines_bring_ids_order_and_texts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let lines = concat!(
        r#"{"id":"a","emb":[1,0],"at":"2024-01-02","text":"one"}"#,
        "\n\n",
        r#"{"id":"b","emb":null,"at":"2024-01-01","text":"two"}"#,
        "\n",
        r#"{"id":"c","emb":[0,0],"at":"2024-01-03"}"#,
        "\n",
        r#"{"emb":[0,2],"at":"2024-01-01","text":"four"}"#,
    );
    std::fs::write(&path, lines).unwrap();
    let options =
        CorpusOptions { order_column: Some("at".into()), ..CorpusOptions::new(folder.path()) };
    let corpus = Corpus::open(std::slice::from_ref(&path), &options).unwrap();
    assert_eq!(vectors_of(&corpus), [[1.0, 0.0], [0.0, 2.0]]);
    assert_eq!(ordinals_of(&corpus), [0, 3]);
    assert_eq!((corpus.id(Row(0)), corpus.id(Row(1))), (Some("a"), None));
    assert_eq!(corpus.order_keys(), Some(&[1, 0][..]));
    let texts = corpus.excerpts(&[Row(1), Row(0)]).unwrap();
    assert_eq!(texts, [Some("four".to_owned()), Some("one".to_owned())]);
    let reasons: Vec<_> = corpus.skipped().counts().collect();
    assert_eq!(reasons, [(SkipReason::VectorNull, 1), (SkipReason::VectorZero, 1)]);
    // Another column of numbers may be chosen, as in other formats.
    std::fs::write(&path, "{\"e5\":[1,2.5]}\n{\"e5\":[3,4]}\n").unwrap();
    let options =
        CorpusOptions { vector_column: Some("e5".into()), ..CorpusOptions::new(folder.path()) };
    let corpus = Corpus::open(&[path], &options).unwrap();
    assert_eq!(vectors_of(&corpus), [[1.0, 2.5], [3.0, 4.0]]);
}

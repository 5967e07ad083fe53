//! Inputs of commands beside stores: files of vectors, and vectors on the command line.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memfold::lookup::corpus::CorpusColumns;
use memfold_datasets::VectorFormat;
use memfold_datasets::corpus::Corpus;
use memfold_datasets::{ColumnRole, DataError};
use memfold_index::Progress;

use crate::failure::Failure;
use crate::progress::Bars;

pub(crate) use memfold::ops::{self, open_store};

/// Longest file that is read: some vectors of the largest dimension as JSON.
const VECTOR_BYTES_MAX: u64 = 4 << 20;

/// Reads a file of vectors with the usual column names.
pub fn open_vectors(path: &Path, bars: &Bars) -> Result<Corpus, Failure> {
    open_columns(path, &CorpusColumns::default(), bars)
}

/// The queries in an HDF5 file of ann-benchmarks.com.
const TEST_SET: &str = "test";

/// Reads the queries that an HDF5 file holds beside its vectors; `None`: this one holds none.
pub fn open_test_set(path: &Path, bars: &Bars) -> Result<Option<Corpus>, Failure> {
    if VectorFormat::of_file(path) != Some(VectorFormat::Hdf5) {
        return Ok(None);
    }
    let columns = CorpusColumns { vector: Some(TEST_SET.to_owned()), id: None };
    let options = columns.options(&ops::scratch_dir(), bars);
    let set = match Corpus::open(&[path.to_owned()], &options) {
        Err(DataError::NoColumn { role: ColumnRole::Array, .. }) => None,
        set => Some(set.map_err(|error| unreadable(&error))?),
    };
    bars.end();
    Ok(set)
}

/// Reads some columns of a file of vectors.
pub(crate) fn open_columns(
    path: &Path,
    columns: &CorpusColumns,
    bars: &Bars,
) -> Result<Corpus, Failure> {
    let options = columns.options(&ops::scratch_dir(), bars);
    let corpus = Corpus::open(&[path.to_owned()], &options).map_err(|error| unreadable(&error))?;
    bars.end();
    Ok(corpus)
}

/// Says why a corpus could not be read.
pub(crate) fn unreadable(error: &DataError) -> Failure {
    match error {
        DataError::Cancelled => Failure::interrupted(),
        error => Failure::new("read the vectors", error, data_hint(error)),
    }
}

/// Returns advice about a file of vectors or texts; it names the option of a column or field that is missing or cannot
/// be used.
pub(crate) fn data_hint(error: &DataError) -> Option<String> {
    let option = match error {
        DataError::NoField { role, found, .. } if !found.is_empty() => {
            return Some(format!("name it with --{role}-field NAME"));
        }
        DataError::NoColumn { role, .. } | DataError::ColumnType { role, .. } => match role {
            ColumnRole::Vector | ColumnRole::Array => Some("--vector-column NAME"),
            ColumnRole::Id => Some("--id-column NAME"),
            ColumnRole::Order => Some("--keep column:NAME"),
            _ => None,
        },
        _ => None,
    };
    option.map(|option| format!("choose a column with {option}")).or_else(|| error.hint())
}

/// Tells a file of vectors from a store.
pub(crate) fn is_corpus(path: &Path) -> bool {
    VectorFormat::of_file(path).is_some()
}

/// Refuses column options for a store: its columns are known.
pub(crate) fn refuse_columns(columns: &CorpusColumns) -> Result<(), Failure> {
    let option = match (&columns.vector, &columns.id) {
        (None, None) => return Ok(()),
        (Some(_), _) => "--vector-column",
        (None, Some(_)) => "--id-column",
    };
    Err(Failure::usage(
        format!("{option} is for files of vectors, not for a store"),
        "leave it out: the columns of a store are known",
    ))
}

/// Reads a vector: a JSON array, the name of a file that holds one or plain f32 (little-endian), or
/// base64 of these.
pub(crate) fn typed_vector(typed: &str) -> Result<Vec<f32>, Failure> {
    let vector = if typed.trim_start().starts_with('[') {
        from_json(typed.as_bytes())
    } else if Path::new(typed).is_file() {
        from_file(Path::new(typed))
    } else {
        STANDARD.decode(typed.trim()).ok().and_then(|bytes| from_f32(&bytes))
    };
    let vector = vector.filter(|vector| !vector.is_empty());
    vector.ok_or_else(|| {
        let shown: String = typed.chars().take(40).collect();
        Failure::usage(
            format!("--vector {shown:?} is no vector and no file that holds one"),
            "give a file of f32 or JSON, a JSON array, or base64 of f32 (little-endian)",
        )
    })
}

fn from_file(path: &Path) -> Option<Vec<f32>> {
    if path.metadata().ok()?.len() > VECTOR_BYTES_MAX {
        return None;
    }
    let bytes = std::fs::read(path).ok()?;
    if bytes.trim_ascii_start().starts_with(b"[")
        && let Some(vector) = from_json(&bytes)
    {
        return Some(vector);
    }
    from_f32(&bytes)
}

fn from_json(bytes: &[u8]) -> Option<Vec<f32>> {
    serde_json::from_slice(bytes).ok()
}

fn from_f32(bytes: &[u8]) -> Option<Vec<f32>> {
    let (numbers, []) = bytes.as_chunks::<4>() else { return None };
    Some(numbers.iter().map(|number| f32::from_le_bytes(*number)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_read_in_every_form() {
        let expected = vec![0.5, -2.0];
        let bytes: Vec<u8> = expected.iter().flat_map(|x: &f32| x.to_le_bytes()).collect();
        assert_eq!(typed_vector(" [0.5, -2]").unwrap(), expected);
        assert_eq!(typed_vector(&STANDARD.encode(&bytes)).unwrap(), expected);
        let folder = tempfile::tempdir().unwrap();
        for content in [&bytes[..], b"\n[5e-1, -2]\n"] {
            let path = folder.path().join("vector");
            std::fs::write(&path, content).unwrap();
            assert_eq!(typed_vector(path.to_str().unwrap()).unwrap(), expected);
        }
        for wrong in ["", "[]", "[1", "no vector", "AAA=", "missing.f32"] {
            assert!(typed_vector(wrong).is_err(), "{wrong:?}");
        }
    }
}

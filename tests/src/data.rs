//! Real vectors, where the machine has them.

use std::path::{Path, PathBuf};

use memfold_datasets::VectorFile;

/// Reads the first `rows` real vectors and their dimension; `None` without the folder that the variable
/// `MEMFOLD_DATA` names.
///
/// # Panics
/// When the folder holds no `embeddings/vectors_f16.npy` of so many rows.
#[must_use]
pub fn real_vectors(rows: usize) -> Option<(Vec<f32>, usize)> {
    let folder: PathBuf = std::env::var_os("MEMFOLD_DATA")?.into();
    let path = folder.join(Path::new("embeddings/vectors_f16.npy"));
    let mut reader = VectorFile::open(&path).expect("MEMFOLD_DATA holds the vectors");
    let dim = reader.dim();
    let mut vectors = Vec::new();
    while vectors.len() < rows * dim {
        let wanted = rows - vectors.len() / dim;
        let mut batch = Vec::new();
        assert!(reader.read_rows(wanted, &mut batch).expect("a whole file") > 0, "too few rows");
        vectors.append(&mut batch);
    }
    Some((vectors, dim))
}

/// Says that a test found nothing to work on.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub fn report_skipped() {
    eprintln!("skipped: MEMFOLD_DATA is not set");
}

//! [`RowOrder`]: the order of rows that their history has no say in.

use memfold_datasets::Corpus;
use memfold_index::{Pool, Row, VectorMatrix};

/// By the bytes of the id (rows without one first), then of the vector, then as in the file.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RowOrder<'a>(&'a str, VectorBytes<'a>, Row);

/// A vector by its bytes: f32, little-endian.
#[derive(Debug)]
struct VectorBytes<'a>(&'a [f32]);

impl VectorBytes<'_> {
    fn bytes(&self) -> impl Iterator<Item = [u8; 4]> {
        self.0.iter().map(|component| component.to_le_bytes())
    }
}

impl PartialEq for VectorBytes<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for VectorBytes<'_> {}

impl PartialOrd for VectorBytes<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for VectorBytes<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.bytes().cmp(other.bytes())
    }
}

/// Returns the kept rows of a corpus in that order.
pub(super) fn sorted(corpus: &Corpus, matrix: &VectorMatrix<'_>, pool: &Pool) -> Vec<Row> {
    let mut rows: Vec<Row> = matrix.rows().collect();
    pool.sort_by_key(&mut rows, |&row| {
        let id = corpus.id(row).unwrap_or_default();
        RowOrder(id, VectorBytes(matrix.vector(row)), row)
    });
    rows
}

//! Exact k-nearest and range search by scanning: every row is compared with the query.
//!
//! The oracle of everything faster, and fast enough itself for some 10,000 rows. Cost: one
//! canonical product of `dim` terms for each row.

use memfold_simd::{Kernels, Similarity};

use crate::{BestNeighbors, Neighbor, Pool, Row, VectorError, VectorMatrix};

/// Rows with their canonical squared norms, ready to be scanned by many queries.
#[derive(Debug)]
pub struct Scan<'a> {
    matrix: &'a VectorMatrix<'a>,
    squared_norms: Vec<f64>,
    kernels: &'static Kernels,
}

impl<'a> Scan<'a> {
    /// Reads every row once.
    ///
    /// # Errors
    /// When a row has no direction.
    pub fn new(
        matrix: &'a VectorMatrix<'a>,
        pool: &Pool,
        kernels: &'static Kernels,
    ) -> Result<Self, VectorError> {
        let squared_norms = pool.map(matrix.len(), |row| {
            // A matrix has fewer than 2³² rows.
            let row = Row(row as u32);
            squared_norm(matrix.vector(row), kernels).ok_or(VectorError::InvalidRow { row: row.0 })
        });
        let squared_norms = squared_norms.into_iter().collect::<Result<_, _>>()?;
        Ok(Self { matrix, squared_norms, kernels })
    }

    /// Returns the `k` rows most similar to `query`, best first; of rows equally similar the smaller
    /// ones. Fewer when there are fewer rows.
    ///
    /// # Errors
    /// When the query has another dimension or no direction.
    pub fn k_nearest(&self, query: &[f32], k: usize) -> Result<Vec<Neighbor>, VectorError> {
        let mut best = BestNeighbors::new(k);
        self.neighbors(query)?.for_each(|neighbor| best.offer(neighbor));
        Ok(best.into_sorted())
    }

    /// Returns every row with a similarity of at least `threshold`, best first.
    ///
    /// # Errors
    /// When the query has another dimension or no direction.
    pub fn range(
        &self,
        query: &[f32],
        threshold: Similarity,
    ) -> Result<Vec<Neighbor>, VectorError> {
        let mut found: Vec<_> =
            self.neighbors(query)?.filter(|neighbor| neighbor.similarity >= threshold).collect();
        found.sort_unstable();
        Ok(found)
    }

    /// Returns every row with its similarity, in row order.
    fn neighbors(&self, query: &[f32]) -> Result<impl Iterator<Item = Neighbor>, VectorError> {
        let query_norm = query_norm(query, self.matrix.dim(), 0, self.kernels)?;
        let rows = self.matrix.rows().zip(&self.squared_norms);
        Ok(rows.filter_map(move |(row, &norm)| {
            let vector = self.matrix.vector(row);
            let similarity = self.kernels.similarity(query, vector, [query_norm, norm])?;
            Some(Neighbor { row, similarity })
        }))
    }
}

/// Returns the canonical squared norm of a query that can be answered by rows of `dim` components; `position` says which
/// of many it is.
///
/// # Errors
/// When it has another dimension or no direction.
pub fn query_norm(
    query: &[f32],
    dim: usize,
    position: u32,
    kernels: &Kernels,
) -> Result<f64, VectorError> {
    let (expected, found) = (dim, query.len());
    if expected != found {
        return Err(VectorError::Dimension { expected, found });
    }
    squared_norm(query, kernels).ok_or(VectorError::InvalidQuery { query: position })
}

/// Returns the canonical squared norm of a vector that has a direction.
pub(crate) fn squared_norm(vector: &[f32], kernels: &Kernels) -> Option<f64> {
    let squared_norm = kernels.dot(vector, vector);
    (squared_norm.is_finite() && squared_norm > 0.0).then_some(squared_norm)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{matrix, near, pool};

    const VALUES: [f32; 10] = [1.0, 0.0, 0.0, 1.0, 2.0, 0.0, -1.0, 0.0, 1.0, 1.0];

    fn scanned<T>(act: impl FnOnce(&Scan<'_>, &Pool) -> T) -> T {
        let pool = pool(2);
        let matrix = matrix(&VALUES, 2);
        act(&Scan::new(&matrix, &pool, Kernels::active()).unwrap(), &pool)
    }

    fn rows(found: &[Neighbor]) -> Vec<u32> {
        found.iter().map(|neighbor| neighbor.row.0).collect()
    }

    #[test]
    fn equally_similar_rows_come_in_row_order() {
        scanned(|scan, _| {
            assert_eq!(rows(&scan.k_nearest(&[3.0, 0.0], 4).unwrap()), [0, 2, 4, 1]);
            assert_eq!(rows(&scan.k_nearest(&[3.0, 0.0], 1).unwrap()), [0]);
            assert_eq!(scan.k_nearest(&[3.0, 0.0], 99).unwrap().len(), 5);
        });
    }

    #[test]
    fn a_range_includes_its_threshold() {
        scanned(|scan, _| {
            let threshold = near(0.0);
            let found = scan.range(&[1.0, 0.0], threshold).unwrap();
            assert_eq!(rows(&found), [0, 2, 4, 1]);
            assert_eq!(found[3].similarity, threshold);
        });
    }

    #[test]
    fn what_has_no_direction_is_refused() {
        scanned(|scan, pool| {
            let expected = VectorError::Dimension { expected: 2, found: 1 };
            assert_eq!(scan.k_nearest(&[1.0], 1).unwrap_err(), expected);
            let queries = [1.0, 0.0, f32::NAN, 0.0];
            let queries = matrix(&queries, 2);
            let error = scan.k_nearest(queries.vector(Row(1)), 1).unwrap_err();
            assert_eq!(error.at(1), VectorError::InvalidQuery { query: 1 });
            let error = Scan::new(&queries, pool, Kernels::active()).unwrap_err();
            assert_eq!(error, VectorError::InvalidRow { row: Row(1).0 });
        });
    }
}

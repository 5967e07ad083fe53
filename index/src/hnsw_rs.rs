//! The crate `hnsw_rs` as a backend: an HNSW that many know, to choose and to compare with. It is not the graph of
//! [`crate::graph`]: built on one thread, held in memory at 2 to 4 KB for each row beside a copy of its vector, and
//! approximate.
//!
//! Version 0.3.5 has faults that callers must keep away from. Counter-measures of this module:
//!
//! | fault | here |
//! |---|---|
//! | NaN in a distance panics | rows and queries without a direction are refused before it sees them |
//! | a distance below zero panics, as rounding makes one of equal vectors | its distances are replaced by our own: 1 − dot of unit vectors in f64, never below 0, never NaN |
//! | M above 256 ends the process, 256 becomes 0, 1 gives infinite levels | 2 to 255 |
//! | lists are allocated as `ef` asks \| `ef` is cut at the number of points |
//! | parallel insertion loses points and comes out differently each time | insertion is serial, in row order; its levels come from a generator with a fixed seed |
//! | equal vectors fill each other's lists of links, and hide points behind them | rows of one direction are one point |
//! | ties come in the order of heaps; distances are f32 | answers are reranked by the canonical similarity and put in order |
//! | no range search | `ef_search` grows until it reaches beyond the range |
//! | dropping it uses the global thread pool | it is dropped in a pool of one thread of ours |
//! | its files are neither checked nor portable, and reading them may end the process | none are written or read |
//! | it writes to standard output when levels are scaled, options refused or layers dumped | none of these is called |
//!
//! It may still miss rows, also at the largest `ef_search`: points that no link leads to are not found.

use ::hnsw_rs::hnsw::Hnsw;
use hnsw_rs::anndists::dist::distances::Distance;
use memfold_simd::{Kernels, Similarity};

use super::codes::Members;
use super::distinct::DistinctRows;
use super::graph::BuildGraphError;
use super::scan::query_norm;
use super::transform::push_unit;
use super::{Nearest, Neighbor, Pool, Progress, Row, VectorError, VectorMatrix};

/// The layers that the crate has at most.
const LAYERS: usize = 16;

/// Rows between two looks at the wish to stop.
const BATCH_ROWS: usize = 256;

/// Bytes of a point beside its vector and links: itself, its lock, and a list of links for each layer.
const POINT_BYTES: u64 = 72 + 48 + 24 * LAYERS as u64 + 8;

/// Bytes of a link: a pointer to an allocation of its own, which points at the other one and keeps the distance.
const LINK_BYTES: u64 = 8 + 32;

/// For a range, `ef_search` grows until it reaches this much farther, in 1 − cosine: more than f32 rounds away.
const RANGE_SLACK: f64 = 1e-5;

/// How an index is built and searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HnswRsOptions {
    /// M: links of a point in upper layers, half of those in the lowest. 2 to 255.
    pub max_neighbors: usize,
    /// efConstruction: points looked at to link one. 1 to 65,536.
    pub ef_construction: usize,
    /// ef: points looked at to answer a query; at least the number of neighbours requested.
    pub ef_search: usize,
}

/// An `hnsw_rs` index over borrowed vectors, which rerank its proposals.
pub struct HnswRsIndex<'a> {
    /// `None` only while it is dropped.
    graph: Option<Hnsw<'static, f32, UnitDistance>>,
    members: Members<'static>,
    point_count: usize,
    vectors: &'a VectorMatrix<'a>,
    kernels: &'static Kernels,
    ef_search: usize,
}

/// 1 − the cosine of unit vectors, the same bits on every level.
struct UnitDistance(&'static Kernels);

/// A query of length 1, and its squared norm before.
struct Query<'q> {
    vector: &'q [f32],
    unit: Vec<f32>,
    squared_norm: f64,
}

impl Default for HnswRsOptions {
    /// As in the crate's own examples for vectors of some hundred dimensions.
    fn default() -> Self {
        Self { max_neighbors: 16, ef_construction: 200, ef_search: 64 }
    }
}

impl HnswRsOptions {
    fn check(&self) -> Result<(), BuildGraphError> {
        let ranges = [
            ("max_neighbors", 2, 255, self.max_neighbors),
            ("ef_construction", 1, 65_536, self.ef_construction),
        ];
        for (option, min, max, found) in ranges {
            if !(min..=max).contains(&found) {
                return Err(BuildGraphError::Option { option, min, max, found });
            }
        }
        Ok(())
    }
}

impl Distance<f32> for UnitDistance {
    fn eval(&self, a: &[f32], b: &[f32]) -> f32 {
        // Not `clamp`, which leaves NaN as it is.
        (1.0 - self.0.dot(a, b)).max(0.0) as f32
    }
}

impl<'a> HnswRsIndex<'a> {
    /// Inserts all rows, one after the other.
    ///
    /// The pool checks rows and finds equal ones; `progress` advances by points.
    ///
    /// # Errors
    /// When an option is out of range, a row has no direction, there are too many, or the caller asked to stop.
    pub fn build(
        vectors: &'a VectorMatrix<'a>,
        options: &HnswRsOptions,
        pool: &Pool,
        kernels: &'static Kernels,
        progress: &dyn Progress,
    ) -> Result<Self, BuildGraphError> {
        options.check()?;
        if vectors.len() > Members::ROWS_MAX {
            return Err(BuildGraphError::TooManyRows { found: vectors.len() });
        }
        // Rows are checked before, and grouped after, they have length 1.
        DistinctRows::of(vectors, kernels, pool, None, progress)?;
        let units = unit_rows(vectors, kernels);
        let units = VectorMatrix::from_slice(&units, vectors.dim())
            .expect("as many values as the rows have");
        let distinct = DistinctRows::of(&units, kernels, pool, None, progress)?;
        let points: Vec<u32> = (0..distinct.len() as u32).collect();
        let index = Self {
            graph: Some(Hnsw::new(
                options.max_neighbors,
                points.len().max(1),
                LAYERS,
                options.ef_construction.min(points.len().max(1)),
                UnitDistance(kernels),
            )),
            members: Members::of(points.chunks(1), &distinct),
            point_count: points.len(),
            vectors,
            kernels,
            ef_search: options.ef_search,
        };
        progress.begin("insert points", Some(points.len() as u64));
        for (point, &row) in distinct.rows.iter().enumerate() {
            if point % BATCH_ROWS == 0 && progress.cancelled() {
                return Err(BuildGraphError::Cancelled);
            }
            index.graph().insert((units.vector(row), point));
            progress.advance(1);
        }
        progress.end();
        Ok(index)
    }

    /// Sets ef for further queries.
    pub const fn set_ef_search(&mut self, ef_search: usize) {
        self.ef_search = ef_search;
    }

    /// Estimates the memory of vectors, links and lists from their number; overhead of the allocator is not counted.
    #[must_use]
    pub fn byte_count(&self) -> u64 {
        let indexation = self.graph().get_point_indexation();
        let points = (0..LAYERS).flat_map(|layer| indexation.get_layer_iterator(layer));
        let links = points.map(|point| {
            point.get_neighborhood_id().iter().map(|links| links.len() as u64).sum::<u64>()
        });
        let links: u64 = links.sum();
        let vector_bytes = 4 * self.vectors.dim() as u64;
        let members = 4 * (self.members.starts.len() + self.members.rows.len()) as u64;
        self.point_count as u64 * (POINT_BYTES + vector_bytes) + links * LINK_BYTES + members
    }

    /// Returns about the `k` rows most similar to `query`, best first.
    ///
    /// # Errors
    /// When the query has another dimension or no direction.
    pub fn k_nearest(&self, query: &[f32], k: usize) -> Result<Vec<Neighbor>, VectorError> {
        let query = self.prepare(query)?;
        let mut found = Vec::new();
        for (point, _) in self.propose(&query, k) {
            found.extend(self.rerank(&query, point));
        }
        found.sort_unstable();
        found.truncate(k);
        Ok(found)
    }

    /// Returns about every row with a similarity of at least `threshold`, best first.
    ///
    /// # Errors
    /// When the query has another dimension or no direction.
    pub fn range(
        &self,
        query: &[f32],
        threshold: Similarity,
    ) -> Result<Vec<Neighbor>, VectorError> {
        let query = self.prepare(query)?;
        let distance_max = 1.0 - threshold.get() + RANGE_SLACK;
        let mut width = self.ef_search.max(1);
        let proposed = loop {
            let proposed = self.propose(&query, width);
            let reaches_beyond =
                proposed.last().is_none_or(|&(_, distance)| f64::from(distance) > distance_max);
            if reaches_beyond || width >= self.point_count {
                break proposed;
            }
            width = width.saturating_mul(2);
        };
        let rows = proposed.into_iter().flat_map(|(point, _)| self.rerank(&query, point));
        let mut found: Vec<_> = rows.filter(|found| found.similarity >= threshold).collect();
        found.sort_unstable();
        Ok(found)
    }

    fn graph(&self) -> &Hnsw<'static, f32, UnitDistance> {
        self.graph.as_ref().expect("taken when the index is dropped")
    }

    fn prepare<'q>(&self, vector: &'q [f32]) -> Result<Query<'q>, VectorError> {
        let squared_norm = query_norm(vector, self.vectors.dim(), 0, self.kernels)?;
        let mut unit = Vec::new();
        push_unit(vector, squared_norm, &mut unit);
        Ok(Query { vector, unit, squared_norm })
    }

    /// Returns up to `count` points with their distances, nearest first.
    fn propose(&self, query: &Query<'_>, count: usize) -> Vec<(u32, f32)> {
        if self.point_count == 0 || count == 0 {
            return Vec::new();
        }
        let count = count.min(self.point_count);
        let width = self.ef_search.clamp(count, self.point_count);
        let found = self.graph().search(&query.unit, width, width);
        found.into_iter().map(|near| (near.d_id as u32, near.distance)).collect()
    }

    /// Returns the rows of a point with their similarities.
    fn rerank(&self, query: &Query<'_>, point: u32) -> impl Iterator<Item = Neighbor> {
        self.members.rows(point).filter_map(|(row, _)| {
            let vector = self.vectors.vector(row);
            let norms = [query.squared_norm, self.kernels.dot(vector, vector)];
            let similarity = self.kernels.similarity(query.vector, vector, norms)?;
            Some(Neighbor { row, similarity })
        })
    }
}

/// Returns all rows with length 1.
fn unit_rows(vectors: &VectorMatrix<'_>, kernels: &Kernels) -> Vec<f32> {
    let mut units = Vec::with_capacity(vectors.len() * vectors.dim());
    for vector in vectors.rows().map(|row: Row| vectors.vector(row)) {
        push_unit(vector, kernels.dot(vector, vector), &mut units);
    }
    units
}

impl Nearest for HnswRsIndex<'_> {
    fn k_nearest(&mut self, query: &[f32], k: usize) -> Result<Vec<Neighbor>, VectorError> {
        Self::k_nearest(self, query, k)
    }

    fn range(
        &mut self,
        query: &[f32],
        threshold: Similarity,
    ) -> Result<Vec<Neighbor>, VectorError> {
        Self::range(self, query, threshold)
    }
}

impl Drop for HnswRsIndex<'_> {
    /// Links are cleared on whatever pool is at hand: not the global one, if a thread can be had.
    fn drop(&mut self) {
        let graph = std::sync::Mutex::new(self.graph.take());
        if let Ok(pool) = Pool::new(Some(std::num::NonZeroUsize::MIN)) {
            pool.map(1, |_| drop(graph.lock().map(|mut graph| graph.take())));
        }
    }
}

impl std::fmt::Debug for HnswRsIndex<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HnswRsIndex")
            .field("point_count", &self.point_count)
            .field("ef_search", &self.ef_search)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SHAPES, Shape, StopAfter, matrix, near, pool, rows};
    use crate::{NoProgress, Scan};

    fn build<'a>(
        vectors: &'a VectorMatrix<'a>,
        options: &HnswRsOptions,
    ) -> Result<HnswRsIndex<'a>, BuildGraphError> {
        let pool = pool(2);
        HnswRsIndex::build(vectors, options, &pool, Kernels::active(), &NoProgress)
    }

    #[test]
    fn most_rows_are_found_and_all_similarities_are_true() {
        let pool = pool(2);
        for (seed, shape) in (1..).zip(SHAPES) {
            let values = rows(shape, 800, 24, seed);
            let vectors = matrix(&values, 24);
            let index = build(&vectors, &HnswRsOptions::default()).unwrap();
            let plain = Scan::new(&vectors, &pool, Kernels::active()).unwrap();
            let (mut found, mut expected) = (0, 0);
            for row in (0..800).step_by(20).map(Row) {
                let query = vectors.vector(row);
                let all = plain.k_nearest(query, 800).unwrap();
                let threshold = all[9].similarity;
                for (near, exact) in [
                    (index.k_nearest(query, 10).unwrap(), plain.k_nearest(query, 10).unwrap()),
                    (
                        index.range(query, threshold).unwrap(),
                        plain.range(query, threshold).unwrap(),
                    ),
                ] {
                    assert!(
                        near.is_sorted_by(|a, b| a < b) && near.iter().all(|one| all.contains(one))
                    );
                    found += exact.iter().filter(|one| near.contains(one)).count();
                    expected += exact.len();
                }
            }
            assert!(found * 100 >= expected * 97, "{shape:?}: {found} of {expected}");
        }
    }

    #[test]
    fn equal_directions_are_one_point_and_all_their_rows_are_found() {
        let mut values = rows(Shape::Random, 50, 8, 3);
        let first = values[..8].to_vec();
        // Powers of two keep a direction to the bit.
        for factor in [1.0, 4.0] {
            (0..200).for_each(|_| values.extend(first.iter().map(|x| x * factor)));
        }
        let vectors = matrix(&values, 8);
        let index = build(&vectors, &HnswRsOptions::default()).unwrap();
        assert_eq!(index.point_count, 50);
        let found = index.range(&values[..8], Similarity::ONE).unwrap();
        let equal = [Row(0)].into_iter().chain((50..450).map(Row));
        assert!(found.iter().map(|found| found.row).eq(equal.clone()));
        let found = index.k_nearest(&values[..8], 5).unwrap();
        assert!(found.iter().map(|found| found.row).eq(equal.take(5)));
    }

    #[test]
    fn bytes_grow_with_links() {
        let values = rows(Shape::Random, 300, 12, 5);
        let vectors = matrix(&values, 12);
        let bytes = [4, 16].map(|max_neighbors| {
            let options = HnswRsOptions { max_neighbors, ..HnswRsOptions::default() };
            build(&vectors, &options).unwrap().byte_count() / 300
        });
        // A vector of 48 bytes and at least M links of 40.
        assert!(bytes[0] > 48 + 4 * 40 && bytes[0] < bytes[1], "{bytes:?}");
    }

    #[test]
    fn two_builds_answer_alike() {
        let values = rows(Shape::Clustered, 500, 12, 8);
        let vectors = matrix(&values, 12);
        let indexes = [0, 1].map(|_| build(&vectors, &HnswRsOptions::default()).unwrap());
        for row in (0..500).step_by(25).map(Row) {
            let [a, b] = indexes.each_ref().map(|index| index.k_nearest(vectors.vector(row), 7));
            assert_eq!(a, b);
        }
    }

    #[test]
    fn what_would_panic_or_exit_is_refused() {
        let options = HnswRsOptions::default();
        for bad in [[f32::NAN, 0.0], [f32::INFINITY, 1.0], [0.0, -0.0]] {
            let values = [[1.0, 0.0], bad].concat();
            let vectors = matrix(&values, 2);
            let error = build(&vectors, &options).unwrap_err();
            assert!(matches!(error, BuildGraphError::InvalidVector { row: 1, .. }), "{error}");
        }
        let vectors = matrix(&[1.0, 0.0], 2);
        for max_neighbors in [0, 1, 256, usize::MAX] {
            let error = build(&vectors, &HnswRsOptions { max_neighbors, ..options }).unwrap_err();
            assert!(matches!(error, BuildGraphError::Option { .. }), "{error}");
        }
        let none = HnswRsOptions { ef_construction: 0, ..options };
        assert!(build(&vectors, &none).is_err());
        let index = build(&vectors, &options).unwrap();
        let error = index.k_nearest(&[1.0], 1).unwrap_err();
        assert_eq!(error, VectorError::Dimension { expected: 2, found: 1 });
        let error = index.range(&[f32::NAN, 1.0], Similarity::ONE).unwrap_err();
        assert_eq!(error, VectorError::InvalidQuery { query: 0 });
    }

    #[test]
    fn few_rows_and_large_ef_are_no_trouble() {
        let options = HnswRsOptions { ef_search: usize::MAX, ..HnswRsOptions::default() };
        let none = matrix(&[], 3);
        assert!(build(&none, &options).unwrap().k_nearest(&[1.0; 3], 4).unwrap().is_empty());
        let vectors = matrix(&[1.0, 2.0, 3.0], 3);
        let index = build(&vectors, &options).unwrap();
        assert!(index.k_nearest(&[1.0; 3], 0).unwrap().is_empty());
        assert_eq!(index.k_nearest(&[1.0; 3], usize::MAX).unwrap().len(), 1);
        assert_eq!(index.range(&[-1.0; 3], near(-1.0)).unwrap().len(), 1);
    }

    #[test]
    fn a_build_can_be_stopped() {
        let vectors = matrix(&[1.0, 2.0, 3.0], 3);
        let (pool, options) = (pool(2), HnswRsOptions::default());
        let error =
            HnswRsIndex::build(&vectors, &options, &pool, Kernels::active(), &StopAfter::default());
        assert_eq!(error.unwrap_err(), BuildGraphError::Cancelled);
    }
}

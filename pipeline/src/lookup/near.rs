//! Rows of an index near a vector, as it was indexed.

use memfold_index::flat::FlatScan;
use memfold_index::index_file::{IndexView, PREFIX_TRANSFORM};
use memfold_index::{Nearest as _, Neighbor, Pool, VectorMatrix};
use memfold_simd::{Kernels, Similarity};

use super::{SearchError, StoreIndex};

/// A row near a vector.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NearRow {
    /// The memory's id.
    pub(crate) id: String,
    /// How similar its vector was.
    pub(crate) similarity: Similarity,
}

/// Rows near a vector, best first; of equally similar ones by id.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct NearRows {
    /// The nearest of them.
    pub(crate) rows: Vec<NearRow>,
    /// Their number.
    pub(crate) total: u64,
}

impl NearRows {
    /// Adds a row.
    pub(crate) fn push(&mut self, id: &str, similarity: Similarity) {
        self.rows.push(NearRow { id: id.to_owned(), similarity });
        self.total += 1;
    }

    /// Puts rows in order, each memory once.
    pub(crate) fn settle(&mut self) {
        self.rows.sort_by(|a, b| b.similarity.cmp(&a.similarity).then_with(|| a.id.cmp(&b.id)));
        let mut seen = std::collections::BTreeSet::new();
        let before = self.rows.len();
        self.rows.retain(|row| seen.insert(row.id.clone()));
        self.total -= (before - self.rows.len()) as u64;
    }
}

/// Finds the rows of an index that are at least so similar to each of many queries, exactly: the
/// flat index is read for every tier. Returns the ids for each query, in no order; their present
/// state is not checked.
///
/// # Errors
/// When the queries have another dimension or one has no direction, or the index is damaged.
pub(crate) fn near_ids(
    index: &StoreIndex,
    queries: &VectorMatrix<'_>,
    least: Similarity,
    pool: &Pool,
    kernels: &'static Kernels,
) -> Result<Vec<Vec<String>>, SearchError> {
    let file = index.files().tiers();
    let tiers = IndexView::open(file)?;
    let transform = file.section(PREFIX_TRANSFORM).map_err(SearchError::damaged)?;
    let vectors: VectorMatrix<'_> = index.files().columns().vectors();
    let scan = FlatScan::new(tiers.flat, &vectors, kernels)?;
    let mut ids: Vec<Vec<String>> = Vec::with_capacity(queries.len());
    for found in scan.range_batch(queries, least, pool)? {
        let id = |near: &Neighbor| Ok(index.files().columns().id_at(near.row)?.to_owned());
        ids.push(found.iter().map(id).collect::<Result<_, SearchError>>()?);
    }
    for segment in index.fresh().iter().filter(|segment| !segment.is_empty()) {
        let vectors = segment.matrix().map_err(SearchError::damaged)?;
        let flat = segment.flat(transform)?;
        let scan = FlatScan::new(flat, &vectors, kernels)?;
        for (ids, found) in ids.iter_mut().zip(scan.range_batch(queries, least, pool)?) {
            ids.extend(found.iter().map(|near| segment.id(near.row.index()).to_owned()));
        }
    }
    Ok(ids)
}

/// Finds the rows of an index that are at least so similar to a query; of each part at most `most` are named.
///
/// Their present state is not checked. A flat index misses none, a graph few.
///
/// # Errors
/// When the query has another dimension or no direction, or the index is damaged.
pub(crate) fn near_rows(
    index: &StoreIndex,
    query: &[f32],
    least: Similarity,
    most: usize,
    kernels: &'static Kernels,
) -> Result<NearRows, SearchError> {
    let mut near = NearRows::default();
    index.each_part(kernels, |mut tier, _, id| {
        let found = tier.range(query, least)?;
        near.total += found.len() as u64;
        for neighbor in found.iter().take(most) {
            let (id, similarity) = (id(neighbor.row)?.to_owned(), neighbor.similarity);
            near.rows.push(NearRow { id, similarity });
        }
        Ok(())
    })?;
    near.settle();
    Ok(near)
}

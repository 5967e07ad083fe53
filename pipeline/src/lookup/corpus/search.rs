//! [`search_rows`]: the nearest rows of a file.

use std::cmp::Reverse;

use memfold_index::index_file::IndexView;
use memfold_index::{Nearest, Neighbor, Pool, Progress, Row, Scan, VectorError, VectorMatrix};
use memfold_simd::{Kernels, Similarity};

use super::SearchedRows;
use crate::lookup::SearchError;
use crate::lookup::Wanted;
use crate::lookup::search::IdleSearches;

/// Queries that one thread answers before it fetches others.
const QUERIES_TOGETHER: usize = 64;

/// A query for rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RowQuery<'a> {
    /// Rows near a vector.
    Vector(&'a [f32]),
    /// Rows near the row at this place of the file, which is excluded.
    Row(u64),
    /// Rows near the first row with this id, which is excluded.
    Id(&'a str),
}

/// A row and how similar it is.
#[derive(Debug, Clone, PartialEq)]
pub struct RowMatch {
    /// Its place in the file, from 0.
    pub row: u64,
    /// Its id, where it has one.
    pub id: Option<Box<str>>,
    /// The canonical similarity of its vector to the query.
    pub similarity: Similarity,
}

/// Finds the rows nearest to a query: the most similar first, equally similar ones as they come in the file.
///
/// Without an index or with a scan tier nothing is missed; a graph misses few.
///
/// # Errors
/// When no row is the one or has the id to search by, the query has another dimension or no direction, no row has a vector,
/// or the index is damaged.
pub fn search_rows(
    rows: SearchedRows<'_>,
    query: RowQuery<'_>,
    wanted: Wanted,
    pool: &Pool,
    kernels: &'static Kernels,
) -> Result<Vec<RowMatch>, SearchError> {
    let matrix = rows.matrix();
    let compared = Compared::with(rows, &matrix, pool, kernels)?;
    let (vector, except) = match query {
        RowQuery::Vector(vector) => (vector, None),
        RowQuery::Row(ordinal) => {
            let row = rows.at(ordinal)?;
            (matrix.vector(row), Some(row))
        }
        RowQuery::Id(id) => {
            let row = rows.with_id(id)?;
            (matrix.vector(row), Some(row))
        }
    };
    compared.answer(&mut *compared.nearest()?, vector, wanted, except)
}

/// Answers several queries, in their order, on all threads.
///
/// # Errors
/// As [`search_rows`], or when the caller asks to stop; the error says which query it was.
pub fn search_rows_all(
    rows: SearchedRows<'_>,
    queries: &VectorMatrix<'_>,
    wanted: Wanted,
    pool: &Pool,
    kernels: &'static Kernels,
    progress: &dyn Progress,
) -> Result<Vec<Vec<RowMatch>>, SearchError> {
    let matrix = rows.matrix();
    let compared = Compared::with(rows, &matrix, pool, kernels)?;
    progress.begin("search", Some(queries.len() as u64));
    let blocks = pool.map(queries.len().div_ceil(QUERIES_TOGETHER), |block| {
        let mut nearest = compared.nearest()?;
        let block = queries.rows().skip(block * QUERIES_TOGETHER).take(QUERIES_TOGETHER);
        let answers = block.map(|at| {
            if progress.cancelled() {
                return Err(SearchError::Cancelled);
            }
            let found = compared.answer(&mut *nearest, queries.vector(at), wanted, None);
            progress.advance(1);
            found.map_err(|error| match error {
                SearchError::Query(error) => SearchError::Query(error.at(at.0)),
                error => error,
            })
        });
        answers.collect::<Result<Vec<_>, _>>()
    });
    progress.end();
    let blocks: Vec<Vec<_>> = blocks.into_iter().collect::<Result<_, _>>()?;
    Ok(blocks.into_iter().flatten().collect())
}

/// The rows that queries are compared with.
struct Compared<'a> {
    rows: SearchedRows<'a>,
    matrix: &'a VectorMatrix<'a>,
    how: How<'a>,
    kernels: &'static Kernels,
}

enum How<'a> {
    Every(Scan<'a>),
    IndexBuild(Box<IndexView<'a>>, &'a IdleSearches),
}

impl<'a> Compared<'a> {
    fn with(
        rows: SearchedRows<'a>,
        matrix: &'a VectorMatrix<'a>,
        pool: &Pool,
        kernels: &'static Kernels,
    ) -> Result<Self, SearchError> {
        if matrix.is_empty() {
            return Err(SearchError::NoRowVectors { rows: rows.count() });
        }
        let how = match rows {
            SearchedRows::Index(index) => {
                let tiers = IndexView::open(index.files().tiers())?;
                How::IndexBuild(Box::new(tiers), index.files().idle())
            }
            SearchedRows::Corpus(_) => How::Every(Scan::new(matrix, pool, kernels)?),
        };
        Ok(Self { rows, matrix, how, kernels })
    }

    /// Returns who answers queries.
    fn nearest(&self) -> Result<Box<dyn Nearest + '_>, SearchError> {
        Ok(match &self.how {
            How::Every(scan) => Box::new(scan),
            How::IndexBuild(tiers, idle) => {
                Box::new(idle.tier(tiers, self.matrix, self.kernels)?)
            }
        })
    }

    fn answer(
        &self,
        nearest: &mut dyn Nearest,
        query: &[f32],
        wanted: Wanted,
        except: Option<Row>,
    ) -> Result<Vec<RowMatch>, SearchError> {
        let found = match wanted.neighbors {
            Some(count) => {
                let count = count.saturating_add(usize::from(except.is_some()));
                with_ties(nearest, query, count.min(self.matrix.len()))?
            }
            None => nearest.range(query, wanted.least())?,
        };
        let found = found
            .into_iter()
            .filter(|found| Some(found.row) != except && wanted.allows(found.similarity));
        let placed = found.map(|found| Ok((self.rows.ordinal(found.row)?, found)));
        let mut placed: Vec<(u64, Neighbor)> = placed.collect::<Result<_, SearchError>>()?;
        placed.sort_unstable_by_key(|(ordinal, found)| (Reverse(found.similarity), *ordinal));
        placed.truncate(wanted.neighbors.unwrap_or(usize::MAX));
        let matches = placed.into_iter().map(|(row, Neighbor { row: at, similarity })| {
            Ok(RowMatch { row, id: self.rows.id(at)?.map(Into::into), similarity })
        });
        matches.collect()
    }
}

/// Returns the nearest rows, and all others as similar as the last of them: ties are broken by
/// their places in the file, not in the index.
fn with_ties(
    nearest: &mut dyn Nearest,
    query: &[f32],
    count: usize,
) -> Result<Vec<Neighbor>, VectorError> {
    let mut found = nearest.k_nearest(query, count.saturating_add(1))?;
    if let [.., last, next] = &found[..]
        && found.len() > count
        && last.similarity == next.similarity
    {
        found.extend(nearest.range(query, last.similarity)?);
        found.sort_unstable();
        found.dedup();
    }
    Ok(found)
}

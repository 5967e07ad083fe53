//! [`SearchedRows`]: where rows are looked for, and what they are called there.

use memfold_datasets::Corpus;
use memfold_index::{Row, VectorMatrix};

use super::{CorpusIndex, SearchRowsError};

/// Where rows are looked for.
#[derive(Debug, Clone, Copy)]
pub enum SearchedRows<'a> {
    /// In an index, which fits its file.
    Index(&'a CorpusIndex),
    /// In the file itself.
    Corpus(&'a Corpus),
}

impl<'a> SearchedRows<'a> {
    pub(super) fn matrix(self) -> VectorMatrix<'a> {
        match self {
            Self::Index(index) => index.files().columns().vectors(),
            Self::Corpus(corpus) => corpus.matrix(),
        }
    }

    /// Returns the rows of the file, also those without a vector.
    pub(super) const fn count(self) -> u64 {
        match self {
            Self::Index(index) => index.origin().rows,
            Self::Corpus(corpus) => corpus.rows(),
        }
    }

    const fn has_ids(self) -> bool {
        match self {
            Self::Index(index) => index.origin().has_ids,
            Self::Corpus(corpus) => corpus.has_ids(),
        }
    }

    /// Returns a row's place in the file.
    pub(super) fn ordinal(self, row: Row) -> Result<u64, SearchRowsError> {
        Ok(match self {
            Self::Index(index) => index.files().columns().rowid_at(row)?.cast_unsigned(),
            Self::Corpus(corpus) => corpus.ordinal(row),
        })
    }

    /// Returns a row's id; an empty one is none.
    pub(super) fn id(self, row: Row) -> Result<Option<&'a str>, SearchRowsError> {
        let id = match self {
            Self::Index(index) => Some(index.files().columns().id_at(row)?),
            Self::Corpus(corpus) => corpus.id(row),
        };
        Ok(id.filter(|id| !id.is_empty()))
    }

    /// Finds the row at a place of the file.
    pub(super) fn at(self, ordinal: u64) -> Result<Row, SearchRowsError> {
        let rows = self.count();
        if ordinal >= rows {
            return Err(SearchRowsError::NoRow { row: ordinal, rows });
        }
        let found = match self {
            Self::Index(index) => index.files().columns().find_rowid(ordinal.cast_signed())?,
            Self::Corpus(corpus) => corpus.row_at(ordinal),
        };
        found.ok_or(SearchRowsError::NoVector { row: ordinal })
    }

    /// Finds the row with an id; of several the first in the file.
    pub(super) fn with_id(self, id: &str) -> Result<Row, SearchRowsError> {
        if !self.has_ids() {
            return Err(SearchRowsError::NoIds);
        }
        let found = match self {
            _ if id.is_empty() => None,
            Self::Index(index) => self.first_indexed(index, id)?,
            Self::Corpus(corpus) => corpus.matrix().rows().find(|&row| corpus.id(row) == Some(id)),
        };
        found.ok_or_else(|| SearchRowsError::NoId { id: id.into() })
    }

    /// Finds the row among those of an index, which are in the order of ids, then of vectors.
    fn first_indexed(self, index: &CorpusIndex, id: &str) -> Result<Option<Row>, SearchRowsError> {
        let count = index.files().columns().len() as u32;
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = u32::midpoint(low, high);
            match index.files().columns().id_at(Row(middle))? < id {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        let mut first = None;
        for row in (low..count).map(Row) {
            if index.files().columns().id_at(row)? != id {
                break;
            }
            let found = (self.ordinal(row)?, row);
            first = Some(first.map_or(found, |first| std::cmp::min(first, found)));
        }
        Ok(first.map(|(_, row)| row))
    }
}

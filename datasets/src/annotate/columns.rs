//! [`Membership`], and the columns that say it.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float64Builder, UInt64Builder};
use arrow_array::{ArrayRef, UInt64Array};
use arrow_schema::{DataType, Field};
use memfold_index::Row;

use crate::corpus::Corpus;

/// The columns that are added, in this order after those of the input.
pub const COLUMN_NAMES: [&str; 4] =
    ["cluster", "cluster_size", "cluster_similarity", "is_survivor"];

/// The cluster of two or more that a row belongs to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Membership {
    /// The row that stays.
    pub survivor: Row,
    /// Rows in the cluster.
    pub size: u64,
    /// The row's canonical similarity to the survivor.
    pub similarity: f64,
}

/// Returns the fields of the columns that are added.
pub(super) fn added_fields() -> Vec<Field> {
    let [cluster, size, similarity, is_survivor] = COLUMN_NAMES;
    vec![
        Field::new(cluster, DataType::UInt64, true),
        Field::new(size, DataType::UInt64, true),
        Field::new(similarity, DataType::Float64, true),
        Field::new(is_survivor, DataType::Boolean, false),
    ]
}

/// Returns the ordinals themselves as a column.
pub(super) fn ordinal_column(ordinals: Range<u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(ordinals))
}

/// Returns the columns that are added for the rows at `ordinals`; a row that was skipped or is in no
/// cluster is its own survivor.
pub(super) fn added_columns(
    corpus: &Corpus,
    ordinals: Range<u64>,
    membership: &dyn Fn(Row) -> Option<Membership>,
) -> Vec<ArrayRef> {
    let mut clusters = UInt64Builder::new();
    let mut sizes = UInt64Builder::new();
    let mut similarities = Float64Builder::new();
    let mut survivors = BooleanBuilder::new();
    for ordinal in ordinals {
        let row = corpus.row_at(ordinal);
        let member = row.and_then(membership);
        clusters.append_option(member.map(|member| corpus.ordinal(member.survivor)));
        sizes.append_option(member.map(|member| member.size));
        similarities.append_option(member.map(|member| member.similarity));
        survivors.append_value(member.is_none_or(|member| Some(member.survivor) == row));
    }
    vec![
        Arc::new(clusters.finish()),
        Arc::new(sizes.finish()),
        Arc::new(similarities.finish()),
        Arc::new(survivors.finish()),
    ]
}

//! [`OrderKeys`]: the values that say which of several rows survives.

use arrow_array::builder::LargeStringBuilder;
use arrow_array::{Array, LargeStringArray};

use crate::input::{CellKind, Cells};

/// Stands below every value.
const NULL: i128 = i128::MIN;

/// Gathers the values of the order column of all kept rows.
pub(super) enum OrderKeys {
    Numbers(Vec<i128>),
    Texts(LargeStringBuilder),
}

impl OrderKeys {
    /// Begins a column of `kind`.
    pub(super) fn new(kind: CellKind) -> Self {
        match kind {
            CellKind::Text => Self::Texts(LargeStringBuilder::new()),
            _ => Self::Numbers(Vec::new()),
        }
    }

    /// Appends the value at `i`.
    pub(super) fn push(&mut self, cells: &Cells, i: usize) {
        match (self, cells) {
            (Self::Texts(texts), Cells::Text(cells)) => texts.append_option(cells.get(i)),
            (Self::Texts(texts), _) => texts.append_null(),
            (Self::Numbers(numbers), cells) => numbers.push(match cells {
                Cells::Integer(values) | Cells::Time(values) => values[i].unwrap_or(NULL),
                Cells::Float(values) => {
                    values[i].filter(|value| !value.is_nan()).map_or(NULL, sortable)
                }
                Cells::Text(_) | Cells::Binary(_) => NULL,
            }),
        }
    }

    /// Returns the dense rank of every row, from 0: equal values have equal ranks, nulls the lowest.
    pub(super) fn ranks(self) -> Vec<u32> {
        match self {
            Self::Numbers(numbers) => dense_ranks(numbers.len(), |row| numbers[row]),
            Self::Texts(mut texts) => {
                let texts: LargeStringArray = texts.finish();
                dense_ranks(texts.len(), |row| texts.is_valid(row).then(|| texts.value(row)))
            }
        }
    }
}

/// Returns an integer that sorts as `value` does; both zeros are one.
fn sortable(value: f64) -> i128 {
    let bits = (value + 0.0).to_bits().cast_signed();
    i128::from(bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed())
}

fn dense_ranks<K: Ord>(row_count: usize, key: impl Fn(usize) -> K) -> Vec<u32> {
    let mut rows: Vec<u32> = (0..row_count as u32).collect();
    rows.sort_unstable_by_key(|&row| key(row as usize));
    let mut ranks = vec![0; row_count];
    let mut rank = 0;
    for (position, &row) in rows.iter().enumerate() {
        let is_new = position > 0 && key(rows[position - 1] as usize) != key(row as usize);
        rank += u32::from(is_new);
        ranks[row as usize] = rank;
    }
    ranks
}

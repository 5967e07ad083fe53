//! [`Rebatcher`]: batches of some size as batches of another.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;

use crate::guarded::guarded;

/// Makes batches of equally many rows; what fits already passes without a copy.
pub(super) struct Rebatcher {
    schema: SchemaRef,
    rows: usize,
    waiting: Vec<RecordBatch>,
    rows_waiting: usize,
}

impl Rebatcher {
    /// Makes batches of `rows` rows, which is at least one.
    pub(super) const fn new(schema: SchemaRef, rows: usize) -> Self {
        Self { schema, rows, waiting: Vec::new(), rows_waiting: 0 }
    }

    /// Returns how many rows a batch has.
    pub(super) const fn rows(&self) -> usize {
        self.rows
    }

    /// Takes a batch and returns those that are full.
    pub(super) fn push(&mut self, batch: &RecordBatch) -> Result<Vec<RecordBatch>, String> {
        let (mut full, mut start) = (Vec::new(), 0);
        while start < batch.num_rows() {
            let rows = (self.rows - self.rows_waiting).min(batch.num_rows() - start);
            self.waiting.push(batch.slice(start, rows));
            self.rows_waiting += rows;
            start += rows;
            if self.rows_waiting == self.rows {
                full.extend(self.take()?);
            }
        }
        Ok(full)
    }

    /// Returns the rows that are left.
    pub(super) fn take(&mut self) -> Result<Option<RecordBatch>, String> {
        let waiting = std::mem::take(&mut self.waiting);
        self.rows_waiting = 0;
        match waiting.as_slice() {
            [] => Ok(None),
            [batch] => Ok(Some(batch.clone())),
            batches => guarded(|| concat_batches(&self.schema, batches))?
                .map(Some)
                .map_err(|error| error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::cast::AsArray;
    use arrow_array::types::Int32Type;
    use arrow_array::{Array, ArrayRef, Int32Array};

    use super::*;
    use crate::input::support;

    fn numbers(range: std::ops::Range<i32>) -> RecordBatch {
        support::batch(&[("n", Arc::new(Int32Array::from_iter_values(range)) as ArrayRef)])
    }

    #[test]
    fn rows_keep_their_order_and_whole_batches_their_memory() {
        let mut rebatcher = Rebatcher::new(numbers(0..1).schema(), 10);
        let (mut lengths, mut values) = (Vec::new(), Vec::new());
        let mut start = 0;
        for length in [10, 3, 4, 0, 28, 1] {
            let batch = numbers(start..start + length);
            start += length;
            for full in rebatcher.push(&batch).unwrap() {
                let address = |batch: &RecordBatch| batch.column(0).to_data().buffers()[0].as_ptr();
                let is_lent = address(&full) == address(&batch);
                assert_eq!(is_lent, length == 10, "{length}");
                lengths.push(full.num_rows());
                values.extend_from_slice(full.column(0).as_primitive::<Int32Type>().values());
            }
        }
        let last = rebatcher.take().unwrap().unwrap();
        lengths.push(last.num_rows());
        values.extend_from_slice(last.column(0).as_primitive::<Int32Type>().values());
        assert_eq!(lengths, [10, 10, 10, 10, 6]);
        assert!(values.into_iter().eq(0..46));
        assert!(rebatcher.take().unwrap().is_none());
    }
}

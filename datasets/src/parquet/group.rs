//! [`PlainGroup`]: a row group whose vectors are stored plainly.

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use super::lent::LentMemory;
use super::plain::{NotPlain, PlainVectors};

/// The rows of a row group whose vectors are stored plainly; the decoder reads the other columns.
pub(super) struct PlainGroup {
    vectors: Vec<PlainVectors>,
    /// In batches of as many rows.
    others: Option<ParquetRecordBatchReader>,
    batch_rows: usize,
    rows: usize,
    rows_read: usize,
}

impl PlainGroup {
    /// Begins with the first of `rows` rows; `others` comes in batches of `batch_rows` rows.
    pub(super) const fn new(
        rows: usize,
        batch_rows: usize,
        vectors: Vec<PlainVectors>,
        others: Option<ParquetRecordBatchReader>,
    ) -> Self {
        Self { vectors, others, batch_rows, rows, rows_read: 0 }
    }

    /// Returns how many rows were returned.
    pub(super) const fn rows_read(&self) -> usize {
        self.rows_read
    }

    /// Returns the next rows; `None` after the last.
    ///
    /// What is not as it should be is left to the decoder.
    pub(super) fn read(
        &mut self,
        schema: &SchemaRef,
        memory: &mut LentMemory,
    ) -> Result<Option<RecordBatch>, NotPlain> {
        let rows = self.batch_rows.min(self.rows - self.rows_read);
        if rows == 0 {
            return if self.ends_here()? { Ok(None) } else { Err(NotPlain) };
        }
        let others =
            self.others.as_mut().map(|others| others.next().ok_or(NotPlain)).transpose()?;
        let mut columns: Vec<ArrayRef> =
            others.transpose()?.map_or(Vec::new(), |batch| batch.columns().to_vec());
        // Positions ascend, so that each is that in the result.
        for vectors in &mut self.vectors {
            let mut components = memory.take();
            vectors.read(rows, &mut components)?;
            columns.insert(vectors.position(), vectors.array(memory.lend(components))?);
        }
        let batch = RecordBatch::try_new(schema.clone(), columns)?;
        if batch.num_rows() != rows {
            return Err(NotPlain);
        }
        self.rows_read += rows;
        Ok(Some(batch))
    }

    /// Tells whether no column has more rows.
    fn ends_here(&mut self) -> Result<bool, NotPlain> {
        let others_end = self.others.as_mut().is_none_or(|others| others.next().is_none());
        self.vectors
            .iter_mut()
            .try_fold(others_end, |ends, vectors| Ok(ends && vectors.ends_here()?))
    }
}

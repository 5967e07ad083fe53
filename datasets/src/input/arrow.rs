//! [`ArrowFile`]: an Arrow IPC file or stream of any program, mapped.

use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::FileDecoder;
use arrow_schema::SchemaRef;
use memfold_index::Mapped;

use super::ReadArrowError;
use super::messages::{Messages, NoMessages, Placed};
use crate::parquet::guarded;
use crate::schema::BATCH_ROWS;

/// An Arrow IPC file or stream, mapped; columns are lent where they are neither compressed nor
/// misaligned.
#[derive(Debug)]
pub(crate) struct ArrowFile {
    path: PathBuf,
    bytes: Buffer,
    messages: Messages,
    row_count: usize,
}

impl ArrowFile {
    /// Maps the file at `path` and checks where its messages lie; reads no rows.
    pub(crate) fn open(path: &Path) -> Result<Self, ReadArrowError> {
        let mapped = Mapped::open(path).map_err(|source| ReadArrowError::Map { source })?;
        Self::from_buffer(Buffer::from(bytes::Bytes::from_owner(mapped)), path)
    }

    /// Reads the bytes of a file; `path` is the name that errors use.
    pub(super) fn from_buffer(bytes: Buffer, path: &Path) -> Result<Self, ReadArrowError> {
        let messages = Messages::find(&bytes).map_err(|why| match why {
            NoMessages::NotArrow(found) => ReadArrowError::NotArrow { path: path.into(), found },
            NoMessages::Damaged(found) => ReadArrowError::Damaged { path: path.into(), found },
        })?;
        let row_count = messages.batches.iter().map(|placed| placed.rows).sum();
        Ok(Self { path: path.into(), bytes, messages, row_count })
    }

    pub(crate) const fn schema(&self) -> &SchemaRef {
        &self.messages.schema
    }

    pub(crate) const fn row_count(&self) -> usize {
        self.row_count
    }

    /// Returns the bytes of the whole file.
    pub(crate) const fn bytes(&self) -> &Buffer {
        &self.bytes
    }

    /// Returns the columns at `positions`, ascending, of all rows in order.
    pub(crate) fn batches(
        &self,
        positions: &[usize],
    ) -> Result<impl Iterator<Item = Result<RecordBatch, ReadArrowError>> + use<'_>, ReadArrowError>
    {
        let decoder = self.decoder(positions)?;
        let decoded = self.messages.batches.iter().map(move |placed| self.decode(&decoder, placed));
        Ok(decoded.flat_map(|batch| match batch {
            Ok(batch) => portions(&batch).map(Ok).collect(),
            Err(error) => vec![Err(error)],
        }))
    }

    /// Returns the columns at `positions`, ascending, of the rows asked for, ascending: some of them
    /// in each batch.
    pub(crate) fn batches_of_rows(
        &self,
        positions: &[usize],
        rows: &[usize],
    ) -> Result<Vec<RecordBatch>, ReadArrowError> {
        let decoder = self.decoder(positions)?;
        let (mut taken, mut first_row, mut rows) = (Vec::new(), 0, rows);
        for placed in &self.messages.batches {
            let end = first_row + placed.rows;
            let (here, later) = rows.split_at(rows.partition_point(|&row| row < end));
            if !here.is_empty() {
                let batch = self.decode(&decoder, placed)?;
                taken.extend(here.iter().map(|row| batch.slice(row - first_row, 1)));
            }
            (first_row, rows) = (end, later);
        }
        Ok(taken)
    }

    fn decoder(&self, positions: &[usize]) -> Result<FileDecoder, ReadArrowError> {
        let mut decoder = FileDecoder::new(self.schema().clone(), self.messages.version)
            .with_projection(positions.to_vec());
        for (i, placed) in self.messages.dictionaries.iter().enumerate() {
            let read = guarded(|| decoder.read_dictionary(&placed.block, &self.bytes_of(placed)));
            read.and_then(|read| read.map_err(|error| error.to_string()))
                .map_err(|what| self.damaged(format!("dictionary {i}: {what}")))?;
        }
        Ok(decoder)
    }

    fn decode(
        &self,
        decoder: &FileDecoder,
        placed: &Placed,
    ) -> Result<RecordBatch, ReadArrowError> {
        let read = guarded(|| decoder.read_record_batch(&placed.block, &self.bytes_of(placed)));
        let batch = read.and_then(|read| read.map_err(|error| error.to_string()));
        let at =
            |what: String| self.damaged(format!("batch at byte {}: {what}", placed.span.start));
        match batch.map_err(at)? {
            Some(batch) if batch.num_rows() == placed.rows => Ok(batch),
            Some(batch) => Err(at(format!("{} rows, expected {}", batch.num_rows(), placed.rows))),
            None => Err(at("empty message".into())),
        }
    }

    fn bytes_of(&self, placed: &Placed) -> Buffer {
        self.bytes.slice_with_length(placed.span.start, placed.span.length)
    }

    fn damaged(&self, found: String) -> ReadArrowError {
        ReadArrowError::Damaged { path: self.path.clone(), found }
    }
}

/// Cuts a batch into portions of at most [`BATCH_ROWS`] rows, without a copy.
fn portions(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> + use<'_> {
    let rows = batch.num_rows();
    (0..rows).step_by(BATCH_ROWS).map(move |start| batch.slice(start, BATCH_ROWS.min(rows - start)))
}

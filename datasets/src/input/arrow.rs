//! [`ArrowFile`]: an Arrow IPC file or stream of any program, mapped.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::FileDecoder;
use arrow_schema::SchemaRef;
use memfold_index::Mapped;

use super::ReadArrowError;
use super::messages::{Messages, NoMessages, Placed};
use crate::guarded::guarded;
use crate::schema::BATCH_ROWS;

/// An Arrow IPC file or stream, mapped; columns are lent where they are neither compressed nor
/// misaligned.
#[derive(Debug, Clone)]
pub(crate) struct ArrowFile {
    path: PathBuf,
    bytes: Buffer,
    messages: Arc<Messages>,
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
        Ok(Self { path: path.into(), bytes, messages: Arc::new(messages), row_count })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
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
    ) -> impl Iterator<Item = Result<RecordBatch, ReadArrowError>> + use<> {
        let mut decoder = Decoder::new(self, positions);
        let messages = Arc::clone(&self.messages);
        let batches = 0..messages.batches.len();
        let decoded = batches.map(move |i| decoder.decode(&messages.batches[i]));
        decoded.flat_map(|batch| match batch {
            Ok(batch) => portions(&batch).map(Ok).collect(),
            Err(error) => vec![Err(error)],
        })
    }

    /// Returns the columns at `positions`, ascending, of the rows asked for, ascending: some of them
    /// in each batch.
    pub(crate) fn batches_of_rows(
        &self,
        positions: &[usize],
        rows: &[usize],
    ) -> Result<Vec<RecordBatch>, ReadArrowError> {
        let mut decoder = Decoder::new(self, positions);
        let (mut taken, mut first_row, mut rows) = (Vec::new(), 0, rows);
        for placed in &self.messages.batches {
            let end = first_row + placed.rows;
            let (here, later) = rows.split_at(rows.partition_point(|&row| row < end));
            if !here.is_empty() {
                let batch = decoder.decode(placed)?;
                taken.extend(here.iter().map(|row| batch.slice(row - first_row, 1)));
            }
            (first_row, rows) = (end, later);
        }
        Ok(taken)
    }

    fn bytes_of(&self, placed: &Placed) -> Buffer {
        self.bytes.slice_with_length(placed.span.start, placed.span.length)
    }

    fn damaged(&self, found: String) -> ReadArrowError {
        ReadArrowError::Damaged { path: self.path.clone(), found }
    }
}

/// Decodes record batches in their order, with the dictionaries before each.
struct Decoder {
    file: ArrowFile,
    decoder: FileDecoder,
    dictionaries_read: usize,
}

impl Decoder {
    /// Decodes the columns at `positions`, ascending.
    fn new(file: &ArrowFile, positions: &[usize]) -> Self {
        let decoder = FileDecoder::new(file.schema().clone(), file.messages.version)
            .with_projection(positions.to_vec());
        Self { file: file.clone(), decoder, dictionaries_read: 0 }
    }

    fn decode(&mut self, placed: &Placed) -> Result<RecordBatch, ReadArrowError> {
        self.read_dictionaries(placed.dictionaries)?;
        let bytes = self.file.bytes_of(placed);
        let read = guarded(|| self.decoder.read_record_batch(&placed.block, &bytes));
        let batch = read.and_then(|read| read.map_err(|error| error.to_string()));
        let start = placed.span.start;
        let at = |what: String| self.file.damaged(format!("batch at byte {start}: {what}"));
        match batch.map_err(at)? {
            Some(batch) if batch.num_rows() == placed.rows => Ok(batch),
            Some(batch) => Err(at(format!("{} rows, expected {}", batch.num_rows(), placed.rows))),
            None => Err(at("empty message".into())),
        }
    }

    /// Reads dictionaries until `count` were read.
    fn read_dictionaries(&mut self, count: usize) -> Result<(), ReadArrowError> {
        while self.dictionaries_read < count {
            let i = self.dictionaries_read;
            let placed = &self.file.messages.dictionaries[i];
            let bytes = self.file.bytes_of(placed);
            let read = guarded(|| self.decoder.read_dictionary(&placed.block, &bytes));
            read.and_then(|read| read.map_err(|error| error.to_string()))
                .map_err(|what| self.file.damaged(format!("dictionary {i}: {what}")))?;
            self.dictionaries_read += 1;
        }
        Ok(())
    }
}

/// Cuts a batch into portions of at most [`BATCH_ROWS`] rows, without a copy.
fn portions(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> + use<'_> {
    let rows = batch.num_rows();
    (0..rows).step_by(BATCH_ROWS).map(move |start| batch.slice(start, BATCH_ROWS.min(rows - start)))
}

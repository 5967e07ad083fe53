//! [`JsonlFile`]: a file of JSON lines, mapped.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;

use super::decode::Decoder;
use super::error::ReadJsonlError;
use super::kind::Kind;
use super::learn::{BadLine, Learnt, MARKED_ROWS, learn};
use super::lines::{Lines, Place};
use crate::input::error::InputError;
use crate::input::matrix::map_file;

/// Rows of a batch.
const DECODED_ROWS: usize = 1024;
/// Bytes of lines after which a batch ends early.
const DECODED_BYTES: usize = 16 << 20;

/// A file of JSON lines, mapped.
#[derive(Debug, Clone)]
pub(crate) struct JsonlFile {
    path: PathBuf,
    bytes: Buffer,
    schema: SchemaRef,
    kinds: Arc<[Kind]>,
    row_count: usize,
    marks: Arc<[Place]>,
}

impl JsonlFile {
    /// Maps the file at `path` and reads it once to learn its columns; `member` is the name of
    /// another field that holds vectors.
    pub(crate) fn open(path: &Path, member: Option<&str>) -> Result<Self, InputError> {
        let bytes = map_file(path)?;
        let learnt = learn(Lines::new(bytes.clone()), member);
        let Learnt { schema, kinds, row_count, marks } =
            learnt.map_err(|BadLine { line, found }| ReadJsonlError::Line {
                path: path.into(),
                line,
                found,
            })?;
        let (schema, kinds, marks) = (Arc::new(schema), kinds.into(), marks.into());
        Ok(Self { path: path.into(), bytes, schema, kinds, row_count, marks })
    }

    pub(crate) const fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) const fn row_count(&self) -> usize {
        self.row_count
    }

    /// Returns the columns at `positions`, ascending, of all rows in order.
    pub(crate) fn batches(
        &self,
        positions: &[usize],
    ) -> impl Iterator<Item = Result<RecordBatch, InputError>> + use<> {
        let (file, positions) = (self.clone(), positions.to_vec());
        let mut lines = Some(Lines::new(self.bytes.clone()));
        std::iter::from_fn(move || {
            let next = file.next_batch(lines.as_mut()?, &positions).transpose();
            // After an error there are no more.
            lines = lines.take().filter(|_| matches!(next, Some(Ok(_))));
            next
        })
    }

    /// Returns the column at `position` of the rows asked for, ascending, each in a batch.
    pub(crate) fn batches_of_rows(
        &self,
        position: usize,
        rows: &[usize],
    ) -> Result<Vec<RecordBatch>, InputError> {
        // The row that the lines stand before.
        let mut lines = Lines::new(self.bytes.clone());
        let mut next_row = 0;
        let mut taken = Vec::with_capacity(rows.len());
        for &row in rows {
            let mark = row / MARKED_ROWS;
            if next_row < mark * MARKED_ROWS {
                lines = Lines::at(self.bytes.clone(), self.marks[mark]);
                next_row = mark * MARKED_ROWS;
            }
            while next_row < row {
                lines.next_line().map_err(|found| self.bad_line(&lines, found))?;
                next_row += 1;
            }
            let mut decoder = self.decoder(&[position]);
            self.read_line(&mut lines, &mut decoder)?;
            next_row += 1;
            taken.push(self.batch(&[position], decoder, &lines)?);
        }
        Ok(taken)
    }

    fn next_batch(
        &self,
        lines: &mut Lines,
        positions: &[usize],
    ) -> Result<Option<RecordBatch>, InputError> {
        let mut decoder = self.decoder(positions);
        let start = lines.place().position;
        while decoder.rows() < DECODED_ROWS && lines.place().position - start < DECODED_BYTES {
            if !self.read_line(lines, &mut decoder)? {
                break;
            }
        }
        (decoder.rows() > 0).then(|| self.batch(positions, decoder, lines)).transpose()
    }

    /// Decodes the next row; returns false after the last.
    fn read_line(&self, lines: &mut Lines, decoder: &mut Decoder) -> Result<bool, InputError> {
        let range = lines.next_line().map_err(|found| self.bad_line(lines, found))?;
        let Some(range) = range else { return Ok(false) };
        let read = decoder.read(&self.bytes[range]);
        read.map_err(|found| self.bad_line(lines, found))?;
        Ok(true)
    }

    fn decoder(&self, positions: &[usize]) -> Decoder {
        let column = |&at: &usize| (self.schema.field(at).name().as_str(), self.kinds[at]);
        Decoder::new(positions.iter().map(column))
    }

    /// Returns the rows of the decoder; the file may have been written to since it was learnt.
    fn batch(
        &self,
        positions: &[usize],
        decoder: Decoder,
        lines: &Lines,
    ) -> Result<RecordBatch, InputError> {
        let options = RecordBatchOptions::new().with_row_count(Some(decoder.rows()));
        let columns = decoder.finish();
        let batch = self.schema.project(positions).and_then(|schema| {
            RecordBatch::try_new_with_options(Arc::new(schema), columns, &options)
        });
        batch.map_err(|error| self.bad_line(lines, format!("changed: {error}")))
    }

    fn bad_line(&self, lines: &Lines, found: String) -> InputError {
        ReadJsonlError::Line { path: self.path.clone(), line: lines.number(), found }.into()
    }
}

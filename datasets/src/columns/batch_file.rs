//! [`BatchFile`]: record batches on their way into a file, written by a thread of their own.

use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

use super::write::WriteColumnsError;
use crate::behind::{Behind, Output, Unwritten};

/// Takes record batches into a file.
pub(crate) trait BatchOutput: Output<Item = RecordBatch, Error = WriteColumnsError> {}

impl<O: Output<Item = RecordBatch, Error = WriteColumnsError>> BatchOutput for O {}

/// A file whose batches are written while the next are filled. Files of less than a batch need no thread and get none.
pub(crate) struct BatchFile<O: BatchOutput> {
    behind: Behind<O>,
    /// Stands in errors.
    path: PathBuf,
}

impl<O: BatchOutput> BatchFile<O> {
    /// Begins; `batches_waiting` may be in memory besides the one that is filled and the one that is written.
    pub(crate) fn new(output: O, path: &Path, batches_waiting: usize) -> Self {
        Self { behind: Behind::new(output, "write batches", batches_waiting), path: path.into() }
    }

    /// Returns the error of a batch that cannot be made.
    pub(super) fn refused(&self, error: &ArrowError) -> WriteColumnsError {
        WriteColumnsError::Encode { path: self.path.clone(), reason: error.to_string() }
    }

    /// Has a full batch written; returns one that is written, if there is one, whose memory may be used again.
    pub(super) fn write(
        &mut self,
        batch: RecordBatch,
    ) -> Result<Option<RecordBatch>, WriteColumnsError> {
        self.behind.write(batch).map_err(|unwritten| told(unwritten, &self.path))
    }

    /// Writes the rest, if there is one, and returns the output.
    pub(super) fn finish(self, rest: Option<&RecordBatch>) -> Result<O, WriteColumnsError> {
        let mut output = self.behind.finish().map_err(|unwritten| told(unwritten, &self.path))?;
        rest.map_or(Ok(()), |batch| output.write(batch))?;
        Ok(output)
    }
}

fn told(unwritten: Unwritten<WriteColumnsError>, path: &Path) -> WriteColumnsError {
    match unwritten {
        Unwritten::NoThread(source) => WriteColumnsError::Write { path: path.into(), source },
        Unwritten::Failed(error) => error,
        Unwritten::Ended => WriteColumnsError::Ended { path: path.into() },
    }
}

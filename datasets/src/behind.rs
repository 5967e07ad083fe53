//! [`Behind`]: record batches written by a thread of their own while the next one is filled.

use std::any::Any;
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

use crate::columns::WriteColumnsError;

/// Takes whole record batches.
pub(crate) trait BatchOutput: Send + 'static {
    /// Appends a batch.
    fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteColumnsError>;
}

/// An output that writes one batch while its caller fills the next; some more may wait between them.
///
/// Files of less than a batch need no thread and get none. An error shows at the next batch or at the end.
pub(crate) struct Behind<O> {
    state: State<O>,
    path: PathBuf,
    batches_waiting: usize,
}

enum State<O> {
    Here(O),
    There(Writing<O>),
    /// An error was told.
    Ended,
}

struct Writing<O> {
    batches: SyncSender<RecordBatch>,
    written: Receiver<RecordBatch>,
    thread: JoinHandle<Result<O, WriteColumnsError>>,
}

impl<O: BatchOutput> Behind<O> {
    /// Begins; `path` stands in errors. Besides the batch that is filled and the one that is written, `batches_waiting`
    /// may be in memory, so that whoever fills them need not wait for an output that works by fits and starts.
    pub(crate) fn new(output: O, path: &Path, batches_waiting: usize) -> Self {
        Self { state: State::Here(output), path: path.into(), batches_waiting }
    }

    /// Returns the error of a batch that cannot be made.
    pub(crate) fn refused(&self, error: &ArrowError) -> WriteColumnsError {
        WriteColumnsError::Encode { path: self.path.clone(), reason: error.to_string() }
    }

    /// Has a full batch written; returns one that is written, if there is one, whose memory may be used again.
    pub(crate) fn write(
        &mut self,
        batch: RecordBatch,
    ) -> Result<Option<RecordBatch>, WriteColumnsError> {
        let writing = match std::mem::replace(&mut self.state, State::Ended) {
            State::Here(output) => Writing::start(output, self.batches_waiting)
                .map_err(|source| WriteColumnsError::Write { path: self.path.clone(), source })?,
            State::There(writing) => writing,
            State::Ended => return Err(ended(&self.path)),
        };
        // Nobody is there to receive once a write has failed.
        if writing.batches.send(batch).is_err() {
            return writing.finish().and(Err(ended(&self.path)));
        }
        let written = writing.written.try_recv().ok();
        self.state = State::There(writing);
        Ok(written)
    }

    /// Writes the rest, if there is one, and returns the output.
    pub(crate) fn finish(self, rest: Option<&RecordBatch>) -> Result<O, WriteColumnsError> {
        let mut output = match self.state {
            State::Here(output) => output,
            State::There(writing) => writing.finish()?,
            State::Ended => return Err(ended(&self.path)),
        };
        rest.map_or(Ok(()), |batch| output.write(batch))?;
        Ok(output)
    }
}

impl<O: BatchOutput> Writing<O> {
    fn start(output: O, batches_waiting: usize) -> io::Result<Self> {
        let (batches, to_write) = sync_channel(batches_waiting);
        let (give_back, written) = channel();
        let thread = thread::Builder::new()
            .name("write batches".to_owned())
            .spawn(move || write_all(output, &to_write, &give_back))?;
        Ok(Self { batches, written, thread })
    }

    fn finish(self) -> Result<O, WriteColumnsError> {
        drop(self.batches);
        self.thread.join().unwrap_or_else(|panic: Box<dyn Any + Send>| resume_unwind(panic))
    }
}

/// The error of whoever goes on after an error.
fn ended(path: &Path) -> WriteColumnsError {
    WriteColumnsError::Ended { path: path.into() }
}

fn write_all<O: BatchOutput>(
    mut output: O,
    batches: &Receiver<RecordBatch>,
    give_back: &Sender<RecordBatch>,
) -> Result<O, WriteColumnsError> {
    for batch in batches {
        output.write(&batch)?;
        // Whoever fills batches may have gone.
        let _ = give_back.send(batch);
    }
    Ok(output)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, UInt32Array};

    use super::*;

    struct Sums {
        sums: Vec<u32>,
        room: usize,
    }

    impl BatchOutput for Sums {
        fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteColumnsError> {
            if self.sums.len() == self.room {
                return Err(WriteColumnsError::TooManyRows);
            }
            self.sums.push(sum(batch));
            Ok(())
        }
    }

    fn sum(batch: &RecordBatch) -> u32 {
        let values = batch.column(0).as_any().downcast_ref::<UInt32Array>().unwrap();
        values.values().iter().sum()
    }

    fn batch(value: u32) -> RecordBatch {
        let values: ArrayRef = Arc::new(UInt32Array::from(vec![value; 3]));
        RecordBatch::try_from_iter([("value", values)]).unwrap()
    }

    fn behind(room: usize) -> Behind<Sums> {
        Behind::new(Sums { sums: Vec::new(), room }, Path::new("sums"), 0)
    }

    #[test]
    fn batches_are_written_in_order_and_come_back() {
        let mut behind = behind(9);
        let returned = (1..=4).filter_map(|value| behind.write(batch(value)).unwrap());
        let returned: Vec<u32> = returned.map(|batch| sum(&batch) / 3).collect();
        // When the last was taken, those before it were written; it may be written, too.
        assert!(returned.is_sorted_by(|a, b| a < b) && returned.last() >= Some(&3), "{returned:?}");
        assert_eq!(behind.finish(Some(&batch(5))).unwrap().sums, [3, 6, 9, 12, 15]);
    }

    #[test]
    fn a_rest_alone_needs_no_thread() {
        let output = behind(1).finish(Some(&batch(7))).unwrap();
        assert_eq!(output.sums, [21]);
        assert!(behind(0).finish(None).unwrap().sums.is_empty());
    }

    #[test]
    fn a_failed_write_is_told_once_and_stays_one() {
        let full = WriteColumnsError::TooManyRows.to_string();
        let mut behind = behind(1);
        let errors: Vec<_> = (0..5).filter_map(|value| behind.write(batch(value)).err()).collect();
        assert_eq!(errors[0].to_string(), full);
        assert!(errors[1..].iter().all(|error| matches!(error, WriteColumnsError::Ended { .. })));
        assert!(matches!(behind.finish(None), Err(WriteColumnsError::Ended { .. })));
        let mut last = self::behind(1);
        assert!(last.write(batch(1)).is_ok() && last.write(batch(2)).is_ok());
        assert!(matches!(last.finish(None), Err(WriteColumnsError::TooManyRows)));
    }
}

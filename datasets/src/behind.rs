//! [`Behind`]: what is written by a thread of its own while the next is filled.

use std::any::Any;
use std::fmt::Debug;
use std::io;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

/// Takes items one after the other.
pub(crate) trait Output: Send + 'static {
    /// What is taken.
    type Item: Debug + Send + 'static;
    /// Why it was not.
    type Error: Debug + Send + 'static;

    /// Writes an item.
    fn write(&mut self, item: &Self::Item) -> Result<(), Self::Error>;
}

/// An output that writes one item while its caller fills the next; some more may wait between them.
///
/// One item alone needs no thread and gets none. An error shows at the next item or at the end. Whoever drops it waits
/// for what is under way, and what the output holds is gone then.
#[derive(Debug)]
pub(crate) struct Behind<O: Output> {
    state: State<O>,
    thread_name: &'static str,
    items_waiting: usize,
}

#[derive(Debug)]
enum State<O: Output> {
    Here(O),
    There(Writing<O>),
    /// An error was told.
    Ended,
}

#[derive(Debug)]
struct Writing<O: Output> {
    items: SyncSender<O::Item>,
    written: Receiver<O::Item>,
    thread: JoinHandle<Result<O, O::Error>>,
}

/// Why an item was not written.
#[derive(Debug)]
pub(crate) enum Unwritten<E> {
    /// The system starts no thread.
    NoThread(io::Error),
    /// What the output said.
    Failed(E),
    /// Writing failed before, which was told.
    Ended,
}

impl<O: Output> Behind<O> {
    /// Begins. Besides the item that is filled and the one that is written, `items_waiting` may be in memory, so that
    /// whoever fills them need not wait for an output that works by fits and starts.
    pub(crate) const fn new(output: O, thread_name: &'static str, items_waiting: usize) -> Self {
        Self { state: State::Here(output), thread_name, items_waiting }
    }

    /// Has an item written; returns one that is written, if there is one, whose memory may be used again.
    pub(crate) fn write(&mut self, item: O::Item) -> Result<Option<O::Item>, Unwritten<O::Error>> {
        let writing = match std::mem::replace(&mut self.state, State::Ended) {
            State::Here(output) => Writing::start(output, self.thread_name, self.items_waiting)
                .map_err(Unwritten::NoThread)?,
            State::There(writing) => writing,
            State::Ended => return Err(Unwritten::Ended),
        };
        // Nobody is there to receive once a write has failed.
        if writing.items.send(item).is_err() {
            return Err(writing.finish().map_or_else(Unwritten::Failed, |_| Unwritten::Ended));
        }
        let written = writing.written.try_recv().ok();
        self.state = State::There(writing);
        Ok(written)
    }

    /// Waits until all items are written, and does something to the output.
    pub(crate) fn settled<T>(
        &mut self,
        act: impl FnOnce(&mut O) -> Result<T, O::Error>,
    ) -> Result<T, Unwritten<O::Error>> {
        let mut output = self.take()?;
        let done = act(&mut output).map_err(Unwritten::Failed)?;
        self.state = State::Here(output);
        Ok(done)
    }

    /// Waits until all items are written, and returns the output.
    pub(crate) fn finish(mut self) -> Result<O, Unwritten<O::Error>> {
        self.take()
    }

    fn take(&mut self) -> Result<O, Unwritten<O::Error>> {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Here(output) => Ok(output),
            State::There(writing) => writing.finish().map_err(Unwritten::Failed),
            State::Ended => Err(Unwritten::Ended),
        }
    }
}

impl<O: Output> Drop for Behind<O> {
    fn drop(&mut self) {
        // A file that has only a temporary name must be gone before the process is.
        if let State::There(Writing { items, thread, .. }) =
            std::mem::replace(&mut self.state, State::Ended)
        {
            drop(items);
            drop(thread.join());
        }
    }
}

impl<O: Output> Writing<O> {
    fn start(output: O, name: &str, items_waiting: usize) -> io::Result<Self> {
        let (items, to_write) = sync_channel(items_waiting);
        let (give_back, written) = channel();
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || write_all(output, &to_write, &give_back))?;
        Ok(Self { items, written, thread })
    }

    fn finish(self) -> Result<O, O::Error> {
        drop(self.items);
        self.thread.join().unwrap_or_else(|panic: Box<dyn Any + Send>| resume_unwind(panic))
    }
}

fn write_all<O: Output>(
    mut output: O,
    items: &Receiver<O::Item>,
    give_back: &Sender<O::Item>,
) -> Result<O, O::Error> {
    for item in items {
        output.write(&item)?;
        // Whoever fills items may have gone.
        let _ = give_back.send(item);
    }
    Ok(output)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    /// Keeps what it is given, as long as there is room.
    struct Kept {
        items: Vec<u32>,
        room: usize,
    }

    impl Output for Kept {
        type Item = u32;
        type Error = &'static str;

        fn write(&mut self, item: &u32) -> Result<(), &'static str> {
            if self.items.len() == self.room {
                return Err("full");
            }
            self.items.push(*item);
            Ok(())
        }
    }

    fn behind(room: usize) -> Behind<Kept> {
        Behind::new(Kept { items: Vec::new(), room }, "keep", 0)
    }

    #[test]
    fn items_are_written_in_order_and_come_back() {
        let mut behind = behind(9);
        let returned: Vec<u32> = (1..=4).filter_map(|item| behind.write(item).unwrap()).collect();
        // When the last was taken, those before it were written; it may be written, too.
        assert!(returned.is_sorted_by(|a, b| a < b) && returned.last() >= Some(&3), "{returned:?}");
        assert_eq!(behind.settled(|kept| Ok(kept.items.len())).unwrap(), 4);
        behind.write(5).unwrap();
        assert_eq!(behind.finish().unwrap().items, [1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_failed_write_is_told_once_and_stays_one() {
        let mut behind = behind(1);
        let errors: Vec<_> = (0..5).filter_map(|item| behind.write(item).err()).collect();
        assert!(matches!(errors[0], Unwritten::Failed("full")));
        assert!(errors[1..].iter().all(|error| matches!(error, Unwritten::Ended)));
        assert!(matches!(behind.finish(), Err(Unwritten::Ended)));
        let mut last = self::behind(1);
        assert!(last.write(1).is_ok() && last.write(2).is_ok());
        assert!(matches!(last.finish(), Err(Unwritten::Failed("full"))));
    }

    #[test]
    fn what_is_dropped_is_gone() {
        struct Slow(Arc<AtomicBool>);
        impl Output for Slow {
            type Item = ();
            type Error = ();
            fn write(&mut self, (): &()) -> Result<(), ()> {
                thread::sleep(Duration::from_millis(20));
                Ok(())
            }
        }
        impl Drop for Slow {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let is_gone = Arc::new(AtomicBool::new(false));
        let mut behind = Behind::new(Slow(Arc::clone(&is_gone)), "sleep", 0);
        behind.write(()).unwrap();
        drop(behind);
        assert!(is_gone.load(Ordering::SeqCst));
    }
}

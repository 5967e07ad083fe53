//! [`Ahead`]: what an iterator makes, made by a thread of its own while the item before it is used.

use std::any::Any;
use std::io;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};

/// The items of an iterator, of which a thread makes the next while whoever took the last one works on
/// it: two are in memory at a time.
///
/// Dropped, it waits until the item that is being made is there.
pub(crate) struct Ahead<T> {
    items: Option<Receiver<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> Ahead<T> {
    /// Begins to make the items.
    pub(crate) fn start(items: impl Iterator<Item = T> + Send + 'static) -> io::Result<Self> {
        // Without room in the channel, the thread is never more than one ahead.
        let (made, taken) = sync_channel(0);
        let make_all = move || {
            for item in items {
                // Nobody takes more once the receiver is gone.
                if made.send(item).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("read batches".to_owned()).spawn(make_all)?;
        Ok(Self { items: Some(taken), thread: Some(thread) })
    }
}

impl<T> Iterator for Ahead<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if let Ok(item) = self.items.as_ref()?.recv() {
            return Some(item);
        }
        self.items = None;
        let ended = self.thread.take().map_or(Ok(()), JoinHandle::join);
        ended.unwrap_or_else(|panic: Box<dyn Any + Send>| resume_unwind(panic));
        None
    }
}

impl<T> Drop for Ahead<T> {
    fn drop(&mut self) {
        self.items = None;
        // A panic in an item that nobody takes is nobody's.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn items_come_in_order() {
        let ahead = Ahead::start(0..1000).unwrap();
        assert!(ahead.eq(0..1000));
        let mut none = Ahead::start(std::iter::empty::<u8>()).unwrap();
        assert_eq!((none.next(), none.next()), (None, None));
    }

    #[test]
    fn nothing_is_made_beyond_the_next_one() {
        let made = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&made);
        let counted = (0..1000).inspect(move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
        });
        let mut ahead = Ahead::start(counted).unwrap();
        assert_eq!(ahead.by_ref().take(3).collect::<Vec<_>>(), [0, 1, 2]);
        drop(ahead);
        assert!((3..=4).contains(&made.load(Ordering::SeqCst)), "{made:?}");
    }

    #[test]
    fn a_panic_reaches_whoever_takes() {
        let mut ahead = Ahead::start((0..9).inspect(|&i| assert!(i < 2, "two"))).unwrap();
        assert_eq!((ahead.next(), ahead.next()), (Some(0), Some(1)));
        assert!(catch_unwind(AssertUnwindSafe(|| ahead.next())).is_err());
        assert_eq!(ahead.next(), None);
    }
}

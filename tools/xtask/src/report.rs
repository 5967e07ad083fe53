//! Where the chores print.
#![expect(clippy::print_stdout, reason = "the one file of the chores that prints")]

/// Prints one line.
pub(crate) fn line(text: &str) {
    println!("{text}");
}

//! Words that messages of several operations share.

use std::path::Path;

use memfold_core::report::{grouped, shell_words};

use super::StorePath;

/// A command about a store as a command line: the words before the store, the store, the words
/// after it.
#[must_use]
pub fn store_words(before: &[&str], store: &StorePath, after: &[&str]) -> String {
    let store = path_word(store.named());
    shell_words(&[before, &[&store], after].concat())
}

/// The command line that undoes a run.
#[must_use]
pub fn undo_words(store: &StorePath, run_id: &str) -> String {
    store_words(&["memfold", "undo"], store, &[run_id, "--execute"])
}

/// A path as a word of a command line, where it must not be taken for a flag.
#[must_use]
pub fn path_word(path: &Path) -> String {
    let word = path.to_string_lossy();
    if word.starts_with('-') { format!("./{word}") } else { word.into_owned() }
}

/// A count with its noun: `1 unit`, `1,204 units`.
#[must_use]
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count), noun(count, one, many))
}

/// The noun of a count.
#[must_use]
pub const fn noun<'a>(count: u64, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}

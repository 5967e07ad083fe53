//! `tidy`: invariants that no compiler checks, each with the sentence that mends it.

mod files;
mod manifests;
mod sources;

use std::path::Path;

use crate::report;

/// A breach: where, and what to do.
pub(crate) struct Breach {
    place: String,
    advice: String,
}

impl Breach {
    fn new(place: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { place: place.into(), advice: advice.into() }
    }
}

/// Checks everything and prints each breach; returns whether there is none.
pub(crate) fn run(root: &Path) -> bool {
    let files = match files::tracked(root) {
        Ok(files) => files,
        Err(error) => {
            report::line(&format!("tidy: cannot list the files of git: {error}"));
            return false;
        }
    };
    let mut breaches = manifests::check(root);
    for file in &files {
        breaches.extend(files::check(root, file));
        breaches.extend(sources::check(root, file));
    }
    for Breach { place, advice } in &breaches {
        report::line(&format!("tidy: {place}: {advice}"));
    }
    report::line(&format!("tidy: {} files, {} breaches", files.len(), breaches.len()));
    breaches.is_empty()
}

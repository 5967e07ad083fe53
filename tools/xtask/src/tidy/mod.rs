//! `tidy`: invariants that no compiler checks, each with the sentence that mends it.

mod breach;
mod files;
mod manifests;
mod sources;

use std::path::Path;

use self::breach::Breach;
use crate::report;

/// Checks everything and prints each breach; fails where there is one.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let files = files::tracked(root).map_err(|error| format!("cannot list the files: {error}"))?;
    let mut breaches = manifests::check(root);
    for file in &files {
        breaches.extend(files::check(root, file));
        breaches.extend(sources::check(root, file));
    }
    for Breach { place, advice } in &breaches {
        report::line(&format!("tidy: {place}: {advice}"));
    }
    match breaches.len() {
        0 => report::line(&format!("tidy: {} files, no breach", files.len())),
        count => return Err(format!("{count} breaches in {} files", files.len())),
    }
    Ok(())
}

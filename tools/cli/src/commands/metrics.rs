//! `--metrics FILE`: what a run tells a monitor.

use std::path::Path;

use memfold_pipeline::report::{Report, write_metrics};
use memfold_pipeline::store::BrainDb;

use crate::failure::Failure;

/// Writes the metrics of a run, with counts of the store where it can be read.
pub(crate) fn write(path: &Path, report: &Report, store: &BrainDb) -> Result<(), Failure> {
    let figures = store.figures().ok();
    write_metrics(path, report, figures.as_ref()).map_err(|error| {
        let hint = error.hint();
        Failure::new("write the metrics", &error, hint)
    })
}

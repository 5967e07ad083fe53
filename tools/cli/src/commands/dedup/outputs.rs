//! The files that a run writes, looked at before it works.

use std::path::PathBuf;

use crate::args::DedupArgs;
use crate::commands::outputs;
use crate::failure::Failure;

/// Refuses several thresholds where there is a column for one, and outputs that cannot be written.
pub(super) fn check(args: &DedupArgs, inputs: &[PathBuf]) -> Result<(), Failure> {
    if args.annotate.is_some() && args.thresholds().len() > 1 {
        return Err(Failure::usage(
            "--annotate takes one threshold: a row has one cluster in it",
            "choose one, or write the clusters of all with --clusters",
        ));
    }
    let files =
        [("--pairs", &args.pairs), ("--clusters", &args.clusters), ("--annotate", &args.annotate)];
    outputs::check(&files, inputs, args.force)
}

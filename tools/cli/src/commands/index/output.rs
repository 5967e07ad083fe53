//! The output of the forms of `memfold index`.

use std::path::Path;

use memfold::lookup::{IndexDifference, IndexError, IndexFiles, VerifiedIndex};
use memfold::ops::IndexBuildDocument;
use memfold_guard::text::excerpt;

use crate::failure::Failure;

/// Characters of a model's or file's name that are displayed.
const NAME_CHARS: usize = 40;

/// Describes a build; `of` names the source of the rows, a model or a file.
pub(super) fn built_screen(
    built: &IndexBuildDocument,
    rows: &str,
    of: &str,
    without_vector: &str,
) -> String {
    let answered = if built.tier == "graph" { "by a graph" } else { "exactly, by a scan" };
    let rows = format!("{} {rows}", built.rows);
    let mut text = headline(built.generation, &rows, of, built.dim as usize, answered);
    text.push_str(&format!(
        "{} index and {} columns in {:.2} s\n{}\n",
        mebibytes(built.index_bytes),
        mebibytes(built.columns_bytes),
        built.seconds,
        built.folder
    ));
    if built.without_vector > 0 {
        text.push_str(&format!("{} {without_vector}\n", built.without_vector));
    }
    if let Some(reason) = &built.graph_refused {
        text.push_str(&format!("the graph was thrown away: {reason}\n"));
    }
    text
}

/// Describes a verification: the `indexed` parts, and how the rows compare with their source.
pub(super) fn verified_screen(
    verified: &VerifiedIndex,
    indexed: &str,
    compared: impl FnOnce(IndexDifference) -> String,
) -> String {
    let VerifiedIndex { bytes, graph, difference } = verified;
    let mut text = format!("{} are as they were written, with {indexed}\n", mebibytes(*bytes));
    if let Some(graph) = graph {
        text.push_str(&format!(
            "all {} nodes can be reached; {} of {} rows looked up find themselves\n",
            graph.nodes, graph.found, graph.looked_up
        ));
    }
    text + &difference.map(compared).unwrap_or_default()
}

/// Describes a generation in a line.
fn headline(generation: u64, rows: &str, of: &str, dim: usize, answered: &str) -> String {
    let of = excerpt(of, NAME_CHARS);
    format!("generation {generation}: {rows} of {of} ({dim} dimensions), answered {answered}\n")
}

/// Lists the files of a generation with their sizes, and where they are.
pub(super) fn files_screen(files: &IndexFiles, rows: &str, of: &str, folder: &Path) -> String {
    let (columns, generation) = (files.columns(), files.generation());
    let rows = format!("{} {rows}", columns.len());
    let answered = format!("by a {}", files.tier().name());
    let mut text = headline(generation.number(), &rows, of, columns.dim(), &answered);
    for (name, bytes) in generation.file_lengths() {
        text.push_str(&format!("  {name:14} {}\n", mebibytes(bytes)));
    }
    text.push_str(&format!("  in {}\n", folder.display()));
    text
}

/// Shows bytes in MiB, or in KiB where there are few.
fn mebibytes(bytes: u64) -> String {
    match bytes as f64 / f64::from(1 << 20) {
        small if small < 1.0 => format!("{:.0} KiB", small * 1024.0),
        mebibytes => format!("{mebibytes:.1} MiB"),
    }
}

/// Opens the index in a folder, which must be there.
pub(super) fn open<T>(
    folder: &Path,
    open: impl FnOnce(&Path) -> Result<Option<T>, IndexError>,
) -> Result<T, Failure> {
    let found = open(folder).map_err(|error| Failure::of("open the index", &error))?;
    found.ok_or_else(|| {
        Failure::plain(
            format!("no index in {}", folder.display()),
            "build it with `memfold index build`",
        )
    })
}

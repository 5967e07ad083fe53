//! The output of the forms of `memfold index`.

use std::collections::BTreeMap;
use std::path::Path;

use memfold::lookup::{IndexDifference, IndexError, IndexFiles, VerifiedIndex};
use memfold_guard::text::excerpt;
use memfold_index::index_file::GraphOutcome;

use crate::args::GlobalArgs;
use crate::failure::{Exit, Failure};
use crate::printer::Printer;

/// Characters of a model's or file's name that are displayed.
const NAME_CHARS: usize = 40;

/// `memfold index build --json`
#[derive(Debug, serde::Serialize)]
pub(super) struct BuildDocument {
    pub(super) schema_version: u32,
    /// The number of the generation that lookups read from now on.
    pub(super) generation: u64,
    /// The tier that answers lookups: `scan` or `graph`.
    pub(super) tier: &'static str,
    /// Why the graph was thrown away; `null` where it was not.
    pub(super) graph_refused: Option<String>,
    /// Rows with a vector, which lookups find.
    pub(super) rows: u64,
    /// Live memories that have no vector of this model; rows of a file that have no usable one.
    pub(super) without_vector: u64,
    /// The embedding model; `null` for a file, which names none.
    pub(super) model: Option<String>,
    /// Components of each vector.
    pub(super) dim: u32,
    pub(super) index_bytes: u64,
    pub(super) columns_bytes: u64,
    /// The folder of generations.
    pub(super) folder: String,
    pub(super) seconds: f64,
    /// Peak resident memory of the process; `null` where the system does not tell.
    pub(super) peak_rss_bytes: Option<u64>,
    /// Peak anonymous memory of the process; `null` where the system does not tell.
    pub(super) peak_anon_bytes: Option<u64>,
}

/// `memfold index info --json`
#[derive(Debug, serde::Serialize)]
pub(super) struct InfoDocument {
    pub(super) schema_version: u32,
    /// The number of the live generation.
    pub(super) generation: u64,
    /// The tier that answers lookups: `scan` or `graph`.
    pub(super) tier: &'static str,
    /// Rows of the generation.
    pub(super) rows: u64,
    /// Rows that differ in at least one bit; all rows where there is no graph.
    pub(super) nodes: u64,
    /// The embedding model; `null` for a file, which names none.
    pub(super) model: Option<String>,
    /// Components of each vector.
    pub(super) dim: u32,
    /// Live memories that had no vector of this model; rows of a file that had no usable one.
    pub(super) without_vector: u64,
    /// Rows that were added since, and segments that hold them.
    pub(super) sealed_rows: u64,
    pub(super) segments: u64,
    /// Newer vectors that are compared one by one; `null` where the index no longer fits.
    pub(super) fresh_rows: Option<u64>,
    /// Whether the index no longer fits, so that lookups do without it.
    pub(super) foreign: bool,
    /// Lengths of the files by their names.
    pub(super) bytes: BTreeMap<String, u64>,
    /// Stands for every byte of `index.mfi`: 16 hexadecimal digits.
    pub(super) fingerprint: String,
    /// The folder of generations.
    pub(super) folder: String,
    /// The results of verification; `null` without --verify.
    pub(super) verified: Option<VerifiedDocument>,
}

impl InfoDocument {
    /// The facts from the files of a generation: it fits, and there are no newer rows.
    pub(super) fn of(files: &IndexFiles, folder: String) -> Self {
        Self {
            schema_version: 1,
            generation: files.generation().number(),
            tier: files.tier().name(),
            rows: files.columns().len() as u64,
            nodes: files.tiers().head().node_count.into(),
            model: None,
            // Dimensions are limited by the vectors' maximum.
            dim: files.columns().dim() as u32,
            without_vector: 0,
            sealed_rows: 0,
            segments: 0,
            fresh_rows: Some(0),
            foreign: false,
            bytes: files.generation().file_lengths().collect(),
            fingerprint: format!("{:016x}", files.tiers().fingerprint()),
            folder,
            verified: None,
        }
    }
}

/// The results of verifying an index.
#[derive(Debug, serde::Serialize)]
pub(super) struct VerifiedDocument {
    /// Bytes that are as they were written.
    bytes: u64,
    /// Rows that were looked up in the graph; `null` where there is none.
    looked_up: Option<u64>,
    /// Of these, rows that found themselves.
    found: Option<u64>,
    /// How the rows stand to the store or file.
    store: Option<DifferenceDocument>,
}

/// The differences between the rows of an index and their source.
#[derive(Debug, serde::Serialize)]
pub(super) struct DifferenceDocument {
    /// Rows as they were.
    pub(super) same: u64,
    /// Rows with another vector now, or in a file also another id.
    pub(super) changed: u64,
    /// Rows that are gone, or no longer live.
    pub(super) gone: u64,
    /// Newer rows.
    pub(super) fresh: u64,
}

impl From<IndexDifference> for DifferenceDocument {
    fn from(found: IndexDifference) -> Self {
        let IndexDifference { same, changed, gone, fresh } = found;
        Self { same, changed, gone, fresh }
    }
}

/// The wording about an index of a store, or of a file.
pub(super) struct BuildWords<'a> {
    /// The name of the indexed rows.
    pub(super) rows: &'static str,
    /// Their source: a model, or a file.
    pub(super) of: &'a str,
    /// The name of the rows without a vector, and of the missing part.
    pub(super) without_vector: &'static str,
}

/// Reports the results of a build.
pub(super) fn tell_built(
    built: &BuildDocument,
    words: &BuildWords<'_>,
    global: &GlobalArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    if global.json {
        printer.document(built)?;
        return Ok(Exit::Done);
    }
    let BuildDocument { generation, rows, dim, without_vector, seconds, folder, .. } = built;
    let answered = if built.tier == "graph" { "by a graph" } else { "exactly, by a scan" };
    let indexed = format!("{rows} {}", words.rows);
    let mut text = headline(*generation, &indexed, words.of, *dim as usize, answered);
    text.push_str(&format!(
        "{} index and {} columns in {seconds:.2} s\n{folder}\n",
        mebibytes(built.index_bytes),
        mebibytes(built.columns_bytes)
    ));
    if *without_vector > 0 {
        text.push_str(&format!("{without_vector} {}\n", words.without_vector));
    }
    if let Some(reason) = &built.graph_refused {
        text.push_str(&format!("the graph was thrown away: {reason}\n"));
    }
    printer.data(&text)?;
    Ok(Exit::Done)
}

pub(super) const fn tier(graph: &GraphOutcome) -> &'static str {
    match graph {
        GraphOutcome::Kept(_) => "graph",
        GraphOutcome::NotAsked | GraphOutcome::Refused(_) => "scan",
    }
}

pub(super) fn refused(graph: &GraphOutcome) -> Option<String> {
    match graph {
        GraphOutcome::Refused(error) => Some(error.to_string()),
        GraphOutcome::NotAsked | GraphOutcome::Kept(_) => None,
    }
}

/// The wording about an index of a store, or of a file.
pub(super) struct VerifyWords {
    /// The parts that were compared with their written form.
    pub(super) indexed: &'static str,
    /// The comparison with its store or file.
    pub(super) compared: fn(IndexDifference) -> String,
}

/// The results of verifying an index, as a document and in words.
pub(super) fn verified(
    verified: Result<VerifiedIndex, IndexError>,
    words: &VerifyWords,
) -> Result<(VerifiedDocument, String), Failure> {
    let VerifiedIndex { bytes, graph, difference } = verified.map_err(|error| {
        if error.is_cancelled() {
            return Failure::interrupted();
        }
        Failure::of("verify the index", &error)
    })?;
    let mut text =
        format!("{} are as they were written, with {}\n", mebibytes(bytes), words.indexed);
    if let Some(graph) = &graph {
        text.push_str(&format!(
            "all {} nodes can be reached; {} of {} rows looked up find themselves\n",
            graph.nodes, graph.found, graph.looked_up
        ));
    }
    let document = VerifiedDocument {
        bytes,
        looked_up: graph.as_ref().map(|graph| graph.looked_up as u64),
        found: graph.map(|graph| graph.found as u64),
        store: difference.map(DifferenceDocument::from),
    };
    text.push_str(&difference.map(words.compared).unwrap_or_default());
    Ok((document, text))
}

/// Describes a generation in a line.
pub(super) fn headline(
    generation: u64,
    rows: &str,
    of: &str,
    dim: usize,
    answered: &str,
) -> String {
    let of = excerpt(of, NAME_CHARS);
    format!("generation {generation}: {rows} of {of} ({dim} dimensions), answered {answered}\n")
}

/// Lists the files of a generation with their sizes, and where they are.
pub(super) fn files_screen(files: &IndexFiles, rows: &str, of: &str, folder: &str) -> String {
    let (columns, generation) = (files.columns(), files.generation());
    let rows = format!("{} {rows}", columns.len());
    let answered = format!("by a {}", files.tier().name());
    let mut text = headline(generation.number(), &rows, of, columns.dim(), &answered);
    for (name, bytes) in generation.file_lengths() {
        text.push_str(&format!("  {name:14} {}\n", mebibytes(bytes)));
    }
    text.push_str(&format!("  in {folder}\n"));
    text
}

/// Shows bytes in MiB, or in KiB where there are few.
pub(super) fn mebibytes(bytes: u64) -> String {
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
    match open(folder) {
        Ok(Some(index)) => Ok(index),
        Ok(None) => Err(Failure::plain(
            format!("no index in {}", folder.display()),
            "build it with `memfold index build`",
        )),
        Err(error) => Err(unopened(&error)),
    }
}

pub(super) fn unopened(error: &IndexError) -> Failure {
    Failure::of("open the index", error)
}

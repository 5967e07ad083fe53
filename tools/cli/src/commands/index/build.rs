//! `memfold index build`

use std::time::Duration;

use memfold::lookup::{
    BuildIndex, BuiltIndex, SealError, SealFresh, Sealed, build_index, seal_fresh,
};
use memfold::machine;
use memfold_index::snapshot::FileMode;
use memfold_index::tiers::GraphOutcome;
use memfold_simd::Kernels;
use memfold_store::{BrainDb, LoadRequest};

use super::documents::BuildDocument;
use super::{headline, mebibytes, place, refuse_columns};
use crate::args::{GlobalArgs, IndexBuildArgs};
use crate::commands::consolidate::open_store;
use crate::commands::writing;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::progress::Bars;
use crate::resources::{MemoryWatch, Stopwatch};
use crate::settings::{self, Settings};

pub(super) fn run(
    global: &GlobalArgs,
    args: &IndexBuildArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let db = &args.place.db;
    refuse_columns(&args.columns)?;
    let settings = Settings::load(global, Some(db), &[])?;
    settings.show_notices(printer);
    let (watch, stopwatch) = (MemoryWatch::start(), Stopwatch::start());
    let store = open_store(db, &settings)?;
    let folder = place::to_build(&args.place)?;
    let metadata = std::fs::metadata(db)
        .map_err(|error| Failure::new(&format!("open {}", db.display()), &error, None))?;
    let (time_zone, bars) = (settings.time_zone()?, Bars::new(printer));
    let load = LoadRequest { time_zone: &time_zone, now: machine::clock(), progress: &bars };
    let mode = FileMode::like(&metadata);
    let wait = Duration::from_secs(args.wait.into());
    if args.append {
        let seal = SealFresh {
            folder: &folder,
            mode,
            load,
            rows_min: 1,
            kernels: Kernels::active(),
            wait,
        };
        match append(&store, &seal, printer)? {
            Some(text) if !global.json => {
                printer.data(&text)?;
                return Ok(Exit::Done);
            }
            Some(_) => return super::info::run(global, &args.place, printer),
            None => {}
        }
    }
    let built = build_index(
        &store,
        &BuildIndex {
            folder: &folder,
            mode,
            load,
            model: args.model.as_deref(),
            tier: args.tier.into(),
            pool: &settings::pool(global)?,
            kernels: Kernels::active(),
            scratch_dir: &settings::scratch_dir(),
            wait,
        },
    );
    let built = built.map_err(|error| {
        if error.is_cancelled() {
            return Failure::interrupted();
        }
        let hint = error.hint();
        Failure::new(&format!("build the index of {}", db.display()), &error, hint)
    })?;
    let seconds = stopwatch.seconds();
    let document = document(&built, folder.display().to_string(), (seconds, watch.finish()));
    let of_a_store = Words {
        rows: "memories",
        of: &built.space.model,
        without_vector: "live memories have no vector of this model",
    };
    tell(&document, &of_a_store, (global, printer))
}

/// Whether an index is built anew without being asked for.
pub(crate) struct Rebuild;

impl Rebuild {
    /// Up to so many rows a build takes seconds.
    const ROWS_MAX: u64 = 250_000;
    /// Without an index, so many rows are read for each check.
    pub(crate) const ROWS_MIN: u64 = 2_000;
    /// From this share of rows on that came since, a build is worth its time.
    const FRESH_SHARE: u64 = 10;

    /// Tells whether an index of so many rows (0: none) wants to be built anew, after so many came since.
    pub(crate) const fn wanted(rows: u64, fresh_rows: u64) -> bool {
        let is_many = fresh_rows > Self::ROWS_MIN && fresh_rows * Self::FRESH_SHARE > rows;
        is_many && rows + fresh_rows <= Self::ROWS_MAX
    }
}

/// Builds the index of a store, unless another process does so now.
pub(crate) fn rebuild(
    (global, settings): (&GlobalArgs, &Settings),
    args: &crate::args::IndexPlaceArgs,
    progress: &dyn memfold_index::Progress,
) -> Result<(), Failure> {
    let store = open_store(&args.db, settings)?;
    let folder = place::to_build(args)?;
    let metadata = std::fs::metadata(&args.db)
        .map_err(|error| Failure::new(&format!("open {}", args.db.display()), &error, None))?;
    let time_zone = settings.time_zone()?;
    let load = LoadRequest { time_zone: &time_zone, now: machine::clock(), progress };
    let built = build_index(
        &store,
        &BuildIndex {
            folder: &folder,
            mode: FileMode::like(&metadata),
            load,
            model: None,
            tier: memfold::lookup::TierChoice::Auto,
            pool: &settings::pool(global)?,
            kernels: Kernels::active(),
            scratch_dir: &settings::scratch_dir(),
            wait: Duration::ZERO,
        },
    );
    built.map(drop).map_err(|error| {
        let hint = error.hint();
        Failure::new(&format!("build the index of {}", args.db.display()), &error, hint)
    })
}

/// Adds what came since; `None` where a build must do it.
fn append(
    store: &BrainDb,
    seal: &SealFresh<'_>,
    printer: Printer,
) -> Result<Option<String>, Failure> {
    match seal_fresh(store, seal) {
        Ok(Sealed::Segment { number, rows }) => {
            let memories = writing::noun(rows as u64, "memory", "memories");
            Ok(Some(format!("added {rows} {memories} as segment {number}\n")))
        }
        Ok(Sealed::TooFew { .. }) => Ok(Some("no memories have come since\n".to_owned())),
        Ok(Sealed::NoIndex) => Ok(None),
        Err(
            error @ (SealError::Foreign
            | SealError::TooMany
            | SealError::Damaged(_)
            | SealError::Open(_)),
        ) => {
            printer.note(&format!("note: {error}; building anew"));
            Ok(None)
        }
        Err(error) => {
            let hint = error.hint();
            Err(Failure::new("add to the index", &error, hint))
        }
    }
}

fn document(
    built: &BuiltIndex,
    folder: String,
    (seconds, (peak_rss, peak_anon)): (f64, (Option<u64>, Option<u64>)),
) -> BuildDocument {
    let BuiltIndex { generation, rows, without_vector, space, graph, file_bytes } = built;
    BuildDocument {
        schema_version: 1,
        generation: *generation,
        tier: tier(graph),
        graph_refused: refused(graph),
        rows: *rows,
        without_vector: *without_vector,
        model: Some(space.model.to_string()),
        dim: space.dim,
        index_bytes: file_bytes[0],
        columns_bytes: file_bytes[1],
        folder,
        seconds,
        peak_rss_bytes: peak_rss,
        peak_anon_bytes: peak_anon,
    }
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

/// What is said of an index of a store, or of one of a file.
pub(super) struct Words<'a> {
    /// What is indexed.
    pub(super) rows: &'static str,
    /// Of what: a model, or a file.
    pub(super) of: &'a str,
    /// What those without a vector are, and lack.
    pub(super) without_vector: &'static str,
}

/// Tells what was built.
pub(super) fn tell(
    built: &BuildDocument,
    words: &Words<'_>,
    (global, printer): (&GlobalArgs, Printer),
) -> Result<Exit, Failure> {
    if global.json {
        printer.document(built)?;
        return Ok(Exit::Done);
    }
    let BuildDocument { generation, rows, dim, without_vector, seconds, folder, .. } = built;
    let answered = if built.tier == "graph" { "by a graph" } else { "exactly, by a scan" };
    let indexed = format!("{rows} {}", words.rows);
    let mut text = headline(*generation, &indexed, (words.of, *dim as usize), answered);
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

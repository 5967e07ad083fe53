//! `memfold index` for a file of vectors.

use std::time::Duration;

use memfold_index::snapshot::FileMode;
use memfold_pipeline::lookup::IndexDifference;
use memfold_pipeline::lookup::corpus::{
    BuildCorpusIndex, BuiltCorpusIndex, CorpusIndex, build_corpus_index, verify_corpus_index,
};
use memfold_pipeline::text::excerpt;
use memfold_simd::Kernels;

use super::documents::{BuildDocument, InfoDocument};
use super::verify::{self, Words};
use super::{build as store, files_in, mebibytes, open, place};
use crate::args::{GlobalArgs, IndexBuildArgs, IndexPlaceArgs, IndexVerifyArgs};
use crate::commands::dedup::open_columns;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::progress::Bars;
use crate::resources::{MemoryWatch, Stopwatch};
use crate::settings;

/// Characters of a file's name that are shown.
const NAME_CHARS: usize = 40;

pub(super) fn build(
    global: &GlobalArgs,
    args: &IndexBuildArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let (input, bars) = (&args.place.db, Bars::new(printer));
    refuse_options_of_stores(args)?;
    let (watch, stopwatch) = (MemoryWatch::start(), Stopwatch::start());
    let metadata = std::fs::metadata(input)
        .map_err(|error| Failure::new(&format!("open {}", input.display()), &error, None))?;
    let folder = place::to_build(&args.place)?;
    let request = BuildCorpusIndex {
        folder: &folder,
        mode: FileMode::like(&metadata),
        columns: &args.columns.columns(),
        tier: args.tier.into(),
        pool: &settings::pool(global)?,
        kernels: Kernels::active(),
        scratch_dir: &settings::scratch_dir(),
        progress: &bars,
        wait: Duration::from_secs(args.wait.into()),
    };
    let built = build_corpus_index(input, &request).map_err(|error| {
        if error.is_cancelled() {
            return Failure::interrupted();
        }
        let hint = error.hint();
        Failure::new(&format!("build the index of {}", input.display()), &error, hint)
    })?;
    let (seconds, folder) = (stopwatch.seconds(), folder.display().to_string());
    if global.json {
        printer.document(&document(&built, folder, (seconds, watch.finish())))?;
    } else {
        printer.data(&built_screen(&built, seconds, &folder))?;
    }
    Ok(Exit::Done)
}

fn refuse_options_of_stores(args: &IndexBuildArgs) -> Result<(), Failure> {
    let (option, hint) = match args {
        IndexBuildArgs { append: true, .. } => {
            ("--append", "leave it out: a file that has changed is indexed anew")
        }
        IndexBuildArgs { model: Some(_), .. } => {
            ("--model", "choose the column of the vectors with --vector-column NAME")
        }
        _ => return Ok(()),
    };
    let shown = args.place.db.display();
    Err(Failure::usage(format!("{option} is for stores, and {shown} is a file of vectors"), hint))
}

fn document(
    built: &BuiltCorpusIndex,
    folder: String,
    (seconds, (peak_rss, peak_anon)): (f64, (Option<u64>, Option<u64>)),
) -> BuildDocument {
    let BuiltCorpusIndex { generation, rows, origin, graph, file_bytes } = built;
    BuildDocument {
        schema_version: 1,
        generation: *generation,
        tier: store::tier(graph),
        graph_refused: store::refused(graph),
        rows: *rows,
        without_vector: origin.skipped,
        model: None,
        dim: origin.dim,
        index_bytes: file_bytes[0],
        columns_bytes: file_bytes[1],
        folder,
        seconds,
        peak_rss_bytes: peak_rss,
        peak_anon_bytes: peak_anon,
    }
}

fn built_screen(built: &BuiltCorpusIndex, seconds: f64, folder: &str) -> String {
    let BuiltCorpusIndex { generation, rows, origin, graph, file_bytes } = built;
    let mut text = format!(
        "generation {generation}: {rows} rows of {} ({} dimensions), answered {}\n",
        excerpt(&origin.corpus.name, NAME_CHARS),
        origin.dim,
        store::how(graph)
    );
    text.push_str(&format!(
        "{} index and {} columns in {seconds:.2} s\n{folder}\n",
        mebibytes(file_bytes[0]),
        mebibytes(file_bytes[1])
    ));
    if origin.skipped > 0 {
        text.push_str(&format!("{} rows have no usable vector\n", origin.skipped));
    }
    if let Some(reason) = store::refused(graph) {
        text.push_str(&format!("the graph was thrown away: {reason}\n"));
    }
    text
}

pub(super) fn info(
    global: &GlobalArgs,
    args: &IndexPlaceArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let folder = place::to_read(args)?;
    let index = open(&folder, CorpusIndex::open)?;
    let fits = index
        .fits(&args.db)
        .map_err(|error| Failure::new(&format!("read {}", args.db.display()), &error, None))?;
    let folder = folder.display().to_string();
    if global.json {
        let origin = index.origin();
        printer.document(&InfoDocument {
            schema_version: 1,
            generation: index.generation().number(),
            tier: index.tier().name(),
            rows: index.columns().len() as u64,
            nodes: index.file().head().node_count.into(),
            model: None,
            dim: origin.dim,
            without_vector: origin.skipped,
            sealed_rows: 0,
            segments: 0,
            fresh_rows: fits.then_some(0),
            foreign: !fits,
            bytes: index.generation().file_lengths().collect(),
            fingerprint: format!("{:016x}", index.file().fingerprint()),
            folder,
        })?;
    } else {
        printer.data(&info_screen(&index, fits, &folder))?;
    }
    Ok(Exit::Done)
}

fn info_screen(index: &CorpusIndex, fits: bool, folder: &str) -> String {
    let origin = index.origin();
    let mut text = format!(
        "generation {}: {} rows of {} ({} dimensions), answered by a {}\n",
        index.generation().number(),
        index.columns().len(),
        excerpt(&origin.corpus.name, NAME_CHARS),
        origin.dim,
        index.tier().name()
    );
    text.push_str(&files_in(index.generation(), folder));
    text.push_str(match fits {
        true => "the file has not changed since\n",
        false => "the file has changed since: lookups do without it until `memfold index build`\n",
    });
    text
}

pub(super) fn verify(
    global: &GlobalArgs,
    args: &IndexVerifyArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let index = open(&place::to_read(&args.place)?, CorpusIndex::open)?;
    let (bars, pool) = (Bars::new(printer), settings::pool(global)?);
    let columns = &index.origin().columns;
    let corpus = args.full.then(|| open_columns(&args.place.db, columns, &bars)).transpose()?;
    let tools = (&pool, Kernels::active(), &bars as _);
    let verified = verify_corpus_index(&index, corpus.as_ref(), tools);
    let of_a_file = Words {
        indexed: "ids and vectors",
        compared: |IndexDifference { same, changed, gone, fresh }| {
            format!(
                "compared with the file: {same} rows are the same, {changed} have another id or vector,\n\
                 {gone} are gone, {fresh} came since\n"
            )
        },
    };
    let index = (index.generation().number(), index.columns().len());
    verify::tell(verified, index, &of_a_file, (global, printer))
}

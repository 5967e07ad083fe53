//! `memfold index` for a file of vectors.

use std::time::Duration;

use memfold::lookup::corpus::{
    BuildCorpusIndex, BuiltCorpusIndex, CorpusIndex, build_corpus_index, verify_corpus_index,
};
use memfold::lookup::{IndexDifference, IndexError};
use memfold::machine::{MemoryWatch, Stopwatch};
use memfold::ops::{self};
use memfold_index::file::FileMode;
use memfold_simd::Kernels;

use super::output::{files_screen, open, refused, tell_built, tier, verified};
use crate::args::{GlobalArgs, IndexBuildArgs, IndexInfoArgs};
use crate::commands::index::output::{
    BuildDocument, BuildWords, InfoDocument, VerifiedDocument, VerifyWords,
};
use crate::context::{data_hint, open_columns};
use crate::failure::{Exit, Failure};
use crate::printer::Printer;
use crate::progress::Bars;

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
    let folder = ops::index_to_build(&args.place.db, args.place.index_dir.as_deref())?;
    let request = BuildCorpusIndex {
        folder: &folder,
        mode: FileMode::like(&metadata),
        columns: &args.columns.columns(),
        tier: args.tier,
        pool: &ops::pool(global.threads)?,
        kernels: Kernels::active(),
        scratch_dir: &ops::scratch_dir(),
        progress: &bars,
        wait: Duration::from_secs(args.wait.into()),
    };
    let built = build_corpus_index(input, &request).map_err(|error| {
        if error.is_cancelled() {
            return Failure::interrupted();
        }
        let hint = match &error {
            IndexError::Corpus(error) => data_hint(error),
            error => error.hint(),
        };
        Failure::new(&format!("build the index of {}", input.display()), &error, hint)
    })?;
    let seconds = stopwatch.seconds();
    let document = document(&built, folder.display().to_string(), seconds, watch.finish());
    let of_a_file = BuildWords {
        rows: "rows",
        of: &built.origin.corpus.name,
        without_vector: "rows have no usable vector",
    };
    tell_built(&document, &of_a_file, global, printer)
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
    seconds: f64,
    peaks: (Option<u64>, Option<u64>),
) -> BuildDocument {
    let (peak_rss_bytes, peak_anon_bytes) = peaks;
    let BuiltCorpusIndex { generation, rows, origin, graph, file_bytes } = built;
    BuildDocument {
        schema_version: 1,
        generation: *generation,
        tier: tier(graph),
        graph_refused: refused(graph),
        rows: *rows,
        without_vector: origin.skipped,
        model: None,
        dim: origin.dim,
        index_bytes: file_bytes[0],
        columns_bytes: file_bytes[1],
        folder,
        seconds,
        peak_rss_bytes,
        peak_anon_bytes,
    }
}

pub(super) fn info(
    global: &GlobalArgs,
    args: &IndexInfoArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let db = &args.place.db;
    let folder = ops::index_to_read(&args.place.db, args.place.index_dir.as_deref())?;
    let index = open(&folder, CorpusIndex::open)?;
    let fits = index
        .fits(db)
        .map_err(|error| Failure::new(&format!("read {}", db.display()), &error, None))?;
    let verified = args.verify.then(|| verify(global, args, &index, printer)).transpose()?;
    let folder = folder.display().to_string();
    if global.json {
        let origin = index.origin();
        printer.document(&InfoDocument {
            without_vector: origin.skipped,
            fresh_rows: fits.then_some(0),
            foreign: !fits,
            verified: verified.map(|(document, _)| document),
            ..InfoDocument::of(index.files(), folder)
        })?;
    } else {
        let text = verified.map_or_else(String::new, |(_, text)| text);
        printer.data(&(info_screen(&index, fits, &folder) + &text))?;
    }
    Ok(Exit::Done)
}

fn info_screen(index: &CorpusIndex, fits: bool, folder: &str) -> String {
    let mut text = files_screen(index.files(), "rows", &index.origin().corpus.name, folder);
    text.push_str(match fits {
        true => "the file has not changed since\n",
        false => "the file has changed since: lookups do without it until `memfold index build`\n",
    });
    text
}

fn verify(
    global: &GlobalArgs,
    args: &IndexInfoArgs,
    index: &CorpusIndex,
    printer: Printer,
) -> Result<(VerifiedDocument, String), Failure> {
    let (bars, pool) = (Bars::new(printer), ops::pool(global.threads)?);
    let corpus = open_columns(&args.place.db, &index.origin().columns, &bars)?;
    let of_a_file = VerifyWords {
        indexed: "ids and vectors",
        compared: |IndexDifference { same, changed, gone, fresh }| {
            format!(
                "compared with the file: {same} rows are the same, {changed} have another id or vector,\n\
                 {gone} are gone, {fresh} came since\n"
            )
        },
    };
    let found = verify_corpus_index(index, Some(&corpus), &pool, Kernels::active(), &bars);
    verified(found, &of_a_file)
}

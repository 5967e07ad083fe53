//! `memfold index` for a store.

use std::time::Duration;

use memfold::lookup::{
    BuildIndex, BuiltIndex, FreshSegment, Freshness, IndexDifference, SealFresh, Sealed,
    StoreIndex, Thoroughness, build_index, freshness, seal_fresh, verify as verify_index,
};
use memfold::machine::{self, MemoryWatch, Stopwatch};
use memfold::ops::{self, Settings};
use memfold_simd::Kernels;
use memfold_store::{BrainDb, LoadRequest};

use super::output::{open, refused, tell_built, tier, verified};
use crate::args::{GlobalArgs, IndexBuildArgs, IndexInfoArgs};
use crate::commands::index::output::{
    BuildDocument, BuildWords, InfoDocument, VerifiedDocument, VerifyWords, files_screen,
};
use crate::context::{open_store, refuse_columns};
use crate::failure::{Exit, Failure};
use crate::printer::Printer;
use crate::progress::Bars;
use crate::writing::{self, noun};

pub(super) fn build(
    global: &GlobalArgs,
    args: &IndexBuildArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let db = &args.place.db;
    refuse_columns(&args.columns)?;
    let settings = Settings::load(&global.sources(), Some(db), &[])?;
    settings.show_notices(&printer);
    let (watch, stopwatch) = (MemoryWatch::start(), Stopwatch::start());
    let store = open_store(db, &settings)?;
    let folder = ops::index_to_build(db, args.place.index_dir.as_deref())?;
    let mode = ops::mode_of(db)?;
    let (time_zone, bars) = (settings.time_zone()?, Bars::new(printer));
    let load = LoadRequest { time_zone: &time_zone, now: machine::clock(), progress: &bars };
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
            Some(_) => {
                let args = IndexInfoArgs { place: args.place.clone(), verify: false };
                return info(global, &args, printer);
            }
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
            tier: args.tier,
            pool: &ops::pool(global.threads)?,
            kernels: Kernels::active(),
            scratch_dir: &ops::scratch_dir(),
            wait,
        },
    );
    let built = built.map_err(|error| {
        if error.is_cancelled() {
            return Failure::interrupted();
        }
        Failure::of(&format!("build the index of {}", db.display()), &error)
    })?;
    let seconds = stopwatch.seconds();
    let document = build_document(&built, folder.display().to_string(), seconds, watch.finish());
    let of_a_store = BuildWords {
        rows: "memories",
        of: &built.space.model,
        without_vector: "live memories have no vector of this model",
    };
    tell_built(&document, &of_a_store, global, printer)
}

/// Adds new rows; `None` where a build must do it.
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
        Err(error) if error.is_mended_by_a_build() => {
            printer.note(&format!("note: {error}; building anew"));
            Ok(None)
        }
        Err(error) => {
            let hint = error.hint();
            Err(Failure::new("add to the index", &error, hint))
        }
    }
}

fn build_document(
    built: &BuiltIndex,
    folder: String,
    seconds: f64,
    peaks: (Option<u64>, Option<u64>),
) -> BuildDocument {
    let (peak_rss_bytes, peak_anon_bytes) = peaks;
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
    let settings = Settings::load(&global.sources(), Some(db), &[])?;
    settings.show_notices(&printer);
    let store = open_store(db, &settings)?;
    let folder = ops::index_to_read(db, args.place.index_dir.as_deref())?;
    let index = open(&folder, StoreIndex::open)?;
    let (time_zone, bars) = (settings.time_zone()?, Bars::new(printer));
    let load = LoadRequest { time_zone: &time_zone, now: machine::clock(), progress: &bars };
    let found = freshness(&store, &index, &load)
        .map_err(|error| Failure::of(&format!("read {}", db.display()), &error))?;
    let verified = args.verify.then(|| verify(global, &store, &index, &load)).transpose()?;
    if global.json {
        let (fresh_rows, foreign) = match found {
            Freshness::Since { fresh_rows } => (Some(fresh_rows), false),
            Freshness::Foreign => (None, true),
        };
        let origin = index.origin();
        printer.document(&InfoDocument {
            model: Some(origin.model.to_string()),
            without_vector: origin.without_vector,
            sealed_rows: sealed_rows(&index) as u64,
            segments: index.fresh().len() as u64,
            fresh_rows,
            foreign,
            verified: verified.map(|(document, _)| document),
            ..InfoDocument::of(index.files(), folder.display().to_string())
        })?;
    } else {
        let text = verified.map_or_else(String::new, |(_, text)| text);
        let shown = screen(&index, found, &folder.display().to_string());
        printer.data(&(shown + &text))?;
    }
    Ok(Exit::Done)
}

fn verify(
    global: &GlobalArgs,
    store: &BrainDb,
    index: &StoreIndex,
    load: &LoadRequest<'_>,
) -> Result<(VerifiedDocument, String), Failure> {
    let scratch_dir = ops::scratch_dir();
    let thoroughness = Thoroughness {
        store: Some((store, scratch_dir.as_path())),
        pool: &ops::pool(global.threads)?,
        kernels: Kernels::active(),
    };
    let of_a_store = VerifyWords {
        indexed: "ids, vectors and texts' hashes",
        compared: |IndexDifference { same, changed, gone, fresh }| {
            format!(
                "compared with the store: {same} rows are the same, {changed} have another vector, {gone} are gone,\n\
                 {fresh} live memories came since\n"
            )
        },
    };
    verified(verify_index(index, load, &thoroughness), &of_a_store)
}

fn sealed_rows(index: &StoreIndex) -> usize {
    index.fresh().iter().map(FreshSegment::len).sum()
}

fn screen(index: &StoreIndex, found: Freshness, folder: &str) -> String {
    let mut text = files_screen(index.files(), "memories", &index.origin().model, folder);
    if !index.fresh().is_empty() {
        let (rows, segments) = (sealed_rows(index), index.fresh().len());
        let (memories, parts) = (
            noun(rows as u64, "memory was", "memories were"),
            noun(segments as u64, "segment", "segments"),
        );
        text.push_str(&format!("{rows} {memories} added since, in {segments} {parts}\n"));
    }
    text.push_str(&match found {
        Freshness::Since { fresh_rows: 0 } => "no vectors have come since\n".to_owned(),
        Freshness::Since { fresh_rows } => {
            let vectors = noun(fresh_rows, "vector has", "vectors have");
            format!("{fresh_rows} {vectors} come since; lookups compare them one by one\n")
        }
        Freshness::Foreign => {
            "it no longer fits the store, whose rows were renumbered or replaced: \
                               lookups do\nwithout it until `memfold index build`\n"
                .to_owned()
        }
    });
    text
}

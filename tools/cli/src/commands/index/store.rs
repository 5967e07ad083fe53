//! `memfold index` for a store.

use std::time::Duration;

use memfold::lookup::{
    Freshness, IndexDifference, Sealed, StoreIndex, Thoroughness, freshness, verify,
};
use memfold::machine;
use memfold::ops::{self, IndexBuildDocument, IndexInfoDocument, IndexUpkeep};
use memfold_simd::Kernels;
use memfold_store::LoadRequest;

use super::output::{built_screen, files_screen, open, verified_screen};
use crate::args::{IndexBuildArgs, IndexInfoArgs};
use crate::call::Call;
use crate::context::{open_store, refuse_columns};
use crate::failure::{Exit, Failure};
use crate::progress::Bars;
use crate::writing::noun;

pub(super) fn build(call: Call<'_>, args: &IndexBuildArgs) -> Result<Exit, Failure> {
    refuse_columns(&args.columns)?;
    let settings = call.settings(&args.place.db)?;
    let bars = Bars::new(call.printer);
    let upkeep = IndexUpkeep {
        db: &args.place.db,
        index_dir: args.place.index_dir.as_deref(),
        settings: &settings,
        threads: call.global.threads,
        listener: &bars,
        wait: Duration::from_secs(args.wait.into()),
    };
    let appended = if args.append { upkeep.append()? } else { None };
    let Some(appended) = appended else {
        let model = args.model.as_deref();
        let built = IndexBuildDocument::measure(|| upkeep.build(model, Some(args.tier)))?;
        let of = built.model.as_deref().unwrap_or_default();
        let without_vector = "live memories have no vector of this model";
        return call.show(&built, || built_screen(&built, "memories", of, without_vector));
    };
    if call.global.json {
        return info(call, &IndexInfoArgs { place: args.place.clone(), verify: false });
    }
    let text = match appended {
        Sealed::Segment { number, rows } => {
            let memories = noun(rows as u64, "memory", "memories");
            format!("added {rows} {memories} as segment {number}\n")
        }
        _ => "no memories have come since\n".to_owned(),
    };
    call.printer.data(&text).map(|()| Exit::Done)
}

pub(super) fn info(call: Call<'_>, args: &IndexInfoArgs) -> Result<Exit, Failure> {
    let db = &args.place.db;
    let settings = call.settings(db)?;
    let store = open_store(db, &settings)?;
    let folder = ops::index_to_read(db, args.place.index_dir.as_deref())?;
    let index = open(&folder, StoreIndex::open)?;
    let (time_zone, bars) = (settings.time_zone()?, Bars::new(call.printer));
    let load = LoadRequest { time_zone: &time_zone, now: machine::clock(), progress: &bars };
    let found = freshness(&store, &index, &load)
        .map_err(|error| Failure::of(&format!("read {}", db.display()), &error))?;
    let scratch_dir = ops::scratch_dir();
    let verify = || {
        let thoroughness = Thoroughness {
            store: Some((&store, scratch_dir.as_path())),
            pool: &ops::pool(call.global.threads)?,
            kernels: Kernels::active(),
        };
        verify(&index, &load, &thoroughness)
            .map_err(|error| Failure::of("verify the index", &error))
    };
    let verified = args.verify.then(verify).transpose()?;
    call.show(&IndexInfoDocument::of_store(&index, found, &folder, verified), || {
        let mut text = files_screen(index.files(), "memories", &index.origin().model, &folder);
        text.push_str(&screen(&index, found));
        let compared = |IndexDifference { same, changed, gone, fresh }| {
            format!(
                "compared with the store: {same} rows are the same, {changed} have another vector, {gone} are gone,\n\
                 {fresh} live memories came since\n"
            )
        };
        let indexed = "ids, vectors and texts' hashes";
        text + &verified.map_or_else(String::new, |it| verified_screen(&it, indexed, compared))
    })
}

fn screen(index: &StoreIndex, found: Freshness) -> String {
    let mut text = String::new();
    if !index.fresh().is_empty() {
        let rows = index.sealed_rows();
        let segments = index.fresh().len();
        let (memories, parts) = (
            noun(rows, "memory was", "memories were"),
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

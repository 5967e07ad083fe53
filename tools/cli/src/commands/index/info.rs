//! `memfold index info`

use memfold::lookup::{FreshSegment, Freshness, StoreIndex, freshness};
use memfold::machine;
use memfold_index::NoProgress;
use memfold_store::LoadRequest;

use super::documents::InfoDocument;
use super::{files_screen, open, place};
use crate::args::{GlobalArgs, IndexPlaceArgs};
use crate::commands::consolidate::open_store;
use crate::commands::writing::noun;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

pub(super) fn run(
    global: &GlobalArgs,
    args: &IndexPlaceArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let settings = Settings::load(global, Some(&args.db), &[])?;
    settings.show_notices(printer);
    let store = open_store(&args.db, &settings)?;
    let folder = place::to_read(args)?;
    let index = open(&folder, StoreIndex::open)?;
    let time_zone = settings.time_zone()?;
    let load = LoadRequest { time_zone: &time_zone, now: machine::clock(), progress: &NoProgress };
    let found = freshness(&store, &index, &load).map_err(|error| {
        let hint = error.hint();
        Failure::new(&format!("read {}", args.db.display()), &error, hint)
    })?;
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
            ..InfoDocument::of(index.files(), folder.display().to_string())
        })?;
    } else {
        printer.data(&screen(&index, found, &folder.display().to_string()))?;
    }
    Ok(Exit::Done)
}

fn sealed_rows(index: &StoreIndex) -> usize {
    index.fresh().iter().map(FreshSegment::len).sum()
}

fn screen(index: &StoreIndex, found: Freshness, folder: &str) -> String {
    let mut text = files_screen(index.files(), ("memories", &index.origin().model), folder);
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

//! `memfold resolve`: the id under which a memory lives on.

use memfold::machine;
use std::path::PathBuf;

use clap::{self, Args};
use memfold_model::lineage::{Resolved, Whereabouts};
use memfold_model::memory::MemoryId;
use memfold_model::text::excerpt;
use serde::Serialize;

use crate::args::GlobalArgs;
use crate::context::open_store;
use crate::failure::{Exit, Failure};
use crate::printer::{Printer, documents};
use crate::settings::Settings;

/// Ids are cut after so many characters in messages.
const ID_CHARS: usize = 80;

documents! { "resolve" => ResolveDocument<'_> }

/// `memfold resolve`
#[derive(Debug, Args)]
pub(crate) struct ResolveArgs {
    /// The store: a brain.db, or one of another kind (memory.jsonl, …)
    pub(crate) db: PathBuf,
    /// The memory's id
    pub(crate) id: String,
}

/// `memfold resolve --json`
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ResolveDocument<'a> {
    schema_version: u32,
    /// The id under which it lives on; `null` where it does not.
    live_id: Option<&'a MemoryId>,
    /// The memory at the end of the folds.
    last: &'a MemoryId,
    #[serde(flatten)]
    resolved: &'a Resolved,
}

pub(crate) fn run(
    global: &GlobalArgs,
    args: &ResolveArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let settings = Settings::load(global, Some(&args.db), &[])?;
    settings.show_notices(printer);
    let store = open_store(&args.db, &settings)?;
    let id = MemoryId::new(&*args.id);
    let resolved =
        store.resolve(&id, &settings.time_zone()?, machine::clock()).map_err(|error| {
            let hint = error.hint();
            Failure::new("look for the memory", &error, hint)
        })?;
    if global.json {
        printer.document(&ResolveDocument::of(&resolved))?;
    }
    match resolved.live_id() {
        Some(_) if global.json => {}
        Some(live) => printer.data(&format!("{}\n", plain(live)))?,
        None => return Err(not_live(&resolved)),
    }
    Ok(Exit::Done)
}

/// The id itself, for scripts; escaped only where it would steer a terminal.
fn plain(id: &MemoryId) -> String {
    if id.as_str().chars().any(char::is_control) {
        return excerpt(id.as_str(), usize::MAX);
    }
    id.to_string()
}

impl<'a> ResolveDocument<'a> {
    fn of(resolved: &'a Resolved) -> Self {
        Self { schema_version: 1, live_id: resolved.live_id(), last: resolved.last(), resolved }
    }
}

/// Says where the folds end, if not with the living.
fn not_live(resolved: &Resolved) -> Failure {
    let shown = |id: &MemoryId| excerpt(id.as_str(), ID_CHARS);
    let (id, last) = (shown(&resolved.id), shown(resolved.last()));
    let restore = format!("`memfold restore DB {id}` brings {id} back");
    if resolved.is_circle {
        let message = format!("{id} was merged into {last}, which leads back to itself");
        return Failure::plain(message, restore);
    }
    let (is, hint) = match resolved.end {
        Whereabouts::Unknown => ("is not in this store", "check the id and the store".to_owned()),
        Whereabouts::Gone if resolved.folds.is_empty() => {
            ("is gone", "somebody deleted it; the backup beside the store may hold it".to_owned())
        }
        Whereabouts::Gone => ("is gone", restore),
        Whereabouts::Moved => ("was moved to the archive table", restore),
        Whereabouts::Expired => ("has expired", "its owner set the end; nothing to do".to_owned()),
        Whereabouts::Record => {
            ("is a record of a contradiction", "`memfold explain DB ID` tells of which".to_owned())
        }
        Whereabouts::Unreadable => {
            ("cannot be read", "`memfold doctor DB` tells why rows are left out".to_owned())
        }
        Whereabouts::Archived | Whereabouts::Ghost | Whereabouts::Live => ("is archived", restore),
    };
    let message = if resolved.folds.is_empty() {
        format!("{id} {is}")
    } else {
        format!("{id} was merged into {last}, which {is}")
    };
    Failure::plain(message, hint)
}

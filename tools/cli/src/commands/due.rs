//! `memfold due`: whether a consolidation should run.

use std::path::PathBuf;

use clap::{self, Args};
use memfold::lifecycle::due_state;
use memfold_index::NoProgress;
use memfold_lifecycle::{DueReason, DueState, due};
use memfold_store::LoadRequest;
use serde::Serialize;

use crate::args::GlobalArgs;
use crate::commands::status::IndexState;
use crate::commands::tiers::unread;
use crate::context::open_store;
use crate::failure::{Exit, Failure};
use crate::printer::{Printer, documents};
use crate::settings::{self, Settings};
use crate::writing::counted;

documents! { "due" => DueDocument }

/// `memfold due`
#[derive(Debug, Args)]
pub(crate) struct DueArgs {
    /// The store: a brain.db, or one of another kind (memory.jsonl, …)
    pub(crate) db: PathBuf,
    /// A session has just ended: a run is due where anything is new
    #[arg(long)]
    pub(crate) session_end: bool,
    /// Answer as if it were this time (RFC 3339) [default: the clock]
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<String>,
}

/// `memfold due --json`
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DueDocument {
    schema_version: u32,
    is_due: bool,
    /// Why; `null` where no run is due.
    reason: Option<DueReason>,
    /// The reason in words.
    text: Option<String>,
    #[serde(flatten)]
    since: SinceDocument,
}

/// Where a store stands since its last completed consolidation.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SinceDocument {
    /// When that ended, RFC 3339; `null` where there was none.
    last_run_at: Option<String>,
    /// When the newest memory was made, RFC 3339.
    last_write_at: Option<String>,
    /// Memories made since.
    new_memories: u64,
    /// Memories that the index lacks; 0 where there is no index.
    unindexed: u64,
}

impl From<&DueState> for SinceDocument {
    fn from(state: &DueState) -> Self {
        Self {
            last_run_at: state.last_run.map(|at| at.to_rfc3339()),
            last_write_at: state.last_write.map(|at| at.to_rfc3339()),
            new_memories: state.new_memories,
            unindexed: state.unindexed,
        }
    }
}

pub(crate) fn run(global: &GlobalArgs, args: &DueArgs, printer: Printer) -> Result<Exit, Failure> {
    let settings = Settings::load(global, Some(&args.db), &[])?;
    settings.show_notices(printer);
    let time_zone = settings.time_zone()?;
    let now = settings::now(args.now.as_deref(), &time_zone)?;
    let store = open_store(&args.db, &settings)?;
    let load = LoadRequest { time_zone: &time_zone, now, progress: &NoProgress };
    let vitals = store.vitals(&load).map_err(|error| unread(&error))?;
    let history =
        store.runs().map_err(|error| Failure::new("read the runs", &error, error.hint()))?;
    let index = IndexState::of((&args.db, &store), &load, printer)?;
    let unindexed = index.map_or(0, |index| index.unindexed(vitals.len() as u64));
    let state = DueState {
        is_session_end: args.session_end,
        ..due_state(&vitals, &history.runs, (unindexed, &time_zone))
    };
    let reason = due(&state, now, &settings.configuration.settings.lifecycle.due);
    let text = reason.map(|reason| reason.to_string());
    if global.json {
        let since = SinceDocument::from(&state);
        let is_due = reason.is_some();
        printer.document(&DueDocument { schema_version: 1, is_due, reason, text, since })?;
    } else if let Some(text) = text {
        printer.data(&format!("{text}\n"))?;
    } else {
        let new = counted(state.new_memories, "new memory", "new memories");
        printer.note(&format!("no run is due: {new} since the last run"));
    }
    Ok(if reason.is_some() { Exit::Done } else { Exit::Failure })
}

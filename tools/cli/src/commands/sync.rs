//! `memfold sync`: a store of another kind and its mirror are brought to one state.

use std::path::PathBuf;

use clap::{self, Args};
use memfold::mirror::{Mirror, Publication, Pulled};
use memfold_model::text::excerpt;
use memfold_store::origin::{OriginChange, OriginUnit};
use serde::Serialize;

use crate::args::{GlobalArgs, WritingArgs};
use crate::failure::{Exit, Failure};
use crate::mirrored::{self, Mirrored, Work};
use crate::printer::{Printer, documents};
use crate::writing::{self, counted};

/// What is listed one by one.
const SHOWN: usize = 20;
const TEXT_CHARS: usize = 100;

documents! { "sync" => SyncDocument }

/// `memfold sync`
#[derive(Debug, Args)]
pub(crate) struct SyncArgs {
    /// The store: one that is no brain.db (memory.jsonl, …)
    pub(crate) db: PathBuf,
    #[command(flatten)]
    pub(crate) writing: WritingArgs,
}

/// `memfold sync --json`
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SyncDocument {
    schema_version: u32,
    /// The kind of the store.
    kind: String,
    /// The mirror's file.
    mirror: String,
    /// Whether the store was written.
    executed: bool,
    pulled: PulledDocument,
    /// What was published; in a dry run what would be.
    units: Vec<UnitDocument>,
    /// What was left alone, because others changed it.
    conflicts: Vec<ConflictDocument>,
}

/// What the pull found.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PulledDocument {
    records: u64,
    live: u64,
    added: u64,
    changed: u64,
    removed: u64,
    /// Memories whose unpublished changes were taken back.
    taken_back: Vec<String>,
    skipped: Vec<SkippedDocument>,
}

/// What is no record.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SkippedDocument {
    place: String,
    reason: String,
}

/// Changes that are published together.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct UnitDocument {
    run_id: String,
    rule: String,
    changes: Vec<ChangeDocument>,
}

/// A change of a record.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ChangeDocument {
    /// `create`, `update`, `retire`, `restore` or `remove`.
    change: &'static str,
    id: String,
    /// What it was merged into.
    into: Option<String>,
}

/// A unit that was left alone.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ConflictDocument {
    id: String,
    reason: String,
}

pub(crate) fn run(global: &GlobalArgs, args: &SyncArgs, printer: Printer) -> Result<Exit, Failure> {
    let Some((mirrored, origin)) = mirrored::find(global, &args.db)? else {
        return Err(Failure::usage(
            format!("{} is of no kind that has a mirror", args.db.display()),
            "a brain.db is written directly; of other stores name the kind with --store-kind",
        ));
    };
    writing::show_as(&mirrored.mirror, &mirrored.origin);
    let global = GlobalArgs { mirrored: Some(mirrored.clone()), ..global.clone() };
    let work = Work::new(&global, &mirrored, (&*origin, printer))?;
    let work = work.at(args.writing.now.as_deref())?;
    work.settings().show_notices(printer);
    let wanted = (args.writing.execute, args.writing.dry_run);
    let executes = writing::may_write(work.settings(), wanted, printer);
    let (pulled, published) = sync(&work, executes)?;
    let has_conflicts = !published.conflicts.is_empty();
    if global.json {
        printer.document(&SyncDocument::new(&mirrored, executes, (&pulled, &published)))?;
    } else {
        printer.data(&told(args, executes, (&pulled, &published)))?;
    }
    Ok(if has_conflicts { Exit::Partial } else { Exit::Done })
}

fn sync(work: &Work<'_>, executes: bool) -> Result<(Pulled, Publication), Failure> {
    let failed = |error| work.publish_failure(&error);
    if !executes {
        let pulled = work.pull(false)?;
        let units = work.open()?.pending().map_err(failed)?;
        return Ok((pulled, Publication { units, conflicts: Vec::new() }));
    }
    let pulled = work.pull(true)?;
    let mirror: Mirror<'_> = work.open()?;
    let published = mirror.publish().map_err(failed)?;
    work.tell_of_publication(&published);
    Ok((pulled, published))
}

fn told(args: &SyncArgs, executes: bool, (pulled, published): (&Pulled, &Publication)) -> String {
    let mut text = mirrored::summary(pulled) + "\n";
    for skipped in pulled.skipped.iter().take(SHOWN) {
        let reason = excerpt(&skipped.reason, TEXT_CHARS);
        text.push_str(&format!("  left out: {}: {reason}\n", skipped.place));
    }
    if published.units.is_empty() {
        text.push_str("nothing to publish\n");
        return text;
    }
    let units = counted(published.units.len() as u64, "unit", "units");
    let verb = if executes { "published" } else { "to publish" };
    text.push_str(&format!("{units} {verb}\n"));
    let changes = published.units.iter().flat_map(|unit| &unit.changes);
    let count = changes.clone().count();
    for change in changes.take(SHOWN) {
        let ChangeDocument { change, id, into } = change.into();
        let into = into.map(|into| format!(" into {}", excerpt(&into, TEXT_CHARS)));
        let id = excerpt(&id, TEXT_CHARS);
        text.push_str(&format!("  {change} {id}{}\n", into.unwrap_or_default()));
    }
    if count > SHOWN {
        text.push_str(&format!("  and {} more\n", count - SHOWN));
    }
    if !executes {
        let next = writing::store_words(&["memfold", "sync"], &args.db, &["--execute"]);
        text.push_str(&format!("next: {next}\n"));
    }
    text
}

impl SyncDocument {
    fn new(
        mirrored: &Mirrored,
        executed: bool,
        (pulled, published): (&Pulled, &Publication),
    ) -> Self {
        let skipped = pulled.skipped.iter().map(|skipped| SkippedDocument {
            place: skipped.place.clone(),
            reason: skipped.reason.clone(),
        });
        let conflicts = published.conflicts.iter().map(|(_, conflict)| ConflictDocument {
            id: conflict.id.clone(),
            reason: conflict.reason.clone(),
        });
        Self {
            schema_version: 1,
            kind: mirrored.kind.to_owned(),
            mirror: mirrored.mirror.display().to_string(),
            executed,
            pulled: PulledDocument {
                records: pulled.records,
                live: pulled.live,
                added: pulled.added,
                changed: pulled.changed,
                removed: pulled.removed,
                taken_back: pulled.taken_back.clone(),
                skipped: skipped.collect(),
            },
            units: published.units.iter().map(UnitDocument::from).collect(),
            conflicts: conflicts.collect(),
        }
    }
}

impl From<&OriginUnit> for UnitDocument {
    fn from(unit: &OriginUnit) -> Self {
        Self {
            run_id: unit.run_id.clone(),
            rule: unit.rule.clone(),
            changes: unit.changes.iter().map(ChangeDocument::from).collect(),
        }
    }
}

impl From<&OriginChange> for ChangeDocument {
    fn from(change: &OriginChange) -> Self {
        let (change, id, into) = match change {
            OriginChange::Create { record, .. } => ("create", &record.id, None),
            OriginChange::Update { record, .. } => ("update", &record.id, None),
            OriginChange::Retire { id, into, .. } => ("retire", id, into.clone()),
            OriginChange::Restore { record, .. } => ("restore", &record.id, None),
            OriginChange::Remove { id, .. } => ("remove", id, None),
        };
        Self { change, id: id.clone(), into }
    }
}

//! `memfold demo`: a sample store, built where nothing else is, and consolidated.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use clap::{self, Args};
use memfold::ops::{ConsolidateRequest, RunFiles, Scope};
use memfold_core::plan::{ActionState, PlanSummary};
use memfold_store::BrainDb;
use memfold_store::brain_db::{
    BrainDbWriter, CreateOptions, CreateStoreError, NewMemory, OpenOptions,
};

use crate::call::Call;
use crate::commands::consolidate::{self, ConsolidateArgs};
use crate::failure::{Exit, Failure};
use crate::printer::Printer;

/// The file that says that a folder is ours.
const MARKER: &str = ".memfold-demo";

/// `memfold demo`
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Build the sample here; rebuilt only if it is ours
    #[arg(long, value_name = "DIR", default_value = "memfold-demo")]
    pub(crate) dir: PathBuf,
    /// Rebuild the sample although it was reviewed or executed, without asking
    #[arg(long)]
    pub(crate) force: bool,
}

pub(crate) fn run(call: Call<'_>, args: &DemoArgs) -> Result<Exit, Failure> {
    claim(&args.dir)?;
    let store = args.dir.join("brain.db");
    if !args.force {
        ask_before_wiping(&store, call.printer)?;
    }
    let count = build(&store).map_err(|error| Failure::of("build the sample store", &error))?;
    call.printer.note(&format!("built {} with {count} memories", store.display()));
    let consolidation = ConsolidateArgs {
        db: store.into(),
        request: ConsolidateRequest {
            scope: Scope {
                now: Some(memfold_datasets::sample::NOW.to_owned()),
                ..Scope::default()
            },
            files: RunFiles {
                plan: Some(args.dir.join("plan.json")),
                report_dir: Some(args.dir.join("reports")),
                ..RunFiles::default()
            },
            dry_run: true,
            ..ConsolidateRequest::default()
        },
        ..ConsolidateArgs::default()
    };
    let mut global = call.global.clone();
    // The sample's naive times are UTC, in any zone of the machine; a user's setting takes precedence.
    global.sources.set.insert(0, "time_zone=UTC".to_owned());
    consolidate::run(Call { global: &global, ..call }, &consolidation)
}

/// Makes the folder ours, or refuses one that is somebody else's.
fn claim(dir: &Path) -> Result<(), Failure> {
    let marker = dir.join(MARKER);
    let mut entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return mark(dir, &marker),
        Err(error) => return Err(Failure::new(&format!("use {}", dir.display()), &error, None)),
    };
    if marker.exists() || entries.next().is_none() {
        return mark(dir, &marker);
    }
    Err(Failure::usage(
        format!(
            "{} holds other files; the demo writes only into a folder of its own",
            dir.display()
        ),
        "name a new folder: memfold demo --dir DIR",
    ))
}

/// Asks before a used sample is deleted; refuses without a terminal.
fn ask_before_wiping(store: &Path, printer: Printer) -> Result<(), Failure> {
    let Some(work) = work_on(store) else { return Ok(()) };
    let what = format!("{} {work}; rebuilding it loses that", store.display());
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(Failure::plain(
            what,
            "rebuild it with --force, or build another: memfold demo --dir DIR",
        ));
    }
    printer.failure_note(&format!("{what}. Rebuild it? [y/N]"));
    let mut line = String::new();
    let read = io::stdin().read_line(&mut line);
    read.map_err(|error| Failure::new("read an answer", &error, None))?;
    match line.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::plain(
            format!("{} stays as it is", store.display()),
            "build another sample: memfold demo --dir DIR",
        )),
    }
}

/// Returns somebody's use of a store; `None` where it is as it was built, or is not there.
fn work_on(store: &Path) -> Option<&'static str> {
    store.symlink_metadata().ok()?;
    let unreadable = Some("cannot be read");
    let Ok(opened) = BrainDb::open(store, OpenOptions::default()) else { return unreadable };
    match (opened.runs(), opened.plans()) {
        (Ok(history), _) if !history.runs.is_empty() => Some("was executed or reviewed"),
        (Ok(_), Ok(plans)) => {
            let is_reviewed = |plan: &PlanSummary| {
                plan.states.keys().any(|state| *state != ActionState::Proposed)
            };
            plans.iter().any(is_reviewed).then_some("has a reviewed plan")
        }
        _ => unreadable,
    }
}

fn mark(dir: &Path, marker: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::write(marker, "made by memfold demo; rebuilt by it\n"))
        .map_err(|error| Failure::new(&format!("write to {}", dir.display()), &error, None))
}

fn build(path: &Path) -> Result<usize, CreateStoreError> {
    let options = CreateOptions { overwrite: true, ..CreateOptions::default() };
    let mut writer = BrainDbWriter::create(path, options)?;
    let sample = memfold_datasets::sample::memories();
    for (i, memory) in sample.memories.iter().enumerate() {
        let categories: Vec<&str> = memory.categories.iter().map(|c| &**c).collect();
        writer.push(&NewMemory {
            id: &memory.id,
            content: &memory.content,
            categories: &categories,
            importance: memory.importance,
            access_count: memory.access_count,
            created_at: &memory.created_at,
            updated_at: memory.updated_at.as_deref(),
            expires_at: memory.expires_at.as_deref(),
            source: &memory.source,
            vector: sample.vector(i),
            embedded_text: memory.embedded_text.as_deref(),
            model: Some(memfold_datasets::sample::MODEL),
        })?;
    }
    writer.finish()?;
    Ok(sample.memories.len())
}

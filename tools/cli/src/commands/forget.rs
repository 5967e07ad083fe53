//! `memfold forget`: a memory is erased everywhere.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{self, Args, ValueHint};
use memfold::lookup::StoreIndex;
use memfold::machine;
use memfold::ops::{self, Settings, StorePath};
use memfold_core::memory::MemoryId;
use memfold_core::report::{Mode, run_id, state_report_dir};
use memfold_guard::text::excerpt;
use memfold_index::file::Generations;
use memfold_store::upkeep::{
    Erasure, Mentions, UpkeepError, UpkeepRun, forget, mentions, preview_forget,
};
use serde::Serialize;

use crate::args::{GlobalArgs, WritingArgs, store_path};
use crate::context::open_store;
use crate::failure::{Exit, Failure};
use crate::printer::Printer;
use crate::writing::{self, Words};

/// How long to wait for another process that builds an index.
const INDEX_WAIT: Duration = Duration::from_secs(60);
/// Ids, units and files that are listed.
const SHOWN: usize = 10;
const ID_CHARS: usize = 80;
/// Traces that no program can find.
const LEFT: &str = "not looked for: exports and plan files elsewhere, your own backups, and bytes of \
                    earlier versions\n  that other programs left in unused parts of the store's file\n";

/// `memfold forget`
#[derive(Debug, Args)]
pub(crate) struct ForgetArgs {
    /// The store: a brain.db, or one of another kind (memory.jsonl, …)
    #[arg(value_parser = store_path(), value_hint = ValueHint::AnyPath)]
    pub(crate) db: StorePath,
    /// The memory's id
    pub(crate) id: String,
    /// Also forget the memories that were merged into it
    #[arg(long)]
    pub(crate) with_absorbed: bool,
    /// Also delete the reports and backups of memfold that name it or may hold it
    #[arg(long)]
    pub(crate) everywhere: bool,
    /// An index of the store in another folder than DB.memfold, to be removed too where it holds the memory
    #[arg(long, value_name = "DIR")]
    pub(crate) index_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) writing: WritingArgs,
}

/// `memfold forget --json`
#[derive(Debug, Serialize)]
struct ForgetDocument {
    schema_version: u32,
    mode: Mode,
    /// `null` for a dry run.
    run_id: Option<String>,
    erasure: Erasure,
    /// Whether the write-ahead log is free of erased bytes; `null` for a dry run.
    is_log_empty: Option<bool>,
    /// Files that name erased memories, left for their owner to delete.
    files: Mentions,
    /// Folders of indexes that hold erased memories: removed, or to be removed. They can be built
    /// anew.
    indexes: Vec<PathBuf>,
}

pub(crate) fn run(
    global: &GlobalArgs,
    args: &ForgetArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let settings = Settings::load(&global.sources(), Some(&args.db), &[])?;
    settings.show_notices(&printer);
    let WritingArgs { execute, dry_run, .. } = args.writing;
    if writing::may_write(&settings, execute, dry_run, &printer) {
        erase(global, args, &settings, printer)?;
    } else {
        preview(global, args, &settings, printer)?;
    }
    Ok(Exit::Done)
}

fn preview(
    global: &GlobalArgs,
    args: &ForgetArgs,
    settings: &Settings,
    printer: Printer,
) -> Result<(), Failure> {
    let store = open_store(&args.db, settings)?;
    let time_zone = settings.time_zone()?;
    let now = ops::now(args.writing.now.as_deref(), &time_zone)?;
    let id = MemoryId::new(args.id.as_str());
    let erasure = preview_forget(&store, &id, args.with_absorbed, &time_zone, now)
        .map_err(|error| failed(&error))?;
    let files = files(args, &erasure)?;
    let indexes = indexes(args, &erasure)?;
    if global.json {
        return printer.document(&ForgetDocument {
            schema_version: 1,
            mode: Mode::DryRun,
            run_id: None,
            erasure,
            is_log_empty: None,
            files,
            indexes,
        });
    }
    let mut text = told("would be erased", &erasure);
    text.push_str(&told_indexes("would be removed", &indexes));
    let fate = if args.everywhere { "would be deleted" } else { LEFT_TO_DELETE };
    text.push_str(&told_files(&files, fate));
    text.push_str(LEFT);
    text.push_str(&format!("this cannot be undone\nnext: {}\n", command(args)));
    printer.data(&text)?;
    printer.note("dry run: nothing was written to the store");
    Ok(())
}

fn command(args: &ForgetArgs) -> String {
    Words::default()
        .word(&*args.id)
        .flag("--with-absorbed", args.with_absorbed)
        .flag("--everywhere", args.everywhere)
        .path("--index-dir", args.index_dir.as_deref())
        .word("--execute")
        .command("forget", &args.db)
}

/// The indexes that hold erased memories: id, text hash and vector.
fn indexes(args: &ForgetArgs, erasure: &Erasure) -> Result<Vec<PathBuf>, Failure> {
    let mut folders = ops::index_folders(&args.db, args.index_dir.as_deref())?;
    folders.retain(|folder| StoreIndex::names_any(folder, &erasure.ids) == Some(true));
    Ok(folders)
}

/// Removes indexes; readers that have one open keep it until they close it.
fn remove_indexes(folders: &[PathBuf]) -> Result<(), Failure> {
    for folder in folders {
        Generations::at(folder).remove(INDEX_WAIT).map_err(|error| {
            let what = format!(
                "remove the index {}; the memory is erased from the store",
                folder.display()
            );
            let hint = "delete the folder yourself: an index can be built anew";
            Failure::new(&what, &error, Some(hint.to_owned()))
        })?;
    }
    Ok(())
}

fn told_indexes(what: &str, folders: &[PathBuf]) -> String {
    if folders.is_empty() {
        return String::new();
    }
    let folders: Vec<String> = folders.iter().map(|path| path.display().to_string()).collect();
    format!(
        "index {what}, since it holds id and vector (memfold index build makes it anew): {}\n",
        few(&folders)
    )
}

fn erase(
    global: &GlobalArgs,
    args: &ForgetArgs,
    settings: &Settings,
    printer: Printer,
) -> Result<(), Failure> {
    let time_zone = settings.time_zone()?;
    let now = ops::now(args.writing.now.as_deref(), &time_zone)?;
    let session = writing::open_session(&args.db, settings)?;
    let store_id = session.store_id().map_err(|error| Failure::of("forget", &error))?;
    let run = UpkeepRun {
        run_id: &run_id(&store_id, now, "forget"),
        now,
        time_zone: &time_zone,
        holder: &machine::holder(),
    };
    let id = MemoryId::new(args.id.as_str());
    let forgotten =
        forget(&session, &id, args.with_absorbed, &run).map_err(|error| failed(&error))?;
    let indexes = indexes(args, &forgotten.erasure)?;
    remove_indexes(&indexes)?;
    ops::remove_marks(&args.db, args.index_dir.as_deref())?;
    ops::remove_kept_vectors(&args.db, args.index_dir.as_deref())?;
    let files = files(args, &forgotten.erasure)?;
    if args.everywhere {
        remove_files(&files)?;
    }
    if !forgotten.is_log_empty {
        printer.note(
            "note: another process still reads the write-ahead log; what was erased stays in it \
             until the next checkpoint",
        );
    }
    if global.json {
        return printer.document(&ForgetDocument {
            schema_version: 1,
            mode: Mode::Execute,
            run_id: Some(forgotten.run_id),
            erasure: forgotten.erasure,
            is_log_empty: Some(forgotten.is_log_empty),
            files,
            indexes,
        });
    }
    let mut text = told("erased", &forgotten.erasure);
    text.push_str(&told_indexes("removed", &indexes));
    let fate = if args.everywhere { "deleted" } else { LEFT_TO_DELETE };
    text.push_str(&told_files(&files, fate));
    text.push_str(LEFT);
    printer.data(&text)
}

/// The files that still name erased memories.
fn files(args: &ForgetArgs, erasure: &Erasure) -> Result<Mentions, Failure> {
    let store = args.db.canonicalize().unwrap_or_else(|_| args.db.to_path_buf());
    let beside = store.parent().unwrap_or(Path::new(".")).join("reports").join("consolidation");
    let mut folders = vec![beside];
    folders.extend(state_report_dir(&store));
    folders.dedup();
    mentions(&store, &folders, &erasure.ids).map_err(|error| {
        let hint = "what can be read was looked through; look for the id yourself";
        Failure::new("look through the reports", &error, Some(hint.to_owned()))
    })
}

fn told(what: &str, erasure: &Erasure) -> String {
    let ids: Vec<String> = erasure.ids.iter().map(|id| excerpt(id.as_str(), ID_CHARS)).collect();
    let mut text = format!("{what}: {}\n", few(&ids));
    let counts = [
        (erasure.memories, "memories"),
        (erasure.embeddings, "vectors"),
        (erasure.search_entries, "search entries"),
        (erasure.archived, "rows of the archive table"),
        (erasure.lineage, "rows of lineage"),
        (erasure.decisions, "decisions"),
        (erasure.flags, "flags"),
        (erasure.journal, "entries of the journal"),
        (erasure.actions, "actions of plans, which can no longer be applied as they are"),
        (erasure.renamed, "other rows that lose the name"),
    ];
    for (count, name) in counts.into_iter().filter(|(count, _)| *count > 0) {
        text.push_str(&format!("  {name}: {count}\n"));
    }
    if !erasure.restated_in.is_empty() {
        let new: Vec<String> =
            erasure.restated_in.iter().map(|id| excerpt(id.as_str(), ID_CHARS)).collect();
        text.push_str(&format!(
            "said in other words by {}: undo the run that wrote it first, or forget it too\n",
            few(&new)
        ));
    }
    for reaction in &erasure.reactions {
        text.push_str(&format!("your tables follow: {reaction}\n"));
    }
    if !erasure.units.is_empty() {
        let units = few(&erasure.units);
        text.push_str(&format!("can no longer be undone (run and unit): {units}\n"));
    }
    text
}

const LEFT_TO_DELETE: &str = "left for you to delete";

/// Deletes reports and backups, all of which are memfold's.
fn remove_files(files: &Mentions) -> Result<(), Failure> {
    for path in files.reports.iter().chain(&files.backups) {
        std::fs::remove_file(path).map_err(|error| {
            let what = format!("delete {}; the memory is erased from the store", path.display());
            Failure::new(&what, &error, Some("delete the file yourself".to_owned()))
        })?;
    }
    Ok(())
}

fn told_files(files: &Mentions, fate: &str) -> String {
    let mut text = String::new();
    for (paths, what) in
        [(&files.reports, "reports that name it"), (&files.backups, "backups that may hold it")]
    {
        if !paths.is_empty() {
            let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            text.push_str(&format!("{what}, {fate}: {}\n", few(&paths)));
        }
    }
    text
}

fn few(items: &[String]) -> String {
    let shown = items[..items.len().min(SHOWN)].join(", ");
    if items.len() > SHOWN { format!("{shown} and {} more", items.len() - SHOWN) } else { shown }
}

fn failed(error: &UpkeepError) -> Failure {
    Failure::of("forget", error)
}

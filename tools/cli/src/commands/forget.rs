//! `memfold forget`: a memory is erased everywhere.

use std::path::PathBuf;

use clap::{self, Args, ValueHint};
use memfold::ops::{self, ForgetDocument, ForgetRequest, Settings, StorePath};
use memfold_core::memory::MemoryId;
use memfold_guard::text::excerpt;
use memfold_store::upkeep::{Erasure, Mentions};

use crate::args::{GlobalArgs, WritingArgs, store_path};
use crate::failure::{Exit, Failure};
use crate::printer::Printer;
use crate::writing::{self, Words};

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

pub(crate) fn run(
    global: &GlobalArgs,
    args: &ForgetArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let settings = Settings::load(&global.sources(), Some(&args.db), &[])?;
    settings.show_notices(&printer);
    let WritingArgs { execute, dry_run, now } = &args.writing;
    let writes = writing::may_write(&settings, *execute, *dry_run, &printer);
    let request = ForgetRequest {
        id: MemoryId::new(args.id.as_str()),
        with_absorbed: args.with_absorbed,
        everywhere: args.everywhere,
        index_dir: args.index_dir.clone(),
        now: now.clone(),
    };
    let forgotten = ops::forget(&args.db, &settings, &request, writes)?;
    if forgotten.is_log_empty == Some(false) {
        printer.note(
            "note: another process still reads the write-ahead log; what was erased stays in it \
             until the next checkpoint",
        );
    }
    if global.json {
        printer.document(&forgotten)?;
        return Ok(Exit::Done);
    }
    printer.data(&screen(args, &forgotten, writes))?;
    if !writes {
        printer.note("dry run: nothing was written to the store");
    }
    Ok(Exit::Done)
}

fn screen(args: &ForgetArgs, forgotten: &ForgetDocument, writes: bool) -> String {
    let would = |done: &str| if writes { done.to_owned() } else { format!("would be {done}") };
    let mut text = told(&would("erased"), &forgotten.erasure);
    text.push_str(&told_indexes(&would("removed"), &forgotten.indexes));
    let fate = if args.everywhere { would("deleted") } else { "left for you to delete".to_owned() };
    text.push_str(&told_files(&forgotten.files, &fate));
    text.push_str(LEFT);
    if !writes {
        text.push_str(&format!("this cannot be undone\nnext: {}\n", command(args)));
    }
    text
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

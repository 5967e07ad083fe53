//! `memfold forget`: a memory is erased everywhere.

use std::path::PathBuf;

use clap::{self, Args, ValueHint};
use memfold::ops::{self, ForgetDocument, ForgetRequest, StorePath};
use memfold_core::memory::MemoryId;
use memfold_guard::text::excerpt;
use memfold_store::upkeep::{Erasure, Mentions};

use crate::args::{WritingArgs, store_path};
use crate::call::Call;
use crate::failure::{Exit, Failure};
use crate::writing::{Words, few};

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
    #[command(flatten)]
    pub(crate) request: ForgetRequest,
    #[command(flatten)]
    pub(crate) writing: WritingArgs,
}

pub(crate) fn run(call: Call<'_>, args: &ForgetArgs) -> Result<Exit, Failure> {
    let settings = call.settings(&args.db)?;
    let writes = call.may_write(&settings, &args.writing);
    let now = args.writing.now.as_deref();
    let forgotten = ops::forget(&args.db, &settings, &args.request, now, writes)?;
    if forgotten.is_log_empty == Some(false) {
        call.printer.note(
            "note: another process still reads the write-ahead log; what was erased stays in it \
             until the next checkpoint",
        );
    }
    call.show_run(writes, &forgotten, || screen(args, &forgotten, writes))
}

fn screen(args: &ForgetArgs, forgotten: &ForgetDocument, writes: bool) -> String {
    let would = |done: &str| if writes { done.to_owned() } else { format!("would be {done}") };
    let mut text = told(&would("erased"), &forgotten.erasure);
    text.push_str(&told_indexes(&would("removed"), &forgotten.indexes));
    let status = if args.request.everywhere {
        would("deleted")
    } else {
        "left for you to delete".to_owned()
    };
    text.push_str(&told_files(&forgotten.files, &status));
    text.push_str(LEFT);
    if !writes {
        text.push_str(&format!("this cannot be undone\nnext: {}\n", command(args)));
    }
    text
}

fn command(args: &ForgetArgs) -> String {
    let ForgetRequest { id, with_merged, everywhere, index_dir } = &args.request;
    Words::default()
        .word(id)
        .flag("--with-merged", *with_merged)
        .flag("--everywhere", *everywhere)
        .path("--index-dir", index_dir.as_deref())
        .word("--execute")
        .command("forget", &args.db)
}

fn told_indexes(what: &str, folders: &[PathBuf]) -> String {
    if folders.is_empty() {
        return String::new();
    }
    format!(
        "index {what}, since it holds id and vector (memfold index build makes it anew): {}\n",
        paths(folders)
    )
}

fn told(what: &str, erasure: &Erasure) -> String {
    let ids = |ids: &[MemoryId]| {
        few(&ids.iter().map(|id| excerpt(id.as_str(), ID_CHARS)).collect::<Vec<_>>(), SHOWN)
    };
    let mut text = format!("{what}: {}\n", ids(&erasure.ids));
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
        text.push_str(&format!(
            "said in other words by {}: undo the run that wrote it first, or forget it too\n",
            ids(&erasure.restated_in)
        ));
    }
    for reaction in &erasure.reactions {
        text.push_str(&format!("your tables follow: {reaction}\n"));
    }
    if !erasure.units.is_empty() {
        let units = few(&erasure.units, SHOWN);
        text.push_str(&format!("can no longer be undone (run and unit): {units}\n"));
    }
    text
}

fn told_files(files: &Mentions, status: &str) -> String {
    let mut text = String::new();
    for (found, what) in
        [(&files.reports, "reports that name it"), (&files.backups, "backups that may hold it")]
    {
        if !found.is_empty() {
            text.push_str(&format!("{what}, {status}: {}\n", paths(found)));
        }
    }
    text
}

fn paths(paths: &[PathBuf]) -> String {
    few(&paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(), SHOWN)
}

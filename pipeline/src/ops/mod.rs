//! What a command, a request and a Python call do: the application layer.
//!
//! The command line, the server and the wheel translate their arguments, call a function of this module and show what it
//! returns. Documents (the types that `--json` prints) live here, once.
//!
//! | module | the question it answers |
//! |---|---|
//! | `failure` | why was it not done, of what kind is that, what helps? |
//! | `settings` | which configuration and time hold for a call? |
//! | `store` | which file is worked on, how is it opened, where is its index? |
//! | `mirrored` | how does a store of another kind become a `brain.db` and back? |
//! | `provider` | who makes vectors? |
//! | `run_files` | where do reports and metrics of a run go? |

mod failure;
mod settings;
mod store;
mod mirrored;
mod provider;
mod run_files;
mod indexing;
mod judge;
mod consolidate;
mod review;
mod apply;
mod undo;
mod runs;
mod lookups;
mod status;

use memfold_index::Progress;

use crate::execute::forbidden_by;

pub use apply::{
    ApplyDocument, ApplyRequest, apply, find_plan, preview_apply, saved_plan, selection,
};
pub use consolidate::{
    ConsolidateDocument, ConsolidateRequest, Consolidated, Scope, consolidate, planning_failure,
    with_run_context,
};
pub use failure::{Advised, Failure, FailureKind};
pub use indexing::{IndexUpkeep, mode_of, wants_rebuild};
pub use judge::{JudgeMode, judge_chain};
pub use lookups::{
    CheckDocument, Elapsed, NotSavedDocument, RecallDocument, SaveDocument, SearchDocument,
    WORDS_ALONE, candidates,
};
pub use mirrored::{KindRequest, Narrowed, OpenOrigin, Synchronization};
pub use provider::Provider;
pub use review::{FlagsDocument, SettledDocument, named_by, named_memories, with_merged};
pub use run_files::{RunFiles, Written, log_ended, note_backup, note_execution, report_dir};
pub use runs::{PlansDocument, RunDocument, RunsDocument, SavedPlanDocument, find_run};
pub use settings::{FlagValue, Settings, Sources, now, pool, scratch_dir};
pub use status::{IndexState, Status, StatusDocument, memories_of_tier, status, waiting};
pub use store::{
    Mirrored, StorePath, index_folders, index_to_build, index_to_read, is_text_file, mode_like,
    open_options, open_own_tables, open_quick_check, open_session, open_store, remove_marks,
    session_options,
};
pub use undo::{
    CandidatesDocument, RestoreDocument, UndoDocument, UndoRequest, archived_memories, is_archived,
    preview_undone, restore_memory, undo,
};

/// Is told remarks while work goes on, beside its progress.
pub trait Listener: Progress {
    /// Takes a remark.
    fn note(&self, text: &str);

    /// Takes a remark for those who asked for more.
    fn detail(&self, text: &str);
}

/// A command about a store as a command line: the words before the store, the store, those after it.
#[must_use]
pub fn store_words(before: &[&str], store: &StorePath, after: &[&str]) -> String {
    let store = path_word(store.named());
    memfold_core::report::shell_words(&[before, &[&store], after].concat())
}

/// A path as a word of a command line, where it must not be taken for a flag.
#[must_use]
pub fn path_word(path: &std::path::Path) -> String {
    let word = path.to_string_lossy();
    if word.starts_with('-') { format!("./{word}") } else { word.into_owned() }
}

/// A count with its noun: `1 unit`, `1,204 units`.
#[must_use]
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", memfold_core::report::grouped(count), noun(count, one, many))
}

/// The noun of a count.
#[must_use]
pub const fn noun<'a>(count: u64, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}

/// Tells whether a call may write: it was asked to, and nothing forbids it.
pub fn may_write(
    settings: &Settings,
    execute: bool,
    dry_run: bool,
    listener: &dyn Listener,
) -> bool {
    if !execute {
        return false;
    }
    let obstacle = match forbidden_by(&settings.configuration.settings) {
        _ if dry_run => "--dry-run wins over --execute".to_owned(),
        Some(setting) => format!("{setting}, which beats --execute"),
        None => return true,
    };
    listener.note(&format!("note: {obstacle}: nothing will be written"));
    false
}

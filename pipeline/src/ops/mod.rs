//! The operations behind a command, a request and a Python call: the application layer.
//!
//! The command line, the server and the wheel translate their arguments, call a function of this
//! module and show the result. Documents (the types that `--json` prints) live here, once.
//!
//! | module | the question it answers |
//! |---|---|
//! | `failure` | why did it fail, which kind of failure is it, which advice helps? |
//! | `settings` | which configuration and time hold for a call, may it write, who hears of it? |
//! | `store` | which file is worked on, how is it opened, where is its index? |
//! | `mirrored` | how does a store of another kind become a `brain.db` and back? |
//! | `provider` | who makes vectors? |
//! | `memories` | is this known, remember it, which memories are near, which answer this question? |
//! | `run_files` | where do reports and metrics of a run go? |
//! | `files` | how do memories come in from a file, and go out into one? |

mod failure;
mod words;
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
mod forget;
mod runs;
mod audit;
mod explain;
mod lookups;
mod memories;
mod status;
mod doctor;
mod embed;
mod files;

pub use apply::{
    ApplyDocument, ApplyRequest, apply, find_plan, preview_apply, saved_plan, selection,
};
pub use audit::{
    AuditDocument, AuditSample, CalibrationDocument, FoundDocument, JudgeCalibration,
    RefusedDocument, audit_sample, calibrate,
};
pub use consolidate::{
    ConsolidateDocument, ConsolidateRequest, Consolidated, Scope, consolidate, planning_failure,
    with_run_context,
};
pub use doctor::{DoctorDocument, Examined, HealthDocument, doctor, store_health};
pub use embed::{EmbedDocument, EmbedRequest, ReplaceDocument, embed, replace_model};
pub use explain::{ExplainDocument, Explained, TextsDocument, compare_texts, explain};
pub use failure::{Advised, Failure, FailureKind};
pub use files::{
    ExportDocument, ExportFormat, ExportRequest, ExportedDocument, ExtraColumn, ImportDocument,
    export, export_lines, export_texts, import,
};
pub use forget::{ForgetDocument, ForgetRequest, forget};
pub use indexing::{IndexBuildDocument, IndexInfoDocument, IndexUpkeep, mode_of, wants_rebuild};
pub use judge::{JudgeMode, judge_chain};
pub use lookups::{
    CheckDocument, Elapsed, NotSavedDocument, RecallDocument, SaveDocument, SearchDocument,
};
pub use memories::{Answered, Found, Memories, MemoriesOptions, RecallRequest, SearchRequest};
pub use mirrored::{KindRequest, Narrowed, OpenOrigin, Synchronization};
pub use provider::Provider;
pub use review::{
    FlagsDocument, Reviewer, SettledDocument, named_by, plan_texts, settle_pair, with_merged,
};
pub use run_files::{RunFiles, Written, log_ended, note_backup, note_execution, report_dir};
pub use runs::{
    PlansDocument, PruneDocument, RunDocument, RunsDocument, SavedPlanDocument, find_run, prune,
};
pub use settings::{FlagValue, Listener, Settings, Sources, may_write, now, pool, scratch_dir};
pub use status::{IndexState, Status, StatusDocument, memories_of_tier, status, waiting};
pub use store::{
    Mirrored, StorePath, index_to_build, index_to_read, is_text_file, open_options,
    open_own_tables, open_quick_check, open_session, open_store,
};
pub(crate) use store::{
    index_folders, mode_like, remove_kept_vectors, remove_marks, session_options,
};
pub use undo::{
    CandidatesDocument, RestoreDocument, UndoDocument, UndoRequest, archived_memories, is_archived,
    preview_undone, restore_memory, undo,
};
pub use words::{counted, noun, path_word, store_words, undo_words};

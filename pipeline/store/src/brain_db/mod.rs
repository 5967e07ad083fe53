//! `brain.db`, the SQLite store of an agent: somebody else's file.

pub(crate) mod read;
pub(crate) mod write;
pub(crate) mod own;
pub(crate) mod doctor;
mod create;

pub use create::{BrainDbWriter, CreateOptions, CreateStoreError, NewMemory, NewStore};
pub use doctor::examine::{Checkup, Health, HealthCounts, HealthStatus, health};
pub use doctor::facts::{
    AuditChain, Facts, Files, Found, FullText, FullTextKind, MemoryFacts, OtherConsolidator,
    OwnTables, SpaceFacts, UnfinishedRun,
};
pub use doctor::findings::{Finding, Mend, Severity, findings};
pub use memfold_core::merge::FlagKind;
pub use own::origins::{LastUnit, MemoryState, MirrorMemory, MirrorOf, MirroredRecord};
pub use own::plans::ActionUpdate;
pub use own::runs::{ActionRecord, NewUnit, RunStart, UnitRecord};
pub use own::statements::{
    AnsweredRequest, KeptVote, Lease, OpenPair, ScheduleRow, StoredSummary, StoredTier, WaitingFlag,
};
pub use read::access::{Access, StoreVersion};
pub use read::load::{Param, ReadBlobs, cell};
pub use read::lookup::{LastSeen, MarkedRow, Marks, Reach, Reaches, RowMark, StoreReader};
pub use read::open::{BrainDb, KeptReader, OpenOptions, Shortage};
pub use read::rows::{
    LiveMemory, MergedRow, OpenFlag, RecallFacts, SessionRows, SpaceShapes, TimedMemory,
};
pub use write::changes::{
    ImportedMemory, Mark, NewEmbedding, NewRow, NowRows, apply, apply_to_new_row,
};
pub use write::rows::Layout;
pub use write::session::{BackupOutcome, RecallCounter, Session, SessionOptions, Writes};

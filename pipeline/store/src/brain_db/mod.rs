//! `brain.db`, the SQLite store of an agent: somebody else's file.

pub(crate) mod read;
pub(crate) mod write;
pub(crate) mod own;
pub(crate) mod doctor;
mod create;
#[cfg(feature = "wild")]
mod wild;

pub use create::{
    BrainDbWriter, CreateOptions, CreateStoreError, NewMemory, NewStore, StoreStyle, WrittenStore,
};
pub use memfold_core::merge::FlagKind;

pub use doctor::checkup::{Checkup, Health, HealthCounts, HealthStatus, health};
pub use doctor::facts::{
    AuditChain, Facts, Files, Found, FullText, FullTextKind, MemoryFacts, OwnTables, Rival,
    SpaceFacts, UnfinishedRun,
};
pub use doctor::findings::{Finding, Mend, Severity, findings};
pub use own::flags::{OpenPair, WaitingFlag};
pub use own::judgements::StoredJudgement;
pub use own::origins::{LastUnit, MemoryState, MirrorMemory, MirrorOf, MirroredRecord};
pub use own::plans::ActionUpdate;
pub use own::runs::RunStart;
pub use own::served::{AnsweredRequest, Lease, ScheduleRow};
pub use own::statements::{StoredEdge, StoredMerge, StoredSummary};
pub use own::tiers::{AssignedTier, StoredTier};
pub use own::units::{ActionRecord, NewUnit, UnitRecord};
pub use read::access::{Access, Stamp};
pub use read::load::{Param, ReadBlobs, cell};
pub use read::lookup::{Marks, Reach, Reaches, StoreReader, Watermark};
pub use read::open::{BrainDb, KeptReader, OpenOptions, OpenStoreError, Shortage};
pub use read::recall::{RecallFacts, SessionRows, TimedMemory};
pub use read::rows::{Ghost, LiveMemory, OpenFlag, SpaceShapes};
pub use read::some::{MarkedRow, RowMark};
pub use read::vitals::Vitals;
pub use write::beside::BackupOutcome;
pub use write::changes::{Mark, NowRows, apply, apply_to_new_row};
pub use write::insert::{ImportedMemory, NewEmbedding, NewRow};
pub use write::layout::Layout;
pub use write::recalls::RecallCounter;
pub use write::session::{Session, SessionError, SessionOptions, Writes};

//! `brain.db`, the SQLite store of an agent: somebody else's file, read without leaving a trace.

mod error;
mod open;
mod rivals;
pub(crate) mod own;
mod session;
mod plans;
mod checkup;
mod access;
mod kept;
mod columns;
mod load;
mod in_step;
mod recorded;
mod archived;
mod consult;
mod blobs;
mod history;
mod lookups;
mod lineage;
mod schema;
mod create;
mod wild;
pub mod texts;

pub use blobs::ReadBlobs;
pub use checkup::{
    AuditChain, Checkup, Facts, Files, Finding, Found, FullText, FullTextKind, Health,
    HealthCounts, HealthStatus, MemoryFacts, Mend, OwnTables, Severity, SpaceFacts, UnfinishedRun,
    findings, health,
};
pub use create::{
    BrainDbWriter, CreateOptions, CreateStoreError, NewMemory, StoreStyle, WrittenStore,
};
pub use error::OpenStoreError;
pub use lookups::{LiveMemory, Marks, Reach, Reaches, StoreReader, Watermark};
pub use open::KeptReader;
pub use open::{BrainDb, OpenOptions};
pub use own::{
    ActionUpdate, Deed, FindPlanError, FlagKind, OpenPair, RunStart, UnitRecord, WaitingFlag,
};
pub use rivals::Rival;
pub use session::{BackupOutcome, Session, SessionError, SessionOptions, Shortage, Writes};

pub use create::NewStore;
pub(crate) use lineage::StoreLineage;
pub use lookups::{Fate, Ghost, OpenFlag};
pub use session::{
    ImportedMemory, Layout, Mark, NewEmbedding, NewRow, NowRows, Reference, UnitRow, Words, apply,
    archived_image,
};

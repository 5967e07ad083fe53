//! Is this store sound? An examination that leaves no trace: facts first, as plain data, then [`Finding`]s made of
//! nothing but facts.
//!
//! | step | what |
//! |---|---|
//! | [`BrainDb::checkup`](super::BrainDb::checkup) | loads the store and gathers [`Facts`] |
//! | [`findings`] | what is wrong, how bad it is, and what mends it |
//! | [`health`] | the one line that a monitor reads: counts and a quick check, no vectors |

mod facts;
mod census;
mod sound;
mod full_text;
mod own_tables;
mod folded;
mod files;
pub(in crate::brain_db) use files::free_bytes;
mod gather;
mod finding;
mod findings;
mod figures;
mod health;

pub use facts::{
    AuditChain, Facts, Files, Found, FullText, FullTextKind, MemoryFacts, OwnTables, SpaceFacts,
    UnfinishedRun,
};
pub use finding::{Finding, Mend, Severity};
pub use findings::findings;
pub use gather::Checkup;
pub use health::{Health, HealthCounts, HealthStatus, health};

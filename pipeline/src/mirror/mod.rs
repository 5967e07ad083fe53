//! Stores of other systems: pulled into a `brain.db` of ours, worked on there, published back.
//!
//! ```text
//! origin ──pull──► mirror (a brain.db) ── plan, review, execute, undo, … ──► mirror ──publish──► origin
//! ```
//!
//! A pull makes each record of an [`Origin`](memfold_store::origin::Origin) a memory of the same id
//! and takes in the changes that others made since. A publication compares the mirror with the
//! origin, memory by memory, and writes the difference: it knows no runs, so undo, review and saves
//! are published like merges, and a second publication finds nothing to do.
//!
//! | instant of a kill | state that the next [`Mirror`] finds | and its action |
//! |---|---|---|
//! | in a pull | one transaction, which is not there | pulls again |
//! | between a run and its publication | memories that the origin has otherwise | publishes them |
//! | in a publication | the units, recorded before the first write | writes them again; finished writes are passed over |
//! | behind its last write | the same | the same |
//!
//! If others changed a record of a unit meanwhile, that is a conflict: the origin is left alone,
//! the mirror undoes the unit, and the next run plans it anew. The mirror can be deleted at any
//! time: merged and archived records say so in the origin, or in the file of removed texts that its
//! adapter keeps.

mod error;
mod open;
mod pull;
mod units;
mod publish;
#[cfg(test)]
mod tests;

pub use error::MirrorError;
pub use open::{Mirror, MirrorOptions, mirror_path};
pub use publish::Publication;
pub use pull::Pulled;

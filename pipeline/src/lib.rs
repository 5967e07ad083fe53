//! How should memories that are near each other change?
//!
//! `Plan = f(memories, decisions, policy, now)`: a store is loaded, near memories are detected,
//! clustered and judged, and a plan and a report come out. The modules stand in the order in which
//! a memory passes through them; [`consolidate`] calls the stages one after the other.
//!
//! | stage | from | to |
//! |---|---|---|
//! | [`memfold_store`] | a [`MemoryStore`](memfold_store::MemoryStore) (`brain.db`, for example) | a [`Snapshot`](memfold_core::Snapshot): memories, and rows that were left out |
//! | `columns` | vectors, as the store is read | mapped matrices, one for each model and dimension |
//! | [`memfold_core::detect`] | pairs of near vectors | units, clusters, contradictions |
//! | [`memfold_guard`], [`memfold_core::cluster`] | two texts; a graph of links | a verdict; groups that are linked throughout |
//! | [`memfold_core::plan`] | a detection and a [`Policy`](memfold_core::policy::Policy) | actions, and noops with a reason |
//! | [`memfold_core::report`] | all of it | JSON, Markdown, the screen |
//!
//! [`quick_check`] checks on every save whether a memory is known already, and merges it at once
//! where that is safe.
//!
//! [`lifecycle`] computes the tiers of a store's memories, their relations and whether a run is
//! due. [`recall`] finds memories for a question, by vector and words, as far as their tiers allow;
//! [`session_start`] makes the block that a session starts with.
//!
//! [`texts`] plans over a file of texts as it is.
//!
//! [`mirror`] makes stores of other systems a `brain.db` and publishes the changes applied there.
//!
//! [`ops`] is the application layer: the operations behind a command, a request and a Python call.
//!
//! Two stand apart: [`embed`] gives memories the vectors that they lack; with [`dedup`] the pairs of any corpus become
//! clusters, without a store or texts.
//!
//! A stage is a function from plain data to plain data. [`memfold_guard`] and [`memfold_core`] do no I/O, read no clock
//! and know no store. No answer depends on threads, ISA level, the order of a store's rows or a hash map's;
//! the time is an argument. Nothing here writes to a store that somebody else owns;
//! [`import`] makes new ones of other files, [`memfold_store::brain_db::BrainDbWriter`] for demos, tests and benchmarks.
//!
//! ```no_run
//! use memfold::Memfold;
//!
//! # fn main() -> Result<(), memfold::MemfoldError> {
//! let memfold = Memfold::open("brain.db")?;
//! let planned = memfold.plan()?; // nothing is written
//! println!("{} merges", planned.report().planned.merge);
//! planned.apply()?; // journaled; `memfold undo` takes it back
//! # Ok(())
//! # }
//! ```

mod memfold;
mod error;
pub mod machine;
mod columns;
pub mod consolidate;
pub mod incremental;
pub mod judging;
pub mod execute;
pub mod settle;
pub mod audit;
pub mod calibration;
pub mod lifecycle;
pub mod export;
pub mod import;
pub mod texts;
pub mod mirror;
pub mod embed;
pub mod lookup;
pub mod quick_check;
pub mod recall;
pub mod session_start;
pub mod dedup;
pub mod ops;

pub use error::MemfoldError;
pub use memfold::{ApplyOptions, Memfold, Options, OwnedPlan, Planned};

//! Breaks `memfold consolidate --execute` and `memfold undo` on purpose: kills, failing writes, busy
//! locks, readers and writers beside a run.
//!
//! [`Memfold`] is the binary, a [`Fixture`] a store with the images of all its undisturbed states,
//! a [`Trial`] a copy of it that something is done to. [`kills`], [`faults`], [`reader`],
//! [`writers`] and [`python`] are the ways to break it; each returns its counts, or the broken
//! promise.

mod memfold;
mod waits;
mod shim;
mod fixture;
mod recovery;
pub mod kills;
pub mod faults;
pub mod reader;
pub mod writers;
pub mod python;

pub use fixture::{Fixture, FixtureOptions, Location, Trial};
pub use memfold::{Ended, Memfold, strings};
pub use recovery::{Phase, Recovery};
pub use shim::{Calls, Fault, FaultKind, Shim};
pub use waits::Waits;

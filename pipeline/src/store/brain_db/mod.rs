//! `brain.db`, the SQLite store of an agent: somebody else's file, read without leaving a trace.

mod error;
mod open;
mod rivals;
mod own;
mod access;
mod columns;
mod load;
mod schema;
mod create;
mod wild;
pub mod texts;

#[cfg(test)]
mod tests;

pub use create::{
    BrainDbWriter, CreateOptions, CreateStoreError, NewMemory, StoreStyle, WrittenStore,
};
pub use error::OpenStoreError;
pub use open::{BrainDb, OpenOptions};
pub use rivals::Rival;

//! memfold's own tables in somebody else's store: prefix `memfold_`, made by the first write.

mod ddl;
mod migrate;

pub(in crate::store::brain_db) use migrate::{MigrateError, Migrated, migrate};

//! memfold's own tables in somebody else's store: prefix `memfold_`, made by the first write.

mod ddl;
mod migrate;
pub(crate) mod plans;
pub(crate) mod runs;
mod units;
mod flags;
mod lineage;
pub(crate) mod forget;
pub(crate) mod prune;

pub(crate) use ddl::VERSION;
pub(in crate::brain_db) use ddl::table_names;
pub use flags::{FlagKind, OpenPair, WaitingFlag};
pub(crate) use lineage::active_folds_of;
pub(crate) use migrate::{MigrateError, exist, migrate, recorded};
pub use plans::{ActionUpdate, FindPlanError};
pub use runs::RunStart;
pub(in crate::brain_db) use runs::running;
pub use units::{Deed, UnitRecord};

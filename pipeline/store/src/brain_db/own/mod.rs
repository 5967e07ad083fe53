//! memfold's own tables in somebody else's store: prefix `memfold_`, made by the first write.

mod ddl;
pub mod migrate;
pub mod plans;
pub mod runs;
mod units;
mod flags;
mod lineage;
pub(crate) mod forget;
pub(crate) mod prune;

pub(crate) use ddl::VERSION;
pub(in crate::brain_db) use ddl::table_names;
pub use flags::{FlagKind, OpenPair};
pub use flags::{WaitingFlag, close_flags, near_flags, open_flags_of, waiting_flag};
pub(crate) use lineage::active_folds_of;
pub use migrate::exist;
pub use migrate::{MigrateError, migrate, recorded};
pub use plans::{ActionUpdate, FindPlanError};
pub(in crate::brain_db) use runs::running;
pub use units::{Deed, UnitRecord};
pub use units::{
    applied_units, insert_unit, journal, last_unit_of_memory, later_units, mark_unit, unit,
    unit_of_action, units_of_plan, units_of_run,
};

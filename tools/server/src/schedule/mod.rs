//! When a store runs by itself: a cron expression in a zone, and when a run is due (`memfold status`).
//!
//! A planned time is taken by a row in the store, so that of several servers one runs it; one that was missed is
//! made up for once. Nothing is written unless the schedule says so.

mod settings;
mod work;

pub use settings::{Cron, SCHEDULE_DEFAULT, ScheduleSettings, due_slot};
pub use work::{ScheduleView, Schedules};

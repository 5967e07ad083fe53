//! Scheduled runs of a store: a cron expression in a zone, and when a run is due
//! (`memfold status`).
//!
//! A planned time is taken by a row in the store, so that of several servers one runs it; a missed
//! one is made up for once. Nothing is written unless the schedule allows it.

mod settings;
mod work;

pub(crate) use settings::{SCHEDULE_DEFAULT, ScheduleSettings};
pub(crate) use work::{ScheduleView, Schedules};

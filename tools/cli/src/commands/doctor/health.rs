//! `memfold doctor --health`: one line, and an exit code of its own.

use std::time::Duration;

use memfold_index::NoProgress;
use memfold_store::LoadRequest;
use memfold_store::brain_db::{Health, HealthStatus, OpenOptions, health};

use super::document::HealthDocument;
use crate::args::{DoctorArgs, GlobalArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::{self, Settings};

/// Prints the line, or the same as a document.
pub(super) fn run(
    global: &GlobalArgs,
    args: &DoctorArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    // A monitor reads one line, whatever went wrong.
    let health = look(global, args)
        .unwrap_or_else(|failure| Health::unknown(HealthStatus::Critical, &failure.message));
    if global.json {
        printer.document(&HealthDocument::of(&health))?;
    } else {
        printer.data(&(health.line() + "\n"))?;
    }
    Ok(exit_of(health.status))
}

fn look(global: &GlobalArgs, args: &DoctorArgs) -> Result<Health, Failure> {
    let settings = Settings::load(global, Some(&args.db), &[])?;
    let time_zone = settings.time_zone()?;
    let now = settings::now(args.now.as_deref(), &time_zone)?;
    let request = LoadRequest { time_zone: &time_zone, now, progress: &NoProgress };
    let timeout = Duration::from_millis(settings.configuration.settings.busy_timeout_ms.into());
    Ok(health(&args.db, OpenOptions::default().busy_timeout(timeout), &request))
}

/// Monitors expect 0, 1 and 2 for ok, warning and critical, which elsewhere stand for other things.
const fn exit_of(status: HealthStatus) -> Exit {
    match status {
        HealthStatus::Ok => Exit::Done,
        HealthStatus::Warning => Exit::Failure,
        HealthStatus::Critical => Exit::Usage,
    }
}

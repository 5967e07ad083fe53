//! What was typed, made valid: configuration, guard, pool, kernels, time.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use memfold_guard::Guard;
use memfold_index::Pool;
use memfold_model::text::excerpt;
use memfold_model::time::Instant;
use memfold_plan::policy::{ConfigLoader, Configuration, config_hash};
use memfold_simd::Level;
use serde_json::{Map, Value};

use crate::args::GlobalArgs;
use crate::failure::{Exit, Failure};
use crate::printer::Printer;

/// A flag that sets a configuration key.
pub struct FlagValue {
    /// The flag as typed, `--threshold`.
    pub flag: &'static str,
    /// The key it sets.
    pub key: &'static str,
    /// The value.
    pub value: Value,
}

/// The valid settings of a command.
pub struct Settings {
    /// The merged configuration.
    pub configuration: Configuration,
}

impl Settings {
    /// Loads all layers; the file beside `store` is one of them.
    pub fn load(
        global: &GlobalArgs,
        store: Option<&Path>,
        flags: &[FlagValue],
    ) -> Result<Self, Failure> {
        let mut loader = loader(global, store);
        for FlagValue { flag, key, value } in flags {
            loader = loader.flag(*flag, *key, value.clone());
        }
        let configuration = loader.load().map_err(|error| {
            let hint = error.hint();
            Failure { exit: Exit::Usage, ..Failure::new("read the configuration", &error, hint) }
        })?;
        Ok(Self { configuration })
    }

    /// Loads all layers with what was typed when a plan was made, so that it need not be typed again.
    pub(crate) fn load_for_plan(
        global: &GlobalArgs,
        store: Option<&Path>,
        overrides: &Map<String, Value>,
    ) -> Result<Self, Failure> {
        let set = overrides.get("set").and_then(Value::as_array).into_iter().flatten();
        let set = set.filter_map(Value::as_str);
        let mut loader = set.fold(loader(global, store), |loader, text| loader.planned_set(text));
        for (key, value) in overrides.iter().filter(|(key, _)| *key != "set") {
            loader = loader.planned_flag(key.as_str(), value.clone());
        }
        let configuration = loader.load().map_err(|error| {
            let hint = error.hint();
            Failure { exit: Exit::Usage, ..Failure::new("read the configuration", &error, hint) }
        })?;
        Ok(Self { configuration })
    }

    /// Tells what a person should know of the configuration.
    pub fn show_notices(&self, printer: Printer) {
        for notice in &self.configuration.notices {
            printer.note(&format!("note: {notice}"));
        }
    }

    /// Makes the fact guard.
    pub(crate) fn guard(&self) -> Result<Guard, Failure> {
        Guard::new(&self.configuration.policy.guard).map_err(|error| {
            let hint = error.hint();
            Failure { exit: Exit::Usage, ..Failure::new("read the lexicon", &error, hint) }
        })
    }

    /// Returns the zone of naive times.
    pub(crate) fn time_zone(&self) -> Result<TimeZone, Failure> {
        let name = &self.configuration.policy.time_zone;
        self.configuration.policy.zone().ok_or_else(|| {
            Failure::usage(
                format!("the time zone {name:?} is not known"),
                "use an IANA name such as Europe/Berlin, or UTC",
            )
        })
    }

    /// Returns the hash of everything that can change a plan.
    pub(crate) fn config_hash(&self, guard: &Guard) -> String {
        config_hash(&self.configuration.policy, guard.lexicon_text().as_bytes())
    }
}

/// Collects the layers that every command reads.
pub(crate) fn loader(global: &GlobalArgs, store: Option<&Path>) -> ConfigLoader {
    // Variables that are no text cannot be ours.
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let mut loader = ConfigLoader::new().machine_files().environment(environment);
    loader = match machine_zone(std::env::var_os("TZ")) {
        Some(Ok(name)) => loader.time_zone(name),
        Some(Err(problem)) => loader.unknown_time_zone(problem),
        None => loader,
    };
    if let Some(store) = store {
        loader = loader.store(store);
    }
    if let Some(file) = &global.config {
        loader = loader.file(file.clone());
    }
    global.set.iter().fold(loader, |loader, text| loader.set(text))
}

/// Returns the name of the machine's zone, or what is wrong with the variable `TZ`; `None` where nothing names one.
fn machine_zone(variable: Option<OsString>) -> Option<Result<String, String>> {
    let system = || TimeZone::system().iana_name().map(|name| Ok(name.to_owned()));
    let Some(variable) = variable.filter(|variable| !variable.is_empty()) else { return system() };
    let shown = excerpt(&variable.to_string_lossy(), ZONE_CHARS);
    let name = variable.to_str().map(|name| name.strip_prefix(':').unwrap_or(name));
    let Some(name) = name else { return Some(Err(format!("TZ is no text: {shown}"))) };
    if let Some(zone) = memfold_plan::policy::config::time_zone(name) {
        return Some(Ok(zone.iana_name().map_or_else(|| name.to_owned(), str::to_owned)));
    }
    if name.starts_with('/') && !TimeZone::system().is_unknown() {
        let unnamed = || Err(format!("TZ={shown} is a file of no zone that has a name"));
        return Some(system().unwrap_or_else(unnamed));
    }
    Some(match TimeZone::posix(name).ok().map(|zone| fixed_offset(&zone)) {
        Some(Some(seconds)) => Ok(offset_name(seconds)),
        Some(None) => Err(format!("TZ={shown} is a rule and no name")),
        None => Err(format!("TZ={shown} names no zone")),
    })
}

/// Returns the offset from UTC in seconds of a zone whose clock is never changed: it is the same in every month.
fn fixed_offset(zone: &TimeZone) -> Option<i32> {
    const MONTH_SECONDS: i64 = 30 * 86_400;
    let at = |month: i64| jiff::Timestamp::from_second(month * MONTH_SECONDS).ok();
    let mut offsets = (0..12).filter_map(at).map(|at| zone.to_offset(at).seconds());
    let first = offsets.next()?;
    offsets.all(|offset| offset == first).then_some(first)
}

/// Writes an offset from UTC as `+02:00`.
fn offset_name(seconds: i32) -> String {
    let (sign, seconds) = (if seconds < 0 { '-' } else { '+' }, seconds.unsigned_abs());
    format!("{sign}{:02}:{:02}", seconds / 3600, seconds / 60 % 60)
}

const ZONE_CHARS: usize = 60;

/// Starts the workers.
pub fn pool(global: &GlobalArgs) -> Result<Pool, Failure> {
    Pool::new(global.threads).map_err(|error| {
        Failure::new("start", &error, Some("use fewer threads: --threads N".to_owned()))
    })
}

/// Refuses an ISA level that `MEMFOLD_ISA` names and this machine lacks.
pub(crate) fn check_isa() -> Result<(), Failure> {
    Level::requested().map(drop).map_err(|error| {
        let hint = error.hint();
        Failure { exit: Exit::Usage, ..Failure::new("choose the kernels", &error, hint) }
    })
}

/// Returns the time given, or the clock's.
pub(crate) fn now(given: Option<&str>, time_zone: &TimeZone) -> Result<Instant, Failure> {
    match given {
        Some(text) => Instant::parse(text, time_zone).ok_or_else(|| {
            Failure::usage(
                format!("--now {text:?} is no time"),
                "use RFC 3339, such as 2026-06-30T12:00:00Z",
            )
        }),
        None => Ok(clock()),
    }
}

/// Returns the time of the clock.
#[expect(
    clippy::disallowed_methods,
    reason = "the edge reads the clock; everything below takes it"
)]
pub fn clock() -> Instant {
    Instant(jiff::Timestamp::now().as_microsecond())
}

/// Returns who runs: the machine and the process.
pub(crate) fn holder() -> String {
    let from_kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let from_shell =
        || ["HOSTNAME", "COMPUTERNAME"].iter().find_map(|name| std::env::var(name).ok());
    let machine = from_kernel.or_else(from_shell).unwrap_or_default();
    let machine: String = machine.trim().chars().filter(|c| !c.is_whitespace()).collect();
    let machine = if machine.is_empty() { "localhost".to_owned() } else { machine };
    format!("{machine} {}", std::process::id())
}

/// Returns the folder for large temporary files.
pub fn scratch_dir() -> PathBuf {
    std::env::temp_dir()
}

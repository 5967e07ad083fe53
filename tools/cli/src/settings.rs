//! What was typed, made valid: configuration, guard, pool, kernels, time.

use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use memfold::machine;
use memfold_core::policy::{ConfigLoader, Configuration, config_hash};
use memfold_core::time::Instant;
use memfold_guard::Guard;
use memfold_index::Pool;
use memfold_simd::Level;
use serde_json::{Map, Value};

use crate::args::GlobalArgs;
use crate::failure::{Exit, Failure};
use crate::mirrored::Mirrored;
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

/// What of a plan's overrides says that undone merges were allowed: a word of the run, and no key of the configuration.
pub(crate) const AGAIN: &str = "again";

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
    pub fn load_for_plan(
        global: &GlobalArgs,
        store: Option<&Path>,
        overrides: &Map<String, Value>,
    ) -> Result<Self, Failure> {
        let set = overrides.get("set").and_then(Value::as_array).into_iter().flatten();
        let set = set.filter_map(Value::as_str);
        let mut loader = set.fold(loader(global, store), |loader, text| loader.planned_set(text));
        for (key, value) in
            overrides.iter().filter(|(key, _)| !["set", AGAIN].contains(&key.as_str()))
        {
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
    pub fn guard(&self) -> Result<Guard, Failure> {
        Guard::new(&self.configuration.policy.guard).map_err(|error| {
            let hint = error.hint();
            Failure { exit: Exit::Usage, ..Failure::new("read the lexicon", &error, hint) }
        })
    }

    /// Returns the zone of naive times.
    pub fn time_zone(&self) -> Result<TimeZone, Failure> {
        let name = &self.configuration.policy.time_zone;
        self.configuration.policy.zone().ok_or_else(|| {
            Failure::usage(
                format!("the time zone {name:?} is not known"),
                "use an IANA name such as Europe/Berlin, or UTC",
            )
        })
    }

    /// Returns the hash of everything that can change a plan.
    pub fn config_hash(&self, guard: &Guard) -> String {
        config_hash(&self.configuration.policy, guard.lexicon_text().as_bytes())
    }
}

/// Collects the layers that every command reads.
pub(crate) fn loader(global: &GlobalArgs, store: Option<&Path>) -> ConfigLoader {
    let mut loader = machine::config_loader();
    let mirrored = global.mirrored.as_ref().filter(|found| store == Some(&found.mirror));
    if let Some(Mirrored { origin, separate_by, rule_profile, .. }) = mirrored {
        // The file beside a store; in it where the store is a folder.
        let beside = if origin.is_dir() { origin.join("memfold.yaml") } else { origin.clone() };
        loader = loader.store(beside).separate_by(separate_by.iter().copied());
        if let Some(profile) = rule_profile {
            loader = loader.kind_default("profile", *profile);
        }
    } else if let Some(store) = store {
        loader = loader.store(store);
    }
    if let Some(file) = &global.config {
        loader = loader.file(file.clone());
    }
    global.set.iter().fold(loader, |loader, text| loader.set(text))
}

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
        None => Ok(machine::clock()),
    }
}

/// Returns the folder for large temporary files.
pub fn scratch_dir() -> PathBuf {
    std::env::temp_dir()
}

//! [`Settings`]: the configuration of a call, made valid; and the time it is about.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use jiff::tz::TimeZone;
use memfold_core::policy::{ConfigLoader, Configuration, config_hash};
use memfold_core::time::Instant;
use memfold_guard::Guard;
use memfold_index::{Pool, Progress};
use serde_json::{Map, Value};

use super::Failure;
use super::store::{Mirrored, StorePath};
use crate::execute::forbidden_by;
use crate::machine;

/// Where the settings of a call come from, beside the files of the machine and the store.
#[derive(Debug, Clone, Default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct Sources {
    /// Read this configuration file as well (YAML or JSON).
    #[cfg_attr(feature = "clap", arg(long, global = true, value_name = "FILE"))]
    pub config: Option<PathBuf>,
    /// Set a configuration key, such as guard.enabled=false (can be repeated).
    #[cfg_attr(feature = "clap", arg(long, global = true, value_name = "KEY=VALUE"))]
    pub set: Vec<String>,
}

/// A flag that sets a configuration key.
#[derive(Debug, Clone)]
pub struct FlagValue {
    /// The flag as typed, `--threshold`.
    pub flag: &'static str,
    /// The key it sets.
    pub key: &'static str,
    /// The value.
    pub value: Value,
}

/// The valid settings of a call.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The merged configuration.
    pub configuration: Configuration,
}

/// The entry of a plan's overrides that undone merges were allowed: a word of the run, not a key of
/// the configuration.
pub(super) const AGAIN: &str = "again";

impl Sources {
    /// Collects the layers; the file beside `store` is one of them.
    pub fn loader(&self, store: Option<&StorePath>) -> ConfigLoader {
        let mut loader = machine::config_loader();
        match store.map(|store| (store, store.mirrored())) {
            Some((_, Some(Mirrored { origin, separate_by, rule_profile, .. }))) => {
                // The file beside a store; in it where the store is a folder.
                let beside = match origin.is_dir() {
                    true => origin.join("memfold.yaml"),
                    false => origin.clone(),
                };
                loader = loader.store(beside).separate_by(separate_by.iter().copied());
                if let Some(profile) = rule_profile {
                    loader = loader.kind_default("profile", *profile);
                }
            }
            Some((store, None)) => loader = loader.store(&**store),
            None => {}
        }
        if let Some(file) = &self.config {
            loader = loader.file(file.clone());
        }
        self.set.iter().fold(loader, |loader, text| loader.set(text))
    }
}

impl Settings {
    /// Loads all layers; the file beside `store` is one of them.
    ///
    /// # Errors
    /// When a layer is not valid.
    pub fn load(
        sources: &Sources,
        store: Option<&StorePath>,
        flags: &[FlagValue],
    ) -> Result<Self, Failure> {
        let loader = sources.loader(store);
        Self::of(flags.iter().fold(loader, |loader, FlagValue { flag, key, value }| {
            loader.flag(*flag, *key, value.clone())
        }))
    }

    /// Loads all layers with the command line's keys of the time when a plan was made, so that they
    /// need not be repeated.
    ///
    /// # Errors
    /// When a layer is not valid.
    pub fn load_for_plan(
        sources: &Sources,
        store: Option<&StorePath>,
        overrides: &Map<String, Value>,
    ) -> Result<Self, Failure> {
        let set = overrides.get("set").and_then(Value::as_array).into_iter().flatten();
        let set = set.filter_map(Value::as_str);
        let loader = set.fold(sources.loader(store), |loader, text| loader.planned_set(text));
        let keys = overrides.iter().filter(|(key, _)| !["set", AGAIN].contains(&key.as_str()));
        Self::of(
            keys.fold(loader, |loader, (key, value)| {
                loader.planned_flag(key.as_str(), value.clone())
            }),
        )
    }

    fn of(loader: ConfigLoader) -> Result<Self, Failure> {
        let loaded = loader.load();
        let configuration =
            loaded.map_err(|error| Failure::of("read the configuration", &error))?;
        Ok(Self { configuration })
    }

    /// Reports the notices of the configuration.
    pub fn show_notices(&self, listener: &dyn Listener) {
        for notice in &self.configuration.notices {
            listener.note(&format!("note: {notice}"));
        }
    }

    /// Makes the fact guard.
    ///
    /// # Errors
    /// When the user's lexicon is not valid.
    pub fn guard(&self) -> Result<Guard, Failure> {
        Guard::new(&self.configuration.policy.guard)
            .map_err(|error| Failure::of("read the lexicon", &error))
    }

    /// Returns the zone of naive times.
    ///
    /// # Errors
    /// When it is not known.
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
    #[must_use]
    pub fn config_hash(&self, guard: &Guard) -> String {
        config_hash(&self.configuration.policy, guard.lexicon_text().as_bytes())
    }
}

/// Starts the workers.
///
/// # Errors
/// When the system starts no more.
pub fn pool(threads: Option<NonZeroUsize>) -> Result<Pool, Failure> {
    Pool::new(threads).map_err(|error| Failure::of("start", &error))
}

/// Returns the time given, or the clock's.
///
/// # Errors
/// When it is not a time.
pub fn now(given: Option<&str>, time_zone: &TimeZone) -> Result<Instant, Failure> {
    let Some(text) = given else { return Ok(machine::clock()) };
    Instant::parse(text, time_zone).ok_or_else(|| {
        Failure::usage(
            format!("--now {text:?} is no time"),
            "use RFC 3339, such as 2026-06-30T12:00:00Z",
        )
    })
}

/// Returns the folder for large temporary files.
#[must_use]
pub fn scratch_dir() -> PathBuf {
    std::env::temp_dir()
}

/// Receives remarks during work, beside its progress.
pub trait Listener: Progress {
    /// Takes a remark.
    fn note(&self, text: &str);

    /// Takes a remark for verbose output.
    fn detail(&self, text: &str);
}

/// Tells whether a call may write: it requests to, and nothing forbids it.
pub fn may_write(
    settings: &Settings,
    execute: bool,
    dry_run: bool,
    listener: &dyn Listener,
) -> bool {
    if !execute {
        return false;
    }
    let obstacle = match forbidden_by(&settings.configuration.settings) {
        _ if dry_run => "--dry-run wins over --execute".to_owned(),
        Some(setting) => format!("{setting}, which beats --execute"),
        None => return true,
    };
    listener.note(&format!("note: {obstacle}: nothing will be written"));
    false
}

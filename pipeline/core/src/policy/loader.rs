//! [`ConfigLoader`]: from layers to one [`Configuration`].

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::error::ConfigError;
use super::layers::{FileLayer, Layer, Notice, Source, each_inner};
use super::names::{builtin, environment_layers, fill_embed_url, set_layer};
use super::validate::{Policy, Settings, check_rules, lost_protection, validate};
use super::{defaults, files};

/// A validated configuration, and where each value came from.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Configuration {
    /// The settings that can change a plan.
    pub policy: Policy,
    /// The settings that cannot.
    pub settings: Settings,
    /// Remarks for the user.
    pub notices: Vec<Notice>,
    /// Everything as merged, with the source of each value.
    merged: Layer,
}

/// A merged value and where it came from: a line of `config show`.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Entry {
    /// The key's path.
    pub key: String,
    /// The value.
    pub value: Value,
    /// Where it came from.
    pub source: Source,
}

impl Configuration {
    /// Returns everything as merged, in the spelling of the schema.
    #[must_use]
    pub fn merged(&self) -> Value {
        self.merged.value.clone()
    }

    /// Returns every merged value with its source, in the order of the schema.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        fn collect(merged: &Layer, value: &Value, key: &str, entries: &mut Vec<Entry>) {
            let has_keys = match value {
                Value::Object(map) => !map.is_empty(),
                Value::Array(items) => items.first().is_some_and(Value::is_object),
                _ => false,
            };
            if has_keys {
                each_inner(value, key, &mut |key, value| collect(merged, value, key, entries));
            } else {
                let source = merged.source(key);
                entries.push(Entry { key: key.to_owned(), value: value.clone(), source });
            }
        }
        let mut entries = Vec::new();
        collect(&self.merged, &self.merged.value, "", &mut entries);
        entries
    }
}

/// Collects the layers of a configuration, whatever the order of the calls: built-in < system file <
/// user file < file beside the store < given file < environment < `--set` < flags.
///
/// # Examples
///
/// ```
/// use memfold_core::policy::ConfigLoader;
///
/// let configuration = ConfigLoader::new().set("threshold=0.97").load()?;
/// assert_eq!(configuration.policy.merge_threshold().map(|t| t.get()), Some(0.97));
/// # Ok::<(), memfold_core::policy::ConfigError>(())
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct ConfigLoader {
    kind_defaults: Vec<(String, Value)>,
    /// Added to `cluster.separate_by` by the kind of the store, whatever is configured.
    separate_by: Vec<String>,
    system_folder: Option<PathBuf>,
    user_folder: Option<PathBuf>,
    store: Option<PathBuf>,
    file: Option<PathBuf>,
    environment: Vec<(String, String)>,
    time_zone: Option<Result<String, String>>,
    planned_sets: Vec<String>,
    planned_flags: Vec<FlagValue>,
    sets: Vec<String>,
    flags: Vec<FlagValue>,
}

/// The value of a flag, and the key that it sets.
#[derive(Debug, Clone)]
struct FlagValue {
    name: String,
    key: String,
    value: Value,
}

impl ConfigLoader {
    /// Starts from what is built in.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `/etc/memfold/config.yaml` and `$XDG_CONFIG_HOME/memfold/config.yaml` (`.yml`, `.json`),
    /// where they exist.
    pub fn machine_files(self) -> Self {
        let user_folder = files::user_folder();
        Self { user_folder, ..self.system_folder(files::system_folder()) }
    }

    /// Looks for the system's `config.yaml` in this folder.
    pub(crate) fn system_folder(self, folder: impl Into<PathBuf>) -> Self {
        Self { system_folder: Some(folder.into()), ..self }
    }

    /// Looks for the user's `config.yaml` in this folder.
    #[cfg(test)]
    pub(crate) fn user_folder(self, folder: impl Into<PathBuf>) -> Self {
        Self { user_folder: Some(folder.into()), ..self }
    }

    /// Replaces a built-in value for a kind of stores.
    pub fn kind_default(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.kind_defaults.push((key.into(), value.into()));
        self
    }

    /// Adds patterns of a kind of stores to `cluster.separate_by`, whatever is configured.
    pub fn separate_by(mut self, patterns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.separate_by.extend(patterns.into_iter().map(Into::into));
        self
    }

    /// Adds `memfold.yaml` (`.yml`, `.json`) beside a store, where it exists.
    pub fn store(self, store: impl Into<PathBuf>) -> Self {
        Self { store: Some(store.into()), ..self }
    }

    /// Adds a file that must exist.
    pub fn file(self, file: impl Into<PathBuf>) -> Self {
        Self { file: Some(file.into()), ..self }
    }

    /// Adds environment variables; those of [`super::environment_names`] are read.
    pub fn environment(self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { environment: variables.into_iter().collect(), ..self }
    }

    /// Says in which zone the machine's clock is; without it, UTC.
    pub fn time_zone(self, name: impl Into<String>) -> Self {
        Self { time_zone: Some(Ok(name.into())), ..self }
    }

    /// Says that the machine's zone cannot be told, and why: an error where no layer names a zone.
    pub fn unknown_time_zone(self, problem: impl Into<String>) -> Self {
        Self { time_zone: Some(Err(problem.into())), ..self }
    }

    /// Adds one `KEY=VALUE`; later ones win.
    pub fn set(mut self, text: impl Into<String>) -> Self {
        self.sets.push(text.into());
        self
    }

    /// Adds the value of a command line flag (`--threshold`) for a key (`threshold`).
    pub fn flag(
        mut self,
        name: impl Into<String>,
        key: impl Into<String>,
        value: impl Into<Value>,
    ) -> Self {
        let flag = FlagValue { name: name.into(), key: key.into(), value: value.into() };
        self.flags.push(flag);
        self
    }

    /// Adds one `KEY=VALUE` that a plan in the store keeps; those of [`Self::set`] win.
    pub fn planned_set(mut self, text: impl Into<String>) -> Self {
        self.planned_sets.push(text.into());
        self
    }

    /// Adds the value of a flag that a plan in the store keeps.
    pub fn planned_flag(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        let name = "the plan".to_owned();
        self.planned_flags.push(FlagValue { name, key: key.into(), value: value.into() });
        self
    }

    /// Returns the configuration files that [`Self::load`] reads, weakest first.
    ///
    /// # Errors
    ///
    /// Two configurations in one folder, or a folder that cannot be looked into.
    pub fn files(&self) -> Result<Vec<(FileLayer, PathBuf)>, ConfigError> {
        let beside = self.store.as_deref().map(files::store_folder);
        let places = [
            (FileLayer::System, self.system_folder.clone(), "config"),
            (FileLayer::User, self.user_folder.clone(), "config"),
            (FileLayer::Store, beside, "memfold"),
        ];
        let mut found = Vec::new();
        for (layer, folder, name) in places {
            let Some(folder) = folder else { continue };
            found.extend(files::find(&folder, name)?.map(|path| (layer, path)));
        }
        found.extend(self.file.clone().map(|path| (FileLayer::Given, path)));
        Ok(found)
    }

    /// Reads, merges and validates all layers.
    ///
    /// # Errors
    ///
    /// The first thing wrong, with its place; [`ConfigError::hint`] says what helps.
    pub fn load(&self) -> Result<Configuration, ConfigError> {
        let mut notices = Vec::new();
        let mut merged = Layer::of(builtin(), Source::BuiltIn);
        for (mut layer, origin) in self.layers(&mut notices)? {
            let mut admit = |layer: &mut Layer| {
                if origin == Origin::Store {
                    layer.drop_personal(&mut notices);
                }
            };
            admit(&mut layer);
            let read = layer.read()?;
            // Words may have become a section.
            admit(&mut layer);
            merged.lay_over(layer, &read)?;
        }
        self.fill_time_zone(&mut merged)?;
        fill_embed_url(&mut merged, &self.environment);
        self.add_separate_by(&mut merged);
        check_rules(&merged)?;
        let config = merged.read().expect("every layer was read before it was merged");
        notices.extend(lost_protection(&merged, &config));
        let (policy, settings) = validate(&merged, config)?;
        Ok(Configuration { policy, settings, notices, merged })
    }

    /// Returns all layers above the built-in one, weakest first.
    fn layers(&self, notices: &mut Vec<Notice>) -> Result<Vec<(Layer, Origin)>, ConfigError> {
        let flag_layer = |flag: &FlagValue| {
            let source = Source::Flag { name: flag.name.clone() };
            Layer::of_key(&flag.key, flag.value.clone(), source)
        };
        let mut layers: Vec<(Layer, Origin)> = Vec::new();
        for (key, value) in &self.kind_defaults {
            layers.push((Layer::of_key(key, value.clone(), Source::BuiltIn), Origin::Own));
        }
        for (file, path) in self.files()? {
            let (text, origin) = match file {
                FileLayer::Store => (files::read_own_text(&path)?, Origin::Store),
                FileLayer::System | FileLayer::User | FileLayer::Given => {
                    (files::read_text(&path)?, Origin::Own)
                }
            };
            layers.push((Layer::of_text(&text, file, Path::new(&path))?, origin));
        }
        let variables = environment_layers(&self.environment, notices)?;
        layers.extend(variables.into_iter().map(|layer| (layer, Origin::Own)));
        for (texts, origin) in [(&self.planned_sets, Origin::Store), (&self.sets, Origin::Own)] {
            for text in texts {
                layers.push((set_layer(text)?, origin));
            }
        }
        for (flags, origin) in [(&self.planned_flags, Origin::Store), (&self.flags, Origin::Own)] {
            layers.extend(flags.iter().map(|flag| (flag_layer(flag), origin)));
        }
        Ok(layers)
    }

    /// Adds the patterns of the kind of the store to the configured ones.
    fn add_separate_by(&self, merged: &mut Layer) {
        let Some(Value::Array(patterns)) = merged.value.pointer_mut("/cluster/separate_by") else {
            return;
        };
        for pattern in &self.separate_by {
            if !patterns.iter().any(|present| present == pattern) {
                patterns.push(pattern.as_str().into());
            }
        }
    }

    /// Puts the machine's zone where no layer names one.
    fn fill_time_zone(&self, merged: &mut Layer) -> Result<(), ConfigError> {
        if !merged.value["time_zone"].is_null() {
            return Ok(());
        }
        let name = match &self.time_zone {
            Some(Ok(name)) => name.as_str(),
            Some(Err(problem)) => {
                let problem = super::error::shown(problem);
                return Err(ConfigError::layers(
                    format!("the time zone of this machine is not known: {problem}"),
                    "name the zone of the times in the store: --set time_zone=Europe/Berlin, or in a configuration; \
                     or mend the variable TZ",
                ));
            }
            None => defaults::MACHINE_TIME_ZONE,
        };
        merged.set("time_zone", name.into(), Source::Machine);
        Ok(())
    }
}

/// Who wrote a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The user: their own files, variables and command line.
    Own,
    /// The maker of the store.
    Store,
}

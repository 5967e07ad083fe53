//! [`ConfigLoader`]: from layers to one [`Configuration`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize as _, Serialize};
use serde_json::Value;

use super::document::{FileLayer, Node, NodeValue, Notice, Source, read_document};
use super::error::ConfigError;
use super::keys::{Config, builtin_json};
use super::layers::{Admitted, Origin, lay_over, unify};
use super::schema::conform;
use super::validate::{Settings, complete_rules, lost_protection, place, time_zone, validate};
use super::words::{environment_layers, fill_embed_url, set_layer};
use super::{files, schema};
use crate::policy::{Policy, defaults};

/// A validated configuration, and where each value came from.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Configuration {
    /// What can change a plan.
    pub policy: Policy,
    /// What cannot.
    pub settings: Settings,
    /// What a person should know of.
    pub notices: Vec<Notice>,
    /// Everything as merged, with the source of each value.
    merged: Node,
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
        self.merged.to_json()
    }

    /// Returns every merged value with its source, in the order of the schema.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        each_leaf(&self.merged(), "", &mut |key, value| {
            let source = place(&self.merged, key);
            entries.push(Entry { key: key.to_owned(), value: value.clone(), source });
        });
        entries
    }

    /// Returns where each value came from, by key path (`rules.<id>.when.min_similarity`).
    #[must_use]
    pub fn provenance(&self) -> BTreeMap<String, Source> {
        self.entries().into_iter().map(|entry| (entry.key, entry.source)).collect()
    }
}

/// Collects the layers of a configuration, whatever the order of the calls: built-in < system file <
/// user file < file beside the store < given file < environment < `--set` < flags.
///
/// # Examples
///
/// ```
/// use memfold_plan::policy::ConfigLoader;
///
/// let configuration = ConfigLoader::new().set("threshold=0.97").load()?;
/// assert_eq!(configuration.policy.merge_threshold().map(|t| t.get()), Some(0.97));
/// # Ok::<(), memfold_plan::policy::ConfigError>(())
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct ConfigLoader {
    kind_defaults: Vec<(String, Value)>,
    /// What the store's kind adds to `cluster.separate_by`, whatever is configured.
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

impl Policy {
    /// Returns what holds where nothing is configured; times without a zone are in UTC.
    #[must_use]
    pub fn builtin() -> Self {
        ConfigLoader::new().load().expect("the built-in configuration is valid").policy
    }

    /// Returns the zone of naive times; `None` where [`Self::time_zone`] was changed to what is none.
    #[must_use]
    pub fn zone(&self) -> Option<jiff::tz::TimeZone> {
        time_zone(&self.time_zone)
    }
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

    /// Says what holds for a kind of stores where nothing is configured, in place of what is built in.
    pub fn kind_default(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.kind_defaults.push((key.into(), value.into()));
        self
    }

    /// Says what of a kind of stores is never merged across: added to `cluster.separate_by`, whatever is configured.
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
        let mut merged = builtin();
        for (layer, origin) in self.layers(&mut notices)? {
            let layer = Admitted::of(unify(layer)?, origin, &mut notices);
            lay_over(&mut merged, layer.try_map(conform)?)?;
        }
        self.fill_time_zone(&mut merged)?;
        fill_embed_url(&mut merged, &self.environment);
        self.add_separate_by(&mut merged);
        complete_rules(&merged)?;
        let config = Config::deserialize(&merged)
            .expect("every layer was checked against the schema, and every rule is complete");
        let (policy, settings) = validate(&merged, &config)?;
        notices.extend(lost_protection(&merged, &config));
        Ok(Configuration { policy, settings, notices, merged })
    }

    /// Returns all layers above the built-in one, weakest first.
    fn layers(&self, notices: &mut Vec<Notice>) -> Result<Vec<(Node, Origin)>, ConfigError> {
        let kind = self.kind_defaults.iter();
        let kind =
            kind.map(|(key, value)| (nested_layer(key, value, &Source::BuiltIn), Origin::Own));
        let mut layers: Vec<(Node, Origin)> = kind.collect();
        for (file, path) in self.files()? {
            let text = match file {
                FileLayer::Store => files::read_own_text(&path)?,
                FileLayer::System | FileLayer::User | FileLayer::Given => files::read_text(&path)?,
            };
            let layer = read_document(&text, file, Path::new(&path))?;
            layers.push((layer, Origin::of_file(file)));
        }
        let own = |layer| (layer, Origin::Own);
        layers.extend(environment_layers(&self.environment, notices).into_iter().map(own));
        for text in &self.planned_sets {
            layers.push((set_layer(text)?, Origin::Store));
        }
        for text in &self.sets {
            layers.push(own(set_layer(text)?));
        }
        layers.extend(self.planned_flags.iter().map(|flag| (flag_layer(flag), Origin::Store)));
        layers.extend(self.flags.iter().map(|flag| own(flag_layer(flag))));
        Ok(layers)
    }

    /// Adds what the kind of the store keeps apart to what is configured.
    fn add_separate_by(&self, merged: &mut Node) {
        let found = merged.get_mut(&["cluster", "separate_by"]);
        let Some(NodeValue::List(patterns)) = found.map(|node| &mut node.value) else { return };
        for pattern in &self.separate_by {
            let is_it =
                |node: &Node| matches!(&node.value, NodeValue::Text(text) if text == pattern);
            if !patterns.iter().any(is_it) {
                patterns.push(Node::from_json(pattern.as_str().into(), &Source::BuiltIn));
            }
        }
    }

    /// Puts the machine's zone where no layer names one.
    fn fill_time_zone(&self, merged: &mut Node) -> Result<(), ConfigError> {
        let Some(zone) = merged.get_mut(&["time_zone"]).filter(|z| z.value == NodeValue::Null)
        else {
            return Ok(());
        };
        let name = match &self.time_zone {
            Some(Ok(name)) => name.as_str(),
            Some(Err(problem)) => {
                return Err(ConfigError::MachineZone { problem: problem.as_str().into() });
            }
            None => defaults::MACHINE_TIME_ZONE,
        };
        *zone = Node { value: NodeValue::Text(name.to_owned()), source: Source::Machine };
        Ok(())
    }
}

/// Returns the layer of a flag.
fn flag_layer(flag: &FlagValue) -> Node {
    nested_layer(&flag.key, &flag.value, &Source::Flag { name: flag.name.as_str().into() })
}

fn nested_layer(key: &str, value: &Value, source: &Source) -> Node {
    let path: Vec<&str> = key.split('.').collect();
    let leaf = Node::from_json(value.clone(), source).value;
    Node::nested(&path, leaf, source)
}

/// Returns the built-in layer, complete.
fn builtin() -> Node {
    Node::from_json(builtin_json(), &Source::BuiltIn)
}

/// Calls back with every leaf and its path; rules go by their ids.
fn each_leaf(value: &Value, path: &str, leaf: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, inner) in map {
                each_leaf(inner, &schema::joined(path, key), leaf);
            }
        }
        Value::Array(items) if items.first().is_some_and(Value::is_object) => {
            for (at, item) in items.iter().enumerate() {
                let id = item["id"].as_str().map_or_else(|| at.to_string(), str::to_owned);
                each_leaf(item, &schema::joined(path, &id), leaf);
            }
        }
        _ => leaf(path, value),
    }
}

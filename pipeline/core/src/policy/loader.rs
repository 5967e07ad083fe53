//! [`ConfigLoader`]: from files, variables and flags to one [`Configuration`].

use std::fmt::Display;
use std::fs::{self, File, FileType};
use std::io::Read;
use std::path::{Path, PathBuf};

use etcetera::base_strategy::{BaseStrategy, Xdg};
use serde::Serialize;
use serde_json::Value;

use super::error::{ConfigError, FileLayer, Notice, Source, shown};
use super::layers::{Layer, Node, Tree};
use super::names::{builtin, environment_layers, fill_embed_url, set_layer};
use super::validate::{Policy, Settings, UNKNOWN_ZONE, check_rules, lost_protection, validate};

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
        self.merged.json()
    }

    /// Returns every merged value with its source, in the order of the schema.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let leaves = self.merged.leaves().into_iter();
        leaves
            .map(|(key, node)| Entry { key, value: node.json(), source: node.source.clone() })
            .collect()
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
    kind_defaults: Vec<KeyValue>,
    /// Added to `cluster.separate_by` by the kind of the store, whatever is configured.
    separate_by: Vec<String>,
    system_folder: Option<PathBuf>,
    user_folder: Option<PathBuf>,
    store: Option<PathBuf>,
    file: Option<PathBuf>,
    environment: Vec<(String, String)>,
    time_zone: Option<Result<String, String>>,
    planned_sets: Vec<String>,
    planned_flags: Vec<KeyValue>,
    sets: Vec<String>,
    flags: Vec<KeyValue>,
}

/// A value for a key.
#[derive(Debug, Clone)]
struct KeyValue {
    key: String,
    value: Value,
    source: Source,
}

impl ConfigLoader {
    /// Starts from the built-in values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `/etc/memfold/config.yaml` and `$XDG_CONFIG_HOME/memfold/config.yaml` (`.yml`, `.json`),
    /// where they exist.
    pub fn machine_files(self) -> Self {
        let user_folder = Xdg::new().ok().map(|base| base.config_dir().join("memfold"));
        Self { user_folder, ..self.system_folder("/etc/memfold") }
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
        let (key, value) = (key.into(), value.into());
        self.kind_defaults.push(KeyValue { key, value, source: Source::BuiltIn });
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

    /// Adds environment variables; every key has one, `MEMFOLD_DETECT_METHOD` for `detect.method`.
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
        let (key, value, source) = (key.into(), value.into(), Source::Flag { name: name.into() });
        self.flags.push(KeyValue { key, value, source });
        self
    }

    /// Adds one `KEY=VALUE` that a plan in the store keeps; [`Self::set`] wins over it.
    pub fn planned_set(mut self, text: impl Into<String>) -> Self {
        self.planned_sets.push(text.into());
        self
    }

    /// Adds the value of a flag that a plan in the store keeps.
    pub fn planned_flag(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        let (key, value) = (key.into(), value.into());
        let source = Source::Flag { name: "the plan".to_owned() };
        self.planned_flags.push(KeyValue { key, value, source });
        self
    }

    /// Returns the configuration files that [`Self::load`] reads, weakest first.
    ///
    /// # Errors
    ///
    /// Two configurations in one folder, or a folder that cannot be looked into.
    pub fn files(&self) -> Result<Vec<(FileLayer, PathBuf)>, ConfigError> {
        let beside = self.store.as_deref().map(|store| store.parent().unwrap_or(Path::new("")));
        let places = [
            (FileLayer::System, self.system_folder.as_deref(), "config"),
            (FileLayer::User, self.user_folder.as_deref(), "config"),
            (FileLayer::Store, beside, "memfold"),
        ];
        let mut found = Vec::new();
        for (layer, folder, name) in places {
            let Some(folder) = folder else { continue };
            found.extend(find(folder, name)?.map(|path| (layer, path)));
        }
        found.extend(self.file.clone().map(|path| (FileLayer::Given, path)));
        Ok(found)
    }

    /// Reads, merges and validates all layers.
    ///
    /// # Errors
    ///
    /// The first thing wrong, with its place; [`ConfigError::hint`] says how to repair it.
    pub fn load(&self) -> Result<Configuration, ConfigError> {
        let mut notices = Vec::new();
        let mut merged = builtin();
        for mut layer in self.layers(&mut notices)? {
            let read = layer.read(&mut notices)?;
            layer.lay_over(&mut merged, &read)?;
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
    fn layers(&self, notices: &mut Vec<Notice>) -> Result<Vec<Layer>, ConfigError> {
        let of =
            |given: &KeyValue| Layer::of_key(&given.key, given.value.clone(), given.source.clone());
        let mut layers: Vec<Layer> = self.kind_defaults.iter().map(of).collect();
        for (file, path) in self.files()? {
            layers.push(match file {
                FileLayer::Store => Layer::of_text(&read_own_text(&path)?, file, &path)?.of_store(),
                _ => Layer::of_text(&read_text(&path)?, file, &path)?,
            });
        }
        layers.extend(environment_layers(&self.environment, notices)?);
        for text in &self.planned_sets {
            layers.push(set_layer(text)?.of_store());
        }
        for text in &self.sets {
            layers.push(set_layer(text)?);
        }
        layers.extend(self.planned_flags.iter().map(|flag| of(flag).of_store()));
        layers.extend(self.flags.iter().map(of));
        Ok(layers)
    }

    /// Adds the patterns of the kind of the store to the configured ones.
    fn add_separate_by(&self, merged: &mut Node) {
        let Some(Node { source, tree: Tree::List(patterns) }) =
            merged.get_mut("cluster.separate_by")
        else {
            return;
        };
        for pattern in &self.separate_by {
            if !patterns.iter().any(|present| present.text() == Some(pattern)) {
                patterns.push(Node::of(pattern.as_str().into(), source.clone()));
            }
        }
    }

    /// Puts the machine's zone where no layer names one.
    fn fill_time_zone(&self, merged: &mut Node) -> Result<(), ConfigError> {
        let Some(zone) = merged.get_mut("time_zone").filter(|zone| zone.plain().is_null()) else {
            return Ok(());
        };
        let name = match &self.time_zone {
            Some(Ok(name)) => name.as_str(),
            Some(Err(problem)) => {
                return Err(ConfigError::new(
                    format!("the time zone of this machine is not known: {}", shown(problem)),
                    "name the zone of the times in the store: --set time_zone=Europe/Berlin, or in a configuration; \
                     or mend the variable TZ",
                ));
            }
            None => UNKNOWN_ZONE,
        };
        *zone = Node::of(name.into(), Source::Machine);
        Ok(())
    }
}

/// Far above any configuration or lexicon written by hand.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Endings of configuration files, the preferred first.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// Finds the one configuration of a name in a folder.
///
/// # Errors
///
/// Two of them, or a folder that cannot be looked into.
fn find(folder: &Path, name: &str) -> Result<Option<PathBuf>, ConfigError> {
    let mut found: Option<PathBuf> = None;
    for ending in ENDINGS {
        let path = folder.join(format!("{name}.{ending}"));
        match (path.try_exists(), found) {
            (Ok(false), before) => found = before,
            (Ok(true), None) => found = Some(path),
            (Ok(true), Some(first)) => {
                let [first, second] = [first, path].map(|path| shown(&path.to_string_lossy()));
                let problem =
                    format!("two configurations stand in one folder: {first} and {second}");
                return Err(ConfigError::new(problem, "remove one of them"));
            }
            (Err(cause), _) => return Err(ConfigError::Unreadable { path, cause }),
        }
    }
    Ok(found)
}

/// Reads a text file of limited size. Anything but a regular file, or a link to one, is refused before it is opened: opening a
/// named pipe waits for a writer that may never come, and a device may have no end.
pub(super) fn read_text(path: &Path) -> Result<String, ConfigError> {
    read_text_if(path, |_| Ok(()))
}

/// As [`read_text`], only where nobody but the user of this process, or the system's administrator, can have written it.
fn read_own_text(path: &Path) -> Result<String, ConfigError> {
    let not_own = |problem: String| unusable(path, problem, OWN_ADVICE);
    // A link of somebody else's leads to whatever they like.
    let link = fs::symlink_metadata(path).map_err(|cause| unreadable(path, cause))?;
    if link.is_symlink() {
        owner::check_owner(&link).map_err(|reason| not_own(format!("is a link that {reason}")))?;
    }
    read_text_if(path, |file| {
        owner::check_owner(file).and_then(|()| owner::check_writers(file)).map_err(not_own)
    })
}

/// As [`read_text`], where the opened file may be read.
fn read_text_if(
    path: &Path,
    check: impl FnOnce(&fs::Metadata) -> Result<(), ConfigError>,
) -> Result<String, ConfigError> {
    let unreadable = |cause| unreadable(path, cause);
    let kind = fs::metadata(path).map_err(unreadable)?.file_type();
    if !kind.is_file() {
        let (found, hint) = not_a_file(kind);
        return Err(unusable(path, format!("is {found}"), hint));
    }
    let file = File::open(path).map_err(unreadable)?;
    check(&file.metadata().map_err(unreadable)?)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let problem = format!("is larger than {FILE_BYTES_MAX} bytes");
        return Err(unusable(path, problem, "check that the path is that of a configuration"));
    }
    String::from_utf8(bytes)
        .map_err(|_| unusable(path, "is not UTF-8 text", "save the file as UTF-8"))
}

fn unreadable(path: &Path, cause: std::io::Error) -> ConfigError {
    ConfigError::Unreadable { path: path.into(), cause }
}

fn unusable(path: &Path, problem: impl Display, hint: &str) -> ConfigError {
    let path = shown(&path.to_string_lossy());
    ConfigError::new(format!("configuration file {path} {problem}"), hint)
}

const OWN_ADVICE: &str = "all who can write it decide what runs here do: make it yours alone (chown, chmod go-w), or \
                          move it away and name it with --config";

/// Names an irregular file, with advice.
fn not_a_file(kind: FileType) -> (&'static str, &'static str) {
    let hint = "name a regular file, or a link to one";
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            let hint = "write its contents to a file and name that; `<(...)` makes a pipe as well";
            return ("a pipe", hint);
        }
        if kind.is_socket() {
            return ("a socket", hint);
        }
        if kind.is_char_device() || kind.is_block_device() {
            return ("a device", hint);
        }
    }
    (if kind.is_dir() { "a folder" } else { "no regular file" }, hint)
}

/// Who owns a file, and who may write it; only Unix has owners of this kind.
mod owner {
    use std::fs::Metadata;
    #[cfg(unix)]
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    /// Names the owner of a file, unless it is the user or root.
    pub(super) fn check_owner(file: &Metadata) -> Result<(), String> {
        #[cfg(unix)]
        if !(file.uid() == 0 || Some(file.uid()) == own_user()) {
            return Err(format!("belongs to another user (number {})", file.uid()));
        }
        let _ = file;
        Ok(())
    }

    /// Says that others may write a file. A group of the owner's number is taken for the owner's own: with groups like that the
    /// mask 002 is common.
    pub(super) fn check_writers(file: &Metadata) -> Result<(), String> {
        #[cfg(unix)]
        match file.permissions().mode() {
            mode if mode & 0o002 != 0 => return Err("can be written by everybody".to_owned()),
            mode if mode & 0o020 != 0 && file.gid() != file.uid() => {
                return Err(format!("can be written by the group {}", file.gid()));
            }
            _ => {}
        }
        let _ = file;
        Ok(())
    }

    /// Returns the user of this process: the owner of its files.
    #[cfg(unix)]
    fn own_user() -> Option<u32> {
        let process = std::fs::metadata("/proc/self").ok();
        process
            .or_else(|| tempfile::tempfile().and_then(|file| file.metadata()).ok())
            .map(|found| found.uid())
    }
}

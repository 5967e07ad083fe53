//! Layers of a configuration: values, and beside them where each comes from; how one is laid over another.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Serialize, Serializer};
use serde_json::{Map, Number, Value, json};
use serde_path_to_error::Segment;
use serde_saphyr::Spanned;

use super::config::{Config, EXACT_DUPLICATE, NEAR_DUPLICATE, Profile, ProtectionPolicy};
use super::error::{ConfigError, shown};
use super::names::{ALIASES, PERSONAL, WRAPPERS, nearest, snake_cased, successor, suggestion};
use super::read::{Fault, OR_NULL, Reader, described, meanings};

/// Where values come from, by key path.
type Sources = BTreeMap<String, Source>;

/// Values, and where they come from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layer {
    /// A mapping.
    pub(super) value: Value,
    /// By key path: rules go by their ids, items of other lists by their places. A value without a source of its own has
    /// the source of the nearest mapping or list around it.
    sources: Sources,
    /// Words of a variable or of `--set`: a key and a text that takes its type.
    words: Option<Words>,
}

#[derive(Debug, Clone, PartialEq)]
struct Words {
    key: String,
    text: String,
}

impl Layer {
    /// Takes values that come from one place.
    pub(super) fn of(value: Value, source: Source) -> Self {
        Self { value, sources: Sources::from([(String::new(), source)]), words: None }
    }

    /// Takes the value of a key.
    pub(super) fn of_key(key: &str, value: Value, source: Source) -> Self {
        Self::of(nested(key, value), source)
    }

    /// Takes the words of a variable or of `--set` for a key as typed: in any spelling, but for ids of rules.
    pub(super) fn of_words(key: &str, words: &str, source: Source) -> Result<Self, ConfigError> {
        let mut segments: Vec<String> = Vec::new();
        for typed in key.split('.') {
            let is_rule_id = segments.last().is_some_and(|last| last == "rules");
            segments.push(if is_rule_id { typed.to_owned() } else { snake_cased(typed) });
        }
        while segments.len() > 1 && WRAPPERS.contains(&segments[0].as_str()) {
            segments.remove(0);
        }
        let words = Words { key: segments.join("."), text: words.to_owned() };
        let mut layer = Self::of_key(&words.key, words.text.as_str().into(), source);
        layer.words = Some(words);
        layer.unify().map(|()| layer)
    }

    /// Reads a file's text, YAML or JSON. An empty file is an empty mapping.
    pub(super) fn of_text(text: &str, file: FileLayer, path: &Path) -> Result<Self, ConfigError> {
        let place = |line| Source::File { file, path: path.to_path_buf(), line };
        let parsed = parse(text, &place)?;
        let root = place(parsed.referenced.line());
        let mut layer = Self::of(Value::Null, root.clone());
        layer.value = locate(parsed.value, "", &place, &mut layer.sources)?;
        match &layer.value {
            Value::Object(_) => {}
            Value::Null => layer.value = json!({}),
            other => {
                let problem = format!("expected keys and values, found {}", described(other));
                let hint = "write `key: value` lines, such as `threshold: 0.95`";
                return Err(ConfigError::at(root, problem, hint));
            }
        }
        layer.unify().map(|()| layer)
    }

    /// Returns where the value of a key came from.
    pub(super) fn source(&self, key: &str) -> Source {
        let mut key = key;
        loop {
            if let Some(source) = self.sources.get(key) {
                return source.clone();
            }
            if key.is_empty() {
                return Source::BuiltIn;
            }
            key = key.rsplit_once('.').map_or("", |(outer, _)| outer);
        }
    }

    /// Returns the value of a key; a rule goes by its id.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        let mut value = &self.value;
        for segment in key.split('.') {
            value = match value {
                Value::Array(items) => items.iter().find(|item| item["id"] == segment)?,
                _ => value.get(segment)?,
            };
        }
        Some(value)
    }

    /// Sets a key that is there already.
    pub(super) fn set(&mut self, key: &str, value: Value, source: Source) {
        let mut into = &mut self.value;
        for segment in key.split('.') {
            into = &mut into[segment];
        }
        *into = value;
        self.sources.insert(key.to_owned(), source);
    }

    /// Takes a key out; mappings that are left empty go too.
    fn take(&mut self, key: &str) -> Option<Value> {
        fn take(map: &mut Map<String, Value>, key: &str) -> Option<Value> {
            let Some((key, rest)) = key.split_once('.') else { return map.shift_remove(key) };
            let inner = map.get_mut(key)?.as_object_mut()?;
            let taken = take(inner, rest)?;
            if inner.is_empty() {
                map.shift_remove(key);
            }
            Some(taken)
        }
        take(self.value.as_object_mut()?, key)
    }

    /// Brings the keys to their places: out of wrappers, and from other names of theirs.
    fn unify(&mut self) -> Result<(), ConfigError> {
        for wrapper in WRAPPERS {
            match self.take(wrapper) {
                None | Some(Value::Null) => {}
                Some(Value::Object(inner)) => {
                    self.rename(wrapper, "");
                    for (key, value) in inner {
                        self.add(&key, value)?;
                    }
                }
                Some(other) => {
                    let (place, found) = (self.source(wrapper), described(&other));
                    let expected = Fault::MAPPING;
                    return Err(ConfigError::wrong_value(place, wrapper, expected, &found, ""));
                }
            }
        }
        for (alias, key) in ALIASES {
            if let Some(value) = self.take(alias) {
                self.rename(alias, key);
                let (outer, value) = match key.split_once('.') {
                    Some((outer, inner)) => (outer, nested(inner, value)),
                    None => (*key, value),
                };
                self.add(outer, value)?;
            }
        }
        Ok(())
    }

    /// Moves the sources of a key and of the keys in it.
    fn rename(&mut self, from: &str, to: &str) {
        let inside = |key: &str| key.strip_prefix(from)?.strip_prefix('.').map(str::to_owned);
        let moved: Vec<(String, Source)> = self
            .sources
            .iter()
            .filter_map(|(key, source)| Some((joined(to, &inside(key)?), source.clone())))
            .collect();
        if let Some(source) = self.sources.get(from).filter(|_| !to.is_empty()) {
            self.sources.insert(to.to_owned(), source.clone());
        }
        self.sources.extend(moved);
    }

    /// Adds a key at the top that must not be set yet.
    fn add(&mut self, key: &str, value: Value) -> Result<(), ConfigError> {
        fn add(
            map: &mut Map<String, Value>,
            key: &str,
            value: Value,
            path: &str,
        ) -> Result<(), String> {
            match (map.get_mut(key), value) {
                (None, value) => {
                    map.insert(key.to_owned(), value);
                    Ok(())
                }
                (Some(Value::Object(there)), Value::Object(more)) => more
                    .into_iter()
                    .try_for_each(|(key, value)| add(there, &key, value, &joined(path, &key))),
                _ => Err(path.to_owned()),
            }
        }
        let Value::Object(map) = &mut self.value else { return Ok(()) };
        add(map, key, value, key).map_err(|key| ConfigError::repeated_key(self.source(&key), &key))
    }

    /// Removes keys that the file beside a store, or a plan in it, may not set.
    pub(super) fn drop_personal(&mut self, notices: &mut Vec<Notice>) {
        for (key, decides) in PERSONAL {
            if self.take(key).is_some() {
                self.words = None;
                let text = format!(
                    "`{key}` is not used: what comes with a store does not say {decides}; move it to \
                     ~/.config/memfold/config.yaml, or name the file with --config"
                );
                notices.push(Notice { source: self.source(key), text });
            }
        }
    }

    /// Reads the layer: the keys that it does not have are the built-in ones. Words get the type of their key.
    ///
    /// # Errors
    ///
    /// The first unknown key, or value of another type or outside its range.
    pub(super) fn read(&mut self) -> Result<Config, ConfigError> {
        let Some(Words { key, text }) = self.words.take() else { return self.read_values() };
        let source = self.source("");
        let place = |_| source.clone();
        let yaml = parse(&text, &place)
            .and_then(|parsed| locate(parsed.value, "", &place, &mut Sources::new()));
        // A syntax error counts where there are brackets; other words that are not YAML are a text.
        let counts = match &yaml {
            Ok(value) => !value.is_null(),
            Err(_) => text.starts_with(['[', '{']),
        };
        let yaml = counts.then_some(yaml);
        let mut failed = None;
        for value in meanings(&text).into_iter().map(Ok).chain(yaml) {
            let read = value.and_then(|value| {
                let mut layer = Self::of_key(&key, value, source.clone());
                layer.unify()?;
                layer.read_values().map(|read| (layer, read))
            });
            match read {
                Ok((layer, read)) => {
                    *self = layer;
                    return Ok(read);
                }
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.expect("every word may be a text"))
    }

    fn read_values(&self) -> Result<Config, ConfigError> {
        serde_path_to_error::deserialize(Reader(&self.value)).map_err(|error| {
            let path: Vec<Segment> = error.path().iter().cloned().collect();
            self.explained(&path, error.into_inner())
        })
    }

    /// Translates an error of serde: the key, its place, the expected type, the value found and a hint.
    fn explained(&self, path: &[Segment], fault: Fault) -> ConfigError {
        let (mut key, mut value, mut list) = (String::new(), &self.value, None::<String>);
        for segment in path {
            let name = match segment {
                Segment::Map { key } => key.clone(),
                Segment::Seq { index } if is_rules(&key) => {
                    value[*index]["id"].as_str().unwrap_or("?").to_owned()
                }
                Segment::Seq { index } => index.to_string(),
                Segment::Enum { .. } | Segment::Unknown => continue,
            };
            let is_item = matches!(segment, Segment::Seq { .. });
            list = is_item.then(|| key.clone());
            value = match segment {
                Segment::Seq { index } => &value[*index],
                _ => &value[name.as_str()],
            };
            key = joined(&key, &name);
        }
        let place = self.source(&key);
        match fault {
            Fault::UnknownKey { known } => {
                let hint = match (successor(&key), suggestion(&key, known)) {
                    (Some(successor), _) => successor.to_owned(),
                    (None, Some(meant)) => format!("did you mean `{meant}`?"),
                    (None, None) => "`memfold config schema` lists every key".to_owned(),
                };
                ConfigError::at(place, format!("unknown key `{}`", shown(&key)), hint)
            }
            Fault::Value { mut expected, choices, .. } => {
                if let Some(outer) = list.filter(|_| expected != Fault::MAPPING) {
                    // An item is never null.
                    (key, expected) = (outer, expected.trim_end_matches(OR_NULL).to_owned());
                }
                if expected == "a list of texts" && MAPPING_LISTS.contains(&key.as_str()) {
                    expected = LIST_OF_RULES.to_owned();
                }
                let hint = self.advice(&key, value, &expected, choices);
                ConfigError::wrong_value(place, &key, &expected, &described(value), hint)
            }
        }
    }

    fn advice(&self, key: &str, found: &Value, expected: &str, choices: &[&'static str]) -> String {
        let typed = matches!(self.source(""), Source::Environment { .. } | Source::Set { .. });
        let numeric = |text: &str| !typed && text.parse::<f64>().is_ok();
        match found {
            Value::String(text) if !choices.is_empty() => {
                let meant = nearest(text, choices.iter().copied());
                return meant.map_or_else(String::new, |meant| format!("did you mean {meant}?"));
            }
            Value::String(text) if expected.contains("number") && numeric(text) => {
                return "write the number without quotes".to_owned();
            }
            Value::String(_) if expected.starts_with("a list") && !typed => {
                return "write it as a list: [ … ]".to_owned();
            }
            Value::Number(_) | Value::Bool(_) if expected.starts_with("a text") => {
                return "put it in quotes".to_owned();
            }
            _ => {}
        }
        format!("docs/configuration.md tells what `{key}` means")
    }

    /// Lays a layer that was read over those below: mappings key by key, rules by id, lists and plain values whole.
    ///
    /// # Errors
    ///
    /// `threshold` beside the key that it is short for.
    pub(super) fn lay_over(&mut self, mut layer: Self, read: &Config) -> Result<(), ConfigError> {
        layer.expand_profile(read.profile);
        layer.expand_threshold(self)?;
        self.merge(&layer);
        Ok(())
    }

    /// Adds the keys that a profile sets beneath the layer's own keys.
    fn expand_profile(&mut self, profile: Profile) {
        if self.value.get("profile").is_none() {
            return;
        }
        let mut set = match profile {
            Profile::Hivemind => {
                serde_json::from_str(super::defaults::HIVEMIND).expect("the profile is JSON")
            }
            Profile::Default | Profile::Strict => json!({}),
        };
        let protection = serde_json::to_value(ProtectionPolicy::of(profile));
        set["protection"] = protection.expect("a profile has text keys and finite numbers");
        // Whether anything is protected is no part of a profile.
        set["protection"].as_object_mut().map(|keys| keys.shift_remove("enabled"));
        let mut spelled = Self::of(set, self.source("profile"));
        spelled.merge(self);
        *self = spelled;
    }

    /// Spells out `threshold`: the near-duplicate rule's similarity, and the exact-duplicate rule's too
    /// where that one lies below, because nobody who asks for T wants merges under T.
    fn expand_threshold(&mut self, below: &Self) -> Result<(), ConfigError> {
        let source = self.source("threshold");
        let Some(threshold) = self.take("threshold").filter(|value| !value.is_null()) else {
            return Ok(());
        };
        let key = |id| format!("rules.{id}.when.min_similarity");
        let (near, exact) = (key(NEAR_DUPLICATE), key(EXACT_DUPLICATE));
        if self.get(&near).is_some() {
            let problem = format!("`threshold` and `{near}` are both given and say the same thing");
            return Err(ConfigError::at(source, problem, "keep one of them"));
        }
        let present = self.get(&exact).or_else(|| below.get(&exact)).and_then(Value::as_f64);
        let raises = present.is_some_and(|exact| Some(exact) < threshold.as_f64());
        for key in std::iter::once(near).chain(raises.then_some(exact)) {
            self.merge(&Self::of_key(&key, threshold.clone(), source.clone()));
        }
        Ok(())
    }

    fn merge(&mut self, over: &Self) {
        let mut merging = Merging { sources: &mut self.sources, over };
        merging.merge(&mut self.value, &over.value, "");
    }
}

/// One layer on its way over another.
struct Merging<'a> {
    sources: &'a mut Sources,
    over: &'a Layer,
}

impl Merging<'_> {
    fn merge(&mut self, below: &mut Value, over: &Value, path: &str) {
        match (below, over) {
            (Value::Object(below), Value::Object(over)) => {
                for (key, over) in over {
                    let path = joined(path, key);
                    match below.get_mut(key) {
                        Some(below) if path == "rules" => self.merge_rules(below, over),
                        Some(below) => self.merge(below, over, &path),
                        None => {
                            self.note_source(over, &path);
                            below.insert(key.clone(), over.clone());
                        }
                    }
                }
            }
            (below, over) => {
                let inside = format!("{path}.");
                self.sources.retain(|key, _| !key.starts_with(&inside));
                self.note_source(over, path);
                *below = over.clone();
            }
        }
    }

    /// Merges rules of the same id; new ones come before those below, in their own order.
    fn merge_rules(&mut self, below: &mut Value, over: &Value) {
        let (Value::Array(rules), Value::Array(over)) = (below, over) else { return };
        let mut new = Vec::new();
        for rule in over {
            let path = joined("rules", rule["id"].as_str().unwrap_or("?"));
            match rules.iter_mut().find(|below| below["id"] == rule["id"]) {
                Some(below) => {
                    // The id is the key here; its origin stays the layer that made the rule.
                    let mut rule = rule.clone();
                    rule.as_object_mut().map(|keys| keys.shift_remove("id"));
                    self.merge(below, &rule, &path);
                }
                None => {
                    self.note_source(rule, &path);
                    new.push(rule.clone());
                }
            }
        }
        rules.splice(0..0, new);
    }

    /// Takes over where a value and all in it comes from.
    fn note_source(&mut self, value: &Value, path: &str) {
        self.sources.insert(path.to_owned(), self.over.source(path));
        each_inner(value, path, &mut |path, value| self.note_source(value, path));
    }
}

/// Calls back with each value inside of a list or mapping, and its path: mappings in a list go by their ids.
pub(super) fn each_inner(value: &Value, path: &str, inner: &mut dyn FnMut(&str, &Value)) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| inner(&joined(path, key), value)),
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                let name = item["id"].as_str().map_or_else(|| at.to_string(), str::to_owned);
                inner(&joined(path, &name), item);
            }
        }
        _ => {}
    }
}

/// Lists of mappings.
const MAPPING_LISTS: [&str; 2] = ["rules", "judge.chain"];
const LIST_OF_RULES: &str = "a list of rules";

fn is_rules(path: &str) -> bool {
    path.rsplit('.').next() == Some("rules")
}

/// Builds nested mappings around a value. `rules.<id>` becomes a list of one rule.
fn nested(key: &str, value: Value) -> Value {
    match key.split_once('.') {
        None => json!({ key: value }),
        Some(("rules", rest)) => {
            let (id, value) = match rest.split_once('.') {
                Some((id, rest)) => (id, nested(rest, value)),
                None => (rest, json!({})),
            };
            let mut rule = json!({ "id": id });
            if let (Value::Object(rule), Value::Object(keys)) = (&mut rule, value) {
                rule.extend(keys);
            }
            json!({ "rules": [rule] })
        }
        Some((key, rest)) => json!({ key: nested(rest, value) }),
    }
}

/// Appends a key to a path.
pub(super) fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// How deep a configuration nests, far more than any key needs; a reader of a thread with little stack stands it.
const DEPTH_MAX: usize = 16;

fn parse(text: &str, place: &dyn Fn(u64) -> Source) -> Result<Spanned<Parsed>, ConfigError> {
    let budget = serde_saphyr::budget! { max_depth: DEPTH_MAX };
    let options = serde_saphyr::options! { with_snippet: false, budget: budget };
    serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| ConfigError::syntax(&error, place))
}

/// Converts parsed YAML, notes the source of each value, and brings keys to one spelling. A mapping's value stands where its
/// key does.
fn locate(
    parsed: Parsed,
    path: &str,
    place: &dyn Fn(u64) -> Source,
    sources: &mut Sources,
) -> Result<Value, ConfigError> {
    match parsed {
        Parsed::Scalar(value) => Ok(value),
        Parsed::Map(entries) => {
            let mut map = Map::new();
            for (key, value) in entries {
                let name = snake_cased(&key.value);
                let (path, here) = (joined(path, &name), place(key.referenced.line()));
                if map.contains_key(&name) {
                    return Err(ConfigError::repeated_key(here, &path));
                }
                sources.insert(path.clone(), here);
                map.insert(name, locate(value.value, &path, place, sources)?);
            }
            Ok(Value::Object(map))
        }
        Parsed::List(items) => {
            let mut list = Vec::with_capacity(items.len());
            for (at, item) in items.into_iter().enumerate() {
                let name = match (is_rules(path), item.value.id()) {
                    (false, _) => at.to_string(),
                    (true, Some(id)) => id.to_owned(),
                    (true, None) => "?".to_owned(),
                };
                let (path, here) = (joined(path, &name), place(item.referenced.line()));
                if sources.contains_key(&path) && name != "?" {
                    let hint = "join the two, or give one another id";
                    return Err(ConfigError::at(here, format!("rule {name} is given twice"), hint));
                }
                sources.entry(path.clone()).or_insert(here);
                list.push(locate(item.value, &path, place, sources)?);
            }
            Ok(Value::Array(list))
        }
    }
}

/// A value with its place, as parsed.
enum Parsed {
    Scalar(Value),
    List(Vec<Spanned<Self>>),
    Map(Vec<(Spanned<String>, Spanned<Self>)>),
}

impl Parsed {
    /// Returns the text under `id`.
    fn id(&self) -> Option<&str> {
        let Self::Map(entries) = self else { return None };
        entries.iter().find_map(|(key, value)| match &value.value {
            Self::Scalar(Value::String(id)) if key.value == "id" => Some(id.as_str()),
            _ => None,
        })
    }
}

impl<'de> Deserialize<'de> for Parsed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ParsedVisitor)
    }
}

struct ParsedVisitor;

impl<'de> Visitor<'de> for ParsedVisitor {
    type Value = Parsed;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(Value::Null))
    }

    fn visit_none<E: de::Error>(self) -> Result<Parsed, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Parsed, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Parsed, E> {
        let number =
            Number::from_f64(value).ok_or_else(|| E::custom("a number that is not finite"))?;
        Ok(Parsed::Scalar(number.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Parsed, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Parsed::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Parsed, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Parsed::Map(map))
    }
}

/// Where a value comes from: the layer, and the place in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(tag = "layer", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Source {
    /// The program.
    BuiltIn,
    /// The machine that it runs on.
    Machine,
    /// A file.
    File {
        /// Which of the files.
        file: FileLayer,
        /// Its path.
        #[serde(serialize_with = "lossy")]
        path: PathBuf,
        /// The line, from 1; 0 where the whole file is meant.
        line: u64,
    },
    /// An environment variable.
    Environment {
        /// Its name.
        name: String,
    },
    /// `--set KEY=VALUE`.
    Set {
        /// The text as typed.
        text: String,
    },
    /// Another command line flag.
    Flag {
        /// Its name, `--threshold`.
        name: String,
    },
}

/// Which configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileLayer {
    /// The system's.
    System,
    /// The user's.
    User,
    /// The one beside the store.
    Store,
    /// The one given by `--config`.
    Given,
}

impl Source {
    /// Returns the layer without its place in it, for messages: what was typed may hold a secret.
    pub(super) fn layer(&self) -> String {
        match self {
            Self::File { path, .. } => shown(&path.to_string_lossy()),
            Self::Environment { name } => format!("the variable {name}"),
            Self::Set { .. } | Self::Flag { .. } => "the command line".to_owned(),
            Self::BuiltIn | Self::Machine => self.to_string(),
        }
    }

    /// Returns the folder that relative paths count from, where it is not the working directory.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Self::File { path, .. } => path.parent(),
            _ => None,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built-in"),
            Self::Machine => f.write_str("this machine"),
            Self::File { path, line: 0, .. } => write!(f, "{}", shown(&path.to_string_lossy())),
            Self::File { path, line, .. } => {
                write!(f, "{}, line {line}", shown(&path.to_string_lossy()))
            }
            Self::Environment { name } => write!(f, "variable {name}"),
            Self::Set { text } => write!(f, "--set {}", shown(text)),
            Self::Flag { name } => f.write_str(name),
        }
    }
}

/// Something that a person should know of, though the configuration is valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// Where it was found.
    pub source: Source,
    /// What it is.
    pub text: String,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.source, self.text)
    }
}

/// Serializes a path, whatever bytes it has.
fn lossy<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&path.display())
}

//! A layer as a tree whose values know where they come from.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{self, Deserialize, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Serialize, Serializer, forward_to_deserialize_any};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

use super::error::ConfigError;

/// A value and its origin.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) value: NodeValue,
    pub(super) source: Source,
}

/// What a [`Node`] holds.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum NodeValue {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    /// Words of a variable or of `--set`, whose type the schema decides.
    Words(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Node {
    /// Takes JSON that comes from one place.
    pub(super) fn from_json(value: Value, source: &Source) -> Self {
        let node = |value| Self::from_json(value, source);
        let value = match value {
            Value::Null => NodeValue::Null,
            Value::Bool(bool) => NodeValue::Bool(bool),
            Value::Number(number) => NodeValue::Number(number),
            Value::String(text) => NodeValue::Text(text),
            Value::Array(items) => NodeValue::List(items.into_iter().map(node).collect()),
            Value::Object(map) => {
                NodeValue::Map(map.into_iter().map(|(key, value)| (key, node(value))).collect())
            }
        };
        Self { value, source: source.clone() }
    }

    /// Returns the plain JSON.
    pub(super) fn to_json(&self) -> Value {
        match &self.value {
            NodeValue::Null => Value::Null,
            NodeValue::Bool(bool) => (*bool).into(),
            NodeValue::Number(number) => number.clone().into(),
            NodeValue::Text(text) | NodeValue::Words(text) => text.as_str().into(),
            NodeValue::List(items) => items.iter().map(Self::to_json).collect(),
            NodeValue::Map(entries) => {
                let json = |(key, node): &(String, Self)| (key.clone(), node.to_json());
                Value::Object(entries.iter().map(json).collect::<Map<_, _>>())
            }
        }
    }

    /// Builds nested mappings around a value. `rules.<id>` becomes a list of one rule.
    pub(super) fn nested(path: &[&str], leaf: NodeValue, source: &Source) -> Self {
        let here = |value| Self { value, source: source.clone() };
        match path {
            [] => here(leaf),
            ["rules", id, rest @ ..] => {
                let Self { value, .. } = Self::nested(rest, leaf, source);
                let entries = if let NodeValue::Map(entries) = value { entries } else { vec![] };
                let id = ("id".to_owned(), here(NodeValue::Text((*id).to_owned())));
                let rule = here(NodeValue::Map([vec![id], entries].concat()));
                let rules = here(NodeValue::List(vec![rule]));
                here(NodeValue::Map(vec![("rules".to_owned(), rules)]))
            }
            [key, rest @ ..] => {
                let inner = Self::nested(rest, leaf, source);
                here(NodeValue::Map(vec![((*key).to_owned(), inner)]))
            }
        }
    }

    /// Returns the entries of a mapping; none of anything else.
    pub(super) fn entries(&self) -> &[(String, Self)] {
        if let NodeValue::Map(entries) = &self.value { entries } else { &[] }
    }

    /// Returns the items of a list; none of anything else.
    pub(super) fn items(&self) -> &[Self] {
        if let NodeValue::List(items) = &self.value { items } else { &[] }
    }

    /// Returns the value under a path of keys; a rule is found by its id.
    pub(super) fn get(&self, path: &[&str]) -> Option<&Self> {
        let [key, rest @ ..] = path else { return Some(self) };
        let inner = match &self.value {
            NodeValue::List(items) => items.iter().find(|item| item.id() == Some(key)),
            _ => self.entries().iter().find(|(name, _)| name == key).map(|(_, node)| node),
        };
        inner?.get(rest)
    }

    /// Returns the value under a path of keys of mappings.
    pub(super) fn get_mut(&mut self, path: &[&str]) -> Option<&mut Self> {
        let [key, rest @ ..] = path else { return Some(self) };
        let NodeValue::Map(entries) = &mut self.value else { return None };
        entries.iter_mut().find(|(name, _)| name == key)?.1.get_mut(rest)
    }

    /// Returns the text under `id`.
    pub(super) fn id(&self) -> Option<&str> {
        match &self.get_key("id")?.value {
            NodeValue::Text(id) => Some(id),
            _ => None,
        }
    }

    fn get_key(&self, key: &str) -> Option<&Self> {
        self.entries().iter().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    /// Returns what it is, in words and with its value.
    pub(super) fn described(&self) -> String {
        match &self.value {
            NodeValue::Null => "nothing".to_owned(),
            NodeValue::Bool(bool) => bool.to_string(),
            NodeValue::Number(number) => number.to_string(),
            NodeValue::Text(text) | NodeValue::Words(text) => {
                format!("the text \"{}\"", shown(text))
            }
            NodeValue::List(_) => "a list".to_owned(),
            NodeValue::Map(_) => "a mapping".to_owned(),
        }
    }
}

impl<'de> IntoDeserializer<'de, serde_json::Error> for &'de Node {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// As its plain JSON is read, without making it first: every process reads a configuration.
impl<'de> Deserializer<'de> for &'de Node {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match &self.value {
            NodeValue::Null => visitor.visit_unit(),
            NodeValue::Bool(bool) => visitor.visit_bool(*bool),
            NodeValue::Number(number) => number.deserialize_any(visitor),
            NodeValue::Text(text) | NodeValue::Words(text) => visitor.visit_borrowed_str(text),
            NodeValue::List(items) => visitor.visit_seq(SeqDeserializer::new(items.iter())),
            NodeValue::Map(entries) => {
                let entries = entries.iter().map(|(key, node)| (key.as_str(), node));
                visitor.visit_map(MapDeserializer::new(entries))
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match &self.value {
            NodeValue::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        match &self.value {
            NodeValue::Text(text) => {
                text.as_str().into_deserializer().deserialize_enum(name, variants, visitor)
            }
            _ => Err(de::Error::custom(format_args!("{} is no {name}", self.described()))),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// Reads a file's text, YAML or JSON. An empty file is an empty mapping.
pub(super) fn read_document(text: &str, file: FileLayer, path: &Path) -> Result<Node, ConfigError> {
    let place = |line| Source::File { file, path: path.to_path_buf(), line };
    let options = serde_saphyr::options! { with_snippet: false };
    let parsed: Spanned<Parsed> = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| ConfigError::syntax(&error, &place))?;
    let node = locate(parsed, &place);
    match node.value {
        NodeValue::Null => Ok(Node { value: NodeValue::Map(Vec::new()), ..node }),
        NodeValue::Map(_) => Ok(node),
        _ => Err(ConfigError::NotAMapping { found: node.described().into(), place: node.source }),
    }
}

/// Reads a value given in one line of YAML, as in `--set cluster.separate_by=[private]`.
pub(super) fn read_words(text: &str, source: &Source) -> Result<Node, ConfigError> {
    let options = serde_saphyr::options! { with_snippet: false };
    let here = |_| source.clone();
    serde_saphyr::from_str_with_options(text, options)
        .map(|parsed| locate(parsed, &here))
        .map_err(|error| ConfigError::syntax(&error, &here))
}

/// What the parser hands over.
enum Parsed {
    Scalar(NodeValue),
    List(Vec<Spanned<Self>>),
    Map(Vec<(Spanned<String>, Spanned<Self>)>),
}

/// Attaches sources; a mapping's value is placed where its key stands.
fn locate(parsed: Spanned<Parsed>, place: &impl Fn(u64) -> Source) -> Node {
    let source = place(parsed.referenced.line());
    let value = match parsed.value {
        Parsed::Scalar(value) => value,
        Parsed::List(items) => {
            NodeValue::List(items.into_iter().map(|item| locate(item, place)).collect())
        }
        Parsed::Map(entries) => {
            let entry = |(key, value): (Spanned<String>, _)| {
                let node = Node { source: place(key.referenced.line()), ..locate(value, place) };
                (key.value, node)
            };
            NodeValue::Map(entries.into_iter().map(entry).collect())
        }
    };
    Node { value, source }
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
        Ok(Parsed::Scalar(NodeValue::Null))
    }

    fn visit_none<E: de::Error>(self) -> Result<Parsed, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Parsed, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(NodeValue::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(NodeValue::Number(value.into())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(NodeValue::Number(value.into())))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Parsed, E> {
        let number =
            Number::from_f64(value).ok_or_else(|| E::custom("a number that is not finite"))?;
        Ok(Parsed::Scalar(NodeValue::Number(number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(NodeValue::Text(value.to_owned())))
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

/// Returns text with control characters escaped, shortened to a screen line.
pub(super) fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 120;
    let short: String = text.chars().take(CHARS_MAX).collect();
    let cut = if short.len() < text.len() { "…" } else { "" };
    let escaped: String = short
        .chars()
        .map(|char| if char.is_control() { char.escape_default().to_string() } else { char.into() })
        .collect();
    escaped + cut
}

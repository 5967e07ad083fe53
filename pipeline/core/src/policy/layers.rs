//! Layers of a configuration: trees of values, each with its source; how one is read, and laid over another.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value, json};
use serde_path_to_error::Segment;
use serde_saphyr::Spanned;

use super::config::{Config, EXACT_DUPLICATE, HIVEMIND, NEAR_DUPLICATE, Profile, ProtectionPolicy};
use super::error::{ConfigError, FileLayer, Notice, Source, shown};
use super::names::{ALIASES, PERSONAL, WRAPPERS, nearest, snake_cased, successor, suggestion};
use super::read::{Fault, OR_NULL, Reader, meanings};

/// A value, and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node<S = Source> {
    pub(super) source: S,
    pub(super) tree: Tree<S>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Tree<S = Source> {
    /// Null, a number, a text, true or false.
    Plain(Value),
    List(Vec<Node<S>>),
    Map(Vec<(String, Node<S>)>),
}

impl<S> Node<S> {
    /// Returns a plain value; null for others.
    pub(super) fn plain(&self) -> &Value {
        match &self.tree {
            Tree::Plain(value) => value,
            Tree::List(_) | Tree::Map(_) => &Value::Null,
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        self.plain().as_str()
    }

    /// Returns the value of a key of a mapping, or the item of a list that has this id.
    pub(super) fn child(&self, name: &str) -> Option<&Self> {
        match &self.tree {
            Tree::Plain(_) => None,
            Tree::List(items) => items.iter().find(|item| item.id() == Some(name)),
            Tree::Map(entries) => entries.iter().find(|(key, _)| key == name).map(|(_, node)| node),
        }
    }

    fn child_mut(&mut self, name: &str) -> Option<&mut Self> {
        match &mut self.tree {
            Tree::Plain(_) => None,
            Tree::List(items) => items.iter_mut().find(|item| item.id() == Some(name)),
            Tree::Map(entries) => {
                entries.iter_mut().find(|(key, _)| key == name).map(|(_, node)| node)
            }
        }
    }

    fn keys(&self) -> BTreeSet<String> {
        match &self.tree {
            Tree::Map(entries) => entries.iter().map(|(key, _)| key.clone()).collect(),
            Tree::Plain(_) | Tree::List(_) => BTreeSet::new(),
        }
    }

    /// Returns the id of a rule.
    pub(super) fn id(&self) -> Option<&str> {
        match &self.tree {
            Tree::Map(_) => self.child("id")?.text(),
            Tree::Plain(_) | Tree::List(_) => None,
        }
    }

    /// Names an item of a list: a rule by its id, others by their places.
    fn item_name(&self, list: &str, at: usize) -> String {
        match (is_rules(list), self.id()) {
            (false, _) => at.to_string(),
            (true, id) => id.unwrap_or("?").to_owned(),
        }
    }

    /// Returns the value of a key; a rule goes by its id.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        key.split('.').try_fold(self, Self::child)
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        key.split('.').try_fold(self, Self::child_mut)
    }

    /// Takes a key out; mappings that are left empty go too.
    fn take(&mut self, key: &str) -> Option<Self> {
        let (key, rest) = key.split_once('.').map_or((key, None), |(key, rest)| (key, Some(rest)));
        let Tree::Map(entries) = &mut self.tree else { return None };
        let at = entries.iter().position(|(name, _)| name == key)?;
        let Some(rest) = rest else { return Some(entries.remove(at).1) };
        let taken = entries[at].1.take(rest)?;
        if matches!(&entries[at].1.tree, Tree::Map(left) if left.is_empty()) {
            entries.remove(at);
        }
        Some(taken)
    }

    /// Describes a value for a message.
    pub(super) fn described(&self) -> String {
        match &self.tree {
            Tree::Plain(Value::Null) => "nothing".to_owned(),
            Tree::Plain(Value::String(text)) => format!("the text \"{}\"", shown(text)),
            Tree::Plain(plain) => plain.to_string(),
            Tree::List(_) => "a list".to_owned(),
            Tree::Map(_) => "a mapping".to_owned(),
        }
    }

    /// Returns the values alone.
    pub(super) fn json(&self) -> Value {
        match &self.tree {
            Tree::Plain(value) => value.clone(),
            Tree::List(items) => items.iter().map(Self::json).collect(),
            Tree::Map(entries) => {
                entries.iter().map(|(key, node)| (key.clone(), node.json())).collect()
            }
        }
    }

    /// Returns every plain value, list of texts and empty mapping, by path.
    pub(super) fn leaves(&self) -> Vec<(String, &Self)> {
        fn collect<'a, S>(node: &'a Node<S>, path: &str, leaves: &mut Vec<(String, &'a Node<S>)>) {
            match &node.tree {
                Tree::Map(entries) if !entries.is_empty() => {
                    entries
                        .iter()
                        .for_each(|(key, node)| collect(node, &joined(path, key), leaves));
                }
                Tree::List(items) if items.iter().any(|item| matches!(item.tree, Tree::Map(_))) => {
                    for (at, item) in items.iter().enumerate() {
                        collect(item, &joined(path, &item.item_name(path, at)), leaves);
                    }
                }
                _ => leaves.push((path.to_owned(), node)),
            }
        }
        let mut leaves = Vec::new();
        collect(self, "", &mut leaves);
        leaves
    }
}

impl Node {
    /// Takes values that come from one place.
    pub(super) fn of(value: Value, source: Source) -> Self {
        let tree = match value {
            Value::Array(items) => {
                Tree::List(items.into_iter().map(|item| Self::of(item, source.clone())).collect())
            }
            Value::Object(map) => {
                let node = |(key, value)| (key, Self::of(value, source.clone()));
                Tree::Map(map.into_iter().map(node).collect())
            }
            plain => Tree::Plain(plain),
        };
        Self { source, tree }
    }

    /// Takes the value of a key: nested mappings around it. `rules.<id>` becomes a list of one rule.
    fn of_key(key: &str, value: Value, source: Source) -> Self {
        fn nested(key: &str, value: Value) -> Value {
            match key.split_once('.') {
                None => json!({ key: value }),
                Some(("rules", rest)) => {
                    let (id, value) = match rest.split_once('.') {
                        Some((id, rest)) => (id, nested(rest, value)),
                        None => (rest, json!({})),
                    };
                    let mut rule = Map::from_iter([("id".to_owned(), id.into())]);
                    if let Value::Object(keys) = value {
                        rule.extend(keys);
                    }
                    json!({ "rules": [rule] })
                }
                Some((key, rest)) => json!({ key: nested(rest, value) }),
            }
        }
        Self::of(nested(key, value), source)
    }

    /// Returns where the value of a key came from; a missing key has the source of the mapping around it.
    pub(super) fn source(&self, key: &str) -> Source {
        let mut node = self;
        for segment in key.split('.') {
            let Some(child) = node.child(segment) else { break };
            node = child;
        }
        node.source.clone()
    }

    /// Adds a key that must not be set yet.
    fn add(&mut self, key: &str, node: Self, path: &str) -> Result<(), ConfigError> {
        match (self.child_mut(key), node.tree) {
            (None, tree) => {
                let Tree::Map(entries) = &mut self.tree else { return Ok(()) };
                entries.push((key.to_owned(), Self { source: node.source, tree }));
                Ok(())
            }
            (Some(there), Tree::Map(more)) if matches!(there.tree, Tree::Map(_)) => more
                .into_iter()
                .try_for_each(|(key, node)| there.add(&key, node, &joined(path, &key))),
            _ => Err(ConfigError::repeated_key(&node.source, path)),
        }
    }

    /// Lays a tree over this one: mappings key by key, rules by id, lists and plain values whole.
    fn merge(&mut self, over: Self) {
        match (&mut self.tree, over.tree) {
            (Tree::Map(below), Tree::Map(over)) => {
                for (key, over) in over {
                    match below.iter_mut().find(|(name, _)| *name == key) {
                        Some((_, below)) if key == "rules" => below.merge_rules(over),
                        Some((_, below)) => below.merge(over),
                        None => below.push((key, over)),
                    }
                }
            }
            (_, tree) => *self = Self { source: over.source, tree },
        }
    }

    /// Merges rules of the same id; new ones come before the ones below, in their own order.
    fn merge_rules(&mut self, over: Self) {
        let (Tree::List(rules), Tree::List(over)) = (&mut self.tree, over.tree) else { return };
        let mut new = Vec::new();
        for mut rule in over {
            match rules.iter_mut().find(|below| below.id() == rule.id()) {
                Some(below) => {
                    // The id is the key here; its origin stays the layer that made the rule.
                    rule.take("id");
                    below.merge(rule);
                }
                None => new.push(rule),
            }
        }
        rules.splice(0..0, new);
    }
}

/// A tree, or the words of a variable or of `--set`: a key and a text that takes its type.
#[derive(Debug)]
pub(super) struct Layer {
    root: Node,
    words: Option<(String, String)>,
    /// Whether it came with the store, and not from the user.
    of_store: bool,
}

impl Layer {
    /// Takes the value of a key.
    pub(super) fn of_key(key: &str, value: Value, source: Source) -> Self {
        Self { root: Node::of_key(key, value, source), words: None, of_store: false }
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
        let key = segments.join(".");
        let mut layer = Self::of_key(&key, words.into(), source);
        layer.words = Some((key, words.to_owned()));
        layer.unify().map(|()| layer)
    }

    /// Reads a file's text, YAML or JSON. An empty file is an empty mapping.
    pub(super) fn of_text(text: &str, file: FileLayer, path: &Path) -> Result<Self, ConfigError> {
        let place = |line| Source::File { file, path: path.to_path_buf(), line };
        let mut root = parse(text, &place)?;
        match &root.tree {
            Tree::Map(_) => {}
            Tree::Plain(Value::Null) => root.tree = Tree::Map(Vec::new()),
            _ => {
                let problem = format!("expected keys and values, found {}", root.described());
                let hint = "write `key: value` lines, such as `threshold: 0.95`";
                return Err(ConfigError::at(&root.source, problem, hint));
            }
        }
        let mut layer = Self { root, words: None, of_store: false };
        layer.unify().map(|()| layer)
    }

    /// Brings the keys to their places: out of wrappers, and from other names of theirs.
    fn unify(&mut self) -> Result<(), ConfigError> {
        for wrapper in WRAPPERS {
            let Some(node) = self.root.take(wrapper) else { continue };
            match node.tree {
                Tree::Plain(Value::Null) => {}
                Tree::Map(inner) => {
                    // A file may hold many keys: only keys that meet another are looked for.
                    let taken = self.root.keys();
                    for (key, node) in inner {
                        match &mut self.root.tree {
                            Tree::Map(entries) if !taken.contains(&key) => {
                                entries.push((key, node))
                            }
                            _ => self.root.add(&key, node, &key)?,
                        }
                    }
                }
                _ => return Err(ConfigError::wrong_value(&node, wrapper, Fault::MAPPING, "")),
            }
        }
        for (alias, key) in ALIASES {
            if let Some(node) = self.root.take(alias) {
                self.root.add(key, node, key)?;
            }
        }
        Ok(())
    }

    /// Marks the values that the maker of a store wrote.
    pub(super) fn of_store(self) -> Self {
        Self { of_store: true, ..self }
    }

    /// Removes keys that the file beside a store, or a plan in it, may not set.
    fn drop_personal(&mut self, notices: &mut Vec<Notice>) {
        for (key, decides) in PERSONAL {
            if self.of_store
                && let Some(node) = self.root.take(key)
            {
                self.words = None;
                let text = format!(
                    "`{key}` is not used: what comes with a store does not say {decides}; move it to \
                     ~/.config/memfold/config.yaml, or name the file with --config"
                );
                notices.push(Notice { source: node.source, text });
            }
        }
    }

    /// Reads the layer: the keys that it does not have are the built-in ones. Words get the type of their key.
    ///
    /// # Errors
    ///
    /// The first unknown key, or value of another type or outside its range.
    pub(super) fn read(&mut self, notices: &mut Vec<Notice>) -> Result<Config, ConfigError> {
        self.drop_personal(notices);
        let Some((key, text)) = self.words.take() else { return self.root.read() };
        let source = self.root.source.clone();
        let yaml = parse(&text, &|_| source.clone()).map(|node| node.json());
        // A syntax error counts where there are brackets; other words that are not YAML are a text.
        let counts = match &yaml {
            Ok(value) => !value.is_null(),
            Err(_) => text.starts_with(['[', '{']),
        };
        let mut failed = None;
        for value in meanings(&text).into_iter().map(Ok).chain(counts.then_some(yaml)) {
            let read = value.and_then(|value| {
                self.root = Node::of_key(&key, value, source.clone());
                self.unify()?;
                self.root.read()
            });
            match read {
                Ok(read) => {
                    // Words may have become a section.
                    self.drop_personal(notices);
                    return Ok(read);
                }
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.expect("every word may be a text"))
    }

    /// Lays a layer that was read over the ones below.
    ///
    /// # Errors
    ///
    /// `threshold` beside the key that it is short for.
    pub(super) fn lay_over(mut self, below: &mut Node, read: &Config) -> Result<(), ConfigError> {
        self.expand_profile(read.profile);
        self.expand_threshold(below)?;
        below.merge(self.root);
        Ok(())
    }

    /// Adds the keys that a profile sets beneath the layer's own keys.
    fn expand_profile(&mut self, profile: Profile) {
        let Some(named) = self.root.child("profile") else { return };
        let mut set = match profile {
            Profile::Hivemind => serde_json::from_str(HIVEMIND).expect("the profile is JSON"),
            Profile::Default | Profile::Strict => json!({}),
        };
        set["protection"] = serde_json::to_value(ProtectionPolicy::of(profile))
            .expect("a profile has text keys and finite numbers");
        let mut spelled = Node::of(set, named.source.clone());
        // Whether anything is protected is no part of a profile.
        spelled.take("protection.enabled");
        std::mem::swap(&mut spelled, &mut self.root);
        self.root.merge(spelled);
    }

    /// Spells out `threshold`: the near-duplicate rule's similarity, and the exact-duplicate rule's too
    /// where that one lies below, because nobody who asks for T wants merges under T.
    fn expand_threshold(&mut self, below: &Node) -> Result<(), ConfigError> {
        let Some(Node { source, tree: Tree::Plain(threshold) }) = self.root.take("threshold")
        else {
            return Ok(());
        };
        if threshold.is_null() {
            return Ok(());
        }
        let key = |id| format!("rules.{id}.when.min_similarity");
        let (near, exact) = (key(NEAR_DUPLICATE), key(EXACT_DUPLICATE));
        if self.root.get(&near).is_some() {
            let problem = format!("`threshold` and `{near}` are both given and say the same thing");
            return Err(ConfigError::at(&source, problem, "keep one of them"));
        }
        let present = self.root.get(&exact).or_else(|| below.get(&exact));
        let present = present.and_then(|node| node.plain().as_f64());
        let raises = present.is_some_and(|exact| Some(exact) < threshold.as_f64());
        for key in std::iter::once(near).chain(raises.then_some(exact)) {
            self.root.merge(Node::of_key(&key, threshold.clone(), source.clone()));
        }
        Ok(())
    }
}

impl Node {
    pub(super) fn read(&self) -> Result<Config, ConfigError> {
        serde_path_to_error::deserialize(Reader(self)).map_err(|error| {
            let path: Vec<Segment> = error.path().iter().cloned().collect();
            self.explained(&path, error.into_inner())
        })
    }

    /// Translates an error of serde: the key, its place, the expected type, the value found and a hint.
    fn explained(&self, path: &[Segment], fault: Fault) -> ConfigError {
        let (mut key, mut node, mut list) = (String::new(), self, None::<String>);
        for segment in path {
            let (name, child) = match (segment, &node.tree) {
                (Segment::Map { key }, _) => (key.clone(), node.child(key)),
                (Segment::Seq { index }, Tree::List(items)) => {
                    (items[*index].item_name(&key, *index), Some(&items[*index]))
                }
                _ => continue,
            };
            list = matches!(segment, Segment::Seq { .. }).then(|| key.clone());
            node = child.unwrap_or(node);
            key = joined(&key, &name);
        }
        match fault {
            Fault::UnknownKey { known } => {
                let hint = match (successor(&key), suggestion(&key, known)) {
                    (Some(successor), _) => successor.to_owned(),
                    (None, Some(meant)) => format!("did you mean `{meant}`?"),
                    (None, None) => "`memfold config schema` lists every key".to_owned(),
                };
                let problem = format!("unknown key `{}`", shown(&key));
                ConfigError::at(&node.source, problem, hint)
            }
            Fault::Value { mut expected, choices, .. } => {
                if let Some(outer) = list.filter(|_| expected != Fault::MAPPING) {
                    // An item is never null.
                    (key, expected) = (outer, expected.trim_end_matches(OR_NULL).to_owned());
                }
                if expected == "a list of texts" && MAPPING_LISTS.contains(&key.as_str()) {
                    expected = "a list of rules".to_owned();
                }
                let hint = self.advice(&key, node.plain(), &expected, choices);
                ConfigError::wrong_value(node, &key, &expected, hint)
            }
        }
    }

    fn advice(&self, key: &str, found: &Value, expected: &str, choices: &[&'static str]) -> String {
        let typed = matches!(self.source, Source::Environment { .. } | Source::Set { .. });
        match found {
            Value::String(text) if !choices.is_empty() => {
                let meant = nearest(text, choices.iter().copied());
                meant.map_or_else(String::new, |meant| format!("did you mean {meant}?"))
            }
            Value::String(text)
                if expected.contains("number") && !typed && text.parse::<f64>().is_ok() =>
            {
                "write the number without quotes".to_owned()
            }
            Value::String(_) if expected.starts_with("a list") && !typed => {
                "write it as a list: [ … ]".to_owned()
            }
            Value::Number(_) | Value::Bool(_) if expected.starts_with("a text") => {
                "put it in quotes".to_owned()
            }
            _ => format!("docs/configuration.md tells what `{key}` means"),
        }
    }
}

/// Lists of mappings.
const MAPPING_LISTS: [&str; 2] = ["rules", "judge.chain"];

fn is_rules(path: &str) -> bool {
    path.rsplit('.').next() == Some("rules")
}

/// Appends a key to a path.
pub(super) fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// How deep a configuration nests, far more than any key needs; a reader of a thread with little stack stands it.
const DEPTH_MAX: usize = 16;

/// Parses YAML; `place` makes a source of a line.
fn parse(text: &str, place: &dyn Fn(u64) -> Source) -> Result<Node, ConfigError> {
    let budget = serde_saphyr::budget! { max_depth: DEPTH_MAX };
    let options = serde_saphyr::options! { with_snippet: false, budget: budget };
    let parsed: Spanned<Tree<u64>> = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| ConfigError::syntax(&error, place))?;
    Node { source: parsed.referenced.line(), tree: parsed.value }.located("", place)
}

impl Node<u64> {
    /// Makes sources of lines, and brings keys to one spelling.
    fn located(self, path: &str, place: &dyn Fn(u64) -> Source) -> Result<Node, ConfigError> {
        let mut names = BTreeSet::new();
        let tree = match self.tree {
            Tree::Plain(value) => Tree::Plain(value),
            Tree::Map(entries) => {
                let mut map = Vec::with_capacity(entries.len());
                for (key, node) in entries {
                    let name = snake_cased(&key);
                    let path = joined(path, &name);
                    if !names.insert(name.clone()) {
                        return Err(ConfigError::repeated_key(&place(node.source), &path));
                    }
                    map.push((name, node.located(&path, place)?));
                }
                Tree::Map(map)
            }
            Tree::List(items) => {
                let mut list = Vec::with_capacity(items.len());
                for (at, item) in items.into_iter().enumerate() {
                    let name = item.item_name(path, at);
                    let path = joined(path, &name);
                    if name != "?" && !names.insert(name.clone()) {
                        let problem = format!("rule {name} is given twice");
                        let hint = "join the two, or give one another id";
                        return Err(ConfigError::at(&place(item.source), problem, hint));
                    }
                    list.push(item.located(&path, place)?);
                }
                Tree::List(list)
            }
        };
        Ok(Node { source: place(self.source), tree })
    }
}

impl<'de> Deserialize<'de> for Tree<u64> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

/// Reads a tree with the line of each value: that of its key, in a mapping.
struct TreeVisitor;

macro_rules! visit_plain {
    ($($method:ident($type:ty),)*) => {$(
        fn $method<E>(self, value: $type) -> Result<Tree<u64>, E> {
            Ok(Tree::Plain(value.into()))
        }
    )*};
}

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree<u64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    visit_plain! { visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_str(&str), }

    fn visit_unit<E>(self) -> Result<Tree<u64>, E> {
        Ok(Tree::Plain(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Tree<u64>, E> {
        Ok(Tree::Plain(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree<u64>, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Tree<u64>, E> {
        let number =
            Number::from_f64(value).ok_or_else(|| E::custom("a number that is not finite"))?;
        Ok(Tree::Plain(number.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree<u64>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<Spanned<Tree<u64>>>()? {
            list.push(Node { source: item.referenced.line(), tree: item.value });
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Tree<u64>, A::Error> {
        let mut map = Vec::new();
        while let Some((key, value)) =
            entries.next_entry::<Spanned<String>, Spanned<Tree<u64>>>()?
        {
            let source = key.referenced.line();
            map.push((key.value, Node { source, tree: value.value }));
        }
        Ok(Tree::Map(map))
    }
}

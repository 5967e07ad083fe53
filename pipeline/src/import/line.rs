//! [`Line`]: a memory on a line of JSON.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use jiff::tz::TimeZone;
use serde::Deserialize;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::ImportOptions;
use crate::quick_check::{importance_fault, vector_fault};
use memfold_model::text::{excerpt, is_blank};
use memfold_model::time::Instant;
use memfold_store::brain_db::ImportedMemory;
use memfold_store::reading::categories_to_json;

/// What `embeddings.model` of the owner holds where nothing else is said, and the dimension of its vectors.
pub(super) const MODEL_DEFAULT: &str = "all-MiniLM-L6-v2";
const MODEL_DEFAULT_DIM: usize = 384;
/// What the owner's writer puts where nothing is said.
const CATEGORY_DEFAULT: &str = "general";
const IMPORTANCE_DEFAULT: f64 = 1.0;
const SOURCE_DEFAULT: &str = "agent";
/// Sources that say that a row is no live memory.
const RESERVED_SOURCES: [&str; 2] = ["archived:", "consolidation:contradiction:"];
/// Hex digits of an id, as the owner makes them.
const ID_DIGITS: usize = 12;
/// Fields of exported rows that say nothing of a memory.
const FIELDS_LEFT_OUT: [&str; 3] = ["row", "rowid", "lineage"];
/// Fields passed over that are named.
const UNKNOWN_FIELDS_MAX: usize = 20;
/// Characters of a value in an error.
const SHOWN_CHARS: usize = 60;

/// Categories `scope:value` that keep memories apart, and the fields that other systems keep them in.
pub(super) const SCOPES: [(&str, &[&str]); 6] = [
    ("user", &["user_id", "userId", "user", "owner"]),
    ("agent", &["agent_id", "agentId", "agent"]),
    ("app", &["app_id", "appId", "app"]),
    ("ns", &["namespace"]),
    ("run", &["run_id", "runId"]),
    ("session", &["session_id", "sessionId"]),
];
/// A member that holds further fields.
const METADATA: &str = "metadata";

/// Returns the category of a field that names a scope; a namespace may be a list of names.
pub(super) fn scope(field: &str, value: &Value) -> Option<String> {
    let (scope, _) = SCOPES.iter().find(|(_, fields)| fields.contains(&field))?;
    let value = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Array(names) => {
            names.iter().map(Value::as_str).collect::<Option<Vec<_>>>()?.join("/")
        }
        _ => return None,
    };
    (!value.is_empty()).then(|| format!("{scope}:{value}"))
}

/// Returns the categories of all scopes that an object and its metadata name, in the order of [`SCOPES`].
pub(super) fn scopes(line: &Value) -> Vec<String> {
    let in_all = |field: &&str| {
        [Some(line), line.get(METADATA)]
            .into_iter()
            .flatten()
            .find_map(|fields| scope(field, fields.get(field)?))
    };
    SCOPES.iter().filter_map(|(_, fields)| fields.iter().find_map(in_all)).collect()
}

/// A memory on a line of JSON.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    pub(super) memory: ImportedMemory,
    /// The vector, behind its model where one is named.
    pub(super) vector: Option<(Option<String>, Vec<f32>)>,
}

/// What a line is read by, and what is known from those before it.
pub(super) struct Context<'a> {
    model: Option<&'a str>,
    time_zone: &'a TimeZone,
    now: String,
    /// Lines without an id by what it follows from: equal ones get one each.
    without_id: HashMap<[u8; 32], u64>,
    /// Texts by id.
    ids: HashMap<[u8; 32], [u8; 32]>,
    /// Dimensions by model.
    dims: BTreeMap<String, usize>,
    unknown_fields: BTreeSet<String>,
}

impl<'a> Context<'a> {
    pub(super) fn new(options: &ImportOptions<'a>) -> Self {
        Self {
            model: options.model,
            time_zone: options.time_zone,
            now: options.now.to_naive_local(options.time_zone),
            without_id: HashMap::new(),
            ids: HashMap::new(),
            dims: BTreeMap::new(),
            unknown_fields: BTreeSet::new(),
        }
    }

    pub(super) fn into_unknown_fields(self) -> BTreeSet<String> {
        self.unknown_fields
    }

    /// Makes an id for a memory that has none: the same one whenever the file is imported.
    fn id_for(&mut self, text: &str, created_at: &str, source: &str) -> String {
        let mut hasher = blake3::Hasher::new();
        for part in [text, created_at, source] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        let before = self.without_id.entry(*hasher.finalize().as_bytes()).or_default();
        hasher.update(&before.to_le_bytes());
        *before += 1;
        format!("stm_{}", &hasher.finalize().to_hex()[..ID_DIGITS])
    }

    /// Refuses an id that stands on an earlier line with another text.
    fn check_id(&mut self, id: &str, text: &str) -> Result<(), String> {
        let [id_hash, text_hash] = [id, text].map(|text| *blake3::hash(text.as_bytes()).as_bytes());
        match *self.ids.entry(id_hash).or_insert(text_hash) == text_hash {
            true => Ok(()),
            false => Err(format!(
                "field \"id\": {} stands on an earlier line with another text",
                shown(id)
            )),
        }
    }

    /// Refuses vectors of several dimensions under the name of one model.
    fn check_vector(&mut self, vector: &[f32], model: Option<&str>) -> Result<(), String> {
        let dim = vector.len();
        vector_fault(vector).map_or(Ok(()), Err)?;
        if model.is_none() && dim != MODEL_DEFAULT_DIM {
            return Err(format!(
                "a vector of {dim} components without a model; name it on the line or with --model"
            ));
        }
        let model = model.unwrap_or(MODEL_DEFAULT);
        let expected = *self.dims.entry(model.to_owned()).or_insert(dim);
        if dim != expected {
            return Err(format!(
                "a vector of {dim} components, expected {expected} as before of model {}",
                shown(model)
            ));
        }
        Ok(())
    }
}

impl Line {
    /// Reads a line; an error says what is wrong with it.
    pub(super) fn read(bytes: &[u8], context: &mut Context<'_>) -> Result<Self, String> {
        let fields: Fields = serde_json::from_slice(bytes).map_err(|error| {
            // Each line is one of its own, so what is said of lines is of no use.
            error.to_string().replace(" at line 1 column ", ", column ").replace(", column 0", "")
        })?;
        for field in fields.unknown {
            if context.unknown_fields.len() < UNKNOWN_FIELDS_MAX {
                context.unknown_fields.insert(field);
            }
        }
        let content = fields.text.filter(|text| !is_blank(text));
        let content =
            content.ok_or("there is no text: expected a field \"text\" or \"content\"")?;
        let source = fields.source.unwrap_or_else(|| SOURCE_DEFAULT.to_owned());
        if let Some(prefix) = RESERVED_SOURCES.iter().find(|prefix| source.starts_with(**prefix)) {
            return Err(format!("field \"source\": {prefix:?} marks what is no live memory"));
        }
        let importance = fields.importance.unwrap_or(IMPORTANCE_DEFAULT);
        if let Some(fault) = importance_fault(importance) {
            return Err(format!("field \"importance\": {fault}"));
        }
        let access_count = fields.access_count.unwrap_or(0);
        if access_count < 0 {
            return Err(format!("field \"access_count\": {access_count}, expected 0 or more"));
        }
        let time = |name: &str, time: Option<Time>| {
            time.map(|time| time.in_store(context.time_zone, name)).transpose()
        };
        let created_at = time("created_at", fields.created_at)?;
        let updated_at = time("updated_at", fields.updated_at)?;
        let expires_at = time("expires_at", fields.expires_at)?;
        let id = match fields.id {
            Some(id) if is_blank(&id) => {
                return Err("field \"id\": a text without a visible character".into());
            }
            Some(id) => id,
            None => context.id_for(&content, created_at.as_deref().unwrap_or_default(), &source),
        };
        context.check_id(&id, &content)?;
        let model = fields.model.or_else(|| context.model.map(str::to_owned));
        let vector = fields.vector.map(|vector| (model, vector));
        if let Some((model, vector)) = &vector {
            context.check_vector(vector, model.as_deref())?;
        }
        let mut categories = fields.categories.unwrap_or_else(|| vec![CATEGORY_DEFAULT.to_owned()]);
        for scope in scopes(&Value::Object(fields.scopes)) {
            if !categories.contains(&scope) {
                categories.push(scope);
            }
        }
        let memory = ImportedMemory {
            id,
            content,
            categories: categories_to_json(&categories),
            importance,
            access_count,
            created_at: created_at.unwrap_or_else(|| context.now.clone()),
            updated_at,
            expires_at,
            source,
        };
        Ok(Self { memory, vector })
    }
}

fn shown(text: &str) -> String {
    format!("{:?}", excerpt(text, SHOWN_CHARS))
}

/// The fields of a line, as they are spelled.
#[derive(Debug, Default)]
struct Fields {
    text: Option<String>,
    id: Option<String>,
    categories: Option<Vec<String>>,
    importance: Option<f64>,
    access_count: Option<i64>,
    created_at: Option<Time>,
    updated_at: Option<Time>,
    expires_at: Option<Time>,
    source: Option<String>,
    vector: Option<Vec<f32>>,
    model: Option<String>,
    /// Fields that name scopes, and the metadata, which may.
    scopes: Map<String, Value>,
    unknown: Vec<String>,
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Fields::default();
        while let Some(name) = map.next_key::<String>()? {
            match &*name {
                "text" | "content" => set(&mut fields.text, &name, &mut map)?,
                "id" => {
                    let mut id: Option<Id> = fields.id.take().map(Id::Text);
                    set(&mut id, &name, &mut map)?;
                    fields.id = id.map(Id::into_text);
                }
                "categories" | "category" => {
                    let mut categories: Option<Categories> =
                        fields.categories.take().map(Categories::Several);
                    set(&mut categories, &name, &mut map)?;
                    fields.categories = categories.map(Categories::into_list);
                }
                "importance" => set(&mut fields.importance, &name, &mut map)?,
                "access_count" => set(&mut fields.access_count, &name, &mut map)?,
                "created_at" => set(&mut fields.created_at, &name, &mut map)?,
                "updated_at" => set(&mut fields.updated_at, &name, &mut map)?,
                "expires_at" => set(&mut fields.expires_at, &name, &mut map)?,
                "source" => set(&mut fields.source, &name, &mut map)?,
                "vector" | "embedding" => set(&mut fields.vector, &name, &mut map)?,
                "model" | "embedding_model" => set(&mut fields.model, &name, &mut map)?,
                name if SCOPES.iter().any(|(_, fields)| fields.contains(&name)) => {
                    let value: Value = map.next_value()?;
                    fields.scopes.insert(name.to_owned(), value);
                }
                METADATA => {
                    let value: Value = map.next_value()?;
                    fields.scopes.insert(name.clone(), value);
                    fields.unknown.push(name);
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    if !FIELDS_LEFT_OUT.contains(&&*name) {
                        fields.unknown.push(name);
                    }
                }
            }
        }
        Ok(fields)
    }
}

/// Takes a value that is null or of the field's type, once.
fn set<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
    field: &mut Option<T>,
    name: &str,
    map: &mut A,
) -> Result<(), A::Error> {
    if field.is_some() {
        return Err(A::Error::custom(format!(
            "field {name:?}: it, or another name of it, occurs twice"
        )));
    }
    let value =
        map.next_value().map_err(|error| A::Error::custom(format!("field {name:?}: {error}")));
    *field = value?;
    Ok(())
}

/// An id: a text, or a number as other stores have them.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a text or a whole number")]
enum Id {
    Text(String),
    Number(i64),
}

impl Id {
    fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Number(number) => number.to_string(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a text or an array of texts")]
enum Categories {
    One(String),
    Several(Vec<String>),
}

impl Categories {
    /// Returns each once, in their order.
    fn into_list(self) -> Vec<String> {
        let categories = match self {
            Self::One(category) => vec![category],
            Self::Several(categories) => categories,
        };
        let mut seen = BTreeSet::new();
        categories.into_iter().filter(|category| seen.insert(category.clone())).collect()
    }
}

/// A time in any spelling that stores hold.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a time as a text, or a number of seconds")]
enum Time {
    Text(String),
    Seconds(f64),
}

impl Time {
    /// Returns the time as the owner writes times, who sorts them as texts.
    fn in_store(self, time_zone: &TimeZone, field: &str) -> Result<String, String> {
        let (instant, said) = match self {
            Self::Text(text) => (Instant::parse(&text, time_zone), shown(&text)),
            Self::Seconds(seconds) => (Instant::from_epoch(seconds), seconds.to_string()),
        };
        let instant = instant.ok_or_else(|| {
            format!("field {field:?}: {said} is no time, expected 2026-08-03T12:00:00")
        })?;
        Ok(instant.to_naive_local(time_zone))
    }
}

//! [`Line`]: a record of a file of texts as a row of a `brain.db`.

use std::collections::{BTreeMap, HashMap};

use jiff::tz::TimeZone;
use memfold_datasets::texts::TextRecord;

use super::ImportOptions;
use crate::quick_check::{importance_fault, vector_fault};
use memfold_core::row::categories_to_json;
use memfold_core::time::Instant;
use memfold_guard::text::{excerpt, is_blank};
use memfold_store::brain_db::ImportedMemory;

/// The owner's default for `embeddings.model`, and the dimension of its vectors.
pub(super) const MODEL_DEFAULT: &str = "all-MiniLM-L6-v2";
const MODEL_DEFAULT_DIM: usize = 384;
/// The defaults of the owner's writer.
const CATEGORY_DEFAULT: &str = "general";
const IMPORTANCE_DEFAULT: f64 = 1.0;
const SOURCE_DEFAULT: &str = "agent";
/// Sources of rows that are not live memories.
const RESERVED_SOURCES: [&str; 2] = ["archived:", "consolidation:contradiction:"];
/// Hex digits of an id, as the owner makes them.
const ID_DIGITS: usize = 12;
/// Characters of a value in an error.
const SHOWN_CHARS: usize = 60;

/// A memory to insert.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    /// Its line or row, from 1.
    pub(super) place: u64,
    pub(super) memory: ImportedMemory,
    pub(super) vector: Option<NamedVector>,
    /// Whether the file says when the memory was made.
    pub(super) has_time: bool,
    /// The line as its system wrote it, where it is to go back there.
    pub(super) raw: Option<String>,
}

/// A vector and its model, where one is named.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NamedVector {
    pub(super) model: Option<String>,
    pub(super) components: Vec<f32>,
}

/// The settings for reading a line, and the state from earlier lines.
pub(super) struct Context<'a> {
    model: Option<&'a str>,
    time_zone: &'a TimeZone,
    now: String,
    /// Counts of lines without an id, by the hash that the id is derived from: equal lines get one
    /// each.
    without_id: HashMap<[u8; 32], u64>,
    /// Texts by id.
    ids: HashMap<[u8; 32], [u8; 32]>,
    /// Dimensions by model.
    dims: BTreeMap<String, usize>,
}

impl<'a> Context<'a> {
    pub(super) fn new(options: &ImportOptions<'a>) -> Self {
        Self {
            model: options.request.model,
            time_zone: options.time_zone,
            now: options.now.to_naive_local(options.time_zone),
            without_id: HashMap::new(),
            ids: HashMap::new(),
            dims: BTreeMap::new(),
        }
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
    /// Checks a record; an error describes the defect.
    pub(super) fn of(record: TextRecord, context: &mut Context<'_>) -> Result<Self, String> {
        if let Some(fault) = record.fault {
            return Err(fault);
        }
        let content = record.text;
        if is_blank(&content) {
            return Err("the text is blank".into());
        }
        let source = record.source.unwrap_or_else(|| SOURCE_DEFAULT.to_owned());
        if let Some(prefix) = RESERVED_SOURCES.iter().find(|prefix| source.starts_with(**prefix)) {
            return Err(format!("field \"source\": {prefix:?} marks what is no live memory"));
        }
        let importance = record.importance.unwrap_or(IMPORTANCE_DEFAULT);
        if let Some(fault) = importance_fault(importance) {
            return Err(format!("field \"importance\": {fault}"));
        }
        let access_count = record.access_count.unwrap_or(0);
        if access_count < 0 {
            return Err(format!("field \"access_count\": {access_count}, expected 0 or more"));
        }
        let time = |name: &str, time: Option<String>| {
            time.map(|time| in_store(&time, context.time_zone, name)).transpose()
        };
        let created_at = time("created_at", record.created_at)?;
        let updated_at = time("updated_at", record.updated_at)?;
        let expires_at = time("expires_at", record.expires_at)?;
        let model = record.model.or_else(|| context.model.map(str::to_owned));
        let vector = record.vector.map(|components| NamedVector { model, components });
        if let Some(NamedVector { model, components }) = &vector {
            context.check_vector(components, model.as_deref())?;
        }
        let id = record.id.unwrap_or_else(|| {
            context.id_for(&content, created_at.as_deref().unwrap_or_default(), &source)
        });
        context.check_id(&id, &content)?;
        let mut categories = record.categories;
        if categories.is_empty() {
            categories.push(CATEGORY_DEFAULT.to_owned());
        }
        let memory = ImportedMemory {
            id,
            content,
            categories: categories_to_json(&categories),
            importance,
            access_count,
            created_at: created_at.clone().unwrap_or_else(|| context.now.clone()),
            updated_at,
            expires_at,
            source,
        };
        let has_time = created_at.is_some();
        Ok(Self { place: record.place, memory, vector, has_time, raw: None })
    }
}

/// Returns a time as the owner writes times, who sorts them as texts.
fn in_store(time: &str, time_zone: &TimeZone, field: &str) -> Result<String, String> {
    let instant = Instant::parse_any(time, time_zone).ok_or_else(|| {
        format!("field {field:?}: {} is no time, expected 2026-08-03T12:00:00", shown(time))
    })?;
    Ok(instant.to_naive_local(time_zone))
}

fn shown(text: &str) -> String {
    format!("{:?}", excerpt(text, SHOWN_CHARS))
}

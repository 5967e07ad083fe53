//! [`TextRecord`]: a memory of a file, and how it is put together from fields.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::shapes::{Ranked, Roles, TextRole};

/// The top of the scale of importance of a store; shares of one become parts of it.
pub const IMPORTANCE_TOP: f64 = 3.0;
/// Fields passed over that are named.
const PASSED_OVER_MAX: usize = 20;
/// Bytes of a component in base64.
const COMPONENT_BYTES: usize = 4;

/// A memory of a file of texts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TextRecord {
    /// Its line, or its row where a form has no lines; from 1.
    pub place: u64,
    /// Its id, as the file has it.
    pub id: Option<String>,
    /// The text, never blank.
    pub text: String,
    /// Tags, then attributes and scopes: `user:…`, `agent:…`, `app:…`, `ns:…`, `run:…`,
    /// `session:…`.
    pub categories: Vec<String>,
    /// Importance, from 0 to 3 where the system has a scale.
    pub importance: Option<f64>,
    /// How often it was read.
    pub access_count: Option<i64>,
    /// When it was made: as it was written, also a number since 1970.
    pub created_at: Option<String>,
    /// When it was changed.
    pub updated_at: Option<String>,
    /// When it stops to count.
    pub expires_at: Option<String>,
    /// Where it came from.
    pub source: Option<String>,
    /// The model of its vector.
    pub model: Option<String>,
    /// Its vector, of finite components.
    pub vector: Option<Vec<f32>>,
    /// The first field with a value that cannot be used, which is left out.
    pub fault: Option<String>,
    /// Where it stands among the rows of the file.
    pub(super) row: usize,
}

/// The kind of a file's row.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Row {
    Record(Box<TextRecord>),
    Deleted,
    Skipped(String),
}

/// Fields of a record that were found so far.
#[derive(Debug, Default)]
pub(super) struct FoundFields {
    record: TextRecord,
    has_text: bool,
    is_deleted: bool,
    tags: Vec<(u16, String)>,
    attributes: Vec<FoundAttribute>,
    /// The rank of the name that each role was read from.
    ranks: Vec<Ranked>,
}

#[derive(Debug)]
struct FoundAttribute {
    order: usize,
    rank: u16,
    name: &'static str,
    value: String,
}

impl FoundFields {
    /// Takes a field of a record, or the fields of an object; tells whether any of them is used.
    pub(super) fn take(&mut self, name: &str, value: Value, roles: &Roles) -> bool {
        let value = match (value, roles.is_holder(name)) {
            (Value::Null, is_holder) => return is_holder || roles.of(name).is_some(),
            (Value::Object(object), true) => return self.take_all(name, object, roles),
            (Value::String(text), true) => match object_in(&text) {
                Some(object) => return self.take_all(name, object, roles),
                None => Value::String(text),
            },
            (value, _) => value,
        };
        let Some(ranked) = roles.of(name) else { return false };
        let is_blank = value.as_str().is_some_and(is_blank);
        if ranked.role == TextRole::Text {
            return self.take_text(ranked, value);
        }
        is_blank || self.take_role(ranked, name, &value, roles)
    }

    fn take_all(&mut self, holder: &str, object: Map<String, Value>, roles: &Roles) -> bool {
        let mut is_used = object.is_empty();
        for (name, value) in object {
            is_used |= self.take(&format!("{holder}.{name}"), value, roles);
        }
        is_used
    }

    /// Takes a text that is the whole record.
    pub(super) fn take_whole(&mut self, text: String) {
        self.has_text = true;
        if !is_blank(&text) {
            self.record.text = text;
        }
    }

    /// Takes a text unless a better field has one.
    fn take_text(&mut self, ranked: Ranked, value: Value) -> bool {
        let Value::String(text) = value else { return false };
        self.has_text = true;
        let is_taken = is_blank(&text) || self.is_best(ranked);
        if is_taken && !is_blank(&text) {
            self.record.text = text;
        }
        is_taken
    }

    fn take_role(&mut self, ranked: Ranked, name: &str, value: &Value, roles: &Roles) -> bool {
        match ranked.role {
            TextRole::Ignored => {}
            TextRole::Deleted => self.is_deleted |= is_true(value),
            TextRole::Tags => {
                self.tags.extend(tags(value).into_iter().map(|tag| (ranked.rank, tag)));
            }
            TextRole::Attribute(attribute) => {
                let Some(value) = attribute_value(value) else { return false };
                let (order, rank) = (roles.attribute_order(attribute), ranked.rank);
                self.attributes.push(FoundAttribute { order, rank, name: attribute, value });
            }
            _ if !self.is_best(ranked) => return false,
            TextRole::Vector => match vector_of(value) {
                Ok(vector) => self.record.vector = Some(vector),
                Err(found) => self.fault(name, &found),
            },
            role => self.take_scalar(role, name, value, roles),
        }
        true
    }

    /// Takes a vector that its form has read already.
    pub(super) fn put_vector(&mut self, vector: Vec<f32>) {
        self.record.vector = Some(vector);
    }

    /// Keeps the first fault.
    pub(super) fn fault(&mut self, name: &str, found: &str) {
        self.record.fault.get_or_insert_with(|| format!("field {name:?}: {found}"));
    }

    fn take_scalar(&mut self, role: TextRole, name: &str, value: &Value, roles: &Roles) {
        let record = &mut self.record;
        let put = match role {
            TextRole::Id => scalar(value).map(|id| record.id = Some(id)),
            TextRole::Importance => number(value).map(|number| {
                let share = number.clamp(0.0, 1.0) * IMPORTANCE_TOP;
                record.importance = Some(if roles.importance_is_share { share } else { number });
            }),
            TextRole::AccessCount => number(value)
                .filter(|number| number.fract().abs() < f64::EPSILON)
                .map(|number| record.access_count = Some(number as i64)),
            TextRole::CreatedAt => time(value).map(|time| record.created_at = Some(time)),
            TextRole::UpdatedAt => time(value).map(|time| record.updated_at = Some(time)),
            TextRole::ExpiresAt => time(value).map(|time| record.expires_at = Some(time)),
            TextRole::Source => scalar(value).map(|source| record.source = Some(source)),
            _ => scalar(value).map(|model| record.model = Some(model)),
        };
        if put.is_none() {
            let mut shown = value.to_string();
            shown.truncate(shown.floor_char_boundary(SHOWN_BYTES));
            self.fault(name, &format!("{shown} cannot be used"));
        }
    }

    /// Tells whether no better name of the role was read, and notes this one.
    fn is_best(&mut self, ranked: Ranked) -> bool {
        match self.ranks.iter_mut().find(|known| known.role == ranked.role) {
            Some(known) if known.rank <= ranked.rank => false,
            Some(known) => {
                *known = ranked;
                true
            }
            None => {
                self.ranks.push(ranked);
                true
            }
        }
    }

    /// Puts the record together.
    pub(super) fn finish(mut self, place: u64, row: usize) -> Row {
        if self.is_deleted {
            return Row::Deleted;
        }
        if self.record.text.is_empty() {
            let reason = if self.has_text { "the text is blank" } else { "there is no text" };
            return Row::Skipped(reason.into());
        }
        self.tags.sort_by_key(|(rank, _)| *rank);
        self.attributes.sort_by_key(|found| (found.order, found.rank));
        self.attributes.dedup_by_key(|found| found.order);
        let attributes =
            self.attributes.into_iter().map(|found| format!("{}:{}", found.name, found.value));
        let mut seen = BTreeSet::new();
        let categories = self.tags.into_iter().map(|(_, tag)| tag).chain(attributes);
        let categories = categories.filter(|category| seen.insert(category.clone())).collect();
        Row::Record(Box::new(TextRecord { place, row, categories, ..self.record }))
    }
}

/// Bytes of a value in a fault.
const SHOWN_BYTES: usize = 60;

/// Notes a field that is passed over, up to a limit.
pub(super) fn pass_over(passed_over: &mut BTreeSet<String>, name: &str) {
    if passed_over.len() < PASSED_OVER_MAX && !passed_over.contains(name) {
        passed_over.insert(name.to_owned());
    }
}

/// Tells whether a text shows nothing.
pub(super) fn is_blank(text: &str) -> bool {
    text.chars().all(|char| {
        char.is_whitespace()
            || char.is_control()
            || matches!(char, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}')
    })
}

/// Returns the fields of an object that is written in a text, as in a cell of a table.
fn object_in(text: &str) -> Option<Map<String, Value>> {
    text.trim_start().starts_with('{').then(|| serde_json::from_str(text).ok()).flatten()
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Bool(is_true) => *is_true,
        Value::String(text) => matches!(&*text.to_ascii_lowercase(), "true" | "t" | "1"),
        other => other.as_f64().is_some_and(|number| number > 0.0),
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_f64(),
    };
    number.filter(|number: &f64| number.is_finite())
}

/// Returns a time as it was written.
fn time(value: &Value) -> Option<String> {
    scalar(value).map(|text| text.trim().to_owned())
}

/// Returns the value of an attribute; a namespace may be a list of names.
fn attribute_value(value: &Value) -> Option<String> {
    let value = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Array(names) => {
            names.iter().map(Value::as_str).collect::<Option<Vec<_>>>()?.join("/")
        }
        _ => return None,
    };
    (!value.is_empty()).then_some(value)
}

/// Tags as a list, as a list in a text, or as one text.
fn tags(value: &Value) -> Vec<String> {
    let texts = |items: &[Value]| -> Vec<String> {
        items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    match value {
        Value::Array(items) => texts(items),
        Value::String(text) => match serde_json::from_str(text) {
            Ok(Value::Array(items)) => texts(&items),
            _ if text.trim().is_empty() => Vec::new(),
            _ => vec![text.clone()],
        },
        _ => Vec::new(),
    }
}

/// Reads a vector: a list of numbers, a text with a list, base64 of little-endian floats, or an
/// object with one of these.
pub(super) fn vector_of(value: &Value) -> Result<Vec<f32>, String> {
    let vector = match value {
        Value::Array(items) => {
            let components = items.iter().map(|item| item.as_f64().map(|number| number as f32));
            components
                .collect::<Option<Vec<f32>>>()
                .ok_or("a list with other things than numbers")?
        }
        Value::String(text) if text.trim_start().starts_with('[') => {
            serde_json::from_str(text).map_err(|_| "a text that is no list of numbers")?
        }
        Value::String(text) => {
            let bytes = STANDARD.decode(text.trim()).map_err(|_| "a text that is no base64")?;
            let (components, rest) = bytes.as_chunks::<COMPONENT_BYTES>();
            if !rest.is_empty() {
                return Err(format!("{} bytes of base64, expected 4 a component", bytes.len()));
            }
            components.iter().copied().map(f32::from_le_bytes).collect()
        }
        Value::Object(named) if named.len() == 1 => {
            return named.values().next().map_or(Err(String::new()), vector_of);
        }
        _ => return Err("expected a list of numbers".into()),
    };
    checked_vector(vector)
}

/// Refuses vectors without components or with components that are not finite.
pub(super) fn checked_vector(vector: Vec<f32>) -> Result<Vec<f32>, String> {
    match vector.iter().position(|component| !component.is_finite()) {
        _ if vector.is_empty() => Err("a vector without components".into()),
        Some(at) => Err(format!("component {at} is {}", vector[at])),
        None => Ok(vector),
    }
}

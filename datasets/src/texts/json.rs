//! JSON: a record on each line, a list of records, and an object that holds a list or columns of
//! them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::io::BufRead as _;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer as _, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::file::{Content, List, NOT_JSON, Rows, empty};
use super::record::{FoundFields, checked_vector, pass_over};
use super::shapes::{Roles, Shape, TextFields, TextRole};
use super::{TextFile, TextForm};
use crate::DataError;
use crate::error::{json_message, listed};

/// Number of records that are used to recognise the system and for errors about field names.
const SAMPLE_RECORDS: usize = 20;
/// Columns of Chroma's `get()`, with the fields of one record that they are.
const CHROMA_COLUMNS: [(&str, &str); 6] = [
    ("ids", "id"),
    ("documents", "document"),
    ("metadatas", "metadata"),
    ("embeddings", "embedding"),
    ("uris", "uri"),
    ("data", "data"),
];

/// A text in JSON and where it begins in its file.
#[derive(Debug, Clone, Copy)]
pub(super) struct JsonText<'a> {
    pub(super) text: &'a str,
    pub(super) start: usize,
}

impl<'a> JsonText<'a> {
    /// Returns where a part of the text lies in the file.
    fn span(&self, part: &str) -> Range<usize> {
        let start = part.as_ptr().addr() - self.text.as_ptr().addr() + self.start;
        start..start + part.len()
    }

    /// Returns the defect of the JSON as an error.
    fn error(&self, error: &serde_json::Error) -> DataError {
        if error.is_eof() {
            let found = format!("the JSON is cut off at line {}", error.line());
            return DataError::texts(
                found,
                "fetch or write the file again; its copy may be incomplete",
            );
        }
        not_json(error.line(), error.column(), &json_message(error))
    }

    /// Reads the text where it is one list, or an object with one; `None` where it is something
    /// else.
    pub(super) fn read_whole(
        self,
        fields: &TextFields,
        is_json: bool,
    ) -> Result<Option<TextFile>, DataError> {
        let text = self.text.trim_start();
        if text.starts_with('[') {
            return match serde_json::from_str::<Vec<&RawValue>>(text) {
                Ok(elements) => self.read_list(&elements, fields).map(Some),
                Err(error) if is_json || begins_list(text) => Err(self.error(&error)),
                Err(_) => Ok(None),
            };
        }
        if !text.starts_with('{') {
            return Ok(None);
        }
        let mut values = serde_json::Deserializer::from_str(self.text).into_iter::<&RawValue>();
        match values.next() {
            Some(Ok(first)) => {
                let rest = self.text[values.byte_offset()..].trim();
                match (rest.is_empty(), first.get().contains('\n')) {
                    (true, is_long) => self.read_object(first, fields, is_long),
                    (false, false) => Ok(None),
                    (false, true) => {
                        let line = self.text[..values.byte_offset()].lines().count() + 1;
                        Err(not_json(line, 1, "several objects that are longer than a line"))
                    }
                }
            }
            Some(Err(_)) if has_json_lines(text) => Ok(None),
            Some(Err(error)) => Err(self.error(&error)),
            None => Ok(None),
        }
    }

    fn read_list(
        self,
        elements: &[&'a RawValue],
        fields: &TextFields,
    ) -> Result<TextFile, DataError> {
        // The result of Qdrant's client: the points, and where the next ones begin.
        if let [points, _next] = elements
            && let Ok(points) = serde_json::from_str::<Vec<&RawValue>>(points.get())
            && points.first().is_some_and(|point| point.get().starts_with('{'))
        {
            return self.read_elements(&points, TextForm::Json, fields);
        }
        self.read_elements(elements, TextForm::JsonArray, fields)
    }

    fn read_object(
        self,
        object: &'a RawValue,
        fields: &TextFields,
        is_long: bool,
    ) -> Result<Option<TextFile>, DataError> {
        let members = members_of(object.get());
        let list_at = |name: &str| {
            let found = members.iter().find(|member| member.name == name)?;
            serde_json::from_str::<Vec<&RawValue>>(found.value.get()).ok()
        };
        if let (Some(ids), Some(_)) = (list_at("ids"), list_at("documents")) {
            return self.read_columns(&members, ids.len(), fields).map(Some);
        }
        for path in Shape::all_lists() {
            let mut at = Some(object.get());
            for name in path.split('.') {
                let inner = at.map(members_of).unwrap_or_default();
                at = inner.into_iter().find(|member| member.name == name).map(|it| it.value.get());
            }
            let list = at.and_then(|list| serde_json::from_str::<Vec<&RawValue>>(list).ok());
            let is_records = |list: &Vec<&RawValue>| {
                list.iter().all(|element| element.get().starts_with(['{', '"', 'n']))
            };
            if let Some(list) = list.filter(is_records) {
                return self.read_elements(&list, TextForm::Json, fields).map(Some);
            }
        }
        if !is_long {
            return Ok(None);
        }
        let names: Vec<String> = members.into_iter().map(|it| it.name.into()).collect();
        let found = format!("a JSON object without a list of memories, found {}", listed(&names));
        Err(DataError::texts(found, NO_LIST_ADVICE))
    }

    fn read_elements(
        self,
        elements: &[&'a RawValue],
        form: TextForm,
        fields: &TextFields,
    ) -> Result<TextFile, DataError> {
        if elements.is_empty() {
            return Err(empty());
        }
        let names = names_of(elements.iter().map(|element| element.get()));
        let is_strings = elements.iter().all(|element| element.get().starts_with('"'));
        let mut rows = Rows::new(form, names, fields, is_strings)?;
        for (row, element) in elements.iter().enumerate() {
            rows.push_json(element.get(), row as u64 + 1, row);
        }
        let spans = elements.iter().map(|element| self.span(element.get())).collect();
        rows.into_file(Content::joined(vec![List { name: String::new(), spans }]))
    }

    /// Reads columns side by side.
    fn read_columns(
        self,
        members: &[Member<'a>],
        row_count: usize,
        fields: &TextFields,
    ) -> Result<TextFile, DataError> {
        if row_count == 0 {
            return Err(empty());
        }
        let mut columns = Vec::new();
        for (column, field) in CHROMA_COLUMNS {
            let member = members.iter().find(|member| member.name == column);
            let values =
                member.and_then(|it| serde_json::from_str::<Vec<&RawValue>>(it.value.get()).ok());
            if let Some(values) = values.filter(|values| values.len() == row_count) {
                columns.push((field, values));
            }
        }
        let names = columns.iter().map(|(field, _)| (*field).to_owned());
        let metadata = columns.iter().find(|(field, _)| *field == "metadata");
        let metadata = metadata.map(|(_, values)| names_of(values.iter().map(|it| it.get())));
        let inner = metadata.unwrap_or_default().into_iter().map(|name| format!("metadata.{name}"));
        let names: BTreeSet<String> = names.chain(inner).collect();
        let shape = fields.shape.or_else(|| Shape::named("chroma"));
        let fields = TextFields { shape, ..fields.clone() };
        let mut rows = Rows::new(TextForm::Json, names, &fields, false)?;
        for row in 0..row_count {
            let mut found = FoundFields::default();
            for (field, values) in &columns {
                let value = values[row].get();
                take_raw(&mut found, field, value, &rows.roles, &mut rows.file.passed_over);
            }
            rows.push(found, row as u64 + 1, row);
        }
        columns.sort_by_key(|(_, values)| self.span(values[0].get()).start);
        let lists = columns.into_iter().map(|(field, values)| List {
            name: field.to_owned(),
            spans: values.iter().map(|value| self.span(value.get())).collect(),
        });
        rows.into_file(Content::joined(lists.collect()))
    }

    /// Reads a record on each line; a bad line is passed over and named.
    pub(super) fn read_lines(self, fields: &TextFields) -> Result<TextFile, DataError> {
        let lines: Vec<Line<'_>> = lines_of(self.text).collect();
        let is_strings = lines.iter().all(|line| line.text.starts_with('"'));
        let names = names_of(lines.iter().map(|line| line.text));
        let mut rows = Rows::new(TextForm::JsonLines, names, fields, is_strings)?;
        for (row, line) in lines.iter().enumerate() {
            rows.push_json(line.text, line.number, row);
        }
        let spans = lines.iter().map(|line| self.start + line.start..self.start + line.end);
        let list = List { name: String::new(), spans: spans.collect() };
        rows.into_file(Content::apart(list))
    }
}

/// A line that is not blank.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    /// The line, from 1.
    pub(super) number: u64,
    /// Without white space around it.
    pub(super) text: &'a str,
    /// Where it lies, with its end.
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Returns the lines of a text that are not blank.
pub(super) fn lines_of(text: &str) -> impl Iterator<Item = Line<'_>> {
    let (mut number, mut start) = (0, 0);
    let lines = std::iter::from_fn(move || {
        let mut rest = &text.as_bytes()[start..];
        let length = rest.skip_until(b'\n').expect("memory can be read");
        let line = Line {
            number: number + 1,
            text: text[start..start + length].trim(),
            start,
            end: start + length,
        };
        (number, start) = (line.number, line.end);
        (length > 0).then_some(line)
    });
    lines.filter(|line| !line.text.is_empty())
}

/// Tells whether a text that begins with a bracket goes on as a list of records does.
fn begins_list(text: &str) -> bool {
    text[1..].trim_start().starts_with(['{', '"'])
}

/// Tells whether at least half of the first lines are objects in JSON.
pub(super) fn has_json_lines(text: &str) -> bool {
    let (mut good, mut seen) = (0, 0);
    for line in lines_of(text).take(SAMPLE_RECORDS) {
        seen += 1;
        let is_object = line.text.starts_with('{');
        good += usize::from(is_object && serde_json::from_str::<IgnoredAny>(line.text).is_ok());
    }
    good > 0 && good * 2 >= seen
}

/// A member of an object.
struct Member<'a> {
    name: Cow<'a, str>,
    value: &'a RawValue,
}

/// Returns the members of an object; none of anything else.
fn members_of(text: &str) -> Vec<Member<'_>> {
    struct Members;
    impl<'de> Visitor<'de> for Members {
        type Value = Vec<Member<'de>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut members = Vec::new();
            while let Some(Name(name)) = map.next_key()? {
                members.push(Member { name, value: map.next_value()? });
            }
            Ok(members)
        }
    }
    serde_json::Deserializer::from_str(text).deserialize_map(Members).unwrap_or_default()
}

/// The name of a member, without a copy where it has no escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// Returns the dotted names of the fields of the first records.
fn names_of<'t>(records: impl Iterator<Item = &'t str>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let objects = records.filter(|text| text.starts_with('{'));
    let objects = objects.filter_map(|text| serde_json::from_str::<Value>(text).ok());
    for object in objects.take(SAMPLE_RECORDS) {
        add_names(&object, "", &mut names);
    }
    names
}

fn add_names(value: &Value, holder: &str, names: &mut BTreeSet<String>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let name = format!("{holder}{name}");
        add_names(value, &format!("{name}."), names);
        names.insert(name);
    }
}

impl Rows {
    /// Takes a record that is an object or a text in JSON.
    pub(super) fn push_json(&mut self, text: &str, place: u64, row: usize) {
        let mut json = serde_json::Deserializer::from_str(text);
        let record = RecordSeed { roles: &self.roles, passed_over: &mut self.file.passed_over };
        match record.deserialize(&mut json).and_then(|found| json.end().map(|()| found)) {
            Ok(found) => self.push(found, place, row),
            Err(error) if error.is_data() => self.skip(place, json_message(&error)),
            Err(error) => {
                let found = json_message(&error);
                self.skip(place, format!("{NOT_JSON}: {found}, column {}", error.column()));
            }
        }
    }
}

/// Reads numbers without a value of each where a field is a vector.
fn take_raw(
    found: &mut FoundFields,
    name: &str,
    value: &str,
    roles: &Roles,
    passed_over: &mut BTreeSet<String>,
) {
    let is_vector = roles.of(name).is_some_and(|known| known.role == TextRole::Vector);
    if is_vector && value.starts_with('[') {
        let read = serde_json::from_str(value).map_err(|_| "expected a list of numbers".to_owned());
        match read.and_then(checked_vector) {
            Ok(vector) => found.put_vector(vector),
            Err(fault) => found.fault(name, &fault),
        }
        return;
    }
    let value = serde_json::from_str(value).unwrap_or_default();
    if !found.take(name, value, roles) {
        pass_over(passed_over, name);
    }
}

const NO_LIST_ADVICE: &str = "write the list alone, as with jq '.NAME' FILE > LIST.json, or jq \
     '[.[]]' FILE > LIST.json where each field is a memory";

fn not_json(line: usize, column: usize, found: &str) -> DataError {
    let found = format!("line {line}, column {column} is not JSON: {found}");
    DataError::texts(found, "mend the line, or write one JSON object on each line")
}

/// Reads the fields of a record that have a role.
struct RecordSeed<'r> {
    roles: &'r Roles,
    passed_over: &'r mut BTreeSet<String>,
}

impl<'de> DeserializeSeed<'de> for RecordSeed<'_> {
    type Value = FoundFields;

    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<FoundFields, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for RecordSeed<'_> {
    type Value = FoundFields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or a text")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<FoundFields, E> {
        let mut found = FoundFields::default();
        found.take_whole(text.to_owned());
        Ok(found)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FoundFields, A::Error> {
        let Self { roles, passed_over } = self;
        let mut found = FoundFields::default();
        while let Some(Name(name)) = map.next_key()? {
            match roles.of(&name) {
                Some(known) if known.role == TextRole::Vector => {
                    let value: &RawValue = map.next_value()?;
                    take_raw(&mut found, &name, value.get(), roles, passed_over);
                }
                None if !roles.is_holder(&name) => {
                    map.next_value::<IgnoredAny>()?;
                    pass_over(passed_over, &name);
                }
                _ => {
                    let value: Value = map
                        .next_value()
                        .map_err(|error| A::Error::custom(format!("field {name:?}: {error}")))?;
                    if !found.take(&name, value, roles) {
                        pass_over(passed_over, &name);
                    }
                }
            }
        }
        Ok(found)
    }
}

//! The refs that memfold writes: one line per record, attached to the commit of the memory, in flow YAML with the quoting
//! of JSON.
//!
//! `git notes merge -s cat_sort_uniq` sorts the lines of both sides, so a record of several lines would fall
//! apart. Readers of YAML 1.1 end a line also at U+0085, U+2028 and U+2029 and refuse characters that
//! do not print; all of these are escaped.
//!
//! A line of `mem-meta` says of a memory its tier, its accesses, its survivor after a merge, and its changes since it
//! was captured.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use gix::ObjectId;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use memfold_core::lifecycle::{RetentionInput, RetentionPolicy, Tier, TierAssignment, assign};
use memfold_core::time::Instant;
use serde_json::{Map, Value, json};

use super::PREFIX;
use super::library::{Domain, Ids, Place};
use super::repository::{NotesRef, NotesRepository};
use crate::json::Style;
use crate::shared::attribute;
use memfold_store::origin::{OriginError, OriginRecord, OriginStatus, Skipped};

/// The fields of a record in their order.
pub(super) type Fields = Map<String, Value>;

/// Writes a record as one line, without its newline.
pub(super) fn encode(fields: &Fields) -> String {
    let line = Style::flow_yaml().write(&Value::Object(fields.clone()), "");
    let mut escaped = String::with_capacity(line.len());
    for character in line.chars() {
        match prints(character) {
            true => escaped.push(character),
            false => escaped.push_str(&format!("\\u{:04x}", u32::from(character))),
        }
    }
    escaped
}

/// Reads a line that [`encode`] wrote, or any other mapping in flow YAML.
///
/// # Errors
/// When the line is no mapping.
pub(super) fn decode(line: &str) -> Result<Fields, String> {
    if let Ok(fields) = serde_json::from_str(line) {
        return Ok(fields);
    }
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(line, options)
        .map_err(|error| format!("no mapping in one line of YAML: {error}"))
}

/// Returns a field that is text.
pub(super) fn text<'a>(fields: &'a Fields, name: &str) -> Option<&'a str> {
    fields.get(name).and_then(Value::as_str)
}

/// Returns the texts of a field that is a list.
pub(super) fn texts(fields: &Fields, name: &str) -> Vec<String> {
    let items = fields.get(name).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Tells whether a character may stand in a line of YAML as it is.
const fn prints(character: char) -> bool {
    !matches!(
        character,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
    )
}

/// The kind of the lines of a ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RefKind {
    Summaries,
    Edges,
    Meta,
    Runs,
}

/// A ref below one of the prefixes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RefKey {
    pub(super) domain: Domain,
    pub(super) kind: RefKind,
    pub(super) namespace: String,
}

/// A ref as it was read.
#[derive(Debug, Clone, Default)]
pub(super) struct WrittenRef {
    pub(super) tip: Option<ObjectId>,
    /// Contents of the notes by commit.
    pub(super) notes: BTreeMap<String, Vec<u8>>,
}

/// A line and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) key: RefKey,
    pub(super) commit: String,
    pub(super) line: String,
}

/// All lines, and their changes since they were read.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) refs: BTreeMap<RefKey, WrittenRef>,
    pub(super) skipped: Vec<Skipped>,
    entries: BTreeMap<Rc<Entry>, Fields>,
    /// Lines by the memories they name.
    mentions: BTreeMap<String, BTreeSet<Rc<Entry>>>,
    /// Lines by the unit that wrote them.
    units: BTreeMap<String, BTreeSet<Rc<Entry>>>,
    pub(super) added: BTreeSet<Rc<Entry>>,
    pub(super) removed: BTreeSet<Rc<Entry>>,
}

impl RefKind {
    pub(super) const ALL: [Self; 4] = [Self::Summaries, Self::Edges, Self::Meta, Self::Runs];

    /// Returns the prefix of the refs.
    pub(super) fn prefix(self) -> String {
        format!("{PREFIX}-{}", ["summaries", "edges", "meta", "runs"][self as usize])
    }

    /// Returns the fields that name a memory; a run names them in a list.
    const fn mentions(self) -> &'static [&'static str] {
        match self {
            Self::Summaries => &["id"],
            Self::Edges => &["source_id", "target_id"],
            Self::Meta => &["memory_id"],
            Self::Runs => &[],
        }
    }
}

impl RefKey {
    /// Returns the ref of a kind for the memories of a place.
    pub(super) fn of(kind: RefKind, place: &Place) -> Self {
        Self { domain: place.domain, kind, namespace: place.namespace.clone() }
    }

    /// Returns the full name of the ref.
    pub(super) fn reference(&self) -> String {
        format!("{}/{}", self.kind.prefix(), self.namespace)
    }
}

impl Entry {
    pub(super) fn place(&self) -> Place {
        Place {
            domain: self.key.domain,
            namespace: self.key.namespace.clone(),
            commit: self.commit.clone(),
        }
    }
}

impl Ledger {
    /// Reads all lines of a repository.
    pub(super) fn load(
        &mut self,
        repository: &NotesRepository,
        domain: Domain,
        ids: &Ids,
    ) -> Result<(), OriginError> {
        for kind in RefKind::ALL {
            for found in repository.read_below(&kind.prefix(), &mut self.skipped)? {
                let NotesRef { name, namespace, tip, notes } = found;
                let key = RefKey { domain, kind, namespace };
                let mut written = WrittenRef { tip, notes: BTreeMap::new() };
                for (commit, blob) in notes {
                    let content = repository.blob(blob)?;
                    for line in String::from_utf8_lossy(&content).lines() {
                        match decode(line) {
                            _ if line.trim().is_empty() => {}
                            Ok(fields) => {
                                let (key, commit) = (key.clone(), commit.clone());
                                let entry = Entry { key, commit, line: line.to_owned() };
                                self.index(Rc::new(entry), fields, ids);
                            }
                            Err(reason) => {
                                let place = format!("{name}@{commit}");
                                self.skipped.push(Skipped { place, reason });
                            }
                        }
                    }
                    written.notes.insert(commit, content);
                }
                self.refs.insert(key, written);
            }
        }
        Ok(())
    }

    /// Adds a line; one that is there already stays as it is.
    pub(super) fn insert(&mut self, entry: Entry, fields: Fields, ids: &Ids) {
        if self.entries.contains_key(&entry) {
            return;
        }
        let entry = Rc::new(entry);
        if !self.removed.remove(&entry) {
            self.added.insert(Rc::clone(&entry));
        }
        self.index(entry, fields, ids);
    }

    /// Takes a line out.
    pub(super) fn remove(&mut self, entry: &Rc<Entry>, ids: &Ids) {
        let Some(fields) = self.entries.remove(entry) else { return };
        for id in named(entry.key.kind, &fields, ids) {
            self.mentions.entry(id).or_default().remove(entry);
        }
        if let Some(unit) = text(&fields, "unit") {
            self.units.entry(unit.to_owned()).or_default().remove(entry);
        }
        if !self.added.remove(entry) {
            self.removed.insert(Rc::clone(entry));
        }
    }

    fn index(&mut self, entry: Rc<Entry>, fields: Fields, ids: &Ids) {
        for id in named(entry.key.kind, &fields, ids) {
            self.mentions.entry(id).or_default().insert(Rc::clone(&entry));
        }
        if let Some(unit) = text(&fields, "unit") {
            self.units.entry(unit.to_owned()).or_default().insert(Rc::clone(&entry));
        }
        self.entries.insert(entry, fields);
    }

    /// Returns the lines of a kind that name a memory.
    pub(super) fn about<'a>(
        &'a self,
        kind: RefKind,
        id: &str,
    ) -> impl Iterator<Item = (&'a Rc<Entry>, &'a Fields)> {
        let entries = self.mentions.get(id).into_iter().flatten();
        entries
            .filter(move |entry| entry.key.kind == kind)
            .filter_map(|entry| self.entries.get_key_value(entry))
    }

    /// Returns the lines that a unit wrote.
    pub(super) fn of_unit<'a>(
        &'a self,
        unit: &str,
    ) -> impl Iterator<Item = (&'a Rc<Entry>, &'a Fields)> {
        let entries = self.units.get(unit).into_iter().flatten();
        entries.filter_map(|entry| self.entries.get_key_value(entry))
    }

    /// Tells whether a unit has lines of memories, not only edges and runs.
    pub(super) fn has_memories(&self, unit: &str) -> bool {
        let mut lines = self.of_unit(unit);
        lines.any(|(entry, _)| matches!(entry.key.kind, RefKind::Meta | RefKind::Summaries))
    }

    /// Returns the unit that wrote a line.
    pub(super) fn unit(&self, entry: &Rc<Entry>) -> Option<&str> {
        self.entries.get(entry).and_then(|fields| text(fields, "unit"))
    }

    /// Returns every line of a kind.
    pub(super) fn lines(&self, kind: RefKind) -> impl Iterator<Item = (&Rc<Entry>, &Fields)> {
        self.entries.iter().filter(move |(entry, _)| entry.key.kind == kind)
    }
}

/// Returns the memories that a line names.
fn named(kind: RefKind, fields: &Fields, ids: &Ids) -> Vec<String> {
    let mut named: Vec<String> = texts(fields, "memory_ids");
    named.extend(kind.mentions().iter().filter_map(|name| text(fields, name)).map(str::to_owned));
    for id in &mut named {
        if let Some(long) = ids.resolve(id) {
            *id = long;
        }
    }
    named
}

/// Returns the content of a note without some lines and with others; none where nothing is left.
///
/// Lines that stand sorted stay sorted, as `cat_sort_uniq` leaves them; otherwise new lines follow the old.
pub(super) fn edited(content: &[u8], removed: &[&str], added: &[&str]) -> Option<Vec<u8>> {
    let mut lines: Vec<&[u8]> = content.split(|byte| *byte == b'\n').collect();
    if lines.last().is_some_and(|last| last.is_empty()) {
        lines.pop();
    }
    let is_sorted = lines.is_sorted() && lines.iter().all(|line| !line.is_empty());
    lines.retain(|line| !removed.iter().any(|removed| removed.as_bytes() == *line));
    for line in added {
        if !lines.contains(&line.as_bytes()) {
            lines.push(line.as_bytes());
        }
    }
    if is_sorted {
        lines.sort_unstable();
    }
    let mut edited = lines.join(&b'\n');
    edited.push(b'\n');
    lines.iter().any(|line| !line.trim_ascii().is_empty()).then_some(edited)
}

/// The tier of a memory that no line speaks of.
const TIER_DEFAULT: &str = "hot";
const TIER_ARCHIVED: &str = "archived";
/// Fields of a line beyond the owner's, only where the record differs from the note.
const OVERRIDES: [&str; 5] = ["text", "tags", "attributes", "importance", "expires_at"];

/// The place of a line among the lines of one memory: the last one counts.
///
/// `cat_sort_uniq` sorts lines, so their order in the note says nothing.
pub(super) fn order<'a>(fields: &Fields, line: &'a str) -> (Option<Timestamp>, &'a str) {
    (updated_at(fields), line)
}

fn updated_at(fields: &Fields) -> Option<Timestamp> {
    text(fields, "updated_at").and_then(|time| time.parse().ok())
}

/// Returns the tier that the line speaks of.
pub(super) fn tier(fields: Option<&Fields>) -> &str {
    fields.and_then(|fields| text(fields, "tier")).unwrap_or(TIER_DEFAULT)
}

/// Changes a record as a line says; `resolve` finds ids under their other form.
pub(super) fn overlay(
    record: &mut OriginRecord,
    fields: &Fields,
    line: &str,
    resolve: impl Fn(&str) -> String,
) {
    if let Some(count) = fields.get("activation_count").and_then(Value::as_i64) {
        record.access_count = count;
    }
    if let Some(time) = text(fields, "last_accessed") {
        record.last_accessed = Some(time.to_owned());
    }
    if OVERRIDES.iter().any(|name| fields.contains_key(*name)) {
        record.updated_at = text(fields, "updated_at").map(str::to_owned);
    }
    override_fields(record, fields);
    record.status = match text(fields, "consolidated_into").filter(|id| !id.is_empty()) {
        Some(into) => OriginStatus::Merged { into: resolve(into) },
        None if tier(Some(fields)) == TIER_ARCHIVED => OriginStatus::Archived,
        None => OriginStatus::Live,
    };
    record.raw.push('\n');
    record.raw.push_str(line);
}

fn override_fields(record: &mut OriginRecord, fields: &Fields) {
    if let Some(text) = text(fields, "text") {
        text.clone_into(&mut record.text);
    }
    if fields.contains_key("tags") {
        record.tags = texts(fields, "tags");
    }
    if let Some(attributes) = fields.get("attributes").and_then(Value::as_object) {
        record.attributes = attributes_of(attributes);
    }
    if let Some(importance) = fields.get("importance").and_then(Value::as_f64) {
        record.importance = importance;
    }
    if let Some(time) = fields.get("expires_at") {
        record.expires_at = time.as_str().map(str::to_owned);
    }
}

/// Reads attributes in the order of their names.
pub(super) fn attributes_of(fields: &Fields) -> Vec<(String, String)> {
    let texts =
        fields.iter().filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    let mut attributes: Vec<_> = texts.collect();
    attributes.sort();
    attributes
}

/// Writes attributes as a mapping.
pub(super) fn attributes_value(attributes: &[(String, String)]) -> Value {
    let pairs = attributes.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
    Value::Object(pairs.collect())
}

/// Tells whether two states of a memory are the same to everybody who reads them.
pub(super) fn says_the_same(one: &OriginRecord, other: &OriginRecord) -> bool {
    (&one.text, &one.tags, one.access_count, &one.status, &one.expires_at)
        == (&other.text, &other.tags, other.access_count, &other.status, &other.expires_at)
        && one.importance.total_cmp(&other.importance).is_eq()
        && sorted(&one.attributes) == sorted(&other.attributes)
}

fn sorted(attributes: &[(String, String)]) -> BTreeSet<&(String, String)> {
    attributes.iter().collect()
}

/// A new line for a memory.
pub(super) struct NewMeta<'a> {
    /// The record as it shall be.
    pub(super) record: &'a OriginRecord,
    /// The record without any line.
    pub(super) base: &'a OriginRecord,
    /// The line that counted so far.
    pub(super) prior: Option<&'a Fields>,
    /// The survivor of its merge, `Some(None)` where it is archived for another reason.
    pub(super) retired: Option<Option<&'a str>>,
    pub(super) at: &'a str,
}

impl NewMeta<'_> {
    /// Returns the fields; the run's own are the caller's to add.
    pub(super) fn fields(&self) -> Fields {
        let prior = |name| self.prior.and_then(|fields| fields.get(name)).cloned();
        let assignment = self.assignment();
        let tier = match (self.retired, assignment.tier) {
            (Some(_), _) => TIER_ARCHIVED,
            (None, Tier::Hot) => "hot",
            (None, Tier::Warm) => "warm",
            // A live memory is not archived, however old it is.
            (None, Tier::Cold | Tier::Archived) => "cold",
        };
        let retention = assignment.retention;
        let retention = json!({
            "overall": retention.overall, "recency": rounded(retention.recency),
            "activation": rounded(retention.activation), "importance": rounded(retention.importance),
        });
        let mut fields = Fields::new();
        let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        set("memory_id", self.base.id.as_str().into());
        set("tier", tier.into());
        set("activation_count", self.record.access_count.into());
        set("last_accessed", self.record.last_accessed.clone().into());
        set("retention", retention);
        set("superseded_by", prior("superseded_by").unwrap_or_default());
        set("consolidated_into", self.retired.flatten().map(str::to_owned).into());
        set("created_at", prior("created_at").unwrap_or_else(|| self.at.into()));
        set("updated_at", self.updated_at().into());
        self.add_overrides(&mut fields);
        for (name, value) in self.prior.into_iter().flatten() {
            let is_own = OWN_FIELDS.iter().chain(&OVERRIDES).any(|own| own == name);
            if !is_own && !fields.contains_key(name) {
                fields.insert(name.clone(), value.clone());
            }
        }
        fields
    }

    /// Returns the time of the change, moved behind the line that it shall replace.
    fn updated_at(&self) -> String {
        let prior = self.prior.and_then(updated_at);
        let (Ok(at), Some(prior)) = (self.at.parse::<Timestamp>(), prior) else {
            return self.at.to_owned();
        };
        if at > prior {
            return self.at.to_owned();
        }
        Instant(prior.as_microsecond().saturating_add(1)).to_rfc3339()
    }

    fn add_overrides(&self, fields: &mut Fields) {
        let (record, base) = (self.record, self.base);
        let has_others = sorted(&record.attributes) != sorted(&base.attributes);
        let is_other_rank = record.importance.total_cmp(&base.importance).is_ne();
        for (name, is_other, value) in [
            ("text", record.text != base.text, json!(record.text)),
            ("tags", record.tags != base.tags, json!(record.tags)),
            ("attributes", has_others, attributes_value(&record.attributes)),
            ("importance", is_other_rank, json!(record.importance)),
            ("expires_at", record.expires_at != base.expires_at, json!(record.expires_at)),
        ] {
            fields.extend(is_other.then(|| (name.to_owned(), value)));
        }
    }

    fn assignment(&self) -> TierAssignment {
        let instant = |time: &Option<String>| {
            time.as_ref().and_then(|time| Instant::parse(time, &TimeZone::UTC))
        };
        let namespace = attribute(self.record, "namespace");
        let categories: Vec<Box<str>> = namespace.map(Box::from).into_iter().collect();
        let created_at = instant(&self.record.created_at);
        let input = RetentionInput {
            created_at,
            last_accessed: instant(&self.record.last_accessed),
            access_count: self.record.access_count,
            categories: &categories,
            importance: self.record.importance,
            is_superseded: self.retired.is_some_and(|into| into.is_some()),
            is_pinned: false,
            is_summary: false,
        };
        let now = Instant::parse(self.at, &TimeZone::UTC).or(created_at).unwrap_or(Instant(0));
        assign(&input, now, &RetentionPolicy::default())
    }
}

/// Fields that every line of ours makes anew, beside [`OVERRIDES`].
const OWN_FIELDS: [&str; 4] = ["consolidation_run_id", "rule", "reason", "unit"];

/// Cuts a share to nine decimals, as the overall retention is.
fn rounded(share: f64) -> f64 {
    (share * 1e9).round() / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fields(value: Value) -> Fields {
        let Value::Object(fields) = value else { panic!("{value}") };
        fields
    }

    #[test]
    fn a_line_is_json_and_yaml() {
        let fields = fields(json!({
            "id": "a", "text": "two\nlines \"quoted\" --- \u{2028}\u{85}\u{7f}\u{feff}é🙂 \\n",
            "list": [1, -2.5, 1e-9, 3.0, null, true], "map": {"x: y": []}, "": {},
        }));
        let line = encode(&fields);
        assert_eq!(
            line,
            "{\"id\": \"a\", \"text\": \"two\\nlines \\\"quoted\\\" --- \\u2028\\u0085\\u007f\\ufeffé🙂 \\\\n\", \
             \"list\": [1, -2.5, 0.000000001, 3.0, null, true], \"map\": {\"x: y\": []}, \"\": {}}"
        );
        assert_eq!(decode(&line), Ok(fields));
    }

    #[test]
    fn lines_of_others_are_read() {
        let read = decode(
            "{memory_id: decisions:abc1234:0, tier: hot, retention: {overall: 1.0}, tags: [a, b]}",
        );
        let expected = json!({
            "memory_id": "decisions:abc1234:0", "tier": "hot", "retention": {"overall": 1.0}, "tags": ["a", "b"],
        });
        assert_eq!(read, Ok(fields(expected)));
        for wrong in ["- a", "text", "{a: ", "[1]"] {
            assert!(decode(wrong).is_err(), "{wrong:?}");
        }
    }

    /// Values that YAML and JSON both have.
    fn value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            any::<String>(),
            "(-{3}|\n|\"|'|: |# |\\{|\\}|\\\\|[\u{80}-\u{a0}]|\u{2028}|\r){0,6}"
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            (-1e6..1e6f64).prop_map(Value::from),
            text.prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn lines_round_trip(map in prop::collection::btree_map(any::<String>(), value(), 0..5)) {
            let fields: Fields = map.into_iter().collect();
            let line = encode(&fields);
            prop_assert!(!line.contains(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']), "{:?}", line);
            prop_assert_eq!(decode(&line), Ok(fields.clone()));
            let yaml: Fields = serde_saphyr::from_str(&line).map_err(|e| TestCaseError::fail(e.to_string()))?;
            prop_assert_eq!(yaml, fields);
        }
    }

    #[test]
    fn lines_come_and_go() {
        let content = |bytes: Option<Vec<u8>>| bytes.map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(content(edited(b"", &[], &["b", "a"])).as_deref(), Some("a\nb\n"));
        assert_eq!(content(edited(b"a\nc\n", &[], &["b"])).as_deref(), Some("a\nb\nc\n"));
        assert_eq!(content(edited(b"a\nb\nc\n", &["b"], &[])).as_deref(), Some("a\nc\n"));
        assert_eq!(content(edited(b"a\n", &["a"], &[])), None);
        // Lines of others keep their order.
        assert_eq!(content(edited(b"z\n\na\n", &[], &["b"])).as_deref(), Some("z\n\na\nb\n"));
        assert_eq!(content(edited(b"z\n\na\nb\n", &["b"], &[])).as_deref(), Some("z\n\na\n"));
        assert_eq!(content(edited(b"a", &[], &["a"])).as_deref(), Some("a\n"));
    }
}

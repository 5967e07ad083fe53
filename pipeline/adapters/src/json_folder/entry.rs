//! A memory as an entry of a file, and as a record.
//!
//! Its text is made of its members, in lines:
//!
//! | part | lines |
//! |---|---|
//! | `title` of the entry; `title`, `concept`, `name` of the content | as they are |
//! | `content` that is text; of the content `summary`, `description`, `definition`, `details`, `text` | as they are |
//! | `outcome`, `lessons`, `lessons_learned`, `learnings`, then all other members by name, `timeline` last | `name: value` |
//! | a list | a line `name: item` for each item |
//! | an object within the content | `name.member: value` |
//! | an object within a list | `member: value; member: value` |
//!
//! The order of the members in the file does not matter, so that equal contents have equal texts.

use jiff::{Span, Timestamp, tz::TimeZone};
use serde_json::{Value, json};

use crate::json::{
    Kind, Member, Node, Piece, Style, indent_at, parse, quoted, set, set_existing, spliced, unset,
    with_member, with_more, with_pieces, with_texts, without_member,
};
use crate::shared::{retired_status, words};
use memfold_store::origin::{LinkKind, OriginLink, OriginRecord, OriginStatus};

/// Members with one value each that are attributes of the record.
const ATTRIBUTES: [&str; 8] =
    ["created_by", "priority", "promoted_to", "protected", "scope", "scope_id", "subtype", "type"];

/// The agent's name for work that no agent did.
const SYSTEM: &str = "SYSTEM";

/// Returns the record of an entry; an error says why it is none.
pub(super) fn record(raw: &str, entry: &Node) -> Result<OriginRecord, String> {
    if !entry.is_object() {
        return Err("it is no object".to_owned());
    }
    let id = match entry.get("id") {
        Some(id) => id.text().filter(|id| !id.is_empty()).ok_or("its id is no text")?,
        None => return Err("it has no id".to_owned()),
    };
    let said = said(entry).ok_or("it says nothing")?;
    let any_of = |keys: &[&str]| keys.iter().find_map(|key| entry.text_of(key)).map(str::to_owned);
    let created_at = any_of(&["created_at", "timestamp", "created"]);
    let source = any_of(&["created_by", "source"]).unwrap_or_default();
    Ok(OriginRecord {
        id: id.to_owned(),
        text: said,
        tags: tags(entry),
        attributes: attributes(entry),
        importance: importance(entry),
        access_count: entry.get("access_count").and_then(integer).unwrap_or(0).max(0),
        expires_at: any_of(&["expires_at"]).or_else(|| expires_at(entry, created_at.as_deref())),
        created_at,
        updated_at: any_of(&["updated_at", "modified_at"]),
        last_accessed: any_of(&["last_accessed", "last_accessed_at"]),
        source,
        links: links(entry),
        vector: None,
        status: status(entry),
        place: String::new(),
        raw: raw.to_owned(),
    })
}

fn integer(node: &Node) -> Option<i64> {
    if let Kind::Number(number) = &node.kind { number.parse().ok() } else { None }
}

/// Tags: a list, or a text with commas.
fn tags(entry: &Node) -> Vec<String> {
    match entry.get("tags").map(|tags| &tags.kind) {
        Some(Kind::List(items)) => items.iter().filter_map(Node::text).map(str::to_owned).collect(),
        Some(Kind::Text(text)) => words(text),
        _ => Vec::new(),
    }
}

fn attributes(entry: &Node) -> Vec<(String, String)> {
    let value = |name: &&str| match &entry.get(name)?.kind {
        Kind::Text(text) if !text.is_empty() => Some(((*name).to_owned(), text.clone())),
        Kind::Bool(true) => Some(((*name).to_owned(), "true".to_owned())),
        _ => None,
    };
    ATTRIBUTES.iter().filter_map(value).collect()
}

/// Importance of a priority, by default medium. A protected entry counts as critical.
fn importance(entry: &Node) -> f64 {
    if entry.get("protected").is_some_and(|protected| protected.kind == Kind::Bool(true)) {
        return 3.0;
    }
    match entry.text_of("priority") {
        Some("critical") => 3.0,
        Some("high") => 2.0,
        Some("low") => 0.5,
        _ => 1.0,
    }
}

/// `ttl` after the creation: an ISO duration or `30d`; `permanent` never ends.
fn expires_at(entry: &Node, created_at: Option<&str>) -> Option<String> {
    let ttl: Span = entry.text_of("ttl")?.parse().ok()?;
    let created: Timestamp = created_at?.parse().ok()?;
    let end = created.to_zoned(TimeZone::UTC).checked_add(ttl).ok()?;
    Some(end.timestamp().to_string())
}

fn links(entry: &Node) -> Vec<OriginLink> {
    let mut links = Vec::new();
    for to in ids(entry.get("supersedes")) {
        links.push(OriginLink { kind: LinkKind::Supersedes, to });
    }
    for reference in entry.get("references").map(Node::items).unwrap_or_default() {
        if reference.text_of("type").is_some_and(|kind| kind != "memory") {
            continue;
        }
        let Some(to) = reference.text_of("id").or_else(|| reference.text()) else { continue };
        let kind = match reference.text_of("relationship") {
            Some("supersedes") => LinkKind::Supersedes,
            _ => LinkKind::References,
        };
        links.push(OriginLink { kind, to: to.to_owned() });
    }
    links
}

/// The ids of a text or of a list of texts.
fn ids(node: Option<&Node>) -> Vec<String> {
    let Some(node) = node else { return Vec::new() };
    node.text()
        .into_iter()
        .chain(node.items().iter().filter_map(Node::text))
        .filter(|id| !id.is_empty())
        .map(str::to_owned)
        .collect()
}

fn status(entry: &Node) -> OriginStatus {
    let is_archived = matches!(entry.text_of("lifecycle"), Some("archived" | "deleted"));
    match ids(entry.get("superseded_by")).first() {
        None if !is_archived => OriginStatus::Live,
        into => retired_status(into.map(String::as_str)),
    }
}

fn set_tags(raw: &mut String, tags: &[String]) {
    let Ok(entry) = parse(raw) else { return };
    *raw = match entry.get("tags") {
        Some(list) if list.is_list() => with_texts(raw, list, tags),
        Some(text) if text.text().is_some() => {
            with_member(raw, &entry, "tags", &quoted(&tags.join(", ")))
        }
        _ => {
            let indent = entry.members().last().map_or(0, |last| last.span.start);
            let value = Style::of(raw).write(&Value::from(tags), indent_at(raw, indent));
            with_member(raw, &entry, "tags", &value)
        }
    };
}

/// Names other memories: in a list where one stood, else the first as a text.
fn set_ids(raw: &mut String, key: &str, new: &[String]) {
    let (Some(first), Ok(entry)) = (new.first(), parse(raw)) else { return };
    *raw = match entry.get(key) {
        Some(list) if list.is_list() => {
            let known = ids(Some(list));
            let added = new.iter().filter(|id| !known.contains(id));
            with_more(raw, list, added.map(|id| quoted(id)))
        }
        // A text has room for one: the first stays, so that writing again changes nothing.
        Some(text) if text.text().is_some_and(|id| !id.is_empty()) => return,
        _ => with_member(raw, &entry, key, &quoted(first)),
    };
}

/// Returns an entry with the differences of a record from the entry itself, and with the memories that merged into
/// it. Everything else stays as it is.
pub(super) fn updated(
    raw: &str,
    record: &OriginRecord,
    merged: &[String],
    at: &str,
) -> Result<String, String> {
    let before = parse(raw).and_then(|entry| self::record(raw, &entry))?;
    let mut new = with_said(raw, &record.text);
    if record.tags != before.tags {
        set_tags(&mut new, &record.tags);
    }
    for (name, value) in &record.attributes {
        if !before.attributes.iter().any(|(known, old)| (known, old) == (name, value)) {
            set(&mut new, name, &quoted(value));
        }
    }
    set_ids(&mut new, "supersedes", merged);
    if new != *raw {
        set_existing(&mut new, "updated_at", &quoted(at));
        set_existing(&mut new, "updated_by", &quoted(SYSTEM));
    }
    if record.access_count != before.access_count {
        set(&mut new, "access_count", &record.access_count.to_string());
    }
    if let Some(accessed) = &record.last_accessed
        && is_later(accessed, before.last_accessed.as_deref())
    {
        set_existing(&mut new, "last_accessed", &quoted(accessed));
    }
    Ok(new)
}

/// Where an entry keeps the fields of contents that merged into it.
const LINEAGE: &str = "lineage";

/// Returns an entry that keeps the fields of the content of another one, which merges into it, that it lacks or has with
/// another value, and the lineage of the other one. An id that it keeps already stays as it is.
pub(super) fn with_lineage(raw: &str, id: &str, other: &str) -> String {
    let (Ok(entry), Ok(older)) = (parse(raw), parse(other)) else { return raw.to_owned() };
    let kept = entry.get(LINEAGE);
    if kept.is_some_and(|kept| !kept.is_list()) {
        return raw.to_owned();
    }
    let known = kept.map(Node::items).unwrap_or_default().iter();
    let known: Vec<&str> = known.filter_map(|item| item.text_of("id")).collect();
    let fields = fields_apart(raw, &entry, other, &older).join(", ");
    let own = format!("{{\"id\": {}, \"content\": {{{fields}}}}}", quoted(id));
    let own = Some(own).filter(|_| !fields.is_empty() && !known.contains(&id));
    let earlier = older.get(LINEAGE).map(Node::items).unwrap_or_default().iter();
    let earlier = earlier.filter(|item| item.text_of("id").is_some_and(|id| !known.contains(&id)));
    let new: Vec<String> =
        own.into_iter().chain(earlier.map(|item| item.raw(other).to_owned())).collect();
    match kept {
        _ if new.is_empty() => raw.to_owned(),
        Some(list) => with_more(raw, list, new),
        None => with_member(raw, &entry, LINEAGE, &format!("[{}]", new.join(", "))),
    }
}

/// Returns the fields of an older content that a newer one lacks or has with another value, as written.
fn fields_apart<'o>(raw: &str, newer: &Node, other: &'o str, older: &Node) -> Vec<&'o str> {
    let contents = (newer.get("content"), older.get("content"));
    let (Some(newer), Some(older)) = contents else { return Vec::new() };
    if !newer.is_object() {
        return Vec::new();
    }
    let value =
        |text: &str, node: &Node| serde_json::from_str::<Value>(node.raw(text)).unwrap_or_default();
    let is_apart = |member: &&Member| match newer.get(&member.key) {
        Some(own) => value(raw, own) != value(other, &member.value),
        None => true,
    };
    older.members().iter().filter(is_apart).map(|member| &other[member.span.clone()]).collect()
}

/// Tells whether a time is later than another one, however they are written.
fn is_later(time: &str, other: Option<&str>) -> bool {
    let instant = |text: &str| text.parse::<Timestamp>().ok();
    instant(time).is_some_and(|time| other.and_then(instant).is_none_or(|other| time > other))
}

/// Returns an entry as it is indented where its last line has this indentation.
pub(super) fn indented(raw: &str, indent: &str) -> String {
    let Some(newline) = raw.rfind('\n') else { return raw.to_owned() };
    let own = indent_at(raw, newline + 1);
    let lines = raw.split('\n').enumerate().map(|(at, line)| match line.strip_prefix(own) {
        Some(rest) if at > 0 => [indent, rest].concat(),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns a retired entry.
pub(super) fn retired(raw: &str, into: Option<&str>) -> String {
    let mut raw = raw.to_owned();
    set_ids(&mut raw, "superseded_by", &Vec::from_iter(into.map(str::to_owned)));
    set_existing(&mut raw, "lifecycle", &quoted("archived"));
    raw
}

/// Returns the entry of a record that memfold wrote, after the example of an entry that it was made of.
pub(super) fn created(record: &OriginRecord, made_of: &[String], example: Option<&str>) -> String {
    let entry = json!({ "id": "", "type": "semantic", "created_by": SYSTEM, "content": "" });
    let blank = || Style::usual().write(&entry, "    ");
    let mut raw = example.map_or_else(blank, str::to_owned);
    for gone in ["superseded_by", "promoted_to", "last_accessed"] {
        unset(&mut raw, gone);
    }
    set(&mut raw, "id", &quoted(&record.id));
    raw = with_said(&raw, &record.text);
    set_tags(&mut raw, &record.tags);
    for (name, value) in record.attributes.iter().filter(|(name, _)| name != "protected") {
        set(&mut raw, name, &quoted(value));
    }
    if let Some(at) = &record.created_at {
        set(&mut raw, "created_at", &quoted(at));
        set_existing(&mut raw, "updated_at", &quoted(record.updated_at.as_ref().unwrap_or(at)));
    }
    set(&mut raw, "access_count", &record.access_count.to_string());
    match record.tags.iter().any(|tag| tag == PROMOTED) {
        true => unset(&mut raw, "supersedes"),
        false => set_ids(&mut raw, "supersedes", made_of),
    }
    raw
}

/// The tag of a copy in a wider scope.
pub(super) const PROMOTED: &str = "promoted";

/// Members that stand without their name, in this order.
const PLAIN: [&str; 8] =
    ["title", "concept", "name", "summary", "description", "definition", "details", "text"];

/// Members that stand next, in this order; all others follow by name.
const RESULTS: [&str; 4] = ["outcome", "lessons", "lessons_learned", "learnings"];

/// The member that stands last: it is long and matters least.
const TIMELINE: &str = "timeline";

/// Members of objects in lists that stand first, in this order.
const EVENT: [&str; 3] = ["time", "event", "actor"];

/// A line of the text, or several of one value.
struct Part {
    /// Where the value stands within the entry.
    path: Vec<Step>,
    /// `outcome: `, or nothing.
    label: String,
    said: String,
    is_text: bool,
}

#[derive(Clone)]
enum Step {
    Member(String),
    Item(usize),
}

impl Part {
    fn line(&self) -> String {
        [self.label.as_str(), &self.said].concat()
    }
}

/// Returns the text of an entry; `None` where it has none.
fn said(entry: &Node) -> Option<String> {
    let lines: Vec<String> = parts(entry).iter().map(Part::line).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Returns an entry that says a text: members that it still says stay where they are.
fn with_said(raw: &str, text: &str) -> String {
    let Ok(entry) = parse(raw) else { return raw.to_owned() };
    if said(&entry).as_deref() == Some(text) {
        return raw.to_owned();
    }
    let says = |raw: &String| parse(raw).is_ok_and(|entry| said(&entry).as_deref() == Some(text));
    shortened(raw, &entry, text).filter(says).unwrap_or_else(|| replaced(raw, &entry, text))
}

/// Puts the whole text in the place of the content.
fn replaced(raw: &str, entry: &Node, text: &str) -> String {
    let title = entry.text_of("title").filter(|title| !title.trim().is_empty());
    let rest = title.and_then(|title| text.strip_prefix(title)?.strip_prefix('\n'));
    let value = match entry.get("content").map(|content| &content.kind) {
        Some(Kind::Object(_)) => format!("{{\"details\": {}}}", quoted(rest.unwrap_or(text))),
        _ => quoted(rest.unwrap_or(text)),
    };
    let raw = with_member(raw, entry, "content", &value);
    match parse(&raw) {
        Ok(entry) if title.is_some() && rest.is_none() => without_member(&raw, &entry, "title"),
        _ => raw,
    }
}

/// Leaves out members that the text no longer says; the longest one takes the new text.
fn shortened(raw: &str, entry: &Node, text: &str) -> Option<String> {
    let parts = parts(entry);
    let texts = parts.iter().enumerate().filter(|(_, part)| part.is_text);
    let (longest, _) = texts.max_by_key(|(at, part)| (part.said.len(), usize::MAX - at))?;
    let mut rest = text;
    let mut dropped = Vec::new();
    for part in &parts[..longest] {
        match rest.strip_prefix(&part.line()).and_then(|rest| rest.strip_prefix('\n')) {
            Some(after) => rest = after,
            None => dropped.push(part),
        }
    }
    for part in parts[longest + 1..].iter().rev() {
        match rest.strip_suffix(&part.line()).and_then(|rest| rest.strip_suffix('\n')) {
            Some(before) => rest = before,
            None => dropped.push(part),
        }
    }
    let new = rest.strip_prefix(&parts[longest].label)?;
    let raw = spliced(raw, &at(entry, &parts[longest].path)?.span, &quoted(new));
    // Later items first, so that the positions of the earlier ones stay.
    dropped.sort_by_key(|part| match part.path.last() {
        Some(Step::Item(at)) => usize::MAX - at,
        _ => usize::MAX,
    });
    dropped.into_iter().try_fold(raw, |raw, part| without(&raw, &part.path))
}

fn without(raw: &str, path: &[Step]) -> Option<String> {
    let entry = parse(raw).ok()?;
    let (last, parent) = path.split_last()?;
    let parent = at(&entry, parent)?;
    Some(match last {
        Step::Member(key) => without_member(raw, parent, key),
        Step::Item(gone) => {
            let kept = (0..parent.items().len()).filter(|at| at != gone).map(Piece::Kept);
            with_pieces(raw, parent, kept)
        }
    })
}

fn at<'n>(node: &'n Node, path: &[Step]) -> Option<&'n Node> {
    path.iter().try_fold(node, |node, step| match step {
        Step::Member(key) => node.get(key),
        Step::Item(at) => node.items().get(*at),
    })
}

fn parts(entry: &Node) -> Vec<Part> {
    let mut parts = Vec::new();
    let content = entry.get("content");
    if let Some(title) = entry.get("title") {
        add(&mut parts, &[Step::Member("title".into())], "", title);
    }
    let here = [Step::Member("content".into())];
    match content {
        Some(content) if content.is_object() => members(&mut parts, content),
        Some(content) if content.is_list() => add(&mut parts, &here, "content", content),
        Some(content) => add(&mut parts, &here, "", content),
        None => {
            if let Some(summary) = entry.get("summary") {
                add(&mut parts, &[Step::Member("summary".into())], "", summary);
            }
        }
    }
    parts
}

fn members(parts: &mut Vec<Part>, content: &Node) {
    let rank = |key: &str| {
        let known = PLAIN.iter().chain(&RESULTS).position(|known| *known == key);
        known.unwrap_or(if key == TIMELINE { usize::MAX } else { usize::MAX - 1 })
    };
    for (key, value) in ordered(content, rank) {
        let path = [Step::Member("content".into()), Step::Member(key.into())];
        let is_plain = PLAIN.contains(&key) && value.text().is_some();
        add(parts, &path, if is_plain { "" } else { key }, value);
    }
}

/// Returns the members of an object by their ranks, then by their names.
fn ordered(node: &Node, rank: impl Fn(&str) -> usize) -> Vec<(&str, &Node)> {
    let mut keys: Vec<&str> = node.members().iter().map(|member| &*member.key).collect();
    keys.sort_by_key(|key| (rank(key), *key));
    keys.dedup();
    keys.into_iter().filter_map(|key| Some((key, node.get(key)?))).collect()
}

/// Adds the lines of a value.
fn add(parts: &mut Vec<Part>, path: &[Step], name: &str, value: &Node) {
    let below = |step: Step| [path, &[step]].concat();
    match &value.kind {
        Kind::Object(_) => {
            for (key, inner) in ordered(value, |_| 0) {
                add(parts, &below(Step::Member(key.into())), &format!("{name}.{key}"), inner);
            }
        }
        Kind::List(items) => {
            for (at, item) in items.iter().enumerate() {
                push(parts, below(Step::Item(at)), name, item);
            }
        }
        _ => push(parts, path.to_vec(), name, value),
    }
}

fn push(parts: &mut Vec<Part>, path: Vec<Step>, name: &str, value: &Node) {
    let said = inline(value);
    if !said.trim().is_empty() {
        let label = if name.is_empty() { String::new() } else { format!("{name}: ") };
        parts.push(Part { path, label, said, is_text: value.text().is_some() });
    }
}

/// Writes a value in one line, unless its own text has more.
fn inline(value: &Node) -> String {
    match &value.kind {
        Kind::Null => String::new(),
        Kind::Bool(bool) => bool.to_string(),
        Kind::Number(number) => number.clone(),
        Kind::Text(text) => text.clone(),
        Kind::List(items) => items.iter().map(inline).collect::<Vec<_>>().join(", "),
        Kind::Object(members) => {
            let rank =
                |key: &str| EVENT.iter().position(|known| *known == key).unwrap_or(EVENT.len());
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|member| (rank(&member.key), &member.key));
            let said = members.into_iter().map(|member| (&member.key, inline(&member.value)));
            let said = said.filter(|(_, said)| !said.is_empty());
            said.map(|(key, said)| format!("{key}: {said}")).collect::<Vec<_>>().join("; ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(raw: &str) -> OriginRecord {
        record(raw, &parse(raw).unwrap()).unwrap()
    }

    #[test]
    fn the_three_shapes_are_read() {
        let schema = read(
            r#"{"id": "mem_abcdefghijkl", "type": "procedural", "subtype": "workflow", "created_by": "DEV-001",
            "created_at": "2025-12-18T00:00:00+08:00", "scope": "agent", "scope_id": "DEV-001", "tags": ["a"],
            "priority": "high", "ttl": "P30D", "content": {"title": "T"}, "access_count": 7,
            "references": [{"type": "memory", "id": "mem_b", "relationship": "related_to"}, {"type": "url", "id": "u"}],
            "supersedes": ["mem_c"], "superseded_by": null}"#,
        );
        assert_eq!((schema.importance, schema.access_count), (2.0, 7));
        assert_eq!(schema.expires_at.as_deref(), Some("2026-01-16T16:00:00Z"));
        assert_eq!((&*schema.source, schema.links.len()), ("DEV-001", 2));
        assert_eq!(schema.attributes[1], ("priority".into(), "high".into()));
        let versioned = read(
            r#"{"id": "MEM-20251218-ABC123", "title": "T", "summary": "S", "protected": true, "ttl": "30d",
            "created_at": "2025-12-18T00:00:00Z", "lifecycle": "archived", "superseded_by": ["x", "y"]}"#,
        );
        assert_eq!(versioned.text, "T\nS");
        assert_eq!(versioned.status, OriginStatus::Merged { into: "x".into() });
        assert_eq!(versioned.expires_at.as_deref(), Some("2026-01-17T00:00:00Z"));
        let plain = read(
            r#"{"id": "x", "type": "fact", "content": "C", "tags": "a, b", "source": "chat"}"#,
        );
        assert_eq!((plain.tags.len(), &*plain.source, plain.importance), (2, "chat", 1.0));
        for (raw, reason) in [
            ("1", "it is no object"),
            ("{}", "it has no id"),
            (r#"{"id": 3}"#, "its id is no text"),
            (r#"{"id": "a", "content": ""}"#, "it says nothing"),
        ] {
            assert_eq!(record(raw, &parse(raw).unwrap()).unwrap_err(), reason);
        }
    }

    #[test]
    fn an_update_changes_only_what_is_other() {
        let raw = "{\n  \"id\": \"a\",\n  \"x\": 1.50,\n  \"tags\": [\n    \"t\"\n  ],\n  \"content\": \"C\",\n  \"updated_at\": \"old\"\n}";
        let before = read(raw);
        assert_eq!(updated(raw, &before, &[], "now").unwrap(), raw);
        let mut record = before;
        record.tags.push("u".into());
        let merged = ["b".to_owned(), "c".to_owned()];
        assert_eq!(
            updated(raw, &record, &merged, "now").unwrap(),
            "{\n  \"id\": \"a\",\n  \"x\": 1.50,\n  \"tags\": [\n    \"t\",\n    \"u\"\n  ],\n  \"content\": \"C\",\n  \"updated_at\": \"now\",\n  \"supersedes\": \"b\"\n}"
        );
        assert_eq!(
            retired(r#"{"superseded_by": [], "lifecycle": "active"}"#, Some("a")),
            r#"{"superseded_by": ["a"], "lifecycle": "archived"}"#
        );
        assert_eq!(retired(r#"{"superseded_by": null}"#, Some("a")), r#"{"superseded_by": "a"}"#);
    }

    /// The fields of an older content went to the archive alone, and readers of the live entry no longer saw them.
    #[test]
    fn what_only_the_older_content_has_stays_in_the_lineage() {
        let newer = r#"{"id": "n", "content": {"fact": "F", "owner": "QA", "list": [1, 2]}}"#;
        let older = r#"{"id": "o", "content": {"fact": "F", "owner": "DEV", "since": 1.50, "list": [ 1,2 ]}}"#;
        let merged = with_lineage(newer, "o", older);
        assert_eq!(
            merged,
            r#"{"id": "n", "content": {"fact": "F", "owner": "QA", "list": [1, 2]}, "lineage": [{"id": "o", "content": {"owner": "DEV", "since": 1.50}}]}"#
        );
        assert_eq!(read(&merged).text, read(newer).text, "it is no part of the text");
        assert_eq!(with_lineage(&merged, "o", older), merged, "once");
        // A lineage goes on with the entry that it is of.
        let newest = r#"{"id": "x", "content": {"fact": "F", "owner": "QA", "list": [1, 2]}}"#;
        assert_eq!(
            with_lineage(newest, "n", &merged),
            newest.replace(
                "2]}}",
                r#"2]}, "lineage": [{"id": "o", "content": {"owner": "DEV", "since": 1.50}}]}"#
            )
        );
        for (newer, older) in [
            (newer, newer),
            (newer, r#"{"id": "o", "content": "F"}"#),
            (r#"{"id": "n", "content": "F"}"#, older),
            (r#"{"id": "n", "content": {"a": 1}, "lineage": "of others"}"#, older),
        ] {
            assert_eq!(with_lineage(newer, "o", older), newer);
        }
    }

    fn text(json: &str) -> Option<String> {
        said(&parse(json).unwrap())
    }

    #[test]
    fn contents_become_texts() {
        for (json, expected) in [
            (r#"{"content": "Use tabs."}"#, "Use tabs."),
            (r#"{"title": "Tabs", "content": "Use tabs.", "summary": "s"}"#, "Tabs\nUse tabs."),
            (r#"{"title": "Tabs", "summary": "Use tabs."}"#, "Tabs\nUse tabs."),
            (
                r#"{"content": {"timeline": [{"actor": "DEV-001", "event": "began", "time": "10:00"}],
                    "lessons": ["a", "b"], "weight": 2, "details": {"who": "QA", "n": null},
                    "outcome": "done", "title": "Release"}}"#,
                "Release\ndetails.who: QA\noutcome: done\nlessons: a\nlessons: b\nweight: 2\n\
                 timeline: time: 10:00; event: began; actor: DEV-001",
            ),
            (r#"{"content": {"definition": "A queue.", "concept": "WAL"}}"#, "WAL\nA queue."),
            (r#"{"content": ["a", ["b", "c"]]}"#, "content: a\ncontent: b, c"),
        ] {
            assert_eq!(text(json).as_deref(), Some(expected), "{json}");
        }
        for empty in ["{}", r#"{"content": {}}"#, r#"{"content": "  "}"#, r#"{"content": null}"#] {
            assert_eq!(text(empty), None, "{empty}");
        }
    }

    #[test]
    fn a_shorter_text_keeps_the_members_that_it_still_says() {
        let raw = r#"{"content": {"title": "T", "details": "one two three", "timeline": ["a", "b", "c"], "outcome": "ok"}, "z": 1}"#;
        assert_eq!(
            with_said(raw, "T\none three\noutcome: ok\ntimeline: a\ntimeline: c"),
            r#"{"content": {"title": "T", "details": "one three", "timeline": ["a", "c"], "outcome": "ok"}, "z": 1}"#
        );
    }

    #[test]
    fn any_text_can_be_said() {
        let entries = [
            r#"{"id": "a", "content": "x"}"#,
            r#"{"id": "a", "title": "T", "content": "x"}"#,
            r#"{"id": "a"}"#,
            r#"{"content": {"a": 1}}"#,
            r#"{"content": {"title": "T", "details": {"who": "me"}, "timeline": ["a", "b"]}}"#,
            r#"{"title": "T", "content": {"details": "x", "lessons": ["l"]}}"#,
        ];
        for raw in entries {
            for new in ["New.", "T\nNew.", "T\nx", "T", "a\nb: c\n\nd", "T\ndetails.who: me"] {
                assert_eq!(text(&with_said(raw, new)).as_deref(), Some(new), "{raw}");
            }
        }
    }
}

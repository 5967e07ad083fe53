//! A memory as an entry of a file, and as a record.

use jiff::{Span, Timestamp, tz::TimeZone};
use serde_json::Value;

use super::edit::{Piece, Style, indent_at, with_member, with_pieces, without_member};
use super::json::{Kind, Member, Node, parse, quoted};
use super::text;
use memfold_store::origin::{LinkKind, OriginLink, OriginRecord, OriginStanding};

/// Members with one value each that are attributes of the record.
pub(super) const ATTRIBUTES: [&str; 8] =
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
    let said = text::said(entry).ok_or("it says nothing")?;
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
        standing: standing(entry),
        place: String::new(),
        raw: raw.to_owned(),
    })
}

fn integer(node: &Node) -> Option<i64> {
    if let Kind::Number(number) = &node.kind { number.parse().ok() } else { None }
}

/// Tags: a list, or a text with commas.
pub(super) fn tags(entry: &Node) -> Vec<String> {
    let words = |text: &str| {
        text.split(',').map(str::trim).filter(|tag| !tag.is_empty()).map(str::to_owned).collect()
    };
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

/// Importance of a priority; what has none is of medium importance. What is protected counts as critical.
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

fn standing(entry: &Node) -> OriginStanding {
    if let Some(into) = ids(entry.get("superseded_by")).into_iter().next() {
        return OriginStanding::Merged { into };
    }
    match entry.text_of("lifecycle") {
        Some("archived" | "deleted") => OriginStanding::Archived,
        _ => OriginStanding::Live,
    }
}

/// An entry that is being changed.
struct Entry {
    raw: String,
}

impl Entry {
    fn edit(&mut self, change: impl FnOnce(&str, &Node) -> String) {
        if let Ok(entry) = parse(&self.raw) {
            self.raw = change(&self.raw, &entry);
        }
    }

    fn set(&mut self, key: &str, value: &str) {
        self.edit(|raw, entry| with_member(raw, entry, key, value));
    }

    fn set_text(&mut self, key: &str, text: &str) {
        self.set(key, &quoted(text));
    }

    /// Sets a text where the entry has the member.
    fn set_where_stands(&mut self, key: &str, text: &str) {
        if parse(&self.raw).is_ok_and(|entry| entry.get(key).is_some()) {
            self.set_text(key, text);
        }
    }

    fn drop(&mut self, key: &str) {
        self.edit(|raw, entry| without_member(raw, entry, key));
    }

    fn set_tags(&mut self, tags: &[String]) {
        self.edit(|raw, entry| match entry.get("tags") {
            Some(list) if list.is_list() => {
                let piece = |tag: &String| {
                    let same = |item: &Node| item.text() == Some(tag);
                    let kept = list.items().iter().position(same).map(Piece::Kept);
                    kept.unwrap_or_else(|| Piece::New(quoted(tag)))
                };
                with_pieces(raw, list, &tags.iter().map(piece).collect::<Vec<_>>())
            }
            Some(text) if text.text().is_some() => {
                with_member(raw, entry, "tags", &quoted(&tags.join(", ")))
            }
            _ => {
                let indent = entry.members().last().map_or(0, |last| last.span.start);
                let value = Style::of(raw).write(&Value::from(tags), indent_at(raw, indent));
                with_member(raw, entry, "tags", &value)
            }
        });
    }

    /// Names other memories: in a list where one stood, else the first as a text.
    fn set_ids(&mut self, key: &str, new: &[String]) {
        let Some(first) = new.first() else { return };
        self.edit(|raw, entry| match entry.get(key) {
            Some(list) if list.is_list() => {
                let known = ids(Some(list));
                let kept = (0..list.items().len()).map(Piece::Kept);
                let added = new.iter().filter(|id| !known.contains(id));
                let added = added.map(|id| Piece::New(quoted(id)));
                with_pieces(raw, list, &kept.chain(added).collect::<Vec<_>>())
            }
            // A text has room for one: the first stays, so that writing again changes nothing.
            Some(text) if text.text().is_some_and(|id| !id.is_empty()) => raw.to_owned(),
            _ => with_member(raw, entry, key, &quoted(first)),
        });
    }
}

/// Returns an entry with what is other in a record than in the entry itself, and with the memories that merged into
/// it. What is so already stays as it is.
pub(super) fn updated(
    raw: &str,
    record: &OriginRecord,
    merged: &[String],
    at: &str,
) -> Result<String, String> {
    let before = parse(raw).and_then(|entry| self::record(raw, &entry))?;
    let mut entry = Entry { raw: text::with_said(raw, &record.text) };
    if record.tags != before.tags {
        entry.set_tags(&record.tags);
    }
    for (name, value) in &record.attributes {
        if !before.attributes.iter().any(|(known, old)| (known, old) == (name, value)) {
            entry.set_text(name, value);
        }
    }
    entry.set_ids("supersedes", merged);
    if entry.raw != *raw {
        entry.set_where_stands("updated_at", at);
        entry.set_where_stands("updated_by", SYSTEM);
    }
    if record.access_count != before.access_count {
        entry.set("access_count", &record.access_count.to_string());
    }
    if let Some(accessed) = &record.last_accessed
        && is_later(accessed, before.last_accessed.as_deref())
    {
        entry.set_where_stands("last_accessed", accessed);
    }
    Ok(entry.raw)
}

/// Where an entry keeps the fields of contents that merged into it.
const LINEAGE: &str = "lineage";

/// Returns an entry that keeps what only the content of another one, which merges into it, has: fields that it lacks or
/// has with another value, and the lineage of the other one. What it keeps of that id already stays as it is.
pub(super) fn with_lineage(raw: &str, id: &str, other: &str) -> String {
    let (Ok(entry), Ok(older)) = (parse(raw), parse(other)) else { return raw.to_owned() };
    let kept = entry.get(LINEAGE);
    if kept.is_some_and(|kept| !kept.is_list()) {
        return raw.to_owned();
    }
    let known = lineage_ids(&entry);
    let fields = fields_apart(raw, &entry, other, &older).join(", ");
    let own = format!("{{\"id\": {}, \"content\": {{{fields}}}}}", quoted(id));
    let own = Some(own).filter(|_| !fields.is_empty() && !known.contains(&id));
    let earlier = older.get(LINEAGE).map(Node::items).unwrap_or_default().iter();
    let earlier = earlier.filter(|item| item.text_of("id").is_some_and(|id| !known.contains(&id)));
    let new: Vec<String> =
        own.into_iter().chain(earlier.map(|item| other[item.span.clone()].to_owned())).collect();
    match kept {
        _ if new.is_empty() => raw.to_owned(),
        Some(list) => {
            let pieces = (0..list.items().len()).map(Piece::Kept);
            let pieces: Vec<Piece> = pieces.chain(new.into_iter().map(Piece::New)).collect();
            with_pieces(raw, list, &pieces)
        }
        None => with_member(raw, &entry, LINEAGE, &format!("[{}]", new.join(", "))),
    }
}

fn lineage_ids(entry: &Node) -> Vec<&str> {
    let items = entry.get(LINEAGE).map(Node::items).unwrap_or_default();
    items.iter().filter_map(|item| item.text_of("id")).collect()
}

/// Returns the fields of an older content that a newer one lacks or has with another value, as written.
fn fields_apart<'o>(raw: &str, newer: &Node, other: &'o str, older: &Node) -> Vec<&'o str> {
    let contents = (newer.get("content"), older.get("content"));
    let (Some(newer), Some(older)) = contents else { return Vec::new() };
    if !newer.is_object() {
        return Vec::new();
    }
    let value = |text: &str, node: &Node| {
        serde_json::from_str::<Value>(&text[node.span.clone()]).unwrap_or_default()
    };
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
    let mut entry = Entry { raw: raw.to_owned() };
    if let Some(into) = into {
        entry.set_ids("superseded_by", &[into.to_owned()]);
    }
    entry.set_where_stands("lifecycle", "archived");
    entry.raw
}

/// Returns the entry of a record that memfold wrote, after the example of an entry that it was made of.
pub(super) fn created(record: &OriginRecord, made_of: &[String], example: Option<&str>) -> String {
    let blank = || {
        let members = [("id", ""), ("type", "semantic"), ("created_by", SYSTEM), ("content", "")];
        let members = members.map(|(key, value)| (key.to_owned(), Value::from(value)));
        Style::usual().write(&Value::Object(members.into_iter().collect()), "    ")
    };
    let mut entry = Entry { raw: example.map_or_else(blank, str::to_owned) };
    for gone in ["superseded_by", "promoted_to", "last_accessed"] {
        entry.drop(gone);
    }
    entry.set_text("id", &record.id);
    entry.raw = text::with_said(&entry.raw, &record.text);
    entry.set_tags(&record.tags);
    for (name, value) in record.attributes.iter().filter(|(name, _)| name != "protected") {
        entry.set_text(name, value);
    }
    if let Some(at) = &record.created_at {
        entry.set_text("created_at", at);
        entry.set_where_stands("updated_at", record.updated_at.as_ref().unwrap_or(at));
    }
    entry.set("access_count", &record.access_count.to_string());
    let is_copy = record.tags.iter().any(|tag| tag == PROMOTED);
    if is_copy {
        entry.drop("supersedes");
    } else {
        entry.set_ids("supersedes", made_of);
    }
    entry.raw
}

/// The tag of a copy in a wider scope.
pub(super) const PROMOTED: &str = "promoted";

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
        assert_eq!(versioned.standing, OriginStanding::Merged { into: "x".into() });
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

    /// The fields of an older content went to the archive alone, and whoever reads the live entry no longer saw them.
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
}

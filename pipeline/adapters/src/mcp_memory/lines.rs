//! `memory.jsonl` in pieces that are edited one by one: everything but the observations that change stays byte for byte.
//!
//! A piece is a line. A file that is one JSON document, an array of entities and relations or an object with lists of
//! them, is cut as if each entity and each relation stood on a line.

use serde::{Deserialize, Serialize};

use crate::json::{Kind, Node, parse};

/// A line as it is understood.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Line {
    /// An entity with its observations.
    Entity(EntityLine),
    /// A relation.
    Relation(Relation),
    /// A relation that lacks a field, or nothing.
    Other,
    /// Something that cannot be understood, and why.
    Bad(String),
}

/// The fields of a relation.
const RELATION: [&str; 3] = ["from", "to", "relationType"];
/// A relation between two entities.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Relation {
    /// The name of the entity where it starts.
    pub from: String,
    /// The name of the entity where it ends.
    pub to: String,
    /// The type.
    pub relation_type: String,
}

/// Where observations that are objects have their text.
const TEXTS: [&str; 4] = ["text", "content", "observation", "contents"];
/// The lists of a document.
const LISTS: [&str; 2] = ["entities", "relations"];

/// An entity as written.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EntityLine {
    pub(super) name: String,
    pub(super) entity_type: Option<String>,
    /// Each observation as written, and its text where it is one.
    pub(super) observations: Vec<(String, Option<String>)>,
}

impl Line {
    /// Reads a line.
    pub(super) fn read(text: &str) -> Self {
        let text = trimmed(text);
        if text.is_empty() {
            return Self::Other;
        }
        let fields = match parse(text) {
            Ok(fields) => fields,
            Err(error) => return Self::Bad(format!("no JSON: {error}")),
        };
        if !fields.is_object() {
            return Self::Bad("no JSON object".to_owned());
        }
        // Some servers of the same layout write `_type`, others no type.
        let has = |key: &str| fields.get(key).is_some();
        match fields.get("type").or_else(|| fields.get("_type")).and_then(Node::text) {
            Some("relation") => return relation(&fields).map_or(Self::Other, Self::Relation),
            Some("entity") => {}
            Some(other) => {
                return Self::Bad(format!("type {other:?} is neither entity nor relation"));
            }
            None if RELATION.iter().all(|key| has(key)) => {
                return relation(&fields).map_or(Self::Other, Self::Relation);
            }
            None if has("name") && has("observations") => {}
            None => return Self::Bad("no field \"type\"".to_owned()),
        }
        let Some(name) = fields.text_of("name") else {
            return Self::Bad("an entity without a name".to_owned());
        };
        let observations = fields.get("observations");
        if observations.is_some_and(|list| !list.is_list() && list.kind != Kind::Null) {
            return Self::Bad("the observations are no list".to_owned());
        }
        let observations = observations.map(Node::items).unwrap_or_default().iter();
        Self::Entity(EntityLine {
            name: name.to_owned(),
            entity_type: fields.text_of("entityType").map(str::to_owned),
            observations: observations
                .map(|node| (node.raw(text).to_owned(), text_of(node)))
                .collect(),
        })
    }
}

impl EntityLine {
    /// Returns the observations; one that is not a text as written.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        (0..self.observations.len()).map(|at| self.text(at))
    }

    pub(super) fn text(&self, at: usize) -> &str {
        let (raw, text) = &self.observations[at];
        text.as_ref().unwrap_or(raw)
    }
}

fn trimmed(line: &str) -> &str {
    line.trim_start_matches('\u{feff}').trim()
}

fn relation(fields: &Node) -> Option<Relation> {
    let [from, to, relation_type] = RELATION.map(|key| fields.text_of(key).map(str::to_owned));
    Some(Relation { from: from?, to: to?, relation_type: relation_type? })
}

/// Returns the text of an observation as written in JSON, which may be a field of an object; `None` where there is none.
pub(super) fn observation_text(raw: &str) -> Option<String> {
    text_of(&parse(raw).ok()?)
}

fn text_of(node: &Node) -> Option<String> {
    node.text().or_else(|| TEXTS.iter().find_map(|key| node.text_of(key))).map(str::to_owned)
}

/// Returns the line with these observations, each as written.
pub(super) fn with_observations(line: &str, observations: &[&str]) -> String {
    let text = trimmed(line);
    let start = text.as_ptr() as usize - line.as_ptr() as usize;
    let Ok(fields) = parse(text) else { return line.to_owned() };
    let separator = usual_separator(line);
    let Some(list) = fields.get("observations").filter(|list| list.is_list()) else {
        // A list becomes the last field.
        let colon = if separator == ", " { ": " } else { ":" };
        let end = start + fields.span.end - 1;
        let list = observations.join(separator);
        return format!(
            "{}{separator}\"observations\"{colon}[{list}]{}",
            &line[..end],
            &line[end..]
        );
    };
    let items = list.items();
    let separator = match items {
        [first, second, ..] => &text[first.span.end..second.span.start],
        _ => separator,
    };
    let (inner, outer) = (list.span.start + 1, list.span.end - 1);
    let (lead, tail) = match (items.first(), items.last()) {
        (Some(first), Some(last)) if !observations.is_empty() => {
            (&text[inner..first.span.start], &text[last.span.end..outer])
        }
        _ => ("", ""),
    };
    let (before, after) = (&line[..start + inner], &line[start + outer..]);
    format!("{before}{lead}{}{tail}{after}", observations.join(separator))
}

/// Python writes blanks behind commas and colons, JavaScript does not.
fn usual_separator(line: &str) -> &'static str {
    if line.contains("\": ") { ", " } else { "," }
}

/// A file in pieces, which together are the file.
pub(super) struct Pieces<'a> {
    pub(super) parts: Vec<&'a [u8]>,
    /// The parts that are members of a document; `None` for a file of lines.
    members: Option<Vec<usize>>,
}

impl<'a> Pieces<'a> {
    /// Cuts a file.
    pub(super) fn of(memory: &'a [u8]) -> Self {
        let Some(document) = std::str::from_utf8(memory).ok().and_then(document) else {
            let parts = memory.split_inclusive(|byte| *byte == b'\n').collect();
            return Self { parts, members: None };
        };
        let lists = LISTS.iter().filter_map(|key| document.get(key));
        let mut members: Vec<&Node> = lists.chain([&document]).flat_map(Node::items).collect();
        members.sort_by_key(|member| member.span.start);
        let (mut parts, mut at, mut which) = (Vec::new(), 0, Vec::new());
        for Node { span, .. } in members.into_iter().filter(|member| member.is_object()) {
            if span.start > at {
                parts.push(&memory[at..span.start]);
            }
            which.push(parts.len());
            parts.push(&memory[span.clone()]);
            at = span.end;
        }
        if at < memory.len() {
            parts.push(&memory[at..]);
        }
        Self { parts, members: Some(which) }
    }

    pub(super) const fn is_document(&self) -> bool {
        self.members.is_some()
    }

    /// Tells whether a part is read as an entity or a relation.
    pub(super) fn is_read(&self, part: usize) -> bool {
        self.members.as_ref().is_none_or(|members| members.binary_search(&part).is_ok())
    }
}

/// Reads a text that is one document: an array, or an object with a list of entities or relations.
fn document(text: &str) -> Option<Node> {
    let is_list = |node: &Node| node.is_list();
    parse(text)
        .ok()
        .filter(|node| is_list(node) || LISTS.iter().any(|key| node.get(key).is_some_and(is_list)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(line: &str) -> EntityLine {
        match Line::read(line) {
            Line::Entity(entity) => entity,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn everything_else_stays_as_written() {
        for line in [
            r#"{"type":"entity","name":"A","entityType":"t","observations":["a","b","c"]}"#,
            r#"{ "observations" : [ "a", "b", "c" ] , "x": {"y": [1, "]"]}, "type": "entity", "name":"A"}"#,
            "{\"type\": \"entity\", \"name\": \"A\", \"observations\": [\"\\u00e4\\\"\", \"b\", {\"k\": [1,2]}], \"z\": 1}\r",
        ] {
            let raw: Vec<String> =
                entity(line).observations.into_iter().map(|(raw, _)| raw).collect();
            assert_eq!(raw.len(), 3, "{line}");
            let raw: Vec<&str> = raw.iter().map(String::as_str).collect();
            assert_eq!(with_observations(line, &raw), line);
            let fewer = with_observations(line, &[raw[0], raw[2]]);
            assert_eq!(with_observations(&fewer, &raw), line);
            assert_eq!(entity(&fewer).observations.len(), 2);
        }
    }

    /// JavaScript writes half a surrogate pair where it cuts an emoji in two. It hid all observations of its entity.
    #[test]
    fn half_of_an_emoji_costs_only_itself() {
        let line = r#"{"type":"entity","name":"A","observations":["cut \ud83d","\ud83d\ude00 \\ud83d","\ude00x"]}"#;
        let texts: Vec<_> =
            entity(line).observations.into_iter().map(|(_, text)| text.unwrap()).collect();
        assert_eq!(texts, ["cut \u{fffd}", "\u{1f600} \\ud83d", "\u{fffd}x"]);
        assert_eq!(entity(line).observations[0].0, r#""cut \ud83d""#, "the spelling stays");
        assert!(matches!(Line::read(r#"{"a":"\"#), Line::Bad(_)));
        assert!(matches!(Line::read("{\"a\":\"\\é\"}"), Line::Bad(_)));
    }

    #[test]
    fn an_empty_or_missing_list_takes_observations() {
        for (line, expected) in [
            (
                r#"{"type":"entity","name":"A","observations":[]}"#,
                r#"{"type":"entity","name":"A","observations":["a","b"]}"#,
            ),
            (
                r#"{"type": "entity", "name": "A"}"#,
                r#"{"type": "entity", "name": "A", "observations": ["a", "b"]}"#,
            ),
        ] {
            assert_eq!(with_observations(line, &[r#""a""#, r#""b""#]), expected);
        }
        let line = r#"{"type":"entity","name":"A","observations":["a"],"observations":["b"]}"#;
        let last = [(r#""b""#.to_owned(), Some("b".to_owned()))];
        assert_eq!(entity(line).observations, last, "the last of two lists counts");
    }

    #[test]
    fn lines_that_are_no_entities_say_why() {
        for (line, reason) in [
            ("{", "no JSON"),
            ("[1]", "no JSON object"),
            (r#"{"name":"A"}"#, "no field \"type\""),
            (r#"{"type":"thing"}"#, "neither entity nor relation"),
            (r#"{"type":"entity"}"#, "without a name"),
            (r#"{"type":"entity","name":"A","observations":"x"}"#, "no list"),
        ] {
            let Line::Bad(found) = Line::read(line) else { panic!("{line}") };
            assert!(found.contains(reason), "{found}");
        }
        assert_eq!(Line::read(" \r"), Line::Other);
        assert_eq!(Line::read(r#"{"type":"relation","from":"A","to":"B"}"#), Line::Other);
    }

    #[test]
    fn a_document_is_cut_into_its_members_and_a_file_into_its_lines() {
        for (text, members) in [
            (
                "[\n  {\"name\": \"A\"},\n  {\"name\": \"]\"}\n]\n",
                vec!["{\"name\": \"A\"}", "{\"name\": \"]\"}"],
            ),
            (
                "{\"version\": [1], \"entities\": [{\"a\": [{}]}], \"relations\" : [ {\"from\": \"x\"}]}",
                vec!["{\"a\": [{}]}", "{\"from\": \"x\"}"],
            ),
            ("[]", vec![]),
        ] {
            let pieces = Pieces::of(text.as_bytes());
            assert!(pieces.is_document());
            let read: Vec<&str> = (0..pieces.parts.len())
                .filter(|part| pieces.is_read(*part))
                .map(|part| std::str::from_utf8(pieces.parts[part]).unwrap())
                .collect();
            assert_eq!(read, members);
            assert_eq!(pieces.parts.concat(), text.as_bytes());
        }
        for text in ["{\"type\":\"entity\",\"name\":\"A\"}\n{}", "", "{\"type\":\"entity\"}", "[1"]
        {
            let pieces = Pieces::of(text.as_bytes());
            assert!(
                !pieces.is_document() && (0..pieces.parts.len()).all(|part| pieces.is_read(part))
            );
        }
    }
}

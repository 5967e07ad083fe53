//! Changes of JSON text in place: what is not changed keeps its bytes, and what is new is written in
//! the style of what stands around it.

use std::ops::Range;

use serde_json::Value;

use super::json::{Kind, Node, quoted};

/// How a file is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Style {
    /// What a level is indented by; `None`: all in one line.
    unit: Option<String>,
    newline: &'static str,
    colon: &'static str,
    comma: &'static str,
}

/// An item of a list or a member of an object as it shall be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// The one at this position, with its bytes.
    Kept(usize),
    /// A new one, as JSON.
    New(String),
}

impl Style {
    /// Returns the style of a file or of a part of it.
    pub(super) fn of(text: &str) -> Self {
        let lines = || text.lines().filter(|line| !line.trim().is_empty());
        let second = lines().nth(1).map(indent);
        let last = lines().next_back().map(indent).unwrap_or_default();
        let unit = second.map(|second| match second.strip_prefix(last) {
            Some(unit) if !unit.is_empty() => unit.to_owned(),
            _ => "  ".to_owned(),
        });
        let is_tight = !text.contains("\": ") && text.contains("\":");
        Self {
            unit,
            newline: if text.contains("\r\n") { "\r\n" } else { "\n" },
            colon: if is_tight { ":" } else { ": " },
            comma: if is_tight { "," } else { ", " },
        }
    }

    /// Returns the style of files that are new.
    pub(super) fn usual() -> Self {
        Self { unit: Some("  ".to_owned()), newline: "\n", colon: ": ", comma: ", " }
    }

    /// Writes a value that stands in a line with this indentation.
    pub(super) fn write(&self, value: &Value, indent: &str) -> String {
        let pieces: Vec<String> = match value {
            Value::Array(items) => {
                items.iter().map(|item| self.write_inner(item, indent)).collect()
            }
            Value::Object(map) => map
                .iter()
                .map(|(key, inner)| {
                    format!("{}{}{}", quoted(key), self.colon, self.write_inner(inner, indent))
                })
                .collect(),
            plain => return plain.to_string(),
        };
        let (open, close) = if value.is_array() { ('[', ']') } else { ('{', '}') };
        let (head, comma, tail) = match &self.unit {
            _ if pieces.is_empty() => (String::new(), String::new(), String::new()),
            None => (String::new(), self.comma.to_owned(), String::new()),
            Some(unit) => {
                let head = format!("{}{indent}{unit}", self.newline);
                (head.clone(), format!(",{head}"), format!("{}{indent}", self.newline))
            }
        };
        format!("{open}{head}{}{tail}{close}", pieces.join(&comma))
    }

    fn write_inner(&self, value: &Value, indent: &str) -> String {
        match &self.unit {
            Some(unit) => self.write(value, &format!("{indent}{unit}")),
            None => self.write(value, indent),
        }
    }
}

/// Returns the indentation of a line.
fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// Returns the indentation of the line that a place stands in.
pub(super) fn indent_at(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    indent(&text[start..])
}

/// Returns the text with a member of an object set to a value, which is JSON in the style of the text.
pub(super) fn with_member(text: &str, object: &Node, key: &str, value: &str) -> String {
    let members = object.members();
    if let Some(old) = object.get(key) {
        return spliced(text, &old.span, value);
    }
    let colon = members.last().map_or(": ", |last| {
        let key_and_colon = &text[last.span.start..last.value.span.start];
        &key_and_colon[key_and_colon.rfind(':').unwrap_or(0)..]
    });
    let member = format!("{}{colon}{value}", quoted(key));
    let pieces: Vec<Piece> =
        (0..members.len()).map(Piece::Kept).chain([Piece::New(member)]).collect();
    spliced(text, &object.span, &rebuilt(text, object, &pieces))
}

/// Returns the text without a member of an object.
pub(super) fn without_member(text: &str, object: &Node, key: &str) -> String {
    let members = object.members();
    let kept = (0..members.len()).filter(|&at| members[at].key != key).map(Piece::Kept);
    spliced(text, &object.span, &rebuilt(text, object, &kept.collect::<Vec<_>>()))
}

/// Returns the text with a list or object made of these pieces.
pub(super) fn with_pieces(text: &str, container: &Node, pieces: &[Piece]) -> String {
    spliced(text, &container.span, &rebuilt(text, container, pieces))
}

/// Returns the text with other bytes in the place of some.
pub(super) fn spliced(text: &str, span: &Range<usize>, new: &str) -> String {
    [&text[..span.start], new, &text[span.end..]].concat()
}

/// Writes a list or object of these pieces.
fn rebuilt(text: &str, container: &Node, pieces: &[Piece]) -> String {
    let spans: Vec<&Range<usize>> = match &container.kind {
        Kind::Object(members) => members.iter().map(|member| &member.span).collect(),
        _ => container.items().iter().map(|item| &item.span).collect(),
    };
    let (open, close) = if container.is_object() { ("{", "}") } else { ("[", "]") };
    if pieces.is_empty() {
        let stays_empty = spans.is_empty();
        return if stays_empty {
            text[container.span.clone()].into()
        } else {
            [open, close].concat()
        };
    }
    let Separators { head, between, tail } = separators(text, container, &spans, pieces);
    let mut new = [open, &head].concat();
    for (at, piece) in pieces.iter().enumerate() {
        if at > 0 {
            let follows = match (&pieces[at - 1], piece) {
                (Piece::Kept(before), Piece::Kept(here)) if before + 1 == *here => {
                    Some(&text[spans[*before].end..spans[*here].start])
                }
                _ => None,
            };
            new.push_str(follows.unwrap_or(&between));
        }
        match piece {
            Piece::Kept(kept) => new.push_str(&text[spans[*kept].clone()]),
            Piece::New(json) => new.push_str(json),
        }
    }
    new + &tail + close
}

/// What stands around the pieces of a list or object.
struct Separators {
    head: String,
    between: String,
    tail: String,
}

fn separators(
    text: &str,
    container: &Node,
    spans: &[&Range<usize>],
    pieces: &[Piece],
) -> Separators {
    let style = Style::of(text);
    if let (Some(first), Some(last)) = (spans.first(), spans.last()) {
        let head = &text[container.span.start + 1..first.start];
        let tail = &text[last.end..container.span.end - 1];
        let between = match spans {
            [first, second, ..] => text[first.end..second.start].to_owned(),
            _ if head.contains('\n') => format!(",{head}"),
            _ => style.comma.to_owned(),
        };
        return Separators { head: head.to_owned(), between, tail: tail.to_owned() };
    }
    let closing = pieces.iter().find_map(|piece| match piece {
        // The closing bracket of a value that was written in several lines stands where the value began.
        Piece::New(json) if json.ends_with(['}', ']']) && !container.is_object() => {
            json.rfind('\n').map(|newline| indent(&json[newline + 1..]).to_owned())
        }
        _ => None,
    });
    let outer = indent_at(text, container.span.start);
    let inner = match (closing, &style.unit) {
        (Some(inner), _) => inner,
        (None, Some(unit)) => format!("{outer}{unit}"),
        (None, None) => {
            // An empty list does not show how it was written; what comes to it does.
            let comma = pieces.iter().find_map(|piece| match piece {
                Piece::New(json) => Some(Style::of(json).comma),
                Piece::Kept(_) => None,
            });
            let between = comma.unwrap_or(style.comma).to_owned();
            return Separators { head: String::new(), between, tail: String::new() };
        }
    };
    let newline =
        match pieces.iter().any(|piece| matches!(piece, Piece::New(json) if json.contains("\r\n")))
        {
            true => "\r\n",
            false => style.newline,
        };
    let head = format!("{newline}{inner}");
    Separators { between: format!(",{head}"), head, tail: format!("{newline}{outer}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::json::parse;
    use super::*;

    fn set(text: &str, key: &str, value: &str) -> String {
        with_member(text, &parse(text).unwrap(), key, value)
    }

    #[test]
    fn members_are_set_in_the_style_around_them() {
        for (text, expected) in [
            (r#"{"a":1}"#, r#"{"a":1,"b":[2]}"#),
            (r#"{ "a" : 1, "z": 2 }"#, r#"{ "a" : 1, "z": 2, "b": [2] }"#),
            ("{\n\t\"a\": 1\n}\n", "{\n\t\"a\": 1,\n\t\"b\": [2]\n}\n"),
            ("{}", "{\"b\": [2]}"),
            (r#"{"b": 0, "c": "é"}"#, r#"{"b": [2], "c": "é"}"#),
            (r#"{"b": 0, "b": 1}"#, r#"{"b": 0, "b": [2]}"#),
        ] {
            assert_eq!(set(text, "b", "[2]"), expected);
        }
        let text = "{\n  \"a\": 1,\n  \"b\": 2\n}";
        assert_eq!(without_member(text, &parse(text).unwrap(), "a"), "{\n  \"b\": 2\n}");
        assert_eq!(without_member(text, &parse(text).unwrap(), "b"), "{\n  \"a\": 1\n}");
    }

    #[test]
    fn what_leaves_a_list_comes_back_to_the_same_bytes() {
        for text in [
            "[\n  {\n    \"a\": 1\n  },\n  {\n    \"a\": 2\n  }\n]\n",
            "[\r\n\t{\"a\": 1},\r\n\t{\"a\": 2}\r\n]",
            "[{\"a\":1},{\"a\":2}]",
            "[{\"a\": 1}, {\"a\": 2}]",
            "[\n  {\n    \"a\": 1\n  }\n]\n",
        ] {
            let list = parse(text).unwrap();
            let count = list.items().len();
            for gone in 0..count {
                let raw = &text[list.items()[gone].span.clone()];
                let kept: Vec<Piece> =
                    (0..count).filter(|&at| at != gone).map(Piece::Kept).collect();
                let without = with_pieces(text, &list, &kept);
                let mut back: Vec<Piece> = (0..count - 1).map(Piece::Kept).collect();
                back.insert(gone, Piece::New(raw.to_owned()));
                let again = with_pieces(&without, &parse(&without).unwrap(), &back);
                assert_eq!(again.replace('\r', ""), text.replace('\r', ""), "{without}");
            }
        }
    }

    #[test]
    fn new_values_follow_the_style() {
        let value = json!({"a": [1, {"b": "x"}], "c": [], "d": {}});
        for text in [format!("{value:#}"), value.to_string()] {
            assert_eq!(Style::of(&text).write(&value, ""), text);
        }
        let spaced = r#"{"a": [1, {"b": "x"}], "c": [], "d": {}}"#;
        assert_eq!(Style::of(spaced).write(&value, ""), spaced);
    }
}

//! JSON with the place of every value, so that one member of a text changes and every other byte stays. New values are
//! written in the style of the text around it.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Error, Value};

/// A value and the bytes that it takes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) span: Range<usize>,
    pub(crate) kind: Kind,
}

/// The kind of a [`Node`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Null,
    Bool(bool),
    /// As written.
    Number(String),
    Text(String),
    List(Vec<Node>),
    Object(Vec<Member>),
}

/// A member of an object; the span is that of key and value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Member {
    pub(crate) span: Range<usize>,
    pub(crate) key: String,
    pub(crate) value: Node,
}

/// Lists and objects within each other, at most: deeper ones would overflow the stack.
const DEPTH_MAX: usize = 128;

impl Node {
    /// Returns the members of an object; none of anything else.
    pub(crate) fn members(&self) -> &[Member] {
        if let Kind::Object(members) = &self.kind { members } else { &[] }
    }

    /// Returns the items of a list; none of anything else.
    pub(crate) fn items(&self) -> &[Self] {
        if let Kind::List(items) = &self.kind { items } else { &[] }
    }

    /// Returns the value of a member. Of members of one name the last counts, as for most readers.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.members().iter().rev().find(|member| member.key == key).map(|member| &member.value)
    }

    /// Returns the text of a text.
    pub(crate) fn text(&self) -> Option<&str> {
        if let Kind::Text(text) = &self.kind { Some(text) } else { None }
    }

    /// Returns the text of a member that is a text.
    pub(crate) fn text_of(&self, key: &str) -> Option<&str> {
        self.get(key)?.text()
    }

    pub(crate) const fn is_list(&self) -> bool {
        matches!(self.kind, Kind::List(_))
    }

    pub(crate) const fn is_object(&self) -> bool {
        matches!(self.kind, Kind::Object(_))
    }

    /// Returns the value as written in the text that it was read from.
    pub(crate) fn raw<'t>(&self, text: &'t str) -> &'t str {
        &text[self.span.clone()]
    }
}

/// Reads a whole text; an error names the line and column.
pub(crate) fn parse(text: &str) -> Result<Node, String> {
    let json = text.strip_prefix('\u{feff}').unwrap_or(text);
    let read = serde_json::from_str(json).and_then(|raw| node(text, raw, DEPTH_MAX));
    read.map_err(|error| error.to_string())
}

/// Reads a value that is a part of a text.
fn node(text: &str, raw: &RawValue, depth: usize) -> serde_json::Result<Node> {
    let json = raw.get();
    let start = |raw: &RawValue| raw.get().as_ptr() as usize - text.as_ptr() as usize;
    let inner = |raw: &RawValue| match depth {
        0 => Err(Error::custom(format!("expected at most {DEPTH_MAX} levels"))),
        _ => node(text, raw, depth - 1),
    };
    let kind = match json.as_bytes().first() {
        Some(b'n') => Kind::Null,
        Some(b't' | b'f') => Kind::Bool(json == "true"),
        Some(b'"') => Kind::Text(text_of(json)?),
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(json)?;
            Kind::List(items.into_iter().map(inner).collect::<Result<_, _>>()?)
        }
        Some(b'{') => {
            let Pairs(pairs) = serde_json::from_str(json)?;
            let member = |(key, raw): (&RawValue, &RawValue)| {
                let value = inner(raw)?;
                Ok(Member { span: start(key)..value.span.end, key: text_of(key.get())?, value })
            };
            Kind::Object(pairs.into_iter().map(member).collect::<serde_json::Result<_>>()?)
        }
        _ => Kind::Number(json.to_owned()),
    };
    Ok(Node { span: start(raw)..start(raw) + json.len(), kind })
}

/// Reads a text in quotes. Half a pair of surrogates is no character: U+FFFD stands for it.
fn text_of(json: &str) -> serde_json::Result<String> {
    let Bytes(bytes) = serde_json::from_str(json)?;
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        // The first byte of a half; the two behind it are further chunks.
        text.push_str(if chunk.invalid() == [0xed] { "\u{fffd}" } else { "" });
    }
    Ok(text)
}

/// The members of an object in their order.
struct Pairs<'a>(Vec<(&'a RawValue, &'a RawValue)>);

/// The bytes of a text, half pairs of surrogates among them.
struct Bytes(Vec<u8>);

struct PairsVisitor;

struct BytesVisitor;

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(BytesVisitor)
    }
}

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<'de>, A::Error> {
        let pairs = std::iter::from_fn(|| map.next_entry().transpose());
        pairs.collect::<Result<_, _>>().map(Pairs)
    }
}

impl Visitor<'_> for BytesVisitor {
    type Value = Bytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Bytes, E> {
        Ok(Bytes(bytes.to_owned()))
    }
}

/// How a text is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Style {
    /// The indentation of a level; `None`: all in one line.
    unit: Option<String>,
    newline: &'static str,
    colon: &'static str,
    comma: &'static str,
    /// Whether numbers may have an exponent.
    has_exponents: bool,
}

/// An item of a list or a member of an object as it shall be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// The one at this position, with its bytes.
    Kept(usize),
    /// A new one, as JSON.
    New(String),
}

impl Style {
    /// Returns the style of a text or of a part of it.
    pub(crate) fn of(text: &str) -> Self {
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
            has_exponents: true,
        }
    }

    /// Returns the style of files that are new.
    pub(crate) fn usual() -> Self {
        Self { unit: Some("  ".to_owned()), has_exponents: true, ..Self::flow_yaml() }
    }

    /// Returns the style of one line that YAML reads too: version 1.1 takes `1e-9` for text.
    pub(crate) const fn flow_yaml() -> Self {
        Self { unit: None, newline: "\n", colon: ": ", comma: ", ", has_exponents: false }
    }

    /// Writes a value that stands in a line with this indentation.
    pub(crate) fn write(&self, value: &Value, indent: &str) -> String {
        let inner = match &self.unit {
            Some(unit) => format!("{indent}{unit}"),
            None => indent.to_owned(),
        };
        let member = |(key, value): (&String, &Value)| {
            format!("{}{}{}", quoted(key), self.colon, self.write(value, &inner))
        };
        let pieces: Vec<String> = match value {
            Value::Array(items) => items.iter().map(|item| self.write(item, &inner)).collect(),
            Value::Object(map) => map.iter().map(member).collect(),
            Value::Number(number) if number.is_f64() && !self.has_exponents => {
                return number.as_f64().map_or_else(String::new, |float| match float.to_string() {
                    whole if !whole.contains('.') => whole + ".0",
                    text => text,
                });
            }
            plain => return plain.to_string(),
        };
        let (open, close) = if value.is_array() { ('[', ']') } else { ('{', '}') };
        if pieces.is_empty() || self.unit.is_none() {
            return format!("{open}{}{close}", pieces.join(self.comma));
        }
        let head = format!("{}{inner}", self.newline);
        let body = pieces.join(&format!(",{head}"));
        format!("{open}{head}{body}{}{indent}{close}", self.newline)
    }
}

/// Writes a text as JSON.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Returns the indentation of a line.
fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// Returns the indentation of the line that a place stands in.
pub(crate) fn indent_at(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    indent(&text[start..])
}

/// Sets a member of the object that a text is to a value, which is JSON in the style of the text.
pub(crate) fn set(text: &mut String, key: &str, value: &str) {
    if let Ok(object) = parse(text) {
        *text = with_member(text, &object, key, value);
    }
}

/// As [`set`], where the object has the member.
pub(crate) fn set_existing(text: &mut String, key: &str, value: &str) {
    if let Ok(object) = parse(text)
        && object.get(key).is_some()
    {
        *text = with_member(text, &object, key, value);
    }
}

/// Takes a member out of the object that a text is.
pub(crate) fn unset(text: &mut String, key: &str) {
    if let Ok(object) = parse(text) {
        *text = without_member(text, &object, key);
    }
}

/// Returns the text with a member of an object set to a value, which is JSON in the style of the text.
pub(crate) fn with_member(text: &str, object: &Node, key: &str, value: &str) -> String {
    let members = object.members();
    if let Some(old) = object.get(key) {
        return spliced(text, &old.span, value);
    }
    let colon = members.last().map_or(": ", |last| {
        let key_and_colon = &text[last.span.start..last.value.span.start];
        &key_and_colon[key_and_colon.rfind(':').unwrap_or(0)..]
    });
    let member = Piece::New(format!("{}{colon}{value}", quoted(key)));
    with_pieces(text, object, (0..members.len()).map(Piece::Kept).chain([member]))
}

/// Returns the text without a member of an object.
pub(crate) fn without_member(text: &str, object: &Node, key: &str) -> String {
    let members = object.members();
    with_pieces(
        text,
        object,
        (0..members.len()).filter(|&at| members[at].key != key).map(Piece::Kept),
    )
}

/// Returns the text with a list of these texts in the place of a list; texts that stand there keep their bytes.
pub(crate) fn with_texts(text: &str, list: &Node, texts: &[String]) -> String {
    with_pieces(
        text,
        list,
        texts.iter().map(|wanted| {
            let kept = list.items().iter().position(|item| item.text() == Some(wanted));
            kept.map_or_else(|| Piece::New(quoted(wanted)), Piece::Kept)
        }),
    )
}

/// Returns the text with values added at the end of a list.
pub(crate) fn with_more(text: &str, list: &Node, more: impl IntoIterator<Item = String>) -> String {
    let kept = (0..list.items().len()).map(Piece::Kept);
    with_pieces(text, list, kept.chain(more.into_iter().map(Piece::New)))
}

/// Returns the text with a list or object made of these pieces.
pub(crate) fn with_pieces(
    text: &str,
    container: &Node,
    pieces: impl IntoIterator<Item = Piece>,
) -> String {
    let pieces: Vec<Piece> = pieces.into_iter().collect();
    spliced(text, &container.span, &rebuilt(text, container, &pieces))
}

/// Returns the text with other bytes in the place of some.
pub(crate) fn spliced(text: &str, span: &Range<usize>, new: &str) -> String {
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
        return if stays_empty { container.raw(text).into() } else { [open, close].concat() };
    }
    let [head, between, tail] = separators(text, container, &spans, pieces);
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

/// Returns the text before, between and behind the pieces of a list or object.
fn separators(
    text: &str,
    container: &Node,
    spans: &[&Range<usize>],
    pieces: &[Piece],
) -> [String; 3] {
    let style = Style::of(text);
    if let (Some(first), Some(last)) = (spans.first(), spans.last()) {
        let head = &text[container.span.start + 1..first.start];
        let tail = &text[last.end..container.span.end - 1];
        let between = match spans {
            [first, second, ..] => text[first.end..second.start].to_owned(),
            _ if head.contains('\n') => format!(",{head}"),
            _ => style.comma.to_owned(),
        };
        return [head.to_owned(), between, tail.to_owned()];
    }
    // An empty list does not show how it was written; the new pieces do.
    let new = || {
        pieces
            .iter()
            .filter_map(|piece| if let Piece::New(json) = piece { Some(json) } else { None })
    };
    let closing = new().find_map(|json| {
        // The closing bracket of a value that was written in several lines stands where the value began.
        let is_nested = json.ends_with(['}', ']']) && !container.is_object();
        json.rfind('\n')
            .filter(|_| is_nested)
            .map(|newline| indent(&json[newline + 1..]).to_owned())
    });
    let outer = indent_at(text, container.span.start);
    let Some(inner) = closing.or_else(|| Some(format!("{outer}{}", style.unit.as_ref()?))) else {
        let comma = new().next().map_or(style.comma, |json| Style::of(json).comma);
        return [String::new(), comma.to_owned(), String::new()];
    };
    let newline = if new().any(|json| json.contains("\r\n")) { "\r\n" } else { style.newline };
    let head = format!("{newline}{inner}");
    [head.clone(), format!(",{head}"), format!("{newline}{outer}")]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_name_the_place() {
        for (text, place) in [
            ("", "line 1 column 0"),
            ("[1,]", "line 1 column 4"),
            ("{\n  a: 1}", "line 2 column 3"),
            ("{} x", "line 1 column 4"),
            ("\"a\nb\"", "line 1 column 2"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.ends_with(place), "{text:?}: {error}");
        }
        let deep = |levels| "[".repeat(levels) + &"]".repeat(levels);
        assert!(parse(&deep(128)).is_ok() && parse(&deep(200)).is_err());
        assert!(parse(&"[".repeat(100_000)).is_err());
        assert_eq!(parse(r#""\ud83d\ude00 \ud83d""#).unwrap().text(), Some("😀 \u{fffd}"));
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
            let mut edited = text.to_owned();
            set(&mut edited, "b", "[2]");
            assert_eq!(edited, expected);
        }
        for (gone, left) in [("a", "{\n  \"b\": 2\n}"), ("b", "{\n  \"a\": 1\n}")] {
            let mut text = "{\n  \"a\": 1,\n  \"b\": 2\n}".to_owned();
            unset(&mut text, gone);
            assert_eq!(text, left);
        }
        let value = json!({"a": [1, {"b": "x"}], "c": [], "d": {}});
        let spaced = r#"{"a": [1, {"b": "x"}], "c": [], "d": {}}"#.to_owned();
        for text in [format!("{value:#}"), value.to_string(), spaced] {
            assert_eq!(Style::of(&text).write(&value, ""), text);
        }
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
                let kept = (0..count).filter(|&at| at != gone).map(Piece::Kept);
                let without = with_pieces(text, &list, kept);
                let mut back: Vec<Piece> = (0..count - 1).map(Piece::Kept).collect();
                back.insert(gone, Piece::New(list.items()[gone].raw(text).to_owned()));
                let again = with_pieces(&without, &parse(&without).unwrap(), back);
                assert_eq!(again.replace('\r', ""), text.replace('\r', ""), "{without}");
            }
        }
    }
}

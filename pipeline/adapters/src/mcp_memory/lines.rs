//! Lines of `memory.jsonl`, edited in place: everything but the observations that change stays byte for byte.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

/// What a line is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Line {
    /// An entity with its observations.
    Entity(EntityLine),
    /// A relation, or nothing.
    Other,
    /// Something that cannot be understood, and why.
    Bad(String),
}

/// The fields of a relation.
pub(super) const RELATION: [&str; 3] = ["from", "to", "relationType"];
/// Where observations that are objects have their text.
const TEXTS: [&str; 4] = ["text", "content", "observation", "contents"];

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
        if text.trim().is_empty() {
            return Self::Other;
        }
        let mended = mended(text);
        let value: Value = match serde_json::from_str(mended.trim_start_matches('\u{feff}').trim())
        {
            Ok(value) => value,
            Err(error) => return Self::Bad(format!("no JSON: {error}")),
        };
        let Some(fields) = value.as_object() else { return Self::Bad("no JSON object".to_owned()) };
        // Some servers of the same layout write `_type`, others no type.
        match fields.get("type").or_else(|| fields.get("_type")).and_then(Value::as_str) {
            Some("relation") => return Self::Other,
            Some("entity") => {}
            Some(other) => {
                return Self::Bad(format!("type {other:?} is neither entity nor relation"));
            }
            None if RELATION.iter().all(|key| fields.contains_key(*key)) => return Self::Other,
            None if fields.contains_key("name") && fields.contains_key("observations") => {}
            None => return Self::Bad("no field \"type\"".to_owned()),
        }
        let Some(name) = fields.get("name").and_then(Value::as_str) else {
            return Self::Bad("an entity without a name".to_owned());
        };
        let observations = match fields.get("observations") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(_)) => observations(text),
            Some(_) => return Self::Bad("the observations are no list".to_owned()),
        };
        let entity_type = fields.get("entityType").and_then(Value::as_str).map(str::to_owned);
        Self::Entity(EntityLine { name: name.to_owned(), entity_type, observations })
    }
}

fn observations(line: &str) -> Vec<(String, Option<String>)> {
    let list = List::find(line);
    let raw = list.iter().flat_map(|list| &list.elements).map(|span| &line[span.clone()]);
    raw.map(|raw| (raw.to_owned(), observation_text(raw))).collect()
}

/// Returns the text of an observation as written in JSON, which may be a field of an object; `None` where there is none.
pub(super) fn observation_text(raw: &str) -> Option<String> {
    match serde_json::from_str(&mended(raw)).ok()? {
        Value::String(text) => Some(text),
        Value::Object(fields) => {
            TEXTS.iter().find_map(|key| fields.get(*key)?.as_str().map(str::to_owned))
        }
        _ => None,
    }
}

/// Replaces halves of a surrogate pair, as JavaScript writes them where it cuts an emoji in two, by U+FFFD. Every other
/// byte keeps its place.
pub(super) fn mended(json: &str) -> Cow<'_, str> {
    let unit = |at: usize| {
        let digits = json.as_bytes().get(at..at + 6).filter(|bytes| bytes.starts_with(b"\\u"))?;
        u16::from_str_radix(std::str::from_utf8(&digits[2..]).ok()?, 16).ok()
    };
    let mut mended = Cow::Borrowed(json);
    let mut at = 0;
    while let Some(found) = json.get(at..).and_then(|rest| rest.find('\\')) {
        at += found;
        at += match (unit(at), unit(at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                mended.to_mut().replace_range(at..at + 6, "\\ufffd");
                6
            }
            (Some(_), _) => 6,
            // An escaped character, which may be a backslash; one outside ASCII is no valid escape.
            (None, _) => 1 + json[at + 1..].chars().next().map_or(0, char::len_utf8),
        };
    }
    mended
}

/// Returns the line with these observations, each as written.
pub(super) fn with_observations(line: &str, observations: &[&str]) -> String {
    let Some(list) = List::find(line) else {
        return with_new_list(line, observations);
    };
    let between = list.elements.windows(2).next();
    let separator = between.map(|pair| &line[pair[0].end..pair[1].start]);
    let separator = separator.unwrap_or_else(|| usual_separator(line));
    let (lead, tail) = match (list.elements.first(), list.elements.last()) {
        (Some(first), Some(last)) if !observations.is_empty() => {
            (&line[list.inner.start..first.start], &line[last.end..list.inner.end])
        }
        _ => ("", ""),
    };
    let (before, after) = (&line[..list.inner.start], &line[list.inner.end..]);
    format!("{before}{lead}{}{tail}{after}", observations.join(separator))
}

/// Gives an entity without a list one, as its last field.
fn with_new_list(line: &str, observations: &[&str]) -> String {
    let Some(end) = line.rfind('}') else { return line.to_owned() };
    let separator = usual_separator(line);
    let colon = if separator == ", " { ": " } else { ":" };
    let list = observations.join(separator);
    format!("{}{separator}\"observations\"{colon}[{list}]{}", &line[..end], &line[end..])
}

/// Python writes blanks behind commas and colons, JavaScript does not.
fn usual_separator(line: &str) -> &'static str {
    if line.contains("\": ") { ", " } else { "," }
}

/// Where the list of observations stands in a line of valid JSON.
#[derive(Debug, PartialEq)]
struct List {
    /// Between the brackets.
    inner: Range<usize>,
    elements: Vec<Range<usize>>,
}

impl List {
    /// Finds the list; of several fields of the name the last one, as readers of JSON do.
    fn find(line: &str) -> Option<Self> {
        let mut scan = Scan { bytes: line.as_bytes(), at: line.find('{')? + 1 };
        let mut found = None;
        loop {
            scan.skip_blanks();
            if scan.peek()? == b'}' {
                return found;
            }
            let key = scan.value();
            scan.skip_blanks();
            scan.at += 1;
            scan.skip_blanks();
            let is_list = scan.peek()? == b'[';
            let value = scan.value();
            let name: Option<String> = serde_json::from_str(line.get(key)?).ok();
            if name.as_deref() == Some("observations") && is_list {
                found = Some(Self::of(line, value));
            }
            scan.skip_blanks();
            if scan.peek()? == b',' {
                scan.at += 1;
            }
        }
    }

    fn of(line: &str, list: Range<usize>) -> Self {
        let inner = list.start + 1..list.end - 1;
        let mut scan = Scan { bytes: line.as_bytes(), at: inner.start };
        let mut elements = Vec::new();
        loop {
            scan.skip_blanks();
            if scan.at >= inner.end {
                return Self { inner, elements };
            }
            if line.as_bytes()[scan.at] == b',' {
                scan.at += 1;
                continue;
            }
            elements.push(scan.value());
        }
    }
}

/// A walk over valid JSON.
pub(super) struct Scan<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl Scan<'_> {
    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(super) fn seek(&mut self, is_wanted: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(|byte| !is_wanted(byte)) {
            self.at += 1;
        }
    }

    pub(super) fn skip_blanks(&mut self) {
        self.seek(|byte| !byte.is_ascii_whitespace());
    }

    /// Goes behind the value that begins here.
    pub(super) fn value(&mut self) -> Range<usize> {
        let start = self.at;
        let mut depth = 0_u32;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => self.string(),
                b'[' | b'{' => {
                    depth += 1;
                    self.at += 1;
                }
                b']' | b'}' | b',' if depth == 0 => break,
                b']' | b'}' => {
                    depth -= 1;
                    self.at += 1;
                }
                b':' if depth == 0 => break,
                byte if depth == 0 && byte.is_ascii_whitespace() => break,
                _ => self.at += 1,
            }
            let is_whole = matches!(byte, b'"' | b']' | b'}') && depth == 0;
            if is_whole {
                break;
            }
        }
        start..self.at
    }

    fn string(&mut self) {
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += if byte == b'\\' { 2 } else { 1 };
            if byte == b'"' {
                break;
            }
        }
        self.at = self.at.min(self.bytes.len());
    }
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
    }

    #[test]
    fn the_last_of_two_lists_counts() {
        let line = r#"{"type":"entity","name":"A","observations":["a"],"observations":["b"]}"#;
        assert_eq!(entity(line).observations, [(r#""b""#.to_owned(), Some("b".to_owned()))]);
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
}

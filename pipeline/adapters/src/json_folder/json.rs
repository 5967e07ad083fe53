//! A JSON reader that knows where everything stands, so that a writer can change one member of a file
//! and keep every other byte.

use std::ops::Range;

/// A value and the bytes that it takes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) span: Range<usize>,
    pub(super) kind: Kind,
}

/// What a [`Node`] is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
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
pub(super) struct Member {
    pub(super) span: Range<usize>,
    pub(super) key: String,
    pub(super) value: Node,
}

/// Lists and objects within each other, at most: deeper ones would overflow the stack.
const DEPTH_MAX: usize = 128;

impl Node {
    /// Returns the members of an object; none of anything else.
    pub(super) fn members(&self) -> &[Member] {
        if let Kind::Object(members) = &self.kind { members } else { &[] }
    }

    /// Returns the items of a list; none of anything else.
    pub(super) fn items(&self) -> &[Self] {
        if let Kind::List(items) = &self.kind { items } else { &[] }
    }

    /// Returns the value of a member. Of members of one name the last counts, as for most readers.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        self.members().iter().rev().find(|member| member.key == key).map(|member| &member.value)
    }

    /// Returns the text of a text.
    pub(super) fn text(&self) -> Option<&str> {
        if let Kind::Text(text) = &self.kind { Some(text) } else { None }
    }

    /// Returns the text of a member that is a text.
    pub(super) fn text_of(&self, key: &str) -> Option<&str> {
        self.get(key)?.text()
    }

    pub(super) const fn is_list(&self) -> bool {
        matches!(self.kind, Kind::List(_))
    }

    pub(super) const fn is_object(&self) -> bool {
        matches!(self.kind, Kind::Object(_))
    }
}

/// Reads a whole text; an error names what was expected, and the line and column.
pub(super) fn parse(text: &str) -> Result<Node, String> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    if text.starts_with('\u{feff}') {
        reader.at = '\u{feff}'.len_utf8();
    }
    let read = reader.value().and_then(|node| {
        reader.skip_space();
        if reader.at == text.len() { Ok(node) } else { Err("the end of the file") }
    });
    read.map_err(|expected| {
        let before = &text.as_bytes()[..reader.at.min(text.len())];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|&&byte| byte != b'\n').count() + 1;
        format!("expected {expected} at line {line}, column {column}")
    })
}

/// Writes a text as JSON.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

type Read<T> = Result<T, &'static str>;

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Takes a byte, if it comes next.
    fn take(&mut self, byte: u8) -> bool {
        let comes = self.peek() == Some(byte);
        self.at += usize::from(comes);
        comes
    }

    fn value(&mut self) -> Read<Node> {
        self.skip_space();
        let start = self.at;
        let kind = match self.peek() {
            Some(b'{') => self.nested(Self::object)?,
            Some(b'[') => self.nested(Self::list)?,
            Some(b'"') => Kind::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => Kind::Number(self.number()?),
            Some(b't') => self.word("true", Kind::Bool(true))?,
            Some(b'f') => self.word("false", Kind::Bool(false))?,
            Some(b'n') => self.word("null", Kind::Null)?,
            _ => return Err("a value"),
        };
        Ok(Node { span: start..self.at, kind })
    }

    fn nested(&mut self, read: fn(&mut Self) -> Read<Kind>) -> Read<Kind> {
        if self.depth == DEPTH_MAX {
            return Err("at most 128 levels");
        }
        self.depth += 1;
        self.at += 1;
        let kind = read(self)?;
        self.depth -= 1;
        Ok(kind)
    }

    fn word(&mut self, word: &str, kind: Kind) -> Read<Kind> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            Ok(kind)
        } else {
            Err("a value")
        }
    }

    fn list(&mut self) -> Read<Kind> {
        let mut items = Vec::new();
        self.skip_space();
        if self.take(b']') {
            return Ok(Kind::List(items));
        }
        loop {
            items.push(self.value()?);
            self.skip_space();
            if self.take(b']') {
                return Ok(Kind::List(items));
            }
            if !self.take(b',') {
                return Err("`,` or `]`");
            }
        }
    }

    fn object(&mut self) -> Read<Kind> {
        let mut members = Vec::new();
        self.skip_space();
        if self.take(b'}') {
            return Ok(Kind::Object(members));
        }
        loop {
            self.skip_space();
            let start = self.at;
            if self.peek() != Some(b'"') {
                return Err("a key in double quotes");
            }
            let key = self.string()?;
            self.skip_space();
            if !self.take(b':') {
                return Err("`:`");
            }
            let value = self.value()?;
            members.push(Member { span: start..self.at, key, value });
            self.skip_space();
            if self.take(b'}') {
                return Ok(Kind::Object(members));
            }
            if !self.take(b',') {
                return Err("`,` or `}`");
            }
        }
    }

    fn number(&mut self) -> Read<String> {
        let start = self.at;
        let digits = |reader: &mut Self| {
            let first = reader.at;
            while matches!(reader.peek(), Some(b'0'..=b'9')) {
                reader.at += 1;
            }
            if reader.at > first { Ok(()) } else { Err("a digit") }
        };
        self.take(b'-');
        if !self.take(b'0') {
            digits(self)?;
        }
        if self.take(b'.') {
            digits(self)?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            let _sign = self.take(b'+') || self.take(b'-');
            digits(self)?;
        }
        Ok(self.text[start..self.at].to_owned())
    }

    fn string(&mut self) -> Read<String> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f));
            let Some(plain) = plain else {
                self.at = self.text.len();
                return Err("`\"`");
            };
            text.push_str(&self.text[self.at..self.at + plain]);
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => text.push(self.escape()?),
                _ => return Err("no control character in a text"),
            }
        }
    }

    fn escape(&mut self) -> Read<char> {
        self.at += 1;
        let escaped = self.peek();
        self.at += 1;
        Ok(match escaped {
            Some(plain @ (b'"' | b'\\' | b'/')) => char::from(plain),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.code_point(),
            _ => return Err("an escape"),
        })
    }

    /// Reads what follows `\u`. Half a pair of surrogates is no character: U+FFFD stands for it.
    fn code_point(&mut self) -> Read<char> {
        let high = self.hex()?;
        if (0xd800..0xdc00).contains(&high) && self.text[self.at..].starts_with("\\u") {
            let after_high = self.at;
            self.at += 2;
            let low = self.hex()?;
            if (0xdc00..0xe000).contains(&low) {
                let code = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = after_high;
        }
        Ok(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hex(&mut self) -> Read<u32> {
        let digits = self.text.get(self.at..self.at + 4).ok_or("four hexadecimal digits")?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err("four hexadecimal digits");
        }
        self.at += 4;
        u32::from_str_radix(digits, 16).map_err(|_| "four hexadecimal digits")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn value(node: &Node) -> Value {
        match &node.kind {
            Kind::Null => Value::Null,
            Kind::Bool(bool) => Value::Bool(*bool),
            Kind::Number(number) => serde_json::from_str(number).unwrap(),
            Kind::Text(text) => Value::from(text.as_str()),
            Kind::List(items) => items.iter().map(value).collect(),
            Kind::Object(members) => {
                members.iter().map(|member| (member.key.clone(), value(&member.value))).collect()
            }
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::hash_map(".*", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_reads_what_another_reader_reads(json in any_json(), pretty in any::<bool>()) {
            let text = if pretty { format!("{json:#}") } else { json.to_string() };
            let node = parse(&text).unwrap();
            prop_assert_eq!(value(&node), json);
            prop_assert_eq!(&text[node.span], text.as_str());
        }

        #[test]
        fn it_refuses_what_another_reader_refuses(text in r#"[\[\]{}:,"\\ 0-9a-fnrtulse.+-]{0,12}"#) {
            let other: Result<Value, _> = serde_json::from_str(&text);
            // The other reader refuses numbers beyond its range and half pairs of surrogates.
            if parse(&text).is_err() {
                prop_assert!(other.is_err(), "{}", text);
            }
        }
    }

    #[test]
    fn errors_name_the_place() {
        for (text, error) in [
            ("", "expected a value at line 1, column 1"),
            ("[1,]", "expected a value at line 1, column 4"),
            ("{\n  a: 1}", "expected a key in double quotes at line 2, column 3"),
            ("{} x", "expected the end of the file at line 1, column 4"),
            ("01", "expected the end of the file at line 1, column 2"),
            ("\"a\nb\"", "expected no control character in a text at line 1, column 3"),
        ] {
            assert_eq!(parse(text).unwrap_err(), error, "{text:?}");
        }
        assert!(parse(&"[".repeat(100_000)).is_err());
        assert_eq!(parse(r#""\ud83d\ude00 \ud83d""#).unwrap().text(), Some("😀 \u{fffd}"));
    }
}

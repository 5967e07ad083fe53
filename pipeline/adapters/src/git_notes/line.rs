//! One record per line: flow YAML with the quoting of JSON.
//!
//! `git notes merge -s cat_sort_uniq` sorts the lines of both sides, so a record of several lines would fall
//! apart. Readers of YAML 1.1 end a line also at U+0085, U+2028 and U+2029 and refuse characters that
//! do not print; all of these are escaped.

use serde::Serialize as _;
use serde_json::ser::{Formatter, Serializer};
use serde_json::{Map, Value};
use std::io::{self, Write};

/// The fields of a record in their order.
pub(super) type Fields = Map<String, Value>;

/// Writes a record as one line, without its newline.
pub(super) fn encode(fields: &Fields) -> String {
    let mut line = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut line, FlowYaml);
    fields.serialize(&mut serializer).expect("a map with text keys, written to memory");
    String::from_utf8(line).expect("JSON is UTF-8")
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

/// JSON with the spaces and escapes that YAML needs.
struct FlowYaml;

impl Formatter for FlowYaml {
    fn begin_array_value<W: Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        separate(writer, first)
    }

    fn begin_object_key<W: Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        separate(writer, first)
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn write_f64<W: Write + ?Sized>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        // Never an exponent: YAML 1.1 takes `1e-9` for text.
        let text = value.to_string();
        writer.write_all(text.as_bytes())?;
        if text.contains('.') { Ok(()) } else { writer.write_all(b".0") }
    }

    fn write_string_fragment<W: Write + ?Sized>(
        &mut self,
        writer: &mut W,
        text: &str,
    ) -> io::Result<()> {
        let mut plain = 0;
        for (at, character) in text.char_indices().filter(|(_, character)| !prints(*character)) {
            writer.write_all(&text.as_bytes()[plain..at])?;
            write!(writer, "\\u{:04x}", u32::from(character))?;
            plain = at + character.len_utf8();
        }
        writer.write_all(&text.as_bytes()[plain..])
    }
}

fn separate<W: Write + ?Sized>(writer: &mut W, first: bool) -> io::Result<()> {
    if first { Ok(()) } else { writer.write_all(b", ") }
}

/// Tells whether a character may stand in a line of YAML as it is.
const fn prints(character: char) -> bool {
    !matches!(
        character,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
    )
}

#[cfg(test)]
mod tests {
    use super::{Fields, decode, encode};
    use proptest::prelude::*;
    use serde_json::{Value, json};

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
}

//! Categories as stores hold them: JSON array text, a bare string, or garbage.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::Value;

use memfold_model::memory::CategoryList;

/// Reads categories in their order, without repeats and empty ones.
///
/// Text that is no JSON array or string is one category, as the owner's readers take it.
pub(super) fn parse(text: &str) -> Vec<Box<str>> {
    let trimmed = text.trim();
    let mut categories = CategoryList::default();
    if let Some(simple) = parse_simple_list(trimmed) {
        simple.into_iter().for_each(|category| add(&mut categories, category));
        return categories.into_list();
    }
    match serde_json::from_str::<Value>(trimmed) {
        Ok(Value::Array(items)) => items.iter().for_each(|item| add_value(&mut categories, item)),
        Ok(Value::String(single)) => add(&mut categories, &single),
        Ok(Value::Null) => {}
        _ => add(&mut categories, trimmed),
    }
    categories.into_list()
}

/// Reads the common form, a flat list of strings without escapes; `None` for anything else.
fn parse_simple_list(text: &str) -> Option<Vec<&str>> {
    let inside = text.strip_prefix('[')?.strip_suffix(']')?;
    if inside.contains('\\') || inside.bytes().any(|byte| byte < 0x20) {
        return None;
    }
    let mut rest = inside.trim();
    let mut items = Vec::new();
    while !rest.is_empty() {
        let (item, after) = rest.strip_prefix('"')?.split_once('"')?;
        items.push(item);
        rest = after.trim_start();
        if !rest.is_empty() {
            rest = rest.strip_prefix(',')?.trim_start();
            // A trailing comma is no JSON.
            if rest.is_empty() {
                return None;
            }
        }
    }
    Some(items)
}

fn add_value(categories: &mut CategoryList, value: &Value) {
    match value {
        Value::String(text) => add(categories, text),
        Value::Array(items) => items.iter().for_each(|item| add_value(categories, item)),
        Value::Number(number) => add(categories, &number.to_string()),
        Value::Null | Value::Bool(_) | Value::Object(_) => {}
    }
}

fn add(categories: &mut CategoryList, category: &str) {
    if !category.trim().is_empty() {
        categories.add(category);
    }
}

/// Writes categories as Python's `json.dumps` does by default: `", "` between, ASCII only.
///
/// Others filter the raw text with `LIKE '%"category"%'`.
pub fn to_json<S: AsRef<str>>(categories: &[S]) -> String {
    let items: Vec<_> = categories.iter().map(|category| quote(category.as_ref())).collect();
    format!("[{}]", items.join(", "))
}

fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match escape(character) {
            Some(escaped) => quoted.push_str(&escaped),
            None => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

fn escape(character: char) -> Option<Cow<'static, str>> {
    Some(match character {
        '"' => "\\\"".into(),
        '\\' => "\\\\".into(),
        '\n' => "\\n".into(),
        '\r' => "\\r".into(),
        '\t' => "\\t".into(),
        '\u{8}' => "\\b".into(),
        '\u{c}' => "\\f".into(),
        ' '..='~' => return None,
        other => {
            let mut units = [0; 2];
            let mut escaped = String::new();
            for unit in other.encode_utf16(&mut units) {
                // Writing to a String cannot fail.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
            escaped.into()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Vec<String> {
        parse(text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn reads_every_form() {
        assert_eq!(read(r#"["sop", "coding"]"#), ["sop", "coding"]);
        assert_eq!(read(r#"["sop","coding","sop"]"#), ["sop", "coding"]);
        assert_eq!(read(r#"["caf\u00e9", "\ud83d\ude00"]"#), ["café", "😀"]);
        assert_eq!(read(r#""quoted""#), ["quoted"]);
        assert_eq!(read("trading"), ["trading"]);
        assert_eq!(read(" a, b "), ["a, b"]);
        assert_eq!(read(r#"[["x", ["y"]], 3, null, {"z": 1}, true]"#), ["x", "y", "3"]);
        assert_eq!(read(r#"["open"#), [r#"["open"#]);
        assert_eq!(read(r#"["a",]"#), [r#"["a",]"#]);
        assert_eq!(read(r#"{"a": 1}"#), [r#"{"a": 1}"#]);
        assert!(read("").is_empty());
        assert!(read("null").is_empty());
        assert!(read("[]").is_empty());
        assert!(read(r#"["", " "]"#).is_empty());
    }

    #[test]
    fn writes_what_python_writes() {
        assert_eq!(to_json(&["sop", "a\"b\\c\n"]), r#"["sop", "a\"b\\c\n"]"#);
        assert_eq!(
            to_json(&["café", "😀", "\u{7f}"]),
            r#"["caf\u00e9", "\ud83d\ude00", "\u007f"]"#
        );
        assert_eq!(to_json::<&str>(&[]), "[]");
    }

    proptest! {
        #[test]
        fn written_categories_read_back(list in prop::collection::btree_set("\\PC{1,12}", 0..5)) {
            let list: Vec<String> = list.into_iter().filter(|c| !c.trim().is_empty()).collect();
            let json = to_json(&list);
            prop_assert!(json.is_ascii());
            prop_assert_eq!(read(&json), list);
        }

        #[test]
        fn the_fast_path_agrees_with_the_parser(text in r#"\[["a,\[\] ]{0,16}\]"#) {
            if let Some(fast) = parse_simple_list(&text) {
                let slow: Vec<String> = serde_json::from_str(&text).unwrap();
                prop_assert_eq!(fast, slow);
            }
        }
    }
}

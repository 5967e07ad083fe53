//! [`Value`]: a value of a store with its storage class, and its lossless JSON.

use std::borrow::Cow;

use jiff::tz::TimeZone;
use serde_json::Value as Json;

use crate::time::Instant;

/// A value as a store holds it. Text is bytes, because stores hold text that is no UTF-8.
#[derive(Debug, Clone)]
pub enum Value {
    /// No value.
    Null,
    /// An integer.
    Integer(i64),
    /// A floating-point number; SQLite holds no NaN.
    Real(f64),
    /// Text.
    Text(Vec<u8>),
    /// Bytes.
    Blob(Vec<u8>),
}

/// Equal storage class and equal bits.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Integer(a), Self::Integer(b)) => a == b,
            (Self::Real(a), Self::Real(b)) => a.to_bits() == b.to_bits(),
            (Self::Text(a), Self::Text(b)) | (Self::Blob(a), Self::Blob(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Value {}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.as_bytes().to_vec())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text.into_bytes())
    }
}

impl Value {
    /// Returns the text, if it is valid text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// Returns the value as JSON that [`Self::from_json`] reads back bit for bit: NULL, integers and text as
    /// themselves, `{"real": "2.5"}`, `{"blob": "<hex>"}`, and `{"text": "<hex>"}` for text that is no UTF-8.
    #[must_use]
    pub fn to_json(&self) -> Json {
        match self {
            Self::Null => Json::Null,
            Self::Integer(value) => serde_json::json!(value),
            // The shortest decimal that reads back as the same bits.
            Self::Real(value) => serde_json::json!({ "real": format!("{value:?}") }),
            Self::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => serde_json::json!(text),
                Err(_) => serde_json::json!({ "text": to_hex(bytes) }),
            },
            Self::Blob(bytes) => serde_json::json!({ "blob": to_hex(bytes) }),
        }
    }

    /// Reads what [`Self::to_json`] wrote; `None` for anything else.
    #[must_use]
    pub fn from_json(value: &Json) -> Option<Self> {
        match value {
            Json::Null => Some(Self::Null),
            Json::Number(number) => number.as_i64().map(Self::Integer),
            Json::String(text) => Some(Self::Text(text.as_bytes().to_vec())),
            Json::Object(fields) => {
                let (kind, value) = fields.iter().next()?;
                let value = value.as_str()?;
                match kind.as_str() {
                    "real" => value.parse().ok().map(Self::Real),
                    "blob" => from_hex(value).map(Self::Blob),
                    "text" => from_hex(value).map(Self::Text),
                    _ => None,
                }
            }
            Json::Bool(_) | Json::Array(_) => None,
        }
    }
}

fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut hex = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        hex.push(char::from(DIGITS[usize::from(byte >> 4)]));
        hex.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    hex
}

fn from_hex(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    if !hex.len().is_multiple_of(2) {
        return None;
    }
    hex.as_bytes()
        .chunks_exact(2)
        .map(|pair| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8))
        .collect()
}

/// A borrowed [`Value`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ValueRef<'a> {
    /// No value.
    Null,
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    /// Text.
    Text(&'a [u8]),
    /// Bytes.
    Blob(&'a [u8]),
}

/// Text that is no UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidUtf8;

impl<'a> ValueRef<'a> {
    /// Returns the text, numbers in decimal; `None` for NULL and bytes.
    pub fn text(self) -> Result<Option<Cow<'a, str>>, InvalidUtf8> {
        match self {
            Self::Null | Self::Blob(_) => Ok(None),
            Self::Integer(value) => Ok(Some(value.to_string().into())),
            Self::Real(value) => Ok(Some(format!("{value:?}").into())),
            Self::Text(bytes) => {
                std::str::from_utf8(bytes).map(|text| Some(text.into())).map_err(|_| InvalidUtf8)
            }
        }
    }

    /// Returns a finite number, also one written as text.
    pub fn number(self) -> Option<f64> {
        let value = match self {
            Self::Integer(value) => value as f64,
            Self::Real(value) => value,
            Self::Text(bytes) => std::str::from_utf8(bytes).ok()?.trim().parse().ok()?,
            Self::Null | Self::Blob(_) => return None,
        };
        value.is_finite().then_some(value)
    }

    /// Returns a whole number, fractions cut off.
    pub fn count(self) -> Option<i64> {
        match self {
            Self::Integer(value) => Some(value),
            _ => self.number().map(|value| value as i64),
        }
    }

    /// Returns a time in any spelling or as an epoch number.
    pub fn instant(self, time_zone: &TimeZone) -> Option<Instant> {
        match self {
            Self::Integer(value) => Instant::from_epoch(value as f64),
            Self::Real(value) => Instant::from_epoch(value),
            Self::Text(bytes) => Instant::parse(std::str::from_utf8(bytes).ok()?, time_zone),
            Self::Null | Self::Blob(_) => None,
        }
    }

    /// Returns a short, printable form for an example.
    #[must_use]
    pub fn shown(self) -> String {
        const SHOWN_CHARS: usize = 60;
        match self {
            Self::Null => "NULL".into(),
            Self::Blob(bytes) => format!("a blob of {} bytes", bytes.len()),
            Self::Integer(value) => value.to_string(),
            Self::Real(value) => value.to_string(),
            Self::Text(bytes) => {
                let head = &bytes[..bytes.len().min(4 * SHOWN_CHARS)];
                let text = String::from_utf8_lossy(head);
                format!("{:?}", text.chars().take(SHOWN_CHARS).collect::<String>())
            }
        }
    }
}

impl Value {
    /// Borrows the value.
    #[must_use]
    pub fn borrow(&self) -> ValueRef<'_> {
        match self {
            Self::Null => ValueRef::Null,
            Self::Integer(value) => ValueRef::Integer(*value),
            Self::Real(value) => ValueRef::Real(*value),
            Self::Text(bytes) => ValueRef::Text(bytes),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }
    }
}

impl From<ValueRef<'_>> for Value {
    fn from(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(value) => Self::Integer(value),
            ValueRef::Real(value) => Self::Real(value),
            ValueRef::Text(bytes) => Self::Text(bytes.to_vec()),
            ValueRef::Blob(bytes) => Self::Blob(bytes.to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Any value that SQLite can hold.
    fn any_value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::Integer),
            any::<f64>().prop_filter("no NaN in SQLite", |v| !v.is_nan()).prop_map(Value::Real),
            any::<Vec<u8>>().prop_map(Value::Text),
            ".{0,20}".prop_map(Value::from),
            any::<Vec<u8>>().prop_map(Value::Blob),
        ]
    }

    proptest! {
        #[test]
        fn every_value_survives_json(value in any_value()) {
            let text = value.to_json().to_string();
            let read = Value::from_json(&serde_json::from_str(&text).unwrap());
            prop_assert_eq!(read, Some(value));
        }
    }

    #[test]
    fn storage_classes_are_told_apart() {
        let alike =
            [Value::Integer(1), Value::Real(1.0), Value::from("1"), Value::Blob(b"1".to_vec())];
        for (i, a) in alike.iter().enumerate() {
            for (j, b) in alike.iter().enumerate() {
                assert_eq!(a == b, i == j);
                assert_eq!(a.to_json() == b.to_json(), i == j);
            }
        }
        assert_ne!(Value::Real(0.0), Value::Real(-0.0));
    }

    #[test]
    fn foreign_json_is_refused() {
        for text in
            ["true", "[1]", "1.5", "{}", r#"{"blob": "0"}"#, r#"{"blob": "zz"}"#, r#"{"x": "1"}"#]
        {
            assert_eq!(Value::from_json(&serde_json::from_str(text).unwrap()), None, "{text}");
        }
    }

    #[test]
    fn numbers_are_read_from_every_storage_class() {
        assert_eq!(ValueRef::Text(b" 2.0 ").number(), Some(2.0));
        assert_eq!(ValueRef::Integer(3).number(), Some(3.0));
        assert_eq!(ValueRef::Text(b"NaN").number(), None);
        assert_eq!(ValueRef::Text(b"inf").number(), None);
        assert_eq!(ValueRef::Blob(b"2").number(), None);
        assert_eq!(ValueRef::Real(4.9).count(), Some(4));
        assert_eq!(ValueRef::Text(b"7").count(), Some(7));
        assert_eq!(ValueRef::Integer(i64::MAX).count(), Some(i64::MAX));
    }

    #[test]
    fn examples_are_short_and_escaped() {
        assert_eq!(ValueRef::Text(b"a\x1b[31m\xff").shown(), "\"a\\u{1b}[31m\u{fffd}\"");
        assert_eq!(ValueRef::Blob(&[0; 7]).shown(), "a blob of 7 bytes");
    }
}

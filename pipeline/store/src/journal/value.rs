//! [`StoredValue`]: a value with its storage class, and its lossless JSON.

use serde_json::{Value, json};

/// A value as a store holds it. Text is bytes, because stores hold text that is no UTF-8.
#[derive(Debug, Clone)]
pub enum StoredValue {
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
impl PartialEq for StoredValue {
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

impl Eq for StoredValue {}

impl From<&str> for StoredValue {
    fn from(text: &str) -> Self {
        Self::Text(text.as_bytes().to_vec())
    }
}

impl From<String> for StoredValue {
    fn from(text: String) -> Self {
        Self::Text(text.into_bytes())
    }
}

impl StoredValue {
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
    pub fn to_json(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Integer(value) => json!(value),
            // The shortest decimal that reads back as the same bits.
            Self::Real(value) => json!({ "real": format!("{value:?}") }),
            Self::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => json!(text),
                Err(_) => json!({ "text": to_hex(bytes) }),
            },
            Self::Blob(bytes) => json!({ "blob": to_hex(bytes) }),
        }
    }

    /// Reads what [`Self::to_json`] wrote; `None` for anything else.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        match value {
            Value::Null => Some(Self::Null),
            Value::Number(number) => number.as_i64().map(Self::Integer),
            Value::String(text) => Some(Self::Text(text.as_bytes().to_vec())),
            Value::Object(fields) => {
                let (kind, value) = fields.iter().next()?;
                let value = value.as_str()?;
                match kind.as_str() {
                    "real" => value.parse().ok().map(Self::Real),
                    "blob" => from_hex(value).map(Self::Blob),
                    "text" => from_hex(value).map(Self::Text),
                    _ => None,
                }
            }
            Value::Bool(_) | Value::Array(_) => None,
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values() -> impl Strategy<Value = StoredValue> {
        prop_oneof![
            Just(StoredValue::Null),
            any::<i64>().prop_map(StoredValue::Integer),
            any::<f64>()
                .prop_filter("no NaN in SQLite", |v| !v.is_nan())
                .prop_map(StoredValue::Real),
            any::<Vec<u8>>().prop_map(StoredValue::Text),
            ".{0,20}".prop_map(StoredValue::from),
            any::<Vec<u8>>().prop_map(StoredValue::Blob),
        ]
    }

    proptest! {
        #[test]
        fn every_value_survives_json(value in values()) {
            let text = value.to_json().to_string();
            let read = StoredValue::from_json(&serde_json::from_str(&text).unwrap());
            prop_assert_eq!(read, Some(value));
        }
    }

    #[test]
    fn storage_classes_are_told_apart() {
        let alike = [
            StoredValue::Integer(1),
            StoredValue::Real(1.0),
            StoredValue::from("1"),
            StoredValue::Blob(b"1".to_vec()),
        ];
        for (i, a) in alike.iter().enumerate() {
            for (j, b) in alike.iter().enumerate() {
                assert_eq!(a == b, i == j);
                assert_eq!(a.to_json() == b.to_json(), i == j);
            }
        }
        assert_ne!(StoredValue::Real(0.0), StoredValue::Real(-0.0));
    }

    #[test]
    fn foreign_json_is_refused() {
        for text in
            ["true", "[1]", "1.5", "{}", r#"{"blob": "0"}"#, r#"{"blob": "zz"}"#, r#"{"x": "1"}"#]
        {
            assert_eq!(
                StoredValue::from_json(&serde_json::from_str(text).unwrap()),
                None,
                "{text}"
            );
        }
    }
}

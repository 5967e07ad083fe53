//! [`Value`]: a value of a store with its storage class, and its lossless JSON; JSON in its canonical form.

use std::borrow::Cow;
use std::io;

use jiff::tz::TimeZone;
use serde::Serialize as _;
use serde_json::Value as Json;
use serde_json::ser::Formatter;
use sha2::{Digest as _, Sha256};

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

    /// Reads the form of [`Self::to_json`]; `None` for anything else.
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

/// Writes a value as RFC 8785 wants it: members sorted by UTF-16 code units, no white space, numbers
/// as ECMAScript prints doubles. Integers beyond 2⁵³ are rounded to a double.
///
/// # Panics
/// Never: memory takes every value.
#[must_use]
pub fn canonical_json(mut value: Json) -> String {
    sort_members(&mut value);
    let mut json = Vec::new();
    let mut to = serde_json::Serializer::with_formatter(&mut json, Canonical);
    value.serialize(&mut to).expect("memory takes everything");
    String::from_utf8(json).expect("JSON is UTF-8")
}

fn sort_members(value: &mut Json) {
    match value {
        Json::Array(values) => values.iter_mut().for_each(sort_members),
        Json::Object(members) => {
            let mut sorted: Vec<_> = std::mem::take(members).into_iter().collect();
            sorted.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            sorted.iter_mut().for_each(|(_, value)| sort_members(value));
            members.extend(sorted);
        }
        _ => {}
    }
}

/// Writes numbers as ECMAScript does: the shortest digits, an exponent only for numbers far from 1.
struct Canonical;

impl Formatter for Canonical {
    fn write_i64<W: io::Write + ?Sized>(&mut self, to: &mut W, number: i64) -> io::Result<()> {
        self.write_f64(to, number as f64)
    }

    fn write_u64<W: io::Write + ?Sized>(&mut self, to: &mut W, number: u64) -> io::Result<()> {
        self.write_f64(to, number as f64)
    }

    fn write_f64<W: io::Write + ?Sized>(&mut self, to: &mut W, number: f64) -> io::Result<()> {
        let is_plain = number == 0.0 || (1e-6..1e21).contains(&number.abs());
        // `+ 0.0` turns −0 into +0.
        let shortest = if is_plain { format!("{}", number + 0.0) } else { format!("{number:e}") };
        let mantissa = shortest.split('e').next().unwrap_or_default();
        let digits = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        // Of two equally near texts the even one.
        let even =
            if is_plain { format!("{number:.digits$}") } else { format!("{number:.digits$e}") };
        let is_exact = digits > 0 && even.parse() == Ok(number);
        let text = if is_exact { even } else { shortest };
        to.write_all(text.replace('e', "e+").replace("+-", "-").as_bytes())
    }
}

/// Returns the sha256 of a text or bytes, in hex.
pub(crate) fn sha256_hex(bytes: impl AsRef<[u8]>) -> String {
    to_hex(&Sha256::digest(bytes))
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

    /// The table of RFC 8785, appendix B.
    #[test]
    fn numbers_follow_the_rfc() {
        for (bits, expected) in [
            (0x0000_0000_0000_0000_u64, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0xc340_0000_0000_0000, "-9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
            (0x41b3_de43_5555_5554, "333333333.33333325"),
            (0x41b3_de43_5555_5555, "333333333.3333333"),
            (0x41b3_de43_5555_5556, "333333333.3333334"),
            (0x41b3_de43_5555_5557, "333333333.33333343"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
            (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
        ] {
            let number = serde_json::json!(f64::from_bits(bits));
            assert_eq!(canonical_json(number), expected, "{bits:#x}");
        }
    }

    /// The example of RFC 8785, section 3.2.2 and 3.2.3.
    #[test]
    fn structures_follow_the_rfc() {
        let value = serde_json::json!({
            "numbers": [333_333_333.333_333_3, 1e30, 4.50, 2e-3, 0.000_000_000_000_000_000_000_000_001],
            "string": "\u{20ac}$\u{000F}\u{000a}A'\u{0042}\u{0022}\u{005c}\\\"/",
            "literals": [null, true, false],
        });
        assert_eq!(
            canonical_json(value),
            "{\"literals\":[null,true,false],\
             \"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\
             \"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}"
        );
    }

    #[test]
    fn members_stand_in_the_order_of_utf16_units() {
        let value = serde_json::json!({
            "\u{20ac}": "Euro Sign", "\r": "Carriage Return", "\u{fb33}": "Hebrew Letter Dalet With Dagesh",
            "1": "One", "\u{1f600}": "Emoji: Grinning Face", "\u{80}": "Control", "\u{f6}": "O With Diaeresis",
        });
        let json = canonical_json(value);
        let order = ["\\r", "1\"", "\u{80}", "\u{f6}", "\u{20ac}", "\u{1f600}", "\u{fb33}"];
        let places: Vec<_> = order.iter().map(|name| json.find(name)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{json}");
    }
}

//! [`Cell`]: a value as a store holds it, storage class included.

use std::borrow::Cow;

use jiff::tz::TimeZone;

use memfold_model::time::Instant;

/// A value and its storage class. Text is bytes, because stores hold text that is no UTF-8.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell<'a> {
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

impl<'a> Cell<'a> {
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
    pub(crate) fn shown(self) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_every_storage_class() {
        assert_eq!(Cell::Text(b" 2.0 ").number(), Some(2.0));
        assert_eq!(Cell::Integer(3).number(), Some(3.0));
        assert_eq!(Cell::Text(b"NaN").number(), None);
        assert_eq!(Cell::Text(b"inf").number(), None);
        assert_eq!(Cell::Blob(b"2").number(), None);
        assert_eq!(Cell::Real(4.9).count(), Some(4));
        assert_eq!(Cell::Text(b"7").count(), Some(7));
        assert_eq!(Cell::Integer(i64::MAX).count(), Some(i64::MAX));
    }

    #[test]
    fn examples_are_short_and_escaped() {
        assert_eq!(Cell::Text(b"a\x1b[31m\xff").shown(), "\"a\\u{1b}[31m\u{fffd}\"");
        assert_eq!(Cell::Blob(&[0; 7]).shown(), "a blob of 7 bytes");
    }
}

//! Tokens that are known by their shape: numbers, dates, versions, ids, paths, code.

use super::reading::Class;

/// What a string's shape says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A number.
    Number(NumberShape),
    /// `2024-10-15`, perhaps with a time behind it.
    IsoDate,
    /// `10/15/2024`.
    SlashDate,
    /// Two numbers with a hyphen between: offsets of the first one's end and the second one's start.
    Range {
        /// Where the first number ends.
        first_end: u32,
        /// Where the second number starts.
        second: u32,
    },
    /// Anything that is compared as a whole.
    Whole {
        /// What it is.
        class: Class,
        /// Whether upper and lower case differ.
        exact: bool,
    },
}

/// The parts of a number: sign, sign of a unit, digits; the rest is a unit or an ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NumberShape {
    /// Whether a minus stands before it.
    pub(super) negative: bool,
    /// Byte offset of a currency sign, or of the sign of a factor: `×4`.
    pub(super) currency: Option<u8>,
    /// Byte offset of the first digit.
    pub(super) digits: u8,
    /// Past the last digit.
    pub(super) end: u32,
}

const EXACT_LOCATOR: Shape = Shape::Whole { class: Class::Locator, exact: true };
const EXACT_CODE: Shape = Shape::Whole { class: Class::Code, exact: true };
const IDENTIFIER: Shape = Shape::Whole { class: Class::Identifier, exact: false };
const VERSION: Shape = Shape::Whole { class: Class::Version, exact: false };
const TIME: Shape = Shape::Whole { class: Class::Time, exact: false };

/// Recognises a string without white space; `None`: words. Linear in its length.
pub(super) fn of(text: &str) -> Option<Shape> {
    let bytes = text.as_bytes();
    if bytes.is_empty() || bytes.iter().all(u8::is_ascii_alphabetic) {
        return None;
    }
    locator(text).or_else(|| numeric(text)).or_else(|| code(text)).or_else(|| identifier(text))
}

/// URLs, addresses and paths.
fn locator(text: &str) -> Option<Shape> {
    let bytes = text.as_bytes();
    let is_url = text.contains("://") || text.starts_with("www.") || text.starts_with("mailto:");
    let is_address = text
        .split_once('@')
        .is_some_and(|(user, host)| !user.is_empty() && host.contains('.') && !host.contains('@'));
    if is_url || is_address {
        return Some(Shape::Whole { class: Class::Locator, exact: is_url });
    }
    let rooted = ["/", "./", "../", "~/", "\\\\"].iter().any(|root| text.starts_with(root));
    if rooted && bytes.iter().any(u8::is_ascii_alphanumeric) {
        return Some(EXACT_LOCATOR);
    }
    let drive = bytes.len() > 2 && bytes[0].is_ascii_alphabetic() && &bytes[1..3] == b":\\";
    if drive {
        return Some(EXACT_LOCATOR);
    }
    let slashes = bytes.iter().filter(|byte| matches!(byte, b'/' | b'\\')).count();
    let digits = bytes.iter().all(|byte| byte.is_ascii_digit() || *byte == b'/');
    let known_pair = matches!(text, "and/or" | "he/she" | "she/he" | "his/her" | "yes/no" | "w/o");
    (slashes > 0 && !digits && !known_pair && text.is_ascii()).then_some(EXACT_LOCATOR)
}

/// Everything that starts like a number.
fn numeric(text: &str) -> Option<Shape> {
    let number = number_start(text)?;
    let start = usize::from(number.digits);
    let end = number.end as usize;
    let bytes = text.as_bytes();
    let rest = &text[end..];
    if rest.is_empty() {
        return Some(if text[start..].matches('.').count() > 1 {
            dotted(text)
        } else {
            Shape::Number(number)
        });
    }
    if start == 0 {
        if is_iso_date(bytes) {
            return Some(Shape::IsoDate);
        }
        if rest.starts_with('/') && text.split('/').all(is_digits) {
            let parts = text.split('/').count();
            return Some(if parts == 3 { Shape::SlashDate } else { IDENTIFIER });
        }
        if is_time(text) {
            return Some(TIME);
        }
        if let Some(range) = range(text, end) {
            return Some(range);
        }
    }
    if rest.chars().all(|c| c.is_alphabetic() || matches!(c, '%' | '°' | '+' | '$' | '€' | '×'))
    {
        return Some(if is_hash(bytes) { IDENTIFIER } else { Shape::Number(number) });
    }
    if text[start..end].contains('.') && !rest.starts_with('-') {
        return Some(VERSION);
    }
    (!rest.starts_with(['-', '–']) || is_hash(bytes)).then_some(IDENTIFIER)
}

/// Reads sign, currency and digits.
fn number_start(text: &str) -> Option<NumberShape> {
    let mut number = NumberShape { negative: false, currency: None, digits: 0, end: 0 };
    let mut at = 0;
    for character in text.chars().take(3) {
        match character {
            '-' | '−' => number.negative = true,
            '+' | '~' | '≈' | '±' => {}
            '$' | '€' | '£' | '¥' | '₹' | '×' => number.currency = Some(at),
            _ => break,
        }
        at += character.len_utf8() as u8;
    }
    number.digits = at;
    let digits = text[usize::from(at)..]
        .bytes()
        .zip(text.bytes().skip(usize::from(at) + 1).chain([0]))
        .take_while(|(byte, next)| {
            byte.is_ascii_digit() || (matches!(byte, b'.' | b',') && next.is_ascii_digit())
        })
        .count();
    number.end = u32::from(at) + digits as u32;
    let first = text.as_bytes().get(usize::from(at))?;
    (digits > 0 && (first.is_ascii_digit() || digits > 1)).then_some(number)
}

/// `1.2.3` is a version, `10.0.0.1` an address.
fn dotted(text: &str) -> Shape {
    let parts = text.split('.').count();
    if parts == 4 { EXACT_LOCATOR } else { VERSION }
}

/// Bytes of `2024-10-15`.
const ISO_DATE_BYTES: usize = 10;

/// Tells whether a string is a date, perhaps with ASCII behind it: `2024-10-15T10:30`.
fn is_iso_date(bytes: &[u8]) -> bool {
    starts_with_iso_date(bytes)
        && bytes.is_ascii()
        && !bytes
            .get(ISO_DATE_BYTES)
            .is_some_and(|byte| byte.is_ascii_alphanumeric() && *byte != b'T')
}

fn starts_with_iso_date(bytes: &[u8]) -> bool {
    bytes.len() >= ISO_DATE_BYTES
        && bytes[..ISO_DATE_BYTES].iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

/// Returns the first ISO date, with the time of day behind it, that stands right between characters of other
/// scripts: `更新于2026-08-03完成`. Linear in the length.
pub(super) fn embedded_iso_date(text: &str) -> Option<std::ops::Range<usize>> {
    let bytes = text.as_bytes();
    let is_alone = |byte: Option<&u8>| byte.is_none_or(|byte| !byte.is_ascii());
    let clock =
        |byte: &u8| byte.is_ascii_digit() || matches!(byte, b':' | b'.' | b'+' | b'-' | b'Z');
    (0..bytes.len().saturating_sub(ISO_DATE_BYTES - 1)).find_map(|start| {
        let before = start.checked_sub(1).and_then(|at| bytes.get(at));
        if !is_alone(before) || !starts_with_iso_date(&bytes[start..]) {
            return None;
        }
        let date = start + ISO_DATE_BYTES;
        let end = match bytes.get(date) {
            Some(b'T') => {
                date + 1 + bytes[date + 1..].iter().take_while(|byte| clock(byte)).count()
            }
            _ => date,
        };
        is_alone(bytes.get(end)).then_some(start..end)
    })
}

/// `10:30`, `10:30:05`, `5pm`, `10:30am`, `17:00Z`.
fn is_time(text: &str) -> bool {
    let lower = text.len() <= 16 && text.is_ascii();
    let body = text.trim_end_matches(['a', 'p', 'm', 'A', 'P', 'M', 'Z', '.']);
    let suffix = &text[body.len()..];
    let half = suffix.replace('.', "").to_ascii_lowercase();
    let parts = body.split(':').count();
    lower
        && body.split(':').all(|part| is_digits(part) && part.len() <= 2)
        && ((parts > 1 && parts <= 3 && matches!(half.as_str(), "" | "am" | "pm" | "z"))
            || (parts == 1 && matches!(half.as_str(), "am" | "pm")))
}

/// `5-10`, `5–10`.
fn range(text: &str, first_end: usize) -> Option<Shape> {
    let rest = &text[first_end..];
    let after = rest.strip_prefix('-').or_else(|| rest.strip_prefix('–'))?;
    let second = first_end + rest.len() - after.len();
    let number = number_start(after)?;
    (number.digits == 0 && number.end as usize == after.len())
        .then_some(Shape::Range { first_end: first_end as u32, second: second as u32 })
}

/// Identifiers of code, flags, `C#`, `.NET`.
fn code(text: &str) -> Option<Shape> {
    let bytes = text.as_bytes();
    let letters = bytes.iter().any(u8::is_ascii_alphabetic);
    if !letters || !text.is_ascii() {
        return None;
    }
    let flag = bytes[0] == b'-'
        && bytes[1..].first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'-');
    let signed = (bytes[0].is_ascii_alphabetic() && text.len() <= 4)
        && (text.ends_with('#') || text.ends_with("++"));
    if flag || signed || text.contains("::") || text.contains("->") || text.contains('_') {
        return Some(Shape::Whole { class: Class::Code, exact: !signed });
    }
    let spelled = text.split('.').all(|part| part.len() <= 1);
    let dotted = text.contains('.')
        && !spelled
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
        && bytes[1..].windows(2).any(|pair| pair[0] == b'.' && pair[1].is_ascii_alphanumeric());
    let leading = bytes[0] == b'.' && bytes[1].is_ascii_alphabetic();
    if is_version(text) {
        return Some(VERSION);
    }
    (dotted || leading).then_some(EXACT_CODE)
}

/// `v1`, `v1.12`, `V2-beta`.
fn is_version(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(['v', 'V']) else { return false };
    rest.starts_with(|character: char| character.is_ascii_digit())
        && rest
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+'))
}

/// `#260`, `@name`, `GPT-4`, `H200`, hashes.
fn identifier(text: &str) -> Option<Shape> {
    let bytes = text.as_bytes();
    let tagged =
        matches!(bytes[0], b'#' | b'@') && bytes[1..].iter().any(u8::is_ascii_alphanumeric);
    let letters = bytes.iter().any(u8::is_ascii_alphabetic);
    let digits = bytes.iter().any(u8::is_ascii_digit);
    let solid = bytes.iter().all(|byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'#' | b'@' | b'+' | b'.')
    });
    // `30-day`, `3-fold`: a number and what it counts.
    let counts = text.split_once('-').is_some_and(|(number, word)| {
        is_digits(number) && word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_lowercase())
    });
    (tagged || (letters && digits && solid && !counts)).then_some(IDENTIFIER)
}

/// Seven or more hexadecimal digits, some of them letters, or groups of them with hyphens.
fn is_hash(bytes: &[u8]) -> bool {
    bytes.len() >= 7
        && bytes.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-')
        && bytes.iter().any(u8::is_ascii_alphabetic)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(text: &str) -> Option<Class> {
        match of(text)? {
            Shape::Whole { class, .. } => Some(class),
            Shape::Number(_) | Shape::Range { .. } => Some(Class::Number),
            Shape::IsoDate | Shape::SlashDate => Some(Class::Date),
        }
    }

    #[test]
    fn shapes_are_known() {
        for (text, expected) in [
            ("hello", None),
            ("don't", None),
            ("double-decker", None),
            ("8080", Some(Class::Number)),
            ("-5", Some(Class::Number)),
            ("$1.45", Some(Class::Number)),
            ("50%", Some(Class::Number)),
            ("1,000", Some(Class::Number)),
            ("30s", Some(Class::Number)),
            ("15th", Some(Class::Number)),
            ("5-10", Some(Class::Number)),
            ("2024-10-15", Some(Class::Date)),
            ("10/15/2024", Some(Class::Date)),
            ("10:30", Some(Class::Time)),
            ("5pm", Some(Class::Time)),
            ("1.2.3", Some(Class::Version)),
            ("v1.12", Some(Class::Version)),
            ("1.0rc1", Some(Class::Version)),
            ("192.168.0.1", Some(Class::Locator)),
            ("https://a.b/c", Some(Class::Locator)),
            ("./tmp", Some(Class::Locator)),
            ("numpy/_core", Some(Class::Locator)),
            ("a@b.de", Some(Class::Locator)),
            ("#260", Some(Class::Identifier)),
            ("a1b2c3d4", Some(Class::Identifier)),
            ("12ab34cd56", Some(Class::Identifier)),
            ("GPT-4", Some(Class::Identifier)),
            ("snake_case", Some(Class::Code)),
            ("a::b", Some(Class::Code)),
            ("foo.bar", Some(Class::Code)),
            ("C#", Some(Class::Code)),
            ("C++", Some(Class::Code)),
            ("--force", Some(Class::Code)),
            ("U.S", None),
        ] {
            assert_eq!(class(text), expected, "{text}");
        }
    }
}

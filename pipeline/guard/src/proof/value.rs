//! Quantities of a proof: what is written differently and has one value.

use super::lex::{Kind, Tok};
use crate::number::{NumberWord, month, number_word};

/// What a quantity comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    /// A count without a unit.
    Count(i128),
    /// An amount in billionths of the dimension's base unit.
    Amount(Dimension, i128),
    Ordinal(u64),
    Date(u64, u64, u64),
    /// Minutes since midnight.
    Clock(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dimension {
    Time,
    Bytes,
    Share,
    Length,
    Mass,
    Dollars,
    Euros,
    Pounds,
}

/// Returns a unit's dimension and its size in billionths of the base unit. `m` is a metre or a minute: no unit.
fn unit(name: &str) -> Option<(Dimension, i128)> {
    use Dimension::{Bytes, Dollars, Euros, Length, Mass, Pounds, Share, Time};
    const ONE: i128 = 1_000_000_000;
    Some(match name {
        "ns" | "nanosecond" | "nanoseconds" => (Time, 1),
        "µs" | "μs" | "microsecond" | "microseconds" => (Time, 1_000),
        "ms" | "millisecond" | "milliseconds" => (Time, 1_000_000),
        "s" | "sec" | "secs" | "second" | "seconds" => (Time, ONE),
        "min" | "mins" | "minute" | "minutes" => (Time, 60 * ONE),
        "h" | "hr" | "hrs" | "hour" | "hours" => (Time, 3_600 * ONE),
        "day" | "days" => (Time, 86_400 * ONE),
        "week" | "weeks" => (Time, 604_800 * ONE),
        "byte" | "bytes" => (Bytes, ONE),
        "kB" | "KB" => (Bytes, 1_000 * ONE),
        "MB" => (Bytes, 1_000_000 * ONE),
        "GB" => (Bytes, ONE * ONE),
        "TB" => (Bytes, 1_000 * ONE * ONE),
        "KiB" => (Bytes, ONE << 10),
        "MiB" => (Bytes, ONE << 20),
        "GiB" => (Bytes, ONE << 30),
        "TiB" => (Bytes, ONE << 40),
        "%" | "percent" => (Share, ONE),
        "mm" | "millimeter" | "millimeters" | "millimetre" | "millimetres" => (Length, 1_000_000),
        "cm" | "centimeter" | "centimeters" | "centimetre" | "centimetres" => (Length, 10_000_000),
        "meter" | "meters" | "metre" | "metres" => (Length, ONE),
        "km" | "kilometer" | "kilometers" | "kilometre" | "kilometres" => (Length, 1_000 * ONE),
        "g" | "gram" | "grams" => (Mass, ONE),
        "kg" | "kilogram" | "kilograms" => (Mass, 1_000 * ONE),
        "USD" | "dollar" | "dollars" => (Dollars, ONE),
        "EUR" | "euro" | "euros" => (Euros, ONE),
        "GBP" => (Pounds, ONE),
        _ => return None,
    })
}

/// Tells whether two words name one unit.
pub(super) fn same_unit(left: &str, right: &str) -> bool {
    unit(left).is_some_and(|found| unit(right) == Some(found))
}

/// Reads the longest quantity at the start of some tokens; returns how many it takes.
pub(super) fn read(tokens: &[Tok<'_>]) -> Option<(Value, usize)> {
    let first = tokens.first()?;
    let sign = match &*first.text {
        "$" => Some(Dimension::Dollars),
        "€" => Some(Dimension::Euros),
        "£" => Some(Dimension::Pounds),
        _ => None,
    };
    if let (Some(currency), Some(amount)) = (sign, tokens.get(1)) {
        let (value, _) = digits(&amount.text).filter(|_| amount.kind == Kind::Digits)?;
        let plain = tokens.get(2).is_none_or(|next| !next.glued || next.is(".") || next.is(","));
        return plain.then_some((Value::Amount(currency, value.checked_mul(1_000_000_000)?), 2));
    }
    let telling = first.kind == Kind::Digits
        || first.kind == Kind::Word
            && (month(&first.lower).is_some()
                || number_word(&first.lower).is_some()
                || first.lower == "second");
    if !telling {
        return None;
    }
    date(tokens).or_else(|| clock(tokens)).or_else(|| ordinal(tokens)).or_else(|| amount(tokens))
}

fn small(token: Option<&Tok<'_>>) -> Option<u64> {
    let token = token.filter(|token| token.kind == Kind::Digits && token.text.len() <= 4)?;
    token.text.parse().ok()
}

/// Reads an ordinal ending glued to the number before it.
fn has_ending(token: Option<&Tok<'_>>) -> bool {
    token.is_some_and(|token| token.glued && matches!(&*token.text, "st" | "nd" | "rd" | "th"))
}

/// `2024-10-15`, `Oct 15, 2024`, `15 October 2024`.
fn date(tokens: &[Tok<'_>]) -> Option<(Value, usize)> {
    let dash = |at: usize| tokens.get(at).is_some_and(|token| token.is("-") && token.glued);
    let year = |at: usize| small(tokens.get(at)).filter(|year| (1000..=2999).contains(year));
    let valid = |year, month, day, width| {
        let holds = (1..=12).contains(&month) && (1..=31).contains(&day);
        holds.then_some((Value::Date(year, month, day), width))
    };
    if let Some(year) = year(0) {
        let glued = tokens.get(4).is_some_and(|token| token.glued);
        return (dash(1) && dash(3) && glued)
            .then_some(())
            .and_then(|()| valid(year, small(tokens.get(2))?, small(tokens.get(4))?, 5));
    }
    if let Some(month) = month(&tokens[0].lower) {
        let day = small(tokens.get(1))?;
        let at = 2 + usize::from(has_ending(tokens.get(2)));
        let comma = usize::from(tokens.get(at).is_some_and(|token| token.is(",")));
        return match year(at + comma) {
            Some(year) => valid(year, month, day, at + comma + 1),
            None => valid(0, month, day, at),
        };
    }
    let day = small(tokens.first())?;
    let mut at = 1 + usize::from(has_ending(tokens.get(1)));
    at += usize::from(tokens.get(at).is_some_and(|token| token.lower == "of"));
    let month = month(&tokens.get(at)?.lower)?;
    match year(at + 1) {
        Some(year) => valid(year, month, day, at + 2),
        None => valid(0, month, day, at + 1),
    }
}

/// `5pm`, `5:30 pm`, `17:00`.
fn clock(tokens: &[Tok<'_>]) -> Option<(Value, usize)> {
    let hour = small(tokens.first()).filter(|hour| *hour < 24)?;
    let colon = tokens.get(1).is_some_and(|token| token.is(":") && token.glued);
    let seconds = colon && tokens.get(3).is_some_and(|token| token.is(":") && token.glued);
    let minute = if colon {
        let minute = tokens.get(2).filter(|minute| minute.glued && minute.text.len() == 2);
        small(minute).filter(|minute| *minute < 60)?
    } else {
        0
    };
    let at = if colon { 3 } else { 1 };
    let half = tokens.get(at).map(|token| &*token.lower);
    let clock = |hour: u64| Value::Clock(hour * 60 + minute);
    match half {
        _ if seconds => None,
        Some("pm") if (1..=12).contains(&hour) => Some((clock(hour % 12 + 12), at + 1)),
        Some("am") if (1..=12).contains(&hour) => Some((clock(hour % 12), at + 1)),
        _ if colon && tokens[0].text.len() == 2 => Some((clock(hour), at)),
        _ => None,
    }
}

fn ordinal(tokens: &[Tok<'_>]) -> Option<(Value, usize)> {
    if has_ending(tokens.get(1)) {
        return small(tokens.first()).map(|value| (Value::Ordinal(value), 2));
    }
    match number_word(&tokens[0].lower) {
        _ if tokens[0].lower == "second" => Some((Value::Ordinal(2), 1)),
        Some(NumberWord::Ordinal(value)) => Some((Value::Ordinal(value), 1)),
        _ => None,
    }
}

/// A number with its unit, or a whole number.
fn amount(tokens: &[Tok<'_>]) -> Option<(Value, usize)> {
    let (billionths, whole, at) = match tokens[0].kind {
        Kind::Digits => digits(&tokens[0].text).map(|(value, whole)| (value, whole, 1))?,
        _ => {
            words(tokens).map(|(value, width)| (i128::from(value) * 1_000_000_000, true, width))?
        }
    };
    let next = tokens.get(at);
    let named = next.filter(|token| token.kind == Kind::Word || token.is("%"));
    if let Some((dimension, size)) = named.and_then(|token| unit(&token.text)) {
        return Some((Value::Amount(dimension, billionths.checked_mul(size)?), at + 1));
    }
    let longer = named.is_some_and(|token| number_word(&token.lower).is_some())
        || next.is_some_and(|token| token.glued && token.is("-"));
    (whole && !longer).then_some((Value::Count(billionths), at))
}

/// `five`, `twenty-five`, `three hundred`, `two thousand`: a number of words and how many tokens it takes.
fn words(tokens: &[Tok<'_>]) -> Option<(u64, usize)> {
    let read = |at: usize| tokens.get(at).and_then(|token| number_word(&token.lower));
    let Some(NumberWord::Cardinal(mut value)) = read(0) else { return None };
    let mut width = 1;
    let hyphen = usize::from(tokens.get(1).is_some_and(|token| token.glued && token.is("-")));
    if let Some(NumberWord::Cardinal(ones @ 1..=9)) = read(1 + hyphen)
        && value % 10 == 0
        && (20..100).contains(&value)
    {
        (value, width) = (value + ones, 2 + hyphen);
    }
    let power = tokens.get(width).filter(|token| token.text.len() > 2);
    if let Some(NumberWord::Scale(power)) = power.and_then(|token| number_word(&token.lower)) {
        (value, width) =
            (value.checked_mul(10_u64.checked_pow(u32::try_from(power).ok()?)?)?, width + 1);
    }
    Some((value, width))
}

/// Reads digits, grouped or with a fraction; tells whether they are whole. `007` is a name.
fn digits(text: &str) -> Option<(i128, bool)> {
    if text.len() > 18 || text.len() > 1 && text.starts_with('0') && !text.starts_with("0.") {
        return None;
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut groups = whole.split(',');
    let head = groups.next()?;
    let grouped = whole.contains(',');
    if grouped && (head.is_empty() || head.len() > 3 || groups.any(|group| group.len() != 3)) {
        return None;
    }
    if fraction.len() > 9 || fraction.contains(['.', ',']) {
        return None;
    }
    let whole_value: i128 = whole.replace(',', "").parse().ok()?;
    let parts: i128 = format!("{fraction:0<9}").parse().ok()?;
    Some((whole_value * 1_000_000_000 + parts, !text.contains('.')))
}

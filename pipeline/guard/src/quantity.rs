//! The reader of quantities and times: the value of a run of tokens, independent of how it is
//! written.

use crate::lexer::{Flags, Kind, Lexed};
use crate::number::{NumberWord, number_word};
use crate::time_words::{TimeUnit, month_number, time_unit};

/// One billion: amounts are kept in billionths.
const ONE: i128 = 1_000_000_000;
/// Amounts of months are approximate beside days: they differ by at most this share.
const MONTH_DAYS: i128 = 30;
/// Digits of a number that are still counted.
const DIGITS_MAX: usize = 18;

/// The dimension of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// A count of something, or a bare number.
    Count,
    /// A duration in seconds.
    Duration,
    /// A duration in months.
    Months,
    Bytes,
    /// Percent.
    Share,
    Length,
    Mass,
    Volume,
    Celsius,
    Fahrenheit,
    /// An amount of money, by the key of the currency.
    Money(u8),
    /// Another unit, by its number in the lexicon.
    Unit(u32),
    /// A letter of which only the other text may tell the unit: `5m`.
    Letter(u8),
    /// `2nd`.
    Ordinal,
    /// Year × 10,000 + month × 100 + day; 0 where not stated.
    Date,
    /// Day, month or the other way round: the digits as written.
    SlashedDate,
    /// Minutes since midnight.
    Clock,
    /// `9:30` without half of the day.
    HalfClock,
    /// A version; the amount is the key of its parts.
    Version,
    /// A phone number; the amount is its digits.
    Phone,
}

/// `per minute`, `/min`.
pub(crate) const RATE: Measure = Measure::Unit(u32::MAX);

/// A value, and the tokens that state it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quantity {
    pub(crate) measure: Measure,
    /// In billionths of the unit.
    pub(crate) amount: i128,
    /// Digits behind the point.
    pub(crate) decimals: u8,
    /// The sign of the number can be read in two ways, so it proves nothing.
    pub(crate) ambiguous: bool,
    /// Stated per another unit: the key of `minute` in `100 per minute`.
    pub(crate) per: u32,
    /// How many tokens it takes.
    pub(crate) width: u32,
}

/// How two values compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compared {
    /// They are equal.
    Equal,
    /// They may be equal: other precision, unit or form.
    Open,
    /// They differ.
    Differ,
    /// They measure different things.
    Unrelated,
}

impl Quantity {
    const fn new(measure: Measure, amount: i128, width: usize) -> Self {
        Self { measure, amount, decimals: 0, ambiguous: false, per: 0, width: width as u32 }
    }

    /// Compares two values.
    pub(crate) fn compare(&self, other: &Self) -> Compared {
        use Measure::{
            Clock, Count, Date, Duration, HalfClock, Letter, Money, Months, Ordinal, Phone, Share,
            SlashedDate, Version,
        };
        if self.per != other.per {
            return if self.per == 0 || other.per == 0 { Compared::Open } else { Compared::Differ };
        }
        if self.ambiguous || other.ambiguous {
            return self.compare_ambiguous(other);
        }
        match (self.measure, other.measure) {
            (Version, Version) => Compared::Differ.unless(self.amount == other.amount),
            (Date, Date) => self.compare_dates(other),
            (SlashedDate, Date) | (Date, SlashedDate) | (SlashedDate, SlashedDate) => {
                self.compare_slashed(other)
            }
            (Clock, HalfClock) | (HalfClock, Clock) => {
                // `09:00` is the morning.
                let morning = self.decimals + other.decimals > 0 && self.amount == other.amount;
                let half = (self.amount - other.amount).abs() % (12 * 60) == 0;
                match half {
                    true if morning => Compared::Equal,
                    true => Compared::Open,
                    false => Compared::Differ,
                }
            }
            (HalfClock, HalfClock) => Compared::Differ.unless(self.amount == other.amount),
            (left, right) if left == right => self.compare_amounts(other),
            (Letter(letter), unit) => unit_of_letter(letter, unit)
                .map_or(Compared::Open, |size| self.scaled(size).compare_amounts(other)),
            (unit, Letter(letter)) => unit_of_letter(letter, unit)
                .map_or(Compared::Open, |size| self.compare_amounts(&other.scaled(size))),
            (Months, Duration) => self.compare_months(other),
            (Duration, Months) => other.compare_months(self),
            (Share, Count) if self.amount == other.amount * 100 || self.amount == other.amount => {
                Compared::Open
            }
            (Count, Share) if other.amount == self.amount * 100 || self.amount == other.amount => {
                Compared::Open
            }
            (Money(_), Money(_)) => Compared::Differ,
            (Ordinal | Version | Phone | Date | SlashedDate | Clock | HalfClock, _)
            | (_, Ordinal | Version | Phone | Date | SlashedDate | Clock | HalfClock) => {
                Compared::Unrelated
            }
            (Count, _) | (_, Count) if self.amount == other.amount => Compared::Open,
            (Count, _) | (_, Count) => Compared::Differ,
            _ => Compared::Unrelated,
        }
    }

    const fn scaled(self, size: i128) -> Self {
        Self { amount: self.amount.saturating_mul(size), ..self }
    }

    fn compare_amounts(&self, other: &Self) -> Compared {
        if self.amount == other.amount {
            return Compared::Equal;
        }
        // `$199` and `$199.25`: one may be the other, rounded.
        let decimals = self.decimals.min(other.decimals);
        let rough = self.decimals != other.decimals && self.decimals.max(other.decimals) > 0;
        let step = ONE / 10_i128.pow(u32::from(decimals.min(9)));
        if rough && (self.amount - other.amount).abs() * 2 <= step {
            Compared::Open
        } else {
            Compared::Differ
        }
    }

    /// `1.000` is one or a thousand; the sign is kept in place of the decimals.
    fn compare_ambiguous(&self, other: &Self) -> Compared {
        let readings = |value: &Self| {
            if value.ambiguous { [value.amount, value.amount / 1_000] } else { [value.amount; 2] }
        };
        let (own, theirs) = (readings(self), readings(other));
        match () {
            () if self.measure != other.measure => Compared::Open,
            () if self.ambiguous && other.ambiguous && self.decimals == other.decimals => {
                Compared::Differ.unless(self.amount == other.amount)
            }
            () if own.iter().any(|amount| theirs.contains(amount)) => Compared::Open,
            () => Compared::Differ,
        }
    }

    fn compare_months(&self, days: &Self) -> Compared {
        let months = self.amount.saturating_mul(MONTH_DAYS * 86_400);
        let apart = (months - days.amount).abs();
        if apart.saturating_mul(20) <= months.abs() { Compared::Open } else { Compared::Differ }
    }

    fn compare_dates(&self, other: &Self) -> Compared {
        let parts = |amount: i128| (amount / 10_000, amount / 100 % 100, amount % 100);
        let (a, b) = (parts(self.amount), parts(other.amount));
        if a == b {
            return Compared::Equal;
        }
        let clash = |a: i128, b: i128| a != 0 && b != 0 && a != b;
        if clash(a.0, b.0) || clash(a.1, b.1) || clash(a.2, b.2) {
            Compared::Differ
        } else {
            Compared::Open
        }
    }

    /// A date written `5/3/2024` is May 3 or 5 March.
    fn compare_slashed(&self, other: &Self) -> Compared {
        if self == other {
            return Compared::Equal;
        }
        let turned = |date: &Self| {
            let (year, first, second) =
                (date.amount / 10_000, date.amount / 100 % 100, date.amount % 100);
            [date.amount, year * 10_000 + second * 100 + first]
        };
        let readings = |date: &Self| {
            if date.measure == Measure::SlashedDate {
                turned(date).to_vec()
            } else {
                vec![date.amount]
            }
        };
        let near = readings(self).iter().any(|one| {
            readings(other).iter().any(|two| {
                one % 10_000 == two % 10_000
                    && (one / 10_000 == two / 10_000 || one / 10_000 == 0 || two / 10_000 == 0)
            })
        });
        if near { Compared::Open } else { Compared::Differ }
    }
}

impl Compared {
    const fn unless(self, equal: bool) -> Self {
        if equal { Self::Equal } else { self }
    }
}

/// Returns how many of a measure's base unit a letter behind a number may stand for.
const fn unit_of_letter(letter: u8, measure: Measure) -> Option<i128> {
    match (letter, measure) {
        (b'm', Measure::Duration) => Some(60),
        (b'm', Measure::Length) | (b'w', Measure::Unit(_)) => Some(1),
        (b'd', Measure::Duration) => Some(86_400),
        (b'w', Measure::Duration) => Some(604_800),
        (b'h', Measure::Duration) => Some(3_600),
        _ => None,
    }
}

/// Returns a unit's measure and its size in billionths of the base unit.
fn unit(name: &str) -> Option<(Measure, i128)> {
    use Measure::{
        Bytes, Celsius, Duration, Fahrenheit, Length, Mass, Money, Months, Share, Volume,
    };
    Some(match name {
        "ns" | "nanosecond" | "nanoseconds" => (Duration, 1),
        "µs" | "μs" | "us" | "microsecond" | "microseconds" => (Duration, 1_000),
        "ms" | "msec" | "millisecond" | "milliseconds" => (Duration, 1_000_000),
        "s" => (Duration, ONE),
        "h" => (Duration, 3_600 * ONE),
        "byte" | "bytes" => (Bytes, ONE),
        "kb" | "kilobyte" | "kilobytes" => (Bytes, 1_000 * ONE),
        "mb" | "megabyte" | "megabytes" => (Bytes, 1_000_000 * ONE),
        "gb" | "gigabyte" | "gigabytes" => (Bytes, ONE * ONE),
        "tb" | "terabyte" | "terabytes" => (Bytes, 1_000 * ONE * ONE),
        "kib" => (Bytes, ONE << 10),
        "mib" => (Bytes, ONE << 20),
        "gib" => (Bytes, ONE << 30),
        "tib" => (Bytes, ONE << 40),
        "%" | "percent" | "pct" => (Share, ONE),
        "mm" | "millimeter" | "millimeters" | "millimetre" | "millimetres" => (Length, 1_000_000),
        "cm" | "centimeter" | "centimeters" | "centimetre" | "centimetres" => (Length, 10_000_000),
        "meter" | "meters" | "metre" | "metres" => (Length, ONE),
        "km" | "kilometer" | "kilometers" | "kilometre" | "kilometres" => (Length, 1_000 * ONE),
        "g" | "gram" | "grams" => (Mass, ONE),
        "kg" | "kilogram" | "kilograms" | "kilo" | "kilos" => (Mass, 1_000 * ONE),
        "ml" | "milliliter" | "milliliters" | "millilitre" | "millilitres" => (Volume, 1_000_000),
        "l" | "liter" | "liters" | "litre" | "litres" => (Volume, ONE),
        "°c" | "celsius" => (Celsius, ONE),
        "°f" | "fahrenheit" => (Fahrenheit, ONE),
        "usd" | "dollar" | "dollars" | "$" => (Money(1), ONE),
        "eur" | "euro" | "euros" | "€" => (Money(2), ONE),
        "gbp" | "£" => (Money(3), ONE),
        "yen" | "jpy" | "¥" => (Money(4), ONE),
        _ => match time_unit(name)? {
            TimeUnit::Second => (Duration, ONE),
            TimeUnit::Minute => (Duration, 60 * ONE),
            TimeUnit::Hour => (Duration, 3_600 * ONE),
            TimeUnit::Day => (Duration, 86_400 * ONE),
            TimeUnit::Week => (Duration, 604_800 * ONE),
            TimeUnit::Month => (Months, ONE),
            TimeUnit::Year => (Months, 12 * ONE),
            _ => return None,
        },
    })
}

/// Letters that stand for several units behind a number.
const LETTERS: [&str; 5] = ["m", "d", "w", "g", "x"];

/// Reads the quantities of a text; where a token may start another kind of step, the longest form
/// is taken.
pub(crate) struct Reader<'a> {
    pub(crate) lexed: &'a Lexed,
    pub(crate) text: &'a str,
    /// The text is English: a comma groups digits and a point starts a fraction.
    pub(crate) english: bool,
    pub(crate) unit_of: &'a dyn Fn(usize) -> u32,
    pub(crate) versioned: &'a dyn Fn(usize) -> bool,
}

impl Reader<'_> {
    /// Reads the longest quantity that starts at a token.
    pub(crate) fn read(&self, at: usize) -> Option<Quantity> {
        let token = self.lexed.tokens.get(at)?;
        match token.kind {
            Kind::Number => self
                .version(at)
                .or_else(|| self.date(at))
                .or_else(|| self.clock(at))
                .or_else(|| self.phone(at))
                .or_else(|| self.ordinal(at))
                .or_else(|| self.amount(at)),
            Kind::Word if !token.has(Flags::EXACT) && self.lexed.lower(at) != "per" => {
                self.date(at).or_else(|| self.spelled(at))
            }
            Kind::Code => self.code_version(at),
            Kind::Symbol if matches!(self.lexed.lower(at), "$" | "€" | "£" | "¥") => {
                self.money(at)
            }
            Kind::Symbol | Kind::Word if matches!(self.lexed.lower(at), "/" | "per") => {
                let (rate, width) = self.per(at)?;
                Some(Quantity { per: rate, ..Quantity::new(RATE, 0, width as usize) })
            }
            _ => None,
        }
    }

    fn word(&self, at: usize) -> &str {
        if at < self.lexed.tokens.len() { self.lexed.lower(at) } else { "" }
    }

    fn glued(&self, at: usize) -> bool {
        self.lexed.tokens.get(at).is_some_and(|token| token.has(Flags::GLUED))
    }

    fn is_number(&self, at: usize) -> bool {
        self.lexed.tokens.get(at).is_some_and(|token| token.kind == Kind::Number)
    }

    fn small(&self, at: usize) -> Option<i128> {
        let digits = self.word(at);
        (self.is_number(at) && digits.len() <= 4 && digits.bytes().all(|b| b.is_ascii_digit()))
            .then(|| digits.parse().ok())
            .flatten()
    }

    /// `v20`, `3.11.2`.
    fn code_version(&self, at: usize) -> Option<Quantity> {
        let text = self.word(at);
        let digits = text.strip_prefix('v').unwrap_or(text);
        let plain = !digits.is_empty()
            && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
            && digits.starts_with(|c: char| c.is_ascii_digit());
        let parts = digits.split('.').count();
        // Four numbers are an address.
        (plain && parts < 4 && (parts > 1 || text.starts_with('v'))).then(|| version(digits, 1))
    }

    /// `Python 3.11`: a number behind a product.
    fn version(&self, at: usize) -> Option<Quantity> {
        let text = self.word(at);
        let next = self.glued(at + 1)
            && !self.lexed.ends_sentence(at + 1)
            && !matches!(self.word(at + 1), "," | ";" | ":" | ")" | "+" | "`" | "\"");
        let named = |before: usize| text.contains('.') && self.lexed.tokens[before].is_name();
        let behind = at > 0 && ((self.versioned)(at - 1) || named(at - 1)) && !text.contains(',');
        (behind && !next).then(|| version(text, 1))
    }

    fn date(&self, at: usize) -> Option<Quantity> {
        let dated = |year: i128, month: i128, day: i128, width| {
            let holds = (1..=12).contains(&month) && (0..=31).contains(&day);
            holds.then(|| Quantity::new(Measure::Date, year * 10_000 + month * 100 + day, width))
        };
        let year = |at: usize| self.small(at).filter(|year| (1000..=2999).contains(year));
        let ending = |at: usize| {
            usize::from(self.glued(at) && matches!(self.word(at), "st" | "nd" | "rd" | "th"))
        };
        if let Some(month) = month_number(self.word(at)).map(i128::from) {
            if self.lexed.tokens[at].kind != Kind::Word {
                return None;
            }
            let dot = usize::from(
                self.word(at + 1) == "." && self.glued(at + 1) && self.is_number(at + 2),
            );
            let day = self.small(at + 1 + dot).filter(|day| *day <= 31);
            let Some(day) = day else {
                let year = year(at + 1)?;
                return dated(year, month, 0, 2);
            };
            let next = at + 2 + dot + ending(at + 2 + dot);
            let comma = usize::from(self.word(next) == ",");
            return match year(next + comma) {
                Some(year) => dated(year, month, day, next + comma + 1 - at),
                None => dated(0, month, day, next - at),
            };
        }
        let separator = self.word(at + 1);
        let split = matches!(separator, "-" | "/")
            && self.glued(at + 1)
            && self.word(at + 3) == separator
            && self.glued(at + 2)
            && self.glued(at + 4);
        if let (Some(year), true) = (year(at), split) {
            return dated(year, self.small(at + 2)?, self.small(at + 4)?, 5);
        }
        if let (true, Some(year)) = (split && separator == "/", year(at + 4)) {
            let (first, second) = (self.small(at)?, self.small(at + 2)?);
            let measure =
                if first > 12 || second > 12 { Measure::Date } else { Measure::SlashedDate };
            let (month, day) = if first > 12 { (second, first) } else { (first, second) };
            return dated(year, month, day, 5).map(|date| Quantity { measure, ..date });
        }
        // `03.05.2024`: the day first.
        let text = self.word(at);
        if self.is_number(at) && text.bytes().filter(|b| *b == b'.').count() == 2 {
            let mut parts = text.split('.').map(|part| part.parse::<i128>().ok());
            let (day, month, year) = (parts.next()??, parts.next()??, parts.next()??);
            return dated(year, month, day, 1).filter(|_| (1000..3000).contains(&year));
        }
        let day = self.small(at).filter(|day| (1..=31).contains(day))?;
        let mut next = at + 1 + ending(at + 1);
        next += usize::from(self.word(next) == "of" || self.word(next) == "." && self.glued(next));
        let month = i128::from(month_number(self.word(next))?);
        if self.lexed.tokens[next].has(Flags::GLUED) {
            return None;
        }
        let comma = usize::from(self.word(next + 1) == ",");
        match year(next + 1 + comma) {
            Some(year) => dated(year, month, day, next + comma + 2 - at),
            None => dated(0, month, day, next + 1 - at),
        }
    }

    /// `5pm`, `5:30 p.m.`, `17:00`.
    fn clock(&self, at: usize) -> Option<Quantity> {
        let hour = self.small(at).filter(|hour| *hour <= 24)?;
        let colon = self.word(at + 1) == ":" && self.glued(at + 1) && self.glued(at + 2);
        let minute = match colon {
            true => {
                self.small(at + 2).filter(|minute| *minute < 60 && self.word(at + 2).len() == 2)?
            }
            false => 0,
        };
        let next = if colon { at + 3 } else { at + 1 };
        if colon && self.word(next) == ":" && self.glued(next) && self.is_number(next + 1) {
            return None;
        }
        let dotted =
            self.word(next + 1) == "." && self.word(next + 2) == "m" && self.glued(next + 2);
        let (half, width) = match self.word(next) {
            "pm" => (Some(12), next + 1),
            "am" => (Some(0), next + 1),
            "p" if dotted => (
                Some(12),
                next + 3 + usize::from(self.word(next + 3) == "." && self.glued(next + 3)),
            ),
            "a" if dotted => (
                Some(0),
                next + 3 + usize::from(self.word(next + 3) == "." && self.glued(next + 3)),
            ),
            _ => (None, next),
        };
        let amount = |hour: i128| hour * 60 + minute;
        match half {
            Some(half) if (1..=12).contains(&hour) => {
                Some(Quantity::new(Measure::Clock, amount(hour % 12 + half), width - at))
            }
            None if colon && (hour > 12 || hour == 0) => {
                Some(Quantity::new(Measure::Clock, amount(hour % 24), width - at))
            }
            None if colon => {
                let value = Quantity::new(Measure::HalfClock, amount(hour % 24), width - at);
                Some(Quantity { decimals: u8::from(self.word(at).starts_with('0')), ..value })
            }
            _ => None,
        }
    }

    /// Groups of digits with hyphens, or with blanks behind `+`.
    fn phone(&self, at: usize) -> Option<Quantity> {
        let plus = at > 0 && self.word(at - 1) == "+";
        let mut digits = String::new();
        let (mut next, mut groups) = (at, 0);
        while self.is_number(next) && self.word(next).bytes().all(|b| b.is_ascii_digit()) {
            digits.push_str(self.word(next));
            groups += 1;
            next += 1;
            let hyphen = self.word(next) == "-" && self.glued(next) && self.glued(next + 1);
            next += usize::from(hyphen && self.is_number(next + 1));
            if !hyphen && !plus {
                break;
            }
        }
        let telling =
            (plus && digits.len() >= 8 || groups > 1 && digits.len() >= 7) && digits.len() <= 15;
        let date = groups == 3 && self.word(at).len() == 4;
        (telling && !date)
            .then(|| Quantity::new(Measure::Phone, digits.parse().unwrap_or_default(), next - at))
    }

    fn ordinal(&self, at: usize) -> Option<Quantity> {
        let ending = self.glued(at + 1) && matches!(self.word(at + 1), "st" | "nd" | "rd" | "th");
        ending
            .then(|| self.small(at))
            .flatten()
            .map(|value| Quantity::new(Measure::Ordinal, value, 2))
    }

    /// Reads a unit; capitals count: `Mb` is no `MB`.
    fn unit(&self, at: usize) -> Option<(Measure, i128)> {
        const CAPITALS: [&str; 15] = [
            "KB", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB", "USD", "EUR", "GBP", "JPY",
            "L", "Kg",
        ];
        let token = self.lexed.tokens.get(at)?;
        let raw = self.text.get(token.range())?;
        let lower = !token.has(Flags::CAPITAL.with(Flags::ACRONYM));
        let word = token.has(Flags::CAPITAL) && !token.has(Flags::ACRONYM) && raw.len() > 2;
        unit(self.lexed.lower(at)).filter(|_| lower || word || CAPITALS.contains(&raw))
    }

    fn money(&self, at: usize) -> Option<Quantity> {
        let (measure, _) = unit(self.word(at))?;
        let number = self.is_number(at + 1).then(|| self.number(at + 1))??;
        Some(Quantity { measure, width: number.width + 1, ..number })
            .filter(|value| !value.ambiguous || value.amount == 0)
    }

    fn amount(&self, at: usize) -> Option<Quantity> {
        let number = self.number(at)?;
        Some(self.with_unit(at, number))
    }

    /// The digits, a glued power, and whether their marks can be read in two ways.
    fn number(&self, at: usize) -> Option<Quantity> {
        let text = self.word(at);
        let mut number = digits(text, self.english)?;
        number.width = 1;
        // `5 000`: groups with a blank between them, or two numbers.
        let grouped = text.len() <= 3
            && self.is_number(at + 1)
            && !self.glued(at + 1)
            && self.word(at + 1).len() == 3
            && self.word(at + 1).bytes().all(|b| b.is_ascii_digit());
        if grouped && number.decimals == 0 {
            let rest: i128 = self.word(at + 1).parse().ok()?;
            return Some(Quantity {
                amount: number.amount * 1_000 + rest * ONE,
                ambiguous: true,
                decimals: b' ',
                width: 2,
                ..number
            });
        }
        let power = match self.word(at + 1) {
            "k" if self.glued(at + 1) => 1_000,
            "thousand" => 1_000,
            "m" if self.glued(at + 1) && at > 0 && matches!(self.word(at - 1), "$" | "€" | "£") => {
                1_000_000
            }
            "million" | "mn" => 1_000_000,
            "billion" | "bn" => 1_000_000_000,
            _ => return Some(number),
        };
        number.amount = number.amount.checked_mul(power)?;
        number.decimals = 0;
        number.width = 2;
        Some(number)
    }

    fn with_unit(&self, at: usize, number: Quantity) -> Quantity {
        let mut next = at + number.width as usize;
        let hyphen = self.word(next) == "-"
            && self.glued(next)
            && self.glued(next + 1)
            && unit(self.word(next + 1)).is_some();
        next += usize::from(hyphen);
        let degrees = self.word(next) == "°" && matches!(self.word(next + 1), "c" | "f");
        let name = self.word(next);
        let found = if degrees {
            let measure =
                if self.word(next + 1) == "c" { Measure::Celsius } else { Measure::Fahrenheit };
            Some((measure, ONE, 2))
        } else if self.glued(next)
            && LETTERS.contains(&name)
            && self.lexed.tokens[next].kind == Kind::Word
            && !self.lexed.tokens[next].has(Flags::CAPITAL)
        {
            let letter = name.as_bytes()[0];
            Some((Measure::Letter(letter), ONE, 1))
        } else if name == "%"
            || self.lexed.tokens.get(next).is_some_and(|token| token.kind == Kind::Word)
        {
            self.unit(next).map(|(measure, size)| (measure, size, 1)).or_else(|| {
                let unit = (self.unit_of)(next);
                (unit != 0).then_some((Measure::Unit(unit), ONE, 1))
            })
        } else {
            None
        };
        let Some((measure, size, width)) = found else { return number };
        let amount = number.amount.saturating_mul(size) / ONE;
        let mut value = Quantity { measure, amount, width: (next + width - at) as u32, ..number };
        if let Some((per, width)) = self.per(next + width) {
            value.per = per;
            value.width += width;
        }
        value
    }

    /// `per minute`, `/min`, `/s`.
    fn per(&self, at: usize) -> Option<(u32, u32)> {
        let sign = self.word(at) == "/" && self.glued(at) && self.glued(at + 1)
            || matches!(self.word(at), "per");
        let unit = match self.word(at + 1) {
            "s" => TimeUnit::Second,
            "h" => TimeUnit::Hour,
            "d" => TimeUnit::Day,
            "mo" => TimeUnit::Month,
            word => time_unit(word).filter(|_| !word.ends_with('s'))?,
        };
        let is_rate = sign && unit as u32 <= TimeUnit::Year as u32;
        is_rate.then_some((unit as u32 + 1, 2))
    }

    /// `five`, `twenty-five`, `three hundred`, `two thousand MB`, `third`.
    fn spelled(&self, at: usize) -> Option<Quantity> {
        if !self.english && number_word(self.word(at)).is_none() {
            return None;
        }
        let read = |at: usize| {
            self.lexed
                .tokens
                .get(at)
                .filter(|token| token.kind == Kind::Word)
                .and_then(|_| number_word(self.word(at)))
        };
        let (mut value, mut width) = match read(at)? {
            NumberWord::Ordinal(value) => {
                return Some(Quantity::new(Measure::Ordinal, i128::from(value), 1));
            }
            NumberWord::Scale(_) => return None,
            NumberWord::Cardinal(value) => (i128::from(value), 1),
        };
        let hyphen = usize::from(self.word(at + 1) == "-" && self.glued(at + 1));
        if let Some(NumberWord::Cardinal(ones @ 1..=9)) = read(at + 1 + hyphen)
            && value % 10 == 0
            && (20..100).contains(&value)
            && !(hyphen == 0 && self.word(at + 2) == "-" && self.glued(at + 2))
        {
            (value, width) = (value + i128::from(ones), 2 + hyphen);
        }
        if let Some(NumberWord::Scale(power)) =
            read(at + width).filter(|_| self.word(at + width).len() > 2)
        {
            (value, width) =
                (value.checked_mul(10_i128.checked_pow(power.unsigned_abs())?)?, width + 1);
        }
        // `one` is a pronoun or an article more often than a number.
        if value == 1 && unit(self.word(at + width)).is_none() {
            return None;
        }
        let number = Quantity::new(Measure::Count, value * ONE, width);
        Some(self.with_unit(at, number))
    }
}

fn version(digits: &str, width: usize) -> Quantity {
    let mut amount = 0_i128;
    for part in digits.split('.') {
        let value = part.parse::<i128>().unwrap_or(i128::from(u32::MAX)) + 1;
        amount = amount.wrapping_mul(1 << 24).wrapping_add(value);
    }
    let parts = digits.split('.').count();
    Quantity { decimals: parts.min(255) as u8, ..Quantity::new(Measure::Version, amount, width) }
}

/// Reads digits, grouped or with a fraction. `007` is a name.
fn digits(text: &str, english: bool) -> Option<Quantity> {
    let plain = text.bytes().all(|b| b.is_ascii_digit());
    if text.len() > DIGITS_MAX || text.len() > 1 && text.starts_with('0') && plain {
        return None;
    }
    let number = |whole: &str, fraction: &str, ambiguous| {
        let kept = fraction.get(..fraction.len().min(9))?;
        let whole: i128 = whole.parse().ok()?;
        let parts: i128 = format!("{kept:0<9}").parse().ok()?;
        let value = Quantity::new(Measure::Count, whole.checked_mul(ONE)? + parts, 1);
        Some(Quantity { decimals: kept.len() as u8, ambiguous, ..value })
    };
    if plain {
        return number(text, "", false);
    }
    let marks: Vec<char> = text.chars().filter(|c| !c.is_ascii_digit()).collect();
    let groups: Vec<&str> = text.split(['.', ',']).collect();
    let grouped = groups[0].len() <= 3
        && !groups[0].is_empty()
        && groups[1..].iter().all(|group| group.len() == 3);
    match marks[..] {
        // One mark with three digits behind it: grouping or a fraction, by the language.
        [mark] if grouped && !text.starts_with('0') => {
            let sure = english && mark == ',';
            let value = number(&groups.concat(), "", !sure)?;
            Some(Quantity { decimals: if sure { 0 } else { mark as u8 }, ..value })
        }
        [_] => number(groups[0], groups[1], false),
        _ if grouped && marks.iter().all(|mark| *mark == marks[0]) => {
            number(&groups.concat(), "", false)
        }
        // `1,234.56`.
        [.., last] if marks[..marks.len() - 1].iter().all(|mark| *mark != last) => {
            let (fraction, whole) = groups.split_last()?;
            let fits = whole[0].len() <= 3 && whole[1..].iter().all(|group| group.len() == 3);
            fits.then(|| number(&whole.concat(), fraction, false)).flatten()
        }
        _ => None,
    }
}

//! Numbers, dates and times: shapes and words become values with units.

use super::lexicon::{Lexicon, Roles, Unit};
use super::number::{Decimal, NumberWord, month, number_word, scale, second_of_day};
use super::read::SHAPE;
use super::reading::{Class, Flags, Token};
use super::shape::{NumberShape, Shape};
use super::stem::{KeyHasher, folded_key, word_key};

/// Domain of the keys of values; the class is added.
const VALUE: u8 = 64;

/// Years that a bare number of four digits may name.
const YEARS: std::ops::RangeInclusive<u64> = 1900..=2099;

/// Words before an enumerator whose number is then a count.
const LIMITS: [&str; 7] = ["max", "min", "maximum", "minimum", "total", "num", "count"];

/// A token whose value may not be known yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Proto {
    pub(super) token: Token,
    pub(super) shape: Option<Shape>,
}

impl Proto {
    pub(super) fn is_word(&self) -> bool {
        self.shape.is_none()
            && matches!(self.token.class, Class::Word | Class::Function | Class::Negator)
    }
}

/// A number, how it was written, and how many tokens it took.
#[derive(Clone, Copy)]
struct Quantity {
    value: Decimal,
    ordinal: bool,
    spelled: bool,
    unit: Option<Unit>,
    end: u32,
    width: usize,
}

/// Resolves the quantities of one text.
pub(super) struct Quantities<'a> {
    pub(super) text: &'a str,
    pub(super) lexicon: &'a Lexicon,
    pub(super) buffer: String,
}

impl Quantities<'_> {
    pub(super) fn resolve(mut self, protos: &[Proto]) -> Vec<Token> {
        let mut tokens = Vec::with_capacity(protos.len());
        let mut at = 0;
        while at < protos.len() {
            at += self.step(&protos[at..], &mut tokens);
        }
        tokens
    }

    /// Appends what starts here; returns how many protos it took.
    fn step(&mut self, protos: &[Proto], tokens: &mut Vec<Token>) -> usize {
        let proto = protos[0];
        match proto.shape {
            Some(Shape::IsoDate) => self.iso_date(proto.token, tokens),
            Some(Shape::SlashDate) => self.slash_date(proto.token, tokens),
            Some(Shape::Range { first_end, second }) => {
                self.range(proto.token, (first_end, second), tokens);
            }
            Some(Shape::Whole { class: Class::Time, .. }) => {
                return self.time(protos, tokens);
            }
            Some(Shape::Whole { .. }) => tokens.push(proto.token),
            Some(Shape::Number(_)) => return self.number(protos, tokens),
            None if proto.is_word() => return self.word(protos, tokens),
            None => tokens.push(proto.token),
        }
        1
    }

    fn word(&mut self, protos: &[Proto], tokens: &mut Vec<Token>) -> usize {
        if let Some(width) = self.month_day(protos, tokens) {
            return width;
        }
        if self.quantity(protos).is_some() {
            return self.number(protos, tokens);
        }
        let mut token = protos[0].token;
        let is_month = token.flags.has(Flags::NAME) && self.month_of(&token).is_some();
        if is_month && token.class == Class::Function {
            token.class = Class::Word;
        }
        tokens.push(token);
        1
    }

    /// `Oct 15`, `October 15th`.
    fn month_day(&mut self, protos: &[Proto], tokens: &mut Vec<Token>) -> Option<usize> {
        let month = self.month_of(&protos[0].token)?;
        let day = self.day(&protos[1..])?;
        tokens.push(date(month, day.value.small()?, protos[0].token.start, day.end));
        Some(1 + day.width)
    }

    fn day(&mut self, protos: &[Proto]) -> Option<Quantity> {
        let day = self.quantity(protos).filter(|day| day.unit.is_none() && !day.spelled)?;
        day.value.small().filter(|value| (1..=31).contains(value)).map(|_| day)
    }

    fn month_of(&mut self, token: &Token) -> Option<u64> {
        if token.class != Class::Word && token.class != Class::Function {
            return None;
        }
        month(self.lower(token))
    }

    fn lower(&mut self, token: &Token) -> &str {
        self.buffer.clear();
        self.buffer.push_str(&self.text[token.range()]);
        self.buffer.make_ascii_lowercase();
        &self.buffer
    }

    fn number(&mut self, protos: &[Proto], tokens: &mut Vec<Token>) -> usize {
        let mut token = protos[0].token;
        let Some(quantity) = self.quantity(protos) else {
            token.class = Class::Identifier;
            token.key = folded_key(VALUE + 1, &self.text[token.range()], &mut self.buffer);
            tokens.push(token);
            return 1;
        };
        if let Some(width) = self.day_month(protos, quantity, tokens) {
            return width;
        }
        if let Some(width) = self.spoken_time(protos, quantity, tokens) {
            return width;
        }
        token.end = quantity.end;
        let written = &self.text[token.range()];
        token.class = self.class_of(quantity, written, tokens, protos.get(quantity.width));
        let unit = quantity.unit.map_or(0, |unit| unit.id);
        token.key = match token.class {
            // As `v18` is read.
            Class::Version => folded_key(SHAPE + Class::Version as u8, written, &mut self.buffer),
            class => quantity.value.key(VALUE + class as u8, unit),
        };
        token.entry = unit;
        token.flags = Flags::default();
        if quantity.spelled {
            token.flags.set(Flags::SPELLED);
        }
        tokens.push(token);
        quantity.width
    }

    /// `15 October`, `15th of October`.
    fn day_month(
        &mut self,
        protos: &[Proto],
        day: Quantity,
        tokens: &mut Vec<Token>,
    ) -> Option<usize> {
        let value = day.value.small().filter(|value| (1..=31).contains(value))?;
        if day.spelled || day.unit.is_some() {
            return None;
        }
        let of = protos.get(day.width).is_some_and(|next| self.lower(&next.token) == "of");
        let at = day.width + usize::from(of);
        let name = protos.get(at).filter(|next| next.is_word())?.token;
        let month = self.month_of(&name)?;
        // `5 may fail`.
        let year =
            protos.get(at + 1).is_some_and(|next| matches!(next.shape, Some(Shape::Number(_))));
        if &self.text[name.range()] == "may" && !(of || day.ordinal || year) {
            return None;
        }
        tokens.push(date(month, value, protos[0].token.start, name.end));
        Some(at + 1)
    }

    /// `5 pm`.
    fn spoken_time(
        &mut self,
        protos: &[Proto],
        hour: Quantity,
        tokens: &mut Vec<Token>,
    ) -> Option<usize> {
        let afternoon = self.afternoon(protos.get(hour.width)?)?;
        let value = hour.value.small().filter(|value| *value <= 12)?;
        let second = second_of_day(&value.to_string(), Some(afternoon))?;
        tokens.push(time(second, protos[0].token.start, protos[hour.width].token.end));
        Some(hour.width + 1)
    }

    fn afternoon(&mut self, proto: &Proto) -> Option<bool> {
        match self.lower(&proto.token) {
            "pm" | "p.m" => Some(true),
            "am" | "a.m" if proto.is_word() => Some(false),
            _ => None,
        }
    }

    fn time(&mut self, protos: &[Proto], tokens: &mut Vec<Token>) -> usize {
        let token = protos[0].token;
        let afternoon = protos.get(1).and_then(|next| self.afternoon(next));
        let end = if afternoon.is_some() { protos[1].token.end } else { token.end };
        match second_of_day(&self.text[token.range()], afternoon) {
            Some(second) => tokens.push(time(second, token.start, end)),
            None => tokens.push(token),
        }
        1 + usize::from(afternoon.is_some())
    }

    /// Reads a number with its scale and unit.
    fn quantity(&mut self, protos: &[Proto]) -> Option<Quantity> {
        let first = protos.first()?;
        let mut quantity = match first.shape {
            Some(Shape::Number(shape)) => self.digits(&first.token, shape)?,
            None if first.is_word() => self.spelled(&first.token)?,
            _ => return None,
        };
        if quantity.ordinal {
            return Some(quantity);
        }
        while let Some(next) = protos.get(quantity.width).filter(|next| next.is_word()) {
            match number_word(self.lower(&next.token)) {
                Some(NumberWord::Scale(digits)) => quantity.value = quantity.value.shifted(digits),
                Some(NumberWord::Cardinal(ones)) if quantity.spelled => {
                    let Some(sum) = quantity.value.plus_ones(Decimal::whole(ones)) else { break };
                    quantity.value = sum;
                }
                _ => break,
            }
            quantity.width += 1;
            quantity.end = next.token.end;
        }
        if quantity.unit.is_none()
            && let Some(next) = protos.get(quantity.width).filter(|next| next.is_word())
        {
            let surface = word_key(&self.text[next.token.range()], &mut self.buffer).surface;
            if let Some(unit) = self.lexicon.unit(surface) {
                quantity.unit = Some(unit);
                quantity.width += 1;
                quantity.end = next.token.end;
            }
        }
        Some(quantity)
    }

    fn spelled(&mut self, token: &Token) -> Option<Quantity> {
        let (value, ordinal) = match number_word(self.lower(token))? {
            NumberWord::Cardinal(value) => (value, false),
            NumberWord::Ordinal(value) => (value, true),
            NumberWord::Scale(_) => return None,
        };
        let value = Decimal::whole(value);
        Some(Quantity { value, ordinal, spelled: true, unit: None, end: token.end, width: 1 })
    }

    /// Reads digits with what is written onto them: `5k`, `30s`, `50%`, `15th`.
    fn digits(&mut self, token: &Token, shape: NumberShape) -> Option<Quantity> {
        let text = &self.text[token.range()];
        let digits = &text[usize::from(shape.digits)..shape.end as usize];
        let suffix = text[shape.end as usize..].trim_end_matches('+');
        let sign = shape.currency.and_then(|at| text[usize::from(at)..].chars().next());
        let mut unit = sign.and_then(|sign| self.unit(sign.encode_utf8(&mut [0; 4])));
        let ordinal = matches!(suffix.to_ascii_lowercase().as_str(), "st" | "nd" | "rd" | "th");
        let lower = suffix.to_ascii_lowercase();
        let shift = match lower.as_str() {
            "m" if unit.is_some() || suffix == "M" => Some(6),
            "b" if unit.is_some() => Some(9),
            other => scale(other),
        };
        if shift.is_none() && !ordinal && !suffix.is_empty() {
            // Whatever is counted twice, as in `$5x`, is compared as written.
            unit = if unit.is_none() { Some(self.unit(suffix)?) } else { return None };
        }
        let exact = unit.is_none() && shift.is_none();
        let value =
            Decimal::parse(digits, shape.negative, exact).shifted(shift.unwrap_or(0).max(0));
        let value = if exact { Decimal::parse(digits, shape.negative, true) } else { value };
        Some(Quantity { value, ordinal, spelled: false, unit, end: token.end, width: 1 })
    }

    fn unit(&mut self, name: &str) -> Option<Unit> {
        let surface = word_key(name, &mut self.buffer).surface;
        self.lexicon.unit(surface)
    }

    /// Tells counts from names: `5 files`, but `build 5`, `Python 3.11`, `in 2024`.
    fn class_of(
        &self,
        quantity: Quantity,
        written: &str,
        before: &[Token],
        next: Option<&Proto>,
    ) -> Class {
        match quantity {
            Quantity { ordinal: true, .. } => return Class::Ordinal,
            Quantity { unit: Some(unit), .. } if unit.currency => return Class::Currency,
            Quantity { unit: Some(_), .. } | Quantity { spelled: true, .. } => {
                return Class::Number;
            }
            _ => {}
        }
        let Some(previous) = before.last() else { return Class::Number };
        let roles = self.lexicon.roles_of(previous);
        let is_year = quantity.value.small().is_some_and(|value| YEARS.contains(&value))
            && written.len() == 4;
        if is_year && self.dates(previous, next) {
            Class::Year
        } else if roles.has(Roles::VERSIONED) || self.is_versioned_code(previous) {
            Class::Version
        } else if roles.has(Roles::ENUMERATOR) {
            if self.counts(before, next) { Class::Number } else { Class::Identifier }
        } else if previous.class == Class::Word && previous.flags.has(Flags::NAME) {
            if written.contains('.') { Class::Version } else { Class::Identifier }
        } else {
            Class::Number
        }
    }

    /// Tells whether what stands before a number of four digits makes a year of it: `since 2021`, `the 2024 report`,
    /// but not `is 2000`, `of 2048 rows`.
    fn dates(&self, previous: &Token, next: Option<&Proto>) -> bool {
        let word = self.text[previous.range()].to_ascii_lowercase();
        match previous.class {
            Class::Date | Class::Comma => true,
            Class::Function if matches!(&*word, "in" | "since" | "until" | "till" | "during") => {
                true
            }
            Class::Function => {
                let verb = self.lexicon.roles_of(previous).has(Roles::AUXILIARY);
                !verb && !next.is_some_and(|next| self.is_plural(next))
            }
            _ => month(&word).is_some(),
        }
    }

    /// Tells whether an enumerator's number counts after all: `runs 3 jobs`, `max attempts 3`.
    fn counts(&self, before: &[Token], next: Option<&Proto>) -> bool {
        let Some((previous, earlier)) = before.split_last() else { return true };
        let verb = self.text[previous.range()].ends_with(['s', 'S']);
        let limits = |token: &Token| {
            let word = &self.text[token.range()];
            LIMITS.iter().any(|limit| word.eq_ignore_ascii_case(limit))
        };
        verb && next.is_some_and(|next| self.is_plural(next)) || earlier.last().is_some_and(limits)
    }

    /// Tells whether a word looks like a plural and like no name.
    fn is_plural(&self, proto: &Proto) -> bool {
        let word = &self.text[proto.token.range()];
        let plain = proto.is_word() && proto.token.class == Class::Word;
        let name = proto.token.flags.has(Flags::NAME);
        plain && !name && word.len() > 3 && word.ends_with('s') && !word.ends_with("ss")
    }

    /// `Node.js 18`, `.NET 8`, `C++ 17`.
    fn is_versioned_code(&self, previous: &Token) -> bool {
        let word = &self.text[previous.range()];
        previous.class == Class::Code
            && (word.ends_with(".js") || matches!(word, ".NET" | "ASP.NET" | "C++" | "C#"))
    }

    fn iso_date(&mut self, token: Token, tokens: &mut Vec<Token>) {
        let text = &self.text[token.range()];
        let part = |range: std::ops::Range<usize>| text[range].parse::<u64>().unwrap_or(0);
        tokens.push(year(part(0..4), token.start, token.start + 4));
        tokens.push(date(part(5..7), part(8..10), token.start + 5, token.start + 10));
        if let Some(clock) = text.get(11..).filter(|clock| !clock.is_empty()) {
            let clock = clock.trim_end_matches('Z');
            let second = second_of_day(clock, None);
            let key = second.unwrap_or_else(|| folded_key(VALUE, clock, &mut self.buffer));
            tokens.push(time(key, token.start + 11, token.end));
        }
    }

    /// `10/15/2024` where only one reading is possible, else as written.
    fn slash_date(&mut self, token: Token, tokens: &mut Vec<Token>) {
        let text = &self.text[token.range()];
        let parts: Vec<u64> = text.split('/').filter_map(|part| part.parse().ok()).collect();
        let day_and_month = match parts[..] {
            [month @ 1..=12, day @ 13..=31, _] | [day @ 13..=31, month @ 1..=12, _] => {
                Some((month, day))
            }
            [month @ 1..=12, day, _] if month == day => Some((month, day)),
            _ => None,
        };
        match (day_and_month, &parts[..]) {
            (Some((month, day)), [.., last]) if YEARS.contains(last) => {
                let middle = token.end - 5;
                tokens.push(date(month, day, token.start, middle));
                tokens.push(year(*last, middle + 1, token.end));
            }
            _ => {
                let key = folded_key(VALUE, text, &mut self.buffer);
                tokens.push(Token { class: Class::Date, key, ..token });
            }
        }
    }

    fn range(&mut self, token: Token, (first_end, second): (u32, u32), tokens: &mut Vec<Token>) {
        for (start, end) in [(0, first_end), (second, token.end - token.start)] {
            let part = Token { start: token.start + start, end: token.start + end, ..token };
            let value = Decimal::parse(&self.text[part.range()], false, true);
            let key = value.key(VALUE + Class::Number as u8, 0);
            tokens.push(Token { class: Class::Number, key, ..part });
        }
    }
}

fn date(month: u64, day: u64, start: u32, end: u32) -> Token {
    valued(Class::Date, month * 100 + day, start, end)
}

fn year(value: u64, start: u32, end: u32) -> Token {
    let key = Decimal::whole(value).key(VALUE + Class::Year as u8, 0);
    Token { key, ..valued(Class::Year, value, start, end) }
}

fn time(value: u64, start: u32, end: u32) -> Token {
    valued(Class::Time, value, start, end)
}

fn valued(class: Class, value: u64, start: u32, end: u32) -> Token {
    let key = KeyHasher::new(VALUE + class as u8).number(value).finish();
    Token { key, start, end, entry: 0, class, flags: Flags::default() }
}

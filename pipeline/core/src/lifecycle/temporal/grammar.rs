//! Reads numbers, and amounts of time counted from now; holds what all rules share.
//!
//! Each rule looks at the tokens from one index and returns the index behind what it took. Days are
//! in [`days`], periods in [`periods`], clock times in [`super::clock`], ranges in
//! [`super::ranges`].

mod days;
mod periods;

use jiff::Zoned;
use jiff::civil::{Date, DateTime};
use memfold_guard::{cardinal, month_number};

use super::calendar::{self, Amount, When};
use super::reference::{Confidence, Grain, Relation};
use super::tense::{self, Tense};
use super::tokens::{self, Kind, Token, Unit};

/// The index behind a match, and what it comes to.
pub(super) type Found = (usize, When);

/// A text being read.
pub(super) struct Reader<'a> {
    pub(super) text: &'a str,
    pub(super) tokens: &'a [Token],
    pub(super) now: Zoned,
    pub(super) today: Date,
    /// The time named before, which "two days later" and "the next day" count from.
    pub(super) previous: Option<DateTime>,
}

/// Words that nothing before them belongs to.
const FUNCTION_WORDS: &str = "we i he she they it you and or but at to for in on with of the a an is was were are \
    will this that because when since until till through thru from by before after as if \
    so while due has had have did last next morning afternoon evening night noon our my \
    their there both everyone nobody then now around about between already instead again \
    today tomorrow yesterday not no all only also";

pub(super) const NEAREST: &str =
    "no year is written and the clause shows no tense; the nearest is taken";
const NO_TENSE: &str = "the clause shows no tense; the one before the writing is taken";
pub(super) const SAME_WEEKDAY: &str = "written on that weekday: the day itself may be meant";
const BY_TENSE: &str = "before or after the writing by the tense of the clause";

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str, tokens: &'a [Token], now: Zoned) -> Self {
        let today = now.date();
        Self { text, tokens, now, today, previous: None }
    }

    /// Reads the time that starts at a token: its first token, the one behind, and what it is.
    pub(super) fn reference(&self, index: usize) -> Option<(usize, usize, When)> {
        let recurs = |back| matches!(self.before(index, back), "every" | "each" | "per" | "most");
        let counted = tokens::ordinal(self.before(index, 1)).is_some();
        if recurs(1) || recurs(2) && (counted || matches!(self.before(index, 1), "other" | "last"))
        {
            return None;
        }
        let (next, when) = self.range(index).or_else(|| self.moment(index))?;
        Some((index, next, when))
    }

    /// Reads a single time: a date-time, a day, a part of it, or a period.
    pub(super) fn moment(&self, index: usize) -> Option<Found> {
        self.timed(index).or_else(|| self.elapsed(index)).or_else(|| self.period(index))
    }

    /// How the words before a reference tie it to the clause.
    pub(super) fn relation(&self, start: usize) -> Relation {
        // "by the end of Q2", "until the week of March 10".
        let small = |back: &usize| {
            matches!(self.before(start, *back), "the" | "at" | "on" | "end" | "of" | "week")
        };
        let back = 1 + (1..6).take_while(small).count();
        match self.before(start, back) {
            "since" => Relation::Since,
            "until" | "till" => Relation::Until,
            "by" => Relation::By,
            "before" => Relation::Before,
            "after" => Relation::After,
            _ => Relation::Within,
        }
    }

    pub(super) fn word(&self, index: usize) -> &str {
        self.tokens.get(index).map_or("", |token| token.word.as_str())
    }

    pub(super) fn before(&self, index: usize, back: usize) -> &str {
        index.checked_sub(back).map_or("", |before| self.word(before))
    }

    pub(super) fn kind(&self, index: usize) -> Kind {
        self.tokens.get(index).map_or(Kind::Other, |token| token.kind)
    }

    pub(super) fn mark(&self, index: usize, mark: char) -> bool {
        self.kind(index) == Kind::Mark(mark)
    }

    /// The index behind a token if it is one of some words.
    pub(super) fn skip(&self, index: usize, words: &[&str]) -> usize {
        if words.contains(&self.word(index)) { index + 1 } else { index }
    }

    pub(super) fn skip_mark(&self, index: usize, mark: char) -> usize {
        if self.mark(index, mark) { index + 1 } else { index }
    }

    /// Whether nothing follows that a number or a short word could belong to ("on the 3rd attempt").
    pub(super) fn closed(&self, index: usize) -> bool {
        match self.tokens.get(index) {
            None => true,
            Some(token) => match token.kind {
                Kind::Word => {
                    token.word.is_empty()
                        || tokens::listed(FUNCTION_WORDS, &token.word)
                        || month_number(&token.word).is_some()
                        || tokens::weekday(&token.word).is_some()
                }
                Kind::Mark(_) | Kind::Clock(_) | Kind::Number(_) => true,
                _ => false,
            },
        }
    }

    /// Whether a time lies in the past, and whether the clause says so.
    pub(super) fn direction(&self, start: usize, next: usize) -> (bool, bool) {
        if self.relation(start) == Relation::Since {
            return (true, true);
        }
        match tense::around(self.tokens, start, next) {
            Some(Tense::Past) => (true, true),
            Some(Tense::Future) => (false, true),
            None if matches!(self.relation(start), Relation::By | Relation::Until) => (false, true),
            None => (true, false),
        }
    }

    /// Marks a time that only the tense places.
    pub(super) fn placed(when: When, stated: bool) -> When {
        if stated {
            when.doubt(Confidence::LIKELY, BY_TENSE)
        } else {
            when.doubt(Confidence::AMBIGUOUS, NO_TENSE)
        }
    }

    /// Reads a cardinal: digits, words up to ninety-nine, `a`, "a few" (3), "a couple of" (2). The
    /// flag says that it is meant roughly.
    pub(super) fn count(&self, index: usize) -> Option<(i64, usize, bool)> {
        if let Kind::Number(number) = self.kind(index) {
            return Some((i64::from(number), index + 1, false));
        }
        let vague = self.skip(index, &["a"]);
        match self.word(vague) {
            "few" | "several" => return Some((3, vague + 1, true)),
            "couple" | "pair" => return Some((2, self.skip(vague + 1, &["of"]), true)),
            "dozen" => return Some((12, vague + 1, true)),
            _ => {}
        }
        if matches!(self.word(index), "a" | "an") {
            return Some((1, index + 1, false));
        }
        let (number, next) = self.cardinal(index)?;
        Some((i64::from(number), next, false))
    }

    fn cardinal(&self, index: usize) -> Option<(u32, usize)> {
        let number = cardinal(self.word(index))?;
        let ones = self.skip_mark(index + 1, '-');
        match cardinal(self.word(ones)) {
            Some(one @ 1..=9) if number >= 20 => Some((number + one, ones + 1)),
            _ => Some((number, index + 1)),
        }
    }

    /// Reads an ordinal: `3rd`, `third`, `twenty-first`.
    pub(super) fn nth(&self, index: usize) -> Option<(u32, usize)> {
        if let Kind::Ordinal(number) = self.kind(index) {
            return Some((number, index + 1));
        }
        if let Some(number) = tokens::ordinal(self.word(index)) {
            return Some((number, index + 1));
        }
        let tens = cardinal(self.word(index)).filter(|tens| *tens >= 20)?;
        let ones = self.skip_mark(index + 1, '-');
        let one = tokens::ordinal(self.word(ones)).filter(|one| *one < 10)?;
        Some((tens + one, ones + 1))
    }

    /// Reads a count and its unit: "two weeks", "a couple of days", "half an hour".
    fn amount(&self, index: usize) -> Option<(Amount, usize, bool)> {
        if self.word(index) == "half" && tokens::unit(self.word(index + 2)) == Some(Unit::Hour) {
            return Some((Amount::new(30, Unit::Minute)?, index + 3, false));
        }
        let (mut amount, mut next, vague) = self.one_amount(index)?;
        // "1 month and 21 days", "2 years, 1 month".
        for _ in 0..5 {
            let other = self.skip(self.skip_mark(next, ','), &["and"]);
            match self.one_amount(other) {
                Some((more, behind, false)) => (amount, next) = (amount.and(more)?, behind),
                _ => break,
            }
        }
        let rough = matches!(self.before(index, 1), "about" | "around" | "roughly" | "almost");
        Some((amount, next, vague || rough))
    }

    fn one_amount(&self, index: usize) -> Option<(Amount, usize, bool)> {
        let (count, next, vague) = self.count(index)?;
        let next = self.skip(next, &["more", "full", "whole", "short", "long", "calendar"]);
        let unit = tokens::unit(self.word(next))?;
        Some((Amount::new(count, unit)?, next + 1, vague))
    }

    /// Reads an amount counted from now or another day, in whole days or longer units.
    fn shifted_day(&self, index: usize) -> Option<Found> {
        self.shifted(index, false)
    }

    /// Reads hours, minutes and seconds counted from now.
    fn elapsed(&self, index: usize) -> Option<Found> {
        self.shifted(index, true)
    }

    fn shifted(&self, index: usize, clock: bool) -> Option<Found> {
        if matches!(self.word(index), "in" | "within") {
            return self.in_amount(index, clock);
        }
        if !clock && let Some(found) = self.counted_weekday(index) {
            return Some(found);
        }
        let (amount, next, vague) = self.amount(index)?;
        if amount.is_clock() != clock {
            return None;
        }
        let back = amount.times(-1)?;
        let (next, when) = match self.word(next) {
            "ago" | "back" => (next + 1, back.after_moment(&self.now)?),
            "hence" => (next + 1, amount.after_moment(&self.now)?),
            "later" | "afterwards" => (next + 1, self.counted_from_previous(amount)?),
            "earlier" => (next + 1, self.counted_from_previous(back)?),
            "from" => self.counted_from(amount, next + 1)?,
            "after" if !clock => self.counted_from(amount, next + 1)?,
            "before" if !clock => self.counted_from(back, next + 1)?,
            _ => return None,
        };
        Some((next, rough(when, amount, vague)))
    }

    /// "2 Thursdays ago", "three Fridays from now".
    fn counted_weekday(&self, index: usize) -> Option<Found> {
        let (count, name, vague) = self.count(index)?;
        let weekday = self.word(name);
        let weekday = tokens::weekday(weekday.strip_suffix('s').unwrap_or(weekday))?;
        let (past, next) = match (self.word(name + 1), self.word(name + 2)) {
            ("ago" | "back", _) => (true, name + 2),
            ("from", "now" | "today") => (false, name + 3),
            ("later", _) => (false, name + 2),
            _ => return None,
        };
        let nearest = calendar::nearest_weekday(self.today, weekday, past)?;
        let weeks = (count - 1).checked_mul(if past { -7 } else { 7 })?;
        let when = calendar::day(calendar::plus_days(nearest, weeks)?)?;
        Some((next, rough(when, Amount::new(count, Unit::Day)?, vague)))
    }

    /// "3 weeks from now|today|Friday".
    fn counted_from(&self, amount: Amount, index: usize) -> Option<Found> {
        let next = self.skip(index, &["right"]);
        if self.word(next) == "now" {
            return Some((next + 1, amount.after_moment(&self.now)?));
        }
        let (next, base) = self.day(index)?;
        let confidence = base.confidence;
        let when = amount.after_date(base.start.date())?.sure(confidence);
        Some((next, When { note: base.note, ..when }))
    }

    /// "two days later" counts from the time named before, or from the writing.
    fn counted_from_previous(&self, amount: Amount) -> Option<When> {
        const NOTE: &str = "counted from the time named before it, or from the writing";
        let when = match self.previous {
            Some(previous) if !amount.is_clock() => amount.after_date(previous.date())?,
            Some(previous) => {
                amount.after_moment(&previous.to_zoned(self.now.time_zone().clone()).ok()?)?
            }
            None => amount.after_moment(&self.now)?,
        };
        Some(when.doubt(Confidence::ROUGH, NOTE))
    }

    /// "in two weeks" is a time where the clause looks ahead, and a duration where it looks back.
    fn in_amount(&self, index: usize, clock: bool) -> Option<Found> {
        let within = self.word(index) == "within";
        let start = self.skip(self.skip(index + 1, &["about", "around"]), &["roughly"]);
        let (amount, next, vague) = self.amount(start)?;
        let tense = tense::around(self.tokens, index, next);
        let other = matches!(self.word(next), "or" | "and" | "of" | "ago" | "flat");
        let far = amount.count > 500;
        if amount.is_clock() != clock || tense == Some(Tense::Past) || other || far {
            return None;
        }
        if within {
            let stretch = amount.stretch(&self.now)?;
            let end = if clock {
                stretch.end
            } else {
                calendar::plus_days(stretch.end.date(), -1)?.into()
            };
            let when = When { start: self.now.datetime(), end, exact: None, ..stretch };
            return Some((next, self.maybe_duration(when, tense, clock)?));
        }
        let when = amount.after_moment(&self.now)?;
        Some((next, rough(self.maybe_duration(when, tense, clock)?, amount, vague)))
    }

    /// Without a tense, hours and minutes are mostly durations ("responds in 5 minutes").
    fn maybe_duration(&self, when: When, tense: Option<Tense>, clock: bool) -> Option<When> {
        match tense {
            Some(_) => Some(when),
            None if clock && self.tokens.len() > 8 => None,
            None => Some(when.doubt(Confidence::AMBIGUOUS, "may be how long something takes")),
        }
    }
}

/// Lowers the confidence of amounts that are meant roughly.
fn rough(when: When, amount: Amount, vague: bool) -> When {
    if vague {
        let note = format!("roughly: taken as {}", amount.count);
        when.doubt(Confidence::ROUGH, &note)
    } else if amount.grain() > Grain::Day {
        when.doubt(Confidence::LIKELY, "the day at that distance; the words name a longer unit")
    } else {
        when
    }
}

//! A position in a text: matches words and numbers behind it, and tells by the words around it how
//! a time is tied to its clause and whether the clause looks back or ahead.
//!
//! A position is a small value. Methods with `&mut self` move it over the tokens they take. Methods
//! that read a pattern, a name or a number leave it where it was if there is none; after a longer
//! read that failed, go on from a copy.

use std::ops::RangeBounds;

use jiff::Zoned;
use jiff::civil::{Date, DateTime, Weekday};

use super::calendar::{self, Amount, When};
use super::resolve::{Confidence, Grain, Relation};
use super::tokens::{self, Kind, Names, Part, Token, Unit, listed};

/// A text being read.
pub(super) struct Text<'a> {
    pub(super) written: &'a str,
    pub(super) tokens: &'a [Token],
    pub(super) now: Zoned,
    pub(super) today: Date,
    /// The time named before, which "two days later" and "the next day" count from.
    pub(super) previous: Option<DateTime>,
}

/// A position in a text.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) text: &'a Text<'a>,
    pub(super) index: usize,
}

/// The position behind a time, and the time.
pub(super) type Found<'a> = Option<(At<'a>, When)>;

/// Where a clause looks, by its verbs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tense {
    Past,
    Future,
}

/// Whether a time lies in the past, and whether the clause says so.
#[derive(Debug, Clone, Copy)]
pub(super) struct Direction {
    pub(super) past: bool,
    pub(super) stated: bool,
}

/// Words that nothing before them belongs to.
const FUNCTION_WORDS: &str = "we i he she they it you and or but at to for in on with of the a an is was were are \
    will this that because when since until till through thru from by before after as if \
    so while due has had have did last next morning afternoon evening night noon our my \
    their there both everyone nobody then now around about between already instead again \
    today tomorrow yesterday not no all only also";
/// Prepositions that tie any time to its clause.
const BOUNDS: &str = "by until till since before after from to";
/// Amounts that are meant roughly.
const VAGUE: [(&str, i64); 3] =
    [("a? few|several", 3), ("a? couple|pair of?", 2), ("a? dozen", 12)];
const RELATIONS: [(&str, Relation); 5] = [
    ("since", Relation::Since),
    ("until till", Relation::Until),
    ("by", Relation::By),
    ("before", Relation::Before),
    ("after", Relation::After),
];
const NO_TENSE: &str = "the clause shows no tense; the one before the writing is taken";
const BY_TENSE: &str = "before or after the writing by the tense of the clause";

impl<'a> At<'a> {
    pub(super) fn skip(self, count: usize) -> Self {
        Self { index: self.index + count, ..self }
    }

    /// The token some places ahead, or behind for negative places.
    pub(super) fn token(self, ahead: isize) -> Option<&'a Token> {
        self.text.tokens.get(self.index.checked_add_signed(ahead)?)
    }

    pub(super) fn word(self, ahead: isize) -> &'a str {
        self.token(ahead).map_or("", |token| &token.word)
    }

    pub(super) fn names(self, ahead: isize) -> Names {
        self.token(ahead).map_or_else(Names::default, |token| token.names)
    }

    pub(super) fn kind(self) -> Kind {
        self.token(0).map_or(Kind::Other, |token| token.kind)
    }

    pub(super) fn is(self, ahead: isize, words: &str) -> bool {
        listed(words, self.word(ahead))
    }

    pub(super) fn mark(self, mark: char) -> bool {
        self.kind() == Kind::Mark(mark)
    }

    pub(super) fn capital(self) -> bool {
        self.token(0).is_some_and(|token| token.capital)
    }

    /// Whether a preposition before this ties a time to the clause.
    pub(super) fn tied(self, more: &str) -> bool {
        self.is(-1, BOUNDS) || self.is(-1, more)
    }

    pub(super) fn opens_sentence(self) -> bool {
        self.token(-1).is_none_or(|token| matches!(token.kind, Kind::Mark('.' | '\n')))
    }

    /// Takes the tokens of a pattern: words and marks between spaces, `a|b` for alternatives, `?`
    /// behind an optional one (which is taken wherever it fits).
    pub(super) fn eat(&mut self, pattern: &str) -> bool {
        let mut at = *self;
        // Bytes, as splitting at characters takes most of the time otherwise.
        for part in pattern.as_bytes().split(|byte| *byte == b' ') {
            let (choices, optional) =
                part.strip_suffix(b"?").map_or((part, false), |part| (part, true));
            let fits = at.token(0).is_some_and(|token| {
                choices.split(|byte| *byte == b'|').any(|choice| match token.kind {
                    Kind::Mark(mark) => mark.encode_utf8(&mut [0; 4]).as_bytes() == choice,
                    _ => token.word.as_bytes() == choice,
                })
            });
            if !fits && !optional {
                return false;
            }
            at.index += usize::from(fits);
        }
        *self = at;
        true
    }

    pub(super) fn need(&mut self, pattern: &str) -> Option<()> {
        self.eat(pattern).then_some(())
    }

    /// The value of the first pattern that fits.
    pub(super) fn phrase<T: Copy>(&mut self, table: &[(&str, T)]) -> Option<T> {
        table.iter().find(|(pattern, _)| self.eat(pattern)).map(|(_, value)| *value)
    }

    /// Reads digits.
    pub(super) fn number(&mut self, range: impl RangeBounds<u32>) -> Option<u32> {
        let Kind::Number(number) = self.kind() else { return None };
        let fits = range.contains(&number);
        self.index += usize::from(fits);
        fits.then_some(number)
    }

    pub(super) fn name<T>(&mut self, name: impl Fn(Names) -> Option<T>) -> Option<T> {
        let found = name(self.names(0))?;
        self.index += 1;
        Some(found)
    }

    pub(super) fn weekday(&mut self) -> Option<Weekday> {
        self.name(|names| names.weekday)
    }

    pub(super) fn month(&mut self) -> Option<i8> {
        self.name(|names| names.month)
    }

    pub(super) fn part(&mut self) -> Option<Part> {
        self.name(|names| names.part)
    }

    /// The unit of a calendar period; a fortnight is none.
    pub(super) fn period_unit(&mut self) -> Option<Grain> {
        self.name(|names| names.unit.filter(|unit| unit.times == 1).map(|unit| unit.grain))
    }

    /// Reads one of some words for "last", "this" or "next".
    pub(super) fn offset(&mut self, words: &str) -> Option<i64> {
        let offset = tokens::offset(self.word(0)).filter(|_| self.is(0, words))?;
        self.index += 1;
        Some(offset)
    }

    /// Whether nothing follows that a number or a short word could belong to ("on the 3rd attempt").
    pub(super) fn closed(self) -> bool {
        let Some(token) = self.token(0) else { return true };
        match token.kind {
            Kind::Word => {
                token.word.is_empty()
                    || listed(FUNCTION_WORDS, &token.word)
                    || token.names.month.is_some()
                    || token.names.weekday.is_some()
            }
            kind => matches!(kind, Kind::Mark(_) | Kind::Clock(_) | Kind::Number(_)),
        }
    }

    /// Reads a cardinal: digits, words up to ninety-nine, `a`, "a few" (3), "a couple of" (2). The
    /// flag says that it is meant roughly.
    pub(super) fn count(&mut self) -> Option<(i64, bool)> {
        if let Some(number) = self.phrase(&VAGUE) {
            return Some((number, true));
        }
        let one = |at: &mut Self| at.eat("a|an").then_some(1);
        let number = self.number(..).or_else(|| one(self)).or_else(|| self.cardinal())?;
        Some((number.into(), false))
    }

    fn cardinal(&mut self) -> Option<u32> {
        let number = self.name(|names| names.cardinal)?;
        Some(number + self.ones(number, |names| names.cardinal).unwrap_or(0))
    }

    /// Reads the `five` or `fifth` behind whole tens.
    fn ones(&mut self, tens: u32, name: impl Fn(Names) -> Option<u32>) -> Option<u32> {
        let mut at = *self;
        at.eat("-?");
        let one = at.name(|names| name(names).filter(|one| tens >= 20 && (1..10).contains(one)))?;
        *self = at;
        Some(one)
    }

    /// Reads an ordinal: `3rd`, `third`, `twenty-first`.
    pub(super) fn nth(&mut self) -> Option<u32> {
        if let Kind::Ordinal(number) = self.kind() {
            self.index += 1;
            return Some(number);
        }
        let mut at = *self;
        let number = at.name(|names| names.ordinal).or_else(|| {
            let tens = at.name(|names| names.cardinal)?;
            Some(tens + at.ones(tens, |names| names.ordinal)?)
        })?;
        *self = at;
        Some(number)
    }

    /// Reads the number of a day: digits, an ordinal or, if `spelled`, a cardinal in words.
    pub(super) fn day_number(&mut self, spelled: bool) -> Option<i8> {
        let number = self.number(..).or_else(|| self.nth());
        let number = if spelled { number.or_else(|| self.cardinal()) } else { number }?;
        i8::try_from(number).ok().filter(|day| (1..=31).contains(day))
    }

    /// Reads a count and its unit: "two weeks", "a couple of days", "half an hour"; whether it is
    /// meant roughly.
    pub(super) fn amount(&mut self) -> Option<(Amount, bool)> {
        let hour = self.names(2).unit.filter(|unit| unit.grain == Grain::Hour);
        if hour.is_some() && self.is(0, "half") {
            self.index += 3;
            return Some((Amount::new(30, Unit { grain: Grain::Minute, times: 1 })?, false));
        }
        let about = self.is(-1, "about around roughly almost");
        let (mut amount, vague) = self.one_amount()?;
        // "1 month and 21 days", "2 years, 1 month".
        for _ in 0..5 {
            let mut other = *self;
            other.eat(",? and?");
            let Some((more, false)) = other.one_amount() else { break };
            amount = amount.and(more)?;
            *self = other;
        }
        Some((amount, vague || about))
    }

    fn one_amount(&mut self) -> Option<(Amount, bool)> {
        let (count, vague) = self.count()?;
        self.eat("more|full|whole|short|long|calendar?");
        Some((Amount::new(count, self.name(|names| names.unit)?)?, vague))
    }

    /// How the words before a time tie it to the clause.
    pub(super) fn relation(self) -> Relation {
        // "by the end of Q2", "until the week of March 10".
        let small = |back: &isize| self.is(-back, "the at on end of week");
        let word = self.word(-(1..6).find(|back| !small(back)).unwrap_or(6));
        tokens::find(&RELATIONS, word).unwrap_or(Relation::Within)
    }

    /// Where the time from here to `end` lies.
    pub(super) fn direction(self, end: Self) -> Direction {
        let relation = self.relation();
        let tense = if relation == Relation::Since { Some(Tense::Past) } else { self.tense(end) };
        let ahead = matches!(relation, Relation::By | Relation::Until);
        match tense {
            Some(tense) => Direction { past: tense == Tense::Past, stated: true },
            None => Direction { past: !ahead, stated: ahead },
        }
    }

    /// The one of a series that the direction asks for: the last that has begun, or the first that
    /// is not over. Members that do not exist (February 29) are passed over.
    pub(super) fn toward(self, past: bool, nth: impl Fn(i16) -> Option<When>) -> Option<When> {
        (0..9).find_map(|step| {
            let when = nth(if past { -step } else { step })?;
            let today = self.text.today;
            let fits = if past { when.start.date() <= today } else { when.end.date() > today };
            fits.then_some(when)
        })
    }

    /// The one of a series that the tense around `start` to here asks for.
    pub(super) fn by_tense(self, start: Self, nth: impl Fn(i16) -> Option<When>) -> Option<When> {
        let Direction { past, stated } = start.direction(self);
        Some(placed(self.toward(past, nth)?, stated))
    }

    /// The calendar period some periods from the day of writing.
    pub(super) fn calendar(self, grain: Grain, offset: i64) -> Option<When> {
        calendar::period(self.text.today, grain, offset)
    }
}

/// The word for a relation other than "within".
pub(super) fn relation_word(relation: Relation) -> Option<&'static str> {
    let (words, _) = RELATIONS.iter().find(|(_, known)| *known == relation)?;
    words.split(' ').next()
}

/// Marks a time that only the tense places.
pub(super) fn placed(when: When, stated: bool) -> When {
    if stated {
        when.doubt(Confidence::LIKELY, BY_TENSE)
    } else {
        when.doubt(Confidence::AMBIGUOUS, NO_TENSE)
    }
}

/// How far from a time a verb is looked for, in tokens.
const WINDOW: usize = 30;
/// A verb behind a comma or a conjunction counts as so many tokens further away.
const CLAUSE_DISTANCE: usize = 12;
const FUTURE: &str = "will won't shall should must let's due deadline scheduled upcoming plan plans \
    planned planning expected expects supposed remind remember needs intends gonna";
/// Irregular pasts, without the ones that equal their present (set, put, cut).
const PAST: &str = "was were wasn't weren't had did didn't been ago went made found broke ran began got \
    gave took wrote saw said told came became left felt kept met sent built rebuilt fell \
    lost won chose sold bought brought thought caught taught held led paid spent spoke \
    stood threw withdrew forgot grew knew drove flew froze hid rose overran done gone \
    seen sat ate drank swore hurt heard read slept woke wore understood";
/// Ends in `ed` without being a past.
const NO_PAST: &str = "need feed speed seed embed indeed hundred exceed proceed succeed bleed weed breed \
    shed bed red fed led based related unused shared distributed nested typed named \
    sacred";
/// Words that may stand between the start of a clause and its time.
const SMALL: &str = "on in at by since until till from before after the during last next this and";
/// Verbs that announce a date by their present tense directly before it: "the talk is on Friday".
const EVENTS: &str = "is are happens happen starts start begins begin opens open";

impl At<'_> {
    /// Finds the tense of the clause around the tokens from here to `end` by the nearest verb that
    /// shows one.
    ///
    /// Verbs in between are skipped, as are the ones beyond the ends of the sentence.
    pub(super) fn tense(self, end: Self) -> Option<Tense> {
        let all = self.text.tokens.len();
        let ahead = end.index..all.min(end.index + WINDOW);
        // "Demo on Friday, slides finished": a clause of its own behind the comma tells nothing.
        let comma = || ahead.clone().find(|index| self.text.tokens[*index].kind == Kind::Mark(','));
        let own = if self.opens_clause() { all } else { comma().unwrap_or(all) };
        let left = self.nearest((self.index.saturating_sub(WINDOW)..self.index).rev());
        let right = self.nearest(ahead.start..ahead.end.min(own));
        match (left, right) {
            // At the same distance the verb before its adverbial wins.
            (Some(left), Some(right)) => Some(if right.0 < left.0 { right.1 } else { left.1 }),
            (None, None) => self.is_announced().then_some(Tense::Future),
            (left, right) => left.or(right).map(|(_, tense)| tense),
        }
    }

    /// "The talk is on Friday", "the party takes place on December 24".
    fn is_announced(self) -> bool {
        let verb = (1..=4).find(|back| !self.is(-back, "on at in the")).unwrap_or(5);
        let event = verb < 5 && self.is(-verb, EVENTS);
        event || verb < 4 && self.is(-verb, "place") && self.is(-verb - 1, "takes take")
    }

    /// Whether only prepositions and articles stand between a time and the start of its clause.
    fn opens_clause(self) -> bool {
        let before = &self.text.tokens[self.index.saturating_sub(WINDOW)..self.index];
        let ends = |token: &&Token| !matches!(token.kind, Kind::Mark(',' | '.' | '\n' | ';'));
        before.iter().rev().take_while(ends).all(|token| listed(SMALL, &token.word))
    }

    fn nearest(self, indices: impl Iterator<Item = usize>) -> Option<(usize, Tense)> {
        let mut distance = 0;
        for index in indices {
            let at = Self { index, ..self };
            if at.ends_sentence() {
                return None;
            }
            let separates = at.is(0, "and but because so while which")
                || matches!(at.kind(), Kind::Mark(',' | '(' | ')' | ':' | '—'));
            distance += if separates { CLAUSE_DISTANCE } else { 1 };
            if let Some(tense) = at.cue() {
                return Some((distance, tense));
            }
        }
        None
    }

    /// A full stop ends a sentence unless it belongs to an abbreviation ("Oct. 2").
    fn ends_sentence(self) -> bool {
        match self.kind() {
            Kind::Mark(';' | '!' | '?' | '\n') => true,
            Kind::Mark('.') => self.token(1).is_none_or(|next| next.capital),
            _ => false,
        }
    }

    fn cue(self) -> Option<Tense> {
        let word = self.word(0);
        let to_do = self.is(0, "need have has going want wants about") && self.is(1, "to");
        let modal = self.is(0, "may might") && !self.capital() && !self.word(1).is_empty();
        let to_be = self.is(0, "to") && self.is(1, "be");
        if listed(FUTURE, word) || word.ends_with("'ll") || to_do || modal || to_be {
            return Some(Tense::Future);
        }
        let regular = word.len() > 3 && word.ends_with("ed") && !listed(NO_PAST, word);
        if listed(PAST, word) || regular {
            return self.helped();
        }
        // "we are moving on Friday" speaks of the future.
        let is_now = self.is(-1, "is are am we're i'm they're you're");
        (is_now && word.len() > 4 && word.ends_with("ing")).then_some(Tense::Future)
    }

    /// The tense of a past form behind helping verbs: "will be deployed" is to come, "are deployed"
    /// shows no time.
    fn helped(self) -> Option<Tense> {
        for back in 1..=3 {
            let word = self.word(-back);
            if listed("will shall should must be being won't", word) || word.ends_with("'ll") {
                return Some(Tense::Future);
            }
            if listed("is are gets get", word) {
                return None;
            }
            if listed("was were been had have has and", word) {
                break;
            }
        }
        Some(Tense::Past)
    }
}

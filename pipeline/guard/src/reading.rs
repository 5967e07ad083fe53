//! The analysis of one text: its tokens, and the spans that are compared as a whole.

use std::ops::Range;

use crate::lexer::{Flags, Kind, Lexed, lex};
use crate::lexicon::{Lexicon, Marks, PHRASE_WORDS_MAX, Roles};
use crate::quantity::{Quantity, Reader};
use crate::stem::phrase_key;
use crate::text;

/// Words of a compound, at most.
const COMPOUND_WORDS_MAX: usize = 5;
/// Items of a list that may stand in another order.
const LIST_ITEMS_MAX: usize = 6;

/// Everything the guard reads out of one text, once. Linear in its length.
#[derive(Debug, Clone)]
pub struct Reading {
    pub(crate) text: Box<str>,
    /// blake3 of the strict key, shortened: equal keys are the same text.
    pub(crate) strict: [u8; 16],
    pub(crate) lexed: Lexed,
    /// Spans that start at a token, by token.
    spans: Vec<(u32, Span)>,
    /// Grammar may be applied.
    pub(crate) english: bool,
    /// It denies, hedges, limits, quantifies and asks nothing.
    pub(crate) plain: bool,
    /// Words and phrases that deny.
    pub(crate) negations: usize,
    /// It says `yesterday`, `next Friday`: its meaning depends on its day.
    pub(crate) relative: bool,
    /// The day of the memory, in days since 1970, where it is known.
    pub(crate) day: Option<i32>,
}

/// A span that starts at a token and is compared as a whole.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Span {
    pub(crate) quantity: Option<Quantity>,
    /// The entry of a phrase of the lexicon, and its tokens.
    pub(crate) phrase: u32,
    pub(crate) phrase_width: u32,
    /// The number of a compound, and its tokens.
    pub(crate) compound: u32,
    pub(crate) compound_width: u32,
    /// Tokens of the list of single words that starts here and may be sorted.
    pub(crate) list_width: u32,
}

impl Reading {
    pub(crate) fn new(source: &str, lexicon: &Lexicon) -> Self {
        let mut lexed = lex(source, lexicon);
        let english = is_english(&lexed);
        let plain = is_plain(&lexed, lexicon);
        let spans = spans(&mut lexed, source, english, lexicon);
        let hash = blake3::hash(text::strict_key(source).as_bytes());
        let mut strict = [0; 16];
        strict.copy_from_slice(&hash.as_bytes()[..16]);
        let mut reading = Self {
            text: source.into(),
            strict,
            lexed,
            spans,
            english,
            plain,
            negations: 0,
            relative: text::is_relative_to_day(source),
            day: None,
        };
        let (mut at, end) = (0, reading.lexed.tokens.len());
        while at < end {
            let denied = reading.negator(at..end, lexicon);
            reading.negations += usize::from(denied.is_some());
            at += denied.unwrap_or(1);
        }
        reading
    }

    /// Says on which day the text was written, in days since 1970: `yesterday` is read against it.
    #[must_use]
    pub const fn on_day(mut self, day: Option<i32>) -> Self {
        self.day = day;
        self
    }

    /// Returns the text that was read.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the number of tokens of the word or phrase that starts some tokens and denies.
    pub(crate) fn negator(&self, tokens: Range<usize>, lexicon: &Lexicon) -> Option<usize> {
        let denies = |entry: u32| {
            let roles = lexicon.roles(entry);
            roles.has(Roles::NEGATOR) && !roles.has(Roles::NARROW)
        };
        let (token, span) = (&self.lexed.tokens[tokens.start], self.span(tokens.start));
        let width = span.phrase_width as usize;
        if width > 1 && width <= tokens.len() && denies(span.phrase) {
            return Some(width);
        }
        (matches!(token.kind, Kind::Word | Kind::Script) && denies(token.entry)).then_some(1)
    }

    pub(crate) fn span(&self, at: usize) -> Span {
        let found = self.spans.binary_search_by_key(&(at as u32), |(token, _)| *token);
        found.map_or_else(|_| Span::default(), |found| self.spans[found].1)
    }

    /// Returns the bytes that some tokens cover; an empty range where there is none.
    pub(crate) fn bytes(&self, tokens: Range<usize>) -> Range<usize> {
        let all = &self.lexed.tokens;
        let end_of_text = || all.last().map_or(0, |last| last.end as usize);
        let start = all.get(tokens.start).map_or_else(end_of_text, |token| token.start as usize);
        match tokens.is_empty() {
            true => start..start,
            false => start..all[tokens.end - 1].end as usize,
        }
    }
}

/// Tells whether a text is English: it has small words of it in number, or most of its plain words are in the lexicon and
/// none is a small word of another language; and its letters are ASCII.
fn is_english(lexed: &Lexed) -> bool {
    let (mut all, mut small, mut ascii, mut plain, mut known) = (0, 0, 0, 0, 0);
    let mut foreign = 0;
    for (at, word) in lexed.tokens.iter().enumerate().filter(|(_, token)| token.kind == Kind::Word)
    {
        all += 1;
        ascii += usize::from(lexed.lower(at).is_ascii());
        small += usize::from(word.marks.has(Marks::ENGLISH));
        foreign += usize::from(word.marks.has(Marks::FOREIGN) && !word.has(Flags::EXACT));
        if !word.has(Flags::CAPITAL.with(Flags::EXACT)) {
            plain += 1;
            known += usize::from(word.entry != 0 || word.marks != Marks::default());
        }
    }
    let script = lexed.tokens.iter().any(|token| token.kind == Kind::Script);
    let usual = small > 0 && small * 8 >= all && foreign <= small / 2;
    let listed = plain > 0 && known * 3 >= plain && foreign == 0;
    !script && (usual || listed) && ascii * 10 >= all * 9
}

/// Tells whether a text denies, hedges, conditions, compares, quantifies and asks nothing.
fn is_plain(lexed: &Lexed, lexicon: &Lexicon) -> bool {
    let denying = Roles::NEGATOR.with(Roles::NEGATIVE_VERB).with(Roles::DENIAL).with(Roles::NARROW);
    lexed.tokens.iter().enumerate().all(|(at, token)| {
        !token.marks.has(Marks::HAZARD)
            && !lexicon.roles(token.entry).has(denying)
            && !lexed.is(at, "?")
    })
}

fn spans(lexed: &mut Lexed, text: &str, english: bool, lexicon: &Lexicon) -> Vec<(u32, Span)> {
    let unit_of = |at: usize| {
        let token = &lexed.tokens[at];
        if token.kind == Kind::Word || token.kind == Kind::Symbol {
            lexicon.unit(token.folded).map_or(0, |unit| unit.id)
        } else {
            0
        }
    };
    let versioned = |at: usize| lexicon.roles(lexed.tokens[at].entry).has(Roles::VERSIONED);
    let small = lexed.tokens.iter().any(|token| token.marks.has(Marks::ENGLISH));
    let reader =
        Reader { lexed, text, english: english && small, unit_of: &unit_of, versioned: &versioned };
    let sortable = english.then(|| Sortable::of(lexed));
    let mut spans = Vec::new();
    for at in 0..lexed.tokens.len() {
        let mut span = Span { quantity: reader.read(at), ..Span::default() };
        (span.phrase, span.phrase_width) = phrase(lexed, at, lexicon);
        (span.compound, span.compound_width) = compound(lexed, at, lexicon);
        span.list_width = sortable.as_ref().map_or(0, |sortable| sortable.list(lexed, at));
        if span.quantity.is_some() || span.phrase | span.compound | span.list_width != 0 {
            spans.push((at as u32, span));
        }
    }
    for (at, _) in &spans {
        lexed.tokens[*at as usize].flags.set(Flags::STARTS);
    }
    spans
}

/// Returns the entry and the length of the phrase of several words that starts here.
fn phrase(lexed: &Lexed, at: usize, lexicon: &Lexicon) -> (u32, u32) {
    let first = &lexed.tokens[at];
    if first.kind != Kind::Word || !lexicon.starts_phrase(first.stem) {
        return (0, 0);
    }
    let mut stems = [0; PHRASE_WORDS_MAX];
    let (mut count, mut next, mut ends) = (0, at, [0; PHRASE_WORDS_MAX + 1]);
    while count < PHRASE_WORDS_MAX
        && next < lexed.tokens.len()
        && lexed.tokens[next].kind == Kind::Word
    {
        stems[count] = lexed.tokens[next].stem;
        count += 1;
        next += 1;
        ends[count] = next;
        next += usize::from(lexed.is(next, "-") && lexed.tokens[next].has(Flags::GLUED));
    }
    match lexicon.phrase(&stems[..count]) {
        Some(found) if found.word_count > 1 => (found.entry, (ends[found.word_count] - at) as u32),
        _ => (0, 0),
    }
}

/// Returns the number and the length of the compound that starts here.
fn compound(lexed: &Lexed, at: usize, lexicon: &Lexicon) -> (u32, u32) {
    let first = &lexed.tokens[at];
    if !first.marks.has(Marks::COMPOUND) || first.has(Flags::EXACT) && !first.has(Flags::INITIAL) {
        return (0, 0);
    }
    let mut keys = Vec::with_capacity(COMPOUND_WORDS_MAX);
    let (mut next, mut best) = (at, (lexicon.compound(first.folded), 1));
    while keys.len() < COMPOUND_WORDS_MAX
        && next < lexed.tokens.len()
        && lexed.tokens[next].kind == Kind::Word
    {
        keys.push(lexed.tokens[next].folded);
        next += 1;
        let number =
            if keys.len() > 1 { lexicon.compound(phrase_key(keys.iter().copied())) } else { 0 };
        if number != 0 {
            best = (number, next - at);
        }
        next += usize::from(lexed.is(next, "-") && lexed.tokens[next].has(Flags::GLUED));
    }
    if best.0 == 0 { (0, 0) } else { (best.0, best.1 as u32) }
}

/// Where lists may be sorted: sentences with one coordination and nothing that speaks of order.
struct Sortable {
    /// By token: whether its sentence is one.
    allowed: Vec<bool>,
}

impl Sortable {
    fn of(lexed: &Lexed) -> Self {
        let mut allowed = vec![false; lexed.tokens.len()];
        if lexed.tokens.iter().any(|token| token.marks.has(Marks::ORDERED)) {
            return Self { allowed };
        }
        let mut start = 0;
        for at in 0..=lexed.tokens.len() {
            if at < lexed.tokens.len() && !lexed.ends_sentence(at) {
                continue;
            }
            let joins = |at: &usize| matches!(lexed.lower(*at), "and" | "or");
            let breaks = |at: usize| {
                lexed.tokens[at].kind == Kind::Symbol
                    && !matches!(lexed.lower(at), "," | "." | "!" | "'" | "\"" | "`")
                    || lexed.tokens[at].kind == Kind::Indent
            };
            let one = (start..at).filter(joins).count() == 1 && !(start..at).any(breaks);
            allowed[start..at].fill(one);
            start = at + 1;
        }
        Self { allowed }
    }

    /// Returns the length of the list of single words that starts here, the only one of its sentence.
    fn list(&self, lexed: &Lexed, at: usize) -> u32 {
        let tokens = &lexed.tokens;
        if !self.allowed[at] {
            return 0;
        }
        let subject = tokens[at].has(Flags::INITIAL);
        let headed = at > 0 && tokens[at - 1].marks.has(Marks::LIST_HEAD);
        if !subject && !headed {
            return 0;
        }
        let named = |at: usize| {
            tokens[at].kind == Kind::Code
                && lexed.lower(at).bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        let item = |at: usize| {
            at < tokens.len()
                && (tokens[at].kind == Kind::Word || named(at))
                && !tokens[at].marks.has(Marks::HAZARD)
        };
        let mut end = at;
        for _ in 0..LIST_ITEMS_MAX {
            if !item(end) || end + 1 >= tokens.len() {
                return 0;
            }
            let last = matches!(lexed.lower(end + 1), "and" | "or");
            if !last && !lexed.is(end + 1, ",") {
                return 0;
            }
            end += 2;
            if last {
                let next = end + 1;
                let rest = (next..tokens.len()).take_while(|at| !lexed.ends_sentence(*at));
                // A comma elsewhere may coordinate too.
                let comma = rest.clone().any(|at| lexed.is(at, ","))
                    || (0..at)
                        .rev()
                        .take_while(|at| !lexed.ends_sentence(*at))
                        .any(|at| lexed.is(at, ","));
                let ends = match headed {
                    true => rest.count() == 0,
                    false => next < tokens.len() && is_plural_verb(lexed, next),
                };
                return if item(end) && ends && !comma { (next - at) as u32 } else { 0 };
            }
        }
        0
    }
}

fn is_plural_verb(lexed: &Lexed, at: usize) -> bool {
    let token = &lexed.tokens[at];
    matches!(
        lexed.lower(at),
        "are"
            | "were"
            | "have"
            | "will"
            | "can"
            | "went"
            | "met"
            | "came"
            | "saw"
            | "had"
            | "took"
            | "made"
            | "got"
            | "left"
            | "bought"
            | "ran"
            | "sent"
            | "paid"
            | "won"
    ) || token.has(Flags::PAST) && token.is_ordinary()
        || token.marks.has(Marks::INFLECTING) && !lexed.lower(at).ends_with('s')
}

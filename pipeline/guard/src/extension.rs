//! Safe additions: text that one side may have beyond the other without changing the meaning of the
//! rest.

use std::ops::Range;

use crate::align::is_request;
use crate::lexer::{Flags, Kind};
use crate::lexicon::{Lexicon, Marks, Roles};
use crate::quantity::Measure;
use crate::reading::Reading;

/// Words of a further sentence or a parenthesis.
const ADDED_MAX: usize = 60;

/// Tells whether a range of tokens that only one text has says more and changes nothing that the other says.
pub(crate) fn is_safe(
    reading: &Reading,
    range: &Range<usize>,
    other: &Reading,
    lexicon: &Lexicon,
) -> bool {
    let lexed = &reading.lexed;
    if range.len() > ADDED_MAX || lexed.indented || !reading.english || !other.english {
        return false;
    }
    let reason = range
        .clone()
        .find(|at| lexed.tokens[*at].kind != Kind::Symbol)
        .is_some_and(|at| starts_reason(reading, at));
    let all = range.len() == 1 && lexed.is(range.start, "all");
    if !(reason || all || range.clone().all(|at| adds(reading, at, lexicon)))
        || range.clone().any(|at| lexed.is(at, "?"))
    {
        return false;
    }
    if is_sentence(reading, range) {
        return !refers_back(reading, range);
    }
    // `all 9 servers` are 9 servers.
    if all && lexed.tokens.get(range.end).is_some_and(|next| next.kind == Kind::Number) {
        return other.plain;
    }
    // Within a sentence: only in an affirmative statement without quantifier.
    let plain_rest = other.plain
        && (0..lexed.tokens.len())
            .filter(|at| !range.contains(at))
            .all(|at| adds(reading, at, lexicon));
    (plain_rest || reason && !denies(other, lexicon))
        && (is_parenthesis(reading, range)
            || is_apposition(reading, range)
            || is_adjunct(reading, range, lexicon)
            || is_version(reading, range, lexicon)
            || is_purpose(reading, range))
}

/// Tells whether a token denies, limits, quantifies, compares and asks nothing.
fn adds(reading: &Reading, at: usize, lexicon: &Lexicon) -> bool {
    let token = &reading.lexed.tokens[at];
    let denying = Roles::NEGATOR.with(Roles::NEGATIVE_VERB).with(Roles::DENIAL).with(Roles::NARROW);
    !token.marks.has(Marks::HAZARD)
        && !lexicon.roles(token.entry).has(denying)
        && !reading.lexed.is(at, "?")
}

/// Tells whether a text negates, hedges or quantifies by a word of its own; a verb that denies
/// (`dropped`) reports an event.
fn denies(reading: &Reading, lexicon: &Lexicon) -> bool {
    let tokens = &reading.lexed.tokens;
    tokens.iter().any(|token| {
        token.marks.has(Marks::HAZARD)
            || lexicon.roles(token.entry).has(Roles::NEGATOR.with(Roles::NARROW))
    })
}

/// `Ana, our CFO, owns …`: who somebody is, between two commas behind a name.
fn is_apposition(reading: &Reading, range: &Range<usize>) -> bool {
    const APPOSITION_MAX: usize = 8;
    let lexed = &reading.lexed;
    let named = range.start > 0 && lexed.tokens[range.start - 1].has(Flags::CAPITAL);
    let describes = range.len() > 1
        && matches!(lexed.lower(range.start + 1), "our" | "my" | "the" | "a" | "an");
    let closed = lexed.is(range.start, ",") && lexed.is(range.end - 1, ",");
    named && closed && range.len() <= APPOSITION_MAX && range.len() > 3 && describes
}

/// A whole sentence, with its stop in front or behind.
fn is_sentence(reading: &Reading, range: &Range<usize>) -> bool {
    let lexed = &reading.lexed;
    let starts = |at: usize| {
        lexed
            .tokens
            .get(at)
            .is_some_and(|token| token.has(Flags::INITIAL) || !token.has(Flags::GLUED))
    };
    let stop_in_front = lexed.ends_sentence(range.start);
    let stop_before = range.start == 0 || lexed.ends_sentence(range.start - 1);
    let stop_behind = range.end == lexed.tokens.len()
        || lexed.ends_sentence(range.end - 1)
        || lexed.ends_sentence(range.end);
    let words = range.clone().filter(|at| lexed.tokens[*at].kind == Kind::Word).count();
    words > 1
        && stop_behind
        && (stop_in_front && starts(range.start + 1) || stop_before && starts(range.start))
}

/// A sentence that starts with a word that points back: it may change the meaning of the text
/// before it.
fn refers_back(reading: &Reading, range: &Range<usize>) -> bool {
    let first = range.clone().find(|at| reading.lexed.tokens[*at].kind == Kind::Word);
    first.is_some_and(|at| {
        matches!(
            reading.lexed.lower(at),
            "it" | "this"
                | "that"
                | "these"
                | "those"
                | "they"
                | "he"
                | "she"
                | "which"
                | "but"
                | "so"
                | "or"
                | "however"
                | "instead"
                | "later"
                | "then"
                | "also"
                | "reason"
                | "meaning"
        )
    })
}

/// `( … )` behind a word.
fn is_parenthesis(reading: &Reading, range: &Range<usize>) -> bool {
    let lexed = &reading.lexed;
    let last =
        if lexed.is(range.end - 1, ".") { range.end.saturating_sub(2) } else { range.end - 1 };
    let closed = lexed.is(last, ")");
    let limits = || range.clone().nth(1).is_some_and(|at| limits(reading.lexed.lower(at)));
    range.len() > 2 && lexed.is(range.start, "(") && closed && range.start > 0 && !limits()
}

/// Words that restrict their neighbour.
fn limits(word: &str) -> bool {
    matches!(
        word,
        "on" | "in"
            | "for"
            | "during"
            | "under"
            | "at"
            | "from"
            | "of"
            | "against"
            | "within"
            | "over"
            | "where"
            | "per"
    )
}

/// The version of a product: `Larastan`, `Larastan v3`.
fn is_version(reading: &Reading, range: &Range<usize>, lexicon: &Lexicon) -> bool {
    let lexed = &reading.lexed;
    let Some(before) = range.start.checked_sub(1).map(|before| &lexed.tokens[before]) else {
        return false;
    };
    let quantity = reading.span(range.start).quantity;
    let version = quantity.is_some_and(|quantity| {
        quantity.measure == Measure::Version && quantity.width as usize == range.len()
    });
    version && (before.is_name() || lexicon.roles(before.entry).has(Roles::VERSIONED))
}

/// One more purpose in front of the one that both texts have: `to improve precision and ensure …`.
fn is_purpose(reading: &Reading, range: &Range<usize>) -> bool {
    let lexed = &reading.lexed;
    let plain = range.clone().all(|at| lexed.tokens[at].kind == Kind::Word);
    plain
        && range.start > 0
        && lexed.is(range.start - 1, "to")
        && lexed.is(range.end - 1, "and")
        && is_request(reading, range.start)
}

/// `because`, `due to`: why something holds.
pub(crate) fn starts_reason(reading: &Reading, at: usize) -> bool {
    let lexed = &reading.lexed;
    lexed.tokens[at].marks.has(Marks::REASON) || matches!(lexed.lower(at), "due" | "since")
}

/// `to ensure`, `to reduce`: a purpose.
pub(crate) fn starts_purpose(reading: &Reading, at: usize) -> bool {
    let lexed = &reading.lexed;
    let plain_form = |verb: usize| {
        lexed.tokens[verb].marks.has(Marks::IMPERATIVE)
            || matches!(
                lexed.lower(verb),
                "ensure" | "allow" | "avoid" | "prevent" | "keep" | "make" | "reduce" | "improve"
            )
    };
    lexed.is(at, "to") && at + 1 < lexed.tokens.len() && plain_form(at + 1)
}

/// A phrase at the end of a sentence that gives a manner, reason, means or agent.
fn is_adjunct(reading: &Reading, range: &Range<usize>, lexicon: &Lexicon) -> bool {
    let lexed = &reading.lexed;
    let ends = range.end == lexed.tokens.len() || lexed.ends_sentence(range.end);
    let first = range.clone().find(|at| lexed.tokens[*at].kind != Kind::Symbol);
    let Some(first) = first.filter(|_| ends && range.start > 0) else { return false };
    let before = &lexed.tokens[range.start - 1];
    if before.kind == Kind::Symbol && !matches!(lexed.lower(range.start - 1), ")" | "\"" | "`") {
        return false;
    }
    // Behind a word that waits for more, nothing is a mere addition: `wants to`, `is`.
    let waits = lexicon.roles(before.entry).has(Roles::FUNCTION);
    let token = &lexed.tokens[first];
    let start =
        (0..=range.start - 1).rev().find(|at| lexed.tokens[*at].has(Flags::INITIAL)).unwrap_or(0);
    let request = is_request(reading, range.start - 1);
    let states = (start..range.start).any(|at| matches!(lexed.lower(at), "is" | "are" | "am"));
    let happened =
        (start..range.start).any(|at| lexed.tokens[at].has(Flags::PAST)) && !states && !request;
    let reason = starts_reason(reading, first);
    let purpose = starts_purpose(reading, first);
    let means = matches!(
        lexed.lower(first),
        "with" | "by" | "via" | "using" | "behind" | "through" | "together"
    );
    let narrows = |at: usize| limits(lexed.lower(at));
    !waits
        && match () {
            () if reason => true,
            () if request => purpose || matches!(lexed.lower(first), "via" | "using"),
            // An event stays true with further details.
            () if happened => token.marks.has(Marks::ADJUNCT) || narrows(first) || means,
            () if states => false,
            () => means || purpose,
        }
}

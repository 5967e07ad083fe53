//! Another value in the same frame: `uses Python 3.11` and `uses Python 3.12`. The older one is out of date.

use super::align::equal;
use super::lex::{Kind, Tok};
use crate::lexicon::{Lexicon, Marks, Relation};

/// Tokens of a value.
const VALUE_MAX: usize = 6;
/// Words that both texts share, at least.
const FRAME_WORDS_MIN: usize = 2;

/// In what two texts differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    /// In one value that is stated, so that the newer one holds.
    Update,
    /// In one value of which several may hold at once.
    Several,
    /// In something else, or in two events or things.
    Other,
}

/// Looks for the one value in which two texts differ.
pub(super) fn slot(a: &[Tok<'_>], b: &[Tok<'_>], lexicon: &Lexicon) -> Slot {
    let same = |(a, b): &(&Tok<'_>, &Tok<'_>)| equal(a, b).is_some();
    if a.iter().chain(b).any(|token| token.is("?")) {
        return Slot::Other;
    }
    let (a, b) = (trimmed(a), trimmed(b));
    let prefix = a.iter().zip(b).take_while(same).count();
    let (rest_a, rest_b) = (&a[prefix..], &b[prefix..]);
    let suffix = rest_a.iter().rev().zip(rest_b.iter().rev()).take_while(same).count();
    let own = &rest_a[..rest_a.len() - suffix.min(rest_a.len())];
    let other = &rest_b[..rest_b.len() - suffix.min(rest_b.len())];
    let (before, after) = (&a[..prefix], &rest_a[own.len()..]);
    let words = |tokens: &[Tok<'_>]| tokens.iter().filter(|t| t.kind == Kind::Word).count();
    let sizes = (1..=VALUE_MAX).contains(&own.len()) && (1..=VALUE_MAX).contains(&other.len());
    if !sizes || words(before) + words(after) < FRAME_WORDS_MIN {
        return Slot::Other;
    }
    if before.iter().chain(after).any(|token| token.marks.has(Marks::MANY_VALUED)) {
        return Slot::Several;
    }
    let stated = is_state(before, after)
        && !counts_things(before, own)
        && (names_holder(before, own, other, after) || has_value(before, own, other, lexicon));
    if stated { Slot::Update } else { Slot::Other }
}

/// Without what ends the text.
fn trimmed<'t, 'a>(tokens: &'t [Tok<'a>]) -> &'t [Tok<'a>] {
    let end = tokens.iter().rposition(|token| !token.ends_sentence()).map_or(0, |last| last + 1);
    &tokens[..end]
}

/// What happened, happened: only a state, a plan or a change to another state has a value that can be out of date.
fn is_state(before: &[Tok<'_>], after: &[Tok<'_>]) -> bool {
    let tokens = || before.iter().chain(after);
    let past = tokens().any(|token| token.past && token.is_ordinary());
    let present = || tokens().any(|token| token.marks.has(Marks::STATE));
    !past || present()
}

/// `ticket 4711`, `chapter 3`, `host web-01`: the value tells which thing is spoken of.
fn counts_things(before: &[Tok<'_>], own: &[Tok<'_>]) -> bool {
    let whole = before.iter().rposition(|token| !token.glued).unwrap_or(0);
    let glued = own.first().is_some_and(|token| token.glued);
    let Some(token) = (if glued { &before[..=whole] } else { before }).last() else { return false };
    let named = glued && own.iter().all(|token| token.kind == Kind::Digits);
    let numbered = named || token.is("#") || token.marks.has(Marks::NUMBERED);
    numbered && !before.iter().any(|token| matches!(&*token.lower, "is" | "are"))
}

/// `Ana is the tech lead`: who holds a place that one holds.
fn names_holder(before: &[Tok<'_>], own: &[Tok<'_>], other: &[Tok<'_>], after: &[Tok<'_>]) -> bool {
    let person = |tokens: &[Tok<'_>]| {
        tokens
            .iter()
            .all(|token| token.kind == Kind::Word && token.text.starts_with(char::is_uppercase))
    };
    let verb = after.first().is_some_and(|token| token.marks.has(Marks::HOLDS));
    let the = after.first().is_some_and(|token| token.lower == "is")
        && after.get(1).is_some_and(|token| matches!(&*token.lower, "the" | "our" | "my"));
    before.is_empty() && person(own) && person(other) && (verb || the)
}

/// Both have a number or a name in the place of a value, or words of one class; or the words after a verb that takes one
/// thing only.
fn has_value(before: &[Tok<'_>], own: &[Tok<'_>], other: &[Tok<'_>], lexicon: &Lexicon) -> bool {
    let words = |tokens: &[Tok<'_>]| tokens.iter().filter(|t| t.kind == Kind::Word).count();
    if words(before) == 0 {
        return false;
    }
    let digits = |tokens: &[Tok<'_>]| tokens.iter().any(|token| token.kind == Kind::Digits);
    let named = |token: &Tok<'_>| {
        token.kind == Kind::Word
            && !token.initial
            && (token.exact || token.text.starts_with(char::is_uppercase))
            || matches!(&*token.text, "-" | "." | "/")
    };
    let names = |tokens: &[Tok<'_>]| tokens.iter().all(named) && words(tokens) > 0;
    let entry = |tokens: &[Tok<'_>]| match tokens {
        [token] => lexicon.entry(token.entry),
        _ => None,
    };
    let classed = entry(own).zip(entry(other)).is_some_and(|(a, b)| {
        matches!(a.conflict(b), Some(Relation::Exclusive | Relation::Distinct))
    });
    let takes_one = before.last().is_some_and(|token| token.marks.has(Marks::TAKES_ONE));
    let plain = |tokens: &[Tok<'_>]| match tokens {
        [token] => token.kind == Kind::Word && token.marks == Marks::default(),
        _ => false,
    };
    digits(own) && digits(other)
        || (names(own) || digits(own)) && (names(other) || digits(other))
        || classed
        || takes_one && plain(own) && plain(other)
}

//! Forms of words: spellings, plurals, persons, participles.

use super::lex::{Kind, Tok};
use crate::lexicon::{Marks, PROOF};

/// Returns how many tokens of the first text are the full form of the second's first word; 0: not so.
pub(super) fn full(long: &[Tok<'_>], short: &[Tok<'_>]) -> usize {
    if short[0].exact {
        return 0;
    }
    let Some(form) =
        PROOF.full_form(&short[0].lower).map(str::to_owned).or_else(|| american(&short[0].lower))
    else {
        return 0;
    };
    let count = form.split(' ').count();
    let same = long.len() >= count
        && form
            .split(' ')
            .zip(long)
            .all(|(word, token)| token.lower == word && (word.len() == 1 || !token.exact));
    let capital = |token: &Tok<'_>| token.text.starts_with(char::is_uppercase) && !token.initial;
    if same && (count > 1 || capital(short.first().unwrap_or(&long[0])) == capital(&long[0])) {
        count
    } else {
        0
    }
}

/// Returns how many tokens of the first text are the parts of the second's first word: `health care`, `health-care`.
pub(super) fn joined(parts: &[Tok<'_>], whole: &[Tok<'_>]) -> usize {
    let Some((head, rest)) = whole[0].lower.split_at_checked(parts[0].lower.len()) else {
        return 0;
    };
    let hyphen = usize::from(parts.get(1).is_some_and(|sign| sign.is("-") && sign.glued));
    let Some(last) = parts.get(1 + hyphen) else { return 0 };
    let plain = |token: &Tok<'_>| {
        let weighty = Marks::CORE
            .with(Marks::HAZARD)
            .with(Marks::COUNTING)
            .with(Marks::WEIGHED)
            .with(Marks::ARTICLE);
        token.is_ordinary()
            && token.text.is_ascii()
            && token.lower.len() > 2
            && !token.marks.has(weighty)
    };
    let same = head == parts[0].lower && rest == last.lower;
    let whole_plain = whole[0].is_ordinary() && !whole[0].marks.has(Marks::HAZARD);
    if same && plain(&parts[0]) && plain(last) && whole_plain { 2 + hyphen } else { 0 }
}

/// Returns `organize` for `organise`, where the word is long enough to be one of these.
fn american(word: &str) -> Option<String> {
    let endings = ["ise", "ised", "ises", "ising", "isation", "isations"];
    let end = endings.iter().find(|end| word.len() > end.len() + 4 && word.ends_with(**end))?;
    Some(format!("{}iz{}", &word[..word.len() - end.len()], &end[2..]))
}

pub(super) fn full_verb(verb: &str) -> bool {
    matches!(
        verb,
        "prefer"
            | "like"
            | "use"
            | "want"
            | "work"
            | "live"
            | "have"
            | "own"
            | "speak"
            | "love"
            | "hate"
            | "dislike"
            | "drink"
            | "eat"
    )
}

/// Tells whether the first word is the second one with the ending of plural or third person, as may be.
pub(super) fn inflected(long: &[Tok<'_>], at: usize, short: &[Tok<'_>], place: usize) -> bool {
    let (word, base) = (&long[at], &short[place]);
    let counted = |tokens: &[Tok<'_>], at: usize| {
        tokens[at.saturating_sub(3)..at]
            .iter()
            .any(|token| token.kind == Kind::Digits || token.marks.has(Marks::COUNTING))
    };
    let verb = base.marks.has(Marks::SUBJECT_VERB) || full_verb(&base.lower);
    let ending = match word.lower.strip_prefix(&*base.lower) {
        Some("s") => base.lower.len() > 2 && !base.lower.ends_with('s'),
        Some("es") => base.lower.ends_with(['s', 'x', 'z', 'h', 'o']),
        _ => base
            .lower
            .strip_suffix('y')
            .is_some_and(|stem| word.lower.strip_prefix(stem) == Some("ies")),
    };
    let have = word.lower == "has" && base.lower == "have";
    let fits = |token: &Tok<'_>| {
        token.is_ordinary()
            && token.text.is_ascii()
            && !token.glued
            && !token.marks.has(Marks::UNINFLECTED)
    };
    let one_word =
        word.stem == base.stem && (word.entry == base.entry || word.entry == 0 || base.entry == 0);
    have || ending
        && one_word
        && fits(word)
        && fits(base)
        && (verb || !counted(long, at) && !counted(short, place))
}

/// `is running` and `runs`.
pub(super) fn progressive(long: &[Tok<'_>], short: &[Tok<'_>]) -> bool {
    let Some(second) = long.get(1) else { return false };
    matches!(&*long[0].lower, "is" | "are" | "am")
        && second.is_ordinary()
        && second.lower.ends_with("ing")
        && short[0].is_ordinary()
        && (third_person(&short[0].lower) == (long[0].lower != "are"))
        && short[0].stem == second.stem
        && !short[0].past
}

/// Tells whether two words or phrases have the same ending: neither or both are plurals, neither or both past.
pub(super) fn same_form(a: &[Tok<'_>], b: &[Tok<'_>]) -> bool {
    let Some((last_a, last_b)) = a.last().zip(b.last()) else { return false };
    let ends = |token: &Tok<'_>| {
        let lower = &token.lower;
        (lower.ends_with('s') && !lower.ends_with("ss"), lower.ends_with("ing"))
    };
    let past = |tokens: &[Tok<'_>]| tokens.iter().any(|token| token.past);
    let form = ends(last_a) == ends(last_b)
        || a.len() != b.len() && a.len() + b.len() > 2 && ends(&a[0]) == ends(&b[0]);
    form && past(a) == past(b)
}

fn third_person(verb: &str) -> bool {
    verb.ends_with('s') && !verb.ends_with("ss")
}

/// `a dog running in the snow` and `a dog runs in the snow`: the only verb of a text, behind its subject, is a participle
/// where the other has the finite verb.
pub(super) fn participle(long: &[Tok<'_>], at: usize, short: &[Tok<'_>], place: usize) -> bool {
    let (participle, verb) = (&long[at], &short[place]);
    let fits = |token: &Tok<'_>| token.is_ordinary() && !token.glued && token.text.is_ascii();
    // Behind `a` no other verb can stand before one in -s: `the people offer parking`, `parks`.
    let is_subject = |tokens: &[Tok<'_>]| {
        let Some((first, rest)) = tokens.split_first() else { return false };
        let words_max = if first.lower == "the" { 1 } else { 3 };
        let names = |token: &Tok<'_>| {
            token.is_ordinary()
                && !token.past
                && !token.lower.ends_with('s')
                && !token.marks.has(Marks::HAZARD.with(Marks::CORE).with(Marks::ARTICLE))
        };
        first.marks.has(Marks::ARTICLE)
            && (1..=words_max).contains(&rest.len())
            && rest.iter().all(names)
    };
    let finite = |token: &Tok<'_>| {
        matches!(
            &*token.lower,
            "is" | "are"
                | "was"
                | "were"
                | "am"
                | "be"
                | "been"
                | "has"
                | "have"
                | "had"
                | "do"
                | "does"
                | "did"
        )
    };
    participle.lower.len() > 5
        && participle.lower.ends_with("ing")
        && third_person(&verb.lower)
        && verb.stem == participle.stem
        && !verb.marks.has(Marks::UNINFLECTED)
        && fits(participle)
        && fits(verb)
        && is_subject(&long[..at])
        && is_subject(&short[..place])
        && !long.iter().chain(short).any(finite)
}

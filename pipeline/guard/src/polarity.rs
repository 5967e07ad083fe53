//! Negation and what it reaches.

use super::lexicon::{Lexicon, Roles};
use super::reading::{Class, Flags, Token};

/// A negation reaches at most so many tokens.
const SCOPE_TOKENS_MAX: usize = 24;

/// Marks every content token that stands under an odd number of negations.
///
/// A negation reaches forward to the end of its clause; where nothing is left there (`the build failed`,
/// `enabled: no`), it reaches back to the clause's start.
pub(super) fn mark(tokens: &mut [Token], text: &str, lexicon: &Lexicon) {
    let mut negated_clause = false;
    for at in 0..tokens.len() {
        let token = tokens[at];
        if matches!(token.class, Class::Break | Class::Comma) {
            negated_clause = false;
        }
        let roles = lexicon.roles_of(&token);
        if !roles.has(Roles::NEGATOR.with(Roles::NEGATIVE_VERB)) {
            continue;
        }
        if roles.has(Roles::CONCORD) && negated_clause {
            continue;
        }
        if !roles.has(Roles::NEGATOR) && describes(tokens, at, text, lexicon) {
            continue;
        }
        negated_clause = true;
        let end = scope_end(tokens, at, roles.has(Roles::NARROW), lexicon);
        if !toggle(&mut tokens[at + 1..end]) {
            let start = clause_start(tokens, at, lexicon);
            toggle(&mut tokens[start..at]);
            tokens[at].flags.set(Flags::SPENT);
        }
    }
}

/// Tells whether a verb stands before a noun as an adjective does: `the failing test` is a test.
fn describes(tokens: &[Token], at: usize, text: &str, lexicon: &Lexicon) -> bool {
    let word = &text[tokens[at].start as usize..tokens[at].end as usize];
    let behind_article = at.checked_sub(1).is_some_and(|before| {
        let (token, roles) = (&tokens[before], lexicon.roles_of(&tokens[before]));
        token.class == Class::Function
            && !roles.has(Roles::AUXILIARY.with(Roles::PREPOSITION).with(Roles::COORDINATOR))
    });
    let never_governs = word.eq_ignore_ascii_case("failing");
    (never_governs || behind_article && word.ends_with("ing"))
        && tokens.get(at + 1).is_some_and(Token::is_content)
}

/// Toggles content tokens; tells whether there was any.
fn toggle(tokens: &mut [Token]) -> bool {
    let mut any = false;
    for token in tokens.iter_mut().filter(|token| token.is_content()) {
        token.flags.toggle(Flags::NEGATED);
        any = true;
    }
    any
}

fn scope_end(tokens: &[Token], at: usize, narrow: bool, lexicon: &Lexicon) -> usize {
    let last = tokens.len().min(at + 1 + SCOPE_TOKENS_MAX);
    let mut content = false;
    for next in at + 1..last {
        let token = &tokens[next];
        if ends_clause(tokens, next, lexicon)
            || (narrow && content && token.class == Class::Function)
        {
            return next;
        }
        content |= token.is_content();
    }
    last
}

fn clause_start(tokens: &[Token], at: usize, lexicon: &Lexicon) -> usize {
    let first = at.saturating_sub(SCOPE_TOKENS_MAX);
    let mut start = at;
    while start > first {
        let before = start - 1;
        // `enabled: no` is one clause.
        let joined = tokens[before].class == Class::Comma && before + 1 == at;
        if !joined && ends_clause(tokens, before, lexicon) {
            break;
        }
        start = before;
    }
    start
}

fn ends_clause(tokens: &[Token], at: usize, lexicon: &Lexicon) -> bool {
    let token = &tokens[at];
    if matches!(token.class, Class::Break | Class::Comma) {
        return true;
    }
    let roles = lexicon.roles_of(token);
    if token.class == Class::Negator && roles.has(Roles::COORDINATOR) {
        return true; // `neither a nor b`: each has its own negation.
    }
    let new_subject = roles.has(Roles::COORDINATOR)
        && tokens.get(at + 1).is_some_and(|next| lexicon.roles_of(next).has(Roles::SUBJECT));
    new_subject || roles.has(Roles::CLAUSE)
}

//! Whether a clause tells of the past or the future, by its verbs.

use super::tokens::{Kind, Token, listed};

/// Where a clause looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tense {
    Past,
    Future,
}

/// How far from a reference a verb is looked for, in tokens.
const WINDOW: usize = 30;

/// A verb behind a comma or a conjunction counts as so many tokens further away.
const CLAUSE_DISTANCE: usize = 12;

/// Finds the tense of the clause around tokens `start..end` by the nearest verb that shows one.
///
/// Verbs inside the range are skipped, as are those beyond the ends of the sentence.
pub(super) fn around(tokens: &[Token], start: usize, end: usize) -> Option<Tense> {
    let before = (start.saturating_sub(WINDOW)..start).rev();
    // "Demo on Friday, slides finished": a clause of its own behind the comma tells nothing.
    let own = if opens_clause(tokens, start) { tokens.len() } else { clause_end(tokens, end) };
    let after = end..own.min(end + WINDOW);
    let left = nearest(tokens, before);
    let right = nearest(tokens, after);
    match (left, right) {
        // At the same distance the verb before its adverbial wins.
        (Some(left), Some(right)) => Some(if right.0 < left.0 { right.1 } else { left.1 }),
        (None, None) => is_announced(tokens, start).then_some(Tense::Future),
        (left, right) => left.or(right).map(|(_, tense)| tense),
    }
}

/// "The talk is on Friday", "the party takes place on December 24": the present tense directly before a date announces it.
fn is_announced(tokens: &[Token], start: usize) -> bool {
    const EVENTS: &str = "is are happens happen starts start begins begin opens open";
    let before = &tokens[start.saturating_sub(4)..start];
    let mut words = before.iter().rev().map(|token| token.word.as_str());
    let word = words.find(|word| !matches!(*word, "on" | "at" | "in" | "the")).unwrap_or_default();
    listed(EVENTS, word) || word == "place" && matches!(words.next(), Some("takes" | "take"))
}

/// Whether only prepositions and articles stand between a reference and the start of its clause.
fn opens_clause(tokens: &[Token], start: usize) -> bool {
    const SMALL: &str =
        "on in at by since until till from before after the during last next this and";
    let before = &tokens[start.saturating_sub(WINDOW)..start];
    let clause = before.iter().rev().take_while(|token| token.kind != Kind::Mark(','));
    let sentence = clause.take_while(|token| !matches!(token.kind, Kind::Mark('.' | '\n' | ';')));
    sentence.filter(|token| !listed(SMALL, &token.word)).count() == 0
}

fn clause_end(tokens: &[Token], end: usize) -> usize {
    let behind = &tokens[end..tokens.len().min(end + WINDOW)];
    let comma = behind.iter().position(|token| token.kind == Kind::Mark(','));
    comma.map_or(tokens.len(), |offset| end + offset)
}

fn nearest(tokens: &[Token], indices: impl Iterator<Item = usize>) -> Option<(usize, Tense)> {
    let mut distance = 0;
    for index in indices {
        let token = &tokens[index];
        if ends_sentence(tokens, index) {
            return None;
        }
        distance += if separates(token) { CLAUSE_DISTANCE } else { 1 };
        if let Some(tense) = cue(tokens, index) {
            return Some((distance, tense));
        }
    }
    None
}

/// A full stop ends a sentence unless it belongs to an abbreviation ("Oct. 2").
fn ends_sentence(tokens: &[Token], index: usize) -> bool {
    match tokens[index].kind {
        Kind::Mark(';' | '!' | '?' | '\n') => true,
        Kind::Mark('.') => tokens.get(index + 1).is_none_or(|next| next.capital),
        _ => false,
    }
}

fn separates(token: &Token) -> bool {
    let conjunction =
        matches!(token.word.as_str(), "and" | "but" | "because" | "so" | "while" | "which");
    conjunction || matches!(token.kind, Kind::Mark(',' | '(' | ')' | ':' | '—'))
}

const FUTURE: &str = "will won't shall should must let's due deadline scheduled upcoming plan plans \
    planned planning expected expects supposed remind remember needs intends gonna";

/// Irregular pasts, without those that equal their present (set, put, cut).
const PAST: &str = "was were wasn't weren't had did didn't been ago went made found broke ran began got \
    gave took wrote saw said told came became left felt kept met sent built rebuilt fell \
    lost won chose sold bought brought thought caught taught held led paid spent spoke \
    stood threw withdrew forgot grew knew drove flew froze hid rose overran done gone \
    seen sat ate drank swore hurt heard read slept woke wore understood";

/// Ends in `ed` without being a past.
const NO_PAST: &str = "need feed speed seed embed indeed hundred exceed proceed succeed bleed weed breed \
    shed bed red fed led based related unused shared distributed nested typed named \
    sacred";

fn cue(tokens: &[Token], index: usize) -> Option<Tense> {
    let word = tokens[index].word.as_str();
    if word.is_empty() {
        return None;
    }
    let next = |ahead: usize| tokens.get(index + ahead).map_or("", |token| token.word.as_str());
    let to_do = matches!(word, "need" | "have" | "has" | "going" | "want" | "wants" | "about");
    if listed(FUTURE, word) || word.ends_with("'ll") || to_do && next(1) == "to" {
        return Some(Tense::Future);
    }
    let modal = matches!(word, "may" | "might") && !tokens[index].capital && !next(1).is_empty();
    if modal || word == "to" && next(1) == "be" {
        return Some(Tense::Future);
    }
    let past =
        listed(PAST, word) || word.len() > 3 && word.ends_with("ed") && !listed(NO_PAST, word);
    if !past {
        return progressive(tokens, index);
    }
    helped(&tokens[index.saturating_sub(3)..index])
}

/// What the helping verbs before a past form make of it: "will be deployed" is to come, "are
/// deployed" shows no time.
fn helped(behind: &[Token]) -> Option<Tense> {
    for token in behind.iter().rev() {
        match token.word.as_str() {
            "will" | "shall" | "should" | "must" | "be" | "being" | "won't" => {
                return Some(Tense::Future);
            }
            word if word.ends_with("'ll") => return Some(Tense::Future),
            "is" | "are" | "gets" | "get" => return None,
            "was" | "were" | "been" | "had" | "have" | "has" | "and" => break,
            _ => {}
        }
    }
    Some(Tense::Past)
}

/// "we are moving on Friday" speaks of what is to come.
fn progressive(tokens: &[Token], index: usize) -> Option<Tense> {
    let word = tokens[index].word.as_str();
    let helper = index.checked_sub(1).map_or("", |before| tokens[before].word.as_str());
    let is_now = matches!(helper, "is" | "are" | "am" | "we're" | "i'm" | "they're" | "you're");
    (is_now && word.len() > 4 && word.ends_with("ing")).then_some(Tense::Future)
}

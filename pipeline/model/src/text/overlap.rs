//! How much of one text's wording stands in another.

use std::collections::BTreeSet;

use super::tokens;

/// Tokens per shingle.
pub const SHINGLE_TOKENS: usize = 3;

/// Returns the Jaccard index of two texts' sets of lower-cased words, in \[0, 1\]; 1 where both have none.
#[must_use]
pub fn jaccard(left: &str, right: &str) -> f64 {
    let left: BTreeSet<String> = words(left).into_iter().collect();
    let right: BTreeSet<String> = words(right).into_iter().collect();
    let common = left.intersection(&right).count();
    let all = left.len() + right.len() - common;
    if all == 0 { 1.0 } else { common as f64 / all as f64 }
}

/// Returns the share of `part`'s word shingles that stand in `whole`, in \[0, 1\].
///
/// A text shorter than a shingle is one shingle; one without words is contained in everything.
#[must_use]
pub fn shingle_containment(part: &str, whole: &str) -> f64 {
    let part = words(part);
    if part.is_empty() {
        return 1.0;
    }
    let width = SHINGLE_TOKENS.min(part.len());
    let whole = words(whole);
    let known: BTreeSet<&[String]> = whole.windows(width).collect();
    let wanted: BTreeSet<&[String]> = part.windows(width).collect();
    let found = wanted.iter().filter(|shingle| known.contains(*shingle)).count();
    found as f64 / wanted.len() as f64
}

fn words(text: &str) -> Vec<String> {
    tokens(text).map(|token| token.text.to_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_is(found: f64, expected: f64) {
        assert!(found.total_cmp(&expected).is_eq(), "found {found}, expected {expected}");
    }

    #[test]
    fn jaccard_counts_words_once() {
        assert_is(jaccard("", "!"), 1.0);
        assert_is(jaccard("a b a", "B A"), 1.0);
        assert_is(jaccard("a b", "b c"), 1.0 / 3.0);
    }

    #[test]
    fn containment_asks_for_the_wording() {
        assert_is(shingle_containment("a b c d", "x a b c d y"), 1.0);
        assert_is(shingle_containment("a b c d", "d c b a"), 0.0);
        assert_is(shingle_containment("a b c d", "a b c"), 0.5);
        assert_is(shingle_containment("a", "b a"), 1.0);
        assert_is(shingle_containment("", ""), 1.0);
        assert_is(shingle_containment("a", ""), 0.0);
    }
}

//! Opposites that are built from each other: `stable` and `unstable`, `服务已开启` and `服务已关闭`.

use super::DifferenceKind;
use super::lexicon::{Lexicon, Relation, Roles};
use super::stem::word_key;

const NEGATIVE_PREFIXES: [&str; 9] = ["un", "in", "im", "ir", "il", "dis", "non", "de", "mis"];

/// The shortest word that a prefix is believed on.
const BASE_CHARS_MIN: usize = 4;

/// Words that only look like opposites.
const UNRELATED: [(&str, &str); 6] = [
    ("form", "inform"),
    ("come", "income"),
    ("side", "inside"),
    ("liver", "deliver"),
    ("press", "impress"),
    ("vent", "invent"),
];

/// Tells whether one word is the other with a negative prefix or ending.
pub(super) fn opposite_by_affix(left: &str, right: &str) -> bool {
    let (short, long) = if left.len() <= right.len() { (left, right) } else { (right, left) };
    if short.len() < BASE_CHARS_MIN
        || long.len() > short.len() + 5
        || !(short.is_ascii() && long.is_ascii())
    {
        return false;
    }
    // Nearly all pairs of words end here.
    let begins = |prefix: &&str| {
        let (start, base) = long.as_bytes().split_at(prefix.len());
        start.eq_ignore_ascii_case(prefix.as_bytes())
            && base.first().is_some_and(|first| first.eq_ignore_ascii_case(&short.as_bytes()[0]))
    };
    let ends = short.as_bytes()[short.len() - 3..].eq_ignore_ascii_case(b"ful");
    if !ends && !NEGATIVE_PREFIXES.iter().any(begins) {
        return false;
    }
    let (short, long) = (short.to_ascii_lowercase(), long.to_ascii_lowercase());
    let prefixed = NEGATIVE_PREFIXES
        .iter()
        .any(|prefix| long.strip_prefix(prefix).is_some_and(|base| same_base(base, &short)));
    let ended = short
        .strip_suffix("ful")
        .zip(long.strip_suffix("less"))
        .is_some_and(|(with, without)| with == without);
    (prefixed && !UNRELATED.contains(&(&*short, &*long))) || ended
}

/// Tells whether two words share all but an inflection.
fn same_base(left: &str, right: &str) -> bool {
    let (left_stem, right_stem) = (super::stem::stem(left), super::stem::stem(right));
    left[..left_stem.length] == right[..right_stem.length] && left_stem.suffix == right_stem.suffix
}

/// Tells how runs of a script without spaces exclude each other, by what differs between an equal beginning and an
/// equal end: `服务已开启`, `服务已关闭`.
pub(super) fn opposite_runs(own: &str, theirs: &str, lexicon: &Lexicon) -> Option<DifferenceKind> {
    const RUN_BYTES_MAX: usize = 600;
    const SHARED_CHARACTERS_MIN: usize = 2;
    const WIDENED_MAX: usize = 2;
    if own.len().max(theirs.len()) > RUN_BYTES_MAX {
        return None;
    }
    let equal = |(own, theirs): &(char, char)| own == theirs;
    let before: Vec<char> =
        own.chars().zip(theirs.chars()).take_while(equal).map(|(same, _)| same).collect();
    let start: usize = before.iter().map(|same| same.len_utf8()).sum();
    let ends = own[start..].chars().rev().zip(theirs[start..].chars().rev());
    let after: Vec<char> = ends.take_while(equal).map(|(same, _)| same).collect();
    if before.len() + after.len() < SHARED_CHARACTERS_MIN {
        return None;
    }
    let end: usize = after.iter().map(|same| same.len_utf8()).sum();
    let width = |shared: &[char]| shared.iter().map(|same| same.len_utf8()).sum::<usize>();
    let mut buffer = String::new();
    for (back, forth) in (0..=WIDENED_MAX).flat_map(|a| (0..=WIDENED_MAX).map(move |b| (a, b))) {
        if back > before.len() || forth > after.len() {
            continue;
        }
        let from = start - width(&before[before.len() - back..]);
        let to = end - width(&after[after.len() - forth..]);
        let mut entry = |run: &str| {
            let part = &run[from..run.len() - to];
            lexicon.entry(lexicon.word(word_key(part, &mut buffer).stem))
        };
        let kind = match (entry(own), entry(theirs)) {
            (Some(own), Some(theirs)) => match own.conflict(theirs) {
                Some(Relation::Opposite) => DifferenceKind::Antonym,
                Some(Relation::Exclusive) => DifferenceKind::Exclusive,
                Some(Relation::Modality) => DifferenceKind::Modality,
                Some(Relation::Distinct) | None => continue,
            },
            (Some(negator), None) | (None, Some(negator))
                if negator.roles.has(Roles::NEGATOR)
                    && own.len().min(theirs.len()) == from + to =>
            {
                DifferenceKind::Negation
            }
            _ => continue,
        };
        return Some(kind);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affixes_turn_words() {
        for (left, right) in [
            ("stable", "unstable"),
            ("Connected", "disconnect"),
            ("useful", "useless"),
            ("regular", "irregular"),
            ("activate", "deactivated"),
        ] {
            assert!(opposite_by_affix(left, right), "{left} {right}");
            assert!(opposite_by_affix(right, left), "{left} {right}");
        }
        for (left, right) in
            [("form", "inform"), ("do", "undo"), ("cat", "concat"), ("stable", "stable")]
        {
            assert!(!opposite_by_affix(left, right), "{left} {right}");
        }
    }
}

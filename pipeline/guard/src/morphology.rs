//! Opposites that are built from each other: `stable` and `unstable`.

const NEGATIVE_PREFIXES: [&str; 9] = ["un", "in", "im", "ir", "il", "dis", "non", "de", "mis"];

/// The shortest base on which a prefix is recognised.
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

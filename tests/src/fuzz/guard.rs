//! Pairs of texts for the guard: dates, numbers, units, quotes and paths, glued to any character.

use std::sync::OnceLock;

use memfold_core::policy::Policy;
use memfold_core::report::word_diff;
use memfold_guard::text::{excerpt, is_relative_to_day, loose_key, strict_key};
use memfold_guard::{Guard, Judgement, Verdict};

use super::Changes;

/// Pieces that the guard reads by their shape, and words that it has opinions on.
#[rustfmt::skip]
const PIECES: &[&str] = &[
    "2026-07-24", "2026-08-03T10:30:00Z", "2026-08-03T9999999999999999999", "10/15/2024",
    "1/13/02024", "Oct 15th", "15 October", "sept", "10:30", "5pm", "12:05 a.m", "8080",
    "1,000.50", "-5", "−5", "$5", "€1.45", "~¥5k", "50 %", "50%", "30s", "5µs", "15th", "5-10",
    "5–10", "3 times", "2x", "×4", "twice", "two hundred", "trillion", "v1.2.3", "node 18",
    "PostgreSQL 14", "3.11", "1.0rc1", "10.0.0.1", "#260", "a1b2c3d4", "GPT-4",
    "https://a.b/c?d=é", "me@a.b", "/tmp/x", "C:\\x", "~/y", "snake_case", "a::b", "foo.bar",
    "--force", "C#", "C++", ".NET", "U.S.", "U.N.-led", "can't", "won’t", "n't", "o’", "not",
    "never", "only", "stop using", "the", "a", "must", "may", "and", "enabled", "disabled", "undo",
    "untrue", "inabc", "TRẺ", "abṹ", "useful", "US", "IT", "k8s", "Tom", "WHO", "\"", "“", "”",
    "«", "`", "'", "’", "(", ")", "（", "）", "「", "。", "，", "：", "—", "–", "…", "-", "_", "/", "\\",
    ".", ",", ":", ";", "?", "!", "？", "؟", "=", "<", ">=", "&", "|", "*", "#", "@", "%", "°", "+",
    "\n", " ", "\t", "\u{a0}", "\u{3000}", "\u{2028}",
];

/// Characters that break code that counts bytes: of two to four bytes, joined to their neighbours,
/// invisible, from right to left.
#[rustfmt::skip]
const GLUE: &[char] = &[
    'é', 'ß', 'İ', 'ı', 'ﬁ', 'ẻ', 'Ẻ', 'ṹ', 'µ', '×', '−', '€', '漢', '完', 'の', '한', 'ไ', 'ा', 'ש',
    'ع', '١', '२', '２', '🙂', '👩', '🏽', '\u{200d}', '\u{fe0f}', '\u{301}', '\u{20e3}', '\u{200b}',
    '\u{200f}', '\u{202e}', '\u{2066}', '\u{feff}', '\0', '\u{7f}', '\u{85}', '\u{fffd}',
    '\u{e000}', '\u{10ffff}', '𝟚', '①', '½', '²', 'Ⅷ', 'ǆ', '\u{1b}',
];

/// Pieces of one text.
const PIECES_MAX: usize = 12;

fn guard() -> &'static Guard {
    static GUARD: OnceLock<Guard> = OnceLock::new();
    GUARD.get_or_init(|| {
        Guard::new(&Policy::builtin().guard).expect("the built-in lexicon is valid")
    })
}

/// Judges two texts in both orders, and uses the results as a report does.
pub(super) fn run(bytes: &[u8]) {
    let mut changes = Changes::new(bytes);
    let left = text(&mut changes);
    // Near pairs share most of their words.
    let right =
        if changes.below(3) == 0 { text(&mut changes) } else { edited(&left, &mut changes) };
    let guard = guard();
    let (own, theirs) = (guard.read(&left), guard.read(&right));
    let (there, back) = (guard.judge(&own, &theirs), guard.judge(&theirs, &own));
    assert_eq!(there.verdict, back.verdict, "{left:?} {right:?}");
    assert_eq!(there.contradiction_score.to_bits(), back.contradiction_score.to_bits());
    assert_eq!(there.differences.len(), back.differences.len());
    assert!((0.0..=1.0).contains(&there.contradiction_score), "{left:?} {right:?}");
    check_ranges(&there, &left, &right);
    let twin = guard.judge(&own, &guard.read(&format!(" {left}\n")));
    let dated = is_relative_to_day(&left);
    assert!(dated || twin.verdict == Verdict::Same, "{left:?}");
    assert_eq!(there.longer.is_some(), there.verdict == Verdict::Extends, "{left:?} {right:?}");
    assert!(there.longer.is_none() || there.verdict.is_proven(), "{left:?} {right:?}");
    for chars_max in [0, 1, 7, 200] {
        assert!(excerpt(&left, chars_max).chars().count() <= chars_max + 1);
    }
    let _ = word_diff(&left, &right);
    assert_eq!(strict_key(&left), strict_key(&strict_key(&left)));
    let _ = loose_key(&right);
}

fn check_ranges(judgement: &Judgement, left: &str, right: &str) {
    for step in &judgement.steps {
        assert!(left.get(step.left.clone()).is_some(), "{step:?} of {left:?}");
        assert!(right.get(step.right.clone()).is_some(), "{step:?} of {right:?}");
    }
    for difference in &judgement.differences {
        for (text, range) in [(left, &difference.left), (right, &difference.right)] {
            let lies_inside = range.clone().is_none_or(|range| text.get(range).is_some());
            assert!(lies_inside, "{range:?} of {text:?}");
        }
    }
}

fn text(changes: &mut Changes<'_>) -> String {
    let mut text = String::new();
    for _ in 0..changes.below(PIECES_MAX) {
        push_piece(&mut text, changes);
        if changes.below(3) == 0 {
            text.push(' ');
        }
    }
    text
}

fn push_piece(text: &mut String, changes: &mut Changes<'_>) {
    match changes.below(8) {
        0..=3 => text.push_str(changes.pick(PIECES)),
        4 | 5 => text.push(changes.pick(GLUE)),
        6 => text.extend(char::from_u32(changes.number() as u32 % 0x11_0000)),
        _ => text.push(char::from(b' ' + changes.below(95) as u8)),
    }
}

/// Returns a text with a few places changed.
fn edited(text: &str, changes: &mut Changes<'_>) -> String {
    let mut edited: Vec<char> = text.chars().collect();
    for _ in 0..=changes.below(3) {
        let at = changes.below(edited.len() + 1);
        let end = (at + changes.below(4)).min(edited.len());
        let mut piece = String::new();
        push_piece(&mut piece, changes);
        edited.splice(at..end, piece.chars());
    }
    edited.into_iter().collect()
}

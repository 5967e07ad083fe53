//! Arbitrary texts and near pairs: no panic, and the same verdict in both orders.
//!
//! `MEMFOLD_GUARD_PAIRS` is the number of pairs (default 20,000), `MEMFOLD_GUARD_SEED` the seed.

use super::generate::Draws;
use super::{Pair, Text, families, guard, probes, verdict_name};

const PAIRS: usize = 20_000;
const SEED: u64 = 20;
/// Changes to a text that make a near one.
const CHANGES_MAX: usize = 4;
/// Characters of an arbitrary text.
const CHARACTERS_MAX: usize = 48;

/// Pieces that are read by their shape, and marks, joiners and digits of other scripts.
const PIECES: &[&str] = &[
    " ",
    "\n",
    "\t",
    "\n    ",
    "  ",
    "\u{a0}",
    "\u{3000}",
    "\u{2028}",
    "\u{200b}",
    "\u{200d}",
    "\u{feff}",
    "\u{202e}",
    "\u{301}",
    "\u{fe0f}",
    "\0",
    "\u{7f}",
    ".",
    ",",
    ";",
    ":",
    "?",
    "!",
    "…",
    "。",
    "、",
    "，",
    "：",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "（",
    "「",
    "»",
    "\"",
    "“",
    "'",
    "’",
    "`",
    "```",
    "```\n",
    "-",
    "–",
    "—",
    "−",
    "_",
    "/",
    "\\",
    "//",
    "*",
    "#",
    "@",
    "%",
    "°",
    "+",
    "=",
    "==",
    "!=",
    "<",
    ">=",
    "&&",
    "|",
    "->",
    "→",
    "=>",
    "~",
    "^",
    "$",
    "€",
    "¥",
    "½",
    "²",
    "①",
    "Ⅷ",
    "not ",
    "n't",
    "never ",
    "no ",
    "only ",
    "all ",
    "except ",
    "if ",
    "unless ",
    "yesterday",
    "next week",
    "2026-11-28",
    "2026/1/2",
    "11/28/2026",
    "Nov 28",
    "28. November",
    "10:30",
    "10:30:59Z",
    "3 pm",
    "+02:00",
    "1.000",
    "1,000",
    "1 000",
    "0.5",
    "-7",
    "−7",
    "1e9",
    "0x1F",
    "99999999999999999999",
    "10k",
    "$2m",
    "5 %",
    "5m",
    "20°C",
    "3GB",
    "12 ms",
    "two hundred",
    "dozen",
    "first",
    "2nd",
    "v1.2.3",
    "1.0.0-rc.1",
    "Node 20",
    "#42",
    "PR 42",
    "a1b2c3d",
    "550e8400-e29b-41d4-a716-446655440000",
    "https://a.test/b?c=d#e",
    "a@b.test",
    "/etc/hosts",
    "./src",
    "C:\\x",
    "~/y",
    "snake_case",
    "camelCase",
    "A::b",
    "f(x, y)",
    "--flag",
    "-v",
    "key: value",
    "key=value",
    "- [ ] ",
    "- [x] ",
    "1. ",
    "* ",
    "> ",
    "✅",
    "❌",
    "👩🏽\u{200d}💻",
    "🇩🇪",
    "🙂",
    "nicht ",
    "kein ",
    "no es ",
    "ne pas ",
    "不",
    "没有",
    "ない",
    "않",
    "не ",
    "değil",
    "Straße",
    "STRASSE",
    "İ",
    "ı",
    "ﬁ",
    "ǅ",
    "ß",
    "ẞ",
    "漢字",
    "カタカナ",
    "ひらがな",
    "한국어",
    "ภาษาไทย",
    "हिन्दी",
    "עברית",
    "العربية",
    "١٢٣",
    "२०",
    "１２",
    "𝟙𝟚",
    "and ",
    "or ",
    "the ",
    "a ",
    "is ",
    "was ",
    "will ",
    "must ",
    "may ",
];

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn piece(draws: &mut Draws) -> String {
    match draws.below(8) {
        0..=5 => PIECES[draws.below(PIECES.len())].to_owned(),
        6 => char::from_u32(draws.below(0x11_0000) as u32).map_or(String::new(), String::from),
        _ => char::from(b' ' + draws.below(95) as u8).to_string(),
    }
}

fn arbitrary(draws: &mut Draws) -> String {
    (0..draws.below(CHARACTERS_MAX)).map(|_| piece(draws)).collect()
}

/// Returns a text with a few places deleted, doubled, exchanged or filled with a piece.
fn changed(text: &str, draws: &mut Draws) -> String {
    let mut text: Vec<char> = text.chars().collect();
    for _ in 0..=draws.below(CHANGES_MAX) {
        let start = draws.below(text.len() + 1);
        let end = (start + draws.below(6)).min(text.len());
        match draws.below(5) {
            0 => drop(text.drain(start..end)),
            1 => drop(text.splice(start..start, text[start..end].to_vec())),
            2 => text[start..end].reverse(),
            3 => drop(text.splice(start..end, piece(draws).chars().collect::<Vec<_>>())),
            _ => {
                let words: String = text.iter().collect();
                let mut words: Vec<&str> = words.split(' ').collect();
                let (one, other) = (draws.below(words.len()), draws.below(words.len()));
                words.swap(one, other);
                text = words.join(" ").chars().collect();
            }
        }
    }
    text.into_iter().collect()
}

#[test]
fn nothing_panics_and_the_order_does_not_count() {
    let known: Vec<Pair> = families::all()
        .into_iter()
        .flat_map(|family| family.pairs)
        .chain(probes::pairs())
        .collect();
    let seed = setting("MEMFOLD_GUARD_SEED", SEED);
    let count = setting("MEMFOLD_GUARD_PAIRS", PAIRS as u64);
    let mut draws = Draws(seed);
    let guard = guard();
    for round in 0..count {
        let Pair { older: Text { text: older, .. }, newer: Text { text: newer, .. } } =
            known[draws.below(known.len())].clone();
        let (left, right) = match draws.below(4) {
            0 => (arbitrary(&mut draws), arbitrary(&mut draws)),
            1 => {
                let text = arbitrary(&mut draws);
                let near = changed(&text, &mut draws);
                (text, near)
            }
            2 => {
                let near = changed(&older, &mut draws);
                (older, near)
            }
            _ => (changed(&older, &mut draws), changed(&newer, &mut draws)),
        };
        let (one, other) = (guard.read(&left), guard.read(&right));
        let there = verdict_name(guard.judge(&one, &other).verdict);
        let back = verdict_name(guard.judge(&other, &one).verdict);
        assert_eq!(there, back, "seed {seed}, round {round}: {left:?} | {right:?}");
    }
}

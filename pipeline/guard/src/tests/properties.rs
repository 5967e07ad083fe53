//! What holds for every text.

use proptest::prelude::*;

use super::super::Verdict;
use super::{guard, judge};

/// Texts of words that the guard has opinions on.
fn sentence() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "the",
        "port",
        "is",
        "not",
        "8080",
        "9090",
        "5%",
        "Alice",
        "Bob",
        "never",
        "always",
        "red",
        "blue",
        "enabled",
        "disabled",
        "#12",
        "v1.2",
        "Oct",
        "15",
        "and",
        ",",
        ".",
        "stopped",
        "using",
        "a/b",
        "can't",
        "\"x y\"",
        "`z`",
        "Monday",
        "from",
        "to",
        "must",
        "may",
        "two",
        "second",
        "k",
        "$5",
        "不",
        "喜欢",
        "big",
        "large",
        "car",
        "automobile",
        "will",
        "failed",
    ]);
    prop::collection::vec(words, 0..14).prop_map(|words| words.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn verdicts_are_symmetric(left in sentence(), right in sentence()) {
        let guard = guard_once();
        let there = judge(guard, &left, &right);
        let back = judge(guard, &right, &left);
        prop_assert_eq!(there.verdict, back.verdict);
        prop_assert_eq!(there.contradiction_score.to_bits(), back.contradiction_score.to_bits());
        prop_assert_eq!(there.signals, back.signals);
        prop_assert_eq!(there.differences.len(), back.differences.len());
    }

    #[test]
    fn a_text_is_compatible_with_itself(text in sentence()) {
        let guard = guard_once();
        for twin in [text.clone(), format!("  {} ", text.replace(' ', "\n  ")).replace('\n', " "), text.to_lowercase()] {
            let judgement = judge(guard, &text, &twin);
            if twin.to_lowercase() == twin && text != twin {
                // Case changes what is known of names and codes, never that nothing contradicts.
                prop_assert_ne!(judgement.verdict, Verdict::Contradictory);
            } else {
                prop_assert_eq!(judgement.verdict, Verdict::Same);
            }
        }
        let reading = guard.read(&text);
        prop_assert_eq!(guard.judge(&reading, &reading).verdict, Verdict::Same);
    }

    #[test]
    fn a_proof_uses_every_byte_once(text in sentence(), word in 0_usize..14, mark in 0_usize..4) {
        let guard = guard_once();
        let mut words: Vec<&str> = text.split(' ').collect();
        words.insert(word % words.len(), ["the", "please", "3", "not"][mark]);
        let other = format!("{}.", words.join(" "));
        let there = judge(guard, &text, &other);
        let back = judge(guard, &other, &text);
        prop_assert_eq!(there.verdict, back.verdict);
        if there.verdict == Verdict::Same {
            let (mut left, mut right): (Vec<_>, Vec<_>) =
                there.proof.iter().map(|step| (step.left.clone(), step.right.clone())).unzip();
            for (spans, text) in [(&mut left, &text), (&mut right, &other)] {
                spans.retain(|span| !span.is_empty());
                spans.sort_by_key(|span| span.start);
                prop_assert!(spans.windows(2).all(|two| two[0].end <= two[1].start));
                let mut rest: Vec<u8> = text.bytes().collect();
                spans.iter().for_each(|span| rest[span.clone()].fill(b' '));
                prop_assert!(rest.iter().all(u8::is_ascii_whitespace), "{:?}", there.proof);
            }
        }
    }

    #[test]
    fn nothing_panics(left in any::<String>(), right in "[-a-z0-9#$%./:'’\"`@_ ,°你ä\n]{0,40}") {
        let guard = guard_once();
        let judgement = judge(guard, &left, &right);
        prop_assert!((0.0..=1.0).contains(&judgement.contradiction_score));
        for difference in &judgement.differences {
            if let Some(range) = &difference.left {
                prop_assert!(left.get(range.clone()).is_some());
            }
            if let Some(range) = &difference.right {
                prop_assert!(right.get(range.clone()).is_some());
            }
        }
        let twin = format!("{right} ");
        prop_assert_eq!(judge(guard, &right, &twin).verdict, Verdict::Same);
    }
}

fn guard_once() -> &'static super::Guard {
    static GUARD: std::sync::OnceLock<super::Guard> = std::sync::OnceLock::new();
    GUARD.get_or_init(guard)
}

#[test]
fn a_megabyte_of_anything_is_read() {
    let guard = guard_once();
    let other = guard.read(&"enabled red 7 must ".repeat((1 << 20) / 19));
    for unit in [
        "a",
        "a'",
        "not ",
        "\"",
        "`x` ",
        "5",
        "1.",
        "no, ",
        "the cat ",
        "#1 ",
        "-",
        "a/b ",
        "你",
        "\u{301}",
        "can't ",
        "Oct 15 ",
        "two hundred ",
        "é",
        "('",
        "3 times ",
        "2026-07-24—",
        "漢2026-07-24",
        "（）",
        "may 5 may ",
        "trillion ",
        "5 million ",
        "Ẻ",
        "\u{0}",
    ] {
        let text = unit.repeat((1 << 20) / unit.len());
        let twin = format!("{text} more");
        let (text, twin) = (guard.read(&text), guard.read(&twin));
        assert!(!guard.judge(&text, &other).verdict.is_proven(), "{unit}");
        assert!(guard.judge(&text, &twin).differences.len() <= 64, "{unit}");
    }
}

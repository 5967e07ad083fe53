//! Texts without the spaces and the ASCII that shapes are made of.

use super::super::DifferenceKind;
use super::super::Verdict::{Different, Same, Undecided};
use super::{check, guard, judge};

/// An ISO date with a character of several bytes right behind it was cut in the middle of that character: one such memory in
/// a near pair ended `consolidate`, `explain` and `bench guard` with a panic. Other byte positions had the same fault: a word
/// that ends in a letter of three bytes beside an English opposite, and a time of day of nineteen digits.
#[test]
fn nothing_glued_to_a_date_or_word_ends_a_run() {
    let guard = guard();
    let glue = [
        "—done",
        "（完成）",
        "）",
        "。",
        "…",
        "–",
        "です",
        "완료",
        "🙂",
        "\u{301}",
        "\u{200d}",
        "\u{202e}",
        "é",
        "İ",
        "٣",
        "２",
        "\0",
        "\u{feff}",
        "T—",
        "T9999999999999999999",
        "T10:30—x",
        "x",
        "-",
        "_",
        "/",
    ];
    for date in ["2026-07-24", "10/15/2024", "1/13/02024", "Oct 15", "10:30", "5pm", "$5", "v1.2"] {
        for glue in glue {
            for text in
                [format!("{date}{glue}"), format!("see {date}{glue} ok"), format!("{glue}{date}")]
            {
                let judgement = judge(&guard, &text, "see 2026-07-25 ok");
                assert!(!judgement.verdict.is_proven(), "{text}: {judgement:?}");
            }
        }
    }
    for (left, right) in [("TRẺ", "untrue"), ("abṹ", "inabcd"), ("ab俿", "unabcd")] {
        assert!(!judge(&guard, left, right).verdict.is_proven(), "{left} {right}");
    }
}

/// Marks of other scripts end what stands before them, and a date is one wherever it stands.
#[test]
fn dates_are_dates_between_other_scripts() {
    let guard = guard();
    for (left, right) in [
        ("Deployed 2026-07-24—done", "Deployed 2026-07-25—done"),
        ("更新于2026-08-03完成", "更新于2026-08-04完成"),
        ("完成（2026-08-03）", "完成（2026-08-04）"),
        ("リリースは2026-08-03です", "リリースは2026-08-04です"),
    ] {
        let judgement = judge(&guard, left, right);
        assert_eq!(judgement.verdict, Different, "{left} {right} {judgement:?}");
        let kinds: Vec<_> = judgement.differences.iter().map(|found| found.kind).collect();
        assert_eq!(kinds, [DifferenceKind::Date], "{left} {right}");
    }
    check(&[(Same, "完成（2026-08-03）", "完成(2026-08-03)")]);
}

/// Of times with an offset or a fraction the guard saw the hour alone, and let them merge into each other.
#[test]
fn offsets_and_fractions_belong_to_a_time() {
    let guard = guard();
    for (left, right) in [
        ("at 2026-07-24T10:30+02:00", "at 2026-07-24T10:45+02:00"),
        ("at 2026-07-24T10:30:05.123", "at 2026-07-24T10:30:06.123"),
        ("at 2026-07-24T10:30:00+02:00", "at 2026-07-24T10:30:00+03:00"),
    ] {
        let judgement = judge(&guard, left, right);
        assert!(!judgement.verdict.is_proven(), "{left} {right} {judgement:?}");
    }
    check(&[(Undecided, "at 2026-07-24T10:30Z", "at 2026-07-24T10:30:00")]);
}

//! Hostile input to a consolidator: copies, broken embedders, strange texts.

use std::fmt::Write as _;

use memfold_core::report::markdown;
use memfold_core::time::Instant;
use memfold_tests::InMemoryStore;
use memfold_tests::{Run, StoreStyle, TestStore, memory, merges, unit_vector};

#[test]
fn two_models_of_one_dimension_are_never_compared() {
    let text = |spelling: &str| format!("The nightly backup runs at 03:40{spelling}");
    let vector = unit_vector(32, 1);
    let mut rows = vec![memory(0, text("."), &vector), memory(1, text("!"), &vector)];
    let merged = Run::builtin().plan(&InMemoryStore::new(rows.clone()));
    assert_eq!(merges(&merged.plan).len(), 1, "of one model they are one memory");
    if let Some(embedding) = &mut rows[1].embedding {
        embedding.model = Some("another".into());
    }
    for run in [Run::builtin(), Run::on_vectors(0.5)] {
        let outcome = run.plan(&InMemoryStore::new(rows.clone()));
        assert!(merges(&outcome.plan).is_empty());
        assert_eq!(outcome.report.detected.pairs, 0);
    }
}

fn long_text(tail: &str) -> String {
    let mut text = String::new();
    for step in 0..40 {
        let _ = write!(text, "Step {step}: check the gate, sign the list, close the door. ");
    }
    text + tail
}

#[test]
fn texts_that_differ_beyond_the_embedders_window_are_two() {
    let vector = unit_vector(32, 2);
    for (older, newer) in [
        ("Then call Miriam on extension 114.", "Then call Miriam on extension 115."),
        ("Never restart the pump.", "Restart the pump."),
        ("Finally water the ferns in the hall.", "Finally post the parcels to Oslo."),
    ] {
        assert!(long_text("").chars().count() > 1_000);
        let rows = vec![memory(0, long_text(older), &vector), memory(1, long_text(newer), &vector)];
        let outcome = Run::builtin().plan(&InMemoryStore::new(rows));
        assert!(merges(&outcome.plan).is_empty(), "{older} | {newer}");
    }
}

#[test]
fn texts_of_a_megabyte_are_read_and_compared() {
    let vector = unit_vector(8, 0);
    let long = "The ledger of the mill lists every sack of flour. ".repeat(21_000);
    assert!(long.len() > 1_000_000);
    let rows = vec![
        memory(0, format!("{long}Sack 77 is missing."), &vector),
        memory(1, long.clone(), &vector),
        memory(2, long, &vector),
    ];
    let outcome = Run::builtin().plan(&InMemoryStore::new(rows));
    // The one that is proven to say more stays.
    assert_eq!(merges(&outcome.plan), [["m000000", "m000002", "m000001"]]);
}

#[test]
fn control_characters_and_markup_are_escaped_in_every_report() {
    let hostile = "Clear \u{1b}[2J\u{1b}[31mred <script>alert(1)</script> ![x](http://e.vil) \u{202e}evil\u{7}";
    let vector = unit_vector(8, 0);
    let mut rows = vec![memory(0, hostile, &vector), memory(1, format!("{hostile} "), &vector)];
    rows[0].id = "m\u{1b}[5m<i>0</i>".into();
    rows[0].source = "agent\u{1b}[1m".into();
    rows[1].categories = vec!["<b>bold</b>\u{1b}[0m".into()];
    let outcome = Run::builtin().plan(&InMemoryStore::new(rows));
    assert_eq!(merges(&outcome.plan).len(), 1);
    let page = markdown(&outcome.report);
    let data = serde_json::to_string(&outcome.report.samples).unwrap();
    for (name, text) in [("markdown", &page), ("samples", &data)] {
        for banned in ['\u{1b}', '\u{202e}', '\u{7}'] {
            assert!(!text.contains(banned), "{name} holds {banned:?}");
        }
    }
    assert!(!page.contains("<script>") && !page.contains("<b>"), "{page}");
    assert!(!page.contains("<i>"), "{page}");
    assert!(!page.contains("![x]("), "{page}");
}

/// One row with 100,000 categories stalled `doctor` for 15 s and `consolidate` for 45 s; a million never ended.
#[test]
fn a_million_categories_are_read_merged_and_written() {
    let vector = unit_vector(8, 0);
    let mut rows = vec![
        memory(0, "The mill grinds on Mondays.", &vector),
        memory(1, "The mill grinds on Mondays.", &vector),
    ];
    rows[0].categories = (0..1_000_000).map(|at| format!("c{at}")).collect();
    rows[1].categories = (500_000..700_000).map(|at| format!("c{at}")).collect();
    let db = TestStore::of(&rows, StoreStyle::Plain);
    assert_eq!(merges(&db.complete_run().outcome.plan), [["m000001", "m000000"]]);
    let json = "SELECT json_array_length(categories) FROM stm WHERE id = 'm000001'";
    assert_eq!(db.ask::<i64>(json), [1_000_000]);
    assert!(merges(&db.plan().plan).is_empty());
}

/// A date with a character of several bytes behind it ended the whole run with a panic: every other memory of the store waited
/// for one of them.
#[test]
fn odd_texts_do_not_end_a_run() {
    let vector = unit_vector(8, 0);
    let texts = [
        "The audit is due 2026-07-24—done",
        "The audit is due 2026-07-25—done",
        "The audit is due …（2026-08-03）",
        "The audit is due 2026-07-24T9999999999999999999",
        "The audit is due 2026-07-24\u{301}\0🙂",
        "ab\u{1e79} untrue inabc TRẺ",
        "The audit is due.",
        "The audit is due.",
    ];
    let rows = texts.iter().enumerate().map(|(at, text)| memory(at, *text, &vector)).collect();
    let outcome = Run::builtin().plan(&InMemoryStore::new(rows));
    assert_eq!(merges(&outcome.plan), [["m000007", "m000006"]]);
}

/// Rows dated `9999-12-31T23:59:59`, which writers take for "never", counted as rows without a time, and so as the oldest.
#[test]
fn the_ends_of_time_keep_their_order() {
    let vector = unit_vector(8, 0);
    let dates = [
        "0000-01-01T00:00:00",
        "1970-01-01",
        "2026-01-01",
        "9999-12-30",
        "9999-12-31T23:59:59.999999",
    ];
    let rows = |order: &[usize]| {
        let row = |&at: &usize| {
            let mut row = memory(at, "The mill grinds on Mondays.", &vector);
            row.created_at = dates[at].to_owned();
            row.expires_at = Some("9999-12-31T23:59:59.999999".to_owned());
            row
        };
        InMemoryStore::new(order.iter().map(row).collect())
    };
    let zone =
        || Run::builtin().set("protection.enabled=false").set("time_zone=Pacific/Kiritimati");
    for order in [[0, 1, 2, 3, 4], [4, 2, 0, 1, 3]] {
        let outcome = zone().plan(&rows(&order));
        let expected = ["m000004", "m000003", "m000002", "m000001", "m000000"];
        assert_eq!(merges(&outcome.plan), [expected]);
        let samples = serde_json::to_string(&outcome.report.samples).unwrap();
        assert!(samples.contains("\"9999-12-31T23:59:59.999999Z\""), "{samples}");
    }
    for now in [i64::MIN, -377_705_116_800_000_000, i64::MAX] {
        let _ = zone().at(Instant(now)).plan(&rows(&[0, 4]));
    }
    for (key, left) in [("since", 2), ("until", 3)] {
        let run = zone().set(format!("scope.{key}=9999-12-30")).plan(&rows(&[0, 1, 2, 3, 4]));
        assert_eq!(merges(&run.plan)[0].len(), left, "{key}");
    }
    let none = zone().set("scope.since=9999-12-31T23:59:59.9999999").plan(&rows(&[0, 4]));
    assert!(merges(&none.plan).is_empty());
}

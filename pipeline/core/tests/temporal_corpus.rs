//! The share of published time expressions that are resolved as their corpora have them, and the
//! answers that may not change unnoticed.

use jiff::civil::DateTime;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use memfold_core::lifecycle::temporal::{TimeReference, resolve};
use memfold_core::time::in_zone;

#[path = "support/temporal_corpus.rs"]
mod corpus;

/// Right answers when the rules were last changed; data/temporal.md says what the parts are.
const DEVELOPMENT_MIN: usize = 319;
const HELD_OUT_MIN: usize = 187;
const SECOND_HELD_OUT_MIN: usize = 63;

const CORPUS: &str = include_str!("data/temporal.jsonl");
const ANSWERS: &str = include_str!("data/temporal_answers.tsv");

#[test]
fn does_not_fall_below_what_was_measured() {
    let report = corpus::evaluate(CORPUS).unwrap();
    let listed = serde_json::to_string_pretty(&report).unwrap();
    assert!(report.development.right >= DEVELOPMENT_MIN, "{listed}");
    assert!(report.held_out.right >= HELD_OUT_MIN, "{listed}");
    assert!(report.second_held_out.right >= SECOND_HELD_OUT_MIN, "{listed}");
    assert!(report.all.percent >= 95.0, "{listed}");
}

/// A row of the file is zone, time of writing, text and answer; a wanted change replaces the row by
/// the one that this test prints. Checks by hand are headed as such.
#[test]
fn temporal_answers_are_the_pinned_ones() {
    let mut changed = Vec::new();
    for row in ANSWERS.lines().filter(|row| !row.starts_with('#')) {
        let [zone, written, text, pinned] = row.split('\t').collect::<Vec<_>>()[..] else {
            panic!("not four columns: {row}")
        };
        let zone_of_row = TimeZoneDatabase::bundled().get(zone).unwrap();
        let found = answers(text, written.parse().unwrap(), &zone_of_row);
        if found != pinned {
            changed.push(format!("- {row}\n+ {zone}\t{written}\t{text}\t{found}"));
        }
    }
    assert!(changed.is_empty(), "{} answers changed:\n{}", changed.len(), changed.join("\n"));
}

#[test]
fn temporal_corpus_is_pinned() {
    let rows: Vec<serde_json::Value> =
        CORPUS.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    let expected = rows.iter().map(|row| {
        format!("UTC\t{}\t{}\t", row["reference"].as_str().unwrap(), row["text"].as_str().unwrap())
    });
    let missing: Vec<String> =
        expected.filter(|row| !ANSWERS.lines().any(|pinned| pinned.starts_with(row))).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Each reference in its order: its words and their first byte, its interval and the rest.
fn answers(text: &str, written: DateTime, zone: &TimeZone) -> String {
    let shown = |found: &TimeReference| {
        let TimeReference { span, interval, grain, relation, confidence, note } = found;
        let (words, start, end) = (&text[span.clone()], interval.civil_start, interval.civil_end);
        let mut shown = format!("{words} @{}: {start} to {end}", span.start);
        if [start, end].map(|at| in_zone(at, &TimeZone::UTC)) != [interval.start, interval.end] {
            shown += &format!(" ({} to {})", interval.start, interval.end);
        }
        shown += &format!(", {grain:?}, {relation:?}, {}", confidence.value());
        note.iter().for_each(|note| shown += &format!(", {note}"));
        shown
    };
    let found = resolve(text, in_zone(written, zone), zone);
    if found.is_empty() {
        "none".to_owned()
    } else {
        found.iter().map(shown).collect::<Vec<_>>().join(" | ")
    }
}

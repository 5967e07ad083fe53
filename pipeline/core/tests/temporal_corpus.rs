//! The share of published time expressions that are resolved as their corpora have them.

#[path = "support/temporal_corpus.rs"]
mod corpus;

/// Right answers when the rules were last changed; data/temporal.md says what the parts are.
const DEVELOPMENT_MIN: usize = 319;
const HELD_OUT_MIN: usize = 187;
const SECOND_HELD_OUT_MIN: usize = 63;

#[test]
fn does_not_fall_below_what_was_measured() {
    let report = corpus::evaluate(include_str!("data/temporal.jsonl")).unwrap();
    let listed = serde_json::to_string_pretty(&report).unwrap();
    assert!(report.development.right >= DEVELOPMENT_MIN, "{listed}");
    assert!(report.held_out.right >= HELD_OUT_MIN, "{listed}");
    assert!(report.second_held_out.right >= SECOND_HELD_OUT_MIN, "{listed}");
    assert!(report.all.percent >= 95.0, "{listed}");
}

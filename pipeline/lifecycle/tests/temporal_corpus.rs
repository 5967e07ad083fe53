//! The share of published time expressions that are resolved as their corpora have them.

#[path = "support/temporal_corpus.rs"]
mod corpus;

#[test]
fn does_not_fall_below_what_was_measured() {
    let report = corpus::evaluate(include_str!("data/temporal.jsonl")).unwrap();
    let listed = serde_json::to_string_pretty(&report).unwrap();
    assert!(report.all.percent >= 95.0, "{listed}");
}

//! A spent pair budget, explained.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::table;

/// Tells how similar pairs of a sample are, and what to do.
pub(super) fn failure(
    budget: u64,
    threshold: f64,
    histogram: &[(f64, f64)],
    advice: Option<String>,
) -> Failure {
    let mut message = format!(
        "the threshold {threshold} is met by more than {budget} pairs of different vectors"
    );
    if !histogram.is_empty() {
        let rows = histogram.iter().map(|(similarity, share)| {
            vec![format!("{similarity:.2}"), format!("{:.4} %", share * 100.0)]
        });
        let table = table(&["at or above", "of sampled pairs"], rows.collect());
        message = format!("{message}\n\n{}", table.trim_end_matches('\n'));
    }
    let more = "or allow more pairs: --pair-budget N";
    let hint = advice.map_or_else(|| more.to_owned(), |advice| format!("{advice}; {more}"));
    Failure { exit: Exit::Failure, message, hint: Some(hint) }
}

//! Runs `resolve` over a file of expressions with known values and counts what it gets right.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use memfold_core::lifecycle::temporal::{TimeReference, resolve};
use memfold_core::time::in_zone;
use serde::{Deserialize, Serialize};

/// One expression; times are local, in a zone without changes of clocks.
#[derive(Debug, Deserialize)]
struct Row {
    text: String,
    reference: DateTime,
    start: DateTime,
    end: DateTime,
    grain: String,
    source: String,
    part: String,
    /// Set where the other corpus holds another convention, which ours follows.
    other_convention: Option<String>,
}

/// How many expressions of a group are resolved as the corpus has it.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Rate {
    pub right: usize,
    pub count: usize,
    pub percent: f64,
}

/// An expression that is resolved differently or not at all.
#[derive(Debug, Serialize)]
pub(crate) struct Miss {
    pub text: String,
    pub reference: String,
    pub expected: String,
    pub found: Vec<String>,
    pub source: String,
    pub part: String,
    pub other_convention: Option<String>,
}

/// Counts by part of the file, without the rows of other conventions; those stand apart.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub development: Rate,
    pub held_out: Rate,
    /// Read only after the first held-out rows had been seen and worked on.
    pub second_held_out: Rate,
    pub recognizers: Rate,
    pub duckling: Rate,
    pub all: Rate,
    /// Rows on which the corpora contradict each other or the tense, and ours takes the other side.
    pub other_convention: Rate,
    pub all_with_other_convention: Rate,
    pub errors: Vec<Miss>,
}

/// Evaluates the lines of a corpus file.
pub(crate) fn evaluate(lines: &str) -> Result<Report, serde_json::Error> {
    let mut report = Report::default();
    for line in lines.lines().filter(|line| !line.is_empty()) {
        let row: Row = serde_json::from_str(line)?;
        let found = resolve(&row.text, in_zone(row.reference, &TimeZone::UTC), &TimeZone::UTC);
        let right = matches!(found.as_slice(), [only] if fits(&row, only));
        let by_part = match row.part.as_str() {
            "development" => &mut report.development,
            "held-out" => &mut report.held_out,
            _ => &mut report.second_held_out,
        };
        let by_source =
            if row.source == "duckling" { &mut report.duckling } else { &mut report.recognizers };
        let groups = if row.other_convention.is_some() {
            vec![&mut report.other_convention, &mut report.all_with_other_convention]
        } else {
            vec![by_part, by_source, &mut report.all, &mut report.all_with_other_convention]
        };
        for rate in groups {
            rate.count += 1;
            rate.right += usize::from(right);
            rate.percent = 100.0 * rate.right as f64 / rate.count as f64;
        }
        if !right {
            report.errors.push(miss(row, &found));
        }
    }
    Ok(report)
}

/// Parts of the day and weekends begin and end at other hours in each corpus, so an overlap of half
/// the shorter one counts; all else must be equal.
fn fits(row: &Row, found: &TimeReference) -> bool {
    let (start, end) = (found.interval.civil_start, found.interval.civil_end);
    if !matches!(row.grain.as_str(), "part_of_day" | "weekend") {
        return (start, end) == (row.start, row.end);
    }
    let seconds = |from: DateTime, to: DateTime| from.duration_until(to).as_secs();
    let grain = serde_json::to_value(found.grain).is_ok_and(|grain| grain == row.grain.as_str());
    let overlap = seconds(start.max(row.start), end.min(row.end));
    grain && overlap * 2 >= seconds(start, end).min(seconds(row.start, row.end))
}

fn miss(row: Row, found: &[TimeReference]) -> Miss {
    let shown = |reference: &TimeReference| {
        let words = &row.text[reference.span.clone()];
        let interval = reference.interval;
        format!("{words}: {} to {}", interval.civil_start, interval.civil_end)
    };
    Miss {
        found: found.iter().map(shown).collect(),
        reference: row.reference.to_string(),
        expected: format!("{} to {}", row.start, row.end),
        text: row.text,
        source: row.source,
        part: row.part,
        other_convention: row.other_convention,
    }
}

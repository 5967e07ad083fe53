//! Exports and conversions: a line for the screen, a table for the page.

use serde_json::Value;

use super::show::{bytes, day, grouped, row, seconds};

/// A line for the screen.
pub(crate) fn line(line: &Value) -> String {
    format!(
        "{}, {} to {}: {} s, {} MB/s{}, {} MiB anonymous",
        line["data"].as_str().unwrap_or("unknown"),
        line["from"].as_str().unwrap_or("unknown"),
        line["to"].as_str().unwrap_or("unknown"),
        seconds(&line["seconds"]),
        megabytes(&line["bytes_per_second"]),
        line["of_sqlite"].as_f64().map_or_else(String::new, |of| format!(" ({of:.2} of SQLite)")),
        bytes(&line["peak_anon_bytes"]),
    )
}

/// Where it was measured, and a row for each way of reading or writing vectors.
pub(crate) fn page(lines: &[Value]) -> String {
    let mut text = lines.last().map_or_else(String::new, |line| {
        let machine = line["machine"].as_str().unwrap_or("unknown");
        let version = line["version"].as_str().unwrap_or("unknown");
        format!("{machine}, memfold {version}, {}; medians.\n\n", day(line))
    });
    text.push_str(
        "| vectors of | from | to | seconds | fastest to slowest | MB/s of f32 | of SQLite's speed | anonymous MiB |\n\
         |---|---|---|---:|---:|---:|---:|---:|\n",
    );
    for line in lines {
        text.push_str(&row(&[
            format!("{} ({})", line["data"].as_str().unwrap_or("unknown"), grouped(&line["rows"])),
            line["from"].as_str().unwrap_or("unknown").to_owned(),
            line["to"].as_str().unwrap_or("unknown").to_owned(),
            seconds(&line["seconds"]),
            format!(
                "{} – {}",
                seconds(&line["fastest_seconds"]),
                seconds(&line["slowest_seconds"])
            ),
            megabytes(&line["bytes_per_second"]),
            line["of_sqlite"].as_f64().map_or_else(|| "–".to_owned(), |of| format!("{of:.2}")),
            bytes(&line["peak_anon_bytes"]),
        ]));
    }
    text
}

fn megabytes(value: &Value) -> String {
    value.as_f64().map_or_else(|| "?".to_owned(), |bytes| format!("{:.0}", bytes / 1e6))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn a_way_of_writing_is_a_row() {
        let line = json!({
            "data": "d", "rows": 100_000, "from": "brain.db", "to": "arrow", "seconds": 1.5,
            "fastest_seconds": 1.25, "slowest_seconds": 2.0, "bytes_per_second": 102_400_000.0,
            "of_sqlite": 0.7, "peak_anon_bytes": 209_715_200,
            "machine": "M", "version": "0.1.0", "run": "2026-11-22T12:00:00Z",
        });
        let text = super::page(&[line]);
        let expected =
            "\n| d (100,000) | brain.db | arrow | 1.50 | 1.25 – 2.00 | 102 | 0.70 | 200 |\n";
        assert!(text.ends_with(expected), "{text}");
    }
}

//! Whole lookups: a line for the screen, a table for the page.

use serde_json::Value;

use super::show::{day, grouped, row};

/// A line for the screen.
pub(crate) fn line(line: &Value) -> String {
    format!(
        "{}: search p50 {} µs, p99 {} µs; --version p50 {} µs, p99 {} µs",
        line["data"].as_str().unwrap_or("unknown"),
        line["search_us"]["p50"],
        line["search_us"]["p99"],
        line["version_us"]["p50"],
        line["version_us"]["p99"]
    )
}

/// Where it was measured, and a row for each store.
pub(crate) fn page(lines: &[Value]) -> String {
    let mut text = lines.last().map_or_else(String::new, |line| {
        let machine = line["machine"].as_str().unwrap_or("unknown");
        let version = line["version"].as_str().unwrap_or("unknown");
        format!(
            "{machine}, memfold {version}, {}; milliseconds, {} pairs each.\n\n",
            day(line),
            line["pairs"]
        )
    });
    text.push_str(
        "| store | tier | `search` p50 | p99 | `--version` p50 | p99 | between the two, p50 | opening, p50 | without an index | nothing in memory, p50 | after `index warm` |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for line in lines {
        text.push_str(&row(&[
            format!("{} ({})", line["data"].as_str().unwrap_or("unknown"), grouped(&line["rows"])),
            line["tier"].as_str().unwrap_or("unknown").to_owned(),
            milliseconds(&line["search_us"]["p50"]),
            milliseconds(&line["search_us"]["p99"]),
            milliseconds(&line["version_us"]["p50"]),
            milliseconds(&line["version_us"]["p99"]),
            milliseconds(&line["beyond_us"]["p50"]),
            milliseconds(&line["open_us"]["p50"]),
            milliseconds(&line["unindexed_us"]),
            milliseconds(&line["cold"]["search_us"]["p50"]),
            milliseconds(&line["cold"]["after_warm_us"]),
        ]));
    }
    text
}

fn milliseconds(value: &Value) -> String {
    value.as_f64().map_or_else(|| "–".to_owned(), |micros| format!("{:.1}", micros / 1e3))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn a_store_is_a_row() {
        let line = json!({
            "data": "d", "rows": 36_000, "tier": "scan", "pairs": 1000, "machine": "M", "version": "0.1.0",
            "run": "2026-11-21T12:00:00Z", "search_us": { "p50": 2_340, "p99": 4_100 },
            "version_us": { "p50": 900, "p99": 1_400 }, "beyond_us": { "p50": 1_440 }, "open_us": { "p50": 700 },
            "unindexed_us": 51_000, "cold": null,
        });
        let text = super::page(&[line]);
        assert!(
            text.ends_with(
                "\n| d (36,000) | scan | 2.3 | 4.1 | 0.9 | 1.4 | 1.4 | 0.7 | 51.0 | – | – |\n"
            ),
            "{text}"
        );
    }
}

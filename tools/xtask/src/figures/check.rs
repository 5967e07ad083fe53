//! Checks on every save: a line for the screen, a table for the page.

use serde_json::Value;

use super::show::{day, grouped, row};

/// A line for the screen.
pub(crate) fn line(line: &Value) -> String {
    format!(
        "{}, {}, {} writers{}: p50 {} µs, p99 {} µs, p99.9 {} µs, max {} µs; {} of {} in full",
        line["data"].as_str().unwrap_or("unknown"),
        line["mode"].as_str().unwrap_or("unknown"),
        line["writers"],
        if line["cold"] == true { ", cold" } else { "" },
        line["p50_us"],
        line["p99_us"],
        line["p999_us"],
        line["max_us"],
        line["checked"],
        line["count"]
    )
}

/// Where it was measured, and a row for each way of checking a store.
pub(crate) fn page(lines: &[Value]) -> String {
    let mut text = lines.last().map_or_else(String::new, |line| {
        let machine = line["machine"].as_str().unwrap_or("unknown");
        let version = line["version"].as_str().unwrap_or("unknown");
        format!("{machine}, memfold {version}, {}; milliseconds.\n\n", day(line))
    });
    text.push_str(
        "| store | index | check | writers, saved | p50 | p99 | p99.9 | max | in full | anonymous memory, MiB |\n\
         |---|---|---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for line in lines {
        let mode = match line["mode"].as_str().unwrap_or("unknown") {
            "in_process" => "in process",
            "process" => "whole process",
            "version" => "`--version`",
            _ => "beyond `--version`",
        };
        let cold = if line["cold"] == true { ", nothing in memory" } else { "" };
        let writers = match line["writers"].as_u64() {
            Some(0) | None => "–".to_owned(),
            Some(writers) => format!("{writers}, {}", line["saved"]),
        };
        let anonymous = line["peak_anon_bytes"].as_f64().map(|bytes| bytes / f64::from(1 << 20));
        text.push_str(&row(&[
            format!("{} ({})", line["data"].as_str().unwrap_or("unknown"), grouped(&line["rows"])),
            line["index"].as_str().unwrap_or("unknown").to_owned(),
            format!("{mode}{cold}"),
            writers,
            milliseconds(&line["p50_us"]),
            milliseconds(&line["p99_us"]),
            milliseconds(&line["p999_us"]),
            milliseconds(&line["max_us"]),
            format!("{} of {}", line["checked"], line["count"]),
            match line["mode"].as_str() {
                Some("in_process") => anonymous.map_or_else(String::new, |mib| format!("{mib:.1}")),
                _ => String::new(),
            },
        ]));
    }
    text
}

fn milliseconds(value: &Value) -> String {
    value.as_f64().map_or_else(|| "–".to_owned(), |micros| format!("{:.2}", micros / 1e3))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn a_way_of_checking_is_a_row() {
        let line = json!({
            "data": "d", "rows": 100_000, "index": "scan", "mode": "in_process", "writers": 4,
            "saved": 80, "cold": false, "p50_us": 840, "p99_us": 2_470, "p999_us": 3_710,
            "max_us": 4_380, "checked": 1000, "count": 1000, "peak_anon_bytes": 6_291_456,
            "machine": "M", "version": "0.1.0", "run": "2026-11-22T12:00:00Z",
        });
        let text = super::page(&[line]);
        let expected = "\n| d (100,000) | scan | in process | 4, 80 | 0.84 | 2.47 | 3.71 | 4.38 | 1000 of 1000 | 6.0 |\n";
        assert!(text.ends_with(expected), "{text}");
    }
}

//! Profiles: a line for the screen, a table for the page.

use serde_json::Value;

use super::show::{day, grouped, row};

/// Parts of a command that are shown.
const PARTS: usize = 6;

/// A line for the screen.
pub(crate) fn line(line: &Value) -> String {
    format!("{}: {}", line["profiled"].as_str().unwrap_or("unknown"), parts(line))
}

/// Where it was measured, and a row for each command.
pub(crate) fn page(lines: &[Value]) -> String {
    let mut text = lines.last().map_or_else(String::new, |line| {
        format!(
            "{}, memfold {}, {}; {} memories ({}).\n\n",
            line["machine"].as_str().unwrap_or("unknown"),
            line["version"].as_str().unwrap_or("unknown"),
            day(line),
            grouped(&line["rows"]),
            line["data"].as_str().unwrap_or("unknown"),
        )
    });
    text.push_str("| command | share of its samples |\n|---|---|\n");
    for line in lines {
        let profiled = line["profiled"].as_str().unwrap_or("unknown");
        text.push_str(&row(&[format!("`{profiled}`"), parts(line)]));
    }
    text
}

/// The largest parts with their shares.
fn parts(line: &Value) -> String {
    let parts = line["parts"].as_array().into_iter().flatten().take(PARTS);
    let parts = parts.map(|part| {
        let percent = part["share"].as_f64().unwrap_or(f64::NAN) * 100.0;
        format!("{} {percent:.0} %", part["name"].as_str().unwrap_or("unknown"))
    });
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn a_command_is_a_row() {
        let line = json!({
            "data": "d", "rows": 100_000, "profiled": "dedup OUT",
            "parts": [{ "name": "kernel", "share": 0.256 }, { "name": "a::b", "share": 0.1 }],
            "machine": "M", "version": "0.1.0", "run": "2026-11-22T12:00:00Z",
        });
        let text = super::page(&[line]);
        assert!(text.ends_with("\n| `dedup OUT` | kernel 26 %, a::b 10 % |\n"), "{text}");
    }
}

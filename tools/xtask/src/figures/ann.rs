//! The graph's recall and speed: a line for the screen, a table for the page.

use serde_json::Value;

use super::show::{day, grouped, row};

/// A line for the screen.
pub(crate) fn line(line: &Value) -> String {
    let run = &line["last_run"];
    format!(
        "{} beam {}: recall@{} {}, {} queries/s",
        name(line),
        line["beam"],
        run["k"],
        recall(run),
        whole(&run["qps_one_thread"])
    )
}

/// Where it was measured, and a row for each set and beam.
pub(crate) fn page(lines: &[Value]) -> String {
    let mut text = lines.first().map_or_else(String::new, |line| {
        let machine = line["machine"].as_str().unwrap_or("unknown");
        let version = line["version"].as_str().unwrap_or("unknown");
        format!("{machine}, memfold {version}, {}.\n\n", day(line))
    });
    text.push_str(
        "| rows | build, s | bytes per vector | beam | recall@k | queries/s, one thread | p50 µs | p99 µs |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    let mut shown = "";
    for line in lines {
        let run = &line["last_run"];
        let first = std::mem::replace(&mut shown, name(line)) != shown;
        let once = |value: String| if first { value } else { String::new() };
        text.push_str(&row(&[
            once(format!("{} ({} × {})", name(line), grouped(&run["rows"]), run["dim"])),
            once(run["build_seconds"].as_f64().map_or_else(String::new, |s| format!("{s:.1}"))),
            once(whole(&run["bytes_per_vector"])),
            line["beam"].to_string(),
            recall(run),
            whole(&run["qps_one_thread"]),
            whole(&run["latency_us"]["p50"]),
            whole(&run["latency_us"]["p99"]),
        ]));
    }
    text
}

fn name(line: &Value) -> &str {
    line["data"].as_str().unwrap_or("unknown")
}

fn recall(run: &Value) -> String {
    run["recall_at_k"].as_f64().map_or_else(|| "–".to_owned(), |recall| format!("{recall:.4}"))
}

fn whole(value: &Value) -> String {
    let number = value.as_f64().unwrap_or_default().round() as u64;
    grouped(&Value::from(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_set_is_named_once() {
        let line = |data: &str, beam: u64| {
            json!({
                "data": data, "beam": beam, "machine": "M", "version": "0.1.0", "run": "2026-11-21T12:00:00Z",
                "last_run": {
                    "rows": 36_047, "dim": 384, "k": 10, "build_seconds": 1.34, "bytes_per_vector": 525.7,
                    "recall_at_k": 0.99184, "qps_one_thread": 11_528.7, "latency_us": { "p50": 84.2, "p99": 153.0 },
                },
            })
        };
        let text = page(&[line("real", 64), line("real", 96), line("other", 64)]);
        assert!(
            text.contains(
                "\n| real (36,047 × 384) | 1.3 | 526 | 64 | 0.9918 | 11,529 | 84 | 153 |\n"
            ),
            "{text}"
        );
        assert!(text.contains("\n|  |  |  | 96 | 0.9918 |"), "{text}");
        assert!(text.contains("\n| other (36,047 × 384) |"), "{text}");
        assert_eq!(
            self::line(&line("real", 64)),
            "real beam 64: recall@10 0.9918, 11,529 queries/s"
        );
    }
}

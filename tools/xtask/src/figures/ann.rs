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

/// The recall that engines are compared at.
const RECALL: f64 = 0.99;

/// For each set and engine the narrowest beam that reaches the recall, beside memfold's.
pub(crate) fn peers(lines: &[Value]) -> String {
    let mut text = format!(
        "| rows | engine | build, s | times memfold's | beam with recall ≥ {RECALL} | queries/s, one thread | memfold's ÷ that | bytes per vector |\n\
         |---|---|---:|---:|---:|---:|---:|---:|\n",
    );
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for line in lines {
        let key = (name(line), line["engine"].as_str().unwrap_or("unknown"));
        if !seen.contains(&key) {
            seen.push(key);
            text.push_str(&engine(lines, key));
        }
    }
    text
}

fn engine(lines: &[Value], (data, engine): (&str, &str)) -> String {
    let of = |engine: &str| -> Vec<&Value> {
        lines.iter().filter(|line| name(line) == data && line["engine"] == engine).collect()
    };
    let reaching = |lines: &[&Value]| {
        let recall = |line: &Value| line["recall_at_k"].as_f64().unwrap_or_default();
        lines.iter().find(|line| recall(line) >= RECALL).map(|line| (*line).clone())
    };
    let (own, ours) = (of(engine), of("memfold"));
    let number = |line: Option<&Value>, key: &str| line.and_then(|line| line[key].as_f64());
    let build = number(own.first().copied(), "build_seconds");
    let (found, best) = (reaching(&own), reaching(&ours));
    let speed = number(found.as_ref(), "qps_one_thread");
    let times = |ratio: Option<f64>| ratio.map_or_else(unknown, |ratio| format!("{ratio:.1}"));
    let ratio = |left: Option<f64>, right: Option<f64>| Some(left? / right?);
    let best_recall =
        own.iter().filter_map(|line| line["recall_at_k"].as_f64()).fold(0.0, f64::max);
    let beam = match &found {
        Some(line) => format!("{} ({})", line["beam"], recall(line)),
        None => format!("none: {best_recall:.4} at most"),
    };
    row(&[
        data.to_owned(),
        engine.to_owned(),
        build.map_or_else(unknown, |seconds| format!("{seconds:.1}")),
        times(ratio(build, number(ours.first().copied(), "build_seconds"))),
        beam,
        speed.map_or_else(unknown, |speed| whole(&Value::from(speed))),
        times(ratio(number(best.as_ref(), "qps_one_thread"), speed)),
        number(own.first().copied(), "bytes_per_vector")
            .map_or_else(unknown, |bytes| whole(&Value::from(bytes))),
    ])
}

fn unknown() -> String {
    "–".to_owned()
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

    #[test]
    fn engines_are_compared_where_they_find_enough() {
        let line = |engine: &str, beam: u64, recall: f64, speed: f64| {
            json!({
                "data": "d", "engine": engine, "beam": beam, "recall_at_k": recall, "qps_one_thread": speed,
                "build_seconds": if engine == "memfold" { 2.0 } else { 9.0 }, "bytes_per_vector": 526.0,
            })
        };
        let lines = [
            line("memfold", 32, 0.98, 9_000.0),
            line("memfold", 64, 0.991, 8_000.0),
            line("rival", 64, 0.99, 4_000.0),
            line("poor", 256, 0.95, 5_000.0),
        ];
        let text = peers(&lines);
        for expected in [
            "| d | memfold | 2.0 | 1.0 | 64 (0.9910) | 8,000 | 1.0 | 526 |\n",
            "| d | rival | 9.0 | 4.5 | 64 (0.9900) | 4,000 | 2.0 | 526 |\n",
            "| d | poor | 9.0 | 4.5 | none: 0.9500 at most | – | – | 526 |\n",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
    }
}

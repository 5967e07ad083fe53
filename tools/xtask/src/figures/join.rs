//! Growth of `memfold dedup`: a line for the screen, a table for the page, a plot.

use memfold_plot::{self as plot, Caption, Series};
use serde_json::Value;

use super::Plots;
use super::show::{day, grouped, mebibytes, row, seconds, share};

/// A line for the screen.
pub(crate) fn line(line: &Value) -> String {
    if is_peak(line) {
        return peak(line);
    }
    format!(
        "{} ≥ {}: {} s ({} – {}), join {} s, {} pairs{}",
        line["data"].as_str().unwrap_or_default(),
        line["threshold"],
        seconds(&line["wall_seconds_median"]),
        seconds(&line["wall_seconds_min"]),
        seconds(&line["wall_seconds_max"]),
        seconds(&line["last_run"]["seconds"]["join"]),
        grouped(&line["last_run"]["pairs"]),
        line["join_over_peak"].as_f64().map_or_else(String::new, |x| format!(", {x:.2} × peak")),
    )
}

/// Machine and peak, then a row for each set of rows and threshold.
pub(crate) fn page(lines: &[Value]) -> String {
    let mut text = origin(lines);
    text.push_str(
        "| data | rows | threshold | pairs | runs | median s | fastest to slowest s | load | prepare | join | cluster \
         | first test at peak | join ÷ that | anonymous memory |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    let mut joins: Vec<&Value> = lines.iter().filter(|line| !is_peak(line)).collect();
    joins.sort_by_key(|line| line["rows"].as_u64());
    for line in joins {
        let run = &line["last_run"];
        let stage = |name: &str| seconds(&run["seconds"][name]);
        let (fastest, slowest) =
            (seconds(&line["wall_seconds_min"]), seconds(&line["wall_seconds_max"]));
        let over = line["join_over_peak"].as_f64();
        text.push_str(&row(&[
            line["data"].as_str().unwrap_or_default().to_owned(),
            grouped(&line["rows"]),
            line["threshold"].to_string(),
            grouped(&run["pairs"]),
            grouped(&line["runs"]),
            seconds(&line["wall_seconds_median"]),
            format!("{fastest} – {slowest}"),
            stage("load"),
            stage("prepare"),
            stage("join"),
            stage("cluster"),
            seconds(&line["seconds_at_peak"]),
            over.map_or_else(|| "?".to_owned(), |over| format!("{over:.2}")),
            mebibytes(&run["peak_anon_bytes"]),
        ]));
    }
    text
}

/// The largest set of rows, in short.
pub(crate) fn short(lines: &[Value]) -> String {
    let mut text =
        "| data | vectors | threshold | near pairs | seconds (median) | anonymous memory |\n\
                    |---|---:|---:|---:|---:|---:|\n"
            .to_owned();
    let joins = || lines.iter().filter(|line| !is_peak(line));
    let most = joins().filter_map(|line| line["rows"].as_u64()).max();
    for line in joins().filter(|line| line["rows"].as_u64() == most) {
        let run = &line["last_run"];
        text.push_str(&row(&[
            line["data"].as_str().unwrap_or_default().to_owned(),
            grouped(&line["rows"]),
            line["threshold"].to_string(),
            grouped(&run["pairs"]),
            seconds(&line["wall_seconds_median"]),
            mebibytes(&run["peak_anon_bytes"]),
        ]));
    }
    text
}

/// A line for the screen about a join by a graph.
pub(crate) fn graph_line(line: &Value) -> String {
    let recall = &line["last_run"]["pair_recall"];
    format!(
        "{} ≥ {} by a graph: {} s (exact {} s), recall {}, measured {} ({} to {})",
        line["data"].as_str().unwrap_or_default(),
        line["threshold"],
        seconds(&line["wall_seconds_median"]),
        seconds(&line["exact_wall_seconds_median"]),
        share(&line["pair_recall_true"]),
        share(&recall["value"]),
        share(&recall["low"]),
        share(&recall["high"]),
    )
}

/// A row for each set of rows and threshold that a graph joined.
pub(crate) fn graph_page(lines: &[Value]) -> String {
    let mut text = origin(lines);
    text.push_str(
        "| data | threshold | distinct pairs | runs | median s | build | search | audit | exact join, median s | recall \
         | measured | 95 % interval | audited rows, pairs |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    let mut joins: Vec<&Value> = lines.iter().collect();
    joins.sort_by_key(|line| line["rows"].as_u64());
    for line in joins {
        let run = &line["last_run"];
        let stage = |name: &str| seconds(&run["seconds"][name]);
        let recall = &run["pair_recall"];
        text.push_str(&row(&[
            line["data"].as_str().unwrap_or_default().to_owned(),
            line["threshold"].to_string(),
            grouped(&line["distinct_pairs_true"]),
            grouped(&line["runs"]),
            seconds(&line["wall_seconds_median"]),
            stage("prepare"),
            stage("join"),
            stage("audit"),
            seconds(&line["exact_wall_seconds_median"]),
            share(&line["pair_recall_true"]),
            share(&recall["value"]),
            format!("{} – {}", share(&recall["low"]), share(&recall["high"])),
            format!("{}, {}", grouped(&recall["sampled_rows"]), grouped(&recall["sampled_pairs"])),
        ]));
    }
    text
}

/// Growth over generated rows, a line for each threshold.
pub(crate) fn plots(lines: &[Value]) -> Plots {
    let mut series: Vec<Series> = Vec::new();
    for line in lines.iter().filter(|line| is_synthetic(line)) {
        let name = format!("cosine ≥ {}", line["threshold"]);
        let (Some(rows), Some(seconds)) =
            (line["rows"].as_f64(), line["wall_seconds_median"].as_f64())
        else {
            continue;
        };
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push((rows, seconds)),
            None => series.push(Series { name, points: vec![(rows, seconds)] }),
        }
    }
    for series in &mut series {
        series.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let details = lines.iter().find(|line| is_synthetic(line)).map_or_else(String::new, |line| {
        format!(
            "Generated rows × {}, {} threads, {}",
            line["dim"],
            line["last_run"]["threads"],
            day(line)
        )
    });
    let title = "memfold dedup: seconds of the whole process over rows";
    let caption = Caption { title, details: &details };
    vec![("join-growth.svg".to_owned(), plot::lines(&caption, ("rows", "seconds"), &series))]
}

fn is_peak(line: &Value) -> bool {
    line["what"] == "peak"
}

fn is_synthetic(line: &Value) -> bool {
    line["data"].as_str().is_some_and(|name| name.starts_with("synthetic"))
}

fn origin(lines: &[Value]) -> String {
    let mut text = String::new();
    if let Some(line) = lines.iter().find(|line| !is_peak(line)) {
        let run = &line["last_run"];
        text.push_str(&format!(
            "{}, {} threads, level {}, memfold {}, {}.\n",
            line["machine"].as_str().unwrap_or("unknown"),
            run["threads"],
            run["isa"].as_str().unwrap_or("unknown"),
            line["version"].as_str().unwrap_or("unknown"),
            day(line),
        ));
    }
    text.extend(lines.iter().find(|line| is_peak(line)).map(|line| peak(line) + ".\n"));
    text.push('\n');
    text
}

/// What the registers can do, and the sign test's share of it.
fn peak(line: &Value) -> String {
    let giga = |key: &str| {
        line[key].as_f64().map_or_else(|| "?".to_owned(), |x| format!("{:.0}", x / 1e9))
    };
    let shares = line["hits_share_of_peak"].as_object();
    let shares: Vec<String> = shares
        .into_iter()
        .flatten()
        .filter_map(|(width, share)| Some(format!("{:.0} % at {width}", share.as_f64()? * 100.0)))
        .collect();
    format!(
        "Peak in GMAC/s: int8 {} on one thread and {} on {}, f32 {} and {}; share of the int8 peak that the sign test \
         reaches on one thread, by dimensions: {}",
        giga("int8_one"),
        giga("int8_all"),
        line["threads"],
        giga("f32_one"),
        giga("f32_all"),
        shares.join(", "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fixture() -> Vec<Value> {
        let join = |rows: u64, median: f64| {
            json!({
                "what": "join", "data": "synthetic-x", "rows": rows, "dim": 384, "threshold": 0.85, "runs": 3,
                "wall_seconds_median": median, "wall_seconds_min": 0.5, "wall_seconds_max": 2.0,
                "seconds_at_peak": 0.4, "join_over_peak": 1.25, "machine": "M", "version": "0.1.0",
                "run": "2026-11-21T12:00:00Z",
                "last_run": {
                    "pairs": 1500, "peak_anon_bytes": 3_000_000, "threads": 2, "isa": "avx512",
                    "seconds": { "load": 0.1, "prepare": 0.2, "join": 0.5, "cluster": 0.01 },
                },
            })
        };
        let peak = json!({
            "what": "peak", "threads": 2, "int8_one": 2.4e11, "int8_all": 4.4e11, "f32_one": 6e10, "f32_all": 1.1e11,
            "hits_share_of_peak": { "64": 0.916 },
        });
        vec![peak, join(100_000, 1.0), join(10_000, 0.1)]
    }

    #[test]
    fn a_join_by_a_graph_stands_beside_the_exact_one() {
        let mut line = fixture().swap_remove(1);
        line["last_run"]["seconds"]["audit"] = 0.3.into();
        line["exact_wall_seconds_median"] = 0.25.into();
        line["distinct_pairs_true"] = 1_400.into();
        line["pair_recall_true"] = 0.999_996.into();
        line["last_run"]["pair_recall"] = json!({
            "kind": "sampled", "value": 1.0, "low": 0.9985, "high": 1.0, "sampled_rows": 8192,
            "sampled_pairs": 2500,
        });
        let expected = "| synthetic-x | 0.85 | 1,400 | 3 | 1.00 | 0.200 | 0.500 | 0.300 | 0.250 | 0.99999 | 1.00000 \
                        | 0.99850 – 1.00000 | 8,192, 2,500 |\n";
        assert!(graph_page(&[line.clone()]).ends_with(expected), "{}", graph_page(&[line.clone()]));
        let said = graph_line(&line);
        assert!(
            said.contains("1.00 s (exact 0.250 s), recall 0.99999, measured 1.00000"),
            "{said}"
        );
    }

    #[test]
    fn the_short_table_has_the_most_rows() {
        let text = short(&fixture());
        assert!(
            text.ends_with("| synthetic-x | 100,000 | 0.85 | 1,500 | 1.00 | 3 MiB |\n"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 3, "{text}");
    }

    #[test]
    fn the_page_names_the_peak_and_each_run() {
        let text = page(&fixture());
        assert!(text.starts_with("M, 2 threads, level avx512, memfold 0.1.0, 2026-11-21.\nPeak in GMAC/s: int8 240 on one thread and 440 on 2, f32 60 and 110;"), "{text}");
        assert!(text.contains("by dimensions: 92 % at 64."), "{text}");
        let expected = "| synthetic-x | 100,000 | 0.85 | 1,500 | 3 | 1.00 | 0.500 – 2.00 | 0.100 | 0.200 | 0.500 | 0.0100 | 0.400 | 1.25 | 3 MiB |\n";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn a_line_fits_the_screen() {
        let shown = line(&fixture()[1]);
        let expected =
            "synthetic-x ≥ 0.85: 1.00 s (0.500 – 2.00), join 0.500 s, 1,500 pairs, 1.25 × peak";
        assert_eq!(shown, expected);
    }

    #[test]
    fn growth_ascends_in_rows() {
        let (name, svg) = plots(&fixture()).remove(0);
        assert_eq!(name, "join-growth.svg");
        let (small, large) = (svg.find(">10k<").unwrap(), svg.find(">100k<").unwrap());
        assert!(small < large && svg.contains("cosine ≥ 0.85"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 2);
    }
}

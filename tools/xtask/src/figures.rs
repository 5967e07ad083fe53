//! `figures`: writes the stored measurements into the tables of README.md and docs/performance.md.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::measure::RESULTS;
use crate::report;

const BEGIN: &str = "<!-- figures: begin (cargo xtask figures) -->\n";
const END: &str = "<!-- figures: end -->";

/// Rewrites both tables; tells whether that went well.
pub(crate) fn write(root: &Path) -> bool {
    match try_write(root) {
        Ok(()) => true,
        Err(reason) => {
            report::line(&format!("figures: {reason}"));
            false
        }
    }
}

fn try_write(root: &Path) -> Result<(), String> {
    let text = read(&root.join(RESULTS))?;
    let lines: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
    let lines = lines.map_err(|error| format!("{RESULTS}: {error}"))?;
    for (file, table) in [("README.md", short(&lines)), ("docs/performance.md", long(&lines))] {
        let path = root.join(file);
        let text =
            fill(&read(&path)?, &table).ok_or_else(|| format!("{file}: no place for figures"))?;
        std::fs::write(&path, text).map_err(|error| format!("{file}: {error}"))?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Puts a table where the marks are.
fn fill(text: &str, table: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some([before, BEGIN, table, END, after].concat())
}

fn short(lines: &[Value]) -> String {
    let mut table = String::from(
        "| data | memories | near pairs ≥ 0.95 | seconds (median) | anonymous memory |\n\
         |---|---:|---:|---:|---:|\n",
    );
    for line in lines {
        let cells = [
            kind(line),
            grouped(&line["rows"]),
            grouped(&line["last_run"]["detected"]["pairs"]),
            seconds(&line["wall_seconds_median"]),
            mebibytes(&line["last_run"]["peak_anon_bytes"]),
        ];
        push_row(&mut table, &cells);
    }
    table
}

fn long(lines: &[Value]) -> String {
    let mut table = origin(lines);
    table.push_str(
        "| data | memories | runs | near pairs ≥ 0.95 | median s | fastest to slowest s | load | join | cluster | plan \
         | anonymous memory |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for line in lines {
        let run = &line["last_run"];
        let stage = |name: &str| seconds(&run["seconds"][name]);
        let (fastest, slowest) =
            (seconds(&line["wall_seconds_min"]), seconds(&line["wall_seconds_max"]));
        let cells = [
            kind(line),
            grouped(&line["rows"]),
            grouped(&line["runs"]),
            grouped(&run["detected"]["pairs"]),
            seconds(&line["wall_seconds_median"]),
            format!("{fastest} – {slowest}"),
            stage("load"),
            stage("join"),
            stage("cluster"),
            stage("plan"),
            mebibytes(&run["peak_anon_bytes"]),
        ];
        push_row(&mut table, &cells);
    }
    table
}

/// Machine, threads, level and day of the first line; all lines come from one run of `measure`.
fn origin(lines: &[Value]) -> String {
    let Some(line) = lines.first() else { return String::new() };
    let run = &line["last_run"];
    let text = |value: &Value| value.as_str().unwrap_or("unknown").to_owned();
    let day: String = text(&run["run_id"]).chars().take(8).collect();
    format!(
        "{}, {} threads, level {}, memfold {}, {day} (YYYYMMDD).\n\n",
        text(&line["machine"]),
        run["threads"],
        text(&run["isa"]),
        text(&line["version"]),
    )
}

fn push_row(table: &mut String, cells: &[String]) {
    // Writing to a string cannot fail.
    let _written = writeln!(table, "| {} |", cells.join(" | "));
}

/// `real-1k` is `real`.
fn kind(line: &Value) -> String {
    let name = line["data"].as_str().unwrap_or_default();
    name.split('-').next().unwrap_or_default().to_owned()
}

/// Three significant figures below ten, one decimal above.
fn seconds(value: &Value) -> String {
    let Some(value) = value.as_f64() else { return "?".to_owned() };
    let decimals = match value {
        value if value < 0.1 => 4,
        value if value < 1.0 => 3,
        value if value < 10.0 => 2,
        _ => 1,
    };
    format!("{value:.decimals$}")
}

fn mebibytes(value: &Value) -> String {
    value
        .as_u64()
        .map_or_else(|| "?".to_owned(), |bytes| format!("{} MiB", bytes.div_ceil(1 << 20)))
}

/// A count with a comma after each three digits.
fn grouped(value: &Value) -> String {
    let Some(count) = value.as_u64() else { return "?".to_owned() };
    let digits = count.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = groups.map(|group| String::from_utf8_lossy(group)).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::{BEGIN, END, fill, grouped, long, seconds, short};

    #[test]
    fn figures_replace_figures() {
        let text = format!("a\n{BEGIN}old\n{END}\nb");
        let once = fill(&text, "new\n").unwrap();
        assert_eq!(once, format!("a\n{BEGIN}new\n{END}\nb"));
        assert_eq!(fill(&once, "new\n").unwrap(), once);
        assert!(fill("nothing", "new").is_none());
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(grouped(&1_234_567.into()), "1,234,567");
        assert_eq!(grouped(&12.into()), "12");
        let shown = [0.01234, 0.5, 1.234, 61.26].map(|value| seconds(&value.into()));
        assert_eq!(shown, ["0.0123", "0.500", "1.23", "61.3"]);
    }

    #[test]
    fn a_line_becomes_a_row() {
        let line = serde_json::json!({
            "data": "synthetic-1k", "rows": 1000, "runs": 25, "machine": "M", "version": "0.1.0",
            "wall_seconds_median": 0.02, "wall_seconds_min": 0.01, "wall_seconds_max": 0.03,
            "last_run": {
                "run_id": "20261121T120000Z-00000000", "threads": 2, "isa": "avx2", "peak_anon_bytes": 3_000_000,
                "detected": { "pairs": 1500 },
                "seconds": { "load": 0.001, "join": 0.002, "cluster": 0.003, "plan": 0.004 },
            },
        });
        let row = "| synthetic | 1,000 | 1,500 | 0.0200 | 3 MiB |\n";
        assert!(short(std::slice::from_ref(&line)).ends_with(row));
        let table = long(&[line]);
        assert!(table.starts_with("M, 2 threads, level avx2, memfold 0.1.0, 20261121"), "{table}");
        assert!(table.contains("| 0.0100 – 0.0300 | 0.0010 | 0.0020 |"), "{table}");
    }
}

//! Whole runs of `memfold consolidate`: the short table and the long one.

use serde_json::Value;

use super::show::{grouped, mebibytes, row, seconds};

pub(super) fn short(lines: &[Value]) -> String {
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
        table.push_str(&row(&cells));
    }
    table
}

pub(super) fn long(lines: &[Value]) -> String {
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
        table.push_str(&row(&cells));
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

/// `real-1k` is `real`.
fn kind(line: &Value) -> String {
    let name = line["data"].as_str().unwrap_or_default();
    name.split('-').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{long, short};

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

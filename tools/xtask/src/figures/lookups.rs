//! Lookups beside rival engines: a table for the screen, one for the page, and plots.

use memfold_plot::{self as plot, Bar, Caption, Series};
use serde_json::Value;

use super::Plots;
use super::show::{Columns, day, grouped, row};

/// The recall that engines are compared at.
const RECALL: f64 = 0.99;

/// The table for the screen, 80 wide.
pub(crate) fn screen(lines: &[Value]) -> String {
    let mut text = String::new();
    for set in sets(lines) {
        text.push_str(&format!("\n{}\n", heading(set[0].lines[0])));
        let mut columns = Columns::new(&[-14, 8, 7, 22, 12, 8, 9]);
        columns.push(&[
            "engine",
            "build, s",
            "times",
            "beam (recall)",
            "queries/s",
            "ours ÷",
            "bytes",
        ]);
        for engine in &set {
            let cells = engine.cells(&set[0]);
            columns.push(&cells.each_ref().map(String::as_str));
        }
        text.push_str(&columns.text);
    }
    text
}

/// The table for the page.
pub(crate) fn page(lines: &[Value]) -> String {
    let mut text = String::new();
    for set in sets(lines) {
        text.push_str(&format!("{}\n\n", heading(set[0].lines[0])));
        text.push_str(&format!(
            "| engine | build, s | times memfold's | beam with recall ≥ {RECALL} | queries/s, one thread | memfold's ÷ that | bytes per vector |\n\
             |---|---:|---:|---:|---:|---:|---:|\n",
        ));
        set.iter().for_each(|engine| text.push_str(&row(&engine.cells(&set[0]))));
        text.push('\n');
    }
    text
}

/// Names and texts of the plots of the set with most engines.
pub(crate) fn plots(lines: &[Value]) -> Plots {
    let sets = sets(lines);
    let measured = |set: &&Vec<Engine<'_>>| set.iter().filter(|one| one.build().is_some()).count();
    let Some(set) = sets.iter().max_by_key(measured) else { return Plots::new() };
    vec![("peers-lookups.svg".to_owned(), speeds(set)), ("peers-build.svg".to_owned(), builds(set))]
}

/// The lines of one engine on one set of rows, by the width of its beam.
struct Engine<'a> {
    name: &'a str,
    lines: Vec<&'a Value>,
}

impl<'a> Engine<'a> {
    /// The first line that finds enough.
    fn found(&self) -> Option<&'a Value> {
        self.lines.iter().copied().find(|line| recall(line) >= Some(RECALL))
    }

    fn build(&self) -> Option<f64> {
        self.lines[0]["build_seconds"].as_f64()
    }

    fn cells(&self, ours: &Self) -> [String; 7] {
        let none = || "–".to_owned();
        let Some(build) = self.build() else {
            let outcome = self.lines[0]["outcome"].as_str().unwrap_or("unknown").to_owned();
            return [self.name.to_owned(), none(), none(), outcome, none(), none(), none()];
        };
        let best = self.lines.iter().filter_map(|line| recall(line)).fold(0.0, f64::max);
        let beam = match self.found() {
            Some(line) if line["beam"].is_null() => "every row (1)".to_owned(),
            Some(line) => {
                format!("{} ({:.4})", line["beam"], recall(line).unwrap_or_default())
            }
            None => format!("none: {best:.4} at most"),
        };
        let speed = self.found().and_then(speed);
        let ratio = |ours: Option<f64>, other: Option<f64>| {
            ours.zip(other).map_or_else(none, |(ours, other)| format!("{:.1}", ours / other))
        };
        [
            self.name.to_owned(),
            format!("{build:.1}"),
            ratio(Some(build), ours.build()),
            beam,
            speed.map_or_else(none, whole),
            ratio(ours.found().and_then(self::speed), speed),
            self.lines[0]["bytes_per_vector"].as_f64().map_or_else(none, whole),
        ]
    }
}

/// Engines on the same rows, memfold first.
fn sets(lines: &[Value]) -> Vec<Vec<Engine<'_>>> {
    let mut sets: Vec<Vec<Engine<'_>>> = Vec::new();
    for line in lines {
        let name = text(line, "engine");
        let same_rows = |set: &&mut Vec<Engine<'_>>| set[0].lines[0]["data"] == line["data"];
        let Some(set) = sets.iter_mut().find(same_rows) else {
            sets.push(vec![Engine { name, lines: vec![line] }]);
            continue;
        };
        match set.iter_mut().find(|engine| engine.name == name) {
            Some(engine) => engine.lines.push(line),
            None => set.push(Engine { name, lines: vec![line] }),
        }
    }
    sets.iter_mut().for_each(|set| set.sort_by_key(|engine| engine.name != "memfold"));
    sets
}

fn heading(line: &Value) -> String {
    format!(
        "{}, {} rows, the {} nearest, {} threads to build; {}, {}",
        text(line, "data"),
        grouped(&line["rows"]),
        line["k"],
        line["threads"],
        text(line, "machine"),
        day(line),
    )
}

/// Queries per second over the share of neighbours that is missed.
fn speeds(set: &[Engine<'_>]) -> String {
    let point = |line: &&Value| {
        let missed = 1.0 - recall(line)?;
        Some((missed, speed(line)?)).filter(|_| missed > 0.0)
    };
    let series = set.iter().map(|engine| {
        let mut points: Vec<(f64, f64)> = engine.lines.iter().filter_map(point).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series { name: engine.name.to_owned(), points }
    });
    let series: Vec<Series> = series.filter(|series| !series.points.is_empty()).collect();
    let details = details(set, "a point for each beam");
    let caption = Caption { title: "Lookups: recall and speed", details: &details };
    plot::lines(&caption, ("share of the nearest that is missed", "queries/s, one thread"), &series)
}

/// Seconds to build.
fn builds(set: &[Engine<'_>]) -> String {
    let bars = set.iter().filter_map(|engine| {
        let value = engine.build()?;
        let (label, note) = (engine.name.to_owned(), format!("{value:.1} s"));
        Some(Bar { label, value, note, marked: engine.name == "memfold" })
    });
    let details = details(set, "from vectors in memory to an index");
    let caption = Caption { title: "Lookups: seconds to build", details: &details };
    plot::bars(&caption, &bars.collect::<Vec<_>>())
}

fn details(set: &[Engine<'_>], what: &str) -> String {
    let line = set[0].lines[0];
    let (data, rows, threads) = (text(line, "data"), grouped(&line["rows"]), &line["threads"]);
    format!("{data}: {rows} rows, {threads} threads to build, {}; {what}", day(line))
}

fn text<'a>(line: &'a Value, key: &str) -> &'a str {
    line[key].as_str().unwrap_or("unknown")
}

fn recall(line: &Value) -> Option<f64> {
    line["recall_at_k"].as_f64()
}

fn speed(line: &Value) -> Option<f64> {
    line["qps_one_thread"].as_f64()
}

fn whole(value: f64) -> String {
    grouped(&Value::from(value.round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn line(engine: &str, beam: Option<u64>, recall: f64, speed: f64) -> Value {
        json!({
            "data": "d", "engine": engine, "beam": beam, "recall_at_k": recall, "qps_one_thread": speed,
            "build_seconds": if engine == "memfold" { 2.0 } else { 9.0 }, "bytes_per_vector": 526.0,
            "rows": 99_000, "k": 10, "threads": 2, "machine": "M", "run": "2026-11-22T12:00:00Z",
        })
    }

    fn lines() -> [Value; 6] {
        [
            line("rival", Some(64), 0.99, 4_000.0),
            line("memfold", Some(32), 0.98, 9_000.0),
            line("memfold", Some(64), 0.991, 8_000.0),
            line("poor", Some(256), 0.95, 5_000.0),
            line("scan", None, 1.0, 80.0),
            json!({ "data": "d", "engine": "absent", "outcome": "not installed" }),
        ]
    }

    #[test]
    fn engines_are_compared_where_they_find_enough() {
        let text = page(&lines());
        assert!(
            text.starts_with("d, 99,000 rows, the 10 nearest, 2 threads to build; M, 2026-11-22\n")
        );
        for expected in [
            "|---:|\n| memfold | 2.0 | 1.0 | 64 (0.9910) | 8,000 | 1.0 | 526 |\n",
            "| rival | 9.0 | 4.5 | 64 (0.9900) | 4,000 | 2.0 | 526 |\n",
            "| poor | 9.0 | 4.5 | none: 0.9500 at most | – | – | 526 |\n",
            "| scan | 9.0 | 4.5 | every row (1) | 80 | 100.0 | 526 |\n",
            "| absent | – | – | not installed | – | – | – |\n",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
    }

    #[test]
    fn the_screen_is_80_wide() {
        let text = screen(&lines());
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert_eq!(text.lines().count(), 3 + 5, "{text}");
    }

    #[test]
    fn what_misses_nothing_has_no_point() {
        let plots = plots(&lines());
        let names: Vec<&str> = plots.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["peers-lookups.svg", "peers-build.svg"]);
        assert!(plots[0].1.contains(">rival<") && !plots[0].1.contains(">scan<"));
        assert!(plots[1].1.contains("scan") && !plots[1].1.contains("absent"));
    }
}

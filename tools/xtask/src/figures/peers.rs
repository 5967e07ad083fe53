//! The join beside its rivals: a table for the screen, one for the page, and plots.

use memfold_plot::{self as plot, Bar, Caption, Series};
use serde_json::Value;

use super::Plots;
use super::show::{Columns, bytes, day, grouped, row, seconds, share};

/// A rival that finds less than this is shown, but not counted.
const RECALL_MIN: f64 = 0.99;

/// What tells an engine's settings apart.
const TELLING: [&str; 5] = [PROCESS, "nprobe", "dtype", "num_leaves_to_search", "ef"];

/// memfold as a whole process, which loads and clusters as well.
const PROCESS: &str = "process";

/// The table for the screen, 80 wide.
pub(crate) fn screen(lines: &[Value]) -> String {
    let mut text = String::new();
    let lines = with_processes(lines);
    for group in groups(&lines) {
        text.push_str(&format!("\n{}\n", heading(&group)));
        let mut columns = Columns::new(&[-15, -11, 9, 8, 9, 11, 8, 8]);
        columns.push(&[
            "engine",
            "setting",
            "seconds",
            "build",
            "recall",
            "precision",
            "MiB",
            "times",
        ]);
        for line in &group {
            let cells = cells(line, &group);
            columns.push(&cells.each_ref().map(String::as_str));
        }
        text.push_str(&columns.text);
    }
    text
}

/// The table for the page.
pub(crate) fn page(lines: &[Value]) -> String {
    let mut text = String::new();
    let lines = with_processes(lines);
    for group in groups(&lines) {
        text.push_str(&format!("{}\n\n", heading(&group)));
        text.push_str(
            "| engine | setting | seconds | of these to build | pair recall | pair precision | MiB | times memfold's |\n\
             |---|---|---:|---:|---:|---:|---:|---:|\n",
        );
        for line in &group {
            text.push_str(&row(&cells(line, &group)));
        }
        text.push('\n');
    }
    text
}

/// Names and texts of the plots, where there is something to draw.
pub(crate) fn plots(lines: &[Value]) -> Plots {
    let lines = with_processes(lines);
    let groups = groups(&lines);
    let finished = |group: &&Vec<&Value>| group.iter().filter(|line| total(line).is_some()).count();
    let fullest = groups.iter().max_by_key(finished);
    let bars = fullest.map(|group| ("peers-join.svg".to_owned(), bars(group)));
    bars.into_iter().chain([("peers-growth.svg".to_owned(), growth(&groups))]).collect()
}

/// Adds a line for each whole process of memfold.
fn with_processes(lines: &[Value]) -> Vec<Value> {
    let mut all = lines.to_vec();
    for line in lines {
        let process = &line["notes"]["process_seconds"];
        if process.is_number() {
            let mut line = line.clone();
            line["setting"] = serde_json::json!({ PROCESS: true });
            line["seconds"]["total"] = process.clone();
            all.push(line);
        }
    }
    all
}

/// Lines of one data set and threshold, by rows; engines in the order of their time.
fn groups(lines: &[Value]) -> Vec<Vec<&Value>> {
    let mut groups: Vec<Vec<&Value>> = Vec::new();
    for line in lines {
        let same = |group: &&mut Vec<&Value>| {
            ["data", "threshold"].iter().all(|key| group[0][*key] == line[*key])
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(line),
            None => groups.push(vec![line]),
        }
    }
    for group in &mut groups {
        let order = |line: &&Value| total(line).unwrap_or(f64::MAX);
        group.sort_by(|a, b| order(a).total_cmp(&order(b)));
    }
    let key = |group: &Vec<&Value>| (group[0]["rows"].as_u64(), group[0]["data"].to_string());
    groups.sort_by_key(key);
    groups
}

fn heading(group: &[&Value]) -> String {
    let line = group.iter().find(|line| total(line).is_some()).unwrap_or(&group[0]);
    let text = |key: &str| line[key].as_str().unwrap_or("unknown").to_owned();
    format!(
        "{}, {} × {}, ≥ {}, {} pairs, {} threads; {}, {}",
        text("data"),
        grouped(&line["rows"]),
        line["dim"],
        line["threshold"],
        grouped(&line["pairs_true"]),
        line["threads"],
        text("machine"),
        day(line),
    )
}

fn cells(line: &Value, group: &[&Value]) -> [String; 8] {
    let (engine, setting) = (name(line), setting(line));
    let Some(own) = total(line) else {
        let outcome = line["outcome"].as_str().unwrap_or("unknown").to_owned();
        let none = String::new;
        return [engine, setting, outcome, none(), none(), none(), none(), none()];
    };
    let ours = group.iter().find(|other| is_ours(other) && other["run"] == line["run"]);
    let times = ours.and_then(|ours| total(ours)).map(|ours| format!("{:.1}", own / ours));
    [
        engine,
        setting,
        seconds(&line["seconds"]["total"]),
        seconds(&line["seconds"]["build"]),
        share(&line["pair_recall"]),
        share(&line["pair_precision"]),
        bytes(&line["peak_rss_bytes"]),
        times.unwrap_or_default(),
    ]
}

fn name(line: &Value) -> String {
    line["engine"].as_str().unwrap_or_default().to_owned()
}

fn is_ours(line: &Value) -> bool {
    line["engine"] == "memfold" && line["setting"].get(PROCESS).is_none()
}

fn total(line: &Value) -> Option<f64> {
    line["seconds"]["total"].as_f64()
}

fn recall(line: &Value) -> f64 {
    line["pair_recall"].as_f64().unwrap_or(0.0)
}

fn setting(line: &Value) -> String {
    let found = TELLING.iter().find_map(|key| Some((*key, line["setting"].get(*key)?)));
    match found {
        Some(("dtype", value)) => value.as_str().unwrap_or_default().to_owned(),
        Some(("num_leaves_to_search", value)) => format!("leaves {value}"),
        Some((PROCESS, _)) => "process".to_owned(),
        Some((key, value)) => format!("{key} {value}"),
        None => String::new(),
    }
}

fn bars(group: &[&Value]) -> String {
    let drawn = group.iter().filter_map(|line| {
        let value = total(line)?;
        Some(Bar {
            label: format!("{} {}", name(line), setting(line)).trim_end().to_owned(),
            value,
            note: format!(
                "{} s, recall {}",
                seconds(&line["seconds"]["total"]),
                share(&line["pair_recall"])
            ),
            marked: line["engine"] == "memfold",
        })
    });
    let title = "All near-duplicate pairs: seconds by engine, index included";
    let line = group[0];
    let details = format!(
        "{}: {} × {}, cosine ≥ {}, {} threads, {}",
        line["data"].as_str().unwrap_or_default(),
        grouped(&line["rows"]),
        line["dim"],
        line["threshold"],
        line["threads"],
        day(line),
    );
    plot::bars(&Caption { title, details: &details }, &drawn.collect::<Vec<_>>())
}

/// Each engine's fastest setting that finds enough, over the rows of one kind of generated data at the last threshold:
/// the kind with most points.
fn growth(groups: &[Vec<&Value>]) -> String {
    let Some(last) = groups.last().map(|group| group[0]) else { return String::new() };
    let at_threshold = || groups.iter().filter(|group| group[0]["threshold"] == last["threshold"]);
    let series_of = |kind: &str| {
        let mut series: Vec<Series> = Vec::new();
        let of_kind = at_threshold().filter(|group| kind_of(group[0]) == Some(kind));
        for (name, point) in of_kind.flat_map(|group| fastest(group)) {
            match series.iter_mut().find(|series| series.name == name) {
                Some(series) => series.points.push(point),
                None => series.push(Series { name, points: vec![point] }),
            }
        }
        (kind.to_owned(), series)
    };
    let points = |(_, series): &(String, Vec<Series>)| -> usize {
        series.iter().map(|series| series.points.len()).sum()
    };
    let kinds = at_threshold().filter_map(|group| kind_of(group[0])).map(series_of);
    let (kind, mut series) = kinds.max_by_key(points).unwrap_or_default();
    series.sort_by_key(|series| series.name != "memfold");
    let title = "All near-duplicate pairs: growth with rows";
    let details = format!(
        "{kind}, {} dimensions, cosine ≥ {}; each engine's fastest setting with pair recall ≥ {RECALL_MIN}",
        last["dim"], last["threshold"]
    );
    plot::lines(&Caption { title, details: &details }, ("rows", "seconds, index included"), &series)
}

/// Names the kind of generated rows: what stands before their number.
fn kind_of(line: &Value) -> Option<&str> {
    let (kind, _) = line["data"].as_str()?.rsplit_once('-')?;
    kind.starts_with("synthetic").then_some(kind)
}

/// Engines that find enough, each with rows and least seconds.
fn fastest(group: &[&Value]) -> Vec<(String, (f64, f64))> {
    let mut found: Vec<(String, (f64, f64))> = Vec::new();
    for line in group.iter().filter(|line| recall(line) >= RECALL_MIN) {
        let point = line["rows"].as_f64().zip(total(line));
        // The first of an engine is its fastest.
        if let Some(point) = point.filter(|_| found.iter().all(|(seen, _)| *seen != name(line))) {
            found.push((name(line), point));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fixture() -> Vec<Value> {
        let line = |engine: &str, setting: Value, total: f64, recall: f64| {
            json!({
                "data": "synthetic-100k", "rows": 100_000, "dim": 384, "threads": 2, "engine": engine,
                "setting": setting, "threshold": 0.85, "outcome": "done",
                "seconds": { "build": total / 2.0, "search": total / 2.0, "total": total },
                "peak_rss_bytes": 1_048_576, "pairs_true": 89_262, "pair_recall": recall, "pair_precision": 1.0,
                "run": "2026-11-21T12:00:00Z", "machine": "M, 2 cores",
            })
        };
        let mut memfold = line("memfold", json!({}), 0.75, 1.0);
        memfold["notes"]["process_seconds"] = 1.25.into();
        vec![
            line("faiss-ivf-flat", json!({ "nlist": 1265, "nprobe": 8 }), 10.5, 0.999_389_9),
            line("usearch", json!({ "dtype": "bf16" }), 53.0, 0.98),
            memfold,
            json!({
                "data": "synthetic-100k", "rows": 100_000, "dim": 384, "threads": 2, "engine": "hnswlib",
                "setting": { "ef": 64 }, "threshold": 0.85, "outcome": "not within 600 s",
                "run": "2026-11-21T12:00:00Z", "machine": "M, 2 cores",
            }),
        ]
    }

    #[test]
    fn the_screen_is_80_wide_and_fastest_first() {
        let text = screen(&fixture());
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
        let names: Vec<&str> =
            lines.iter().map(|line| line.split_whitespace().next().unwrap()).collect();
        assert_eq!(names, ["engine", "memfold", "memfold", "faiss-ivf-flat", "usearch", "hnswlib"]);
        assert!(lines[2].contains("process") && lines[2].ends_with("1.7"), "{text}");
        assert!(lines[3].ends_with("14.0"), "{text}");
        assert!(lines[3].contains("0.99938"), "recall is cut, not rounded up: {text}");
        assert!(lines[5].contains("not within 600 s"), "{text}");
    }

    #[test]
    fn the_page_has_a_row_for_each_line() {
        let text = page(&fixture());
        assert!(text.starts_with(
            "synthetic-100k, 100,000 × 384, ≥ 0.85, 89,262 pairs, 2 threads; M, 2 cores, 2026-11-21"
        ));
        assert!(
            text.contains("| memfold |  | 0.750 | 0.375 | 1.00000 | 1.00000 | 1 | 1.0 |"),
            "{text}"
        );
        assert_eq!(text.lines().filter(|line| line.starts_with("| ")).count(), 6, "{text}");
    }

    #[test]
    fn rows_of_one_kind_grow() {
        let mut lines = fixture();
        for (data, rows) in
            [("synthetic-like-real-100k", 100_000), ("synthetic-like-real-10k", 10_000)]
        {
            let mut line = fixture().swap_remove(2);
            (line["data"], line["rows"]) = (data.into(), rows.into());
            lines.push(line);
        }
        let growth = &plots(&lines)[1].1;
        assert!(growth.contains("synthetic-like-real, ") && !growth.contains(">faiss-ivf-flat<"));
    }

    #[test]
    fn only_what_finds_enough_grows() {
        let plots = plots(&fixture());
        let names: Vec<&str> = plots.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["peers-join.svg", "peers-growth.svg"]);
        assert!(plots[0].1.contains("usearch bf16") && plots[0].1.contains("recall 0.98000"));
        assert!(plots[1].1.contains(">memfold<") && !plots[1].1.contains(">usearch<"));
    }
}

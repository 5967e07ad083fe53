//! Plots of stored results.

use memfold_bench::likeness_plots;
use memfold_bench::plot::{
    Axis, Bar, Caption, Line, OperatingPoint, Scale, bars, lines, operating_curve,
};
use serde_json::Value;

use super::rows::{RECALL_MIN, curves, engines, peers};
use super::table::filled;

/// Names of files, and what stands in them.
type Plots = Vec<(String, String)>;

/// Draws the lines of a file of results.
type Draw = fn(&[Value]) -> Plots;

/// Results, and how they are drawn.
pub(super) const DRAWINGS: [(&str, Draw); 6] = [
    ("bench/results/join.jsonl", joins),
    ("bench/results/peers-join.jsonl", peer_joins),
    ("bench/results/peers-ann.jsonl", peer_lookups),
    ("bench/results/guard.jsonl", guard),
    ("bench/results/like.jsonl", like),
    ("bench/results/lifecycle.jsonl", years),
];

/// Memories by tier over ten years.
fn years(stored: &[Value]) -> Plots {
    const DAYS_A_YEAR: f64 = 365.25;
    let Some(line) = stored.first() else { return Vec::new() };
    let last_run = if line["points"].is_array() { line } else { &line["last_run"] };
    let points = last_run["points"].as_array().into_iter().flatten();
    let mut drawn: Vec<Line> = Vec::new();
    for (color, tier) in ["hot", "warm", "cold", "archived"].into_iter().enumerate() {
        let of_tier =
            |point: &Value| Some((point[0].as_f64()? / DAYS_A_YEAR, point[color + 1].as_f64()?));
        let points = points.clone().filter_map(of_tier).collect();
        drawn.push(Line { name: tier.to_owned(), points, color, ..Line::default() });
    }
    let memories = last_run["memories"].as_f64().unwrap_or(1.0);
    let details = format!("The sample store, {memories} live memories, nothing read or written");
    let caption = Caption { title: "Memories by tier over ten years", details: &details };
    let (x, y) = (Axis::linear("years", 0.0, 10.0), Axis::linear("memories", 0.0, memories));
    vec![("lifecycle-tiers.svg".to_owned(), lines(&caption, &x, &y, &drawn))]
}

/// Seconds over generated rows, a line for each threshold.
fn joins(stored: &[Value]) -> Plots {
    let is_synthetic = |line: &&Value| filled("{data}", line).starts_with("synthetic");
    let mut drawn = Vec::new();
    for line in stored.iter().filter(is_synthetic) {
        let point = line["rows"].as_f64().zip(line["wall_seconds_median"].as_f64());
        let name = filled("cosine ≥ {threshold}", line);
        point.into_iter().for_each(|point| extend(&mut drawn, &name, point));
    }
    let first = stored.iter().find(is_synthetic).unwrap_or(&Value::Null);
    let template = "Generated rows × {dim}, {last_run.threads} threads, {run:day}";
    let title = "memfold dedup: seconds of the whole process over rows";
    vec![growth("join-growth.svg", title, &filled(template, first), ("rows", "seconds"), drawn)]
}

/// Each engine at the set of rows that most of them finished, and over generated rows.
fn peer_joins(stored: &[Value]) -> Plots {
    let groups = peers(stored);
    let finished = |group: &&Vec<Value>| group.iter().filter(|line| total(line).is_some()).count();
    let Some(fullest) = groups.iter().max_by_key(finished) else { return Vec::new() };
    let drawn = fullest.iter().filter_map(|line| {
        Some(Bar {
            label: filled("{engine} {shown}", line).trim_end().to_owned(),
            value: total(line)?,
            note: filled("{seconds.total:s} s, recall {pair_recall:share}", line),
            marked: line["engine"] == "memfold",
        })
    });
    let template = "{data}: {rows:n} × {dim}, cosine ≥ {threshold}, {threads} threads, {run:day}";
    let title = "All near-duplicate pairs: seconds by engine, index included";
    let details = filled(template, &fullest[0]);
    let drawn = bars(&Caption { title, details: &details }, &drawn.collect::<Vec<_>>());
    vec![("peers-join.svg".to_owned(), drawn), peer_growth(&groups)]
}

/// Each engine's fastest setting that finds enough, over the kind of generated rows with most
/// points on one machine, at the last threshold.
fn peer_growth(groups: &[Vec<Value>]) -> (String, String) {
    let last = &groups[groups.len() - 1][0];
    // By machine and kind.
    let mut kinds: Vec<([String; 2], Vec<Line>)> = Vec::new();
    for group in groups.iter().filter(|group| group[0]["threshold"] == last["threshold"]) {
        let data = filled("{data}", &group[0]);
        let Some((kind, _)) = data.rsplit_once('-').filter(|(kind, _)| kind.starts_with("synth"))
        else {
            continue;
        };
        let key = [filled("{machine}", &group[0]), kind.to_owned()];
        let at = kinds.iter().position(|(seen, _)| *seen == key).unwrap_or_else(|| {
            kinds.push((key, Vec::new()));
            kinds.len() - 1
        });
        let mut seen = Vec::new();
        let found = |line: &&Value| line["pair_recall"].as_f64() >= Some(RECALL_MIN);
        for line in group.iter().filter(found) {
            let name = filled("{engine}", line);
            let point = line["rows"].as_f64().zip(total(line));
            // The first of an engine is its fastest.
            if let Some(point) = point.filter(|_| !seen.contains(&name)) {
                extend(&mut kinds[at].1, &name, point);
                seen.push(name);
            }
        }
    }
    let points = |(_, lines): &([String; 2], Vec<Line>)| -> usize {
        lines.iter().map(|line| line.points.len()).sum()
    };
    let ([_, kind], mut drawn) = kinds.into_iter().max_by_key(points).unwrap_or_default();
    drawn.sort_by_key(|line| line.name != "memfold");
    let template = ", {dim} dimensions, ≥ {threshold}; each engine's fastest setting with recall ≥";
    let details = format!("{kind}{} {RECALL_MIN}", filled(template, last));
    let title = "All near-duplicate pairs: growth with rows";
    growth("peers-growth.svg", title, &details, ("rows", "seconds, index included"), drawn)
}

/// Recall and speed, and seconds to build, on the set of rows that most engines indexed.
fn peer_lookups(stored: &[Value]) -> Plots {
    let sets = engines(stored);
    let built = |engine: &Vec<Value>| engine[0]["build_seconds"].as_f64();
    let Some(set) = sets.iter().max_by_key(|set| set.iter().filter_map(built).count()) else {
        return Vec::new();
    };
    let mut drawn = Vec::new();
    for line in set.iter().flatten() {
        let point = line["recall_at_k"].as_f64().map(|recall| 1.0 - recall);
        let point = point.zip(line["qps_one_thread"].as_f64()).filter(|point| point.0 > 0.0);
        point.into_iter().for_each(|point| extend(&mut drawn, &filled("{engine}", line), point));
    }
    let template = "{data}: {rows:n} rows, {threads} threads to build, {run:day}; ";
    let details = filled(template, &set[0][0]);
    let each_ef = format!("{details}a point for each ef_search");
    let axes = ("share of the nearest that is missed", "queries/s, one thread");
    let found = growth("peers-lookups.svg", "Lookups: recall and speed", &each_ef, axes, drawn);
    let drawn = set.iter().filter_map(|engine| {
        Some(Bar {
            label: filled("{engine}", &engine[0]),
            value: built(engine)?,
            note: filled("{build_seconds:.1} s", &engine[0]),
            marked: engine[0]["engine"] == "memfold",
        })
    });
    let details = format!("{details}from vectors in memory to an index");
    let caption = Caption { title: "Lookups: seconds to build", details: &details };
    let builds = bars(&caption, &drawn.collect::<Vec<_>>());
    vec![found, ("peers-build.svg".to_owned(), builds)]
}

/// An operating curve for each set with contradictions.
fn guard(stored: &[Value]) -> Plots {
    let drawn = curves(stored).into_iter().map(|line| {
        let run = &line["last_run"];
        let points = run["contradiction"]["curve"].as_array().into_iter().flatten();
        let points: Vec<_> = points.filter_map(OperatingPoint::from_json).collect();
        let template = "{data}: {last_run.pairs:n} pairs, {last_run.contradiction.labelled:n} of \
                        them labelled contradiction, {run:day}";
        let details = filled(template, &line);
        let caption = Caption { title: "Contradictions found, by threshold", details: &details };
        let in_use = run["contradiction_threshold"].as_f64().unwrap_or_default();
        (filled("{file}", &line), operating_curve(&caption, &points, in_use))
    });
    drawn.collect()
}

/// Generated rows beside the real ones: about as many, then four times as many.
fn like(stored: &[Value]) -> Plots {
    let drawn = stored.iter().flat_map(|line| {
        let begin = if line["rows"] == 36_000 { "like" } else { "like-4x" };
        likeness_plots::draw(line).map(|(end, svg)| (format!("{begin}-{end}.svg"), svg))
    });
    drawn.collect()
}

fn total(line: &Value) -> Option<f64> {
    line["seconds"]["total"].as_f64()
}

/// Adds a point to the line of a name.
fn extend(drawn: &mut Vec<Line>, name: &str, point: (f64, f64)) {
    match drawn.iter_mut().find(|line| line.name == name) {
        Some(line) => line.points.push(point),
        None => {
            let (name, points) = (name.to_owned(), vec![point]);
            drawn.push(Line { name, points, dots: true, ..Line::default() });
        }
    }
}

/// Draws lines over two logarithmic axes.
fn growth(
    file: &str,
    title: &str,
    details: &str,
    axes: (&str, &str),
    mut drawn: Vec<Line>,
) -> (String, String) {
    for (color, line) in drawn.iter_mut().enumerate() {
        line.color = color;
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let points = || drawn.iter().flat_map(|line| &line.points);
    let x = Axis::around(axes.0, Scale::Log, points().map(|point| point.0));
    let y = Axis::around(axes.1, Scale::Log, points().map(|point| point.1));
    (file.to_owned(), lines(&Caption { title, details }, &x, &y, &drawn))
}

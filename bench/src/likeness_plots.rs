//! Plots of the output of `memfold-bench likeness --json`: real rows, and synthetic ones modelled
//! on them.

use serde_json::Value;

use crate::plot::{Axis, Caption, Line, Scale, lines};

/// The two sides of a document; synthetic ones are dashed.
const KINDS: [(&str, bool); 2] = [("real", false), ("synthetic", true)];

/// Draws covariance, neighbors and groups; returns the plots with the words that end the names of
/// their files.
#[must_use]
pub fn draw(document: &Value) -> [(&'static str, String); 3] {
    let rows = |kind: &str| match document[kind]["rows"].as_u64().unwrap_or_default() {
        rows if rows < 1_000 => rows.to_string(),
        rows => format!("{},{:03}", rows / 1_000, rows % 1_000),
    };
    let details = format!(
        "{} real rows and {} synthetic ones of {} dimensions",
        rows("real"),
        rows("synthetic"),
        document["real"]["dim"]
    );
    let caption = |title| Caption { title, details: &details };
    [
        ("spectrum", spectrum(&caption("Covariance, kept by generate --like"), document)),
        ("neighbors", neighbors(&caption("Nearness, kept by generate --like"), document)),
        ("groups", groups(&caption("Groups of duplicates, kept by generate --like"), document)),
    ]
}

/// The share of the variance along the leading directions.
fn spectrum(caption: &Caption<'_>, document: &Value) -> String {
    let drawn = KINDS.into_iter().enumerate().map(|(color, (kind, dashed))| {
        let mut points = vec![(0.0, 0.0)];
        for share in numbers(&document[kind]["spectrum"]) {
            let (direction, explained) = points[points.len() - 1];
            points.push((direction + 1.0, explained + share));
        }
        Line { name: kind.to_owned(), points, color, dashed, dots: false }
    });
    let drawn: Vec<Line> = drawn.collect();
    let last = drawn.iter().map(|line| line.points.len() - 1).max().unwrap_or(1);
    let x = Axis::linear("leading directions", 0.0, last as f64);
    lines(caption, &x, &Axis::linear("share of the variance along them", 0.0, 1.0), &drawn)
}

/// Quantiles of the similarity to neighbors of some ranks, and of random rows.
fn neighbors(caption: &Caption<'_>, document: &Value) -> String {
    let shares = numbers(&document["quantile_shares"]);
    let mut drawn = Vec::new();
    let ranks = document["real"]["neighbors"].as_array().map_or(0, Vec::len);
    for color in 0..=ranks {
        for (kind, dashed) in KINDS {
            let (name, quantiles) = match &document[kind]["neighbors"][color] {
                Value::Null => (format!("strangers, {kind}"), &document[kind]["strangers"]),
                one => (format!("neighbor {}, {kind}", one["rank"]), &one["quantiles"]),
            };
            let points = shares.iter().copied().zip(numbers(quantiles)).collect();
            drawn.push(Line { name, points, color, dashed, dots: false });
        }
    }
    let lowest = drawn.iter().flat_map(|line| &line.points).map(|point| point.1);
    let lowest = (lowest.fold(0.0, f64::min) * 10.0).floor() / 10.0;
    let x = Axis::linear("share of rows (of pairs) that are at most so near", 0.0, 1.0);
    lines(caption, &x, &Axis::linear("similarity", lowest, 1.0), &drawn)
}

/// How many groups of near rows are at least so large.
fn groups(caption: &Caption<'_>, document: &Value) -> String {
    let mut drawn = Vec::new();
    for color in 0..document["real"]["duplicates"].as_array().map_or(0, Vec::len) {
        for (kind, dashed) in KINDS {
            let of = &document[kind]["duplicates"][color];
            let sizes = of["group_sizes"].as_array().into_iter().flatten();
            let sizes = sizes.filter_map(|size| size["rows"].as_f64().zip(size["groups"].as_f64()));
            let mut left: f64 = sizes.clone().map(|size| size.1).sum();
            let mut points = Vec::new();
            for (rows, count) in sizes {
                points.push((rows, left));
                left -= count;
            }
            let name = format!("{}, {kind}", of["threshold"]);
            drawn.push(Line { name, points, color, dashed, dots: true });
        }
    }
    let points = || drawn.iter().flat_map(|line| &line.points);
    let x = Axis::around("rows of a group at least", Scale::Log, points().map(|point| point.0));
    let y = Axis::around("groups", Scale::Log, points().map(|point| point.1));
    lines(caption, &x, &y, &drawn)
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
}

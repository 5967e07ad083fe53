//! Vectors like given ones: a line for the screen, tables for the page.

use serde_json::Value;

use super::show::{day, grouped, row};

/// A line for the screen.
pub(crate) fn line(line: &Value) -> String {
    let differences = line["largest_differences"].as_array().into_iter().flatten();
    let differences = differences.map(|one| {
        format!("{} {}", one["of"].as_str().unwrap_or("unknown"), decimals(&one["similarity"]))
    });
    format!("{} synthetic rows, farthest quantiles: {}", line["rows"], list(differences))
}

/// Where it was measured, and a row for each figure.
pub(crate) fn page(lines: &[Value]) -> String {
    let mut text = lines.last().map_or_else(String::new, |line| {
        let version = line["version"].as_str().unwrap_or("unknown");
        let real = &line["real"];
        format!(
            "{} real rows of {} dimensions ({}), memfold {version}, {}; *synthetic* rows are generated.\n\n",
            grouped(&real["rows"]),
            real["dim"],
            line["data"].as_str().unwrap_or("unknown"),
            day(line)
        )
    });
    let columns = lines.iter().map(|line| format!("{} synthetic", grouped(&line["rows"])));
    text.push_str(&row(&["".into(), "real".into()].into_iter().chain(columns).collect::<Vec<_>>()));
    text.push_str(&format!("|---|{}\n", "---:|".repeat(lines.len() + 1)));
    let Some(first) = lines.first() else { return text };
    for (name, figure) in figures(first) {
        let real = figure(&first["real"]);
        let synthetic = lines.iter().map(|line| figure(&line["synthetic"]));
        text.push_str(&row(&[name, real].into_iter().chain(synthetic).collect::<Vec<_>>()));
    }
    text
}

type Figure = Box<dyn Fn(&Value) -> String>;

/// Returns the figures of a file, by name.
fn figures(line: &Value) -> Vec<(String, Figure)> {
    let mut figures: Vec<(String, Figure)> =
        vec![("length of the mean".into(), Box::new(|of| decimals(&of["mean_norm"])))];
    for count in [1, 16, 64] {
        let explained = move |of: &Value| {
            let shares = of["spectrum"].as_array().into_iter().flatten().take(count);
            format!("{:.3}", shares.filter_map(Value::as_f64).sum::<f64>())
        };
        figures.push((format!("variance along {count} directions"), Box::new(explained)));
    }
    let shares = line["quantile_shares"].as_array().cloned().unwrap_or_default();
    let position = |wanted: f64| {
        shares.iter().position(|share| share.as_f64().is_some_and(|at| (at - wanted).abs() < 1e-9))
    };
    let shown: Vec<usize> = [0.05, 0.5, 0.95].into_iter().filter_map(position).collect();
    let ranks = line["real"]["neighbors"].as_array().into_iter().flatten();
    for (at, neighbors) in ranks.enumerate() {
        let name = format!("similarity to neighbor {}: 5 %, median, 95 %", neighbors["rank"]);
        let shown = shown.clone();
        let of = move |of: &Value| quantiles(&of["neighbors"][at]["quantiles"], &shown);
        figures.push((name, Box::new(of)));
    }
    let name = "similarity of random rows: 5 %, median, 95 %".to_owned();
    figures.push((name, Box::new(move |of| quantiles(&of["strangers"], &shown))));
    let counts = line["real"]["duplicates"].as_array().into_iter().flatten();
    for (at, count) in counts.enumerate() {
        let name = format!("rows in groups at {}; largest group", count["threshold"]);
        let of = move |of: &Value| {
            let counts = &of["duplicates"][at];
            let sizes = counts["group_sizes"].as_array();
            let largest = sizes
                .and_then(|sizes| sizes.last())
                .map_or(1, |size| size["rows"].as_u64().unwrap_or(1));
            format!("{}; {largest}", decimals(&counts["share"]))
        };
        figures.push((name, Box::new(of)));
    }
    figures
}

fn quantiles(values: &Value, shown: &[usize]) -> String {
    list(shown.iter().map(|&at| decimals(&values[at])))
}

fn list(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

fn decimals(value: &Value) -> String {
    value.as_f64().map_or_else(|| "?".to_owned(), |value| format!("{value:.3}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn a_figure_is_a_row() {
        let of = json!({
            "rows": 1000, "dim": 8, "mean_norm": 0.36, "spectrum": [0.5, 0.25],
            "neighbors": [{ "rank": 1, "quantiles": [0.5, 0.7, 0.9] }], "strangers": [0.0, 0.1, 0.25],
            "duplicates": [{ "threshold": 0.85, "share": 0.125, "group_sizes": [{ "rows": 2, "groups": 9 }, { "rows": 7, "groups": 1 }] }],
        });
        let line = json!({
            "data": "d", "rows": 4000, "quantile_shares": [0.05, 0.5, 0.95], "real": of, "synthetic": of,
            "largest_differences": [{ "of": "neighbor 1", "similarity": 0.02 }],
            "machine": "M", "version": "0.1.0", "run": "2026-11-22T12:00:00Z",
        });
        assert_eq!(super::line(&line), "4000 synthetic rows, farthest quantiles: neighbor 1 0.020");
        let page = super::page(&[line]);
        for expected in [
            "|  | real | 4,000 synthetic |\n|---|---:|---:|\n",
            "| variance along 16 directions | 0.750 | 0.750 |\n",
            "| similarity to neighbor 1: 5 %, median, 95 % | 0.500, 0.700, 0.900 | 0.500, 0.700, 0.900 |\n",
            "| rows in groups at 0.85; largest group | 0.125; 7 | 0.125; 7 |\n",
        ] {
            assert!(page.contains(expected), "{page}");
        }
    }
}

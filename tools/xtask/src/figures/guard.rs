//! The fact guard on labelled pairs: a line for the screen, tables for the page, a plot for each set.

use memfold_plot::{Caption, OperatingPoint, operating_curve};
use serde_json::Value;

use super::Plots;
use super::show::{day, grouped, row};

/// Where the cost of a single pair stands.
const MEDIAN: &str = "criterion_median_microseconds";

/// A line for the screen.
pub(crate) fn line(line: &Value) -> String {
    let run = &line["last_run"];
    let in_use = &run["contradiction"]["in_use"];
    let found = match in_use.is_object() {
        true => format!(
            ", contradiction precision {} recall {} F1 {}",
            share(&in_use["precision"]),
            share(&in_use["recall"]),
            share(&in_use["f1"])
        ),
        false => String::new(),
    };
    let time = microseconds(&run["microseconds_per_pair"]["median"]);
    format!("{}: {} pairs, {time} µs each{found}", name(line), grouped(&run["pairs"]))
}

/// Where it was measured, verdicts by label, contradiction by set, the plots.
pub(crate) fn page(lines: &[Value]) -> String {
    let mut text = lines.first().map_or_else(String::new, |line| {
        let machine = line["machine"].as_str().unwrap_or("unknown");
        let version = line["version"].as_str().unwrap_or("unknown");
        format!("{machine}, one thread, memfold {version}, {}.\n\n", day(line))
    });
    let having = |key: &str| -> Vec<&Value> {
        lines.iter().filter(|line| !line["last_run"][key].is_null()).collect()
    };
    let sets = having("labels");
    verdicts(&mut text, &sets);
    contradictions(&mut text, &sets);
    paraphrases(&mut text, &having("one_sided"));
    stores(&mut text, &having("memories"));
    pairs(&mut text, &having(MEDIAN));
    for line in lines.iter().filter(|line| has_curve(line)) {
        let name = name(line);
        text.push_str(&format!(
            "\n![Precision, recall and F1 of contradiction on {name}](plots/{})\n",
            file(line)
        ));
    }
    text
}

fn verdicts(text: &mut String, lines: &[&Value]) {
    text.push_str(
        "| set | label | pairs | compatible | complementary | different | contradictory | mergeable |\n\
         |---|---|---:|---:|---:|---:|---:|---:|\n",
    );
    for line in lines {
        for label in line["last_run"]["labels"].as_array().into_iter().flatten() {
            let verdict = |name: &str| grouped(&label["verdicts"][name]);
            let mergeable = label["mergeable_share"].as_f64();
            text.push_str(&row(&[
                name(line).to_owned(),
                label["label"].as_str().unwrap_or_default().to_owned(),
                grouped(&label["pairs"]),
                verdict("compatible"),
                verdict("complementary"),
                verdict("different"),
                verdict("contradictory"),
                mergeable.map_or_else(unknown, |share| format!("{:.2} %", share * 100.0)),
            ]));
        }
    }
}

fn contradictions(text: &mut String, lines: &[&Value]) {
    text.push_str(
        "\n| set | pairs | µs per pair, median | mean | threshold | precision | recall | F1 | best threshold | best F1 |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for line in lines {
        let run = &line["last_run"];
        let (in_use, best) = (&run["contradiction"]["in_use"], &run["contradiction"]["best"]);
        text.push_str(&row(&[
            name(line).to_owned(),
            grouped(&run["pairs"]),
            microseconds(&run["microseconds_per_pair"]["median"]),
            microseconds(&run["microseconds_per_pair"]["mean"]),
            share(&in_use["threshold"]),
            share(&in_use["precision"]),
            share(&in_use["recall"]),
            share(&in_use["f1"]),
            share(&best["threshold"]),
            share(&best["f1"]),
        ]));
    }
}

/// Linked paraphrases, counted by a script of its own.
fn paraphrases(text: &mut String, lines: &[&Value]) {
    if lines.is_empty() {
        return;
    }
    text.push_str(
        "\n| set | people say the same | linked | without words of their own on both sides | linked | every word of a in b | mergeable |\n\
         |---|---:|---:|---:|---:|---:|---:|\n",
    );
    for line in lines {
        let run = &line["last_run"];
        let count = |name: &str| grouped(&run[name]);
        let share = |part: &str, whole: &str| {
            let (part, whole) = (run[part].as_f64().unwrap_or_default(), run[whole].as_f64());
            whole.map_or_else(unknown, |whole| format!("{:.1} %", part / whole * 100.0))
        };
        text.push_str(&row(&[
            name(line).to_owned(),
            count("same"),
            share("same_linked", "same"),
            count("one_sided"),
            share("one_sided_linked", "one_sided"),
            count("carried"),
            share("carried_mergeable", "carried"),
        ]));
    }
}

/// What the guard says of the near pairs of whole stores.
fn stores(text: &mut String, lines: &[&Value]) {
    if lines.is_empty() {
        return;
    }
    text.push_str(
        "\n| store | memories | pairs | compatible | complementary | different | contradictory | flagged | deferred |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for line in lines {
        let run = &line["last_run"];
        let verdict = |name: &str| grouped(&run["verdicts"][name]);
        let threshold = run["threshold"].as_str().unwrap_or_default();
        text.push_str(&row(&[
            format!("{} ≥ {threshold}", name(line)),
            grouped(&run["memories"]),
            grouped(&run["pairs"]),
            verdict("compatible"),
            verdict("complementary"),
            verdict("different"),
            verdict("contradictory"),
            grouped(&run["flags"]),
            grouped(&run["flags_deferred"]),
        ]));
    }
}

/// What single pairs cost.
fn pairs(text: &mut String, lines: &[&Value]) {
    if lines.is_empty() {
        return;
    }
    text.push_str("\n| texts of about 100 characters | µs, median |\n|---|---:|\n");
    for line in lines {
        text.push_str(&row(&[name(line).to_owned(), microseconds(&line["last_run"][MEDIAN])]));
    }
}

/// An operating curve for each set with contradictions.
pub(crate) fn plots(lines: &[Value]) -> Plots {
    let curves = lines.iter().filter(|line| has_curve(line));
    curves.map(|line| (file(line), plot(line))).collect()
}

fn plot(line: &Value) -> String {
    let run = &line["last_run"];
    let curve = run["contradiction"]["curve"].as_array().into_iter().flatten();
    let points: Vec<OperatingPoint> = curve.filter_map(point).collect();
    let details = format!(
        "{}: {} pairs, {} of them labelled contradiction, {}",
        name(line),
        grouped(&run["pairs"]),
        grouped(&run["contradiction"]["labelled"]),
        day(line)
    );
    let caption = Caption { title: "Contradictions found, by threshold", details: &details };
    let in_use = run["contradiction_threshold"].as_f64().unwrap_or_default();
    operating_curve(&caption, &points, in_use)
}

fn point(point: &Value) -> Option<OperatingPoint> {
    Some(OperatingPoint {
        threshold: point["threshold"].as_f64()?,
        precision: point["precision"].as_f64(),
        recall: point["recall"].as_f64()?,
        f1: point["f1"].as_f64(),
    })
}

fn has_curve(line: &Value) -> bool {
    line["last_run"]["contradiction"].is_object()
}

fn name(line: &Value) -> &str {
    line["data"].as_str().unwrap_or("unknown")
}

fn file(line: &Value) -> String {
    format!("guard-{}.svg", name(line).replace('_', "-"))
}

fn share(value: &Value) -> String {
    value.as_f64().map_or_else(unknown, |share| format!("{share:.3}"))
}

fn microseconds(value: &Value) -> String {
    value.as_f64().map_or_else(unknown, |time| format!("{time:.1}"))
}

fn unknown() -> String {
    "–".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fixture() -> Vec<Value> {
        let verdicts =
            json!({ "compatible": 1, "complementary": 2, "different": 3, "contradictory": 1_994 });
        let label = |label: &str, share: f64| json!({ "label": label, "pairs": 2_000, "verdicts": verdicts, "mergeable_share": share });
        let point = json!({ "threshold": 0.5, "precision": 0.9, "recall": 0.8, "f1": 0.847 });
        let run = |labels: Value, contradiction: Value| {
            json!({
                "pairs": 2_000, "labels": labels, "contradiction": contradiction,
                "contradiction_threshold": 0.5, "microseconds_per_pair": { "median": 8.04, "mean": 9.96 },
            })
        };
        let line = |data: &str, run: Value| {
            json!({
                "data": data, "machine": "M", "version": "0.1.0", "run": "2026-11-21T12:00:00Z", "last_run": run,
            })
        };
        let figures = json!({ "labelled": 2_000, "in_use": point, "best": null, "curve": [point] });
        vec![
            line("one_set", run(json!([label("contradiction", 0.0012)]), figures)),
            line("bands", run(json!([label("4.5-5", 0.9)]), Value::Null)),
            line(
                "a-store",
                json!({
                    "memories": 36_000, "threshold": "0.85", "pairs": 2_000, "verdicts": verdicts,
                    "flags": 71, "flags_deferred": 9,
                }),
            ),
            line(
                "bands ≥ 4.5",
                json!({
                    "same": 1_000, "same_linked": 400, "one_sided": 200, "one_sided_linked": 183,
                    "carried": 100, "carried_mergeable": 92,
                }),
            ),
            line("one pair: number", json!({ "criterion_median_microseconds": 9.25 })),
        ]
    }

    #[test]
    fn the_page_has_a_row_for_each_label_and_set() {
        let text = page(&fixture());
        assert!(text.starts_with("M, one thread, memfold 0.1.0, 2026-11-21.\n\n| set |"), "{text}");
        for expected in [
            "| one_set | contradiction | 2,000 | 1 | 2 | 3 | 1,994 | 0.12 % |\n",
            "| bands | 4.5-5 | 2,000 | 1 | 2 | 3 | 1,994 | 90.00 % |\n",
            "| one_set | 2,000 | 8.0 | 10.0 | 0.500 | 0.900 | 0.800 | 0.847 | – | – |\n",
            "| bands | 2,000 | 8.0 | 10.0 | – | – | – | – | – | – |\n",
            "| a-store ≥ 0.85 | 36,000 | 2,000 | 1 | 2 | 3 | 1,994 | 71 | 9 |\n",
            "| bands ≥ 4.5 | 1,000 | 40.0 % | 200 | 91.5 % | 100 | 92.0 % |\n",
            "| one pair: number | 9.2 |\n",
            "](plots/guard-one-set.svg)\n",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        assert!(!text.contains("guard-bands"), "{text}");
    }

    #[test]
    fn sets_with_contradictions_are_drawn() {
        let plots = plots(&fixture());
        assert_eq!(plots.len(), 1);
        assert_eq!(plots[0].0, "guard-one-set.svg");
        assert!(plots[0].1.contains("2,000 of them labelled contradiction"), "{}", plots[0].1);
    }

    #[test]
    fn a_line_fits_the_screen() {
        let lines = fixture()[..2].iter().map(line).collect::<Vec<_>>();
        let expected = "one_set: 2,000 pairs, 8.0 µs each, contradiction precision 0.900 recall 0.800 F1 0.847";
        assert_eq!(lines, [expected, "bands: 2,000 pairs, 8.0 µs each"]);
    }
}

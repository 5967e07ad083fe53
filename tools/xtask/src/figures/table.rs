//! [`Table`]: stored lines as Markdown.
//!
//! A heading or a cell is a template: `{path}` stands for what a line holds there, `{path:format}`
//! for the same in a format, and a path goes through objects and lists by dots (`a.b.0`).
//!
//! | format | what it makes of a number |
//! |---|---|
//! | `n` | rounded, with a comma after each three digits |
//! | `s` | seconds: three significant figures below ten, one decimal above |
//! | `.2` | two decimals (or another number of them) |
//! | `%1` | percent with one decimal |
//! | `share` | five decimals, never rounded up: only all is 1 |
//! | `ms1` | microseconds as milliseconds, with one decimal |
//! | `mib` | bytes as mebibytes, rounded up |
//! | `mega`, `giga` | millions, billions, whole |
//! | `day` | of a time: its date |
//! | `kind` | of a name: what stands before the first `-` |
//!
//! A text stays as it is in every format of numbers; what is missing is `–`.

use serde_json::Value;

/// A block of a page: its mark, its results and its tables.
pub(super) struct Block {
    pub(super) file: &'static str,
    pub(super) mark: &'static str,
    pub(super) results: &'static str,
    pub(super) tables: &'static [Table],
}

impl Block {
    pub(super) fn render(&self, lines: &[Value]) -> String {
        let tables = self.tables.iter().map(|table| table.render(lines));
        tables.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
    }
}

/// A table for each group of rows.
pub(super) struct Table {
    /// Makes groups of rows from the stored lines.
    pub(super) groups: fn(&[Value]) -> Vec<Vec<Value>>,
    /// Stands before each table, filled from its first row; `""` for nothing.
    pub(super) heading: &'static str,
    /// Titles and cells; none for a heading alone.
    pub(super) columns: &'static [(&'static str, &'static str)],
}

impl Table {
    pub(super) fn render(&self, lines: &[Value]) -> String {
        let groups = (self.groups)(lines).into_iter().filter(|rows| !rows.is_empty());
        groups.map(|rows| self.render_group(&rows)).collect::<Vec<_>>().join("\n")
    }

    fn render_group(&self, rows: &[Value]) -> String {
        let heading = filled(self.heading, &rows[0]);
        let mut text = if heading.is_empty() { heading } else { heading + "\n" };
        if self.columns.is_empty() {
            return text;
        }
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&row(self.columns.iter().map(|(title, _)| (*title).to_owned())));
        let rules =
            self.columns.iter().map(|(_, cell)| if is_number(cell) { "---:|" } else { "---|" });
        text.extend(["|"].into_iter().chain(rules).chain(["\n"]));
        for one in rows {
            text.push_str(&row(self.columns.iter().map(|(_, cell)| filled(cell, one))));
        }
        text
    }
}

fn row(cells: impl Iterator<Item = String>) -> String {
    format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
}

/// Tells whether a cell begins with a formatted number.
fn is_number(cell: &str) -> bool {
    let first = cell.strip_prefix('{').and_then(|rest| rest.split('}').next());
    first.and_then(|first| first.split_once(':')).is_some_and(|(_, format)| format != "kind")
}

/// Fills a template from a line.
pub(super) fn filled(template: &str, line: &Value) -> String {
    let mut parts = template.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (field, after) = part.split_once('}').unwrap_or((part, ""));
        let (path, format) = field.split_once(':').unwrap_or((field, ""));
        text.push_str(&formatted(at(line, path), format));
        text.push_str(after);
    }
    text
}

/// Returns what a line holds at a path.
pub(super) fn at<'a>(line: &'a Value, path: &str) -> &'a Value {
    let step = |value: &'a Value, step: &str| match step.parse::<usize>() {
        Ok(index) if value.is_array() => &value[index],
        _ => &value[step],
    };
    path.split('.').fold(line, step)
}

fn formatted(value: &Value, format: &str) -> String {
    match (value, format) {
        (Value::String(text), "day") => day(text),
        (Value::String(text), "kind") => text.split('-').next().unwrap_or_default().to_owned(),
        (Value::String(text), _) => text.clone(),
        (Value::Null, _) => "–".to_owned(),
        (value, "" | "day" | "kind") => value.to_string(),
        (value, format) => value.as_f64().map_or_else(|| value.to_string(), |x| number(x, format)),
    }
}

fn number(value: f64, format: &str) -> String {
    let decimals = |digits: &str| digits.parse().unwrap_or(0);
    match format {
        "n" => grouped(value),
        "s" => seconds(value),
        "share" => format!("{:.5}", (value * 1e5 + 1e-6).floor() / 1e5),
        "mib" => format!("{}", (value / f64::from(1 << 20)).ceil()),
        "mega" => format!("{:.0}", value / 1e6),
        "giga" => format!("{:.0}", value / 1e9),
        _ => match format.split_at_checked(1) {
            Some((".", digits)) => format!("{value:.*}", decimals(digits)),
            Some(("%", digits)) => format!("{:.*} %", decimals(digits), value * 100.0),
            _ => match format.strip_prefix("ms") {
                Some(digits) => format!("{:.*}", decimals(digits), value / 1e3),
                None => format!("no format {format}"),
            },
        },
    }
}

fn grouped(value: f64) -> String {
    let digits = (value.round() as u64).to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    groups.map(|group| String::from_utf8_lossy(group)).collect::<Vec<_>>().join(",")
}

fn seconds(value: f64) -> String {
    let decimals = match value {
        value if value < 0.1 => 4,
        value if value < 1.0 => 3,
        value if value < 10.0 => 2,
        _ => 1,
    };
    format!("{value:.decimals$}")
}

/// `2026-11-23T03:11:31Z` and `20261123T031131Z-2b` are 2026-11-23.
fn day(text: &str) -> String {
    match (text.get(..4), text.get(4..6), text.get(6..8)) {
        (Some(year), Some(month), Some(day)) if !month.starts_with('-') => {
            format!("{year}-{month}-{day}")
        }
        _ => text.chars().take(10).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn templates_are_filled() {
        let line = json!({
            "data": "real-36k", "rows": 1_234_567, "took": [0.01234, 0.5, 1.234, 61.26],
            "run": "2026-11-23T03:11:31Z", "id": "20261123T031131Z-2b", "share": 0.999_999_9,
            "bytes": 1_048_577, "us": 2_340.0, "none": null, "rate": 82e9, "by": { "32": 0.6847 },
        });
        for (template, expected) in [
            ("{data}: {data:kind} × {rows:n}", "real-36k: real × 1,234,567"),
            ("{took.0:s} {took.1:s} {took.2:s} {took.3:s}", "0.0123 0.500 1.23 61.3"),
            ("{run:day} {id:day}", "2026-11-23 2026-11-23"),
            ("{share:share} {bytes:mib} {us:ms1} {us:.2}", "0.99999 2 2.3 2340.00"),
            ("{rate:giga} {rate:mega} {by.32:%0}", "82 82000 68 %"),
            ("{none:s}{missing.deep:n}{data:n}", "––real-36k"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(filled(template, &line), expected);
        }
    }

    #[test]
    fn numbers_are_aligned_to_the_right() {
        let columns = &[("data", "{data:kind}"), ("rows", "{rows:n}")];
        let groups = |lines: &[Value]| vec![lines.to_vec(), Vec::new()];
        let table = Table { groups, heading: "{data}.", columns };
        let line = json!({ "data": "real-1k", "rows": 1_000 });
        let expected = "real-1k.\n\n| data | rows |\n|---|---:|\n| real | 1,000 |\n";
        assert_eq!(table.render(std::slice::from_ref(&line)), expected);
        assert_eq!(Table { columns: &[], ..table }.render(&[line]), "real-1k.\n");
    }
}

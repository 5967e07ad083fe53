//! How numbers and rows are written.

use std::fmt::Write as _;

use serde_json::Value;

/// Three significant figures below ten, one decimal above.
pub(super) fn seconds(value: &Value) -> String {
    let Some(value) = value.as_f64() else { return "?".to_owned() };
    let decimals = match value {
        value if value < 0.1 => 4,
        value if value < 1.0 => 3,
        value if value < 10.0 => 2,
        _ => 1,
    };
    format!("{value:.decimals$}")
}

pub(super) fn mebibytes(value: &Value) -> String {
    format!("{} MiB", bytes(value))
}

/// Mebibytes without the unit.
pub(super) fn bytes(value: &Value) -> String {
    value.as_u64().map_or_else(|| "?".to_owned(), |bytes| bytes.div_ceil(1 << 20).to_string())
}

/// A count with a comma after each three digits.
pub(super) fn grouped(value: &Value) -> String {
    let Some(count) = value.as_u64() else { return "?".to_owned() };
    let digits = count.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = groups.map(|group| String::from_utf8_lossy(group)).collect();
    groups.join(",")
}

/// A share to five digits, never rounded up: only all is 1.
pub(super) fn share(value: &Value) -> String {
    let Some(value) = value.as_f64() else { return "?".to_owned() };
    format!("{:.5}", (value * 1e5 + 1e-6).floor() / 1e5)
}

/// The day of a line's run.
pub(super) fn day(line: &Value) -> String {
    line["run"].as_str().unwrap_or("unknown").chars().take(10).collect()
}

/// A row of a Markdown table.
pub(super) fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// A table for the screen; a negative width is aligned to the left.
pub(super) struct Columns<'a> {
    widths: &'a [i32],
    pub(super) text: String,
}

impl<'a> Columns<'a> {
    pub(super) fn new(widths: &'a [i32]) -> Self {
        Self { widths, text: String::new() }
    }

    pub(super) fn push(&mut self, cells: &[&str]) {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(self.widths) {
            let size = width.unsigned_abs() as usize;
            // Writing to a string cannot fail.
            let _written = match width.is_negative() {
                true => write!(line, "{cell:<size$}"),
                false => write!(line, "{cell:>size$}"),
            };
        }
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(grouped(&1_234_567.into()), "1,234,567");
        assert_eq!(grouped(&12.into()), "12");
        let shown = [0.01234, 0.5, 1.234, 61.26].map(|value| seconds(&value.into()));
        assert_eq!(shown, ["0.0123", "0.500", "1.23", "61.3"]);
        assert_eq!(share(&0.999_999_9.into()), "0.99999");
        assert_eq!(mebibytes(&1_048_577.into()), "2 MiB");
    }

    #[test]
    fn columns_are_aligned() {
        let mut columns = Columns::new(&[-4, 5]);
        columns.push(&["a", "1"]);
        columns.push(&["bb", "22"]);
        assert_eq!(columns.text, "a       1\nbb     22\n");
    }
}

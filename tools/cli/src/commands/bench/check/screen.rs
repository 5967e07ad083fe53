//! What `memfold bench check` prints for people.

use super::BenchCheckDocument;
use crate::printer::table;

pub(super) fn screen(document: &BenchCheckDocument) -> String {
    let rows = document.settings.iter().map(|setting| {
        let us = |value: f64| match value {
            value if value.abs() >= 10_000.0 => format!("{:.1} ms", value / 1e3),
            value => format!("{:.2} ms", value / 1e3),
        };
        vec![
            setting.name(),
            us(setting.p50_us),
            us(setting.p99_us),
            us(setting.p999_us),
            us(setting.max_us),
            format!("{}/{}", setting.checked, setting.count),
        ]
    });
    let mut text =
        table(&["check", "p50", "p99", "p99.9", "max", "in full"], rows.collect::<Vec<_>>());
    let BenchCheckDocument { index, rows, isa, .. } = document;
    text.push_str(&format!("\n{rows} rows, index: {index}; {isa}\n"));
    let saved = document.settings.iter().map(|setting| setting.saved).max().unwrap_or(0);
    if saved > 0 {
        text.push_str(&format!("writers saved {saved} memories into a copy of the store\n"));
    }
    if let Some(bytes) = document.peak_anon_bytes {
        let mebibytes = bytes as f64 / f64::from(1 << 20);
        text.push_str(&format!("anonymous memory of this process: {mebibytes:.1} MiB\n"));
    }
    text
}

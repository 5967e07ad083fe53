//! Sources: what must be absent from which files.

use std::path::Path;

use super::breach::Breach;

/// Lines of a file before its tests.
const LINES_MAX: usize = 600;

/// Stages that are functions from plain data to plain data.
const PURE: &[&str] = &[
    "pipeline/model/src/",
    "pipeline/guard/src/",
    "pipeline/lifecycle/src/",
    "pipeline/plan/src/cluster/",
    "pipeline/plan/src/detect/",
    "pipeline/plan/src/plan/",
];

const IMPURE_WORDS: &[&str] = &[
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "SystemTime",
    "rusqlite",
    "brain_db",
    "::now(",
];

const PRINTERS: &[&str] =
    &["tools/cli/src/printer.rs", "tools/python/build.rs", "tools/xtask/src/report.rs"];

const PRINT_WORDS: &[&str] = &["println!", "print!", "eprintln!", "eprint!"];

pub(super) fn check(root: &Path, file: &str) -> Vec<Breach> {
    if !file.ends_with(".rs") {
        return Vec::new();
    }
    let Ok(text) = std::fs::read_to_string(root.join(file)) else { return Vec::new() };
    let mut breaches = Vec::new();
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let line_count = code.lines().count();
    if line_count > LINES_MAX {
        let advice = format!("{line_count} lines without tests; split above {LINES_MAX}");
        breaches.push(Breach::new(file, advice));
    }
    for (number, line) in code.lines().enumerate() {
        let line = line.split("//").next().unwrap_or_default();
        for advice in complaints(file, line) {
            breaches.push(Breach::new(format!("{file}:{}", number + 1), advice));
        }
    }
    breaches
}

fn complaints(file: &str, line: &str) -> Vec<String> {
    let mut found = Vec::new();
    if file.starts_with("tools/xtask/src/tidy/") {
        return found;
    }
    let is_test =
        file.starts_with("tests/") || file.contains("/tests/") || file.ends_with("/tests.rs");
    if !is_test && PURE.iter().any(|folder| file.starts_with(folder)) {
        let impure = IMPURE_WORDS.iter().filter(|word| line.contains(*word));
        found.extend(impure.map(|word| format!("{word} in a pure stage: take it as an argument")));
    }
    if !is_test && !PRINTERS.contains(&file) && PRINT_WORDS.iter().any(|word| line.contains(word)) {
        found.push(format!("only {} prints", PRINTERS[0]));
    }
    let fenced = file.starts_with("simd/src/arch/") || file == "index/src/file/map.rs";
    if !fenced && has_word(line, "unsafe") {
        found.push("unsafe only in simd/src/arch and index/src/file/map.rs".to_owned());
    }
    if line.contains("#[allow(") || line.contains("#![allow(") {
        found.push("use #[expect(lint, reason = \"…\")]".to_owned());
    }
    found
}

fn has_word(line: &str, word: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word)
}

#[cfg(test)]
mod tests {
    use super::complaints;

    #[test]
    fn purity_and_printing_are_noticed() {
        assert_eq!(complaints("pipeline/plan/src/plan/mod.rs", "use std::fs;").len(), 1);
        assert_eq!(complaints("pipeline/plan/src/plan/tests.rs", "use std::fs;").len(), 0);
        assert_eq!(complaints("pipeline/plan/src/report/mod.rs", "use std::fs;").len(), 0);
        assert_eq!(complaints("index/src/lib.rs", "println!()").len(), 1);
        assert_eq!(complaints("index/src/lib.rs", "unsafe { x }").len(), 1);
        assert_eq!(complaints("index/src/lib.rs", "unsafe_code").len(), 0);
        assert_eq!(complaints("simd/src/arch/x.rs", "unsafe { x }").len(), 0);
    }
}

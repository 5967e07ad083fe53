//! `tidy`: invariants that the compiler cannot check, each with advice.
//!
//! Which package may use which is in `deny.toml`.

use std::path::Path;
use std::process::Command;

use crate::{runs, say, succeed};

const FILE_BYTES_MAX: u64 = 2 << 20;
/// The table of the built-in embedding is in the program; it has its own limit.
const TABLE: &str = "datasets/data/memfold-static-1.bin";
const TABLE_BYTES_MAX: u64 = 4_300_000;

/// Stages that are functions from plain data to plain data.
const PURE: &[&str] = &[
    "pipeline/guard/src/",
    "pipeline/core/src/memory.rs",
    "pipeline/core/src/time.rs",
    "pipeline/core/src/lineage.rs",
    "pipeline/core/src/decisions.rs",
    "pipeline/core/src/runs.rs",
    "pipeline/core/src/summary.rs",
    "pipeline/core/src/snapshot.rs",
    "pipeline/core/src/cluster.rs",
    "pipeline/core/src/detect/",
    "pipeline/core/src/plan/",
    "pipeline/core/src/lifecycle/",
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

const PRINTER: &str = "tools/terminal/src/printer.rs";
const PRINT_WORDS: &[&str] = &["println!", "print!", "eprintln!", "eprint!"];

/// Where `unsafe` may stand.
const UNSAFE: &[&str] = &["simd/src/arch/", "index/src/file/map.rs"];

/// Documents that say where things stand.
const MAPS: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md"];

/// Words that have no place in a file, split so that this one does not find itself.
const BANNED: &[(&str, &str)] = &[
    (concat!("/ro", "ot/"), "no machine paths"),
    (concat!("/ho", "me/"), "no machine paths"),
    (concat!("/wo", "rk/"), "no machine paths"),
    (concat!("TO", "DO"), "finish it, or describe it in an issue"),
    (concat!("FIX", "ME"), "fix it, or describe it in an issue"),
];

/// Checks all files and prints each breach; fails where there is one.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let files = files(root)?;
    let breaches: Vec<String> = files.iter().flat_map(|file| check(root, &files, file)).collect();
    breaches.iter().for_each(|breach| say(&format!("tidy: {breach}")));
    if !breaches.is_empty() {
        return Err(format!("tidy: {} breaches in {} files", breaches.len(), files.len()));
    }
    say(&format!("tidy: {} files, no breach", files.len()));
    if !runs("python3") {
        say("tidy: skipped the figures of the documents: there is no python3");
        return Ok(());
    }
    // Tables of the documents must equal the stored results.
    let words = ["bench/measure.py", "figures", "--check"];
    succeed(Command::new("python3").current_dir(root).args(words))
}

/// Lists the files that git tracks, and the untracked ones that it does not ignore.
fn files(root: &Path) -> Result<Vec<String>, String> {
    let output = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .map_err(|error| format!("git ls-files: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let names = String::from_utf8_lossy(&output.stdout);
    Ok(names.split('\0').filter(|name| root.join(name).is_file()).map(str::to_owned).collect())
}

fn check(root: &Path, files: &[String], file: &str) -> Vec<String> {
    let path = root.join(file);
    let bytes = path.metadata().map_or(0, |meta| meta.len());
    let most = if file == TABLE { TABLE_BYTES_MAX } else { FILE_BYTES_MAX };
    if bytes > most {
        return vec![format!("{file}: {bytes} bytes; keep files under {most}")];
    }
    // Texts to test with may say anything.
    if file.ends_with(".jsonl") || file.contains("/tests_data/") {
        return Vec::new();
    }
    let Ok(text) = std::fs::read_to_string(&path) else { return Vec::new() };
    let code_lines = text.split("#[cfg(test)]").next().unwrap_or_default().lines().count();
    let mut breaches = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let code = if number < code_lines { line.split("//").next() } else { None };
        let found = banned(line).chain(code.into_iter().flat_map(|code| complaints(file, code)));
        let found = found.chain(gone(files, file, line));
        breaches.extend(found.map(|advice| format!("{file}:{}: {advice}", number + 1)));
    }
    breaches
}

/// Returns advice on banned words, except words that begin a quoted text: tests quote people.
fn banned(line: &str) -> impl Iterator<Item = String> {
    let stands_open = |word| line.match_indices(word).any(|(at, _)| !line[..at].ends_with('"'));
    let found = BANNED.iter().filter(move |(word, _)| stands_open(*word));
    found.map(|(word, advice)| format!("{word}: {advice}"))
}

/// Returns the files and folders that documentation of modules, or a map of the code, names and that do not exist.
fn gone<'a>(
    files: &'a [String],
    file: &str,
    line: &'a str,
) -> impl Iterator<Item = String> + use<'a> {
    let is_module = file.ends_with(".rs") && line.trim_start().starts_with("//!");
    let maps = is_module || MAPS.contains(&file);
    let exists = move |name: &str| {
        files.iter().any(|file| {
            let inside = file.strip_prefix(name.trim_end_matches('/'));
            inside.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                || name.ends_with(".rs") && file.ends_with(&format!("/{name}"))
        })
    };
    let is_path = move |name: &&str| {
        let top = name.split_once('/').map(|(top, _)| top);
        let is_plain = !name.contains(|c: char| c.is_whitespace() || "*{<".contains(c));
        is_plain && (name.ends_with(".rs") || top.is_some_and(exists))
    };
    let quoted = line.split('`').skip(1).step_by(2).filter(move |_| maps);
    let absent = quoted.filter(is_path).filter(move |name| !exists(name));
    absent.map(|name| format!("{name} does not exist: name what does"))
}

/// Returns the breaches in a line of code outside of tests.
fn complaints(file: &str, line: &str) -> Vec<String> {
    let begins = |folders: &[&str]| folders.iter().any(|folder| file.starts_with(folder));
    let is_test =
        file.starts_with("tests/") || file.contains("/tests/") || file.ends_with("/tests.rs");
    let mut found = Vec::new();
    if !file.ends_with(".rs") || file == "tools/xtask/src/tidy.rs" {
        return found;
    }
    if !is_test && begins(PURE) {
        let impure = IMPURE_WORDS.iter().filter(|word| line.contains(*word));
        found.extend(impure.map(|word| format!("{word} in a pure stage: take it as an argument")));
    }
    let prints = PRINT_WORDS.iter().any(|word| line.contains(word));
    if prints && !is_test && file != PRINTER && !file.ends_with("/build.rs") {
        found.push(format!("only {PRINTER} prints"));
    }
    let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    if !begins(UNSAFE) && words.clone().any(|word| word == "unsafe") {
        found.push(format!("unsafe only in {}", UNSAFE.join(" and ")));
    }
    if line.contains("#[allow(") || line.contains("#![allow(") {
        found.push("use #[expect(lint, reason = \"…\")]".to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{banned, complaints, gone};

    #[test]
    fn names_of_what_is_gone_are_breaches() {
        let files = ["a/src/there.rs", "a/b/c.md"].map(str::to_owned);
        for (file, line, count) in [
            ("a/src/lib.rs", "//! `there.rs` and `a/b`, `a/src/`", 0),
            ("a/src/lib.rs", "//! `gone.rs` and `a/gone`", 2),
            ("a/src/lib.rs", "// `gone.rs`", 0),
            ("a/src/lib.rs", "//! `x/y`, `m/s` and `a/*`", 0),
            ("ARCHITECTURE.md", "`a/gone`", 1),
            ("README.md", "`a/gone`", 0),
        ] {
            assert_eq!(gone(&files, file, line).count(), count, "{file}: {line}");
        }
    }

    #[test]
    fn quoted_words_are_texts() {
        let word = concat!("TO", "DO");
        assert_eq!(banned(&format!("// {word}: x")).count(), 1);
        assert_eq!(banned(&format!("f(\"{word}\"); // {word}")).count(), 1);
        assert_eq!(banned(&format!("(\"{word}: x\", \"y\")")).count(), 0);
    }

    #[test]
    fn impure_printing_and_unsafe_lines_are_breaches() {
        for (file, line, count) in [
            ("pipeline/core/src/plan/mod.rs", "use std::fs;", 1),
            ("pipeline/core/src/plan/tests.rs", "use std::fs;", 0),
            ("pipeline/core/src/report/mod.rs", "use std::fs;", 0),
            ("index/src/lib.rs", "println!()", 1),
            ("tools/terminal/src/printer.rs", "println!()", 0),
            ("index/src/lib.rs", "unsafe { x }", 1),
            ("index/src/lib.rs", "unsafe_code", 0),
            ("simd/src/arch/x.rs", "unsafe { x }", 0),
            ("docs/a.md", "unsafe { x }", 0),
        ] {
            assert_eq!(complaints(file, line).len(), count, "{file}: {line}");
        }
    }
}

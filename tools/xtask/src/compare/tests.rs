//! A comparison in a repository of one small crate, whose benchmarks say how long they take.

use std::path::Path;
use std::process::Command;

use super::*;

const MANIFEST: &str = "[workspace]\nmembers = [\"bench\"]\nresolver = \"3\"\n";
const PACKAGE: &str =
    "[package]\nname = \"memfold-bench\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";

/// Leaves what criterion leaves.
const BENCH: &str = r#"
fn main() {
    let home = std::env::var("CRITERION_HOME").unwrap();
    let filter = std::env::args().skip(1).find(|word| !word.starts_with("--"));
    for (name, nanoseconds) in TIMES {
        if filter.as_ref().is_some_and(|filter| !name.contains(filter.as_str())) {
            continue;
        }
        let folder = std::path::Path::new(&home).join(name).join("new");
        std::fs::create_dir_all(&folder).unwrap();
        let id = format!("{{\"full_id\": \"group/{name}\"}}");
        std::fs::write(folder.join("benchmark.json"), id).unwrap();
        let median = format!("{{\"median\": {{\"point_estimate\": {nanoseconds}}}}}");
        std::fs::write(folder.join("estimates.json"), median).unwrap();
    }
}
"#;

/// Writes groups and what their benchmarks take.
fn write(root: &Path, groups: &[(&str, &[(&str, f64)])]) {
    let folder = root.join("bench/benches");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(root.join("Cargo.toml"), MANIFEST).unwrap();
    let mut package = PACKAGE.to_owned();
    for (group, times) in groups {
        package.push_str(&format!("[[bench]]\nname = \"{group}\"\nharness = false\n"));
        let code = format!("const TIMES: [(&str, f64); {}] = {times:?};\n{BENCH}", times.len());
        std::fs::write(folder.join(format!("{group}.rs")), code).unwrap();
    }
    package.push_str("[lib]\npath = \"benches/lib.rs\"\nbench = false\n");
    std::fs::write(folder.join("lib.rs"), "").unwrap();
    std::fs::write(root.join("bench/Cargo.toml"), package).unwrap();
    std::fs::write(root.join(".gitignore"), "/target\n").unwrap();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut lock = Command::new(cargo);
    lock.current_dir(root).args(["generate-lockfile", "--offline", "--quiet"]);
    assert!(lock.status().unwrap().success());
}

fn commit(root: &Path) {
    for words in [&["init", "--quiet"][..], &["add", "--all"], &["commit", "--quiet", "-m", "all"]]
    {
        let who = ["-c", "user.name=memfold", "-c", "user.email=memfold@localhost"];
        let mut git = Command::new("git");
        git.current_dir(root).args(who).args(["-c", "commit.gpgsign=false"]).args(words);
        assert!(git.status().unwrap().success(), "{words:?}");
    }
}

fn compare(root: &Path, line: &str) -> Result<Vec<(String, Verdict)>, String> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let judged = try_run(root, &words)?;
    Ok(judged.into_iter().map(|one| (one.name, one.verdict)).collect())
}

#[test]
fn both_trees_are_built_and_measured() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(root, &[("one", &[("still", 100.0), ("slow", 100.0)]), ("two", &[("fast", 100.0)])]);
    commit(root);
    let verdicts = |expected: &[(&str, Verdict)]| -> Vec<(String, Verdict)> {
        expected.iter().map(|(name, verdict)| (format!("group/{name}"), *verdict)).collect()
    };
    // A against A.
    let same = [("fast", Verdict::Same), ("slow", Verdict::Same), ("still", Verdict::Same)];
    assert_eq!(compare(root, "--rounds 2").unwrap(), verdicts(&same));
    write(
        root,
        &[
            ("one", &[("still", 101.0), ("slow", 150.0)]),
            ("two", &[("fast", 50.0)]),
            ("three", &[("made", 10.0)]),
        ],
    );
    let changed = [
        ("fast", Verdict::Faster),
        ("made", Verdict::New),
        ("slow", Verdict::Slower),
        ("still", Verdict::Same),
    ];
    assert_eq!(compare(root, "--rounds 2").unwrap(), verdicts(&changed));
    assert!(!run(root, &["--groups".to_owned(), "one".to_owned()]));
    assert!(run(root, &["--groups".to_owned(), "two".to_owned()]));
    let filtered = compare(root, "--groups one --filter still --rounds 2").unwrap();
    assert_eq!(filtered, verdicts(&[("still", Verdict::Same)]));
    // The baseline is what it was, however it is named; and the working tree is left alone.
    commit(root);
    assert_eq!(compare(root, "--baseline HEAD~1 --rounds 2").unwrap(), verdicts(&changed));
    for (line, reason) in [
        ("--baseline nowhere", "no commit is named nowhere"),
        ("--groups four", "no group four; there are one, two, three"),
        ("--filter nothing", "nothing was measured: no benchmark has such a name"),
    ] {
        assert_eq!(compare(root, line).unwrap_err(), reason);
    }
}

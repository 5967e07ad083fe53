//! Stored results: JSON Lines, each line with where and when it was measured; and the processes
//! that are asked for them.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

/// Reads the lines of a file; none where there is no file.
pub(crate) fn read(path: &Path) -> Result<Vec<Value>, String> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    parse(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Runs a command and returns what it printed; its stderr is that of the caller.
pub(crate) fn said(command: &mut Command) -> Result<String, String> {
    timed(command).map(|(_, said)| said)
}

/// Runs a command that prints one JSON document.
pub(crate) fn ask(command: &mut Command) -> Result<Value, String> {
    let said = serde_json::from_str(&said(command)?);
    said.map_err(|error| format!("what {} said: {error}", command.get_program().to_string_lossy()))
}

/// Runs a command and returns the seconds from its start to its end and what it printed.
#[expect(clippy::disallowed_methods, reason = "this is where whole processes are timed")]
pub(crate) fn timed(command: &mut Command) -> Result<(f64, String), String> {
    let start = Instant::now();
    let output = command.stderr(Stdio::inherit()).output();
    let seconds = start.elapsed().as_secs_f64();
    let program = command.get_program().to_string_lossy().into_owned();
    let output = output.map_err(|error| format!("cannot run {program}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{program} ended with {}", output.status));
    }
    Ok((seconds, String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// Parses JSON Lines.
pub(crate) fn parse(text: &str) -> Result<Vec<Value>, String> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| serde_json::from_str(line).map_err(|error| format!("{line}: {error}")))
        .collect()
}

/// Replaces the stored lines that have the same values under `keys` as a new one; the others stay,
/// in front.
pub(crate) fn renew(path: &Path, new: &[Value], keys: &[&str]) -> Result<(), String> {
    let lines = renewed(read(path)?, new, keys);
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn renewed(old: Vec<Value>, new: &[Value], keys: &[&str]) -> Vec<Value> {
    let same = |a: &Value, b: &Value| keys.iter().all(|key| a[*key] == b[*key]);
    let kept = old.into_iter().filter(|line| !new.iter().any(|new| same(line, new)));
    kept.chain(new.iter().cloned()).collect()
}

/// Adds when, where, by which version and by which command a line was measured.
pub(crate) fn sign(line: &mut Value, run: &str, command: &str) {
    line["run"] = run.into();
    line["command"] = command.into();
    line["machine"] = machine().into();
    line["version"] = env!("CARGO_PKG_VERSION").into();
}

/// Names a run by its begin, to the second, in UTC.
#[expect(clippy::disallowed_methods, reason = "a measurement says when it was made")]
pub(crate) fn run_name() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The words of a command as a person would type them.
pub(crate) fn typed(command: &str, arguments: &[String]) -> String {
    let words = ["cargo xtask", command].into_iter().chain(arguments.iter().map(String::as_str));
    words.collect::<Vec<_>>().join(" ")
}

/// Names the processor and the number of cores.
fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = info.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split(": ").nth(1)).unwrap_or("unknown").to_owned()
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let (name, family, model) = (field("model name"), field("cpu family"), field("model\t"));
    format!("{name} (family {family}, model {model}), {cores} cores")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_of_the_same_work_are_replaced() {
        let line = |data: &str, ef_search: u64, n: u64| json!({ "data": data, "ef_search": ef_search, "n": n });
        let old = vec![line("a", 1, 1), line("a", 2, 2), line("b", 1, 3)];
        let found = renewed(old.clone(), &[line("a", 1, 4)], &["data", "ef_search"]);
        assert_eq!(found, [line("a", 2, 2), line("b", 1, 3), line("a", 1, 4)]);
        assert_eq!(renewed(old, &[line("a", 9, 5)], &["data"]), [line("b", 1, 3), line("a", 9, 5)]);
    }

    #[test]
    fn a_line_says_how_to_get_it_again() {
        let mut line = json!({ "suite": "kill" });
        sign(&mut line, "2026", &typed("torture", &["--full".to_owned()]));
        assert_eq!(
            (&line["command"], &line["run"]),
            (&"cargo xtask torture --full".into(), &"2026".into())
        );
        assert!(line["machine"].is_string() && line["version"].is_string());
    }
}

//! Stored results: JSON Lines, each line with where and when it was measured.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::measure::machine;

/// Reads the lines of a file; none where there is no file.
pub(crate) fn read(path: &Path) -> Result<Vec<Value>, String> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    parse(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Runs a command and returns what it printed; it speaks to the terminal of the caller besides.
pub(crate) fn said(command: &mut Command) -> Result<String, String> {
    timed(command).map(|(_, said)| said)
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

/// Replaces the stored lines that have the same values under `keys` as a new one; the others stay, in front.
pub(crate) fn renew(path: &Path, new: &[Value], keys: &[&str]) -> Result<(), String> {
    let lines = renewed(read(path)?, new, keys);
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(path, text))
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn renewed(old: Vec<Value>, new: &[Value], keys: &[&str]) -> Vec<Value> {
    let same = |a: &Value, b: &Value| keys.iter().all(|key| a[*key] == b[*key]);
    let kept = old.into_iter().filter(|line| !new.iter().any(|new| same(line, new)));
    kept.chain(new.iter().cloned()).collect()
}

/// Adds where, when, by which version and by which command a line was measured.
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

#[cfg(test)]
mod tests {
    use super::{parse, renewed};
    use serde_json::json;

    #[test]
    fn lines_of_the_same_work_are_replaced() {
        let old = parse("{\"data\":\"a\",\"n\":1}\n\n{\"data\":\"b\",\"n\":1}\n").unwrap();
        let new = [json!({ "data": "a", "n": 2 })];
        let lines = renewed(old, &new, &["data"]);
        assert_eq!(lines, [json!({ "data": "b", "n": 1 }), json!({ "data": "a", "n": 2 })]);
    }

    #[test]
    fn a_broken_line_is_named() {
        assert!(parse("{\"a\":1}\n{\"b\"").unwrap_err().starts_with("{\"b\""));
    }
}

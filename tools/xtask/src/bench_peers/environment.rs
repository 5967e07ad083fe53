//! The Python environment of the rival engines, apart from the build.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::report;

/// The environment, its stamp within it, and what it is made from.
const FOLDER: &str = "target/peers";
const STAMP: &str = "installed.lock";
const LOCK: &str = "bench/peers/requirements.lock";

/// Makes the environment where it is missing or made from another lock file, and returns its Python.
///
/// A package that cannot be installed is named and left out; its engine then counts as not installed.
pub(crate) fn ready(root: &Path) -> Result<PathBuf, String> {
    let folder = root.join(FOLDER);
    let python = folder.join("bin/python");
    let lock = std::fs::read_to_string(root.join(LOCK)).map_err(|e| format!("{LOCK}: {e}"))?;
    if std::fs::read_to_string(folder.join(STAMP)).is_ok_and(|stamp| stamp == lock) {
        return Ok(python);
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(&folder)).map_err(|reason| {
        format!("no Python environment ({reason}); python3 with venv and pip is needed for the rivals alone")
    })?;
    let missing = install(&python, &root.join(LOCK), &lock, &folder)?;
    if missing.is_empty() {
        let stamped = std::fs::write(folder.join(STAMP), lock);
        stamped.map_err(|error| format!("{FOLDER}/{STAMP}: {error}"))?;
    } else {
        report::line(&format!("bench-peers: goes on without {}", missing.join(", ")));
    }
    Ok(python)
}

/// Installs everything at once or, where that fails, one package after the other; returns those that failed.
fn install(python: &Path, lock: &Path, text: &str, folder: &Path) -> Result<Vec<String>, String> {
    if pip(python, lock, &[]).is_ok() {
        return Ok(Vec::new());
    }
    let single = folder.join("single.lock");
    let mut missing = Vec::new();
    for entry in entries(text) {
        std::fs::write(&single, &entry).map_err(|error| error.to_string())?;
        if pip(python, &single, &["--no-deps"]).is_err() {
            missing.push(name(&entry).to_owned());
        }
    }
    Ok(missing)
}

fn pip(python: &Path, lock: &Path, more: &[&str]) -> Result<(), String> {
    let words = ["-m", "pip", "install", "--quiet", "--require-hashes"];
    run(Command::new(python).args(words).args(more).arg("--requirement").arg(lock))
}

fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| format!("{program}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{program} ended with {status}")) }
}

/// Splits a lock file into its packages, each with its hashes.
fn entries(lock: &str) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    for line in lock.lines().filter(|line| !line.trim_start().starts_with('#')) {
        match entries.last_mut() {
            Some(entry) if line.starts_with(' ') => {
                entry.push_str(line);
                entry.push('\n');
            }
            _ if line.trim().is_empty() => {}
            _ => entries.push(format!("{line}\n")),
        }
    }
    entries
}

fn name(entry: &str) -> &str {
    entry.split("==").next().unwrap_or(entry).trim()
}

#[cfg(test)]
mod tests {
    use super::{entries, name};

    #[test]
    fn packages_keep_their_hashes() {
        let lock = "# made by\na==1 \\\n    --hash=sha256:00 \\\n    --hash=sha256:01\n    # via b\n\nb==2 \\\n    --hash=sha256:02\n";
        let entries = entries(lock);
        let first = "a==1 \\\n    --hash=sha256:00 \\\n    --hash=sha256:01\n";
        assert_eq!(entries, [first, "b==2 \\\n    --hash=sha256:02\n"]);
        assert_eq!(name(&entries[1]), "b");
    }

    #[test]
    fn every_rival_is_locked() {
        let wanted = include_str!("../../../../bench/peers/requirements.in");
        let lock = include_str!("../../../../bench/peers/requirements.lock");
        let locked = entries(lock);
        for line in wanted.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let found = locked.iter().find(|entry| entry.split(" \\").next() == Some(line));
            let entry = found.unwrap_or_else(|| panic!("{line} is not locked"));
            assert!(entry.contains("--hash=sha256:"), "{line} has no hash");
        }
        assert!(!lock.contains("://"), "no hosts");
    }
}

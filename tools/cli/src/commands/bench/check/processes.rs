//! Whole processes: `memfold check`, and `memfold --version` beside each.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memfold_pipeline::quick_check::Incoming;
use serde_json::Value;

use crate::args::StorePlaceArgs;
use crate::failure::Failure;
use crate::resources::Stopwatch;

/// This program, and the store that it checks.
pub(super) struct Executable {
    path: PathBuf,
    store: StorePlaceArgs,
}

/// Microseconds of `--version` and of checks, in pairs, and how many checks looked through everything.
type Pairs = (Vec<f64>, Vec<f64>, usize);

impl Executable {
    pub(super) fn find(store: &StorePlaceArgs) -> Result<Self, Failure> {
        let path = std::env::current_exe()
            .map_err(|error| Failure::new("find this program", &error, None))?;
        Ok(Self { path, store: store.clone() })
    }

    /// This program with a command for the store.
    pub(super) fn command(&self, name: &str) -> Command {
        let mut command = Command::new(&self.path);
        command.arg(name).arg(&self.store.db).args(["--json", "--quiet"]);
        if let Some(folder) = &self.store.index_dir {
            command.arg("--index-dir").arg(folder);
        }
        command
    }

    pub(super) fn pairs(&self, sample: &[Incoming]) -> Result<Pairs, Failure> {
        let (mut version, mut whole, mut checked) = (Vec::new(), Vec::new(), 0);
        for incoming in sample {
            version.push(timed(Command::new(&self.path).arg("--version"))?.0);
            let (took, was_checked) = self.check(incoming)?;
            whole.push(took);
            checked += usize::from(was_checked);
        }
        Ok((version, whole, checked))
    }

    /// Checks one memory in a process of its own.
    pub(super) fn check(&self, incoming: &Incoming) -> Result<(f64, bool), Failure> {
        let vector = incoming.vector.as_deref().unwrap_or_default();
        let bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut command = self.command("check");
        command.arg("--text").arg(incoming.text.as_deref().unwrap_or_default());
        command.arg("--vector").arg(STANDARD.encode(bytes));
        let (took, said) = timed(&mut command)?;
        let said: Option<Value> = serde_json::from_slice(&said).ok();
        let checked = said.as_ref().and_then(|said| said["checked"].as_bool());
        let checked = checked.ok_or_else(|| {
            Failure::plain("`memfold check` did not answer", "run it by hand to see why")
        })?;
        Ok((took, checked))
    }
}

/// Runs a process and returns its microseconds and what it said.
fn timed(command: &mut Command) -> Result<(f64, Vec<u8>), Failure> {
    let stopwatch = Stopwatch::start();
    let output = command.stdin(Stdio::null()).output();
    let microseconds = stopwatch.seconds() * 1e6;
    let output = output.map_err(|error| Failure::new("start this program", &error, None))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Failure::plain(said, "run `memfold check` by hand to see why"));
    }
    Ok((microseconds, output.stdout))
}

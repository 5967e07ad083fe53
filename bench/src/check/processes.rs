//! The store that is measured, whole processes of `memfold` that check it, and others that save.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memfold::ops::{Settings, index_to_read, open_options};
use memfold::quick_check::Incoming;
use memfold_cli::{GlobalArgs, StorePlaceArgs};
use memfold_store::BrainDb;
use memfold_terminal::failure::Failure;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::Times;
use crate::common::timed;

/// A store and its index.
pub(super) struct Place {
    args: StorePlaceArgs,
    index: PathBuf,
    _copy: Option<TempDir>,
}

impl Place {
    /// Takes the user's own store, or a copy beside it that is gone afterwards.
    pub(super) fn of(
        args: &StorePlaceArgs,
        settings: &Settings,
        is_written: bool,
    ) -> Result<Self, Failure> {
        let index = index_to_read(&args.db, args.index_dir.as_deref())?;
        if !is_written {
            return Ok(Self { args: args.clone(), index, _copy: None });
        }
        let failed = |error: &(dyn std::error::Error + 'static)| {
            let hint = "the store is copied so that writers may write; name a place with TMPDIR";
            Failure::new("copy the store", error, Some(hint.to_owned()))
        };
        let folder = tempfile::tempdir().map_err(|error| failed(&error))?;
        let copy = folder.path().join("brain.db");
        let store = BrainDb::at(&args.db, open_options(settings));
        store.copy_to(&copy).map_err(|error| failed(&error))?;
        let copied_index = folder.path().join("brain.db.memfold");
        if index.is_dir() {
            link_all(&index, &copied_index).map_err(|error| failed(&error))?;
        }
        let args = StorePlaceArgs { db: copy.into(), index_dir: Some(copied_index.clone()) };
        Ok(Self { args, index: copied_index, _copy: Some(folder) })
    }

    pub(super) const fn args(&self) -> &StorePlaceArgs {
        &self.args
    }

    /// All files that a check may read.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let mut files = vec![self.args.db.to_path_buf()];
        let mut folders = vec![self.index.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() { folders.push(path) } else { files.push(path) }
            }
        }
        files
    }
}

/// Puts the files of a folder into another one; they never change, so links do where they can be made.
fn link_all(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let Some(name) = path.file_name() else { continue };
        let target = to.join(name);
        if path.is_dir() {
            link_all(&path, &target)?;
        } else if name != "MANIFEST" && fs::hard_link(&path, &target).is_ok() {
        } else {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

/// `memfold`, and the store that it checks.
pub(super) struct Executable {
    path: PathBuf,
    store: StorePlaceArgs,
    /// `--config` and `--set`, which count for whole processes as they do in this one.
    configuration: Vec<OsString>,
}

impl Executable {
    /// Takes the program that is named, or the `memfold` beside this one.
    pub(super) fn find(
        global: &GlobalArgs,
        given: Option<&Path>,
        store: &StorePlaceArgs,
    ) -> Result<Self, Failure> {
        let path = match given {
            Some(path) => path.to_owned(),
            None => std::env::current_exe()
                .map_err(|error| Failure::new("find this program", &error, None))?
                .with_file_name(format!("memfold{}", std::env::consts::EXE_SUFFIX)),
        };
        if !path.is_file() {
            let hint = "build it with cargo build --release, or name another with --memfold";
            return Err(Failure::plain(format!("there is no {}", path.display()), hint));
        }
        let config = global.sources.config.iter().flat_map(|file| ["--config".into(), file.into()]);
        let set = global.sources.set.iter().flat_map(|key| ["--set".into(), key.into()]);
        Ok(Self { path, store: store.clone(), configuration: config.chain(set).collect() })
    }

    /// `memfold` with a command for the store.
    pub(super) fn command(&self, name: &str) -> Command {
        let mut command = Command::new(&self.path);
        command.arg(name).args(["--json", "--quiet"]);
        self.configure(&mut command);
        if let Some(folder) = &self.store.index_dir {
            command.arg("--index-dir").arg(folder);
        }
        command
    }

    /// Names the store and the configuration.
    pub(super) fn configure(&self, command: &mut Command) {
        command.arg(&self.store.db).args(&self.configuration);
    }

    /// Checks each memory, and starts a process that does nothing before each; returns the times of checks, of
    /// these processes, and the differences.
    pub(super) fn pairs(&self, sample: &[Incoming]) -> Result<[Times; 3], Failure> {
        let mut version = Times::default();
        let whole = Times::of(sample, |incoming| {
            version.push(run(Command::new(&self.path).arg("--version"))?.0, true);
            self.check(incoming)
        })?;
        let both = whole.microseconds.iter().zip(&version.microseconds);
        let microseconds = both.map(|(whole, version)| whole - version).collect();
        let beyond = Times { microseconds, checked: whole.checked };
        Ok([whole, version, beyond])
    }

    /// Checks one memory in a process of its own.
    pub(super) fn check(&self, incoming: &Incoming) -> Result<(f64, bool), Failure> {
        let vector = incoming.vector.as_deref().unwrap_or_default();
        let bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut command = self.command("check");
        command.arg("--text").arg(incoming.text.as_deref().unwrap_or_default());
        command.arg("--vector").arg(STANDARD.encode(bytes));
        let (took, said) = run(&mut command)?;
        let said: Option<Value> = serde_json::from_slice(&said).ok();
        let checked = said.as_ref().and_then(|said| said["checked"].as_bool());
        let checked = checked.ok_or_else(|| {
            Failure::plain("`memfold check` did not answer", "run it by hand to see why")
        })?;
        Ok((took, checked))
    }
}

/// Runs a process and returns its microseconds and its output.
fn run(command: &mut Command) -> Result<(f64, Vec<u8>), Failure> {
    let (output, microseconds) = timed(|| command.stdin(Stdio::null()).output());
    let output = output.map_err(|error| Failure::new("start memfold", &error, None))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Failure::plain(said, "run `memfold check` by hand to see why"));
    }
    Ok((microseconds, output.stdout))
}

/// Time between two polls of a process.
const PAUSE: Duration = Duration::from_millis(5);

/// Writers at work.
pub(super) struct Writers {
    stop: Arc<AtomicBool>,
    saved: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Writers {
    /// Starts writers, each a process of its own that saves `rate` memories a second.
    pub(super) fn start(count: usize, rate: f64, program: &Executable) -> Result<Self, Failure> {
        let (stop, saved) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut threads = Vec::new();
        for writer in 0..count {
            let mut child = program
                .command("save")
                .args(["--jsonl", "-"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .map_err(|error| Failure::new("start a writer", &error, None))?;
            let (stop, saved) = (Arc::clone(&stop), Arc::clone(&saved));
            let pause = Duration::from_secs_f64(1.0 / rate);
            threads.push(std::thread::spawn(move || {
                let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take())
                else {
                    return;
                };
                let mut answers = BufReader::new(output).lines();
                for number in 0_u64.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let text = format!("Writer {writer} notes event {number} of its own.");
                    let line = json!({ "text": text, "source": "bench" });
                    if writeln!(input, "{line}").is_err() || answers.next().is_none() {
                        break;
                    }
                    saved.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(pause.max(PAUSE));
                }
                // The end of its input ends it; a writer that fails shows in how much it saved.
                drop(input);
                let _ended = child.wait();
            }));
        }
        Ok(Self { stop, saved, threads })
    }

    /// Ends them and returns how many memories they saved.
    pub(super) fn stop(self) -> Result<u64, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        let count = self.threads.len();
        for thread in self.threads {
            thread.join().map_err(|_| Failure::plain("a writer failed", "run it again"))?;
        }
        match self.saved.load(Ordering::Relaxed) {
            0 if count > 0 => Err(Failure::plain(
                "the writers saved nothing",
                "run `memfold save DB --jsonl -` by hand to see why",
            )),
            saved => Ok(saved),
        }
    }
}

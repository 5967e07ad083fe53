//! [`Shim`]: the library that makes a process's writes fail.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Serialize;
use tempfile::TempDir;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/faults/shim.c");

/// The compiled library.
#[derive(Debug)]
pub struct Shim {
    folder: TempDir,
}

/// The fault in place of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum FaultKind {
    /// The disk is full.
    #[serde(rename = "ENOSPC")]
    NoSpace,
    /// The disk is broken.
    #[serde(rename = "EIO")]
    Io,
    /// Somebody else holds the lock.
    #[serde(rename = "BUSY")]
    Busy,
    /// The process is killed.
    #[serde(rename = "SIGKILL")]
    Kill,
}

/// Which calls are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    /// Calls that write.
    Writes,
    /// Calls that request a lock.
    Locks,
}

/// Which call fails and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The fault.
    pub kind: FaultKind,
    /// The call, from 1.
    pub at: u64,
    /// Whether every later one fails as well.
    pub is_sticky: bool,
}

impl FaultKind {
    /// Returns the calls that fail in this way.
    #[must_use]
    pub const fn calls(self) -> Calls {
        match self {
            Self::Busy => Calls::Locks,
            Self::NoSpace | Self::Io | Self::Kill => Calls::Writes,
        }
    }

    const fn variable(self) -> &'static str {
        match self {
            Self::NoSpace => "ENOSPC",
            Self::Io => "EIO",
            Self::Busy => "EAGAIN",
            Self::Kill => "KILL",
        }
    }
}

impl Shim {
    /// Compiles the library with `$CC` or `cc`; `None` on other systems than Linux and without a compiler.
    ///
    /// # Panics
    /// When the compiler refuses the source.
    #[must_use]
    pub fn build() -> Option<Self> {
        if !cfg!(target_os = "linux") {
            return None;
        }
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let folder = tempfile::tempdir().expect("the temporary folder is writable");
        let mut command = Command::new(compiler);
        command.args(["-shared", "-fPIC", "-O2", "-o"]).arg(folder.path().join("shim.so"));
        let output = command.arg(SOURCE).arg("-ldl").stdin(Stdio::null()).output().ok()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(Self { folder })
    }

    /// Counts calls on files with `part` in their path; the number is in the returned file.
    pub fn count(&self, command: &mut Command, part: &Path, calls: Calls) -> PathBuf {
        let counter = self.folder.path().join("count");
        self.preload(command, part, calls).env("FAULT_COUNT_FILE", &counter);
        counter
    }

    /// Makes a call on a file with `part` in its path fail.
    pub fn inject(&self, command: &mut Command, part: &Path, fault: Fault) {
        self.preload(command, part, fault.kind.calls())
            .env("FAULT_AT", fault.at.to_string())
            .env("FAULT_ERRNO", fault.kind.variable())
            .env("FAULT_STICKY", if fault.is_sticky { "1" } else { "0" });
    }

    fn preload<'c>(&self, command: &'c mut Command, part: &Path, calls: Calls) -> &'c mut Command {
        command
            .env("LD_PRELOAD", self.folder.path().join("shim.so"))
            .env("FAULT_PATH", part)
            .env("FAULT_CALLS", if calls == Calls::Locks { "locks" } else { "writes" })
    }
}

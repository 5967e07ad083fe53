//! Files that are put out of memory before something is measured.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Asks the system to forget what it keeps of files; `false` where `dd` cannot do that.
pub(super) fn put_out(files: &[PathBuf]) -> bool {
    files.iter().all(|file| {
        let mut input = std::ffi::OsString::from("if=");
        input.push(file);
        let mut dd = Command::new("dd");
        dd.arg(input).args(["iflag=nocache", "count=0", "status=none"]).stderr(Stdio::null());
        dd.status().is_ok_and(|status| status.success())
    })
}

//! [`Session`]: what a measurement works with, and where its lines go.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::data;
use crate::{figures, report, results};

/// One measurement under way.
pub(super) struct Session<'a> {
    pub(super) root: &'a Path,
    pub(super) memfold: PathBuf,
    pub(super) bench: PathBuf,
    /// With the largest sizes.
    pub(super) full: bool,
    /// How often each process is timed, where not as often as usual.
    pub(super) runs: Option<usize>,
    pub(super) began: String,
    pub(super) command: String,
    /// The file of results.
    pub(super) results: &'a str,
    /// What makes two lines the same work.
    pub(super) keys: &'a [&'a str],
}

impl Session<'_> {
    /// A command of `memfold`.
    pub(super) fn memfold(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.memfold);
        command.args(words);
        command
    }

    /// A command of `memfold-bench`, whose copies and exports stay on the disk of the stores.
    pub(super) fn bench(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.bench);
        command.args(words).env("TMPDIR", self.root.join(data::FOLDER));
        command
    }

    /// Signs, stores and shows lines.
    pub(super) fn keep(&self, mut lines: Vec<Value>) -> Result<(), String> {
        for line in &mut lines {
            results::sign(line, &self.began, &self.command);
        }
        report::line(&figures::shown(self.results, &lines));
        results::renew(&self.root.join(self.results), &lines, self.keys)
    }
}

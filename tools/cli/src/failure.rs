//! [`Failure`]: an error with its exit code and a hint. [`Exit`]: the exit codes that scripts rely on.

use std::error::Error;
use std::io;
use std::process::ExitCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything was done.
    Done = 0,
    /// Something failed; nothing is half done.
    Failure = 1,
    /// The command line is wrong.
    Usage = 2,
    /// There are changes to make (only with `--exit-code`).
    ChangesPending = 3,
    /// Some units were skipped or rolled back.
    Partial = 4,
    /// Another run holds the store.
    Locked = 5,
    /// The user interrupted.
    Interrupted = 130,
}

impl From<Exit> for u8 {
    fn from(exit: Exit) -> Self {
        exit as Self
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command failed, as it is shown.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What failed, and why: fragments that follow "error: ".
    pub message: String,
    /// What the user can do.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure to do `what`, because of `error` and its causes. Without a hint there is what helps against what the system
    /// said, if that is among them.
    pub fn new(what: &str, error: &(dyn Error + 'static), hint: Option<String>) -> Self {
        let text = error.to_string();
        // Some errors begin with the file that `what` ends with.
        let is_told = |first| what.strip_suffix(first).is_some_and(|before| before.ends_with(' '));
        let told = text.split_once(": ").filter(|(first, _)| is_told(*first));
        let mut message = format!("failed to {what}: {}", told.map_or(&*text, |(_, rest)| rest));
        let hint = hint.or_else(|| advice(error).map(str::to_owned));
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            // Some errors repeat their cause in their own words.
            if !message.contains(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            cause = error.source();
        }
        Self { exit: Exit::Failure, message, hint }
    }

    /// A failure in its own words.
    pub fn plain(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { exit: Exit::Failure, message: message.into(), hint: Some(hint.into()) }
    }

    /// A wrong command line.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into(), hint: Some(hint.into()) }
    }

    /// What was asked for must not be done as things are.
    pub fn refused(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { exit: Exit::Failure, message: message.into(), hint: Some(hint.into()) }
    }

    /// The user interrupted; nothing was written.
    pub fn interrupted() -> Self {
        let message = "interrupted; nothing was written".to_owned();
        Self { exit: Exit::Interrupted, message, hint: None }
    }
}

/// Returns what helps against the first thing that the system said, if anything does.
fn advice(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    match causes.find_map(|error| error.downcast_ref::<io::Error>())?.kind() {
        io::ErrorKind::NotFound => Some("check the path"),
        io::ErrorKind::IsADirectory => Some("name a file, not a folder"),
        io::ErrorKind::PermissionDenied => Some("check who may read and write there"),
        io::ErrorKind::StorageFull => Some("free some space, or choose another folder"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use memfold_datasets::VectorFile;

    use super::*;

    #[test]
    fn the_file_is_named_once_and_the_system_answered() {
        let missing = io::Error::from_raw_os_error(2);
        let unread = VectorFile::open(Path::new("no such.npy")).unwrap_err();
        let Failure { message, hint, .. } = Failure::new("convert no such.npy", &unread, None);
        assert_eq!(message, format!("failed to convert no such.npy: {missing}"));
        assert_eq!(hint.as_deref(), Some("check the path"));
        let Failure { message, hint, .. } =
            Failure::new("read the vectors", &unread, Some("look".to_owned()));
        assert_eq!(message, format!("failed to read the vectors: no such.npy: {missing}"));
        assert_eq!(hint.as_deref(), Some("look"));
        let odd = Failure::new("read x", &io::Error::other("odd"), None);
        assert_eq!((&*odd.message, odd.hint), ("failed to read x: odd", None));
    }
}

//! [`Failure`]: an error with its exit code and what the user can do.

use std::error::Error;

use crate::exit::Exit;

/// Why a command failed, as it is shown.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) exit: Exit,
    /// What failed, and why: fragments that follow "error: ".
    pub(crate) message: String,
    /// What the user can do.
    pub(crate) hint: Option<String>,
}

impl Failure {
    /// A failure to do `what`, because of `error` and its causes.
    pub(crate) fn new(what: &str, error: &dyn Error, hint: Option<String>) -> Self {
        let mut message = format!("failed to {what}: {error}");
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
    pub(crate) fn plain(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { exit: Exit::Failure, message: message.into(), hint: Some(hint.into()) }
    }

    /// A wrong command line.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into(), hint: Some(hint.into()) }
    }

    /// What was asked for must not be done as things are.
    pub(crate) fn refused(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { exit: Exit::Failure, message: message.into(), hint: Some(hint.into()) }
    }

    /// The user interrupted; nothing was written.
    pub(crate) fn interrupted() -> Self {
        let message = "interrupted; nothing was written".to_owned();
        Self { exit: Exit::Interrupted, message, hint: None }
    }
}

//! [`ConfigError`]: what is wrong with a configuration, and where.

use std::io;
use std::path::PathBuf;

use super::document::{Source, shown};

/// Why a configuration does not hold. Every message says what, where, what was expected and what
/// was found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("configuration file {} cannot be read: {cause}", shown(&path.to_string_lossy()))]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// A path leads to something else than a file.
    #[error("configuration file {} is {found}", shown(&path.to_string_lossy()))]
    NotAFile {
        /// Which path.
        path: PathBuf,
        /// What is there.
        found: &'static str,
    },
    /// A file is too large to be a configuration.
    #[error("configuration file {} is larger than {bytes_max} bytes", shown(&path.to_string_lossy()))]
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// How large it may be.
        bytes_max: u64,
    },
    /// A file is no UTF-8 text.
    #[error("configuration file {} is not UTF-8 text", shown(&path.to_string_lossy()))]
    NotText {
        /// Which file.
        path: PathBuf,
    },
    /// Two files stand where one should.
    #[error(
        "two configurations stand in one folder: {} and {}",
        shown(&first.to_string_lossy()), shown(&second.to_string_lossy())
    )]
    TwoFiles {
        /// The one.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// A text is neither YAML nor JSON.
    #[error("{place}: {problem}")]
    Syntax {
        /// Where.
        place: Source,
        /// What the parser says.
        problem: Box<str>,
        /// What helps.
        advice: Option<&'static str>,
    },
    /// A file's top level is no mapping.
    #[error("{place}: expected keys and values, found {found}")]
    NotAMapping {
        /// Where.
        place: Source,
        /// What is there.
        found: Box<str>,
    },
    /// A key that does not exist.
    #[error("{place}: unknown key `{}`", shown(key))]
    UnknownKey {
        /// The key's path as typed.
        key: Box<str>,
        /// Where.
        place: Source,
        /// The key that was probably meant.
        suggestion: Option<Box<str>>,
        /// What takes its place, of a key that earlier versions or other systems have.
        successor: Option<&'static str>,
    },
    /// A key in two spellings, or set twice.
    #[error("{place}: key `{}` is given twice", shown(key))]
    RepeatedKey {
        /// The key's path.
        key: Box<str>,
        /// Where the second stands.
        place: Source,
    },
    /// A value of another type, or outside its range.
    #[error("{place}: `{}` expects {expected}, found {found}", shown(key))]
    WrongValue {
        /// The key's path.
        key: Box<str>,
        /// Where.
        place: Source,
        /// What is expected.
        expected: Box<str>,
        /// What was found.
        found: Box<str>,
        /// What helps.
        advice: Option<Box<str>>,
    },
    /// A rule without a name.
    #[error("{place}: a rule has no `id`")]
    RuleWithoutId {
        /// Where.
        place: Source,
    },
    /// A rule's name that cannot stand in a key.
    #[error(
        "{place}: rule id \"{}\" has other characters than letters, digits, `-` and `_`",
        shown(id)
    )]
    BadRuleId {
        /// The id.
        id: Box<str>,
        /// Where.
        place: Source,
    },
    /// Two rules of one name in one layer.
    #[error("{place}: rule {id} is given twice")]
    RepeatedRule {
        /// The id.
        id: Box<str>,
        /// Where the second stands.
        place: Source,
    },
    /// A new rule lacks what a rule needs.
    #[error("{place}: rule {id} has no `{missing}`")]
    IncompleteRule {
        /// The id.
        id: Box<str>,
        /// The key that lacks.
        missing: &'static str,
        /// Where.
        place: Source,
        /// An existing rule that was probably meant.
        suggestion: Option<Box<str>>,
    },
    /// A setting that the rule's action does not have.
    #[error("{place}: rule {id} sets `{param}`, which is no setting of the action {action}")]
    ForeignParam {
        /// The id.
        id: Box<str>,
        /// The setting.
        param: &'static str,
        /// The action.
        action: &'static str,
        /// Where.
        place: Source,
    },
    /// An action that the trigger cannot run.
    #[error("{place}: rule {id} has the action {action}, which the trigger {trigger} cannot run")]
    ForeignTrigger {
        /// The id.
        id: Box<str>,
        /// The action.
        action: &'static str,
        /// The trigger.
        trigger: &'static str,
        /// Where.
        place: Source,
    },
    /// A lower bound above its upper bound.
    #[error("{place}: `{low_key}` is {low}, above `{high_key}`, which is {high}")]
    EmptyRange {
        /// The lower bound's key.
        low_key: Box<str>,
        /// Its value.
        low: Box<str>,
        /// The upper bound's key.
        high_key: Box<str>,
        /// Its value.
        high: Box<str>,
        /// Where.
        place: Source,
    },
    /// `threshold` and the value that it is short for, both in one layer.
    #[error("{place}: `threshold` and `{key}` are both given and say the same thing")]
    ThresholdTwice {
        /// What `threshold` stands for.
        key: Box<str>,
        /// Where `threshold` stands.
        place: Source,
    },
    /// A time zone that does not exist.
    #[error("{place}: unknown time zone \"{}\"", shown(zone))]
    UnknownZone {
        /// The zone as typed.
        zone: Box<str>,
        /// Where.
        place: Source,
    },
    /// The machine does not say in which zone its clock is.
    #[error("the time zone of this machine is not known: {}", shown(problem))]
    MachineZone {
        /// Why.
        problem: Box<str>,
    },
    /// A file beside a store that others may have written.
    #[error("configuration file {} {reason}", shown(&path.to_string_lossy()))]
    NotOwn {
        /// Which file.
        path: PathBuf,
        /// What it is.
        reason: Box<str>,
    },
    /// `--set` without a value.
    #[error("--set {}: expected KEY=VALUE", shown(text))]
    SetWithoutValue {
        /// What was typed.
        text: Box<str>,
    },
}

impl ConfigError {
    /// Returns what the user may do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Unreadable { cause, .. } if cause.kind() == io::ErrorKind::NotFound => {
                "check the path; relative paths in a file count from that file's folder"
            }
            Self::Unreadable { .. } => "check the path and its permissions",
            Self::NotAFile { found: "a pipe", .. } => {
                "write its contents to a file and name that; `<(...)` makes a pipe as well"
            }
            Self::NotAFile { .. } => "name a regular file, or a link to one",
            Self::TooLarge { .. } => "check that the path is that of a configuration",
            Self::NotText { .. } => "save the file as UTF-8",
            Self::TwoFiles { .. } => "remove one of them",
            Self::Syntax { advice, .. } => return advice.map(String::from),
            Self::NotAMapping { .. } => "write `key: value` lines, such as `threshold: 0.95`",
            Self::UnknownKey { successor: Some(successor), .. } => successor,
            Self::UnknownKey { suggestion: Some(key), .. } => {
                return Some(format!("did you mean `{key}`?"));
            }
            Self::UnknownKey { .. } => "`memfold config schema` lists every key",
            Self::RepeatedKey { .. } => "keep one; camelCase and snake_case are the same key",
            Self::WrongValue { advice, .. } => return advice.as_deref().map(String::from),
            Self::RuleWithoutId { .. } => "give every rule an `id`; it names the rule in reports",
            Self::BadRuleId { .. } => "write an id such as R6-keep-apart",
            Self::RepeatedRule { .. } => "join the two, or give one another id",
            Self::IncompleteRule { suggestion: Some(id), .. } => {
                return Some(format!("did you mean the rule {id}?"));
            }
            Self::IncompleteRule { .. } => {
                "a new rule needs `id`, `trigger` and `then: { action: … }`; a merge also `when: { min_similarity: … }`"
            }
            Self::ForeignParam { .. } => "merge alone has canonical and absorbed",
            Self::ForeignTrigger { .. } => {
                "flag_contradiction goes with on_contradiction, where noop may stand too; every other action goes with any other trigger"
            }
            Self::EmptyRange { .. } => "nothing can lie between them; raise one or lower the other",
            Self::ThresholdTwice { .. } => "keep one of them",
            Self::UnknownZone { .. } => {
                "write an IANA name such as Europe/Berlin, or an offset such as +02:00"
            }
            Self::MachineZone { .. } => {
                "name the zone of the times in the store: --set time_zone=Europe/Berlin, or in a configuration; or mend the variable TZ"
            }
            Self::NotOwn { .. } => {
                "whoever can write it decides what runs here do: make it yours alone (chown, chmod go-w), or move it away and name it with --config"
            }
            Self::SetWithoutValue { .. } => "for example: --set threshold=0.95",
        };
        Some(text.to_owned())
    }

    /// Translates a parser's error; `place` makes a source of a line.
    pub(super) fn syntax(error: &serde_saphyr::Error, place: &impl Fn(u64) -> Source) -> Self {
        use serde_saphyr::Error;
        let line = error.location().map_or(0, |location| location.line());
        let (problem, advice) = match error.without_snippet() {
            Error::MultipleDocuments { .. } => {
                ("more than one YAML document".to_owned(), Some("keep one document per file"))
            }
            Error::DuplicateMappingKey { key, .. } => (
                format!("key `{}` is given twice", shown(key.as_deref().unwrap_or("?"))),
                Some("keep one of them"),
            ),
            Error::NonFiniteFloat { value, .. } => (
                format!("`{}` is not a finite number", shown(value)),
                Some("write a number such as 0.95"),
            ),
            Error::Budget { .. }
            | Error::AliasReplayLimitExceeded { .. }
            | Error::AliasExpansionLimitExceeded { .. }
            | Error::AliasReplayStackDepthExceeded { .. }
            | Error::AliasError { .. } => (
                format!("too much for a configuration: {}", without_place(&error.to_string())),
                Some("write values out instead of nesting or repeating them by `&` and `*`"),
            ),
            other => {
                let message = without_place(&other.to_string());
                let tabs = message.contains("tab").then_some("indent with spaces");
                (message, tabs.or(Some("texts with `:`, `#`, `*` or `&` need quotes")))
            }
        };
        Self::Syntax { place: place(line), problem: problem.into(), advice }
    }
}

/// Drops the parser's own place, which the message's beginning tells already.
fn without_place(message: &str) -> String {
    let end = message.find(" at line ").unwrap_or(message.len());
    shown(&message[..end])
}

//! [`Finding`]: one thing that is as it should be, or is not.

use serde::Serialize;

use super::facts::Found;
use memfold_plan::report::shell_word;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// As it should be.
    Ok,
    /// Worth knowing.
    Info,
    /// Something works less well than it could, or soon will.
    Warning,
    /// Memories are lost or cannot be read.
    Critical,
}

impl Severity {
    /// Returns the name that JSON uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// One thing that is as it should be, or is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Which kind of finding, for programs.
    pub code: &'static str,
    /// What was found, in one sentence. It holds nothing of the store's texts.
    pub what: String,
    /// How many cases there are, where cases can be counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The first cases, as the store spells them: escape them where they are shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// What mends it, step by step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mend: Vec<Mend>,
}

/// A step that mends something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "text", rename_all = "snake_case")]
pub enum Mend {
    /// A line for a POSIX shell.
    Command(String),
    /// A statement to run on the store.
    Sql(String),
    /// Words.
    Advice(String),
}

impl Finding {
    /// Makes a finding without cases and without a way to mend it.
    pub(super) fn new(severity: Severity, code: &'static str, what: impl Into<String>) -> Self {
        let what = what.into();
        Self { severity, code, what, count: None, examples: Vec::new(), mend: Vec::new() }
    }

    pub(super) fn count(mut self, count: u64) -> Self {
        self.count = Some(count);
        self
    }

    pub(super) fn cases(mut self, found: &Found) -> Self {
        self.examples.clone_from(&found.examples);
        self.count(found.count)
    }

    pub(super) fn advice(mut self, text: impl Into<String>) -> Self {
        self.mend.push(Mend::Advice(text.into()));
        self
    }

    pub(super) fn sql(mut self, text: impl Into<String>) -> Self {
        self.mend.push(Mend::Sql(text.into()));
        self
    }

    pub(super) fn command(mut self, words: &[&str]) -> Self {
        let words: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
        self.mend.push(Mend::Command(words.join(" ")));
        self
    }

    /// Adds a line that is more than one command.
    pub(super) fn shell(mut self, line: String) -> Self {
        self.mend.push(Mend::Command(line));
        self
    }
}

/// Returns a count with its noun: `1 memory`, `1,204 memories`.
pub(super) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", memfold_plan::report::grouped(count), if count == 1 { one } else { many })
}

/// Returns ids as a list of SQL literals.
pub(super) fn sql_list(ids: &[String]) -> String {
    ids.iter().map(|id| sql_text(id)).collect::<Vec<_>>().join(", ")
}

/// Returns a text as an SQL literal of one line without anything invisible.
pub(super) fn sql_text(text: &str) -> String {
    if text.chars().any(memfold_model::text::is_deceptive) {
        let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        return format!("CAST(x'{hex}' AS TEXT)");
    }
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_hold_any_id() {
        assert_eq!(sql_list(&["a".to_owned(), "it's".to_owned()]), "'a', 'it''s'");
        assert_eq!(sql_text("a\u{1b}"), "CAST(x'611b' AS TEXT)");
    }
}

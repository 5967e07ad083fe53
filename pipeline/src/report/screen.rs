//! The few lines a run ends with.

use super::{Mode, Report};

/// The commands that a screen names, as arguments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Commands {
    /// What to run next.
    pub next: Vec<String>,
    /// What takes it back.
    pub undo: Vec<String>,
}

impl Commands {
    /// Returns the commands for a store: execute exactly this plan, and undo. `RUN` stands for the id
    /// that the executing run will print.
    #[must_use]
    pub fn of(store: &str, report: &Report) -> Self {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        let run = if report.mode == Mode::Execute { &report.run_id } else { "RUN" };
        let next = match report.mode {
            Mode::DryRun => words(&[
                "memfold",
                "consolidate",
                store,
                "--execute",
                "--expect",
                &report.plan_digest,
            ]),
            Mode::Execute if report.planned.flag_contradiction > 0 => {
                words(&["memfold", "flags", store])
            }
            Mode::Execute => Vec::new(),
        };
        Self { next, undo: words(&["memfold", "undo", store, run, "--execute"]) }
    }

    /// Returns the command after a plan was saved: review it.
    #[must_use]
    pub fn review(store: &str, plan_id: &str) -> Self {
        let next = ["memfold", "review", store, plan_id];
        Self { next: next.map(str::to_owned).to_vec(), undo: Vec::new() }
    }

    /// Returns the commands after a review: apply what was approved, and undo. `RUN` stands for the id
    /// that the applying run will print.
    #[must_use]
    pub fn apply(store: &str, plan_id: &str) -> Self {
        let next = ["memfold", "apply", store, plan_id, "--execute"];
        let undo = ["memfold", "undo", store, "RUN", "--execute"];
        let words = |words: [&str; 5]| words.map(str::to_owned).to_vec();
        Self { next: words(next), undo: words(undo) }
    }

    /// Returns the lines that a screen ends with, for a POSIX shell, each at most 80 columns wide
    /// unless one word is wider.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let commands = [("next: ", &self.next), ("undo: ", &self.undo)];
        let named = commands.into_iter().filter(|(_, command)| !command.is_empty());
        named.flat_map(|(label, command)| command_lines(label, command)).collect()
    }
}

/// Returns words as a POSIX shell reads them back.
#[must_use]
pub fn shell_words(words: &[&str]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// Lines are at most so wide, unless one word is wider.
const COLUMNS: usize = 80;

/// Returns the lines a run ends with, each at most 80 columns wide unless one word is wider.
#[must_use]
pub fn screen(report: &Report, commands: &Commands) -> String {
    let mut lines = wrap(&counts(report), " · ", "", "  ");
    let tokens = report.stats.tokens_saved;
    if tokens > 0 {
        let tokens = grouped(tokens);
        lines.push(format!("about {tokens} tokens saved for whoever reads all live memories"));
    }
    let recall = &report.detected.pair_recall;
    let plural = if report.detected.pairs == 1 { "" } else { "s" };
    let found = format!("{} near pair{plural}", grouped(report.detected.pairs));
    lines.push(match recall.kind {
        super::RecallKind::Exact => format!("{found}, all of them (exact join)"),
        super::RecallKind::Sampled => {
            format!("{found}, recall {} by an audited sample", recall.estimate(3))
        }
    });
    let planned = &report.planned;
    if planned.merge + planned.promote + planned.archive + planned.flag_contradiction == 0 {
        lines.push("nothing to do".to_owned());
    } else {
        lines.extend(commands.lines());
    }
    lines.join("\n") + "\n"
}

/// `1,783 live → 1,331`, and what makes the difference.
fn counts(report: &Report) -> Vec<String> {
    let stats = &report.stats;
    let mut counts = vec![
        format!("{} live → {}", grouped(report.loaded.live), grouped(stats.live_after)),
        format!("{} identical", grouped(stats.absorbed.identical)),
        format!("{} trivial", grouped(stats.absorbed.trivial)),
        format!("{} reworded", grouped(stats.absorbed.reworded)),
    ];
    for (count, name) in
        [(report.planned.archive, "archived"), (report.planned.promote, "promoted")]
    {
        if count > 0 {
            counts.push(format!("{} {name}", grouped(count)));
        }
    }
    // What `memfold flags` lists once the plan is carried out.
    let conflicts = report.planned.flag_contradiction + report.detected.flags_open;
    let plural = if conflicts == 1 { "" } else { "s" };
    counts.push(format!("{} conflict{plural} kept apart", grouped(conflicts)));
    counts.push(format!("{} protected", grouped(report.protected.total)));
    counts
}

/// A command for a POSIX shell; lines that are continued end in a backslash.
fn command_lines(label: &str, command: &[String]) -> Vec<String> {
    let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
    let mut lines: Vec<String> = Vec::new();
    let mut line = label.to_owned();
    for (position, word) in words.iter().enumerate() {
        let reserve = if position + 1 < words.len() { " \\".len() } else { 0 };
        let is_start = line.ends_with(' ');
        if !is_start && line.chars().count() + 1 + word.chars().count() + reserve > COLUMNS {
            lines.push(line + " \\");
            line = format!("    {word}");
        } else {
            if !is_start {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.push(line);
    lines
}

/// A word that a POSIX shell reads back; control characters are shown as escapes.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:@%+,=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    if word.chars().any(char::is_control) {
        let escaped: String = word
            .chars()
            .map(|c| match c {
                '\'' | '\\' => format!("\\{c}"),
                c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
                c => c.to_string(),
            })
            .collect();
        return format!("$'{escaped}'");
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Joins parts into lines.
fn wrap(parts: &[String], separator: &str, first: &str, indent: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for part in parts {
        let width = line.chars().count() + separator.chars().count() + part.chars().count();
        if is_empty {
            line.push_str(part);
        } else if width <= COLUMNS {
            line.push_str(separator);
            line.push_str(part);
        } else {
            lines.push(std::mem::replace(&mut line, format!("{indent}{part}")));
        }
        is_empty = false;
    }
    lines.push(line);
    lines
}

/// Returns a count with a comma after each three digits.
#[must_use]
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_plans_are_reviewed_then_applied() {
        assert_eq!(Commands::review("my db", "p1").lines(), ["next: memfold review 'my db' p1"]);
        assert_eq!(
            Commands::apply("b.db", "p1").lines(),
            ["next: memfold apply b.db p1 --execute", "undo: memfold undo b.db RUN --execute"]
        );
        let far = "x".repeat(70);
        let lines = Commands::apply(&far, "p1").lines();
        let joined = lines[..3].join("").replace("\\    ", "");
        assert_eq!(joined, format!("next: memfold apply {far} p1 --execute"));
    }

    #[test]
    fn counts_are_grouped() {
        for (count, shown) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(count), shown);
        }
    }

    #[test]
    fn words_survive_a_shell() {
        for (word, shown) in [
            ("brain.db", "brain.db"),
            ("my brain.db", "'my brain.db'"),
            ("it's", "'it'\\''s'"),
            ("", "''"),
            ("a\u{1b}b", "$'a\\u001bb'"),
        ] {
            assert_eq!(quoted(word), shown);
        }
    }
}

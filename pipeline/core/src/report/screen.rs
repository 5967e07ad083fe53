//! The few lines a run ends with.

use memfold_guard::text::{characters, is_deceptive};

use super::{Incremental, Mode, Report};

/// The commands that a screen names, as arguments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Commands {
    /// The next command.
    pub next: Vec<String>,
    /// The command that takes it back.
    pub undo: Vec<String>,
    /// Whether a command wider than 80 columns is continued on further lines, as on a terminal. In a pipe it
    /// stays on one.
    pub is_wrapped: bool,
}

impl Commands {
    /// Returns the commands for a store: execute exactly this plan, and undo. Before the plan is executed its run
    /// has no id: `latest` is the run that will have.
    #[must_use]
    pub fn of(store: &str, report: &Report) -> Self {
        let run = if report.mode == Mode::Execute { &report.run_id } else { "latest" };
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
                words(&["memfold", "review", store, "--flags"])
            }
            Mode::Execute => Vec::new(),
        };
        Self { next, undo: words(&["memfold", "undo", store, run, "--execute"]), is_wrapped: false }
    }

    /// Returns the command after a plan was saved: review it.
    #[must_use]
    pub fn review(store: &str, plan_id: &str) -> Self {
        Self { next: words(&["memfold", "review", store, plan_id]), ..Self::default() }
    }

    /// Returns the commands after a review: apply the approved actions, and undo that run.
    #[must_use]
    pub fn apply(store: &str, plan_id: &str) -> Self {
        Self {
            next: words(&["memfold", "apply", store, plan_id, "--execute"]),
            undo: words(&["memfold", "undo", store, "latest", "--execute"]),
            is_wrapped: false,
        }
    }

    /// Returns the lines that a screen ends with, for a POSIX shell.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let commands = [("next: ", &self.next), ("undo: ", &self.undo)];
        let named = commands.into_iter().filter(|(_, command)| !command.is_empty());
        let columns = if self.is_wrapped { COLUMNS } else { usize::MAX };
        named.flat_map(|(label, command)| command_lines(label, command, columns)).collect()
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

/// Returns words as a POSIX shell reads them back.
#[must_use]
pub fn shell_words(words: &[&str]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// How a report calls live memories that the scope leaves out.
const OUT_OF_SCOPE: &str = "out_of_scope";

/// Lines are at most so wide, unless one word is wider.
const COLUMNS: usize = 80;

/// Returns the lines a run ends with, each at most 80 columns wide unless one word is wider.
#[must_use]
pub fn screen(report: &Report, commands: &Commands) -> String {
    let mut lines: Vec<String> = report.incremental.iter().map(searched).collect();
    lines.extend(wrap(&counts(report), " · ", "", "  "));
    lines.extend(protected(report));
    let tokens = report.stats.tokens_saved;
    if tokens > 0 {
        let tokens = grouped(tokens);
        lines.push(format!("about {tokens} fewer tokens when all memories are loaded"));
    }
    let recall = &report.detected.pair_recall;
    let plural = if report.detected.pairs == 1 { "" } else { "s" };
    let found = format!("{} near pair{plural}", grouped(report.detected.pairs));
    let found = match recall.kind {
        super::RecallKind::Exact => format!("{found}, all of them (exact join)"),
        super::RecallKind::Sampled => {
            format!("{found}, recall {} by an audited sample", recall.estimate(3))
        }
    };
    let compared = report.detected.compared();
    let parts: Vec<String> = std::iter::once(found).chain(compared).collect();
    lines.extend(wrap(&parts, ", ", "", "  "));
    lines.extend(without_embedding(report));
    lines.extend(judged(report).map(|parts| wrap(&parts, " · ", "", "  ")).into_iter().flatten());
    let planned = &report.planned;
    if planned.changes() > 0 {
        lines.extend(commands.lines());
    } else if planned.propose_merge == 0 {
        lines.push("nothing to do".to_owned());
    }
    lines.join("\n") + "\n"
}

/// What a run searched that looked only at what changed.
pub(super) fn searched(part: &Incremental) -> String {
    let [changed, compared] = [part.changed, part.compared].map(grouped);
    format!("incremental: {changed} changed since {}, {compared} compared", part.since_run)
}

/// Says why memories are protected, and the key that changes it.
fn protected(report: &Report) -> Vec<String> {
    let line = |(kind, count): (&String, &u64)| {
        let (why, key) = match kind.as_str() {
            "category" => ("by their category", "protection.categories"),
            "id" => ("by their id", "profile"),
            "source" => ("by their source", "protection.sources"),
            "importance" => ("by their importance", "protection.importance_min"),
            "age" => ("by their age", "protection.min_age_hours"),
            _ => ("by how often they are read", "profile"),
        };
        format!("  {} protected {why} ({key})", grouped(*count))
    };
    report.protected.by_kind.iter().map(line).collect()
}

/// The decisions of models, and their usage.
fn judged(report: &Report) -> Option<Vec<String>> {
    let judged = report.judged.as_ref()?;
    let mut parts = vec![format!("judged: {} merge", grouped(judged.merged))];
    parts.push(format!("{} kept separate", grouped(judged.kept_separate)));
    parts.push(format!("{} left to you", grouped(judged.left)));
    if judged.votes_missing > 0 {
        parts.push(format!("{} answers missing", grouped(judged.votes_missing)));
    }
    parts.push(match (judged.requests, judged.prompt_tokens + judged.completion_tokens) {
        (0, _) => "nobody was asked: all answers were recorded before".to_owned(),
        (requests, tokens) => {
            let plural = if requests == 1 { "" } else { "s" };
            format!("{} request{plural}, {} tokens", grouped(requests), grouped(tokens))
        }
    });
    if judged.cost > 0.0 {
        parts.push(format!("cost {:.4}", judged.cost));
    }
    Some(parts)
}

/// Says which memories were compared by the built-in embedding, with advice.
fn without_embedding(report: &Report) -> Option<String> {
    // Nothing is known of pairs that were not compared.
    if report.incremental.is_some() {
        return None;
    }
    let loaded = &report.loaded;
    let lacking = loaded.live.saturating_sub(loaded.with_embedding);
    let how = "compared by words, built in";
    Some(match (lacking, loaded.with_embedding) {
        (0, _) => return None,
        (_, 0) => format!("{how}; a model finds more rewordings: memfold embed"),
        (1, _) => format!("1 memory without a vector {how}: memfold embed"),
        _ => format!("{} memories without a vector {how}: memfold embed", grouped(lacking)),
    })
}

/// `1,783 live → 1,331`, and the parts of the difference.
fn counts(report: &Report) -> Vec<String> {
    let stats = &report.stats;
    let outside = report.loaded.skipped.get(OUT_OF_SCOPE).copied().unwrap_or_default();
    let scope = match outside {
        0 => String::new(),
        _ => format!(" ({} in scope)", grouped(report.loaded.live.saturating_sub(outside))),
    };
    let live = grouped(report.loaded.live);
    let mut counts = vec![
        format!("{live} live{scope} → {}", grouped(stats.live_after)),
        format!("{} identical", grouped(stats.merged.identical)),
        format!("{} trivial", grouped(stats.merged.trivial)),
        format!("{} reworded", grouped(stats.merged.reworded)),
    ];
    for (count, name) in [
        (report.planned.rewrite, "rewritten"),
        (report.planned.summarize, "summarised"),
        (report.planned.supersede, "superseded"),
        (report.planned.archive, "archived"),
        (report.planned.promote, "promoted"),
    ] {
        if count > 0 {
            counts.push(format!("{} {name}", grouped(count)));
        }
    }
    // The list of `memfold review --flags` once the plan is applied.
    let conflicts = report.planned.flag_contradiction + report.detected.flags_open;
    let plural = if conflicts == 1 { "" } else { "s" };
    counts.push(format!("{} conflict{plural} kept apart", grouped(conflicts)));
    let proposed = report.planned.propose_merge;
    if proposed > 0 {
        counts.push(format!("{} probably the same (review)", grouped(proposed)));
    }
    counts.push(format!("{} protected", grouped(report.protected.total)));
    counts
}

/// A command for a POSIX shell; lines that are continued end in a backslash. Words stay whole.
fn command_lines(label: &str, command: &[String], columns: usize) -> Vec<String> {
    let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
    let mut lines: Vec<String> = Vec::new();
    let mut line = label.to_owned();
    for (position, word) in words.iter().enumerate() {
        let reserve = if position + 1 < words.len() { " \\".len() } else { 0 };
        let is_start = line.ends_with(' ');
        if !is_start && line.chars().count() + 1 + word.chars().count() + reserve > columns {
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

/// A word that a POSIX shell reads back; a character that steers a terminal or cannot be seen stands as its bytes in octal.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| (c.is_alphanumeric() && !is_deceptive(c)) || "-_./:@%+,=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    if !characters(word).any(|(_, must_be_escaped)| must_be_escaped) {
        return format!("'{}'", word.replace('\'', "'\\''"));
    }
    let mut quoted = "$'".to_owned();
    for (character, must_be_escaped) in characters(word) {
        match character {
            '\'' | '\\' => quoted.extend(['\\', character]),
            _ if must_be_escaped => {
                for byte in character.to_string().bytes() {
                    quoted.push_str(&format!("\\{byte:03o}"));
                }
            }
            _ => quoted.push(character),
        }
    }
    quoted + "'"
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
            ["next: memfold apply b.db p1 --execute", "undo: memfold undo b.db latest --execute"]
        );
        let far = "x".repeat(70);
        let commands = Commands::apply(&far, "p1");
        assert_eq!(commands.lines()[0], format!("next: memfold apply {far} p1 --execute"));
        let lines = Commands { is_wrapped: true, ..commands }.lines();
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
            ("a\u{1b}b", "$'a\\033b'"),
            ("it's\u{202e}7", "$'it\\'s\\342\\200\\2567'"),
            ("-x.db", "-x.db"),
        ] {
            assert_eq!(quoted(word), shown);
        }
    }
}

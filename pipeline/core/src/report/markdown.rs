//! The report for people, ordered by risk, not by size.

use std::collections::BTreeMap;

use super::screen::{grouped, searched};
use super::{
    MergeSample, MergedSample, Mode, PairSample, Piece, PieceKind, RecallKind, Report, RowView,
};
use crate::memory::MemoryId;
use crate::plan::{Action, ActionType, PROPOSE, Risk, probability_in_words};
use memfold_guard::text;

/// Writes the report as Markdown. Text of memories is escaped, so it can neither format nor link.
#[must_use]
pub fn markdown(report: &Report) -> String {
    let mut page = Page::default();
    page.summary(report);
    page.pairs("Contradictions and updates: which holds?", &report.samples.contradictions);
    page.proposals(report);
    page.single_rows(report);
    page.written(report);
    for (risk, title) in [
        (Risk::Reworded, "Reworded: proven to say the same"),
        (Risk::Trivial, "Trivial: only small words differ"),
        (Risk::Identical, "Identical: the texts are equal"),
    ] {
        page.merges(report, risk, title);
    }
    page.pairs("Near misses", &report.near_misses);
    page.sensitivity(report);
    page.left_alone(report);
    page.protected(report);
    page.skipped(report);
    page.measures(report);
    page.0
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn line(&mut self, line: impl AsRef<str>) {
        self.0.push_str(line.as_ref());
        self.0.push('\n');
    }

    fn heading(&mut self, title: &str) {
        self.line(format!("\n## {title}\n"));
    }

    fn table(&mut self, header: [&str; 2], rows: impl IntoIterator<Item = (String, String)>) {
        self.0.push_str(&heading_row(header));
        for (name, value) in rows {
            self.line(format!("| {name} | {value} |"));
        }
    }

    fn summary(&mut self, report: &Report) {
        let mode = match report.mode {
            Mode::DryRun => "dry run, nothing was changed",
            Mode::Execute => "executed",
        };
        let merged = &report.stats.merged;
        self.line(format!("# Consolidation {}\n\n{mode}\n", report.run_id));
        if let Some(part) = &report.incremental {
            self.line(format!("{}\n", searched(part)));
        }
        let count = |count: u64| grouped(count);
        let recall = &report.detected.pair_recall;
        let compared = report.detected.compared();
        let recall = match recall.kind {
            RecallKind::Exact => compared.map_or_else(
                || "1 (exact join: no pair can be missing)".to_owned(),
                |compared| format!("1 {compared}"),
            ),
            RecallKind::Sampled => format!(
                "{}: 95 % interval, by an exact audit of {} vectors",
                recall.estimate(4),
                count(recall.sampled_rows.unwrap_or(0))
            ),
        };
        let live = format!("{} → {}", count(report.loaded.live), count(report.stats.live_after));
        let rows = [
            ("live memories", live),
            ("merged, identical", count(merged.identical)),
            ("merged, trivial", count(merged.trivial)),
            ("merged, reworded", count(merged.reworded)),
            ("archived", count(report.planned.archive)),
            ("promoted", count(report.planned.promote)),
            ("contradictory pairs", count(report.detected.contradiction_pairs)),
            ("of these flagged", count(report.planned.flag_contradiction)),
            ("deferred by the caps", count(report.detected.flags_deferred)),
            ("probably the same, to be decided", count(report.planned.propose_merge)),
            ("more of these, beyond the cap", count(report.detected.proposals_deferred)),
            ("protected", count(report.protected.total)),
            ("left alone in clusters", count(report.planned.noop)),
            ("tokens saved, at least about", count(report.stats.tokens_saved)),
            ("near pairs", count(report.detected.pairs)),
            ("recall of pairs", recall),
            ("plan digest", format!("`{}`", report.plan_digest)),
        ];
        self.table(["what", "count"], rows.map(|(name, value)| (name.to_owned(), value)));
        self.judged(report);
        if !report.notes.is_empty() {
            self.heading("Notes");
            for note in &report.notes {
                self.line(format!("- {}", escaped(note)));
            }
        }
    }

    fn judged(&mut self, report: &Report) {
        let Some(judged) = &report.judged else { return };
        self.heading("Decided by models");
        let rows = [
            ("proposals", judged.proposals),
            ("merged", judged.merged),
            ("kept separate", judged.kept_separate),
            ("left to a person", judged.left),
            ("answers recorded before", judged.votes_recorded),
            ("answers given now", judged.votes_given),
            ("answers missing", judged.votes_missing),
            ("requests", judged.requests),
            ("tokens", judged.prompt_tokens + judged.completion_tokens),
        ];
        self.table(["what", "count"], rows.map(|(name, count)| (name.to_owned(), grouped(count))));
        let reasons = judged.failures.iter().chain(&judged.refusals);
        for (reason, count) in reasons {
            self.line(format!("- {}: {}", grouped(*count), escaped(reason)));
        }
        for ruling in &judged.rulings {
            let ids = ruling.ids.join(", ");
            self.line(format!(
                "- {} {}: {} ({})",
                ruling.action,
                escaped(&ids),
                escaped(&ruling.reason),
                escaped(&ruling.judge)
            ));
        }
    }

    fn merges(&mut self, report: &Report, risk: Risk, title: &str) {
        let shown: Vec<_> =
            report.samples.merges.iter().filter(|merge| merge.risk == risk).collect();
        if shown.is_empty() {
            return;
        }
        self.heading(title);
        for merge in &shown {
            self.merge(merge);
        }
        let mut rest = report.samples.merges_not_shown;
        let rest = *rest.of(risk);
        if rest > 0 {
            let (shown, rest) = (grouped(shown.len() as u64), grouped(rest));
            self.line(format!(
                "{shown} merges are shown, {rest} more stand in the JSON report only.\n"
            ));
        }
    }

    fn proposals(&mut self, report: &Report) {
        if report.samples.proposals.is_empty() {
            return;
        }
        self.heading("Probably the same: please look");
        self.line("Nothing proves that these say the same, and nothing that they do not. `memfold review` asks.\n");
        for proposal in &report.samples.proposals {
            self.merge(proposal);
        }
        let rest = report.detected.proposals_deferred;
        if rest > 0 {
            self.line(format!("{} more groups come with later runs.\n", grouped(rest)));
        }
    }

    fn merge(&mut self, merge: &MergeSample) {
        let survivor = &merge.survivor;
        let similarity = merge.similarity.map_or(String::new(), |s| format!(", similarity {s:.4}"));
        let words = |probability| format!(", {}", probability_in_words(probability));
        let probability = merge.probability.map_or(String::new(), words);
        self.line(format!(
            "### {} {} ← {} more ({}{probability}{similarity})\n",
            merge.action,
            escaped(&survivor.id),
            merge.merged.len() as u64 + merge.merged_not_shown,
            escaped(&merge.rule_id),
        ));
        self.line(format!("- stays: {}", row(survivor)));
        self.line(format!("  > {}", escaped(&survivor.excerpt)));
        for MergedSample { row: gone, similarity, diff } in &merge.merged {
            let similarity = similarity.map_or(String::new(), |s| format!(", similarity {s:.4}"));
            self.line(format!("- merges in: {}{similarity}", row(gone)));
            if !diff.is_empty() {
                self.line(format!("  > {}", shown_diff(diff)));
            }
        }
        if merge.merged_not_shown > 0 {
            self.line(format!("- and {} more", grouped(merge.merged_not_shown)));
        }
        let role = if merge.rule_id == PROPOSE { "differs" } else { "proof" };
        for proof in &merge.proofs {
            self.line(format!("- {role}: {}", escaped(proof)));
        }
        let gained: Vec<String> = merge.categories_gained.iter().map(|c| escaped(c)).collect();
        let gained = if gained.is_empty() {
            String::new()
        } else {
            format!(", gains {}", gained.join(", "))
        };
        let after = if merge.survivor_protected {
            "protected, stays as it is".to_owned()
        } else {
            format!(
                "importance {} → {}, access count {} → {}{gained}",
                survivor.importance,
                merge.importance_after,
                survivor.access_count,
                merge.access_count_after
            )
        };
        self.line(format!("- survivor: {after}\n"));
    }

    fn pairs(&mut self, title: &str, pairs: &[PairSample]) {
        if pairs.is_empty() {
            return;
        }
        self.heading(title);
        for pair in pairs {
            let kind = pair.kind.as_ref().map_or(String::new(), |kind| format!("{kind}, "));
            let score = pair.score.map_or(String::new(), |score| format!(", score {score:.2}"));
            let verdict = match &pair.verdict {
                Some(verdict) => format!(", kept apart: {}", escaped(verdict)),
                None if pair.score.is_none() => ", below the threshold".to_owned(),
                None => String::new(),
            };
            self.line(format!("- {kind}similarity {:.4}{score}{verdict}", pair.similarity));
            self.line(format!("  - older: {}", row(&pair.older)));
            self.line(format!("    > {}", underlined(&pair.diff, &pair.older, PieceKind::New)));
            self.line(format!("  - newer: {}", row(&pair.newer)));
            self.line(format!("    > {}", underlined(&pair.diff, &pair.newer, PieceKind::Gone)));
            if let Some(key) = &pair.key {
                self.line(format!(
                    "  - settle: `memfold review DB {key} --newer` (or --older, --both)"
                ));
            }
        }
    }

    fn sensitivity(&mut self, report: &Report) {
        if report.sensitivity.is_empty() {
            return;
        }
        self.heading("If the threshold were another");
        let rows = report.sensitivity.iter();
        let rows = rows.map(|at| (format!("{:+.2}", at.delta), grouped(at.pairs)));
        self.table(["change", "linked pairs"], rows);
    }

    fn single_rows(&mut self, report: &Report) {
        for (wanted, title) in
            [(ActionType::Promote, "Promoted"), (ActionType::Archive, "Archived")]
        {
            self.actions(report, wanted, title, |action| {
                let importance = action.new_importance;
                let importance =
                    importance.map_or(String::new(), |to| format!(", importance → {to}"));
                format!(
                    "- {}{importance} ({}: {})",
                    action.target_ids.first().map(id).unwrap_or_default(),
                    escaped(&action.rationale.rule_id),
                    escaped(&action.rationale.reasons.join(", ")),
                )
            });
        }
    }

    /// The texts of models, and the memories that no longer hold by them.
    fn written(&mut self, report: &Report) {
        for (wanted, title, joint) in [
            (ActionType::Rewrite, "Rewritten by a model", ", "),
            (ActionType::Summarize, "Summarised by a model", ", "),
            (ActionType::Supersede, "Superseded", " → "),
        ] {
            self.actions(report, wanted, title, |action| {
                let ids: Vec<String> = action.target_ids.iter().map(id).collect();
                let line = format!("- {} ({})", ids.join(joint), reasons(action));
                match &action.new_content {
                    Some(new) => {
                        format!("{line}\n  > {}", escaped(&text::excerpt(new, NEW_TEXT_CHARS)))
                    }
                    None => line,
                }
            });
        }
    }

    fn left_alone(&mut self, report: &Report) {
        self.actions(report, ActionType::Noop, "Left alone", |action| {
            let id = action.target_ids.first().map(id).unwrap_or_default();
            format!("- {id}: {}", reasons(action))
        });
    }

    /// The actions of one type, each by the lines that `shown` writes.
    fn actions(
        &mut self,
        report: &Report,
        wanted: ActionType,
        title: &str,
        shown: impl Fn(&Action) -> String,
    ) {
        let actions = report.actions.iter().filter(|action| action.action == wanted);
        let actions: Vec<&Action> = actions.collect();
        if actions.is_empty() {
            return;
        }
        self.heading(title);
        if wanted == ActionType::Noop {
            self.counts(["cause", "memories"], &report.stats.noops_by_cause);
        }
        for action in actions.iter().take(LISTED_MAX) {
            self.line(shown(action));
        }
        if actions.len() > LISTED_MAX {
            let rest = grouped((actions.len() - LISTED_MAX) as u64);
            self.line(format!("- and {rest} more in the JSON report"));
        }
    }

    fn counts(&mut self, header: [&str; 2], counts: &BTreeMap<String, u64>) {
        self.table(header, counts.iter().map(|(name, &n)| (escaped(name), grouped(n))));
        self.line("");
    }

    fn protected(&mut self, report: &Report) {
        let protected = &report.protected;
        if protected.total == 0 {
            return;
        }
        self.heading("Protected");
        self.counts(["by", "memories"], &protected.by_kind);
        for kept in &protected.rows {
            self.line(format!("- {}: {}", escaped(&kept.id), escaped(&kept.reason)));
        }
        let rest = protected.total.saturating_sub(protected.rows.len() as u64);
        if rest > 0 {
            self.line(format!("- and {} more", grouped(rest)));
        }
    }

    fn skipped(&mut self, report: &Report) {
        if report.loaded.skipped.is_empty() {
            return;
        }
        self.heading("Skipped");
        let rows = report.loaded.skipped.iter().map(|(reason, &count)| {
            let example = report.skipped_examples.get(reason).map(|example| escaped(example));
            let example = example.map_or(String::new(), |example| format!(" (such as {example})"));
            (escaped(reason), format!("{}{example}", grouped(count)))
        });
        self.table(["reason", "count"], rows);
    }

    fn measures(&mut self, report: &Report) {
        self.heading("Measured");
        let stages = report.seconds.stages();
        let stages = stages.map(|(name, seconds)| (name.to_owned(), format!("{seconds:.3}")));
        self.table(["stage", "seconds"], stages);
        let mib = |bytes: u64| grouped(bytes >> 20);
        self.line(format!(
            "\npeak memory {} MiB, {} MiB of it anonymous · {} threads · {}",
            mib(report.peak_rss_bytes),
            mib(report.peak_anon_bytes),
            report.threads,
            escaped(&report.isa)
        ));
    }
}

/// Rows listed of a kind.
const LISTED_MAX: usize = 200;

fn id(id: &MemoryId) -> String {
    escaped(&text::excerpt(id.as_str(), 120))
}

fn reasons(action: &Action) -> String {
    escaped(&text::excerpt(&action.rationale.reasons.join("; "), 300))
}

fn row(row: &RowView) -> String {
    let age = row.age_days.map_or("age unknown".to_owned(), |days| format!("{days:.1} days old"));
    format!("{}, {age}, from {}", escaped(&row.id), escaped(&row.root_source))
}

fn shown_diff(pieces: &[Piece]) -> String {
    let shown = pieces.iter().map(|piece| {
        let text = escaped(&piece.text);
        match piece.kind {
            PieceKind::Same => text,
            PieceKind::Gone => format!("<del>{text}</del>"),
            PieceKind::New => format!("<ins>{text}</ins>"),
        }
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// One side of a pair, with its own words underlined.
fn underlined(pieces: &[Piece], row: &RowView, other: PieceKind) -> String {
    if pieces.is_empty() {
        return escaped(&row.excerpt);
    }
    let shown = pieces.iter().filter(|piece| piece.kind != other).map(|piece| {
        let text = escaped(&piece.text);
        if piece.kind == PieceKind::Same { text } else { format!("<u>{text}</u>") }
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// The head of a table.
pub(super) fn heading_row(header: [&str; 2]) -> String {
    format!("| {} | {} |\n|---|---|\n", header[0], header[1])
}

/// A name in a table.
pub(super) fn cell(text: &str) -> String {
    escaped(&text::excerpt(text, CELL_CHARS))
}

/// Characters of a name in a table.
const CELL_CHARS: usize = 120;
const NEW_TEXT_CHARS: usize = 2_000;

/// Escapes whatever Markdown or HTML could take for markup.
fn escaped(text: &str) -> String {
    // An escaped character takes up to eight.
    let shown = text::excerpt(text, text.len().saturating_mul(8));
    let mut escaped = String::with_capacity(shown.len() + 8);
    for character in shown.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '(' | ')' | '#' | '+' | '!' | '|'
            | '~' | '$' => {
                escaped.push('\\');
                escaped.push(character);
            }
            '@' => escaped.push_str("&#64;"),
            _ => escaped.push(character),
        }
    }
    // Bare addresses would become links; a dash or a number and a point would open a list.
    let escaped = escaped.replace("://", ":&#47;&#47;").replace("www.", "www&#46;");
    match escaped.strip_prefix('-') {
        Some(rest) => format!("\\-{rest}"),
        None => escaped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_of_memories_stays_text() {
        for (text, shown) in [
            ("`rm` <b>", "\\`rm\\` &lt;b&gt;"),
            ("[x](http://e.vil)", "\\[x\\]\\(http:&#47;&#47;e.vil\\)"),
            ("- item | cell", "\\- item \\| cell"),
            ("a\u{1b}[2J", "a\\\\u\\{1b\\}\\[2J"),
        ] {
            assert_eq!(escaped(text), shown);
        }
    }
}

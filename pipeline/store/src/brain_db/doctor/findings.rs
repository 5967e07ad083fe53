//! From facts to findings. Each file judges one part; none of them reads anything but the facts.

use crate::brain_db::doctor::memory_findings::{
    judge_damaged_index, judge_full_text, judge_rows, judge_vectors,
};
use serde::Serialize;

use crate::brain_db::doctor::examine::UnopenedTable;
use crate::brain_db::doctor::facts::{
    AuditChain, Facts, Files, Found, MemoryFacts, OwnTables, Rival, UnfinishedRun,
};
use memfold_core::SkipReason;
use memfold_core::report::shell_word;
use memfold_guard::text::excerpt;

/// Returns the findings from the facts, the worst first. `store` is the store's path for use in
/// commands.
#[must_use]
pub fn findings(facts: &Facts, store: &str) -> Vec<Finding> {
    let mut found = vec![damage(facts, store), references(facts)];
    found.extend(facts.unopened.iter().map(unopened));
    found.extend(judge_damaged_index(facts));
    found.extend(judge_full_text(&facts.full_text, facts.memories.as_ref()));
    if let Some(memories) = &facts.memories {
        found.extend(judge_rows(memories, store));
        found.extend(judge_vectors(memories));
    }
    if let Some(own) = &facts.own {
        found.extend(judge_own_tables(own, store));
    }
    found.extend(judge_files(&facts.files, store));
    found.extend(facts.rivals.iter().map(rival));
    found.extend(reactions(&facts.reactions));
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    found
}

/// Triggers and other reactions that keep memories from being moved away.
fn reactions(reactions: &[String]) -> Option<Finding> {
    let first = reactions.first()?;
    let what = format!("memories are archived in place, not moved to memfold_archive: {first}");
    let mut finding = Finding::new(Severity::Info, "moves_refused", what);
    finding.examples = reactions.to_vec();
    let advice = "deleting a row could change other tables of yours; drop what depends on it, or leave it so";
    Some(finding.count(reactions.len() as u64).advice(advice))
}

/// Rows tell that another consolidator was here, its own tables that it may be at work.
fn rival(rival: &Rival) -> Finding {
    let what = format!("{}: {}", rival.place, rival.what);
    match rival.rows {
        Some(rows) => Finding::new(Severity::Info, "rival_traces", what)
            .count(rows)
            .advice(format!("make sure that it works on this store no longer: {}", rival.stop)),
        None => Finding::new(Severity::Warning, "rival", what)
            .advice(format!("let only one consolidator work on a store: {}", rival.stop)),
    }
}

fn damage(facts: &Facts, store: &str) -> Finding {
    let Some(first) = facts.damage.first() else {
        let what = match facts.full_text_damage.is_empty() {
            true => "SQLite's integrity check says ok",
            false => "SQLite's integrity check says ok of all ordinary tables",
        };
        return Finding::new(Severity::Ok, "sound", what);
    };
    let (from, to) = (memfold_core::report::shell_word(store), format!("{store}.recovered"));
    let mut finding = Finding::new(
        Severity::Critical,
        "damaged",
        format!("the file is damaged: {}", memfold_guard::text::excerpt(first, 120)),
    );
    finding.examples.clone_from(&facts.damage);
    finding
        .advice("stop every program that writes to it; copy it with its -wal file; then")
        .shell(format!(
            "sqlite3 {from} .recover | sqlite3 {}",
            memfold_core::report::shell_word(&to)
        ))
        .advice("or go back to a backup: docs/recovery.md says how")
}

/// A table with a module or tokenizer from another program.
fn unopened(table: &UnopenedTable) -> Finding {
    let (name, reason) = (table.name.escape_debug(), excerpt(&table.reason, 120));
    if table.name != "stm_fts" {
        let what =
            format!("the table {name} was not checked, SQLite cannot open it here: {reason}");
        return Finding::new(Severity::Info, "table_unopened", what);
    }
    let what = format!(
        "SQLite cannot open the full-text index stm_fts here, so nothing can be saved or merged: {reason}"
    );
    Finding::new(Severity::Critical, "full_text_unopened", what).advice(
        "let the store's owner make the index anew with a tokenizer that SQLite has: unicode61, porter, \
         trigram or ascii",
    )
}

fn references(facts: &Facts) -> Finding {
    let count = facts.broken_references.values().sum::<u64>();
    if count == 0 {
        return Finding::new(Severity::Ok, "references_hold", "all foreign keys hold");
    }
    let pairs: Vec<String> = facts
        .broken_references
        .iter()
        .map(|((table, parent), count)| {
            format!("{count} from {} to {}", table.escape_debug(), parent.escape_debug())
        })
        .collect();
    let what = format!(
        "{} to rows that are not there: {}",
        counted(count, "row refers", "rows refer"),
        pairs.join(", ")
    );
    let finding = Finding::new(Severity::Warning, "references_broken", what).count(count);
    let is_messages = |(table, parent): &(String, String)| table == "stm" && parent == "messages";
    if facts.broken_references.keys().any(is_messages) {
        return finding.sql(
            "UPDATE stm SET source_message_id = NULL WHERE source_message_id NOT IN \
             (SELECT id FROM messages);",
        );
    }
    finding.advice("`PRAGMA foreign_key_check;` lists them")
}

/// Adds up the counts of several reasons, and names the reasons with a count.
pub(crate) fn parts(memories: &MemoryFacts, kinds: &[(SkipReason, &str)]) -> (u64, String) {
    let met: Vec<(u64, &str)> = kinds
        .iter()
        .filter_map(|(reason, name)| Some((memories.skipped.get(reason)?.count, *name)))
        .collect();
    let names: Vec<String> = met.iter().map(|(count, name)| format!("{count} {name}")).collect();
    (met.iter().map(|(count, _)| count).sum(), names.join(", "))
}

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
    /// The finding, in one sentence. It quotes no text of the store.
    pub what: String,
    /// How many cases there are, where cases can be counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The first cases, as the store spells them: escape them for display.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// The steps of the fix.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mend: Vec<Mend>,
}

/// A step of a fix.
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
    /// Makes a finding without cases and without a fix.
    #[must_use]
    pub fn new(severity: Severity, code: &'static str, what: impl Into<String>) -> Self {
        let what = what.into();
        Self { severity, code, what, count: None, examples: Vec::new(), mend: Vec::new() }
    }

    pub(crate) fn count(mut self, count: u64) -> Self {
        self.count = Some(count);
        self
    }

    pub(crate) fn cases(mut self, found: &Found) -> Self {
        self.examples.clone_from(&found.examples);
        self.count(found.count)
    }

    pub(crate) fn advice(mut self, text: impl Into<String>) -> Self {
        self.mend.push(Mend::Advice(text.into()));
        self
    }

    pub(crate) fn sql(mut self, text: impl Into<String>) -> Self {
        self.mend.push(Mend::Sql(text.into()));
        self
    }

    pub(crate) fn command(mut self, words: &[&str]) -> Self {
        let words: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
        self.mend.push(Mend::Command(words.join(" ")));
        self
    }

    /// Adds a line that is more than one command.
    pub(crate) fn shell(mut self, line: String) -> Self {
        self.mend.push(Mend::Command(line));
        self
    }
}

/// Returns a count with its noun: `1 memory`, `1,204 memories`.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", memfold_core::report::grouped(count), if count == 1 { one } else { many })
}

/// Returns ids as a list of SQL literals.
pub(crate) fn sql_list(ids: &[String]) -> String {
    ids.iter().map(|id| sql_text(id)).collect::<Vec<_>>().join(", ")
}

/// Returns a text as an SQL literal of one line without anything invisible.
pub(crate) fn sql_text(text: &str) -> String {
    if text.chars().any(memfold_guard::text::is_deceptive) {
        let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        return format!("CAST(x'{hex}' AS TEXT)");
    }
    format!("'{}'", text.replace('\'', "''"))
}

const MEBIBYTE: u64 = 1 << 20;

/// SQLite empties its log at about 4 MiB; a log above this size is being held back.
const LOG_BYTES_MAX: u64 = 64 * MEBIBYTE;

/// A larger share of free pages is worth a remark, if it is more than a MiB or so.
const FREE_PAGES_PERCENT_MAX: u64 = 25;
const FREE_PAGES_MIN: u64 = 256;

pub(crate) fn judge_files(files: &Files, store: &str) -> Vec<Finding> {
    [disk(files), log(files, store), mode(files, store), pages(files, store), lock(files)]
        .into_iter()
        .flatten()
        .collect()
}

fn disk(files: &Files) -> Option<Finding> {
    let free = files.free_bytes?;
    let copied = files.store_bytes + files.log_bytes;
    // A copy is made only where as much room is left afterwards.
    if free >= copied.saturating_mul(2) {
        let what = "the disk has room for a backup beside the store";
        return Some(Finding::new(Severity::Ok, "disk_free", what));
    }
    let what = format!(
        "the disk has {} left, less than twice the {} of the store: no backup will be made",
        size(free),
        size(copied)
    );
    Some(Finding::new(Severity::Warning, "disk_low", what).advice("make room first"))
}

fn log(files: &Files, store: &str) -> Option<Finding> {
    if files.log_bytes <= LOG_BYTES_MAX {
        return None;
    }
    let what = format!(
        "the write-ahead log has grown to {}: some reader never ends its transaction",
        size(files.log_bytes)
    );
    let finding = Finding::new(Severity::Warning, "log_large", what);
    Some(finding.advice("restart the programs that keep the store open for long, then").command(&[
        "sqlite3",
        store,
        "PRAGMA wal_checkpoint(TRUNCATE)",
    ]))
}

fn mode(files: &Files, store: &str) -> Option<Finding> {
    if files.in_wal_mode || files.store_bytes == 0 {
        return None;
    }
    let what = "the store keeps a rollback journal: its readers wait while anybody writes";
    let finding = Finding::new(Severity::Info, "rollback_journal", what);
    let advice = "memfold never changes the mode; the owner may:";
    Some(finding.advice(advice).command(&["sqlite3", store, "PRAGMA journal_mode = WAL"]))
}

fn pages(files: &Files, store: &str) -> Option<Finding> {
    let is_much = files.free_pages * 100 > files.pages * FREE_PAGES_PERCENT_MAX;
    if files.free_pages < FREE_PAGES_MIN || !is_much {
        return None;
    }
    let percent = files.free_pages * 100 / files.pages.max(1);
    let what = format!("{percent} % of the file are free pages; SQLite will use them again");
    let finding = Finding::new(Severity::Info, "pages_free", what).count(files.free_pages);
    let advice = "or, with every other program stopped, shrink it (rows may get new numbers: run \
                  doctor again to see whether the full-text index still fits)";
    Some(finding.advice(advice).command(&["sqlite3", store, "VACUUM"]))
}

fn lock(files: &Files) -> Option<Finding> {
    let name = memfold_guard::text::excerpt(files.lock_file.as_ref()?, 100);
    let what = format!("{name} lies beside the store; the file alone locks nothing");
    Some(Finding::new(Severity::Ok, "lock_file", what))
}

/// A size for people.
pub(crate) fn size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value < 10.0 {
        format!("{value:.1} {}", units[unit])
    } else {
        format!("{value:.0} {}", units[unit])
    }
}

/// Maximum characters of a run's or plan's name.
const NAME_CHARS: usize = 60;

pub(crate) fn judge_own_tables(own: &OwnTables, store: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(version(own));
    found.extend(incomplete(own));
    found.extend(own.unfinished.iter().map(|run| unfinished(run, store)));
    if own.unfinished.is_empty() {
        found.push(Finding::new(Severity::Ok, "runs_ended", "every run has ended"));
    }
    found.extend(audit(&own.audit, store));
    if own.open_flags > 0 {
        let pairs = counted(own.open_flags, "contradictory pair waits", "contradictory pairs wait");
        let finding = Finding::new(Severity::Info, "flags_open", format!("{pairs} for a person"));
        found.push(finding.count(own.open_flags).command(&["memfold", "review", store, "--flags"]));
    }
    found.extend(moved(own.moved));
    found
}

/// Rows that an export of the owner's tables alone does not contain.
fn moved(count: u64) -> Option<Finding> {
    if count == 0 {
        return None;
    }
    let what = format!(
        "{} in memfold_archive alone: a backup of the owner's tables, such as the JSON of \
         brain_backup.py, does not hold them",
        counted(count, "memory is", "memories are")
    );
    let advice =
        "back up the file itself (`sqlite3 brain.db '.backup COPY'`); docs/recovery.md says more";
    Some(Finding::new(Severity::Info, "archive_backup", what).count(count).advice(advice))
}

fn version(own: &OwnTables) -> Option<Finding> {
    let (found, here) = (own.version?, own.version_here);
    if found > here {
        let what = format!(
            "memfold's tables are of version {found}, this program knows {here}: it writes nothing"
        );
        let finding = Finding::new(Severity::Warning, "own_tables_newer", what);
        return Some(finding.advice("use the version of memfold that wrote to the store last"));
    }
    let what = format!("memfold's tables are of version {found}; the next write makes them {here}");
    (found < here).then(|| Finding::new(Severity::Info, "own_tables_older", what))
}

fn incomplete(own: &OwnTables) -> Option<Finding> {
    if own.missing.is_empty() && own.version.is_some() {
        return None;
    }
    let what = if own.missing.is_empty() {
        "memfold's tables do not tell their version".to_owned()
    } else {
        format!("memfold's tables are incomplete: no {}", own.missing.join(", "))
    };
    let finding = Finding::new(Severity::Warning, "own_tables_incomplete", what);
    Some(finding.advice("docs/recovery.md says what is lost and how to begin anew"))
}

fn unfinished(run: &UnfinishedRun, store: &str) -> Finding {
    let name = excerpt(&run.run_id, NAME_CHARS);
    let kind = excerpt(&run.kind, NAME_CHARS);
    if run.is_running && run.is_alive {
        let what = format!("run {name} ({kind}) is under way");
        return Finding::new(Severity::Info, "run_under_way", what);
    }
    let units = counted(run.applied, "unit", "units");
    let what = format!("run {name} ({kind}) stopped after {units}; nothing is half done");
    let finding = Finding::new(Severity::Warning, "run_unfinished", what);
    match (run.kind.as_str(), &run.plan_id, &run.target) {
        ("execute", Some(plan), _) => finding
            .advice("go on with it, or take it back:")
            .command(&["memfold", "apply", store, plan, "--execute"])
            .command(&["memfold", "undo", store, &run.run_id, "--execute"]),
        ("execute", None, _) => {
            finding.command(&["memfold", "undo", store, &run.run_id, "--execute"])
        }
        ("undo", _, Some(target)) => {
            finding.command(&["memfold", "undo", store, target, "--execute"])
        }
        _ => finding.command(&["memfold", "runs", store]),
    }
}

fn audit(chain: &AuditChain, store: &str) -> Option<Finding> {
    match chain {
        AuditChain::Unchecked => None,
        AuditChain::Whole => {
            let what = "the record of runs is as it was written";
            Some(Finding::new(Severity::Ok, "audit_chain_whole", what))
        }
        AuditChain::Broken { run_id } => {
            let run = excerpt(run_id, NAME_CHARS);
            let what = format!("the record of runs was changed by another hand before run {run}");
            let finding = Finding::new(Severity::Warning, "audit_chain_broken", what);
            Some(
                finding
                    .advice("find out who wrote to memfold_runs; undo still works by the journal")
                    .command(&["memfold", "runs", store]),
            )
        }
    }
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

#[cfg(test)]
mod files_tests {
    use crate::brain_db::doctor::facts::Files;
    use crate::brain_db::doctor::findings::judge_files;
    use crate::brain_db::doctor::findings::size;

    #[test]
    fn a_disk_without_room_for_two_copies_is_told() {
        let codes = |free_bytes: u64| -> Vec<&str> {
            let (store_bytes, log_bytes) = (90 << 20, 10 << 20);
            let files = Files {
                store_bytes,
                log_bytes,
                in_wal_mode: true,
                free_bytes: Some(free_bytes),
                ..Files::default()
            };
            judge_files(&files, "brain.db").iter().map(|finding| finding.code).collect()
        };
        assert_eq!(codes(200 << 20), ["disk_free"]);
        assert_eq!(codes((200 << 20) - 1), ["disk_low"]);
    }

    #[test]
    fn sizes_are_short() {
        let shown = [0, 1536, 900 << 10, 5 << 20, 3 << 40].map(size);
        assert_eq!(shown, ["0.0 KiB", "1.5 KiB", "900 KiB", "5.0 MiB", "3.0 TiB"]);
    }
}

//! From facts to findings; nothing here reads anything but the facts.

use serde::Serialize;

use crate::brain_db::doctor::examine::UnopenedTable;
use crate::brain_db::doctor::facts::{
    AuditChain, Facts, Files, Found, FullText, FullTextKind, MemoryFacts, OtherConsolidator,
    OwnTables, UnfinishedRun,
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
    found.extend(facts.other_consolidators.iter().map(other));
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
fn other(other: &OtherConsolidator) -> Finding {
    let what = format!("{}: {}", other.place, other.what);
    match other.rows {
        Some(rows) => Finding::new(Severity::Info, "rival_traces", what)
            .count(rows)
            .advice(format!("make sure that it works on this store no longer: {}", other.stop)),
        None => Finding::new(Severity::Warning, "other", what)
            .advice(format!("let only one consolidator work on a store: {}", other.stop)),
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
    let (from, to) = (shell_word(store), format!("{store}.recovered"));
    let mut finding = Finding::new(
        Severity::Critical,
        "damaged",
        format!("the file is damaged: {}", excerpt(first, 120)),
    );
    finding.examples.clone_from(&facts.damage);
    finding
        .advice("stop every program that writes to it; copy it with its -wal file; then")
        .shell(format!("sqlite3 {from} .recover | sqlite3 {}", shell_word(&to)))
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
fn parts(memories: &MemoryFacts, kinds: &[(SkipReason, &str)]) -> (u64, String) {
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

    fn count(mut self, count: u64) -> Self {
        self.count = Some(count);
        self
    }

    fn cases(mut self, found: &Found) -> Self {
        self.examples.clone_from(&found.examples);
        self.count(found.count)
    }

    fn advice(mut self, text: impl Into<String>) -> Self {
        self.mend.push(Mend::Advice(text.into()));
        self
    }

    fn sql(mut self, text: impl Into<String>) -> Self {
        self.mend.push(Mend::Sql(text.into()));
        self
    }

    fn command(mut self, words: &[&str]) -> Self {
        let words: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
        self.mend.push(Mend::Command(words.join(" ")));
        self
    }

    /// Adds a line that is more than one command.
    fn shell(mut self, line: String) -> Self {
        self.mend.push(Mend::Command(line));
        self
    }
}

/// Returns a count with its noun: `1 memory`, `1,204 memories`.
fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", memfold_core::report::grouped(count), if count == 1 { one } else { many })
}

/// Returns ids as a list of SQL literals.
fn sql_list(ids: &[String]) -> String {
    ids.iter().map(|id| sql_text(id)).collect::<Vec<_>>().join(", ")
}

/// Returns a text as an SQL literal of one line without anything invisible.
fn sql_text(text: &str) -> String {
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

fn judge_files(files: &Files, store: &str) -> Vec<Finding> {
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
    let name = excerpt(files.lock_file.as_ref()?, 100);
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

fn judge_own_tables(own: &OwnTables, store: &str) -> Vec<Finding> {
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

/// Commands that are spelled out for the first cases.
const COMMANDS_MAX: usize = 3;

const LOOK_AT_UNREADABLE: &str = "SELECT rowid, id, content FROM stm WHERE typeof(id) <> 'text' \
                                  OR typeof(content) <> 'text' OR trim(content) = '';";

const LOOK_AT_REPEATED: &str =
    "SELECT id, count(*) FROM stm GROUP BY id HAVING count(*) > 1 AND id IS NOT NULL;";

fn judge_rows(memories: &MemoryFacts, store: &str) -> Vec<Finding> {
    let parts = [
        unreadable(memories),
        skipped(memories, SkipReason::IdRepeated, Severity::Warning, "ids_repeated", |count| {
            let rows = counted(count, "row repeats", "rows repeat");
            format!("{rows} the id of another; the last one counts")
        })
        .map(|finding| finding.sql(LOOK_AT_REPEATED)),
        Some(times(memories)),
        visible_archived(memories),
        to_restore(
            &memories.survivor_gone,
            "survivor_gone",
            "merged into a memory that is gone",
            store,
        ),
        to_restore(
            &memories.archived_edited,
            "archived_edited",
            "changed since memfold archived it",
            store,
        ),
    ];
    parts.into_iter().flatten().collect()
}

/// A finding about the rows and embeddings that were left out for one reason.
fn skipped(
    memories: &MemoryFacts,
    reason: SkipReason,
    severity: Severity,
    code: &'static str,
    what: impl Fn(u64) -> String,
) -> Option<Finding> {
    let found = memories.skipped.get(&reason)?;
    Some(Finding::new(severity, code, what(found.count)).cases(found))
}

fn unreadable(memories: &MemoryFacts) -> Option<Finding> {
    let kinds = [
        (SkipReason::IdNull, "without an id"),
        (SkipReason::IdBlob, "with bytes for an id"),
        (SkipReason::ContentMissing, "without a text"),
        (SkipReason::InvalidUtf8, "that are no UTF-8"),
    ];
    let (count, parts) = parts(memories, &kinds);
    if count == 0 {
        return None;
    }
    let what = format!(
        "{} no part: {parts}",
        counted(count, "unreadable row takes", "unreadable rows take")
    );
    Some(Finding::new(Severity::Info, "rows_unreadable", what).count(count).sql(LOOK_AT_UNREADABLE))
}

fn times(memories: &MemoryFacts) -> Finding {
    let Some(found) = memories.skipped.get(&SkipReason::CreatedAtUnreadable) else {
        return Finding::new(Severity::Ok, "times_readable", "every creation time can be read");
    };
    let count = counted(found.count, "creation time", "creation times");
    let what = format!("{count} cannot be read: such memories count as the oldest");
    let finding = Finding::new(Severity::Warning, "times_unreadable", what).cases(found);
    match found.examples.first() {
        Some(id) => finding.sql(format!(
            "UPDATE stm SET created_at = 'YYYY-MM-DDTHH:MM:SS' WHERE id = {};",
            sql_text(id)
        )),
        None => finding,
    }
}

fn visible_archived(memories: &MemoryFacts) -> Option<Finding> {
    let count = memories.visible_archived;
    if count == 0 {
        return None;
    }
    let what = format!(
        "{} still in the memory table: readers that filter nothing see them",
        counted(count, "archived memory is", "archived memories are")
    );
    let advice = "merges move what they merge out of the table, unless merge.absorbed is archive";
    Some(Finding::new(Severity::Info, "archived_visible", what).count(count).advice(advice))
}

fn to_restore(found: &Found, code: &'static str, what: &str, store: &str) -> Option<Finding> {
    if found.is_empty() {
        return None;
    }
    let count = counted(found.count, "archived memory:", "archived memories:");
    let finding = Finding::new(Severity::Warning, code, format!("{count} {what}")).cases(found);
    let examples = found.examples.iter().take(COMMANDS_MAX);
    Some(examples.fold(finding, |finding, id| {
        finding.command(&["memfold", "undo", store, "--memory", id, "--execute"])
    }))
}

/// Puts missing memories into the index.
const FILL_INDEX: &str = "INSERT INTO stm_fts(rowid, content) SELECT rowid, content FROM stm \
                    WHERE typeof(content) = 'text' AND rowid NOT IN (SELECT id FROM stm_fts_docsize);";

/// Makes an index without a copy of the texts anew.
const RENEW: &str = "BEGIN IMMEDIATE; INSERT INTO stm_fts(stm_fts) VALUES ('delete-all'); \
                     INSERT INTO stm_fts(rowid, content) SELECT rowid, content FROM stm \
                     WHERE typeof(content) = 'text'; COMMIT;";

/// Makes an index over another table anew.
const REBUILD: &str = "INSERT INTO stm_fts(stm_fts) VALUES ('rebuild');";

const DROP_ORPHANS: &str = "DELETE FROM stm_fts WHERE rowid NOT IN (SELECT rowid FROM stm);";

/// Full-text indexes that SQLite finds damaged: their words come from the texts, so `.recover` is
/// not needed.
fn judge_damaged_index(facts: &Facts) -> Option<Finding> {
    let first = facts.full_text_damage.first()?;
    let what = format!(
        "a full-text index is damaged, so memories cannot be saved or merged: {}",
        excerpt(first, 120)
    );
    let mut finding = Finding::new(Severity::Critical, "full_text_damaged", what);
    finding.examples.clone_from(&facts.full_text_damage);
    if !facts.full_text_damage.iter().any(|line| line.contains("stm_fts")) {
        return Some(finding.advice("let the store's owner fill that index anew"));
    }
    Some(match facts.full_text.kind {
        FullTextKind::Contentless => finding.sql(RENEW),
        _ => finding.sql(REBUILD),
    })
}

fn judge_full_text(index: &FullText, memories: Option<&MemoryFacts>) -> Vec<Finding> {
    match index.kind {
        FullTextKind::Absent => {
            let what = "there is no full-text index stm_fts: a search for words finds nothing";
            let advice = "the store's owner makes it when it opens the store";
            return vec![Finding::new(Severity::Info, "full_text_absent", what).advice(advice)];
        }
        FullTextKind::Opaque => {
            let what = "the full-text index keeps no list of its rows; it was not compared";
            return vec![Finding::new(Severity::Info, "full_text_opaque", what)];
        }
        FullTextKind::Contentless | FullTextKind::Stored | FullTextKind::External => {}
    }
    let mut found = Vec::new();
    found.extend(missing_entries(index));
    found.extend(orphan_entries(index));
    if found.is_empty() && memories.is_some() {
        let what = "the full-text index holds every live memory and nothing else";
        found.push(Finding::new(Severity::Ok, "full_text_complete", what));
    }
    found
}

fn missing_entries(index: &FullText) -> Option<Finding> {
    if index.missing.is_empty() {
        return None;
    }
    let count = counted(index.missing.count, "live memory is", "live memories are");
    let what = format!("{count} not in the full-text index: no search for words finds them");
    let mend = if index.kind == FullTextKind::External { REBUILD } else { FILL_INDEX };
    let finding = Finding::new(Severity::Warning, "full_text_missing", what);
    Some(finding.cases(&index.missing).sql(mend))
}

fn orphan_entries(index: &FullText) -> Option<Finding> {
    if index.orphans == 0 {
        return None;
    }
    let count = counted(index.orphans, "full-text entry has", "full-text entries have");
    let what = if index.orphans_ahead > 0 {
        format!("{count} no row; the next new memories will be found by these old words")
    } else {
        format!("{count} no row")
    };
    let severity = if index.orphans_ahead > 0 { Severity::Warning } else { Severity::Info };
    let mend = match index.kind {
        FullTextKind::External => REBUILD,
        FullTextKind::Stored => DROP_ORPHANS,
        _ => RENEW,
    };
    Some(Finding::new(severity, "full_text_orphans", what).count(index.orphans).sql(mend))
}

/// Maximum characters of a model's name.
const MODEL_CHARS: usize = 40;

/// Spaces that are named.
const SPACES_SHOWN: usize = 4;

const REFILL: &str = "then let the store's embedder fill what is missing";

const FILL: &str = "start the embeddings daemon of the store's owner (port 8030) and run `memfold embed DB --set \
                    embed.provider=daemon --execute`; the owner's own embed_pending does the same";

const DELETE_STALE: &str = "DELETE FROM embeddings WHERE source_type = 'stm' AND EXISTS (SELECT 1 FROM stm \
     WHERE stm.id = embeddings.source_id AND embeddings.content <> stm.content AND \
     (length(embeddings.content) < 500 OR \
     substr(stm.content, 1, length(embeddings.content)) <> embeddings.content));";

const DELETE_ORPHANS: &str = "DELETE FROM embeddings WHERE source_type = 'stm' AND source_id NOT IN \
                              (SELECT id FROM stm WHERE id IS NOT NULL);";

const DELETE_REPEATED: &str = "DELETE FROM embeddings WHERE source_type = 'stm' AND rowid NOT IN (SELECT max(rowid) \
     FROM embeddings WHERE source_type = 'stm' GROUP BY source_id);";

fn judge_vectors(memories: &MemoryFacts) -> Vec<Finding> {
    use Severity::{Info, Warning};
    let mut found: Vec<Finding> = [
        invalid(memories),
        skipped(memories, SkipReason::EmbeddingStale, Warning, "embeddings_stale", |count| {
            let count = counted(count, "embedding was", "embeddings were");
            format!("{count} made for an earlier text: those memories are compared by their words")
        })
        .map(|finding| finding.sql(DELETE_STALE).advice(REFILL)),
        skipped(memories, SkipReason::EmbeddingMissing, Warning, "embeddings_missing", |count| {
            let count = counted(count, "live memory has", "live memories have");
            format!("{count} no embedding: they are compared by their words")
        })
        .map(|finding| finding.advice(FILL)),
        shared(memories),
        skipped(memories, SkipReason::EmbeddingOrphan, Info, "embeddings_orphaned", |count| {
            let count = counted(count, "embedding belongs", "embeddings belong");
            format!("{count} to no memory; harmless")
        })
        .map(|finding| finding.sql(DELETE_ORPHANS)),
        skipped(memories, SkipReason::EmbeddingRepeated, Info, "embeddings_repeated", |count| {
            let count = counted(count, "memory has", "memories have");
            format!("{count} more than one embedding; the last one counts")
        })
        .map(|finding| finding.sql(DELETE_REPEATED)),
        spaces(memories),
    ]
    .into_iter()
    .flatten()
    .collect();
    let lacking = |(reason, _): (&SkipReason, &Found)| reason.leaves_out_vector();
    if !memories.skipped.iter().any(lacking) {
        let what = "every live memory has a usable vector";
        found.push(Finding::new(Severity::Ok, "embeddings_complete", what));
    }
    found
}

fn invalid(memories: &MemoryFacts) -> Option<Finding> {
    let kinds = [
        (SkipReason::EmbeddingLength, "of a wrong length"),
        (SkipReason::EmbeddingNotFinite, "not finite"),
        (SkipReason::EmbeddingZero, "zero"),
        (SkipReason::EmbeddingUnreadable, "no numbers at all"),
    ];
    let (count, parts) = parts(memories, &kinds);
    if count == 0 {
        return None;
    }
    let mut found = Found { count, examples: Vec::new() };
    for id in kinds.iter().filter_map(|(reason, _)| memories.skipped.get(reason)) {
        id.examples.iter().for_each(|id| found.illustrate(id));
    }
    let embeddings = counted(count, "embedding is", "embeddings are");
    let what = format!("{embeddings} no usable vector: {parts}");
    let finding = Finding::new(Severity::Warning, "embeddings_invalid", what).cases(&found);
    let ids = &memories.invalid_embeddings;
    let named = &ids[..ids.len().min(IDS_IN_SQL_MAX)];
    let finding = finding.sql(format!(
        "DELETE FROM embeddings WHERE source_type = 'stm' AND source_id IN ({});",
        sql_list(named)
    ));
    let finding = if named.len() < ids.len() {
        let (named, all) = (named.len(), ids.len());
        finding.advice(format!("this names {named} of {all}: run doctor again for the others"))
    } else {
        finding
    };
    Some(finding.advice(REFILL))
}

/// A statement names at most this many ids: terminals and SQLite accept a line of that length.
const IDS_IN_SQL_MAX: usize = 1_000;

fn shared(memories: &MemoryFacts) -> Option<Finding> {
    let found = &memories.shared_vectors;
    if found.is_empty() {
        return None;
    }
    let what = format!(
        "{} under many different texts ({}): an embedder's fault, they take no part",
        counted(found.count, "vector stands", "vectors stand"),
        counted(memories.sharing_memories, "memory", "memories")
    );
    let finding = Finding::new(Severity::Warning, "vectors_shared", what).cases(found);
    Some(finding.advice("find out why the embedder failed, and let it embed these texts again"))
}

fn spaces(memories: &MemoryFacts) -> Option<Finding> {
    if memories.spaces.len() < 2 {
        return None;
    }
    let mut names: Vec<String> = memories
        .spaces
        .iter()
        .take(SPACES_SHOWN)
        .map(|space| {
            let model = excerpt(&space.space.model, MODEL_CHARS);
            format!("{} of {model} with {} dimensions", space.vectors, space.space.dim)
        })
        .collect();
    if memories.spaces.len() > SPACES_SHOWN {
        names.push("…".to_owned());
    }
    let what =
        format!("vectors are compared within a model and dimension only: {}", names.join(", "));
    let finding = Finding::new(Severity::Info, "spaces_mixed", what);
    let advice = "embed everything with one model if all shall be compared";
    Some(finding.count(memories.spaces.len() as u64).advice(advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_hold_any_id() {
        assert_eq!(sql_list(&["a".to_owned(), "it's".to_owned()]), "'a', 'it''s'");
        assert_eq!(sql_text("a\u{1b}"), "CAST(x'611b' AS TEXT)");
    }

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

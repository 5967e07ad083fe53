//! `memfold doctor`: checks a store and suggests fixes.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::{self, Args, ValueHint};
use memfold::ops::StorePath;
use memfold::ops::{self, Mirrored, Settings};
use memfold_core::policy::defaults::SHARED_VECTOR_TEXTS_MAX;
use memfold_core::report::shell_words;
use memfold_core::{SkipReason, Snapshot};
use memfold_guard::text::excerpt;
use memfold_index::NoProgress;
use memfold_store::brain_db::{
    Checkup, Finding, Health, HealthStatus, Mend, OpenOptions, Rival, Severity, findings, health,
};
use memfold_store::{LoadRequest, StoreError};
use serde::Serialize;

use crate::args::{GlobalArgs, store_path};
use crate::context::open_store;
use crate::failure::{Exit, Failure};
use crate::printer::{self, Printer, table};
use crate::progress::Bars;
use crate::writing::{self, counted};

/// Maximum characters of a model's name.
const MODEL_CHARS: usize = 60;

/// `memfold doctor`
#[derive(Debug, Args)]
#[command(
    after_help = "With --health the exit codes are those that monitors expect: 0 ok, 1 warning, 2 critical."
)]
pub(crate) struct DoctorArgs {
    /// The store: a brain.db, or one of another kind (memory.jsonl, …)
    #[arg(value_parser = store_path(), value_hint = ValueHint::AnyPath)]
    pub(crate) db: StorePath,
    /// Print one line, such as `OK | STM:377 | live:366`, and exit with 0 ok, 1 warning or 2 critical
    #[arg(long)]
    pub(crate) health: bool,
    /// Make the indexes of a memory folder (`_index.json`) anew where they are not up to date
    #[arg(long, conflicts_with = "health")]
    pub(crate) rebuild_indexes: bool,
    /// Judge as if it were this time (RFC 3339) [default: the clock]
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<String>,
}

pub(crate) fn run(
    global: &GlobalArgs,
    args: &DoctorArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    if args.health {
        return health_line(global, args, printer);
    }
    if args.rebuild_indexes && args.db.mirrored().is_none() {
        return Err(Failure::usage(
            format!("--rebuild-indexes: {} is a brain.db", args.db.display()),
            "it is for memory folders in JSON files; the index of a brain.db: memfold index build",
        ));
    }
    let settings = Settings::load(&global.sources(), Some(&args.db), &[])?;
    settings.show_notices(&printer);
    let checkup = examine(args, &settings, printer)?;
    let mut findings = findings(&checkup.facts, &writing::path_word(args.db.named()));
    findings.splice(
        0..0,
        unread(args).map(|what| Finding::new(Severity::Critical, "nothing_read", what)),
    );
    if args.db.mirrored().is_some() {
        findings.iter_mut().for_each(of_mirror);
    }
    if global.json {
        printer.document(&DoctorDocument::new(&checkup, &findings))?;
    } else {
        let view = View { checkup: &checkup, findings: &findings };
        printer.data(&view.to_text(&writing::path_word(args.db.named())))?;
    }
    match &checkup.loaded {
        Ok(_) => Ok(Exit::Done),
        Err(error) => Err(unreadable(args, error)),
    }
}

/// A missing part that a store of another kind does not need is a remark, and no statement is for
/// its mirror.
fn of_mirror(finding: &mut Finding) {
    if ["times_unreadable", "embeddings_missing"].contains(&finding.code) {
        finding.severity = Severity::Info;
        finding.examples.clear();
    }
    finding.mend.retain(|mend| !matches!(mend, Mend::Sql(_)));
}

/// Reports that nothing of a store of another kind could be read.
fn unread(args: &DoctorArgs) -> Option<String> {
    let Mirrored { kind, unread, .. } = args.db.mirrored()?;
    let count = counted((*unread)? as u64, "place", "places");
    Some(format!("nothing of the store could be read as {kind}: {count} left out"))
}

fn examine(args: &DoctorArgs, settings: &Settings, printer: Printer) -> Result<Checkup, Failure> {
    let store = open_store(&args.db, settings)?;
    let time_zone = settings.time_zone()?;
    let now = ops::now(args.now.as_deref(), &time_zone)?;
    let request = LoadRequest { time_zone: &time_zone, now, progress: &Bars::new(printer) };
    let shared_texts = SHARED_VECTOR_TEXTS_MAX;
    store.checkup(&request, shared_texts).map_err(|error| unreadable(args, &error))
}

fn unreadable(args: &DoctorArgs, error: &StoreError) -> Failure {
    Failure::of(&format!("read {}", args.db.display()), error)
}

struct View<'a> {
    checkup: &'a Checkup,
    findings: &'a [Finding],
}

impl View<'_> {
    fn to_text(&self, store: &str) -> String {
        let mut text = match &self.checkup.loaded {
            Ok(snapshot) => self.contents(snapshot) + "\n",
            Err(_) => String::new(),
        };
        text.push_str(&listing(self.findings, store, printer::is_terminal()));
        text
    }

    fn contents(&self, snapshot: &Snapshot) -> String {
        let mut text = format!(
            "{}, {} live, {} of them with a usable vector\n",
            writing::counted(snapshot.rows_total, "memory", "memories"),
            snapshot.live_count(),
            snapshot.with_vector_count()
        );
        for (space, vectors) in snapshot.spaces.iter().zip(&self.checkup.vectors) {
            text.push_str(&format!(
                "{vectors} {} of {} with {} dimensions\n",
                if *vectors == 1 { "vector" } else { "vectors" },
                excerpt(&space.model, MODEL_CHARS),
                space.dim
            ));
        }
        if !snapshot.skipped.is_empty() {
            text.push('\n');
            text.push_str(&skipped_table(snapshot));
        }
        for note in &snapshot.notes {
            text.push_str(&format!("note: {note}\n"));
        }
        text
    }
}

fn skipped_table(snapshot: &Snapshot) -> String {
    let rows = snapshot.skipped.iter().map(|(reason, count)| {
        let name = serde_json::to_value(reason).unwrap_or_default();
        let name = name.as_str().unwrap_or_default().replace('_', " ");
        let example = snapshot.skip_examples.get(reason).cloned().unwrap_or_default();
        vec![name, count.to_string(), example]
    });
    table(&["left out or limited", "rows", "for example"], rows.collect())
}

/// Prints the line, or the same as a document.
fn health_line(global: &GlobalArgs, args: &DoctorArgs, printer: Printer) -> Result<Exit, Failure> {
    // A monitor reads one line, after any failure too.
    let mut health = look(global, args)
        .unwrap_or_else(|failure| Health::unknown(HealthStatus::Critical, &failure.message));
    if let Some(reason) = unread(args) {
        health = Health::unknown(HealthStatus::Critical, &reason);
    }
    if global.json {
        printer.document(&HealthDocument::of(&health))?;
    } else {
        printer.data(&(health.line() + "\n"))?;
    }
    Ok(exit_of(health.status))
}

fn look(global: &GlobalArgs, args: &DoctorArgs) -> Result<Health, Failure> {
    let settings = Settings::load(&global.sources(), Some(&args.db), &[])?;
    let time_zone = settings.time_zone()?;
    let now = ops::now(args.now.as_deref(), &time_zone)?;
    let request = LoadRequest { time_zone: &time_zone, now, progress: &NoProgress };
    let timeout = Duration::from_millis(settings.configuration.settings.busy_timeout_ms.into());
    Ok(health(&args.db, OpenOptions::default().busy_timeout(timeout), &request))
}

/// Monitors expect 0, 1 and 2 for ok, warning and critical, which elsewhere stand for other things.
const fn exit_of(status: HealthStatus) -> Exit {
    match status {
        HealthStatus::Ok => Exit::Done,
        HealthStatus::Warning => Exit::Failure,
        HealthStatus::Critical => Exit::Usage,
    }
}

/// Lines are at most so wide, unless one word or a command is wider.
const COLUMNS: usize = 80;

/// Examples of each finding that are displayed.
const EXAMPLES_SHOWN: usize = 3;

/// Maximum characters of an example.
const EXAMPLE_CHARS: usize = 100;

/// Returns the findings by severity, the worst first.
///
/// Statements are wrapped between words on a terminal; elsewhere each is one line.
fn listing(findings: &[Finding], store: &str, is_folded: bool) -> String {
    let columns = if is_folded { COLUMNS } else { usize::MAX };
    let mut lines = vec![summary(findings)];
    for (severity, heading) in [
        (Severity::Critical, "critical"),
        (Severity::Warning, "warnings"),
        (Severity::Info, "remarks"),
        (Severity::Ok, "as it should be"),
    ] {
        let of_it: Vec<_> = findings.iter().filter(|f| f.severity == severity).collect();
        if !of_it.is_empty() {
            lines.extend([String::new(), heading.to_owned()]);
        }
        of_it.into_iter().for_each(|finding| lines.extend(finding_lines(finding, columns)));
    }
    let has_sql = |finding: &Finding| finding.mend.iter().any(|m| matches!(m, Mend::Sql(_)));
    if findings.iter().any(has_sql) {
        let text = format!(
            "Statements (sql) are for `{}`; stop the programs that write to the store, and \
             keep a copy of it, before you run one.",
            shell_words(&["sqlite3", store])
        );
        lines.push(String::new());
        lines.extend(wrapped(&excerpt(&text, 1000), "", "", COLUMNS));
    }
    lines.join("\n") + "\n"
}

fn summary(findings: &[Finding]) -> String {
    let count = |severity| findings.iter().filter(|f| f.severity == severity).count();
    let named = [
        (count(Severity::Critical), "critical finding", "critical findings"),
        (count(Severity::Warning), "warning", "warnings"),
        (count(Severity::Info), "remark", "remarks"),
    ];
    let parts = named
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }));
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { "nothing is wrong with this store".to_owned() } else { parts.join(", ") }
}

fn finding_lines(finding: &Finding, columns: usize) -> Vec<String> {
    let mut lines = wrapped(&finding.what, "  ", "  ", COLUMNS);
    let shown: Vec<String> = finding
        .examples
        .iter()
        .take(EXAMPLES_SHOWN)
        .map(|example| excerpt(example, EXAMPLE_CHARS))
        .collect();
    if !shown.is_empty() {
        lines.extend(wrapped(&shown.join(", "), "      such as ", "      ", COLUMNS));
    }
    for mend in &finding.mend {
        match mend {
            Mend::Advice(text) => {
                lines.extend(wrapped(text, "      mend: ", "            ", COLUMNS))
            }
            Mend::Sql(text) => lines.extend(wrapped(text, "      sql:  ", "            ", columns)),
            // A shell would take a broken line for two commands.
            Mend::Command(line) => lines.push(format!("      run:  {line}")),
        }
    }
    lines
}

fn wrapped(text: &str, first: &str, indent: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in text.split(' ') {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > columns {
            lines.push(std::mem::replace(&mut line, indent.to_owned()));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line);
    lines
}

/// `memfold doctor --json`. Unreadable values are `null`.
#[derive(Debug, Serialize)]
struct DoctorDocument<'a> {
    schema_version: u32,
    store_id: Option<&'a str>,
    /// Rows in the memory table.
    memories: Option<u64>,
    /// Live memories.
    live: Option<u64>,
    /// Live memories with a valid vector.
    with_embedding: Option<u64>,
    /// Rows and embeddings left out or limited, by reason.
    skipped: Option<&'a BTreeMap<SkipReason, u64>>,
    /// One example of each reason.
    examples: Option<&'a BTreeMap<SkipReason, String>>,
    /// Models and their vectors.
    spaces: Option<Vec<SpaceDocument<'a>>>,
    /// Traces of other consolidators.
    rivals: Vec<RivalDocument<'a>>,
    notes: Option<&'a [String]>,
    findings: Vec<FindingDocument<'a>>,
}

/// The vectors of a model.
#[derive(Debug, Serialize)]
struct SpaceDocument<'a> {
    model: &'a str,
    /// Components of each vector.
    dim: u32,
    vectors: u64,
}

/// A trace of another consolidator.
#[derive(Debug, Serialize)]
struct RivalDocument<'a> {
    /// Where it was found.
    place: &'a str,
    /// Its meaning.
    what: &'a str,
    /// How many rows show it; `null` where it is not rows that do.
    rows: Option<u64>,
}

/// One thing that is as it should be, or is not.
#[derive(Debug, Serialize)]
struct FindingDocument<'a> {
    /// `ok`, `info`, `warning` or `critical`.
    severity: &'static str,
    /// Which kind of finding.
    code: &'a str,
    /// The finding, in one sentence. It quotes no text of the store.
    what: &'a str,
    /// How many cases there are, where cases can be counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    /// The first cases, as the store spells them.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    examples: &'a [String],
    /// The steps of the fix.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mend: Vec<MendDocument<'a>>,
}

/// A step of a fix.
#[derive(Debug, Serialize)]
struct MendDocument<'a> {
    /// `command` (a line for a POSIX shell), `sql` (a statement to run on the store) or `advice`.
    kind: &'static str,
    text: &'a str,
}

/// `memfold doctor --health --json`. Unreadable values are `null`.
#[derive(Debug, Serialize)]
struct HealthDocument<'a> {
    schema_version: u32,
    /// `ok`, `warning` or `critical`.
    status: String,
    /// Why it is not ok.
    reasons: &'a [String],
    /// Rows in the memory table.
    memories: Option<u64>,
    /// Memories that may take part in a consolidation.
    live: Option<u64>,
    /// Memories with a row for a vector, valid or not.
    with_embedding_row: Option<u64>,
    /// Memories that a consolidation merged or archived.
    consolidated: Option<u64>,
    /// Pairs that wait for a person.
    open_flags: Option<u64>,
    store_bytes: Option<u64>,
    /// Bytes of the write-ahead log.
    log_bytes: Option<u64>,
    /// Whether the check went through the whole file, or only through the memory table.
    whole_file_checked: Option<bool>,
    /// The line that is printed without `--json`.
    line: String,
}

impl<'a> DoctorDocument<'a> {
    fn new(checkup: &'a Checkup, findings: &'a [Finding]) -> Self {
        let snapshot = checkup.loaded.as_ref().ok();
        Self {
            schema_version: 1,
            store_id: snapshot.map(|snapshot| &*snapshot.store_id),
            memories: snapshot.map(|snapshot| snapshot.rows_total),
            live: snapshot.map(Snapshot::live_count),
            with_embedding: snapshot.map(Snapshot::with_vector_count),
            skipped: snapshot.map(|snapshot| &snapshot.skipped),
            examples: snapshot.map(|snapshot| &snapshot.skip_examples),
            spaces: snapshot.map(|snapshot| spaces(checkup, snapshot)),
            rivals: checkup.facts.rivals.iter().map(RivalDocument::of).collect(),
            notes: snapshot.map(|snapshot| &*snapshot.notes),
            findings: findings.iter().map(FindingDocument::of).collect(),
        }
    }
}

fn spaces<'a>(checkup: &Checkup, snapshot: &'a Snapshot) -> Vec<SpaceDocument<'a>> {
    let spaces = snapshot.spaces.iter().zip(&checkup.vectors);
    spaces
        .map(|(space, &vectors)| SpaceDocument { model: &space.model, dim: space.dim, vectors })
        .collect()
}

impl<'a> RivalDocument<'a> {
    fn of(Rival { place, what, rows, .. }: &'a Rival) -> Self {
        Self { place, what, rows: *rows }
    }
}

impl<'a> FindingDocument<'a> {
    fn of(finding: &'a Finding) -> Self {
        let Finding { severity, code, what, count, examples, mend } = finding;
        let mend = mend.iter().map(MendDocument::of).collect();
        Self { severity: severity.name(), code, what, count: *count, examples, mend }
    }
}

impl<'a> MendDocument<'a> {
    fn of(mend: &'a Mend) -> Self {
        let (kind, text) = match mend {
            Mend::Command(line) => ("command", line),
            Mend::Sql(statement) => ("sql", statement),
            Mend::Advice(words) => ("advice", words),
        };
        Self { kind, text }
    }
}

impl<'a> HealthDocument<'a> {
    fn of(health: &'a Health) -> Self {
        let counts = health.counts.as_ref();
        Self {
            schema_version: 1,
            status: health.status.word().to_lowercase(),
            reasons: &health.reasons,
            memories: counts.map(|counts| counts.figures.memories),
            live: counts.map(|counts| counts.live),
            with_embedding_row: counts.map(|counts| counts.figures.embedded),
            consolidated: counts.map(|counts| counts.figures.consolidated),
            open_flags: counts.map(|counts| counts.open_flags),
            store_bytes: counts.map(|counts| counts.store_bytes),
            log_bytes: counts.map(|counts| counts.log_bytes),
            whole_file_checked: counts.map(|counts| counts.is_whole_file_checked),
            line: health.line(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(severity: Severity, mend: Vec<Mend>) -> Finding {
        let examples = vec!["a\u{1b}".to_owned(); 5];
        Finding { severity, code: "c", what: "what is".to_owned(), count: Some(5), examples, mend }
    }

    #[test]
    fn lines_are_narrow_and_escaped() {
        let sql_of = |times| Mend::Sql("SELECT a, b ".repeat(times));
        let text = listing(&[finding(Severity::Warning, vec![sql_of(20)])], "brain.db", true);
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert!(text.starts_with("1 warning\n\nwarnings\n  what is\n"), "{text}");
        assert!(text.contains("such as a\\u{1b}, a\\u{1b}, a\\u{1b}\n"), "{text}");
        let whole = listing(&[finding(Severity::Warning, vec![sql_of(20)])], "my brain.db", false);
        assert!(whole.contains(&format!("sql:  {}\n", "SELECT a, b ".repeat(20))), "{whole}");
        assert!(whole.contains("`sqlite3 'my brain.db'`"), "{whole}");
        assert!(text.contains("Statements (sql) are for `sqlite3 brain.db`"), "{text}");
    }

    #[test]
    fn a_sound_store_says_so() {
        let text = listing(&[finding(Severity::Ok, Vec::new())], "brain.db", true);
        assert!(
            text.starts_with("nothing is wrong with this store\n\nas it should be\n"),
            "{text}"
        );
        assert!(!text.contains("sql"));
    }
}

//! `memfold doctor`: checks a store and suggests fixes.

use clap::{self, Args, ValueHint};
use memfold::ops::{self, Examined, HealthDocument, StorePath};
use memfold_core::Snapshot;
use memfold_core::policy::name_of;
use memfold_core::report::shell_words;
use memfold_guard::text::excerpt;
use memfold_store::brain_db::{Finding, HealthStatus, Mend, Severity};

use crate::args::store_path;
use crate::call::Call;
use crate::failure::{Exit, Failure};
use crate::printer::{self, COLUMNS, table};
use crate::progress::Bars;
use crate::writing::{counted, path_word};

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

pub(crate) fn run(call: Call<'_>, args: &DoctorArgs) -> Result<Exit, Failure> {
    if args.health {
        let health = ops::store_health(&args.db, &call.global.sources, args.now.as_deref());
        call.show(&HealthDocument::of(&health), || health.line() + "\n")?;
        return Ok(exit_of(health.status));
    }
    if args.rebuild_indexes && args.db.mirrored().is_none() {
        return Err(Failure::usage(
            format!("--rebuild-indexes: {} is a brain.db", args.db.display()),
            "it is for memory folders in JSON files; the index of a brain.db: memfold index build",
        ));
    }
    let settings = call.settings(&args.db)?;
    let bars = Bars::new(call.printer);
    let examined = ops::doctor(&args.db, &settings, args.now.as_deref(), &bars)?;
    drop(bars);
    call.show(&examined.document(), || to_text(&examined, &path_word(args.db.named())))?;
    match &examined.checkup.loaded {
        Ok(_) => Ok(Exit::Done),
        Err(error) => Err(Failure::of(&format!("read {}", args.db.display()), error)),
    }
}

fn to_text(examined: &Examined, store: &str) -> String {
    let contents = match &examined.checkup.loaded {
        Ok(snapshot) => contents(snapshot, &examined.checkup.vectors) + "\n",
        Err(_) => String::new(),
    };
    contents + &listing(&examined.findings, store, printer::is_terminal())
}

fn contents(snapshot: &Snapshot, vectors: &[u64]) -> String {
    let mut text = format!(
        "{}, {} live, {} of them with a usable vector\n",
        counted(snapshot.rows_total, "memory", "memories"),
        snapshot.live_count(),
        snapshot.with_vector_count()
    );
    for (space, vectors) in snapshot.spaces.iter().zip(vectors) {
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

fn skipped_table(snapshot: &Snapshot) -> String {
    let rows = snapshot.skipped.iter().map(|(reason, count)| {
        let name = name_of(reason).replace('_', " ");
        let example = snapshot.skip_examples.get(reason).cloned().unwrap_or_default();
        vec![name, count.to_string(), example]
    });
    table(&["left out or limited", "rows", "for example"], rows.collect())
}

/// Monitors expect 0, 1 and 2 for ok, warning and critical, which elsewhere stand for other things.
const fn exit_of(status: HealthStatus) -> Exit {
    match status {
        HealthStatus::Ok => Exit::Done,
        HealthStatus::Warning => Exit::Failure,
        HealthStatus::Critical => Exit::Usage,
    }
}

/// Examples of each finding that are displayed.
const EXAMPLES_SHOWN: usize = 3;

/// Maximum characters of an example.
const EXAMPLE_CHARS: usize = 100;

/// Returns the findings by severity, the worst first.
///
/// Statements are wrapped between words on a terminal; elsewhere each is one line.
fn listing(findings: &[Finding], store: &str, is_wrapped: bool) -> String {
    let columns = if is_wrapped { COLUMNS } else { usize::MAX };
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

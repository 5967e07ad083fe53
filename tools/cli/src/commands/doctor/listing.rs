//! Findings for people: by severity, with what mends each under it.

use memfold_model::text::excerpt;
use memfold_store::brain_db::{Finding, Mend, Severity};

use crate::commands::writing;

/// Lines are at most so wide, unless one word or a command is wider.
const COLUMNS: usize = 80;

/// Examples that are shown of each finding.
const EXAMPLES_SHOWN: usize = 3;

/// Examples are cut after so many characters.
const EXAMPLE_CHARS: usize = 100;

/// Returns the findings by severity, the worst first.
///
/// Statements are folded between words on a terminal; elsewhere each is one line.
pub(super) fn listing(findings: &[Finding], store: &str, is_folded: bool) -> String {
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
            writing::command_line(&["sqlite3", store])
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

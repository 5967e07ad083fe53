//! The lines of a run's log, for `grep` and for programs: `CONSOLIDATE/<EVENT> key=value …`.
//!
//! A value that holds white space, quotes, `=` or anything a terminal could be deceived by stands in double quotes,
//! with `\"`, `\\`, `\n`, `\r`, `\t` and `\u{…}` in it. In lists, `\,` is a comma that belongs to an item.

use std::fmt::Write as _;
use std::path::Path;

use super::{Detected, Executed, Mode, Planned, Ruling};
use crate::memory::MemoryId;
use memfold_guard::text::is_deceptive;

/// A run begins.
#[must_use]
pub fn start(run_id: &str, mode: Mode, config_hash: &str) -> String {
    Line::new("START")
        .text("run_id", run_id)
        .text("mode", mode.name())
        .text("config_hash", config_hash)
        .end()
}

/// Near memories were found.
#[must_use]
pub fn detect(detected: &Detected) -> String {
    Line::new("DETECT")
        .count("clusters", detected.clusters)
        .count("contradiction_pairs", detected.contradiction_pairs)
        .end()
}

/// The actions are decided.
#[must_use]
pub fn plan(planned: &Planned) -> String {
    let by_judges = ["rewrite", "summarize", "supersede"];
    let said = planned.by_type().into_iter();
    let said = said.filter(|(name, count)| *count > 0 || !by_judges.contains(name));
    said.fold(Line::new("PLAN"), |line, (name, count)| line.count(name, count)).end()
}

/// A judge decided about memories, or did not.
#[must_use]
pub fn judge(ruling: &Ruling) -> String {
    Line::new("JUDGE")
        .text("action", &ruling.action)
        .list("ids", ruling.ids.iter().map(String::as_str))
        .text("judge", &ruling.judge)
        .text("reason", &ruling.reason)
        .end()
}

/// A report was written.
#[must_use]
pub fn report(path: &Path) -> String {
    Line::new("REPORT").text("path", &path.to_string_lossy()).end()
}

/// A stage ended after so many milliseconds; `None`: it begins.
#[must_use]
pub fn stage<'a>(
    name: &str,
    milliseconds: Option<f64>,
    fields: impl IntoIterator<Item = (&'a str, String)>,
) -> String {
    let line = Line(format!("STAGE/{name}"));
    let line = match milliseconds {
        Some(milliseconds) => line.text("ms", &format!("{milliseconds:.3}")),
        None => line.word("begin"),
    };
    fields.into_iter().fold(line, |line, (key, value)| line.text(key, &value)).end()
}

/// Writing to the store begins.
#[must_use]
pub fn execute(run_id: &str) -> String {
    Line::new("EXECUTE").word("begin").text("run_id", run_id).end()
}

/// A unit was left alone: a memory of it had changed since the plan.
#[must_use]
pub fn stale(actions: &str, reason: &str) -> String {
    Line::new("STALE").text("actions", actions).text("reason", reason).end()
}

/// A unit was rolled back.
#[must_use]
pub fn failed(actions: &str, error: &str) -> String {
    Line::new("ERROR").text("actions", actions).text("error", error).end()
}

/// Memories were merged into another one.
#[must_use]
pub fn merge(canonical: &MemoryId, merged_from: &[MemoryId], rule: &str) -> String {
    Line::new("MERGE")
        .text("canonical", canonical.as_str())
        .list("merged_from", merged_from.iter().map(MemoryId::as_str))
        .text("rule", rule)
        .end()
}

/// A new memory took the place of others.
#[must_use]
pub fn rewrite(new: &MemoryId, sources: &[MemoryId], rule: &str) -> String {
    Line::new("REWRITE")
        .text("new", new.as_str())
        .list("sources", sources.iter().map(MemoryId::as_str))
        .text("rule", rule)
        .end()
}

/// A new memory summarises others.
#[must_use]
pub fn summary(new: &MemoryId, sources: &[MemoryId]) -> String {
    let sources = sources.iter().map(MemoryId::as_str);
    Line::new("SUMMARY").text("new", new.as_str()).list("sources", sources).end()
}

/// A memory holds in the place of an older one.
#[must_use]
pub fn supersede(newer: &MemoryId, older: &MemoryId, reason: &str) -> String {
    Line::new("SUPERSEDE")
        .text("newer", newer.as_str())
        .text("older", older.as_str())
        .text("reason", reason)
        .end()
}

/// A memory's importance was raised.
#[must_use]
pub fn promote(id: &MemoryId, from: f64, to: f64, rule: &str) -> String {
    Line::new("PROMOTE")
        .text("id", id.as_str())
        .text("from", &from.to_string())
        .text("to", &to.to_string())
        .text("rule", rule)
        .end()
}

/// A memory was archived.
#[must_use]
pub fn archive(id: &MemoryId, reason: &str, rule: &str) -> String {
    Line::new("ARCHIVE").text("id", id.as_str()).text("reason", reason).text("rule", rule).end()
}

/// A contradictory pair was flagged.
#[must_use]
pub fn contradiction<S: AsRef<str>>(a: &MemoryId, b: &MemoryId, signals: &[S]) -> String {
    Line::new("CONTRADICTION")
        .text("a", a.as_str())
        .text("b", b.as_str())
        .list("signals", signals.iter().map(AsRef::as_ref))
        .end()
}

/// The run ended, and all it was to write is written: `ok`, or `partial` where units were skipped or rolled back, or
/// a file could not be written.
#[must_use]
pub fn done(executed: Executed, are_files_written: bool) -> String {
    let is_whole = executed.stale == 0 && executed.failed == 0 && are_files_written;
    Line::new("DONE")
        .word(if is_whole { "ok" } else { "partial" })
        .count("applied", executed.applied)
        .count("stale", executed.stale)
        .count("failed", executed.failed)
        .end()
}

/// A run failed, or was interrupted.
#[must_use]
pub fn error(message: &str) -> String {
    Line::new("ERROR").text("error", message).end()
}

struct Line(String);

impl Line {
    fn new(event: &str) -> Self {
        Self(format!("CONSOLIDATE/{event}"))
    }

    fn word(mut self, word: &str) -> Self {
        self.0.push(' ');
        self.0.push_str(word);
        self
    }

    fn count(self, key: &str, count: u64) -> Self {
        self.word(&format!("{key}={count}"))
    }

    fn text(self, key: &str, value: &str) -> Self {
        self.value(key, &escaped(value, ""))
    }

    fn list<'a>(self, key: &str, items: impl Iterator<Item = &'a str>) -> Self {
        let items: Vec<String> = items.map(|item| escaped(item, ",")).collect();
        self.value(key, &items.join(","))
    }

    /// Takes a value that is escaped.
    fn value(self, key: &str, value: &str) -> Self {
        let is_bare = !value.is_empty() && !value.contains([' ', '\\', '"', '=']);
        self.word(&if is_bare { format!("{key}={value}") } else { format!("{key}=\"{value}\"") })
    }

    fn end(self) -> String {
        self.0
    }
}

/// Escapes characters that would end or forge a value, and the characters of `also`.
fn escaped(value: &str, also: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for character in value.chars() {
        match character {
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            '"' | '\\' => escaped.extend(['\\', character]),
            ' ' => escaped.push(' '),
            _ if also.contains(character) => escaped.extend(['\\', character]),
            _ if is_deceptive(character) || character.is_whitespace() => {
                write!(escaped, "\\u{{{:x}}}", u32::from(character))
                    .expect("a String takes every character");
            }
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> MemoryId {
        MemoryId::new(text)
    }

    #[test]
    fn a_run_reads_from_start_to_end() {
        let planned = Planned {
            merge: 2,
            promote: 1,
            archive: 0,
            flag_contradiction: 3,
            propose_merge: 5,
            noop: 4,
            ..Planned::default()
        };
        let executed = Executed { applied: 6, stale: 0, failed: 0 };
        let lines = [
            start("20260630T120000Z-00112233", Mode::DryRun, "sha256:ab"),
            plan(&planned),
            report(Path::new("reports/r.json")),
            execute("20260630T120000Z-00112233"),
            stale("a3+a4", "stm_2 changed"),
            failed("a5", "disk full"),
            merge(&id("stm_1"), &[id("stm_2"), id("stm_3")], "R1-exact-duplicate-merge"),
            promote(&id("stm_4"), 2.0, 2.5, "R3"),
            archive(&id("stm_5"), "low_utility", "R4"),
            contradiction(&id("stm_6"), &id("stm_7"), &["number", "polarity"]),
            done(executed, true),
            done(executed, false),
            done(Executed { stale: 1, ..executed }, true),
            error("disk full"),
        ];
        let expected = [
            "CONSOLIDATE/START run_id=20260630T120000Z-00112233 mode=dry_run config_hash=sha256:ab",
            "CONSOLIDATE/PLAN merge=2 promote=1 archive=0 flag_contradiction=3 propose_merge=5 noop=4",
            "CONSOLIDATE/REPORT path=reports/r.json",
            "CONSOLIDATE/EXECUTE begin run_id=20260630T120000Z-00112233",
            "CONSOLIDATE/STALE actions=a3+a4 reason=\"stm_2 changed\"",
            "CONSOLIDATE/ERROR actions=a5 error=\"disk full\"",
            "CONSOLIDATE/MERGE canonical=stm_1 merged_from=stm_2,stm_3 rule=R1-exact-duplicate-merge",
            "CONSOLIDATE/PROMOTE id=stm_4 from=2 to=2.5 rule=R3",
            "CONSOLIDATE/ARCHIVE id=stm_5 reason=low_utility rule=R4",
            "CONSOLIDATE/CONTRADICTION a=stm_6 b=stm_7 signals=number,polarity",
            "CONSOLIDATE/DONE ok applied=6 stale=0 failed=0",
            "CONSOLIDATE/DONE partial applied=6 stale=0 failed=0",
            "CONSOLIDATE/DONE partial applied=6 stale=1 failed=0",
            "CONSOLIDATE/ERROR error=\"disk full\"",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn no_value_can_forge_a_line_or_a_key() {
        let evil = id("a\nCONSOLIDATE/DONE ok \u{1b}[31m rule=\"x\" \u{202e}");
        let line = archive(&evil, "", "r");
        let expected = "CONSOLIDATE/ARCHIVE id=\"a\\nCONSOLIDATE/DONE ok \\u{1b}[31m \
                        rule=\\\"x\\\" \\u{202e}\" reason=\"\" rule=r";
        assert_eq!(line, expected);
        let comma = merge(&id("a,b"), &[id("c,d"), id("e")], "r");
        assert_eq!(comma, "CONSOLIDATE/MERGE canonical=a,b merged_from=\"c\\,d,e\" rule=r");
    }
}

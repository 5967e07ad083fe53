//! The records of one note: YAML between two fences (`---`), then Markdown.
//!
//! A body may hold rules of three hyphens. A fence opens a record only where the lines up to the next fence
//! read like front matter, so that those rules stay in their body.

use serde::Deserialize;
use serde::de::{self, SeqAccess, Visitor};
use std::fmt;

/// Longest front matter that is parsed, as the owner has it.
pub(super) const FRONT_MATTER_BYTES_MAX: usize = 65_536;
/// Keys of every record; two of them make front matter of the lines between two fences.
const USUAL_KEYS: [&str; 3] = ["type:", "timestamp:", "summary:"];
const USUAL_KEYS_MIN: usize = 2;

/// A record as it stands in a note.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoteRecord<'a> {
    /// The position that capturing gave it.
    pub(super) capture_index: usize,
    pub(super) front: FrontMatter,
    /// The text below the front matter, without blank lines around it.
    pub(super) body: &'a str,
    /// The record exactly as written, without the blank lines after it.
    pub(super) raw: &'a str,
}

/// Something in a note that is no record.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    /// The number of the line it begins with.
    pub(super) line: usize,
    pub(super) reason: String,
}

/// What a record says of itself.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct FrontMatter {
    #[serde(rename = "type", default)]
    pub(super) kind: Option<String>,
    #[serde(default)]
    pub(super) timestamp: Option<String>,
    #[serde(default)]
    pub(super) summary: Option<String>,
    #[serde(default)]
    pub(super) spec: Option<String>,
    #[serde(default)]
    pub(super) phase: Option<String>,
    #[serde(default)]
    pub(super) status: Option<String>,
    #[serde(default)]
    pub(super) tags: Words,
    #[serde(default)]
    pub(super) relates_to: Words,
}

/// A list of words, or one text with commas.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Words(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordsVisitor)
    }
}

struct WordsVisitor;

impl<'de> Visitor<'de> for WordsVisitor {
    type Value = Words;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of words")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Words, A::Error> {
        let mut words = Vec::new();
        while let Some(word) = items.next_element::<Option<String>>()? {
            words.extend(word.filter(|word| !word.trim().is_empty()));
        }
        Ok(Words(words))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Words, E> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        Ok(Words(words.map(str::to_owned).collect()))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Words, E> {
        Ok(Words::default())
    }

    fn visit_none<E: de::Error>(self) -> Result<Words, E> {
        Ok(Words::default())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Words, E> {
        Ok(Words(vec![number.to_string()]))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Words, E> {
        Ok(Words(vec![number.to_string()]))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Words, E> {
        Ok(Words(vec![number.to_string()]))
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Words, E> {
        Ok(Words(vec![flag.to_string()]))
    }
}

/// A fence: where its line begins, where the next one does, and its number.
#[derive(Debug, Clone, Copy)]
struct Fence {
    start: usize,
    end: usize,
    line: usize,
}

/// A stretch of a note that begins with front matter.
struct Piece {
    opening: Fence,
    content: Result<(FrontMatter, usize), String>,
}

/// Takes the records of a note apart.
pub(super) fn records(note: &str) -> (Vec<NoteRecord<'_>>, Vec<Malformed>) {
    let fences = fences(note);
    let pieces = pieces(note, &fences);
    let mut malformed = Vec::new();
    let first = pieces.first().map_or(note.len(), |piece| piece.opening.start);
    if !note[..first].trim().is_empty() {
        let reason = "no front matter (type, timestamp, summary between two lines ---)".to_owned();
        malformed.push(Malformed { line: 1, reason });
    }
    let mut records = Vec::new();
    let ends = pieces.iter().skip(1).map(|piece| piece.opening.start).chain([note.len()]);
    let ends: Vec<usize> = ends.collect();
    let mut free_index = 0;
    for (piece, end) in pieces.into_iter().zip(ends) {
        match piece.content {
            Ok((front, body_start)) => {
                // Fences with spaces or carriage returns are not counted by capturing.
                let capture_index = capture_index(note, piece.opening.start).max(free_index);
                free_index = capture_index + 1;
                records.push(NoteRecord {
                    capture_index,
                    front,
                    body: without_blank_lines(&note[body_start.min(end)..end]),
                    raw: note[piece.opening.start..end].trim_end(),
                });
            }
            Err(reason) => malformed.push(Malformed { line: piece.opening.line, reason }),
        }
    }
    (records, malformed)
}

/// Counts as capturing does: half of the rules before the record, rounded up.
fn capture_index(note: &str, start: usize) -> usize {
    if note[..start].trim().is_empty() {
        return 0;
    }
    // The owner looks at the note before it appends, without the line that opens the new record.
    note[..start].matches("\n---\n").count() / 2 + 1
}

fn fences(note: &str) -> Vec<Fence> {
    let mut fences = Vec::new();
    let mut start = 0;
    for (number, line) in note.split_inclusive('\n').enumerate() {
        let end = start + line.len();
        if line.trim_end() == "---" {
            fences.push(Fence { start, end, line: number + 1 });
        }
        start = end;
    }
    fences
}

fn pieces(note: &str, fences: &[Fence]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while let (Some(&opening), Some(closing)) = (fences.get(at), fences.get(at + 1)) {
        let between = &note[opening.end..closing.start];
        if !reads_like_front_matter(between) {
            at += 1;
            continue;
        }
        let content = front_matter(between).map(|front| (front, closing.end));
        // Where the front matter does not end, the closing fence may open the next record.
        at += if content.is_ok() { 2 } else { 1 };
        pieces.push(Piece { opening, content });
    }
    pieces
}

fn reads_like_front_matter(text: &str) -> bool {
    let has = |key: &&&str| text.lines().any(|line| line.starts_with(**key));
    USUAL_KEYS.iter().filter(has).count() >= USUAL_KEYS_MIN
}

fn front_matter(text: &str) -> Result<FrontMatter, String> {
    if text.len() > FRONT_MATTER_BYTES_MAX {
        let length = text.len();
        return Err(format!(
            "{length} bytes of front matter, at most {FRONT_MATTER_BYTES_MAX} are read"
        ));
    }
    let options = serde_saphyr::options! { with_snippet: false };
    let front: FrontMatter = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| format!("front matter is no YAML: {error}"))?;
    if front.summary.as_ref().is_none_or(|summary| summary.trim().is_empty()) {
        return Err("front matter without a summary".to_owned());
    }
    Ok(front)
}

/// Strips white space at the end and blank lines at the beginning; an indented first line stays so.
fn without_blank_lines(text: &str) -> &str {
    let text = text.trim_end();
    let content = text.len() - text.trim_start().len();
    text[..content].rfind('\n').map_or(text, |newline| &text[newline + 1..])
}

#[cfg(test)]
mod tests {
    use super::{Words, records};

    fn record(summary: &str, body: &str) -> String {
        format!(
            "---\ntype: decisions\ntimestamp: '2026-01-02T03:04:05+00:00'\nsummary: {summary}\n---\n\n{body}"
        )
    }

    #[test]
    fn one_record() {
        let note = "---\ntype: decisions\ntimestamp: 2026-01-02T03:04:05+00:00\nsummary: Use SQLite\nspec: 12\n\
                    phase: null\ntags:\n- db\n- 7\nrelates_to: a, b\nunknown: [1]\n---\n\n  indented\n\nlast  \n\n";
        let (found, malformed) = records(note);
        assert_eq!(malformed, []);
        let [record] = &found[..] else { panic!("{found:?}") };
        assert_eq!(record.front.summary.as_deref(), Some("Use SQLite"));
        assert_eq!(record.front.timestamp.as_deref(), Some("2026-01-02T03:04:05+00:00"));
        assert_eq!(record.front.spec.as_deref(), Some("12"));
        assert_eq!(record.front.phase, None);
        assert_eq!(record.front.tags, Words(vec!["db".to_owned(), "7".to_owned()]));
        assert_eq!(record.front.relates_to, Words(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(record.body, "  indented\n\nlast");
        assert_eq!(record.raw, note.trim_end());
    }

    #[test]
    fn several_records_and_rules_in_bodies() {
        let first = record("one", "above\n\n---\n\nbelow");
        let second = record("two", "a\n---\nb: c\n---\nd");
        let third = record("three", "");
        let note = format!("{first}\n\n{second}\n\n{third}");
        let (found, malformed) = records(&note);
        assert_eq!(malformed, []);
        let summaries: Vec<_> = found.iter().map(|r| r.front.summary.clone().unwrap()).collect();
        assert_eq!(summaries, ["one", "two", "three"]);
        assert_eq!(found[0].body, "above\n\n---\n\nbelow");
        assert_eq!(found[1].body, "a\n---\nb: c\n---\nd");
        assert_eq!(found[2].body, "");
        assert_eq!(found[1].raw, second);
        // 2 rules before the second record: 2 / 2 + 1; 6 before the third.
        let indexes: Vec<_> = found.iter().map(|record| record.capture_index).collect();
        assert_eq!(indexes, [0, 2, 4]);
    }

    #[test]
    fn appended_records_are_numbered_in_order() {
        let note = [record("a", "x"), record("b", "y"), record("c", "z")].join("\n\n");
        let indexes: Vec<_> = records(&note).0.iter().map(|record| record.capture_index).collect();
        assert_eq!(indexes, [0, 1, 2]);
    }

    #[test]
    fn malformed_records_have_reasons_and_hide_no_other() {
        let unclosed = "---\ntype: decisions\ntimestamp: x\nsummary: lost\n\nbody without: an: end";
        let broken = "---\ntype: [\nsummary: broken\n---\nbody";
        let empty = "---\ntype: decisions\nsummary: ''\n---\nbody";
        let long = format!("---\ntype: x\nsummary: {}\n---\n", "y".repeat(70_000));
        let good = record("good", "fine");
        let note = format!("stray text\n{unclosed}\n{good}\n\n{broken}\n\n{empty}\n{long}\n{good}");
        let (found, malformed) = records(&note);
        assert_eq!(found.len(), 2, "{malformed:?}");
        assert!(found.iter().all(|record| record.front.summary.as_deref() == Some("good")));
        let reasons: Vec<_> = malformed.iter().map(|m| m.reason.as_str()).collect();
        assert_eq!(reasons.len(), 5, "{reasons:?}");
        assert!(reasons[0].starts_with("no front matter"), "{reasons:?}");
        assert!(reasons[1].starts_with("front matter is no YAML"), "{reasons:?}");
        assert!(reasons[3].contains("without a summary"), "{reasons:?}");
        assert!(reasons[4].contains("65536"), "{reasons:?}");
    }

    #[test]
    fn other_line_ends_and_odd_notes() {
        let note = record("crlf", "body").replace('\n', "\r\n");
        let (found, malformed) = records(&note);
        assert_eq!((found.len(), malformed.len()), (1, 0));
        assert_eq!(found[0].body, "body");
        let two = format!("{note}\r\n\r\n{note}\r\n\r\n{note}");
        let indexes: Vec<_> = records(&two).0.iter().map(|record| record.capture_index).collect();
        assert_eq!(indexes, [0, 1, 2]);
        for odd in ["", "\n\n", "---", "---\n---", "---\n---\n---\n"] {
            let (found, _) = records(odd);
            assert_eq!(found.len(), 0, "{odd:?}");
        }
    }

    #[test]
    fn bombs_are_refused() {
        let mut bomb =
            String::from("---\ntype: x\nsummary: y\na: &a [x, x, x, x, x, x, x, x, x]\n");
        for (from, to) in ["a", "b", "c", "d", "e", "f", "g", "h"].windows(2).map(|w| (w[0], w[1]))
        {
            bomb.push_str(&format!("{to}: &{to} [*{from}, *{from}, *{from}, *{from}, *{from}, *{from}, *{from}, *{from}]\n"));
        }
        bomb.push_str("---\nbody");
        let (found, malformed) = records(&bomb);
        assert!(found.len() + malformed.len() == 1);
    }
}

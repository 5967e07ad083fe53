//! The records of a note, and their ids.
//!
//! A record is YAML between two fences (`---`), then Markdown. A body may hold rules of three hyphens. A fence opens a
//! record only where the lines up to the next fence read like front matter, so that those rules stay in their body.
//!
//! Capturing writes ids `namespace:<40 hex digits>:<index>`, reindexing writes `namespace:<7 hex digits>:<index>`, both
//! with `user:` before them in the user domain. They count differently where a body holds a rule: capturing counts the
//! rules of the note so far, reindexing counts records. Ours are of the first form, because it depends on nothing that
//! comes later in the note.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;

use serde::Deserialize;
use serde::de::{self, SeqAccess, Visitor};

/// Longest front matter that is parsed, as the owner has it.
const FRONT_MATTER_BYTES_MAX: usize = 65_536;
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
#[serde(default)]
pub(super) struct FrontMatter {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) timestamp: Option<String>,
    pub(super) summary: Option<String>,
    pub(super) spec: Option<String>,
    pub(super) phase: Option<String>,
    pub(super) status: Option<String>,
    pub(super) tags: Words,
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

/// Fewest digits by which a commit is named.
const SHA_DIGITS_MIN: usize = 4;
/// Digits of a whole SHA-1 name.
pub(super) const SHA_DIGITS: usize = 40;

/// Whose memories a repository holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Domain {
    Project,
    User,
}

/// The namespace and commit a record is attached to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) domain: Domain,
    pub(super) namespace: String,
    /// The commit's name, 40 hexadecimal digits.
    pub(super) commit: String,
}

/// Finds the id of a memory under any of its forms.
#[derive(Debug, Default)]
pub(super) struct Ids {
    /// The capture index of each record of a note, in the order of the note.
    notes: BTreeMap<Place, Vec<usize>>,
}

/// An id taken apart.
struct Parts<'a> {
    domain: Domain,
    namespace: &'a str,
    sha: String,
    index: usize,
}

impl Domain {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::User => "user",
        }
    }
}

impl Place {
    /// Returns the id of the record with this capture index.
    pub(super) fn id(&self, index: usize) -> String {
        let prefix = match self.domain {
            Domain::Project => "",
            Domain::User => "user:",
        };
        format!("{prefix}{}:{}:{index}", self.namespace, self.commit)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.domain == Domain::User {
            f.write_str("user: ")?;
        }
        write!(f, "{} {}", self.namespace, self.commit)
    }
}

impl Ids {
    /// Adds the next record of a note.
    pub(super) fn add(&mut self, place: &Place, capture_index: usize) {
        self.notes.entry(place.clone()).or_default().push(capture_index);
    }

    /// Returns the id of the record that `id` names, `None` where it names none or several.
    pub(super) fn resolve(&self, id: &str) -> Option<String> {
        let parts = Parts::of(id)?;
        let (place, indexes) = self.note(&parts)?;
        let by_position = indexes.get(parts.index).copied();
        let by_capture = indexes.contains(&parts.index).then_some(parts.index);
        let index = if parts.sha.len() == SHA_DIGITS {
            by_capture.or(by_position)
        } else {
            by_position.or(by_capture)
        };
        index.map(|index| place.id(index))
    }

    fn note(&self, parts: &Parts<'_>) -> Option<(&Place, &Vec<usize>)> {
        let from = Place {
            domain: parts.domain,
            namespace: parts.namespace.to_owned(),
            commit: parts.sha.clone(),
        };
        let is_named = |place: &Place| {
            (place.domain, &place.namespace) == (from.domain, &from.namespace)
                && place.commit.starts_with(&parts.sha)
        };
        let mut found = self
            .notes
            .range((Bound::Included(&from), Bound::Unbounded))
            .take_while(|(place, _)| is_named(place));
        let first = found.next()?;
        found.next().is_none().then_some(first)
    }
}

impl<'a> Parts<'a> {
    fn of(id: &'a str) -> Option<Self> {
        let id = id.trim();
        let (domain, rest) = match id.strip_prefix("user:") {
            Some(rest) => (Domain::User, rest),
            None => (Domain::Project, id.strip_prefix("project:").unwrap_or(id)),
        };
        let (rest, index) = rest.rsplit_once(':')?;
        let (namespace, sha) = rest.rsplit_once(':')?;
        let is_sha = (SHA_DIGITS_MIN..=SHA_DIGITS).contains(&sha.len())
            && sha.bytes().all(|byte| byte.is_ascii_hexdigit());
        let sha = is_sha.then(|| sha.to_ascii_lowercase())?;
        Some(Self { domain, namespace, sha, index: index.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn place(domain: Domain, commit: &str) -> Place {
        let commit = commit.to_owned() + &"0".repeat(40 - commit.len());
        Place { domain, namespace: "decisions".to_owned(), commit }
    }

    #[test]
    fn both_forms_name_the_same_memory() {
        let mut ids = Ids::default();
        let (one, user) = (place(Domain::Project, "abcdef12"), place(Domain::User, "abcdef12"));
        ids.add(&one, 0);
        ids.add(&one, 1);
        ids.add(&user, 0);
        let long = one.id(1);
        assert_eq!(ids.resolve(&long), Some(long.clone()));
        assert_eq!(ids.resolve("decisions:abcdef1:1"), Some(long.clone()));
        assert_eq!(ids.resolve(" project:decisions:ABCDEF1:1 "), Some(long));
        assert_eq!(ids.resolve("user:decisions:abcdef1:0"), Some(user.id(0)));
        for unknown in
            ["decisions:abcdef1:2", "decisions:abc:0", "x", "blockers:abcdef1:0", "a:b:c"]
        {
            assert_eq!(ids.resolve(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_prefix_of_two_commits_names_neither() {
        let mut ids = Ids::default();
        ids.add(&place(Domain::Project, "abcd1"), 0);
        ids.add(&place(Domain::Project, "abcd2"), 0);
        assert_eq!(ids.resolve("decisions:abcd:0"), None);
        assert!(ids.resolve("decisions:abcd2:0").is_some());
    }

    #[test]
    fn a_rule_in_a_body_shifts_the_long_form_alone() {
        let mut ids = Ids::default();
        let place = place(Domain::Project, "abcdef12");
        for capture_index in [0, 2, 3] {
            ids.add(&place, capture_index);
        }
        assert_eq!(ids.resolve(&place.id(2)), Some(place.id(2)));
        assert_eq!(ids.resolve("decisions:abcdef1:2"), Some(place.id(3)));
        assert_eq!(ids.resolve("decisions:abcdef1:1"), Some(place.id(2)));
    }
}

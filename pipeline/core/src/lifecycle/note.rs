//! Notes: an untrusted memory as lines that cannot leave the block they stand in.

use std::fmt::Write as _;

use crate::time::Instant;

use crate::lifecycle::session::SummaryItem;
use crate::lifecycle::tokens::estimated_tokens;

const KEY_FACTS_MAX: usize = 5;
const DECISIONS_MAX: usize = 3;
const SUPERSEDED_MAX: usize = 2;
const CONFLICTS_MAX: usize = 2;
/// Stays where the lists are left out.
const CONFLICT_MARK: &str = " (conflict, unresolved)";

/// Parts of the budget: a text may take a sixth of it, so that six long notes fit beside each
/// other.
const TEXT_SHARE: usize = 6;
const LINE_SHARE: usize = 16;
const TOPIC_SHARE: usize = 50;
/// A shorter limit would leave nothing of a word.
const CUT_TOKENS_MIN: usize = 12;

/// A note as the block shows it: cleaned, escaped and cut.
#[derive(Debug, Clone)]
pub(crate) struct Note {
    pub(crate) topic: String,
    text: String,
    start: Option<Instant>,
    end: Option<Instant>,
    lists: Vec<(&'static str, Vec<String>)>,
    pub(crate) is_shortened: bool,
}

impl Note {
    pub(crate) fn of(item: &SummaryItem, tokens_max: usize) -> Self {
        let mut is_shortened = false;
        let mut cut = |text: &str, share: usize| {
            let (text, is_cut) = cleaned(text, (tokens_max / share).max(CUT_TOKENS_MIN));
            is_shortened |= is_cut;
            text
        };
        let topic = cut(&item.topic, TOPIC_SHARE);
        let mut text = cut(&item.text, TEXT_SHARE);
        if !item.conflicts.is_empty() {
            text.push_str(CONFLICT_MARK);
        }
        let mut lists = Vec::new();
        for (label, lines, lines_max) in [
            ("Contradicted by", &item.conflicts, CONFLICTS_MAX),
            ("Key facts", &item.key_facts, KEY_FACTS_MAX),
            ("Decisions", &item.decisions, DECISIONS_MAX),
            ("Superseded", &item.superseded, SUPERSEDED_MAX),
        ] {
            let lines: Vec<String> = lines
                .iter()
                .filter(|line| !is_blank(line))
                .take(lines_max)
                .map(|line| cut(line, LINE_SHARE))
                .collect();
            if !lines.is_empty() {
                lists.push((label, lines));
            }
        }
        let (start, end) = (item.start.or(item.end), item.end.or(item.start));
        Self { topic, text, start, end, lists, is_shortened }
    }

    /// Returns the note with the first lines of each list only; none where it has no more.
    pub(crate) fn with_lists_cut(&self, lines_max: usize) -> Option<Self> {
        let is_longer = self.lists.iter().any(|(_, lines)| lines.len() > lines_max);
        let mut note = is_longer.then(|| self.clone())?;
        note.is_shortened = true;
        note.lists.iter_mut().for_each(|(_, lines)| lines.truncate(lines_max));
        note.lists.retain(|(_, lines)| !lines.is_empty());
        Some(note)
    }

    pub(crate) fn write(&self, out: &mut String) {
        out.push_str("- ");
        out.push_str(&self.text);
        out.push('\n');
        for (label, lines) in &self.lists {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "  {label}:");
            for line in lines {
                let _ = writeln!(out, "  - {line}");
            }
        }
    }
}

/// The line above the notes of a topic, with the dates they span.
pub(crate) fn heading(topic: &str, notes: &[&Note]) -> String {
    let topic = if topic.is_empty() { "Other" } else { topic };
    let start = notes.iter().filter_map(|note| note.start).min();
    let end = notes.iter().filter_map(|note| note.end).max();
    match (start.map(day), end.map(day)) {
        (Some(start), Some(end)) if start == end => format!("### {topic} ({start})\n"),
        (Some(start), Some(end)) => format!("### {topic} ({start} - {end})\n"),
        _ => format!("### {topic}\n"),
    }
}

/// The date in UTC.
fn day(at: Instant) -> String {
    let mut text = at.to_rfc3339();
    text.truncate(text.find('T').unwrap_or(text.len()));
    text
}

/// Returns a text as one harmless line of about `tokens_max` tokens at most, and whether it was
/// cut.
fn cleaned(text: &str, tokens_max: usize) -> (String, bool) {
    let (mut out, mut tokens) = (String::new(), 0);
    let mut word = String::new();
    for raw in text.split(char::is_whitespace) {
        word.clear();
        raw.chars().for_each(|character| push_escaped(character, &mut word));
        if word.is_empty() {
            continue;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        let more = estimated_tokens(&word) + 1;
        if tokens + more > tokens_max {
            // A text of a script without spaces is one long word.
            if tokens <= tokens_max / 2 {
                push_head(raw, tokens_max - tokens, &mut out);
            }
            out.push('…');
            return (out, true);
        }
        out.push_str(&word);
        tokens += more;
    }
    (out, false)
}

fn push_head(word: &str, tokens_max: usize, out: &mut String) {
    let mut tokens = 0;
    for character in word.chars() {
        let end = out.len();
        push_escaped(character, out);
        tokens += estimated_tokens(&out[end..]);
        if tokens > tokens_max {
            out.truncate(end);
            return;
        }
    }
}

fn push_escaped(character: char, out: &mut String) {
    match character {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        dropped if is_dropped(dropped) => {}
        plain => out.push(plain),
    }
}

/// Control characters, and those that hide text or turn its direction. Joiners, which scripts and
/// emoji need, stay.
fn is_dropped(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{200B}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
                | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}'
        )
}

/// Tells whether nothing of a text would be seen.
pub(crate) fn is_blank(text: &str) -> bool {
    text.chars().all(|character| character.is_whitespace() || is_dropped(character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_one_harmless_line() {
        for (text, expected) in [
            ("", ""),
            ("  a \r\n\tb\u{2028}c ", "a b c"),
            ("<b>&amp;", "&lt;b&gt;&amp;amp;"),
            ("a\u{0}\u{1b}[0m\u{85}b\u{202E}c\u{200B}", "a[0m bc"),
            ("👩\u{200D}💻 می\u{200C}خواهم", "👩\u{200D}💻 می\u{200C}خواهم"),
            ("\u{200B} \u{FEFF}", ""),
        ] {
            assert_eq!(cleaned(text, 1000), (expected.to_owned(), false), "{text:?}");
            assert_eq!(is_blank(text), expected.is_empty());
        }
    }

    #[test]
    fn long_texts_end_at_a_word_or_within_a_long_one() {
        // "aa" counts 2, and 1 for the space.
        assert_eq!(cleaned("aa aa aa aa", 9), ("aa aa aa …".to_owned(), true));
        assert_eq!(cleaned("漢字漢字漢字", 12), ("漢字漢字…".to_owned(), true));
        assert_eq!(cleaned("<<<<<<", 12), ("&lt;&lt;&lt;…".to_owned(), true));
        assert_eq!(cleaned(&"x".repeat(1_000_000), 5), ("xxxxx…".to_owned(), true));
    }
}

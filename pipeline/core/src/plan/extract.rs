//! [`extract`]: a shorter text made of sentences of a long one.
//!
//! Lines are read as adapters write them: a first line that says what it is about, prose, `name: value`.
//! Nothing is said that the text does not say, and nothing in another order.

use std::collections::BTreeSet;

/// Lines `name: value` that stay whole: what came of it and what was learned.
const RESULTS: [&str; 8] = [
    "outcome",
    "result",
    "decision",
    "lessons",
    "lessons_learned",
    "learnings",
    "key_facts",
    "participants",
];

/// Events: the first and the last of them stay.
const TIMELINE: &str = "timeline";

/// So many events stay at either end.
const EVENTS_KEPT: usize = 3;

/// Words of sentences that say why something happened, or what follows from it.
const TELLING: [&str; 16] = [
    "because",
    "caused",
    "decided",
    "due",
    "failed",
    "fixed",
    "learned",
    "lesson",
    "must",
    "never",
    "outcome",
    "resolved",
    "result",
    "root",
    "solved",
    "therefore",
];

/// Returns the sentences that carry specifics, outcome and lessons, in their order; `None` where that is hardly shorter.
#[must_use]
pub fn extract(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let is_event = |line: &str| label(line) == Some(TIMELINE);
    let events = lines.iter().filter(|line| is_event(line)).count();
    let mut event = 0;
    let mut said = BTreeSet::new();
    let mut kept = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if is_event(line) {
            event += 1;
            if event <= EVENTS_KEPT || event + EVENTS_KEPT > events {
                kept.push((*line).to_owned());
            }
        } else if at == 0 && sentences(line).count() == 1
            || label(line).is_some_and(|label| RESULTS.contains(&label))
        {
            said.extend(specifics(line));
            kept.push((*line).to_owned());
        } else {
            kept.extend(telling(line, &mut said));
        }
    }
    let short = kept.join("\n");
    let is_short = short.chars().count() * 100 <= text.chars().count() * PERCENT_KEPT_MAX;
    (is_short && !short.is_empty()).then_some(short)
}

/// A text that keeps more of its characters than so many in a hundred is no summary.
const PERCENT_KEPT_MAX: usize = 80;

/// The name of a line `name: value`.
fn label(line: &str) -> Option<&str> {
    let (name, _) = line.split_once(": ")?;
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte == b'_' || byte == b'.';
    (!name.is_empty() && name.bytes().all(is_name)).then_some(name)
}

/// Keeps the sentences of a line that say something specific for the first time, or why.
fn telling<'t>(line: &'t str, said: &mut BTreeSet<&'t str>) -> Option<String> {
    let name = label(line);
    let prose = name.map_or(line, |name| &line[name.len() + 2..]);
    let kept: Vec<&str> = sentences(prose)
        .filter(|sentence| {
            let words = words(sentence).map(str::to_lowercase);
            let tells = words.into_iter().any(|word| TELLING.contains(&&*word));
            specifics(sentence).into_iter().fold(tells, |news, word| said.insert(word) || news)
        })
        .collect();
    if kept.is_empty() {
        return None;
    }
    let label = name.map_or(String::new(), |name| format!("{name}: "));
    Some(label + &kept.join(" "))
}

/// The sentences of a line, each with its end.
fn sentences(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        if rest.is_empty() {
            return None;
        }
        let ends = rest.char_indices().find(|(at, character)| {
            let after = &rest[at + character.len_utf8()..];
            match character {
                '.' | '!' | '?' => after.is_empty() || after.starts_with(char::is_whitespace),
                '。' | '！' | '？' => true,
                _ => false,
            }
        });
        let end = ends.map_or(rest.len(), |(at, character)| at + character.len_utf8());
        let (sentence, after) = rest.split_at(end);
        rest = after;
        Some(sentence.trim_end())
    })
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()))
        .filter(|word| !word.is_empty())
}

/// Words that name something: with a digit, a capital inside or a sign of code, or a capital in mid-sentence.
fn specifics(sentence: &str) -> Vec<&str> {
    let is_specific = |at: usize, word: &str| {
        let mut characters = word.chars();
        let first = characters.next().is_some_and(char::is_uppercase);
        word.chars().any(char::is_numeric)
            || characters.any(|c| c.is_uppercase() || "/_@#:=".contains(c))
            || at > 0 && first && word.chars().count() > 1
    };
    let words = words(sentence).enumerate().filter(|(at, word)| is_specific(*at, word));
    words.map(|(_, word)| word).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn specifics_outcome_and_lessons_stay() {
        let chatter = "We kept looking at it for a while. ".repeat(20);
        let events: Vec<String> =
            (1..=9).map(|n| format!("timeline: time: 10:0{n}; event: step")).collect();
        let text = format!(
            "Outage of the queue\n{chatter}Port 8080 was closed. {chatter}Port 8080 was closed. It failed because nobody \
             looked.\noutcome: restarted\nlessons: look earlier\n{}",
            events.join("\n")
        );
        let short = extract(&text).unwrap();
        assert_eq!(
            short,
            format!(
                "Outage of the queue\nPort 8080 was closed. It failed because nobody looked.\noutcome: restarted\n\
                 lessons: look earlier\n{}\n{}",
                events[..3].join("\n"),
                events[6..].join("\n")
            )
        );
        assert_eq!(extract(&short), None, "once is enough");
        assert_eq!(extract("Text 1."), None);
    }

    proptest! {
        #[test]
        fn it_says_nothing_of_its_own(
            lines in prop::collection::vec("(timeline: |outcome: |note: |)([A-Za-z0-9 ]{0,12}[.!?。] ?){0,6}", 0..20),
        ) {
            let text = lines.join("\n");
            let Some(short) = extract(&text) else { return Ok(()) };
            let mut rest = text.as_str();
            for line in short.lines() {
                let name = label(line);
                for sentence in sentences(name.map_or(line, |name| &line[name.len() + 2..])) {
                    let found = rest.find(sentence);
                    prop_assert!(found.is_some(), "{:?} is not in the rest of {:?}", sentence, text);
                    rest = &rest[found.unwrap_or(0) + sentence.len()..];
                }
            }
        }
    }
}

//! What a memory says: from the members of its content to one text, and back.
//!
//! | part | lines |
//! |---|---|
//! | `title` of the entry; `title`, `concept`, `name` of the content | as they are |
//! | `content` that is text; of the content `summary`, `description`, `definition`, `details`, `text` | as they are |
//! | `outcome`, `lessons`, `lessons_learned`, `learnings`, then all other members by name, `timeline` last | `name: value` |
//! | a list | a line `name: item` for each item |
//! | an object within the content | `name.member: value` |
//! | an object within a list | `member: value; member: value` |
//!
//! The order of the members in the file does not matter, so that equal contents have equal texts.

use super::edit::{Piece, with_member, with_pieces, without_member};
use super::json::{Kind, Node, parse, quoted};

/// Members that stand without their name, in this order.
const PLAIN: [&str; 8] =
    ["title", "concept", "name", "summary", "description", "definition", "details", "text"];

/// Members that stand next, in this order; all others follow by name.
const RESULTS: [&str; 4] = ["outcome", "lessons", "lessons_learned", "learnings"];

/// The member that stands last: it is long and matters least.
const TIMELINE: &str = "timeline";

/// Members of objects in lists that stand first, in this order.
const EVENT: [&str; 3] = ["time", "event", "actor"];

/// A line of the text, or several of one value.
struct Part {
    /// Where the value stands within the entry.
    path: Vec<Step>,
    /// `outcome: `, or nothing.
    label: String,
    said: String,
    is_text: bool,
}

#[derive(Clone)]
enum Step {
    Member(String),
    Item(usize),
}

impl Part {
    fn line(&self) -> String {
        [self.label.as_str(), &self.said].concat()
    }
}

/// Returns what an entry says; `None` where it says nothing.
pub(super) fn said(entry: &Node) -> Option<String> {
    let lines: Vec<String> = parts(entry).iter().map(Part::line).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Returns an entry that says a text: what is said as before stays where it is.
pub(super) fn with_said(raw: &str, text: &str) -> String {
    let Ok(entry) = parse(raw) else { return raw.to_owned() };
    if said(&entry).as_deref() == Some(text) {
        return raw.to_owned();
    }
    let says = |raw: &String| parse(raw).is_ok_and(|entry| said(&entry).as_deref() == Some(text));
    shortened(raw, &entry, text).filter(says).unwrap_or_else(|| replaced(raw, &entry, text))
}

/// Puts the whole text in the place of the content.
fn replaced(raw: &str, entry: &Node, text: &str) -> String {
    let title = entry.text_of("title").filter(|title| !title.trim().is_empty());
    let rest = title.and_then(|title| text.strip_prefix(title)?.strip_prefix('\n'));
    let value = match entry.get("content").map(|content| &content.kind) {
        Some(Kind::Object(_)) => format!("{{\"details\": {}}}", quoted(rest.unwrap_or(text))),
        _ => quoted(rest.unwrap_or(text)),
    };
    let raw = with_member(raw, entry, "content", &value);
    match parse(&raw) {
        Ok(entry) if title.is_some() && rest.is_none() => without_member(&raw, &entry, "title"),
        _ => raw,
    }
}

/// Leaves out what the text no longer says; the longest text takes what is new.
fn shortened(raw: &str, entry: &Node, text: &str) -> Option<String> {
    let parts = parts(entry);
    let texts = parts.iter().enumerate().filter(|(_, part)| part.is_text);
    let (longest, _) = texts.max_by_key(|(at, part)| (part.said.len(), usize::MAX - at))?;
    let mut rest = text;
    let mut dropped = Vec::new();
    for part in &parts[..longest] {
        match rest.strip_prefix(&part.line()).and_then(|rest| rest.strip_prefix('\n')) {
            Some(after) => rest = after,
            None => dropped.push(part),
        }
    }
    for part in parts[longest + 1..].iter().rev() {
        match rest.strip_suffix(&part.line()).and_then(|rest| rest.strip_suffix('\n')) {
            Some(before) => rest = before,
            None => dropped.push(part),
        }
    }
    let new = rest.strip_prefix(&parts[longest].label)?;
    let raw = set(raw, &parts[longest].path, new)?;
    // Later items first, so that the positions of the earlier ones stay.
    dropped.sort_by_key(|part| std::cmp::Reverse(position(&part.path)));
    dropped.into_iter().try_fold(raw, |raw, part| without(&raw, &part.path))
}

fn position(path: &[Step]) -> usize {
    match path.last() {
        Some(Step::Item(at)) => *at,
        _ => 0,
    }
}

fn set(raw: &str, path: &[Step], text: &str) -> Option<String> {
    let entry = parse(raw).ok()?;
    let node = at(&entry, path)?;
    Some(super::edit::spliced(raw, &node.span, &quoted(text)))
}

fn without(raw: &str, path: &[Step]) -> Option<String> {
    let entry = parse(raw).ok()?;
    let (last, parent) = path.split_last()?;
    let parent = at(&entry, parent)?;
    Some(match last {
        Step::Member(key) => without_member(raw, parent, key),
        Step::Item(gone) => {
            let kept = (0..parent.items().len()).filter(|at| at != gone).map(Piece::Kept);
            with_pieces(raw, parent, &kept.collect::<Vec<_>>())
        }
    })
}

fn at<'n>(node: &'n Node, path: &[Step]) -> Option<&'n Node> {
    path.iter().try_fold(node, |node, step| match step {
        Step::Member(key) => node.get(key),
        Step::Item(at) => node.items().get(*at),
    })
}

fn parts(entry: &Node) -> Vec<Part> {
    let mut parts = Vec::new();
    let content = entry.get("content");
    if let Some(title) = entry.get("title") {
        add(&mut parts, &[Step::Member("title".into())], "", title);
    }
    let here = [Step::Member("content".into())];
    match content {
        Some(content) if content.is_object() => members(&mut parts, content),
        Some(content) if content.is_list() => add(&mut parts, &here, "content", content),
        Some(content) => add(&mut parts, &here, "", content),
        None => {
            if let Some(summary) = entry.get("summary") {
                add(&mut parts, &[Step::Member("summary".into())], "", summary);
            }
        }
    }
    parts
}

fn members(parts: &mut Vec<Part>, content: &Node) {
    let rank = |key: &str| {
        let known = PLAIN.iter().chain(&RESULTS).position(|known| *known == key);
        known.unwrap_or(if key == TIMELINE { usize::MAX } else { usize::MAX - 1 })
    };
    let mut keys: Vec<&str> = content.members().iter().map(|member| &*member.key).collect();
    keys.sort_by_key(|key| (rank(key), *key));
    keys.dedup();
    for key in keys {
        let Some(value) = content.get(key) else { continue };
        let path = [Step::Member("content".into()), Step::Member(key.into())];
        let is_plain = PLAIN.contains(&key) && value.text().is_some();
        add(parts, &path, if is_plain { "" } else { key }, value);
    }
}

/// Adds the lines of a value.
fn add(parts: &mut Vec<Part>, path: &[Step], name: &str, value: &Node) {
    let below = |step: Step| [path, &[step]].concat();
    match &value.kind {
        Kind::Object(_) => {
            let mut keys: Vec<&str> = value.members().iter().map(|member| &*member.key).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                let Some(inner) = value.get(key) else { continue };
                add(parts, &below(Step::Member(key.into())), &format!("{name}.{key}"), inner);
            }
        }
        Kind::List(items) => {
            for (at, item) in items.iter().enumerate() {
                push(parts, below(Step::Item(at)), name, item);
            }
        }
        _ => push(parts, path.to_vec(), name, value),
    }
}

fn push(parts: &mut Vec<Part>, path: Vec<Step>, name: &str, value: &Node) {
    let said = inline(value);
    if !said.trim().is_empty() {
        let label = if name.is_empty() { String::new() } else { format!("{name}: ") };
        parts.push(Part { path, label, said, is_text: value.text().is_some() });
    }
}

/// Writes a value in one line, unless its own text has more.
fn inline(value: &Node) -> String {
    match &value.kind {
        Kind::Null => String::new(),
        Kind::Bool(bool) => bool.to_string(),
        Kind::Number(number) => number.clone(),
        Kind::Text(text) => text.clone(),
        Kind::List(items) => items.iter().map(inline).collect::<Vec<_>>().join(", "),
        Kind::Object(members) => {
            let rank =
                |key: &str| EVENT.iter().position(|known| *known == key).unwrap_or(EVENT.len());
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|member| (rank(&member.key), &member.key));
            let said = members.into_iter().map(|member| (&member.key, inline(&member.value)));
            let said = said.filter(|(_, said)| !said.is_empty());
            said.map(|(key, said)| format!("{key}: {said}")).collect::<Vec<_>>().join("; ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str) -> Option<String> {
        said(&parse(json).unwrap())
    }

    #[test]
    fn contents_become_texts() {
        for (json, expected) in [
            (r#"{"content": "Use tabs."}"#, "Use tabs."),
            (r#"{"title": "Tabs", "content": "Use tabs.", "summary": "s"}"#, "Tabs\nUse tabs."),
            (r#"{"title": "Tabs", "summary": "Use tabs."}"#, "Tabs\nUse tabs."),
            (
                r#"{"content": {"timeline": [{"actor": "DEV-001", "event": "began", "time": "10:00"}],
                    "lessons": ["a", "b"], "weight": 2, "details": {"who": "QA", "n": null},
                    "outcome": "done", "title": "Release"}}"#,
                "Release\ndetails.who: QA\noutcome: done\nlessons: a\nlessons: b\nweight: 2\n\
                 timeline: time: 10:00; event: began; actor: DEV-001",
            ),
            (r#"{"content": {"definition": "A queue.", "concept": "WAL"}}"#, "WAL\nA queue."),
            (r#"{"content": ["a", ["b", "c"]]}"#, "content: a\ncontent: b, c"),
        ] {
            assert_eq!(text(json).as_deref(), Some(expected), "{json}");
        }
        for empty in ["{}", r#"{"content": {}}"#, r#"{"content": "  "}"#, r#"{"content": null}"#] {
            assert_eq!(text(empty), None, "{empty}");
        }
    }

    #[test]
    fn a_shorter_text_keeps_the_members_that_it_still_says() {
        let raw = r#"{"content": {"title": "T", "details": "one two three", "timeline": ["a", "b", "c"], "outcome": "ok"}, "z": 1}"#;
        assert_eq!(
            with_said(raw, "T\none three\noutcome: ok\ntimeline: a\ntimeline: c"),
            r#"{"content": {"title": "T", "details": "one three", "timeline": ["a", "c"], "outcome": "ok"}, "z": 1}"#
        );
    }

    #[test]
    fn any_text_can_be_said() {
        let entries = [
            r#"{"id": "a", "content": "x"}"#,
            r#"{"id": "a", "title": "T", "content": "x"}"#,
            r#"{"id": "a"}"#,
            r#"{"content": {"a": 1}}"#,
            r#"{"content": {"title": "T", "details": {"who": "me"}, "timeline": ["a", "b"]}}"#,
            r#"{"title": "T", "content": {"details": "x", "lessons": ["l"]}}"#,
        ];
        for raw in entries {
            for new in ["New.", "T\nNew.", "T\nx", "T", "a\nb: c\n\nd", "T\ndetails.who: me"] {
                assert_eq!(text(&with_said(raw, new)).as_deref(), Some(new), "{raw}");
            }
        }
    }
}

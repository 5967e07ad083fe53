//! Files that are one JSON document instead of lines: an array of entities and relations, or an object with lists of
//! them. They are cut into pieces as if each entity and each relation stood on a line.

use std::ops::Range;

use serde_json::Value;

use super::lines::Scan;

/// Cuts a file into the pieces that are read and edited one by one: its lines, or the members of its document. Together
/// they are the file.
pub(super) fn pieces(memory: &[u8]) -> Pieces<'_> {
    let text = std::str::from_utf8(memory).ok().filter(|text| is_document(text));
    let Some(text) = text else {
        return Pieces {
            parts: memory.split_inclusive(|byte| *byte == b'\n').collect(),
            members: None,
        };
    };
    let members = members(text);
    let (mut parts, mut at, mut which) = (Vec::new(), 0, Vec::new());
    for member in members {
        if member.start > at {
            parts.push(&memory[at..member.start]);
        }
        which.push(parts.len());
        parts.push(&memory[member.clone()]);
        at = member.end;
    }
    if at < memory.len() {
        parts.push(&memory[at..]);
    }
    Pieces { parts, members: Some(which) }
}

/// A file in pieces.
pub(super) struct Pieces<'a> {
    pub(super) parts: Vec<&'a [u8]>,
    /// The parts that are members of a document; `None` for a file of lines.
    members: Option<Vec<usize>>,
}

impl Pieces<'_> {
    pub(super) const fn is_document(&self) -> bool {
        self.members.is_some()
    }

    /// Tells whether a part is read as an entity or a relation.
    pub(super) fn is_read(&self, part: usize) -> bool {
        self.members.as_ref().is_none_or(|members| members.binary_search(&part).is_ok())
    }
}

/// Tells whether a text is one document: an array, or an object with a list of entities or relations.
fn is_document(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim();
    if !text.starts_with(['[', '{']) {
        return false;
    }
    match serde_json::from_str(text) {
        Ok(Value::Array(_)) => true,
        Ok(Value::Object(fields)) => {
            LISTS.iter().any(|list| fields.get(*list).is_some_and(Value::is_array))
        }
        _ => false,
    }
}

const LISTS: [&str; 2] = ["entities", "relations"];

/// The objects of the lists of a document.
fn members(text: &str) -> Vec<Range<usize>> {
    let mut scan = Scan { bytes: text.as_bytes(), at: 0 };
    scan.seek(|byte| matches!(byte, b'[' | b'{'));
    if scan.peek() == Some(b'[') {
        return scan.list();
    }
    let mut found = Vec::new();
    scan.at += 1;
    loop {
        scan.seek(|byte| matches!(byte, b'"' | b'}'));
        if scan.peek() != Some(b'"') {
            return found;
        }
        let key = scan.value();
        scan.seek(|byte| byte == b':');
        scan.at += 1;
        scan.skip_blanks();
        let name: Option<String> = serde_json::from_str(&text[key]).ok();
        let is_list = name.is_some_and(|name| LISTS.contains(&&*name));
        if is_list && scan.peek() == Some(b'[') {
            found.extend(scan.list());
        } else {
            let _ = scan.value();
        }
    }
}

impl Scan<'_> {
    /// Goes behind the list that begins here, and returns its objects.
    fn list(&mut self) -> Vec<Range<usize>> {
        self.at += 1;
        let mut found = Vec::new();
        loop {
            self.seek(|byte| !byte.is_ascii_whitespace() && byte != b',');
            match self.peek() {
                None => return found,
                Some(b']') => {
                    self.at += 1;
                    return found;
                }
                Some(first) => {
                    let value = self.value();
                    found.extend((first == b'{').then_some(value));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::pieces;

    #[test]
    fn a_document_is_cut_into_its_members_and_a_file_into_its_lines() {
        for (text, members) in [
            (
                "[\n  {\"name\": \"A\"},\n  {\"name\": \"]\"}\n]\n",
                vec!["{\"name\": \"A\"}", "{\"name\": \"]\"}"],
            ),
            (
                "{\"version\": [1], \"entities\": [{\"a\": [{}]}], \"relations\" : [ {\"from\": \"x\"}]}",
                vec!["{\"a\": [{}]}", "{\"from\": \"x\"}"],
            ),
            ("[]", vec![]),
        ] {
            let pieces = pieces(text.as_bytes());
            assert!(pieces.is_document());
            let read: Vec<&str> = (0..pieces.parts.len())
                .filter(|part| pieces.is_read(*part))
                .map(|part| std::str::from_utf8(pieces.parts[part]).unwrap())
                .collect();
            assert_eq!(read, members);
            assert_eq!(pieces.parts.concat(), text.as_bytes());
        }
        for text in ["{\"type\":\"entity\",\"name\":\"A\"}\n{}", "", "{\"type\":\"entity\"}", "[1"]
        {
            let pieces = pieces(text.as_bytes());
            assert!(
                !pieces.is_document() && (0..pieces.parts.len()).all(|part| pieces.is_read(part))
            );
        }
    }
}

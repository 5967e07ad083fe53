//! `memory.memfold-archive.jsonl`: the observations that memfold took out of `memory.jsonl`, and those that it put in.
//!
//! The server knows nothing of archived observations and drops fields that it does not know when it writes, so they
//! stand in a file of their own. One JSON object on a line. Two files cannot be replaced at once: before `memory.jsonl`
//! is replaced, the archive says what it will hold then and what it held before, with the digest of the new file.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// A line of the archive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Entry {
    /// Marks the lines behind it as those that hold as long as `memory.jsonl` has not this digest.
    Until {
        /// The digest.
        until: String,
    },
    /// An observation that was taken out.
    Retired(Retired),
    /// An observation that memfold wrote.
    Written(Written),
}

/// An observation that was taken out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Retired {
    pub(super) id: String,
    pub(super) entity: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) entity_type: Option<String>,
    /// Which of several lines of that name, from 0.
    #[serde(default)]
    pub(super) nth: usize,
    /// Its position among the observations of the line, the retired ones counted.
    pub(super) position: usize,
    /// The text.
    pub(super) observation: String,
    /// The text as it was written, in JSON.
    pub(super) raw: String,
    /// The observation that says what it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) merged_into: Option<String>,
    pub(super) reason: String,
    pub(super) run_id: String,
    pub(super) at: String,
}

/// An observation that memfold wrote, under the id that its mirror gave it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Written {
    pub(super) id: String,
    pub(super) entity: String,
    pub(super) observation: String,
    /// What it was made of.
    pub(super) made_of: Vec<String>,
    pub(super) run_id: String,
    pub(super) at: String,
}

/// What the archive holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Archive {
    pub(super) retired: Vec<Retired>,
    pub(super) written: Vec<Written>,
    /// Lines that cannot be understood, kept as they are, each with its number.
    pub(super) unknown: Vec<(usize, String)>,
}

impl Archive {
    /// Reads an archive that stands beside a file of this digest; `is_live` tells whether an observation of an entity is
    /// in that file.
    pub(super) fn read(text: &str, digest: &str, is_live: impl Fn(&str, &str) -> bool) -> Self {
        let (mut after, mut before) = (Self::default(), Self::default());
        let mut until = None;
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let half = if until.is_some() { &mut before } else { &mut after };
            match serde_json::from_str(line) {
                Ok(Entry::Until { until: digest }) => until = Some(digest),
                Ok(Entry::Retired(entry)) => half.retired.push(entry),
                Ok(Entry::Written(entry)) => half.written.push(entry),
                Err(_) => half.unknown.push((at + 1, line.to_owned())),
            }
        }
        match until {
            None => after,
            Some(until) if until == digest => after,
            Some(_) => Self::of_both(after, before, is_live),
        }
    }

    /// The file was not replaced, or somebody changed it since: where the two halves differ, the file decides.
    fn of_both(after: Self, before: Self, is_live: impl Fn(&str, &str) -> bool) -> Self {
        let common: BTreeSet<String> = after
            .retired
            .iter()
            .filter(|entry| before.retired.iter().any(|other| other.id == entry.id))
            .map(|entry| entry.id.clone())
            .collect();
        let held = |entry: &Retired| {
            common.contains(&entry.id) || !is_live(&entry.entity, &entry.observation)
        };
        let mut archive = before;
        let mut known: BTreeSet<String> =
            archive.retired.iter().map(|entry| entry.id.clone()).collect();
        for entry in after.retired {
            if known.insert(entry.id.clone()) {
                archive.retired.push(entry);
            }
        }
        archive.retired.retain(held);
        for entry in after.written {
            if !archive.written.iter().any(|other| other.id == entry.id) {
                archive.written.push(entry);
            }
        }
        archive
    }

    /// Writes the archive.
    pub(super) fn to_text(&self) -> String {
        let retired = self.retired.iter().cloned().map(Entry::Retired);
        let written = self.written.iter().cloned().map(Entry::Written);
        let mut text = String::new();
        for (_, line) in &self.unknown {
            text.push_str(line);
            text.push('\n');
        }
        for entry in retired.chain(written) {
            text.push_str(&serde_json::to_string(&entry).unwrap_or_default());
            text.push('\n');
        }
        text
    }

    /// Writes the archive as it will be when the file has this digest, with what holds until then.
    pub(super) fn to_text_before(&self, digest: &str, before: &Self) -> String {
        let until = Entry::Until { until: digest.to_owned() };
        let mark = serde_json::to_string(&until).unwrap_or_default();
        format!("{}{mark}\n{}", self.to_text(), before.to_text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retired(id: &str, observation: &str) -> Retired {
        Retired {
            id: id.to_owned(),
            entity: "A".to_owned(),
            entity_type: None,
            nth: 0,
            position: 0,
            observation: observation.to_owned(),
            raw: format!("{observation:?}"),
            merged_into: None,
            reason: "R1".to_owned(),
            run_id: "r".to_owned(),
            at: "t".to_owned(),
        }
    }

    #[test]
    fn an_interrupted_change_is_told_by_the_file() {
        let before = Archive { retired: vec![retired("x", "one")], ..Archive::default() };
        let after = Archive { retired: vec![retired("y", "two")], ..Archive::default() };
        let text = after.to_text_before("new", &before);
        // The file was replaced.
        assert_eq!(Archive::read(&text, "new", |_, _| false), after);
        // It was not: y is still there, x not yet.
        let read = Archive::read(&text, "old", |_, observation| observation == "two");
        assert_eq!(read, before);
        // It was, and somebody changed it since: x is there, y is gone.
        let read = Archive::read(&text, "third", |_, observation| observation == "one");
        assert_eq!(read, after);
    }

    #[test]
    fn lines_of_others_are_kept() {
        let archive = Archive::read("{\"later\":1}\n\nnonsense\n", "d", |_, _| false);
        assert_eq!(archive.unknown.len(), 2);
        assert_eq!(archive.to_text(), "{\"later\":1}\nnonsense\n");
    }
}

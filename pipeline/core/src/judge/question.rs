//! What a judge is asked: groups of memories that may say the same.

use crate::memory::MemoryId;
use serde::Serialize;

/// One memory as a judge sees it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Member {
    /// Its name in prompts and answers: `m1`, `m2` … Real ids never reach a judge.
    #[serde(rename = "id")]
    pub handle: String,
    /// Its id in the store.
    #[serde(skip)]
    pub id: MemoryId,
    /// The text.
    pub text: String,
    /// Its categories.
    pub categories: Vec<String>,
    /// Its importance.
    pub importance: f64,
    /// When it was created, RFC 3339.
    pub created: String,
    /// The source before any merge.
    pub source: String,
}

/// One question: 2 to 10 memories, no two of which the guard calls contradictory or different.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// Its members. The handles of a group are `m1`, `m2` … in the order in which it was made.
    pub memories: Vec<Member>,
}

/// What is asked in one request; a handle is unique in all of its groups.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Batch {
    /// The groups.
    pub groups: Vec<Group>,
}

impl Group {
    /// Makes a group and names its members.
    #[must_use]
    pub fn new(mut memories: Vec<Member>) -> Self {
        for (number, member) in (1..).zip(&mut memories) {
            member.handle = handle(number);
        }
        Self { memories }
    }

    /// Returns the member of a handle.
    #[must_use]
    pub fn find(&self, handle: &str) -> Option<&Member> {
        self.memories.iter().find(|member| member.handle == handle)
    }

    /// Returns each two of its members, in their order.
    pub fn pairs(&self) -> impl Iterator<Item = [&Member; 2]> {
        let members = self.memories.iter().enumerate();
        members.flat_map(|(at, one)| self.memories[at + 1..].iter().map(move |other| [one, other]))
    }

    /// Returns the group with its members in reverse order, under their own handles.
    #[must_use]
    pub fn reversed(&self) -> Self {
        Self { memories: self.memories.iter().rev().cloned().collect() }
    }
}

impl Batch {
    /// Puts groups into one batch, with handles that are unique in it. [`Self::group_of`] leads back.
    #[must_use]
    pub fn of(groups: &[&Group]) -> Self {
        let mut offset = 0;
        let mut renamed = Vec::with_capacity(groups.len());
        for group in groups {
            let mut memories = group.memories.clone();
            for member in &mut memories {
                member.handle = handle(offset + number(&member.handle).unwrap_or(0));
            }
            offset += memories.len();
            renamed.push(Group { memories });
        }
        Self { groups: renamed }
    }

    /// Returns the place of the group that a handle of the batch belongs to, and the handle in that group.
    #[must_use]
    pub fn group_of(&self, name: &str) -> Option<(usize, String)> {
        let at = self.groups.iter().position(|group| group.find(name).is_some())?;
        let before: usize = self.groups[..at].iter().map(|group| group.memories.len()).sum();
        Some((at, handle(number(name)?.checked_sub(before)?)))
    }
}

fn handle(number: usize) -> String {
    format!("m{number}")
}

fn number(handle: &str) -> Option<usize> {
    handle.strip_prefix('m')?.parse().ok()
}

//! Ids of memories in notes, and the two forms of the same id.
//!
//! Capturing writes `namespace:<40 hex digits>:<index>`, reindexing writes `namespace:<7 hex digits>:<index>`,
//! both with `user:` before them in the user domain. They count differently where a body holds a rule
//! (`---`): capturing counts the rules of the note so far, reindexing counts records. Ours are of the first
//! form, because it depends on nothing that comes later in the note.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;

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
    use super::{Domain, Ids, Place};

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

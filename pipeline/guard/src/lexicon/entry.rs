//! What the lexicon knows of one word or phrase.

/// What a word does in a sentence, besides meaning something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Roles(pub(super) u32);

impl Roles {
    pub(crate) const FUNCTION: Self = Self(1);
    pub(crate) const NEGATOR: Self = Self(1 << 1);
    pub(crate) const NEGATIVE_VERB: Self = Self(1 << 2);
    pub(crate) const CONCORD: Self = Self(1 << 3);
    pub(crate) const NARROW: Self = Self(1 << 4);
    pub(crate) const DENIAL: Self = Self(1 << 5);
    pub(crate) const ENUMERATOR: Self = Self(1 << 6);
    pub(crate) const COORDINATOR: Self = Self(1 << 7);
    pub(crate) const CLAUSE: Self = Self(1 << 8);
    pub(crate) const SUBJECT: Self = Self(1 << 9);
    pub(crate) const FUTURE: Self = Self(1 << 10);
    pub(crate) const PAST: Self = Self(1 << 11);
    pub(crate) const PREPOSITION: Self = Self(1 << 12);
    pub(crate) const AUXILIARY: Self = Self(1 << 13);
    pub(crate) const INDEFINITE: Self = Self(1 << 14);
    pub(crate) const EXHAUSTIVE: Self = Self(1 << 15);
    pub(crate) const VERSIONED: Self = Self(1 << 16);

    /// Tells whether it has any of these roles.
    pub(crate) const fn has(self, roles: Self) -> bool {
        self.0 & roles.0 != 0
    }

    /// Adds roles.
    pub(crate) const fn with(self, roles: Self) -> Self {
        Self(self.0 | roles.0)
    }
}

/// How two entries stand to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Relation {
    /// They mean opposite things.
    #[default]
    Opposite,
    /// They are members of one class that exclude each other.
    Exclusive,
    /// They are different modal strengths.
    Modality,
    /// They are members of one class that name different things.
    Distinct,
}

/// One membership in a relation: entries of one relation and different sides exclude each other, of one side
/// they mean the same (but for opposites, whose sides are loose).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Membership {
    /// The class or pair.
    pub(crate) relation: u32,
    /// The member or side.
    pub(crate) side: u32,
    /// What different sides are to each other.
    pub(crate) kind: Relation,
}

/// A word's or phrase's entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    /// What it does.
    pub(crate) roles: Roles,
    /// Sets of words that mean the same.
    pub(crate) meanings: &'a [u32],
    /// What it excludes.
    pub(crate) memberships: &'a [Membership],
    /// Kinds of things that it names as a whole: `person`.
    pub(crate) covers: &'a [u32],
    /// Kinds of things that it is one of: `woman`.
    pub(crate) kinds: &'a [u32],
}

impl Entry<'_> {
    /// Tells whether whatever the other names is also named by this.
    pub(crate) fn includes(self, other: Entry<'_>) -> bool {
        self.covers.iter().any(|kind| other.kinds.contains(kind))
    }

    /// Tells whether it says how much, how often or how bindingly.
    pub(crate) fn is_modal(self) -> bool {
        self.memberships.iter().any(|membership| membership.kind == Relation::Modality)
    }

    /// Returns how the two exclude each other, strongest relation first; `None` where they do not.
    pub(crate) fn conflict(self, other: Entry<'_>) -> Option<Relation> {
        let conflicts = self.memberships.iter().flat_map(|own| {
            other
                .memberships
                .iter()
                .filter(|theirs| own.relation == theirs.relation && own.side != theirs.side)
                .map(|_| own.kind)
        });
        conflicts.min()
    }
}

//! What the lexicon knows of one word or phrase.

/// What a word does in a sentence, besides meaning something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::guard) struct Roles(pub(super) u32);

impl Roles {
    pub(in crate::guard) const FUNCTION: Self = Self(1);
    pub(in crate::guard) const NEGATOR: Self = Self(1 << 1);
    pub(in crate::guard) const NEGATIVE_VERB: Self = Self(1 << 2);
    pub(in crate::guard) const CONCORD: Self = Self(1 << 3);
    pub(in crate::guard) const NARROW: Self = Self(1 << 4);
    pub(in crate::guard) const DENIAL: Self = Self(1 << 5);
    pub(in crate::guard) const ENUMERATOR: Self = Self(1 << 6);
    pub(in crate::guard) const COORDINATOR: Self = Self(1 << 7);
    pub(in crate::guard) const CLAUSE: Self = Self(1 << 8);
    pub(in crate::guard) const SUBJECT: Self = Self(1 << 9);
    pub(in crate::guard) const FUTURE: Self = Self(1 << 10);
    pub(in crate::guard) const PAST: Self = Self(1 << 11);
    pub(in crate::guard) const PREPOSITION: Self = Self(1 << 12);
    pub(in crate::guard) const AUXILIARY: Self = Self(1 << 13);
    pub(in crate::guard) const INDEFINITE: Self = Self(1 << 14);
    pub(in crate::guard) const EXHAUSTIVE: Self = Self(1 << 15);
    pub(in crate::guard) const VERSIONED: Self = Self(1 << 16);

    /// Tells whether it has any of these roles.
    pub(in crate::guard) const fn has(self, roles: Self) -> bool {
        self.0 & roles.0 != 0
    }

    /// Adds roles.
    pub(in crate::guard) const fn with(self, roles: Self) -> Self {
        Self(self.0 | roles.0)
    }
}

/// How two entries stand to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(in crate::guard) enum Relation {
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
pub(in crate::guard) struct Membership {
    /// The class or pair.
    pub(in crate::guard) relation: u32,
    /// The member or side.
    pub(in crate::guard) side: u32,
    /// What different sides are to each other.
    pub(in crate::guard) kind: Relation,
}

/// A word's or phrase's entry.
#[derive(Debug, Clone, Copy)]
pub(in crate::guard) struct Entry<'a> {
    /// What it does.
    pub(in crate::guard) roles: Roles,
    /// Sets of words that mean the same.
    pub(in crate::guard) meanings: &'a [u32],
    /// What it excludes.
    pub(in crate::guard) memberships: &'a [Membership],
    /// Kinds of things that it names as a whole: `person`.
    pub(in crate::guard) covers: &'a [u32],
    /// Kinds of things that it is one of: `woman`.
    pub(in crate::guard) kinds: &'a [u32],
}

impl Entry<'_> {
    /// Tells whether whatever the other names is also named by this.
    pub(in crate::guard) fn includes(self, other: Entry<'_>) -> bool {
        self.covers.iter().any(|kind| other.kinds.contains(kind))
    }

    /// Tells whether it says how much, how often or how bindingly.
    pub(in crate::guard) fn is_modal(self) -> bool {
        self.memberships.iter().any(|membership| membership.kind == Relation::Modality)
    }

    /// Returns how the two exclude each other, strongest relation first; `None` where they do not.
    pub(in crate::guard) fn conflict(self, other: Entry<'_>) -> Option<Relation> {
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

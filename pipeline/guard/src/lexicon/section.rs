//! The sections of a lexicon.

use super::{Relation, Roles};

/// How the lines of a section are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    /// Words of one role, apart by commas or white space lines.
    Role(Roles),
    /// Words that mean the same.
    Synonyms,
    /// `left, left | right, right`.
    Opposites,
    /// `general, general | special, special`.
    Kinds,
    /// A class; each line one member with its names.
    Class(Relation),
    /// `base = form, form`.
    Forms {
        /// Whether the forms are of the past.
        past: bool,
    },
    /// One unit with its names a line.
    Units {
        /// Whether they are money.
        currency: bool,
    },
}

/// Names of all sections.
pub(super) const SECTIONS: [(&str, Section); 29] = [
    ("synonyms", Section::Synonyms),
    ("opposites", Section::Opposites),
    ("kinds", Section::Kinds),
    ("exclusive", Section::Class(Relation::Exclusive)),
    ("modality", Section::Class(Relation::Modality)),
    ("distinct", Section::Class(Relation::Distinct)),
    ("forms", Section::Forms { past: false }),
    ("past-forms", Section::Forms { past: true }),
    ("units", Section::Units { currency: false }),
    ("currencies", Section::Units { currency: true }),
    ("function", Section::Role(Roles::FUNCTION)),
    ("auxiliaries", Section::Role(Roles::FUNCTION.with(Roles::AUXILIARY))),
    ("prepositions", Section::Role(Roles::FUNCTION.with(Roles::PREPOSITION))),
    ("coordinators", Section::Role(Roles::FUNCTION.with(Roles::COORDINATOR))),
    ("clause", Section::Role(Roles::FUNCTION.with(Roles::CLAUSE))),
    ("subjects", Section::Role(Roles::FUNCTION.with(Roles::SUBJECT))),
    ("indefinite", Section::Role(Roles::FUNCTION.with(Roles::INDEFINITE))),
    ("exhaustive", Section::Role(Roles::EXHAUSTIVE)),
    ("future", Section::Role(Roles::FUNCTION.with(Roles::FUTURE))),
    ("past", Section::Role(Roles::FUNCTION.with(Roles::PAST))),
    ("negators", Section::Role(Roles::NEGATOR)),
    ("narrow-negators", Section::Role(Roles::NEGATOR.with(Roles::NARROW))),
    ("concord-negators", Section::Role(Roles::NEGATOR.with(Roles::CONCORD))),
    ("negative-verbs", Section::Role(Roles::NEGATIVE_VERB)),
    ("denials", Section::Role(Roles::DENIAL)),
    ("enumerators", Section::Role(Roles::ENUMERATOR)),
    ("versioned", Section::Role(Roles::VERSIONED)),
    ("intentions", Section::Role(Roles::FUTURE)),
    ("completions", Section::Role(Roles::PAST)),
];

impl Section {
    /// Tells whether the header carries a name: classes do.
    pub(super) const fn is_named(self) -> bool {
        matches!(self, Self::Class(_))
    }
}

//! [`Fold`]: one memory folded into another, and [`Lineage`]: who knows of it.

use serde::Serialize;

use crate::memory::MemoryId;

/// One memory folded into another. Texts are as stored: escape them where they are shown.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Fold {
    /// The memory that was folded.
    pub absorbed: MemoryId,
    /// What it was folded into.
    pub survivor: MemoryId,
    /// Their canonical similarity then.
    pub similarity: Option<f64>,
    /// The rule that folded it.
    pub rule_id: Option<String>,
    /// Why.
    pub reasons: Option<String>,
    /// The run that folded it.
    pub run_id: Option<String>,
    /// When.
    pub at: Option<String>,
    /// How it is known.
    pub known_by: KnownBy,
}

/// How a fold is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KnownBy {
    /// From memfold's own tables.
    Lineage,
    /// From the `source` of the rows themselves.
    Provenance,
}

/// Where a memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Whereabouts {
    /// In the store, in use.
    Live,
    /// In the store, past its end.
    Expired,
    /// In the store, a record about other memories.
    Record,
    /// In the store, archived, folded into another.
    Ghost,
    /// In the store, archived.
    Archived,
    /// In memfold's archive table.
    Moved,
    /// In the store, but not readable.
    Unreadable,
    /// It was there once.
    Gone,
    /// The store knows nothing of it.
    Unknown,
}

impl Whereabouts {
    /// Says it in a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Expired => "expired",
            Self::Record => "record",
            Self::Ghost => "ghost",
            Self::Archived => "archived",
            Self::Moved => "moved",
            Self::Unreadable => "unreadable",
            Self::Gone => "gone",
            Self::Unknown => "unknown",
        }
    }
}

/// Where a memory is, and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Where it is.
    pub whereabouts: Whereabouts,
    /// Its text, where it is still known.
    pub text: Option<String>,
}

/// Who knows single steps of lineage.
pub trait Lineage {
    /// Why a step cannot be looked up.
    type Error;

    /// Looks for a memory.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn place(&self, id: &MemoryId) -> Result<Place, Self::Error>;

    /// Returns what a memory that is no longer live was folded into.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn folded_into(&self, id: &MemoryId) -> Result<Option<Fold>, Self::Error>;

    /// Returns what was folded into a memory directly, the earliest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn absorbed(&self, id: &MemoryId) -> Result<Vec<Fold>, Self::Error>;
}

#[cfg(test)]
pub(super) mod fixture {
    use std::collections::BTreeMap;
    use std::convert::Infallible;

    use super::*;

    /// Absorbed id → survivor; every id that is not absorbed is live, unless it is named gone.
    #[derive(Debug, Default)]
    pub(crate) struct Plain {
        pub(crate) into: BTreeMap<MemoryId, MemoryId>,
        pub(crate) gone: Vec<MemoryId>,
    }

    impl Plain {
        pub(crate) fn of(pairs: &[(&str, &str)]) -> Self {
            let pair = |(a, s): &(&str, &str)| (MemoryId::new(*a), MemoryId::new(*s));
            Self { into: pairs.iter().map(pair).collect(), gone: Vec::new() }
        }
    }

    pub(crate) fn fold(absorbed: &MemoryId, survivor: &MemoryId) -> Fold {
        Fold {
            absorbed: absorbed.clone(),
            survivor: survivor.clone(),
            similarity: Some(0.99),
            rule_id: None,
            reasons: None,
            run_id: None,
            at: None,
            known_by: KnownBy::Lineage,
        }
    }

    impl Lineage for Plain {
        type Error = Infallible;

        fn place(&self, id: &MemoryId) -> Result<Place, Infallible> {
            let whereabouts = match (self.gone.contains(id), self.into.contains_key(id)) {
                (true, _) => Whereabouts::Gone,
                (false, true) => Whereabouts::Ghost,
                (false, false) => Whereabouts::Live,
            };
            Ok(Place { whereabouts, text: Some(format!("text of {id}")) })
        }

        fn folded_into(&self, id: &MemoryId) -> Result<Option<Fold>, Infallible> {
            Ok(self.into.get(id).map(|survivor| fold(id, survivor)))
        }

        fn absorbed(&self, id: &MemoryId) -> Result<Vec<Fold>, Infallible> {
            let into = self.into.iter().filter(|(_, survivor)| *survivor == id);
            Ok(into.map(|(absorbed, survivor)| fold(absorbed, survivor)).collect())
        }
    }
}

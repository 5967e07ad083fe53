//! [`resolve`]: from any id to the memory that holds its fact now.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Fold, Lineage, Whereabouts};
use crate::memory::MemoryId;

/// Where an id leads.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Resolved {
    /// The id that was asked for.
    pub id: MemoryId,
    /// Where that memory itself is.
    pub whereabouts: Whereabouts,
    /// The folds from it to the end, in order.
    pub folds: Vec<Fold>,
    /// Where the memory at the end is.
    pub end: Whereabouts,
    /// Whether the folds lead in a circle; then the end is none.
    pub is_circle: bool,
}

impl Resolved {
    /// Returns the id at the end of the folds.
    #[must_use]
    pub fn last(&self) -> &MemoryId {
        self.folds.last().map_or(&self.id, |fold| &fold.survivor)
    }

    /// Returns the live memory that it leads to, if any.
    #[must_use]
    pub fn live_id(&self) -> Option<&MemoryId> {
        (self.end == Whereabouts::Live).then(|| self.last())
    }
}

/// Follows an id through what it was folded into.
///
/// # Errors
/// Those of the lineage.
pub fn resolve<L: Lineage>(lineage: &L, id: &MemoryId) -> Result<Resolved, L::Error> {
    let whereabouts = lineage.place(id)?.whereabouts;
    let mut resolved = Resolved {
        id: id.clone(),
        whereabouts,
        folds: Vec::new(),
        end: whereabouts,
        is_circle: false,
    };
    let mut seen = BTreeSet::from([id.clone()]);
    while resolved.end != Whereabouts::Live {
        let Some(fold) = lineage.folded_into(resolved.last())? else { break };
        let survivor = fold.survivor.clone();
        resolved.folds.push(fold);
        if !seen.insert(survivor.clone()) {
            resolved.is_circle = true;
            break;
        }
        resolved.end = lineage.place(&survivor)?.whereabouts;
    }
    Ok(resolved)
}

#[cfg(test)]
mod tests {
    use super::super::fold::fixture::Plain;
    use super::*;

    fn follow(lineage: &Plain, id: &str) -> Resolved {
        let Ok(resolved) = resolve(lineage, &MemoryId::new(id));
        resolved
    }

    #[test]
    fn folds_are_followed_to_the_living() {
        let lineage = Plain::of(&[("a", "b"), ("b", "c")]);
        let resolved = follow(&lineage, "a");
        assert_eq!((resolved.live_id(), resolved.folds.len()), (Some(&MemoryId::new("c")), 2));
        assert_eq!(resolved.whereabouts, Whereabouts::Ghost);
        assert_eq!(follow(&lineage, "c").live_id(), Some(&MemoryId::new("c")));
    }

    #[test]
    fn a_gone_survivor_is_the_end() {
        let lineage = Plain { gone: vec![MemoryId::new("b")], ..Plain::of(&[("a", "b")]) };
        let resolved = follow(&lineage, "a");
        assert_eq!((resolved.live_id(), resolved.end), (None, Whereabouts::Gone));
        assert_eq!(resolved.last(), &MemoryId::new("b"));
    }

    #[test]
    fn circles_end() {
        for pairs in [&[("a", "b"), ("b", "a")][..], &[("a", "a")], &[("a", "b"), ("b", "b")]] {
            let resolved = follow(&Plain::of(pairs), "a");
            assert!(resolved.is_circle && resolved.live_id().is_none(), "{pairs:?}");
        }
    }
}

//! Lineage: the state of a memory, the memories merged into it, and its survivors.
//!
//! Everything here follows single steps that a store knows ([`Lineage`]); nothing reads a store itself. Whatever
//! a store says, every walk ends: cycles are noticed, long lists and deep trees are cut and counted.

use std::collections::BTreeSet;

use serde::Serialize;

use super::memory::{MemoryId, Status};
use memfold_guard::text::excerpt;

/// Where an id leads.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Resolved {
    /// The id that was asked for.
    pub id: MemoryId,
    /// Where that memory itself is.
    pub status: Status,
    /// The merges from it to the end, in order.
    pub merges: Vec<Merge>,
    /// Where the memory at the end is.
    pub end: Status,
    /// Whether the merges lead in a circle; then the end is none.
    pub is_circle: bool,
}

impl Resolved {
    /// Returns the id at the end of the merges.
    #[must_use]
    pub fn last(&self) -> &MemoryId {
        self.merges.last().map_or(&self.id, |merge| &merge.survivor)
    }

    /// Returns the live memory that it leads to, if any.
    #[must_use]
    pub fn live_id(&self) -> Option<&MemoryId> {
        (self.end == Status::Live).then(|| self.last())
    }
}

/// Follows an id through its survivors.
///
/// # Errors
/// Those of the lineage.
pub fn resolve<L: Lineage>(lineage: &L, id: &MemoryId) -> Result<Resolved, L::Error> {
    let status = lineage.place(id)?.status;
    let mut resolved =
        Resolved { id: id.clone(), status, merges: Vec::new(), end: status, is_circle: false };
    let mut seen = BTreeSet::from([id.clone()]);
    while resolved.end != Status::Live {
        let Some(merge) = lineage.merged_into(resolved.last())? else { break };
        let survivor = merge.survivor.clone();
        resolved.merges.push(merge);
        if !seen.insert(survivor.clone()) {
            resolved.is_circle = true;
            break;
        }
        resolved.end = lineage.place(&survivor)?.status;
    }
    Ok(resolved)
}

/// One memory merged into another. Texts are as stored: escape them where they are shown.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Merge {
    /// The memory that was merged.
    pub merged: MemoryId,
    /// Its survivor.
    pub survivor: MemoryId,
    /// Their canonical similarity then.
    pub similarity: Option<f64>,
    /// The rule that merged it.
    pub rule_id: Option<String>,
    /// Why.
    pub reasons: Option<String>,
    /// The run that merged it.
    pub run_id: Option<String>,
    /// When.
    pub at: Option<String>,
    /// How it is known.
    pub known_by: KnownBy,
}

/// How a merge is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KnownBy {
    /// From memfold's own tables.
    Lineage,
    /// From the `source` of the rows themselves.
    Provenance,
}

/// Where a memory is, and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Where it is.
    pub status: Status,
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

    /// Returns the survivors of a memory that is no longer live.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn merged_into(&self, id: &MemoryId) -> Result<Option<Merge>, Self::Error>;

    /// Returns the memories merged into a memory directly, the earliest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn merged(&self, id: &MemoryId) -> Result<Vec<Merge>, Self::Error>;
}

/// Branches that a memory shows.
const SHOWN_MAX: usize = 20;
/// Branches that a whole tree shows.
const BRANCHES_MAX: usize = 200;
/// Generations that a tree shows.
const DEPTH_MAX: usize = 20;
/// Characters of a text.
const TEXT_CHARS: usize = 160;

/// A memory that was merged into the one above it.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Branch {
    /// How it came there.
    #[serde(flatten)]
    pub merge: Merge,
    /// Where it is now.
    pub status: Status,
    /// An excerpt of its text, escaped.
    pub text: Option<String>,
    /// The memories merged into it before, as far as shown.
    pub branches: Few<Self>,
}

/// A branch before its own branches are known.
struct Open {
    parent: usize,
    depth: usize,
    branch: Branch,
}

/// Returns the memories merged into a memory, generation by generation until the tree is full. A memory
/// that appears a second time, as in a circle, is counted and not shown.
///
/// # Errors
/// Those of the lineage.
pub(crate) fn merged_tree<L: Lineage>(lineage: &L, id: &MemoryId) -> Result<Few<Branch>, L::Error> {
    let mut seen = BTreeSet::from([id.clone()]);
    let mut opened: Vec<Open> = Vec::new();
    let mut hidden = vec![0_u64];
    let mut next = 0;
    // Position 0 stands for the memory itself, position n + 1 for the n-th branch.
    while next <= opened.len() {
        let (id, depth) = match next.checked_sub(1).map(|at| &opened[at]) {
            None => (id.clone(), 0),
            Some(open) => (open.branch.merge.merged.clone(), open.depth),
        };
        let merges = lineage.merged(&id)?;
        let mut shown = 0;
        for merge in merges {
            let has_room = shown < SHOWN_MAX && opened.len() < BRANCHES_MAX && depth < DEPTH_MAX;
            if !has_room || !seen.insert(merge.merged.clone()) {
                hidden[next] += 1;
                continue;
            }
            shown += 1;
            opened.push(Open { parent: next, depth: depth + 1, branch: branch(lineage, merge)? });
            hidden.push(0);
        }
        next += 1;
    }
    Ok(assembled(opened, hidden))
}

fn branch<L: Lineage>(lineage: &L, merge: Merge) -> Result<Branch, L::Error> {
    let place = lineage.place(&merge.merged)?;
    Ok(Branch {
        merge,
        status: place.status,
        text: place.text.map(|text| excerpt(&text, TEXT_CHARS)),
        branches: Few::default(),
    })
}

/// Hangs every branch on the one it belongs to; parents come before their branches.
fn assembled(opened: Vec<Open>, hidden: Vec<u64>) -> Few<Branch> {
    let mut gathered: Vec<Few<Branch>> =
        hidden.into_iter().map(|more| Few { shown: Vec::new(), more }).collect();
    for Open { parent, mut branch, .. } in opened.into_iter().rev() {
        let mut own = gathered.pop().unwrap_or_default();
        own.shown.reverse();
        branch.branches = own;
        gathered[parent].shown.push(branch);
    }
    let mut all = gathered.pop().unwrap_or_default();
    all.shown.reverse();
    all
}

/// The first of a list, and how many more there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Few<T> {
    /// The ones that are shown.
    pub shown: Vec<T>,
    /// How many are not.
    pub more: u64,
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self { shown: Vec::new(), more: 0 }
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut few = Self::default();
        for item in items {
            if few.shown.len() < SHOWN_MAX {
                few.shown.push(item);
            } else {
                few.more += 1;
            }
        }
        few
    }
}

/// A memory as it is, its text an escaped excerpt, its other texts as stored.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct MemoryView {
    /// An excerpt of its text.
    pub text: Option<String>,
    /// Its categories.
    pub categories: Vec<String>,
    /// Its importance.
    pub importance: f64,
    /// How often it was read.
    pub access_count: i64,
    /// When it was made, as stored.
    pub created_at: Option<String>,
    /// Where it came from at first.
    pub root_source: String,
}

/// A promotion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Promotion {
    /// How often it had been read then.
    pub access_count: Option<i64>,
    /// The run that promoted it.
    pub run_id: String,
    /// When.
    pub at: String,
}

/// A decision to keep memories apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct KeptApart {
    /// From which others.
    pub from: Few<MemoryId>,
    /// Whether the memory's text is still the one that was decided on.
    pub holds: bool,
    /// The run that wrote it down.
    pub run_id: String,
    /// When.
    pub at: String,
}

/// An action that a person took back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Declined {
    /// Which action.
    pub action: String,
    /// Whether the memory's text is still the one that was decided on.
    pub holds: bool,
    /// The run that wrote it down.
    pub run_id: String,
    /// When.
    pub at: String,
}

/// A contradiction with another memory.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct FlagNote {
    /// The other memory.
    pub other: MemoryId,
    /// `open` or `closed`.
    pub state: String,
    /// How similar they are.
    pub similarity: Option<f64>,
    /// How contradictory they are.
    pub score: Option<f64>,
    /// The run that wrote it down.
    pub run_id: String,
    /// When.
    pub at: String,
}

/// All that is known of one memory.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Explanation {
    /// Where it is, and its survivors.
    #[serde(flatten)]
    pub resolved: Resolved,
    /// The memory itself, where it is still there.
    pub memory: Option<MemoryView>,
    /// The memories merged into it.
    pub merged: Few<Branch>,
    /// Its promotions, the latest first.
    pub promotions: Few<Promotion>,
    /// Decisions to keep it apart from others, the latest first.
    pub kept_apart: Few<KeptApart>,
    /// Actions that people took back, the latest first.
    pub declined: Few<Declined>,
    /// Contradictions with other memories, the latest first.
    pub flags: Few<FlagNote>,
}

/// Explains where a memory is and where its contents come from; decisions and flags are for the caller to add.
///
/// # Errors
/// Those of the lineage.
pub fn explain_merges<L: Lineage>(
    lineage: &L,
    id: &MemoryId,
    memory: Option<MemoryView>,
) -> Result<Explanation, L::Error> {
    let memory = memory
        .map(|view| MemoryView { text: view.text.map(|text| excerpt(&text, TEXT_CHARS)), ..view });
    Ok(Explanation {
        resolved: resolve(lineage, id)?,
        memory,
        merged: merged_tree(lineage, id)?,
        promotions: Few::default(),
        kept_apart: Few::default(),
        declined: Few::default(),
        flags: Few::default(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::convert::Infallible;

    use super::*;

    /// Merged id → survivor; every id that is not merged is live, unless it is named gone.
    #[derive(Debug, Default)]
    struct Plain {
        into: BTreeMap<MemoryId, MemoryId>,
        gone: Vec<MemoryId>,
    }

    impl Plain {
        fn of(pairs: &[(&str, &str)]) -> Self {
            let pair = |(a, s): &(&str, &str)| (MemoryId::new(*a), MemoryId::new(*s));
            Self { into: pairs.iter().map(pair).collect(), gone: Vec::new() }
        }
    }

    fn merge(merged: &MemoryId, survivor: &MemoryId) -> Merge {
        Merge {
            merged: merged.clone(),
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
            let status = match (self.gone.contains(id), self.into.contains_key(id)) {
                (true, _) => Status::Gone,
                (false, true) => Status::Merged,
                (false, false) => Status::Live,
            };
            Ok(Place { status, text: Some(format!("text of {id}")) })
        }

        fn merged_into(&self, id: &MemoryId) -> Result<Option<Merge>, Infallible> {
            Ok(self.into.get(id).map(|survivor| merge(id, survivor)))
        }

        fn merged(&self, id: &MemoryId) -> Result<Vec<Merge>, Infallible> {
            let into = self.into.iter().filter(|(_, survivor)| *survivor == id);
            Ok(into.map(|(merged, survivor)| merge(merged, survivor)).collect())
        }
    }

    fn follow(lineage: &Plain, id: &str) -> Resolved {
        let Ok(resolved) = resolve(lineage, &MemoryId::new(id));
        resolved
    }

    #[test]
    fn merges_are_followed_to_the_live_row() {
        let lineage = Plain::of(&[("a", "b"), ("b", "c")]);
        let resolved = follow(&lineage, "a");
        assert_eq!((resolved.live_id(), resolved.merges.len()), (Some(&MemoryId::new("c")), 2));
        assert_eq!(resolved.status, Status::Merged);
        assert_eq!(follow(&lineage, "c").live_id(), Some(&MemoryId::new("c")));
    }

    #[test]
    fn a_gone_survivor_is_the_end() {
        let lineage = Plain { gone: vec![MemoryId::new("b")], ..Plain::of(&[("a", "b")]) };
        let resolved = follow(&lineage, "a");
        assert_eq!((resolved.live_id(), resolved.end), (None, Status::Gone));
        assert_eq!(resolved.last(), &MemoryId::new("b"));
    }

    #[test]
    fn circles_end() {
        for pairs in [&[("a", "b"), ("b", "a")][..], &[("a", "a")], &[("a", "b"), ("b", "b")]] {
            let resolved = follow(&Plain::of(pairs), "a");
            assert!(resolved.is_circle && resolved.live_id().is_none(), "{pairs:?}");
        }
    }

    fn tree(lineage: &Plain, id: &str) -> Few<Branch> {
        let Ok(tree) = merged_tree(lineage, &MemoryId::new(id));
        tree
    }

    /// `a(b c(d))`, hidden ones as `+n`.
    fn written(few: &Few<Branch>) -> String {
        let mut parts: Vec<String> = few
            .shown
            .iter()
            .map(|branch| match written(&branch.branches) {
                inside if inside.is_empty() => branch.merge.merged.to_string(),
                inside => format!("{}({inside})", branch.merge.merged),
            })
            .collect();
        parts.extend((few.more > 0).then(|| format!("+{}", few.more)));
        parts.join(" ")
    }

    #[test]
    fn branches_hang_where_they_belong() {
        let pairs = [("a", "r"), ("b", "r"), ("c", "a"), ("d", "a"), ("e", "b"), ("f", "c")];
        assert_eq!(written(&tree(&Plain::of(&pairs), "r")), "a(c(f) d) b(e)");
        assert_eq!(written(&tree(&Plain::of(&pairs), "f")), "");
    }

    #[test]
    fn circles_are_counted_once() {
        assert_eq!(written(&tree(&Plain::of(&[("a", "b"), ("b", "a")]), "a")), "b(+1)");
        assert_eq!(written(&tree(&Plain::of(&[("a", "a")]), "a")), "+1");
    }

    #[test]
    fn long_lists_are_cut_and_counted() {
        let into = (0..10_000).map(|i| (MemoryId::new(format!("m{i:05}")), MemoryId::new("r")));
        let tree = tree(&Plain { into: into.collect(), gone: Vec::new() }, "r");
        assert_eq!((tree.shown.len(), tree.more), (SHOWN_MAX, 10_000 - SHOWN_MAX as u64));
        assert_eq!(tree.shown[1].merge.merged.as_str(), "m00001");
    }

    #[test]
    fn deep_and_bushy_trees_are_cut() {
        let chain = (0..10_000)
            .map(|i| (MemoryId::new(format!("m{i}")), MemoryId::new(format!("m{}", i + 1))));
        let deep = tree(&Plain { into: chain.collect(), gone: Vec::new() }, "m10000");
        let text = written(&deep);
        assert_eq!(text.matches('m').count(), DEPTH_MAX);
        assert!(text.contains("+1"));
        let bush = (1..100_000_u32)
            .map(|i| (MemoryId::new(format!("m{i}")), MemoryId::new(format!("m{}", i / 10))));
        let bush = Plain { into: bush.take(2_000).collect(), gone: Vec::new() };
        assert_eq!(written(&tree(&bush, "m0")).matches('m').count(), BRANCHES_MAX);
    }

    #[test]
    fn texts_are_escaped() {
        let shown = tree(&Plain::of(&[("a\u{1b}[31m", "r")]), "r").shown;
        assert_eq!(shown[0].text.as_deref(), Some("text of a\\u{1b}[31m"));
    }
}

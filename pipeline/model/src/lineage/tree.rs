//! [`absorbed_tree`]: all that was folded into a memory, as a tree of bounded size.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Few, Fold, Lineage, Whereabouts};
use crate::memory::MemoryId;
use crate::text::excerpt;

/// Branches that a memory shows.
pub(super) const SHOWN_MAX: usize = 20;
/// Branches that a whole tree shows.
const BRANCHES_MAX: usize = 200;
/// Generations that a tree shows.
const DEPTH_MAX: usize = 20;
/// Characters of a text.
pub(super) const TEXT_CHARS: usize = 160;

/// A memory that was folded into the one above it.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Branch {
    /// How it came there.
    #[serde(flatten)]
    pub fold: Fold,
    /// Where it is now.
    pub whereabouts: Whereabouts,
    /// An excerpt of its text, escaped.
    pub text: Option<String>,
    /// What had been folded into it, as far as shown.
    pub branches: Few<Self>,
}

/// A branch before its own branches are known.
struct Open {
    parent: usize,
    depth: usize,
    branch: Branch,
}

/// Returns what was folded into a memory, generation by generation until the tree is full. A memory
/// that appears a second time, as in a circle, is counted and not shown.
///
/// # Errors
/// Those of the lineage.
pub fn absorbed_tree<L: Lineage>(lineage: &L, id: &MemoryId) -> Result<Few<Branch>, L::Error> {
    let mut seen = BTreeSet::from([id.clone()]);
    let mut opened: Vec<Open> = Vec::new();
    let mut hidden = vec![0_u64];
    let mut next = 0;
    // Position 0 stands for the memory itself, position n + 1 for the n-th branch.
    while next <= opened.len() {
        let (id, depth) = match next.checked_sub(1).map(|at| &opened[at]) {
            None => (id.clone(), 0),
            Some(open) => (open.branch.fold.absorbed.clone(), open.depth),
        };
        let folds = lineage.absorbed(&id)?;
        let mut shown = 0;
        for fold in folds {
            let has_room = shown < SHOWN_MAX && opened.len() < BRANCHES_MAX && depth < DEPTH_MAX;
            if !has_room || !seen.insert(fold.absorbed.clone()) {
                hidden[next] += 1;
                continue;
            }
            shown += 1;
            opened.push(Open { parent: next, depth: depth + 1, branch: branch(lineage, fold)? });
            hidden.push(0);
        }
        next += 1;
    }
    Ok(assembled(opened, hidden))
}

fn branch<L: Lineage>(lineage: &L, fold: Fold) -> Result<Branch, L::Error> {
    let place = lineage.place(&fold.absorbed)?;
    Ok(Branch {
        fold,
        whereabouts: place.whereabouts,
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

#[cfg(test)]
mod tests {
    use super::super::fold::fixture::Plain;
    use super::*;

    fn tree(lineage: &Plain, id: &str) -> Few<Branch> {
        let Ok(tree) = absorbed_tree(lineage, &MemoryId::new(id));
        tree
    }

    /// `a(b c(d))`, hidden ones as `+n`.
    fn written(few: &Few<Branch>) -> String {
        let mut parts: Vec<String> = few
            .shown
            .iter()
            .map(|branch| match written(&branch.branches) {
                inside if inside.is_empty() => branch.fold.absorbed.to_string(),
                inside => format!("{}({inside})", branch.fold.absorbed),
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
        assert_eq!(tree.shown[1].fold.absorbed.as_str(), "m00001");
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

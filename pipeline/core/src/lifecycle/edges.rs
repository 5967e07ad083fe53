//! Edges: which memory supersedes, consolidates or references which.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use crate::memory::{MemoryId, named};
use crate::summary::Confidence;
use crate::time::Instant;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A tree is never deeper; each level indents its lines further.
pub const TREE_DEPTH_MAX: u32 = 64;

/// A shorter text is taken for a word or a number even where it is a known id.
const REFERENCE_BYTES_MIN: usize = 6;

named! {
    /// How two memories are related, in the order in which trees show them.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum EdgeType {
        /// The source is newer and replaces the target.
        Supersedes = "supersedes",
        /// The source is a summary or survivor of the target.
        Consolidates = "consolidates",
        /// The source names the target.
        References = "references",
    }
}

impl EdgeType {
    /// Reads a name, in any case.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name))
    }
}

/// A directed relation; unique by source, target and type.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Edge {
    /// Where it starts.
    pub source: MemoryId,
    /// Where it ends.
    pub target: MemoryId,
    /// What it says.
    #[serde(rename = "type")]
    pub edge_type: EdgeType,
    /// Rank among edges of its type, in \[0, 1\]; 1 is the strongest.
    pub weight: f64,
    /// Why it was drawn, in words.
    pub reason: String,
    /// How sure that is.
    pub confidence: Confidence,
    /// The run that drew it; none where the store brought it.
    pub run_id: Option<String>,
    /// When it was drawn; RFC 3339 in JSON.
    #[serde(serialize_with = "as_rfc3339")]
    #[schemars(with = "String")]
    pub created_at: Instant,
}

fn as_rfc3339<S: serde::Serializer>(at: &Instant, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(at)
}

impl Edge {
    fn key(&self) -> (EdgeType, &MemoryId, &MemoryId) {
        (self.edge_type, &self.source, &self.target)
    }
}

/// Returns the superseding memories of each superseded one, by the id of the latter.
///
/// Only SUPERSEDES edges of high confidence count, and of several the newest. Where two memories
/// supersede each other the newer edge holds, and neither if they are of one time. An edge from a
/// memory to itself says nothing.
#[must_use]
pub fn superseded_by(edges: &[Edge]) -> BTreeMap<&MemoryId, &Edge> {
    let counts = |edge: &&Edge| {
        edge.edge_type == EdgeType::Supersedes
            && edge.confidence == Confidence::High
            && edge.source != edge.target
    };
    let mut drawn: BTreeMap<(&MemoryId, &MemoryId), Instant> = BTreeMap::new();
    for edge in edges.iter().filter(counts) {
        let at = drawn.entry((&edge.source, &edge.target)).or_insert(edge.created_at);
        *at = edge.created_at.max(*at);
    }
    let holds = |edge: &&Edge| {
        drawn.get(&(&edge.target, &edge.source)).is_none_or(|back| *back < edge.created_at)
    };
    let mut newest: BTreeMap<&MemoryId, &Edge> = BTreeMap::new();
    for edge in edges.iter().filter(counts).filter(holds) {
        let best = newest.entry(&edge.target).or_insert(edge);
        if (edge.created_at, &edge.source) > (best.created_at, &best.source) {
            *best = edge;
        }
    }
    newest
}

/// A line of a tree, in the order of printing.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeLine<'a> {
    /// The branches to draw before the line (`│  ├─ `); empty for the root.
    pub prefix: String,
    /// The memory.
    pub id: &'a MemoryId,
    /// The edge to the line's parent; none for the root.
    pub edge: Option<&'a Edge>,
    /// Whether the memory has a line of its own elsewhere that shows its edges.
    pub is_repeated: bool,
    /// How many edges of the memory the depth limit hides.
    pub hidden_count: usize,
}

impl TreeLine<'_> {
    /// Whether the edge leads from the parent to this memory (`supersedes`) or back (`superseded
    /// by`).
    pub(crate) fn is_outgoing(&self) -> bool {
        self.edge.is_some_and(|edge| edge.target == *self.id)
    }

    /// Returns how the parent relates to this memory, as in `supersedes` and `superseded by`;
    /// empty for the root.
    #[must_use]
    pub fn relation(&self) -> &'static str {
        match (self.edge.map(|edge| edge.edge_type), self.is_outgoing()) {
            (None, _) => "",
            (Some(edge_type), true) => edge_type.name(),
            (Some(EdgeType::Supersedes), false) => "superseded by",
            (Some(EdgeType::Consolidates), false) => "consolidated into",
            (Some(EdgeType::References), false) => "referenced by",
        }
    }
}

impl fmt::Display for TreeLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let relation = self.relation();
        let gap = if relation.is_empty() { "" } else { " " };
        let id = self.id.as_str().escape_debug();
        write!(f, "{}{relation}{gap}{id}", self.prefix)?;
        match (self.is_repeated, self.hidden_count) {
            (true, _) => f.write_str(" (see above or below)"),
            (false, 0) => Ok(()),
            (false, hidden) => write!(f, " ({hidden} more)"),
        }
    }
}

struct Node<'a> {
    id: &'a MemoryId,
    edge: Option<&'a Edge>,
    depth: u32,
    is_repeated: bool,
    hidden_count: usize,
    children: Vec<usize>,
}

/// Lists the memories connected with `root`, edges of both directions, as the lines of a tree.
///
/// Each edge appears once, and each memory has one line with children: that nearest to the root. So
/// cycles end, and the result does not depend on the order of `edges`. `depth` counts edges from
/// the root, at most [`TREE_DEPTH_MAX`]. The time is that of sorting the edges.
#[must_use]
pub fn tree<'a>(edges: &'a [Edge], root: &'a MemoryId, depth: u32) -> Vec<TreeLine<'a>> {
    let nodes = breadth_first(edges, root, depth.min(TREE_DEPTH_MAX));
    let mut lines = Vec::with_capacity(nodes.len());
    // Per open node: its place, the prefix of its line and of the lines below.
    let mut open = vec![(0, String::new(), String::new())];
    while let Some((at, prefix, below)) = open.pop() {
        let Node { id, edge, is_repeated, hidden_count, ref children, .. } = nodes[at];
        lines.push(TreeLine { prefix, id, edge, is_repeated, hidden_count });
        for (place, child) in children.iter().enumerate().rev() {
            let is_last = place + 1 == children.len();
            let (branch, rest) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            open.push((*child, format!("{below}{branch}"), format!("{below}{rest}")));
        }
    }
    lines
}

fn breadth_first<'a>(edges: &'a [Edge], root: &'a MemoryId, depth_max: u32) -> Vec<Node<'a>> {
    let around = adjacency(edges);
    let node = |id, edge, depth, is_repeated| Node {
        id,
        edge,
        depth,
        is_repeated,
        hidden_count: 0,
        children: Vec::new(),
    };
    let mut nodes = vec![node(root, None, 0, false)];
    let (mut seen, mut shown) = (BTreeSet::from([root]), BTreeSet::new());
    let mut queue = VecDeque::from([0]);
    while let Some(at) = queue.pop_front() {
        let (id, depth) = (nodes[at].id, nodes[at].depth);
        for (other, edge) in around.get(id).into_iter().flatten() {
            if shown.contains(&edge.key()) {
                continue;
            }
            if depth == depth_max {
                nodes[at].hidden_count += 1;
                continue;
            }
            shown.insert(edge.key());
            let is_new = seen.insert(*other);
            let child = nodes.len();
            nodes.push(node(*other, Some(*edge), depth + 1, !is_new));
            nodes[at].children.push(child);
            if is_new {
                queue.push_back(child);
            }
        }
    }
    nodes
}

type Adjacency<'a> = BTreeMap<&'a MemoryId, Vec<(&'a MemoryId, &'a Edge)>>;

/// The neighbours of each memory: by type, outgoing first, then by id.
fn adjacency(edges: &[Edge]) -> Adjacency<'_> {
    let mut around = Adjacency::new();
    for edge in edges {
        around.entry(&edge.source).or_default().push((&edge.target, edge));
        if edge.source != edge.target {
            around.entry(&edge.target).or_default().push((&edge.source, edge));
        }
    }
    for (id, neighbours) in &mut around {
        neighbours.sort_by_key(|(other, edge)| (edge.edge_type, edge.source != **id, *other));
        neighbours.dedup_by_key(|(_, edge)| edge.key());
    }
    around
}

/// Finds the known ids that a text names, in the order of their first mention.
///
/// An id counts where it stands as a whole token: a run of letters, digits and `_ - : . / # @ +
/// ~`, with or without the punctuation at its ends. Ids under 6 bytes, numbers, and words as of a
/// dictionary never count: "12 retries" is no reference to row 12. Linear in the text, one call
/// of `is_known` to three per token.
///
/// # Examples
///
/// ```
/// let known = ["mem_4fa1b2c3d4e5", "decisions:1a2b3c4:0"];
/// let text = "Replaces mem_4fa1b2c3d4e5; see (decisions:1a2b3c4:0). Not mem_4fa1b2c3d4e55.";
/// let found = memfold_core::lifecycle::references(text, |id| known.contains(&id));
/// assert_eq!(found, known);
/// ```
#[must_use]
pub fn references(text: &str, is_known: impl Fn(&str) -> bool) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    text.split(|character: char| !is_id_char(character))
        .filter_map(|token| {
            let end = token.trim_end_matches(is_id_punctuation);
            let both = end.trim_start_matches(is_id_punctuation);
            [token, end, both].into_iter().find(|id| is_id_like(id) && is_known(id))
        })
        .filter(|id| seen.insert(*id))
        .collect()
}

fn is_id_char(character: char) -> bool {
    character.is_alphanumeric() || is_id_punctuation(character)
}

fn is_id_punctuation(character: char) -> bool {
    matches!(character, '_' | '-' | ':' | '.' | '/' | '#' | '@' | '+' | '~')
}

fn is_id_like(token: &str) -> bool {
    let is_number = token.chars().all(char::is_numeric);
    let is_word =
        token.chars().all(char::is_alphabetic) && !token.chars().skip(1).any(char::is_uppercase);
    token.len() >= REFERENCE_BYTES_MIN && !is_number && !is_word
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn edge(source: &str, target: &str, edge_type: EdgeType) -> Edge {
        Edge {
            source: MemoryId::new(source),
            target: MemoryId::new(target),
            edge_type,
            weight: 1.0,
            reason: String::new(),
            confidence: Confidence::High,
            run_id: None,
            created_at: Instant(0),
        }
    }

    fn supersedes(source: &str, target: &str, at: i64) -> Edge {
        Edge { created_at: Instant(at), ..edge(source, target, EdgeType::Supersedes) }
    }

    fn drawn(edges: &[Edge], root: &str, depth: u32) -> Vec<String> {
        let root = MemoryId::new(root);
        tree(edges, &root, depth).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_newest_sure_edge_supersedes() {
        let unsure = Edge { confidence: Confidence::Medium, ..supersedes("x", "d", 9) };
        let edges = [
            supersedes("b", "a", 1),
            supersedes("c", "a", 2),
            supersedes("a", "c", 1),
            supersedes("e", "f", 3),
            supersedes("f", "e", 3),
            supersedes("g", "g", 4),
            edge("h", "i", EdgeType::Consolidates),
            unsure,
        ];
        let found: Vec<(&str, &str)> = superseded_by(&edges)
            .iter()
            .map(|(id, edge)| (id.as_str(), edge.source.as_str()))
            .collect();
        assert_eq!(found, [("a", "c")]);
    }

    #[test]
    fn a_tree_shows_both_directions_and_ends_at_cycles() {
        let edges = [
            edge("s", "a", EdgeType::Consolidates),
            edge("s", "b", EdgeType::Consolidates),
            supersedes("b", "a", 0),
            edge("a", "s", EdgeType::References),
            edge("b", "b", EdgeType::References),
            edge("s", "b", EdgeType::Consolidates),
            edge("c", "d", EdgeType::References),
        ];
        assert_eq!(
            drawn(&edges, "a", 9),
            [
                "a",
                "├─ superseded by b",
                "│  ├─ consolidated into s (see above or below)",
                "│  └─ references b (see above or below)",
                "├─ consolidated into s",
                "└─ references s (see above or below)",
            ]
        );
        assert_eq!(
            drawn(&edges, "a", 1),
            [
                "a",
                "├─ superseded by b (2 more)",
                "├─ consolidated into s (1 more)",
                "└─ references s (see above or below)",
            ]
        );
        assert_eq!(drawn(&edges, "a", 0), ["a (3 more)"]);
        assert_eq!(drawn(&edges, "unknown\n", 3), ["unknown\\n"]);
    }

    /// A chain of 100,000 edges is cut, and its depth is no matter for the stack.
    #[test]
    fn a_long_chain_is_cut() {
        let edges: Vec<Edge> = (0..100_000)
            .map(|at| edge(&format!("{at}"), &format!("{}", at + 1), EdgeType::References))
            .collect();
        let lines = drawn(&edges, "0", u32::MAX);
        assert_eq!(lines.len(), TREE_DEPTH_MAX as usize + 1);
        assert!(lines.last().unwrap().ends_with("references 64 (1 more)"));
    }

    #[test]
    fn names_and_json() {
        for edge_type in EdgeType::ALL {
            assert_eq!(EdgeType::parse(&edge_type.name().to_uppercase()), Some(edge_type));
        }
        let json = serde_json::to_value(supersedes("a", "b", 1_000_000)).unwrap();
        assert_eq!(json["type"], "supersedes");
        assert_eq!(json["created_at"], "1970-01-01T00:00:01Z");
    }

    #[test]
    fn references_are_whole_tokens_that_look_like_ids() {
        let known = ["mem_abc123", "42", "123456", "deploy", "Release", "ns:1a2b3c4:0", "x-1.2"];
        let named = |text| references(text, |id| known.contains(&id));
        for (text, expected) in [
            ("see mem_abc123.", vec!["mem_abc123"]),
            ("mem_abc123, mem_abc123; (ns:1a2b3c4:0):", vec!["mem_abc123", "ns:1a2b3c4:0"]),
            ("#mem_abc123's id=mem_abc123", vec!["mem_abc123"]),
            ("mem_abc1234 xmem_abc123 mem_abc123-b a/mem_abc123 émem_abc123", vec![]),
            ("42 of 123456: deploy Release x-1.2", vec![]),
            ("メモ「mem_abc123」", vec!["mem_abc123"]),
            ("", vec![]),
        ] {
            assert_eq!(named(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn trees_end_and_ignore_the_order_of_edges(
            pairs in proptest::collection::vec((0_u8..8, 0_u8..8, 0_usize..3), 0..40),
            turn in 0_usize..40,
            depth in 0_u32..6,
        ) {
            let name = |at: u8| format!("m{at}");
            let mut edges: Vec<Edge> = pairs
                .iter()
                .map(|(from, to, kind)| edge(&name(*from), &name(*to), EdgeType::ALL[*kind]))
                .collect();
            let first = drawn(&edges, "m0", depth);
            if !edges.is_empty() {
                let middle = turn % edges.len();
                edges.rotate_left(middle);
                edges.reverse();
            }
            prop_assert_eq!(&first, &drawn(&edges, "m0", depth));
            let unique: BTreeSet<_> = edges.iter().map(Edge::key).collect();
            prop_assert!(first.len() <= unique.len() + 1, "each edge once");
        }
    }
}

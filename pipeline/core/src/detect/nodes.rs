//! Nodes: texts to be compared once, however many rows repeat them.
//!
//! Rows that share vector, strict key and separation class are one node: whatever holds for one of
//! them holds for all. Nodes are numbered by their newest row, so nothing depends on the store's order.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;
use std::ops::Range;

use crate::Snapshot;
use crate::memory::{CreatedAt, Memory, MemoryId, MemoryIndex, SpaceIndex, Status};
use crate::time::Instant;
use memfold_index::{Pool, Row};
use memfold_simd::Similarity;

use super::Unit;
use super::pipeline::BuiltIn;
use crate::policy::defaults::SHARED_VECTOR_TEXTS_MAX;
use crate::policy::{Policy, Scope};

/// The mark of a node without a vector or without a text key.
pub(super) const NONE: u32 = u32::MAX;

/// A row of a unit: its live row or a merged row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) memory: MemoryIndex,
    pub(super) unit: u32,
    pub(super) live: bool,
}

/// Two nodes with near or equal vectors; `a < b`, so `a` holds the newer row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct NodePair {
    pub(super) a: u32,
    pub(super) b: u32,
    pub(super) similarity: Similarity,
}

/// Rows that share vector, strict key and class.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// Dense number of the distinct vector, of the built-in embedding where the rows have none of their own; or [`NONE`].
    pub(super) vector: u32,
    /// Dense number of the vector of the built-in embedding, or [`NONE`].
    built_in: u32,
    /// Dense number of (strict key, class), or [`NONE`] where equal text does not link.
    pub(super) key: u32,
    /// Dense number of the class.
    pub(super) class: u32,
    items: Range<usize>,
    /// How many of the items are live rows.
    pub(super) live_count: u64,
}

impl Node {
    fn has_own_vector(&self) -> bool {
        self.vector != NONE && self.vector != self.built_in
    }
}

/// Where each row's distinct vector is, for every space.
pub(super) struct DistinctVectors {
    /// `numbers[space][row]`: dense over all spaces; rows of one group share a number.
    pub(super) numbers: Vec<Vec<u32>>,
    /// Space and smallest row of each number.
    pub(super) places: Vec<(SpaceIndex, Row)>,
}

/// Numbers of the vectors of memories.
#[derive(Clone, Copy)]
pub(super) struct VectorNumbers<'a> {
    pub(super) distinct: &'a DistinctVectors,
    pub(super) built_in: Option<BuiltIn<'a>>,
}

impl VectorNumbers<'_> {
    fn at(&self, place: Option<(SpaceIndex, Row)>) -> u32 {
        place.map_or(NONE, |(space, row)| self.distinct.numbers[space.0 as usize][row.index()])
    }

    fn built_in(&self, memory: MemoryIndex) -> u32 {
        self.at(self.built_in.as_ref().and_then(|built_in| built_in.place(memory)))
    }

    /// The number of a memory's own vector, else of that of the built-in embedding, else [`NONE`].
    pub(super) fn number(&self, memories: &[Memory], memory: MemoryIndex) -> u32 {
        match memories[memory.index()].embedding.vector() {
            Some(place) => self.at(Some(place)),
            None => self.built_in(memory),
        }
    }
}

/// Live rows under a distinct vector.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct VectorRows {
    /// Rows that are compared by it.
    pub(super) compared: u64,
    /// Rows with a vector of their own, which are compared by this one with others only.
    pub(super) beside: u64,
}

/// Items and nodes of all units.
pub(super) struct Nodes {
    pub(super) nodes: Vec<Node>,
    /// Items of all nodes, node by node, newest first.
    items: Vec<Item>,
    /// Nodes of each unit, ascending, without repeats.
    pub(super) unit_nodes: Vec<Vec<u32>>,
    /// Node of each unit's live row.
    pub(super) live_nodes: Vec<u32>,
    /// `(vector, node)`, sorted.
    by_vector: Vec<(u32, u32)>,
    /// `(key, node)`, sorted.
    by_key: Vec<(u32, u32)>,
    /// Live rows with a vector that stands under too many texts.
    pub(super) shared_vector_rows: Vec<MemoryIndex>,
}

impl Nodes {
    pub(super) fn items(&self, node: u32) -> &[Item] {
        &self.items[self.nodes[node as usize].items.clone()]
    }

    /// Returns the node's newest live item.
    pub(super) fn newest_live(&self, node: u32) -> Option<Item> {
        self.items(node).iter().copied().find(|item| item.live)
    }

    /// Lists each node under the vector that its newest row has of the built-in embedding, unless it has no vector that
    /// counts.
    fn add_built_in(&mut self, vectors: VectorNumbers<'_>) {
        if vectors.built_in.is_none() {
            return;
        }
        for at in 0..self.nodes.len() {
            if self.nodes[at].vector != NONE {
                let newest = self.items(at as u32)[0].memory;
                self.nodes[at].built_in = vectors.built_in(newest);
            }
        }
        let own = self.nodes.iter().map(|node| node.vector);
        let built_in = self.nodes.iter().map(|node| node.built_in);
        let mut listed: Vec<(u32, u32)> =
            own.zip(0..).chain(built_in.zip(0..)).filter(|(number, _)| *number != NONE).collect();
        listed.sort_unstable();
        listed.dedup();
        self.by_vector = listed;
    }

    /// Returns the nodes of a distinct vector, ascending.
    pub(super) fn of_vector(&self, vector: u32) -> impl Iterator<Item = u32> + Clone {
        under(&self.by_vector, vector)
    }

    /// Counts the groups of two or more live rows that repeat one text (without text keys: one node).
    pub(super) fn duplicate_groups(&self) -> u64 {
        let live = |&(_, node): &(u32, u32)| self.nodes[node as usize].live_count;
        let keyed = self.by_key.chunk_by(|a, b| a.0 == b.0);
        let keyed = keyed.filter(|group| group.iter().map(live).sum::<u64>() > 1).count();
        let unkeyed = self.nodes.iter().filter(|n| n.key == NONE && n.live_count > 1).count();
        (keyed + unkeyed) as u64
    }

    /// Counts the pairs of live rows that share a node or a text key.
    pub(super) fn equal_pairs(&self) -> u64 {
        let live = |&(_, node): &(u32, u32)| self.nodes[node as usize].live_count;
        let keyed = self.by_key.chunk_by(|a, b| a.0 == b.0);
        let keyed = keyed.map(|group| pairs_of(group.iter().map(live).sum()));
        let unkeyed = self.nodes.iter().filter(|n| n.key == NONE).map(|n| pairs_of(n.live_count));
        keyed.chain(unkeyed).sum()
    }

    /// Counts the live rows under each of `count` distinct vectors.
    pub(super) fn live_rows_by_vector(&self, count: usize) -> Vec<VectorRows> {
        let mut rows = vec![VectorRows::default(); count];
        for node in &self.nodes {
            if node.vector != NONE {
                rows[node.vector as usize].compared += node.live_count;
            }
            if node.has_own_vector() && node.built_in != NONE {
                rows[node.built_in as usize].beside += node.live_count;
            }
        }
        rows
    }

    /// Tells whether a vector compares two of its nodes, or of its neighbours': that of the built-in embedding does not
    /// where both have one of their own.
    pub(super) fn meet_under(&self, vector: u32, a: u32, b: u32) -> bool {
        let [a, b] = [a, b].map(|node| &self.nodes[node as usize]);
        vector == a.vector || !(a.has_own_vector() && b.has_own_vector())
    }

    /// Returns the distinct vectors under which there are nodes, ascending.
    pub(super) fn vectors(&self) -> impl Iterator<Item = u32> {
        self.by_vector.chunk_by(|a, b| a.0 == b.0).map(|group| group[0].0)
    }
}

/// Returns the entries under `number` in a sorted list; nothing under [`NONE`].
fn under(list: &[(u32, u32)], number: u32) -> impl Iterator<Item = u32> + Clone {
    let start =
        if number == NONE { list.len() } else { list.partition_point(|&(n, _)| n < number) };
    list[start..].iter().take_while(move |&&(n, _)| n == number).map(|&(_, node)| node)
}

/// Returns how many pairs `count` rows make.
pub(super) const fn pairs_of(count: u64) -> u64 {
    count * count.saturating_sub(1) / 2
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Signature {
    vector: u32,
    /// Tells texts apart even where equal text does not link.
    text: u32,
    class: u32,
    /// Tells rows without a vector apart where equal text does not link.
    alone: u32,
}

/// Builds the nodes of `units`.
pub(super) fn build(
    memories: &[Memory],
    units: &[Unit],
    vectors: VectorNumbers<'_>,
    policy: &Policy,
    pool: &Pool,
) -> Nodes {
    let items = items_of(memories, units);
    let texts = intern_texts(memories, &items, pool);
    let classes = intern_classes(memories, &items, &policy.cluster.separate_by);
    let mut numbers: Vec<u32> =
        items.iter().map(|item| vectors.number(memories, item.memory)).collect();
    let shared_vector_rows = drop_shared(&items, &mut numbers, &texts, policy);

    let keyed = policy.detect.exact_text || policy.guard.enabled;
    let signatures: Vec<Signature> = (0..items.len())
        .map(|i| Signature {
            vector: numbers[i],
            text: if keyed { texts[i] } else { NONE },
            class: classes[i],
            alone: if numbers[i] == NONE && !policy.detect.exact_text { i as u32 } else { NONE },
        })
        .collect();
    let mut nodes =
        assemble(&items, &signatures, units.len(), policy.detect.exact_text, shared_vector_rows);
    nodes.add_built_in(vectors);
    nodes
}

/// The rows of all units, newest first, merged or not: so nodes keep their order when rows merge.
fn items_of(memories: &[Memory], units: &[Unit]) -> Vec<Item> {
    let mut items = Vec::with_capacity(units.len());
    for (i, unit) in units.iter().enumerate() {
        let item = |memory, live| Item { memory, unit: i as u32, live };
        items.push(item(unit.live, true));
        items.extend(unit.merged_rows.iter().map(|&merged_row| item(merged_row, false)));
    }
    if items.len() > units.len() {
        let memory = |item: &Item| &memories[item.memory.index()];
        items.sort_by(|a, b| newest_first(memory(a), memory(b)));
    }
    items
}

const BATCH: usize = 1024;

fn intern_texts(memories: &[Memory], items: &[Item], pool: &Pool) -> Vec<u32> {
    let hash = |item: &Item| {
        let key = memories[item.memory.index()].text_key();
        let digest = blake3::hash(key.as_bytes());
        u128::from_le_bytes(digest.as_bytes()[..16].try_into().expect("a digest has 32 bytes"))
    };
    let batches = pool.map(items.len().div_ceil(BATCH), |batch| {
        let end = items.len().min((batch + 1) * BATCH);
        items[batch * BATCH..end].iter().map(hash).collect::<Vec<_>>()
    });
    let mut seen: HashMap<u128, u32> = HashMap::with_capacity(items.len());
    let intern = |hash| {
        let next = seen.len() as u32;
        *seen.entry(hash).or_insert(next)
    };
    batches.into_iter().flatten().map(intern).collect()
}

fn intern_classes(memories: &[Memory], items: &[Item], patterns: &[String]) -> Vec<u32> {
    let mut seen: HashMap<Vec<String>, u32> = HashMap::from([(Vec::new(), 0)]);
    let class = |item: &Item| {
        let own: Vec<Box<str>> =
            own_categories(&memories[item.memory.index()]).map(Into::into).collect();
        let separating = separating(&own, patterns);
        let next = seen.len() as u32;
        *seen.entry(separating).or_insert(next)
    };
    items.iter().map(class).collect()
}

/// Returns the categories that keep memories apart, sorted. The part that stands for `*` is a name, which keeps its
/// spelling: `user:Ann` and `user:ann` may be two users. Capitals of other categories make no difference.
pub fn separating(categories: &[Box<str>], patterns: &[String]) -> Vec<String> {
    let patterns: Vec<String> = patterns.iter().map(|pattern| pattern.to_lowercase()).collect();
    let separates = |category: &str| {
        let lower = category.to_lowercase();
        if patterns.contains(&lower) {
            return Some(lower);
        }
        let is_named = patterns.iter().any(|pattern| matches_pattern(&lower, pattern));
        is_named.then(|| category.to_owned())
    };
    let mut separating: Vec<String> =
        categories.iter().filter_map(|category| separates(category)).collect();
    separating.sort_unstable();
    separating.dedup();
    separating
}

/// Matches a category against `name` or `prefix*`, both in lower case.
fn matches_pattern(category: &str, pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => category.starts_with(prefix),
        None => category == pattern,
    }
}

/// Takes away vectors that stand under too many texts: an embedder's fault.
fn drop_shared(
    items: &[Item],
    numbers: &mut [u32],
    texts: &[u32],
    policy: &Policy,
) -> Vec<MemoryIndex> {
    if !policy.guard.enabled {
        return Vec::new();
    }
    let mut by_vector: Vec<(u32, u32)> =
        numbers.iter().zip(texts).filter(|&(&v, _)| v != NONE).map(|(&v, &t)| (v, t)).collect();
    by_vector.sort_unstable();
    by_vector.dedup();
    let shared: Vec<u32> = by_vector
        .chunk_by(|a, b| a.0 == b.0)
        .filter(|texts| texts.len() >= SHARED_VECTOR_TEXTS_MAX)
        .map(|texts| texts[0].0)
        .collect();
    let mut rows = Vec::new();
    for (item, number) in items.iter().zip(numbers) {
        if shared.binary_search(number).is_ok() {
            *number = NONE;
            rows.extend(item.live.then_some(item.memory));
        }
    }
    rows
}

fn assemble(
    items: &[Item],
    signatures: &[Signature],
    unit_count: usize,
    exact_text: bool,
    shared_vector_rows: Vec<MemoryIndex>,
) -> Nodes {
    let (mut nodes, node_of) = number_nodes(signatures, exact_text);
    let mut order: Vec<u32> = (0..items.len() as u32).collect();
    order.sort_by_key(|&i| (node_of[i as usize], i));
    for (position, &i) in order.iter().enumerate() {
        let node = &mut nodes[node_of[i as usize] as usize];
        if node.items.is_empty() {
            node.items = position..position;
        }
        node.items.end = position + 1;
        node.live_count += u64::from(items[i as usize].live);
    }
    let mut unit_nodes = vec![Vec::new(); unit_count];
    let mut live_nodes = vec![NONE; unit_count];
    for (item, &node) in items.iter().zip(&node_of) {
        unit_nodes[item.unit as usize].push(node);
        if item.live {
            live_nodes[item.unit as usize] = node;
        }
    }
    for nodes in &mut unit_nodes {
        nodes.sort_unstable();
        nodes.dedup();
    }
    let by_vector = list_by(&nodes, |node| node.vector);
    let by_key = list_by(&nodes, |node| node.key);
    let items = order.into_iter().map(|i| items[i as usize]).collect();
    Nodes { nodes, items, unit_nodes, live_nodes, by_vector, by_key, shared_vector_rows }
}

/// Numbers signatures by their first item, which is their newest.
fn number_nodes(signatures: &[Signature], exact_text: bool) -> (Vec<Node>, Vec<u32>) {
    let mut seen: HashMap<Signature, u32> = HashMap::with_capacity(signatures.len());
    let mut keys: HashMap<(u32, u32), u32> = HashMap::new();
    let mut nodes: Vec<Node> = Vec::new();
    let mut node_of = Vec::with_capacity(signatures.len());
    for signature in signatures {
        let next = nodes.len() as u32;
        let node = *seen.entry(*signature).or_insert(next);
        if node == next {
            let Signature { vector, text, class, .. } = *signature;
            let next_key = keys.len() as u32;
            let key =
                if exact_text { *keys.entry((text, class)).or_insert(next_key) } else { NONE };
            nodes.push(Node { vector, built_in: NONE, key, class, items: 0..0, live_count: 0 });
        }
        node_of.push(node);
    }
    (nodes, node_of)
}

fn list_by(nodes: &[Node], number: impl Fn(&Node) -> u32) -> Vec<(u32, u32)> {
    let numbered = nodes.iter().enumerate().map(|(i, node)| (number(node), i as u32));
    let mut list: Vec<(u32, u32)> = numbered.filter(|&(number, _)| number != NONE).collect();
    list.sort_unstable();
    list
}

/// Orders newest first: by instant descending (unreadable last), then id bytes descending.
#[must_use]
pub fn newest_first(a: &Memory, b: &Memory) -> Ordering {
    let key = |memory: &Memory| memory.created_at.instant();
    key(b).cmp(&key(a)).then_with(|| b.id.as_str().as_bytes().cmp(a.id.as_str().as_bytes()))
}

/// The key of [`newest_first`].
fn age_key(memory: &Memory) -> (Reverse<Option<Instant>>, Reverse<MemoryId>) {
    (Reverse(memory.created_at.instant()), Reverse(memory.id.clone()))
}

/// Units in scope and how many live rows the scope leaves out.
pub(super) struct Units {
    pub(super) units: Vec<Unit>,
    pub(super) out_of_scope: u64,
    /// Merged rows with a survivor that is gone or not live.
    pub(super) stray_merged: u64,
}

/// Gathers the units of a snapshot.
pub(super) fn gather(snapshot: &Snapshot, scope: &Scope) -> Units {
    let memories = &snapshot.memories;
    let (live, out_of_scope) = live_in_scope(memories, scope);
    let mut units: Vec<Unit> =
        live.into_iter().map(|live| Unit { live, merged_rows: Vec::new() }).collect();
    let by_live: HashMap<MemoryIndex, usize> =
        units.iter().enumerate().map(|(i, unit)| (unit.live, i)).collect();
    let merged_rows: Vec<MemoryIndex> =
        all(memories).filter(|&i| memories[i.index()].status == Status::Merged).collect();
    let mut stray_merged = 0;
    if !merged_rows.is_empty() {
        let survivors = Survivors::new(snapshot);
        for merged_row in merged_rows {
            match survivors.of(merged_row) {
                // A survivor outside the scope keeps its merged rows out, too.
                Some(survivor) => {
                    if let Some(&unit) = by_live.get(&survivor) {
                        units[unit].merged_rows.push(merged_row);
                    }
                }
                None => stray_merged += 1,
            }
        }
    }
    for unit in &mut units {
        unit.merged_rows.sort_by(|a, b| memories[a.index()].id.cmp(&memories[b.index()].id));
    }
    // A row that merged into an older one keeps its place: else the next run would cluster anew.
    if units.iter().any(|unit| !unit.merged_rows.is_empty()) {
        units.sort_by_cached_key(|unit| {
            let members = std::iter::once(&unit.live).chain(&unit.merged_rows);
            members.map(|member| age_key(&memories[member.index()])).min()
        });
    }
    Units { units, out_of_scope, stray_merged }
}

fn all(memories: &[Memory]) -> impl Iterator<Item = MemoryIndex> {
    (0..memories.len() as u32).map(MemoryIndex)
}

/// The live rows in scope, newest first.
fn live_in_scope(memories: &[Memory], scope: &Scope) -> (Vec<MemoryIndex>, u64) {
    let is_live = |i: &MemoryIndex| memories[i.index()].status == Status::Live;
    let mut kept: Vec<MemoryIndex> =
        all(memories).filter(is_live).filter(|i| in_scope(&memories[i.index()], scope)).collect();
    kept.sort_by(|&a, &b| newest_first(&memories[a.index()], &memories[b.index()]));
    let total = all(memories).filter(is_live).count();
    let out_of_scope = (total - kept.len()) as u64;
    (kept, out_of_scope)
}

/// The categories of a memory; of an archived one the former ones.
pub(super) fn own_categories(memory: &Memory) -> impl Iterator<Item = &str> {
    let is_live = memory.status == Status::Live;
    memory.categories.iter().map(move |category| match category.strip_prefix("archive/") {
        Some(original) if !is_live => original,
        _ => category,
    })
}

fn in_scope(memory: &Memory, scope: &Scope) -> bool {
    let category = scope.categories.is_empty()
        || scope.categories.iter().any(|c| own_categories(memory).any(|m| *m == **c));
    let source = scope.sources.is_empty()
        || scope.sources.iter().any(|prefix| memory.root_source.starts_with(prefix.as_str()));
    let window = match &memory.created_at {
        CreatedAt::At(at) => {
            scope.since.is_none_or(|since| *at >= since)
                && scope.until.is_none_or(|until| *at < until)
        }
        // An unreadable time counts as oldest.
        CreatedAt::Unreadable(_) => scope.since.is_none(),
    };
    category && source && window
}

/// Finds the live end of a chain of survivors.
struct Survivors<'a> {
    snapshot: &'a Snapshot,
    by_id: HashMap<&'a MemoryId, MemoryIndex>,
}

impl<'a> Survivors<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let memories = &snapshot.memories;
        Self { snapshot, by_id: all(memories).map(|i| (&memories[i.index()].id, i)).collect() }
    }

    fn of(&self, merged_row: MemoryIndex) -> Option<MemoryIndex> {
        let mut at = merged_row;
        // A chain longer than the store is a cycle.
        for _ in 0..=self.snapshot.memories.len() {
            let memory = &self.snapshot.memories[at.index()];
            if memory.status == Status::Live {
                return Some(at);
            }
            at = *self.by_id.get(memory.merged_into.as_ref()?)?;
            if at == merged_row {
                return None;
            }
        }
        None
    }
}

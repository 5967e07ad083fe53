//! The stages of detection in order.

use std::collections::BTreeSet;

use crate::Snapshot;
use crate::memory::{Memory, MemoryId, MemoryIndex, SpaceIndex, Status, VectorSpace};
use memfold_guard::Guard;
use memfold_guard::Verdict;
use memfold_guard::text;
use memfold_index::{
    GraphJoin, JoinError, JoinOptions, MeasuredRecall, Pair, Pool, Progress, Row, VectorMatrix,
};
use memfold_simd::{Kernels, Similarity};

use super::judge::{
    ApartUnits, CONTRADICTIONS_MAX, Contradictions, Judge, NodeLinks, Opinion, Vertices,
    count_verdicts,
};
use super::nodes::{self, DistinctVectors, NodePair, Nodes, VectorNumbers, VectorRows, pairs_of};
use super::series::{NEIGHBORS_MAX, SpaceJoin};
use super::topics::{Distances, class, hierarchical_groups};
use super::{Cluster, DetectError, Detection, PROPOSE_PROBABILITY_MIN, Unit};
use crate::cluster::{complete_cover, greedy_complete};
use crate::policy::defaults::{RECALL_TARGET, SHARED_VECTOR_TEXTS_MAX};
use crate::policy::{Linkage, Policy};
use crate::report::Recall;

/// The inputs of detection.
#[derive(Clone, Copy)]
pub struct DetectInput<'a> {
    /// The store.
    pub snapshot: &'a Snapshot,
    /// The vectors of each space of the snapshot, then the ones of the built-in embedding where it takes part.
    pub matrices: &'a [VectorMatrix<'a>],
    /// Which memory has which vector of the built-in embedding, where it takes part.
    pub built_in: Option<BuiltIn<'a>>,
    /// The policy.
    pub policy: &'a Policy,
    /// The fact guard.
    pub guard: &'a Guard,
    /// The workers.
    pub pool: &'a Pool,
    /// The kernels.
    pub kernels: &'static Kernels,
    /// Where progress goes.
    pub progress: &'a dyn Progress,
    /// How many refused pairs to draw at random, for an audit.
    pub refused_count: usize,
}

/// The space of the built-in embedding: memories without a vector of their own are compared in it with all others.
#[derive(Debug, Clone, Copy)]
pub struct BuiltIn<'a> {
    /// The space.
    pub space: SpaceIndex,
    /// The vector of each memory of the snapshot; `None` where its text has none.
    pub rows: &'a [Option<Row>],
}

impl BuiltIn<'_> {
    /// Returns the place of a memory's vector.
    #[must_use]
    pub fn place(&self, memory: MemoryIndex) -> Option<(SpaceIndex, Row)> {
        Some((self.space, self.rows[memory.index()]?))
    }
}

impl DetectInput<'_> {
    /// Returns the canonical similarity of two memories: of their own vectors where both have one, else of the ones of the
    /// built-in embedding. `None` where the vectors of two models would have to be compared, or there are none.
    #[must_use]
    pub fn similarity(&self, a: MemoryIndex, b: MemoryIndex) -> Option<Similarity> {
        let own = |memory: MemoryIndex| self.snapshot.memories[memory.index()].embedding.vector();
        let built_in = |memory| self.built_in.as_ref()?.place(memory);
        let ((space, row), (other, other_row)) = match (own(a), own(b)) {
            (Some(a), Some(b)) => (a, b),
            _ => (built_in(a)?, built_in(b)?),
        };
        if space != other {
            return None;
        }
        let (kernels, matrix) = (self.kernels, &self.matrices[space.0 as usize]);
        let (x, y) = (matrix.vector(row), matrix.vector(other_row));
        kernels.similarity(x, y, [kernels.dot(x, x), kernels.dot(y, y)])
    }
}

/// Finds clusters and contradictions among the live memories in scope.
///
/// `joins` comes from [`join_spaces`](super::join_spaces) at or below the policy's join threshold. The answer
/// depends on neither threads nor ISA level nor the order of the store's rows.
///
/// # Errors
/// When too many texts or rows are connected, or when cancelled.
pub fn detect(input: &DetectInput<'_>, joins: &Joins) -> Result<Detection, DetectError> {
    let DetectInput { snapshot, policy, pool, .. } = *input;
    let memories = &snapshot.memories;
    let gathered = nodes::gather(snapshot, &policy.scope);
    let numbers = VectorNumbers { distinct: &joins.distinct, built_in: input.built_in };
    let nodes = nodes::build(memories, &gathered.units, numbers, policy, pool);
    let merging = policy.merge_threshold();
    let threshold = merging.unwrap_or(Similarity::ONE);

    let NearPairs { pairs, proposing, series } = near_pairs(policy, joins, &nodes, memories.len());
    let judged = judge(input, &nodes, &pairs, threshold, proposing)?;
    // From which similarity on a pair is linked.
    let from = |i: usize| match judged.opinions.get(i).map(|opinion| opinion.verdict) {
        None | Some(Verdict::Same) => Some(threshold),
        Some(Verdict::Extends) => policy.extension_threshold(),
        Some(_) => None,
    };
    let links = NodeLinks::new(&nodes, &pairs, policy, from);
    let clusters = Clustering { input, units: &gathered.units, nodes: &nodes, joins };
    let proposals = match proposing {
        Some(minimum) => {
            let undecided = |i: usize| {
                let opinion = judged.opinions.get(i);
                let probable = |opinion: &Opinion| opinion.probability >= PROPOSE_PROBABILITY_MIN;
                opinion.is_none_or(probable).then_some(minimum)
            };
            let links = NodeLinks::new(&nodes, &pairs, policy, undecided);
            clusters.proposals(&links, &pairs, &judged.opinions)
        }
        None => Vec::new(),
    };
    let clusters = if merging.is_some() { clusters.run(&links, threshold)? } else { Vec::new() };
    let mut notes = notes(input, &gathered, &nodes, joins, judged.contradictions.live_pairs);
    if proposing.is_none() && policy.propose_threshold().is_some() {
        notes.push("too many near pairs of different texts: nothing was proposed".to_owned());
    }
    notes.extend(separated(input, &nodes, &pairs, &judged.opinions, threshold));
    let series_rows = series.iter().map(|&node| nodes.nodes[node as usize].live_count).sum();
    notes.extend(series_note(snapshot, &nodes, &series, series_rows));

    let live_rows = nodes.live_rows_by_vector(joins.distinct.places.len());
    Ok(Detection {
        clusters,
        proposals,
        notes,
        contradictions: judged.contradictions.live,
        merged_contradictions: judged.contradictions.merged,
        contradiction_pairs: judged.contradictions.live_pairs,
        duplicate_groups: nodes.duplicate_groups(),
        pairs: joins.live_pairs(&live_rows, threshold),
        pair_recall: joins.measured_recall(threshold),
        series_rows,
        compared_from: joins.raised().filter(|raised| *raised > threshold),
        verdicts: count_verdicts(&pairs, &judged.opinions, threshold),
        near_misses: judged.near_misses,
        refused: judged.refused,
        sensitivity: sensitivity(&nodes, &pairs, from),
        out_of_scope: gathered.out_of_scope,
        shared_vector_rows: nodes.shared_vector_rows,
        units: gathered.units,
    })
}

/// Pairs of texts that are near.
struct NearPairs {
    /// Near enough for merges and contradictions, and lower ones that proposals look at.
    pairs: Vec<NodePair>,
    /// From which similarity on to propose; `None`: there are too many pairs, or nothing is to be proposed.
    proposing: Option<Similarity>,
    /// Nodes that are near to so many others that they were compared with none, ascending.
    series: Vec<u32>,
}

/// Returns the near pairs within the budget: without proposals where there are too many, then without series.
fn near_pairs(policy: &Policy, joins: &Joins, nodes: &Nodes, rows: usize) -> NearPairs {
    let budget = pair_budget(rows);
    let needed = rule_threshold(policy).unwrap_or(Similarity::ONE);
    let within = policy.guard.enabled;
    let proposing = policy.propose_threshold();
    let from = proposing.map_or(needed, |minimum| minimum.min(needed));
    let dense = joins.series_nodes(nodes);
    let near = |pairs, proposing, series| NearPairs { pairs, proposing, series };
    let none = vec![false; nodes.nodes.len()];
    if let Some(pairs) = joins.node_pairs(nodes, within, from, budget, &none) {
        return near(pairs, proposing, dense);
    }
    if from < needed
        && let Some(pairs) = joins.node_pairs(nodes, within, needed, budget, &none)
    {
        return near(pairs, None, dense);
    }
    let degrees = joins.node_degrees(nodes, within, needed);
    for most in NEIGHBORS_MAX.into_iter().chain([0]) {
        let is_dense: Vec<bool> = degrees.iter().map(|degree| *degree > most).collect();
        let pairs = joins.node_pairs(nodes, within, needed, budget, &is_dense);
        let Some(pairs) = pairs else { continue };
        let mut series = dense;
        series.extend((0_u32..).zip(&is_dense).filter(|(_, dense)| **dense).map(|(node, _)| node));
        series.sort_unstable();
        series.dedup();
        return near(pairs, None, series);
    }
    near(Vec::new(), None, dense)
}

/// Says which memories were left out of the comparison, by an example.
fn series_note(snapshot: &Snapshot, nodes: &Nodes, series: &[u32], live: u64) -> Option<String> {
    let example = series.iter().find_map(|&node| nodes.newest_live(node))?;
    let example = text::excerpt(&snapshot.memories[example.memory.index()].content, 60);
    Some(format!(
        "{live} memories are similar to very many others, such as \"{example}\": they count as a \
         series, of which only equal texts merge"
    ))
}

const PAIR_BUDGET_PER_ROW: u64 = 64;
const PAIR_BUDGET_MIN: u64 = 1_000_000;

/// How many pairs of texts are looked at, at most.
pub(super) const fn pair_budget(rows: usize) -> u64 {
    let budget = PAIR_BUDGET_PER_ROW * rows as u64;
    if budget > PAIR_BUDGET_MIN { budget } else { PAIR_BUDGET_MIN }
}

/// Returns the similarity from which pairs are needed: the lowest threshold in use, that of proposals, and a little below
/// the merge threshold for the report. `None`: no rule asks for similar memories.
#[must_use]
pub fn join_threshold(policy: &Policy) -> Option<Similarity> {
    rule_threshold(policy).into_iter().chain(policy.propose_threshold()).min()
}

fn rule_threshold(policy: &Policy) -> Option<Similarity> {
    let report = policy
        .merge_threshold()
        .map(|merge| Similarity::clamped(merge.get() - SENSITIVITY_DELTA).unwrap_or(merge));
    report.into_iter().chain(policy.join_threshold()).min()
}

/// How far the report looks to both sides of the threshold.
const SENSITIVITY_DELTA: f64 = 0.02;

#[derive(Default)]
struct Judged {
    opinions: Vec<Opinion>,
    contradictions: Contradictions,
    near_misses: Vec<super::NearMiss>,
    refused: Vec<super::NearMiss>,
}

fn judge(
    input: &DetectInput<'_>,
    nodes: &Nodes,
    pairs: &[NodePair],
    threshold: Similarity,
    proposing: Option<Similarity>,
) -> Result<Judged, DetectError> {
    if !input.policy.guard.enabled {
        return Ok(Judged::default());
    }
    let judge = Judge { input, nodes };
    let readings = judge.read(pairs)?;
    let opinions = judge.opinions(pairs, &readings, proposing)?;
    let contradictions = judge.contradictions(pairs, &opinions, &readings);
    let near_misses = judge.near_misses(pairs, &opinions, &readings, threshold);
    let refused = match input.refused_count {
        0 => Vec::new(),
        count => judge.refused(pairs, &opinions, &readings, proposing.unwrap_or(threshold), count),
    };
    Ok(Judged { opinions, contradictions, near_misses, refused })
}

struct Clustering<'a> {
    input: &'a DetectInput<'a>,
    units: &'a [Unit],
    nodes: &'a Nodes,
    joins: &'a Joins,
}

impl Clustering<'_> {
    fn run(&self, links: &NodeLinks, threshold: Similarity) -> Result<Vec<Cluster>, DetectError> {
        let DetectInput { snapshot, policy, pool, progress, .. } = *self.input;
        progress.begin("cluster", None);
        let groups = match policy.cluster.linkage {
            Linkage::GreedyComplete => {
                let apart = ApartUnits::new(&snapshot.memories, self.units, &snapshot.decisions);
                let vertices = Vertices::new(self.nodes, &apart);
                let graph = vertices.graph(self.nodes, links);
                expand(greedy_complete(&graph), &vertices)
            }
            _ => {
                let (input, nodes) = (self.input, self.nodes);
                hierarchical_groups(&Distances { input, nodes, links, threshold })?
            }
        };
        let clusters = pool.map(groups.len(), |i| self.describe(&groups[i]));
        progress.end();
        if progress.cancelled() { Err(DetectError::Cancelled) } else { Ok(clusters) }
    }

    /// Groups linked units for proposals, by complete linkage whatever the policy says: one question, not ten pairs. A
    /// unit may stand in several groups, two units together in one only.
    fn proposals(
        &self,
        links: &NodeLinks,
        pairs: &[NodePair],
        opinions: &[Opinion],
    ) -> Vec<Cluster> {
        let DetectInput { snapshot, pool, .. } = *self.input;
        let apart = ApartUnits::new(&snapshot.memories, self.units, &snapshot.decisions);
        let vertices = Vertices::new(self.nodes, &apart);
        let edges = vertices.edges(self.nodes, links);
        let cliques = vertices.cliques(self.nodes, links);
        let groups = expand(complete_cover(&cliques, edges, PROPOSALS_PER_MEMORY_MAX), &vertices);
        let texts = |group: &Vec<u32>| {
            let node = |unit: &u32| self.nodes.live_nodes[*unit as usize];
            group[1..].iter().any(|unit| node(unit) != node(&group[0]))
        };
        let groups: Vec<Vec<u32>> = groups.into_iter().filter(texts).collect();
        let probability = |group: &[u32]| {
            let nodes = group.iter().map(|unit| self.nodes.live_nodes[*unit as usize]);
            least_probability(nodes.collect(), pairs, opinions)
        };
        pool.map(groups.len(), |i| Cluster {
            probability: probability(&groups[i]),
            ..self.describe(&groups[i])
        })
    }

    fn describe(&self, group: &[u32]) -> Cluster {
        let memories = &self.input.snapshot.memories;
        let members: Vec<MemoryIndex> =
            group.iter().map(|&unit| self.units[unit as usize].live).collect();
        let key = |member: &MemoryIndex| memories[member.index()].text_key();
        let first = key(&members[0]);
        let equal_text = members[1..].iter().all(|member| key(member) == first);
        let min_similarity = self.min_similarity(&members);
        Cluster { min_similarity, probability: None, equal_text, members }
    }

    /// The smallest canonical similarity among the members' distinct vectors.
    fn min_similarity(&self, members: &[MemoryIndex]) -> Option<Similarity> {
        let numbers =
            VectorNumbers { distinct: &self.joins.distinct, built_in: self.input.built_in };
        let memories = &self.input.snapshot.memories;
        let mut by_vector: Vec<(u32, MemoryIndex)> = members
            .iter()
            .map(|&member| (numbers.number(memories, member), member))
            .filter(|(number, _)| *number != nodes::NONE)
            .collect();
        let count = by_vector.len();
        by_vector.sort_unstable();
        by_vector.dedup_by_key(|(number, _)| *number);
        // Members that share a vector are exactly alike.
        let alike = (count > by_vector.len()).then_some(Similarity::ONE);
        let pairs = by_vector.iter().enumerate().flat_map(|(i, (_, a))| {
            by_vector[i + 1..].iter().filter_map(|(_, b)| self.input.similarity(*a, *b))
        });
        alike.into_iter().chain(pairs).min()
    }
}

/// Questions that a memory stands in, at most; further ones follow once these are answered.
const PROPOSALS_PER_MEMORY_MAX: usize = 10;

/// The smallest probability among the pairs of some nodes; `None` without a judged pair.
fn least_probability(mut nodes: Vec<u32>, pairs: &[NodePair], opinions: &[Opinion]) -> Option<f64> {
    nodes.sort_unstable();
    nodes.dedup();
    let of = |a: u32, b: u32| {
        let at = pairs.binary_search_by_key(&(a, b), |pair| (pair.a, pair.b)).ok()?;
        opinions.get(at).map(|opinion| opinion.probability)
    };
    let all = nodes.iter().enumerate();
    let found = all.flat_map(|(i, &a)| nodes[i + 1..].iter().filter_map(move |&b| of(a, b)));
    found.min_by(f64::total_cmp)
}

/// Turns clusters of vertices into clusters of two or more units, newest first.
fn expand(clusters: Vec<Vec<u32>>, vertices: &Vertices) -> Vec<Vec<u32>> {
    let units = |cluster: Vec<u32>| {
        let mut units: Vec<u32> =
            cluster.iter().flat_map(|&v| vertices.units[v as usize].iter().copied()).collect();
        units.sort_unstable();
        units
    };
    let mut groups: Vec<Vec<u32>> =
        clusters.into_iter().map(units).filter(|units| units.len() > 1).collect();
    groups.sort_unstable_by_key(|units| units[0]);
    groups
}

fn sensitivity(
    nodes: &Nodes,
    pairs: &[NodePair],
    from: impl Fn(usize) -> Option<Similarity>,
) -> Vec<(f64, u64)> {
    let live = |node: u32| nodes.nodes[node as usize].live_count;
    let counted = |&(_, pair): &(usize, &NodePair)| {
        let (a, b) = (&nodes.nodes[pair.a as usize], &nodes.nodes[pair.b as usize]);
        a.class == b.class && (a.key != b.key || a.key == nodes::NONE)
    };
    let linked: Vec<(&NodePair, f64)> = pairs
        .iter()
        .enumerate()
        .filter(counted)
        .filter_map(|(i, pair)| Some((pair, from(i)?.get())))
        .collect();
    let count = |delta: f64| {
        let near = linked.iter().filter(|(pair, from)| pair.similarity.get() >= from + delta);
        nodes.equal_pairs() + near.map(|(pair, _)| live(pair.a) * live(pair.b)).sum::<u64>()
    };
    [-SENSITIVITY_DELTA, 0.0, SENSITIVITY_DELTA].map(|delta| (delta, count(delta))).to_vec()
}

fn notes(
    input: &DetectInput<'_>,
    gathered: &nodes::Units,
    nodes: &Nodes,
    joins: &Joins,
    contradiction_pairs: u64,
) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(missing_pairs(input.policy, joins));
    notes.extend(undone(input.snapshot, &gathered.units));
    notes.extend(joins.raised().map(|similarity| {
        format!(
            "too many memories are near to each other: they were compared from a similarity of \
             {:.3} on",
            similarity.get()
        )
    }));
    if !input.policy.guard.enabled {
        notes.push(
            "the fact guard is off: texts were not compared, contradictions not looked for"
                .to_owned(),
        );
    }
    notes.extend(unknown_words(input));
    let shared = nodes.shared_vector_rows.len();
    if shared > 0 {
        notes.push(format!(
            "{shared} memories stand under a vector that {SHARED_VECTOR_TEXTS_MAX} or more different texts share: \
             an embedder's fault, their vectors took no part"
        ));
    }
    if gathered.stray_merged > 0 {
        let count = gathered.stray_merged;
        notes.push(format!(
            "{count} archived memories were merged into one that is gone or archived itself"
        ));
    }
    if contradiction_pairs > CONTRADICTIONS_MAX as u64 {
        notes.push(format!(
            "{contradiction_pairs} contradictory pairs: the {CONTRADICTIONS_MAX} with the highest score were kept"
        ));
    }
    notes
}

/// Reports pairs that say the same and differ in categories that keep memories apart, with the first pair's.
fn separated(
    input: &DetectInput<'_>,
    nodes: &Nodes,
    pairs: &[NodePair],
    opinions: &[Opinion],
    threshold: Similarity,
) -> Option<String> {
    let node = |at: u32| &nodes.nodes[at as usize];
    let live_pairs = |pair: &NodePair| node(pair.a).live_count * node(pair.b).live_count;
    let same = pairs.iter().zip(opinions).filter(|(pair, opinion)| {
        opinion.verdict == Verdict::Same
            && pair.similarity >= threshold
            && node(pair.a).class != node(pair.b).class
            && live_pairs(pair) > 0
    });
    let mut same = same.map(|(pair, _)| pair).peekable();
    let [a, b] = same.peek().map(|first| [first.a, first.b])?;
    let class_of =
        |at| nodes.newest_live(at).map(|row| class(input, row.memory)).unwrap_or_default();
    let [of_a, of_b] = [a, b].map(class_of);
    let only = |own: &[String], other: &[String]| {
        own.iter().find(|category| !other.contains(category)).cloned()
    };
    let named: Vec<String> =
        [only(&of_a, &of_b), only(&of_b, &of_a)].into_iter().flatten().collect();
    let count: u64 = same.map(live_pairs).sum();
    let subject = if count == 1 { "pair of memories says" } else { "pairs of memories say" };
    Some(format!(
        "{count} {subject} the same in categories that are never merged (cluster.separate_by): {}",
        text::excerpt(&named.join(", "), 80)
    ))
}

/// Says how many memories neither have a vector nor get one of the built-in embedding.
fn unknown_words(input: &DetectInput<'_>) -> Option<String> {
    let built_in = input.built_in?;
    let lacks = |&(at, memory): &(u32, &Memory)| {
        memory.status == Status::Live
            && memory.embedding.vector().is_none()
            && built_in.place(MemoryIndex(at)).is_none()
    };
    let count = (0..).zip(&input.snapshot.memories).filter(lacks).count();
    (count > 0).then(|| {
        format!(
            "{count} memories have no vector and too few words that the built-in embedding knows (it knows English): \
             only equal texts of them merge; memfold embed compares them by a model"
        )
    })
}

/// Says how many memories an undo keeps apart.
fn undone(snapshot: &Snapshot, units: &[Unit]) -> Option<String> {
    let live: BTreeSet<&MemoryId> =
        units.iter().map(|unit| &snapshot.memories[unit.live.index()].id).collect();
    let members = snapshot.decisions.keep_both.undone_members();
    let count = members.filter(|member| live.contains(member)).count();
    (count > 1).then(|| {
        format!(
            "{count} memories are kept apart because their merge was undone; to allow it again: \
             memfold consolidate --again"
        )
    })
}

/// Says so where pairs for merges, or for contradictions, may be missing.
fn missing_pairs(policy: &Policy, joins: &Joins) -> Option<String> {
    let thresholds = policy.merge_threshold().into_iter().chain(policy.join_threshold());
    let remark = |threshold| {
        let recall = Recall::from(joins.measured_recall(threshold));
        recall.remark(threshold, RECALL_TARGET)
    };
    thresholds.map(remark).find_map(|remark| remark)
}

/// The joins of all spaces; their pairs lie in a scratch file where they are many.
pub struct Joins {
    pub(super) distinct: DistinctVectors,
    /// Empty where no pairs were asked for.
    joined: Vec<SpaceJoin>,
}

/// Joins every space at `threshold`, never across spaces: by a graph, or exactly. A `threshold` of `None`: no pairs are asked
/// for, and none looked for.
///
/// # Errors
/// When a space cannot be joined by either method, or when cancelled.
pub fn join_spaces(
    spaces: &[VectorSpace],
    matrices: &[VectorMatrix<'_>],
    threshold: Option<Similarity>,
    by: Option<&GraphJoin>,
    options: &JoinOptions<'_>,
) -> Result<Joins, DetectError> {
    let mut joined = Vec::with_capacity(matrices.len());
    let Some(threshold) = threshold else {
        return Ok(Joins { distinct: number_vectors(matrices, &joined), joined });
    };
    for (space, matrix) in spaces.iter().zip(matrices) {
        let found = SpaceJoin::new(matrix, threshold, by, options);
        joined.push(found.map_err(|error| match error {
            JoinError::Cancelled => DetectError::Cancelled,
            error => DetectError::Join { model: space.model.to_string(), dim: space.dim, error },
        })?);
    }
    Ok(Joins { distinct: number_vectors(matrices, &joined), joined })
}

fn number_vectors(matrices: &[VectorMatrix<'_>], joined: &[SpaceJoin]) -> DistinctVectors {
    let mut places = Vec::new();
    let mut numbers = Vec::with_capacity(matrices.len());
    for (space, matrix) in matrices.iter().enumerate() {
        let mut representative: Vec<Row> = matrix.rows().collect();
        for group in joined.get(space).into_iter().flat_map(SpaceJoin::groups) {
            for row in &group {
                representative[row.index()] = group[0];
            }
        }
        let mut of_row = vec![0_u32; matrix.len()];
        for row in matrix.rows() {
            let first = representative[row.index()];
            of_row[row.index()] = if first == row {
                places.push((SpaceIndex(space as u32), row));
                places.len() as u32 - 1
            } else {
                of_row[first.index()]
            };
        }
        numbers.push(of_row);
    }
    DistinctVectors { numbers, places }
}

impl Joins {
    /// Returns the pairs of distinct vectors, by their numbers.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (u32, u32, Similarity)> {
        self.joined.iter().zip(&self.distinct.numbers).flat_map(|(joined, numbers)| {
            joined.pairs().map(|Pair { left, right, similarity }| {
                (numbers[left.index()], numbers[right.index()], similarity)
            })
        })
    }

    /// Expands near vectors to pairs of nodes with different texts or vectors, sorted.
    ///
    /// With `within`, nodes that share a vector are paired as well; nodes that are `left_out` are not. `None`: there are
    /// more than the budget.
    pub(super) fn node_pairs(
        &self,
        nodes: &Nodes,
        within: bool,
        from: Similarity,
        budget: u64,
        left_out: &[bool],
    ) -> Option<Vec<NodePair>> {
        let mut pairs = Vec::new();
        self.each_node_pair(nodes, within, from, |a, b, similarity| {
            if !left_out[a as usize] && !left_out[b as usize] {
                pairs.push(NodePair { a: a.min(b), b: a.max(b), similarity });
            }
            pairs.len() as u64 <= budget
        })
        .then_some(())?;
        pairs.sort_unstable_by_key(|pair| (pair.a, pair.b));
        Some(pairs)
    }

    /// Counts the near nodes of each node.
    fn node_degrees(&self, nodes: &Nodes, within: bool, from: Similarity) -> Vec<u64> {
        let mut degrees = vec![0; nodes.nodes.len()];
        self.each_node_pair(nodes, within, from, |a, b, _| {
            degrees[a as usize] += 1;
            degrees[b as usize] += 1;
            true
        });
        degrees
    }

    /// Visits pairs of nodes until told to stop; tells whether it came to the end.
    fn each_node_pair(
        &self,
        nodes: &Nodes,
        within: bool,
        from: Similarity,
        mut visit: impl FnMut(u32, u32, Similarity) -> bool,
    ) -> bool {
        for (x, y, similarity) in self.pairs().filter(|pair| pair.2 >= from) {
            for a in nodes.of_vector(x) {
                for b in nodes.of_vector(y).filter(|&b| nodes.meet_under(x, a, b)) {
                    if !visit(a, b, similarity) {
                        return false;
                    }
                }
            }
        }
        for vector in nodes.vectors().filter(|_| within) {
            let mut same = nodes.of_vector(vector);
            while let Some(a) = same.next() {
                for b in same.clone().filter(|&b| nodes.meet_under(vector, a, b)) {
                    if !visit(a, b, Similarity::ONE) {
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Returns the highest threshold of a space whose threshold had to be raised.
    fn raised(&self) -> Option<Similarity> {
        self.joined.iter().filter_map(|joined| joined.raised).max()
    }

    /// Returns the nodes with vectors that were left out of the join, ascending.
    fn series_nodes(&self, nodes: &Nodes) -> Vec<u32> {
        let mut series: Vec<u32> = self
            .joined
            .iter()
            .zip(&self.distinct.numbers)
            .flat_map(|(joined, numbers)| joined.series.iter().map(|row| numbers[row.index()]))
            .flat_map(|number| nodes.of_vector(number))
            .collect();
        series.sort_unstable();
        series.dedup();
        series
    }

    /// Returns how many of the pairs of distinct vectors at or above `threshold` were found, as far as that had to be
    /// measured.
    pub(super) fn measured_recall(&self, threshold: Similarity) -> Option<MeasuredRecall> {
        let recalls = self.joined.iter().filter_map(|joined| joined.measured_recall(threshold));
        MeasuredRecall::combined(&recalls.collect::<Vec<_>>())
    }

    /// Counts the pairs of live rows with vectors that are at least `threshold` similar, arithmetically.
    pub(super) fn live_pairs(&self, live_rows: &[VectorRows], threshold: Similarity) -> u64 {
        let rows = |vector: u32| live_rows[vector as usize];
        let within: u64 = live_rows
            .iter()
            .map(|rows| pairs_of(rows.compared) + rows.compared * rows.beside)
            .sum();
        let between = |(x, y, _)| {
            let (x, y) = (rows(x), rows(y));
            x.compared * (y.compared + y.beside) + x.beside * y.compared
        };
        let near = self.pairs().filter(|&(_, _, similarity)| similarity >= threshold);
        let between: u64 = near.map(between).sum();
        within + between
    }
}

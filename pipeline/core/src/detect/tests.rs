//! Detection against the definition, spelled out pair by pair.

use memfold_index::{JoinOptions, NoProgress, Pool, Row, VectorMatrix};
use memfold_simd::{Kernels, Similarity};
use proptest::prelude::*;

use super::*;
use crate::Snapshot;
use crate::memory::{CreatedAt, Embedding, Memory, MemoryId, SpaceIndex, Status, VectorSpace};
use crate::plan::fixture::row;
use crate::policy::Policy;
use crate::time::Instant;
use memfold_guard::Guard;
use memfold_guard::text;

const DIM: usize = 4;

/// Three facts, each in three spellings that the guard lets pass.
const TEXTS: [&str; 9] = [
    "The backup runs at night",
    "The backup runs at night.",
    "the backup runs at  night",
    "The gateway listens on port 8080",
    "The gateway listens on port 8080.",
    "the gateway listens on port 8080!",
    "The gateway listens on port 9090",
    "The gateway listens on port 9090.",
    "the gateway listens on port 9090!",
];

#[derive(Debug, Clone, Default)]
struct Spec {
    direction: u8,
    jitter: u8,
    text: u8,
    private: bool,
    age: u8,
    merged_row_of: Option<u8>,
    vector: bool,
}

fn spec() -> impl Strategy<Value = Spec> {
    let merged_row = prop::option::weighted(0.15, any::<u8>());
    let (private, vector) = (prop::bool::weighted(0.1), prop::bool::weighted(0.9));
    (0_u8..4, 0_u8..5, 0_u8..9, private, 0_u8..6, merged_row, vector).prop_map(
        |(direction, jitter, text, private, age, merged_row_of, vector)| Spec {
            direction,
            jitter,
            text,
            private,
            age,
            merged_row_of,
            vector,
        },
    )
}

/// A store of `specs`, in the order `order`, and its vectors.
fn store(specs: &[Spec], order: &[usize]) -> (Snapshot, Vec<f32>) {
    let mut vectors = Vec::new();
    let memories = order.iter().map(|&i| memory(specs, i, &mut vectors)).collect();
    let snapshot = Snapshot {
        store_id: "test".into(),
        memories,
        spaces: vec![VectorSpace { model: "m".into(), dim: DIM as u32 }],
        rows_total: specs.len() as u64,
        ..Snapshot::default()
    };
    (snapshot, vectors)
}

fn memory(specs: &[Spec], i: usize, vectors: &mut Vec<f32>) -> Memory {
    let spec = &specs[i];
    let id = |i: usize| MemoryId::new(format!("m{i:03}"));
    let embedding = if spec.vector {
        let mut vector = [0.05_f32; DIM];
        vector[usize::from(spec.direction)] = 1.0;
        vector[(usize::from(spec.direction) + 1) % DIM] += f32::from(spec.jitter) * 0.11;
        vectors.extend(vector);
        Embedding::Vector { space: SpaceIndex(0), row: Row((vectors.len() / DIM - 1) as u32) }
    } else {
        Embedding::Missing
    };
    // Merged rows point to rows before them, so that chains end.
    let merged_into = match spec.merged_row_of {
        Some(of) if i > 0 => Some(id(usize::from(of) % i)),
        _ => None,
    };
    Memory {
        id: id(i),
        categories: if spec.private { vec!["Private".into()] } else { vec!["general".into()] },
        created_at: CreatedAt::At(Instant(-i64::from(spec.age))),
        status: if merged_into.is_some() { Status::Merged } else { Status::Live },
        merged_into,
        embedding,
        ..row("", TEXTS[usize::from(spec.text)], 0)
    }
}

fn run(snapshot: &Snapshot, vectors: &[f32], policy: &Policy, threads: usize) -> Detection {
    try_run(snapshot, vectors, policy, threads).unwrap()
}

fn try_run(
    snapshot: &Snapshot,
    vectors: &[f32],
    policy: &Policy,
    threads: usize,
) -> Result<Detection, DetectError> {
    let pool = Pool::new(std::num::NonZeroUsize::new(threads)).unwrap();
    let matrices = [VectorMatrix::from_slice(vectors, DIM).unwrap()];
    let options = JoinOptions::new(&pool);
    let joins = join_spaces(
        &snapshot.spaces,
        &matrices,
        join_threshold(policy),
        policy.detect.method.graph_join().as_ref(),
        &options,
    )?;
    let guard = Guard::new(&policy.guard).unwrap();
    let input = DetectInput {
        snapshot,
        matrices: &matrices,
        built_in: None,
        policy,
        guard: &guard,
        pool: &pool,
        kernels: Kernels::active(),
        progress: &NoProgress,
        refused_count: 0,
    };
    detect(&input, &joins)
}

fn names(snapshot: &Snapshot, clusters: &[Cluster]) -> Vec<Vec<String>> {
    let id = |m: &MemoryIndex| snapshot.memories[m.index()].id.to_string();
    clusters.iter().map(|cluster| cluster.members.iter().map(id).collect()).collect()
}

/// Links between rows as the specification states them.
struct Definition<'a> {
    snapshot: &'a Snapshot,
    vectors: &'a [f32],
    policy: &'a Policy,
    guard: Guard,
}

impl Definition<'_> {
    fn linked(&self, a: MemoryIndex, b: MemoryIndex) -> bool {
        let (a, b) = (&self.snapshot.memories[a.index()], &self.snapshot.memories[b.index()]);
        let private = |m: &Memory| m.categories.iter().any(|c| &**c == "Private");
        if private(a) != private(b) {
            return false;
        }
        let equal_text = text::strict_key(&a.content) == text::strict_key(&b.content);
        if self.policy.detect.exact_text && equal_text {
            return true;
        }
        self.near(a, b) && (!self.policy.guard.enabled || self.passes(a, b))
    }

    /// Equal vector (or none), text and class: a row merged into one might as well have been merged into the other.
    fn equal(&self, a: MemoryIndex, b: MemoryIndex) -> bool {
        let (a, b) = (&self.snapshot.memories[a.index()], &self.snapshot.memories[b.index()]);
        let vectors = (self.vector(a), self.vector(b));
        let (texts_count, exact) = (
            self.policy.guard.enabled || self.policy.detect.exact_text,
            self.policy.detect.exact_text,
        );
        let key = |m: &Memory| text::strict_key(&m.content);
        a.categories == b.categories
            && vectors.0 == vectors.1
            && (vectors.0.is_some() || exact)
            && (!texts_count || key(a) == key(b))
    }

    fn vector(&self, memory: &Memory) -> Option<&[f32]> {
        let (_, row) = memory.embedding.vector()?;
        Some(&self.vectors[row.index() * DIM..][..DIM])
    }

    fn near(&self, a: &Memory, b: &Memory) -> bool {
        let (Some(x), Some(y)) = (self.vector(a), self.vector(b)) else { return false };
        let similarity = memfold_simd::canonical::similarity(x, y).unwrap();
        similarity >= self.policy.merge_threshold().unwrap()
    }

    fn passes(&self, a: &Memory, b: &Memory) -> bool {
        let judgement =
            self.guard.judge(&self.guard.read(&a.content), &self.guard.read(&b.content));
        judgement.verdict.is_proven()
    }

    fn clusters(&self) -> Vec<Vec<String>> {
        let memories = &self.snapshot.memories;
        let mut live: Vec<MemoryIndex> = (0..memories.len() as u32)
            .map(MemoryIndex)
            .filter(|i| memories[i.index()].status == Status::Live)
            .collect();
        let rows = |unit: MemoryIndex| {
            (0..memories.len() as u32).map(MemoryIndex).filter(move |&i| self.end(i) == unit)
        };
        let newest = |unit: MemoryIndex| {
            let rows = rows(unit).map(|row| &memories[row.index()]);
            rows.min_by(|a, b| newest_first(a, b)).unwrap()
        };
        let by_newest = |a: &MemoryIndex, b: &MemoryIndex| newest_first(newest(*a), newest(*b));
        live.sort_by(by_newest);
        let kept = &self.snapshot.decisions.keep_both;
        let id = |m: &MemoryIndex| &memories[m.index()].id;
        let units = live.clone();
        let apart = |&x: &MemoryIndex, &y: &MemoryIndex| {
            x != y && rows(x).any(|n| rows(y).any(|m| kept.are_apart(id(&n), id(&m))))
        };
        let decided = |m: &MemoryIndex| units.iter().any(|other| apart(m, other));
        // Equal rows are one, with all that was merged into any of them.
        let mut groups: Vec<Vec<MemoryIndex>> = Vec::new();
        for unit in live {
            let joins = |g: &&mut Vec<MemoryIndex>| {
                !decided(&unit) && !decided(&g[0]) && self.equal(g[0], unit)
            };
            match groups.iter_mut().find(joins) {
                Some(group) => group.push(unit),
                None => groups.push(vec![unit]),
            }
        }
        let all_linked = |a: &[MemoryIndex], b: &[MemoryIndex]| {
            let rows =
                |units: &[MemoryIndex]| units.iter().flat_map(|&u| rows(u)).collect::<Vec<_>>();
            !apart(&a[0], &b[0])
                && rows(a).iter().all(|&n| rows(b).iter().all(|&m| self.linked(n, m)))
        };
        let mut clusters: Vec<Vec<Vec<MemoryIndex>>> = Vec::new();
        for group in groups {
            match clusters.iter_mut().find(|c| c.iter().all(|g| all_linked(g, &group))) {
                Some(cluster) => cluster.push(group),
                None => clusters.push(vec![group]),
            }
        }
        let flat = clusters.into_iter().map(|cluster| {
            let mut units: Vec<MemoryIndex> = cluster.into_iter().flatten().collect();
            units.sort_by(by_newest);
            units
        });
        let several = flat.filter(|cluster| cluster.len() > 1);
        several.map(|cluster| cluster.iter().map(|m| id(m).to_string()).collect()).collect()
    }

    /// The live row at the end of a chain of survivors.
    fn end(&self, mut at: MemoryIndex) -> MemoryIndex {
        while let Some(survivor) = &self.snapshot.memories[at.index()].merged_into {
            let found = self.snapshot.memories.iter().position(|m| m.id == *survivor);
            at = MemoryIndex(found.unwrap() as u32);
        }
        at
    }
}

fn policy(guard: bool, exact_text: bool, threshold: f64) -> Policy {
    let mut policy = Policy::builtin();
    policy.guard.enabled = guard;
    policy.detect.exact_text = exact_text;
    for rule in &mut policy.rules {
        if rule.when.min_similarity.is_some() {
            rule.when.min_similarity = Similarity::new(threshold);
        }
    }
    policy
}

fn in_order(count: usize) -> Vec<usize> {
    (0..count).collect()
}

fn assert_definition(snapshot: &Snapshot, vectors: &[f32], policy: &Policy) {
    let guard = Guard::new(&policy.guard).unwrap();
    let definition = Definition { snapshot, vectors, policy, guard };
    let found = run(snapshot, vectors, policy, 2);
    assert_eq!(names(snapshot, &found.clusters), definition.clusters());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn clusters_equal_the_definition(
        specs in prop::collection::vec(spec(), 1..28),
        guard: bool,
        exact_text: bool,
        threshold in prop::sample::select(vec![0.85, 0.95, 0.98]),
        apart in prop::collection::vec(prop::collection::vec(0_usize..28, 2..5), 0..4),
    ) {
        let (mut snapshot, vectors) = store(&specs, &in_order(specs.len()));
        for group in apart {
            let known = group.into_iter().filter(|&i| i < specs.len());
            let members = known.map(|i| snapshot.memories[i].id.clone());
            snapshot.decisions.keep_both.insert_group(members);
        }
        assert_definition(&snapshot, &vectors, &policy(guard, exact_text, threshold));
    }

    #[test]
    fn the_order_of_rows_and_the_threads_do_not_matter(
        specs in prop::collection::vec(spec(), 1..28),
        seed in prop::collection::vec(any::<u64>(), 28),
        guard: bool,
    ) {
        let mut order = in_order(specs.len());
        order.sort_by_key(|&i| seed[i]);
        let policy = policy(guard, true, 0.95);
        let (snapshot, vectors) = store(&specs, &in_order(specs.len()));
        let (shuffled, shuffled_vectors) = store(&specs, &order);
        let a = run(&snapshot, &vectors, &policy, 1);
        let b = run(&shuffled, &shuffled_vectors, &policy, 3);
        prop_assert_eq!(names(&snapshot, &a.clusters), names(&shuffled, &b.clusters));
        let values = |d: &Detection| {
            let least: Vec<_> = d.clusters.iter().map(|c| (c.min_similarity, c.equal_text)).collect();
            (least, d.pairs, d.duplicate_groups, d.contradiction_pairs, d.sensitivity.clone())
        };
        prop_assert_eq!(values(&a), values(&b));
    }
}

fn plain(count: usize, text: impl Fn(usize) -> String) -> (Snapshot, Vec<f32>) {
    let spec = Spec { vector: true, ..Spec::default() };
    let specs = vec![spec; count];
    let (mut snapshot, vectors) = store(&specs, &in_order(count));
    for (i, memory) in snapshot.memories.iter_mut().enumerate() {
        memory.content = text(i).into();
    }
    (snapshot, vectors)
}

#[test]
fn ten_thousand_copies_are_ten_clusters() {
    let (mut snapshot, mut vectors) = plain(10_000, |i| format!("copy of text {}", i % 10));
    for i in 0..10_000 {
        vectors[i * DIM + 2] = (i % 10) as f32;
    }
    snapshot.rows_total = 10_000;
    let found = run(&snapshot, &vectors, &policy(true, true, 0.95), 2);
    assert_eq!(found.clusters.len(), 10);
    assert!(found.clusters.iter().all(|c| c.members.len() == 1000 && c.equal_text));
    assert_eq!(found.duplicate_groups, 10);
}

#[test]
fn ten_thousand_equal_rows_that_are_kept_apart_stay_apart() {
    let (mut snapshot, vectors) = plain(10_001, |_| "the same text".to_owned());
    let ids: Vec<MemoryId> = snapshot.memories.iter().map(|memory| memory.id.clone()).collect();
    snapshot.decisions.keep_both.insert_group(ids[1..].iter().cloned());
    for guard in [true, false] {
        let found = run(&snapshot, &vectors, &policy(guard, true, 0.95), 2);
        // The newest by id merges with the one row that nobody spoke of.
        let clusters = names(&snapshot, &found.clusters);
        assert_eq!(clusters, [[ids[9_999].to_string(), ids[0].to_string()]]);
    }
    snapshot.decisions.keep_both.insert_group([ids[0].clone(), ids[9_999].clone()]);
    let found = run(&snapshot, &vectors, &policy(true, true, 0.95), 2);
    assert_eq!(names(&snapshot, &found.clusters)[0][0], ids[9_998].to_string());
}

#[test]
fn no_linkage_joins_what_is_kept_apart() {
    let (mut snapshot, vectors) = plain(4, |_| "the same text".to_owned());
    let ids: Vec<MemoryId> = snapshot.memories.iter().map(|memory| memory.id.clone()).collect();
    snapshot.decisions.keep_both.insert_group(ids[..3].iter().cloned());
    let mut policy = policy(true, true, 0.95);
    policy.cluster.linkage = crate::policy::Linkage::Complete;
    let found = run(&snapshot, &vectors, &policy, 1);
    assert!(found.clusters.iter().all(|cluster| cluster.members.len() == 2), "{found:?}");
}

#[test]
fn a_constant_embedder_is_reported_and_merges_nothing() {
    let words = ["tomatoes", "graph", "river", "invoice", "violin", "granite"];
    let text = |i: usize| format!("{} {} {}", words[i % 6], words[i / 6 % 6], words[i / 36 % 6]);
    let (snapshot, vectors) = plain(200, text);
    let found = run(&snapshot, &vectors, &policy(true, true, 0.95), 2);
    assert!(found.clusters.is_empty());
    assert_eq!(found.shared_vector_rows.len(), 200);
    assert!(found.notes.iter().any(|note| note.contains("an embedder's fault")));
}

#[test]
fn memories_near_to_too_many_others_are_counted_as_a_series() {
    const ROWS: usize = 1_500;
    let (snapshot, mut vectors) = plain(ROWS, |i| format!("Build #{i} passed"));
    vectors.chunks_mut(DIM).zip(0_u16..).for_each(|(vector, i)| vector[3] += f32::from(i) * 1e-5);
    let found = run(&snapshot, &vectors, &policy(true, true, 0.95), 2);
    assert_eq!((found.clusters.len(), found.series_rows), (0, ROWS as u64));
    assert!(found.notes.iter().any(|note| note.starts_with("1500 memories are similar to very")));
    let (snapshot, vectors) = (
        Snapshot { memories: snapshot.memories[..700].to_vec(), ..snapshot },
        &vectors[..700 * DIM],
    );
    assert_eq!(run(&snapshot, vectors, &policy(true, true, 0.95), 2).series_rows, 0);
}

#[test]
fn unguarded_equal_vectors_are_one_cluster_whatever_the_texts() {
    let (snapshot, vectors) = plain(1062, |i| format!("text number {i}"));
    let found = run(&snapshot, &vectors, &policy(false, false, 0.95), 2);
    assert_eq!(found.clusters.len(), 1);
    assert_eq!(found.clusters[0].members.len(), 1062);
    assert_eq!(found.pairs, 1062 * 1061 / 2);
    assert_eq!(found.clusters[0].min_similarity, Some(Similarity::ONE));
}

#[test]
fn equal_statements_under_separating_categories_are_a_remark() {
    let (mut snapshot, vectors) = plain(3, |_| "The backup runs at night.".to_owned());
    snapshot.memories[0].categories = vec!["user:ann".into()];
    let found = run(&snapshot, &vectors, &policy(true, true, 0.95), 1);
    assert_eq!(found.clusters.len(), 1);
    let note = "2 pairs of memories say the same in categories that are never merged (cluster.separate_by): user:ann";
    assert_eq!(found.notes, [note]);
}

#[test]
fn a_cycle_of_survivors_is_a_remark() {
    let (mut snapshot, vectors) = plain(3, |i| format!("text {i}"));
    for (i, survivor) in [(0, "m001"), (1, "m000")] {
        snapshot.memories[i].status = Status::Merged;
        snapshot.memories[i].merged_into = Some(MemoryId::new(survivor));
    }
    let found = run(&snapshot, &vectors, &policy(true, true, 0.95), 1);
    assert_eq!(found.units.len(), 1);
    assert!(found.notes.iter().any(|note| note.starts_with("2 archived memories")));
}

#[test]
fn hierarchical_linkages_refuse_large_components() {
    let (snapshot, vectors) = plain(30, |_| "same".to_owned());
    let mut policy = policy(true, true, 0.95);
    policy.cluster.linkage = crate::policy::Linkage::Average;
    assert_eq!(run(&snapshot, &vectors, &policy, 1).clusters[0].members.len(), 30);
    policy.cluster.max_component_rows = 29;
    let error = try_run(&snapshot, &vectors, &policy, 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "30 memories are connected at this threshold, average linkage takes at most 29"
    );
    assert!(error.hint().unwrap().contains("cluster.linkage=greedy_complete"));
}

#[test]
fn the_guard_links_spellings_and_keeps_values_apart() {
    let (snapshot, vectors) = plain(9, |i| TEXTS[i].to_owned());
    let found = run(&snapshot, &vectors, &policy(true, true, 0.95), 2);
    let sizes: Vec<usize> = found.clusters.iter().map(|c| c.members.len()).collect();
    assert_eq!(sizes, [3, 3, 3]);
    assert_eq!(found.contradiction_pairs, 9, "every spelling of 8080 against every one of 9090");
}

#[test]
fn names_that_keep_apart_are_compared_as_they_are_spelled() {
    let patterns = ["private", "User:*"].map(str::to_owned);
    let of = |categories: &[&str]| {
        let categories: Vec<Box<str>> = categories.iter().map(|&name| name.into()).collect();
        super::separating(&categories, &patterns)
    };
    assert_eq!(of(&["Private", "tea"]), of(&["private"]));
    assert_ne!(of(&["user:Ann"]), of(&["user:ann"]));
    assert_eq!(of(&["tea", "user:Ann", "user:Ann"]), ["user:Ann"]);
    assert!(of(&["users", "privately"]).is_empty());
}

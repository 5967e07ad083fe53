//! A merge never crosses a difference, and never touches a protected memory.

use std::collections::{BTreeMap, BTreeSet};

use memfold_core::plan::{ActionType, Plan};
use memfold_core::policy::Policy;
use memfold_datasets::sample::{self, SampleKind, SampleMemory};
use memfold_guard::Guard;
use memfold_guard::text::strict_key;
use memfold_simd::canonical;
use memfold_tests::InMemoryStore;
use memfold_tests::{Run, merges, sample_rows};

fn sample_plan() -> Plan {
    Run::builtin().plan(&InMemoryStore::new(sample_rows())).plan
}

/// The sample with the plan that is made for it.
struct Planned {
    sample: sample::Sample,
    plan: Plan,
}

impl Planned {
    fn new() -> Self {
        Self { sample: sample::memories(), plan: sample_plan() }
    }

    fn memory(&self, id: &str) -> &SampleMemory {
        self.sample.memories.iter().find(|memory| &*memory.id == id).unwrap()
    }

    /// The planted groups of a kind with all their rows, protected and archived ones included.
    fn groups(&self, kind: &str) -> BTreeMap<&str, Vec<&SampleMemory>> {
        let mut groups: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for memory in &self.sample.memories {
            let group = memory.group.as_deref();
            if let Some(group) = group.filter(|group| group.starts_with(kind)) {
                groups.entry(group).or_default().push(memory);
            }
        }
        assert!(!groups.is_empty(), "{kind}");
        groups
    }

    fn merged_with(&self, id: &str) -> BTreeSet<&str> {
        let merges = merges(&self.plan).into_iter();
        merges.filter(|ids| ids.contains(&id)).flatten().filter(|other| *other != id).collect()
    }

    /// Whether two members of the group are in one merge.
    fn merges_within(&self, group: &[&SampleMemory]) -> bool {
        group.iter().any(|member| {
            let others = self.merged_with(&member.id);
            group.iter().any(|other| others.contains(&*other.id))
        })
    }

    /// Whether two members of the group become a question for a person.
    fn proposes_within(&self, group: &[&SampleMemory]) -> bool {
        let proposals = self.plan.actions.iter().filter(|a| a.action == ActionType::ProposeMerge);
        let members = |action: &memfold_core::plan::Action| {
            let named = |member: &&&SampleMemory| {
                action.target_ids.iter().any(|id| id.as_str() == &*member.id)
            };
            group.iter().filter(named).count()
        };
        proposals.into_iter().any(|action| members(action) > 1)
    }

    fn ids(&self, action: ActionType) -> BTreeSet<&str> {
        let actions = self.plan.actions.iter().filter(|planned| planned.action == action);
        actions.map(|action| action.target_ids[0].as_str()).collect()
    }

    fn expected(&self, kind: SampleKind) -> BTreeSet<&str> {
        let of_kind = self.sample.memories.iter().filter(|memory| memory.kind == kind);
        of_kind.map(|memory| &*memory.id).collect()
    }
}

#[test]
fn merges_of_the_sample_stay_within_planted_groups() {
    let planned = Planned::new();
    for ids in merges(&planned.plan) {
        let groups: BTreeSet<_> = ids.iter().map(|id| &planned.memory(id).group).collect();
        let texts: Vec<_> = ids.iter().map(|id| &planned.memory(id).content).collect();
        assert!(groups.len() == 1 && !groups.contains(&None), "{groups:?}: {texts:#?}");
    }
}

#[test]
fn richer_older_text_survives() {
    let planned = Planned::new();
    let groups = planned.groups("richer_older-");
    // Where a proof says that one says more, that one stays, also if it is older.
    let survives = |group: &[&SampleMemory]| {
        let richest = group.iter().max_by_key(|memory| memory.content.len()).unwrap();
        merges(&planned.plan).iter().any(|ids| ids[0] == &*richest.id)
    };
    let lost = groups.iter().filter(|(_, group)| planned.merges_within(group) && !survives(group));
    assert_eq!(lost.map(|(name, _)| *name).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn most_planted_duplicates_are_merged() {
    let planned = Planned::new();
    let unmerged = |kind| {
        let groups = planned.groups(kind).into_iter();
        groups.filter(|(_, group)| !planned.merges_within(group)).collect::<Vec<_>>()
    };
    assert_eq!(unmerged("exact-").iter().map(|(name, _)| *name).collect::<Vec<_>>(), [""; 0]);
    let similarity = |a: &SampleMemory, b: &SampleMemory| {
        let vector = |memory: &SampleMemory| {
            let at = planned.sample.memories.iter().position(|m| m.id == memory.id).unwrap();
            planned.sample.vector(at)
        };
        canonical::similarity(vector(a)?, vector(b)?)
    };
    let near = |group: &Vec<&SampleMemory>| {
        let pairs = group.iter().enumerate();
        let mut pairs = pairs.flat_map(|(i, a)| group[i + 1..].iter().map(move |b| (a, b)));
        pairs.any(|(a, b)| similarity(a, b).is_some_and(|found| found.get() >= 0.95))
    };
    let left = unmerged("paraphrase-").into_iter().filter(|(_, group)| near(group));
    let unseen: Vec<_> =
        left.filter(|(_, group)| !planned.proposes_within(group)).map(|(name, _)| name).collect();
    assert!(unseen.len() <= 3, "neither merged nor proposed: {unseen:?}");
}

#[test]
fn promotions_and_archivals_are_the_planted_ones() {
    let run = Run::builtin().set("rules.R4-archive-low-utility.enabled=yes");
    let plan = run.plan(&InMemoryStore::new(sample_rows())).plan;
    let planned = Planned { plan, ..Planned::new() };
    assert_eq!(planned.ids(ActionType::Promote), planned.expected(SampleKind::Promote));
    assert_eq!(planned.ids(ActionType::Archive), planned.expected(SampleKind::Stale));
}

#[test]
fn protected_rows_are_never_changed_or_merged() {
    let planned = Planned::new();
    let protected = planned.expected(SampleKind::Protected);
    let mut hosts = 0;
    for action in &planned.plan.actions {
        let ids: Vec<&str> = action.target_ids.iter().map(|id| id.as_str()).collect();
        match action.action {
            ActionType::Merge => {
                assert!(ids[1..].iter().all(|id| !protected.contains(id)), "{action:#?}");
                assert_eq!(action.survivor_protected, protected.contains(ids[0]), "{action:#?}");
                if action.survivor_protected {
                    hosts += 1;
                    assert_eq!((&action.new_categories, action.new_importance), (&None, None));
                }
            }
            ActionType::Promote | ActionType::Archive => assert!(!protected.contains(ids[0])),
            _ => {}
        }
    }
    assert!(hosts <= protected.len());
}

#[test]
fn contradictory_texts_are_never_in_one_merge() {
    let planned = Planned::new();
    let guard = Guard::new(&Policy::builtin().guard).unwrap();
    for ids in merges(&planned.plan) {
        let readings: Vec<_> =
            ids.iter().map(|id| guard.read(&planned.memory(id).content)).collect();
        for (i, newer) in readings.iter().enumerate() {
            for (j, older) in readings.iter().enumerate().skip(i + 1) {
                let verdict = guard.judge(older, newer).verdict;
                let text = |at: usize| strict_key(&planned.memory(ids[at]).content);
                assert!(verdict.is_proven(), "{verdict:?}: {} | {}", text(i), text(j));
            }
        }
    }
}

#[test]
fn every_merged_row_is_near_its_survivor_or_equal_to_it() {
    let planned = Planned::new();
    let at = |id: &str| planned.sample.memories.iter().position(|m| &*m.id == id).unwrap();
    let mut checked = 0;
    for ids in merges(&planned.plan) {
        for id in &ids[1..] {
            let texts = [ids[0], id].map(|id| strict_key(&planned.memory(id).content));
            if texts[0] == texts[1] {
                continue;
            }
            let [x, y] = [ids[0], id].map(|id| planned.sample.vector(at(id)).unwrap());
            let similarity = canonical::similarity(x, y).unwrap().get();
            assert!(similarity >= 0.85, "{similarity}: {texts:?}");
            checked += 1;
        }
    }
    assert!(checked > 0);
}

#[test]
fn planted_contradictions_are_flagged() {
    let planned = Planned::new();
    let flagged = |group: &[&SampleMemory]| {
        let flags =
            planned.plan.actions.iter().filter(|a| a.action == ActionType::FlagContradiction);
        let ids: BTreeSet<&str> = group.iter().map(|memory| &*memory.id).collect();
        flags.into_iter().any(|flag| flag.target_ids.iter().all(|id| ids.contains(id.as_str())))
    };
    let groups = planned.groups("contradiction-");
    let missed: Vec<_> = groups
        .values()
        .filter(|group| !flagged(group))
        .map(|group| group.iter().map(|memory| &*memory.content).collect::<Vec<_>>())
        .collect();
    let share = 1.0 - missed.len() as f64 / groups.len() as f64;
    assert!(share >= 0.6, "{share}: {missed:#?}");
}

//! Batches, votes and records.

use std::cell::Cell;

use super::*;
use crate::judge::opinion::OpinionKind;
use crate::judge::question::Member;

fn group(name: &str, count: usize) -> Group {
    let member = |number: usize| Member {
        handle: String::new(),
        id: MemoryId::new(format!("{name}{number}")),
        text: format!("{name} says {number}"),
        categories: vec![],
        importance: 1.0,
        created: String::new(),
        source: "agent".to_owned(),
    };
    Group::new((0..count).map(member).collect())
}

/// Keeps answers in memory.
#[derive(Default)]
struct Kept(BTreeMap<String, Judgement>);

impl Records for Kept {
    type Error = std::convert::Infallible;

    fn find(&self, key: &str) -> Result<Option<Recorded>, Self::Error> {
        let recorded = |found: &Judgement| Recorded {
            judge: found.judge.clone(),
            opinions: found.opinions.clone(),
        };
        Ok(self.0.get(key).map(recorded))
    }

    fn keep(&mut self, judgements: &[Judgement]) -> Result<(), Self::Error> {
        self.0.extend(judgements.iter().map(|found| (found.key.clone(), found.clone())));
        Ok(())
    }
}

/// Merges all of every group, until it has answered so often.
struct MergesAll {
    requests: usize,
    requests_max: usize,
}

impl Judge for MergesAll {
    fn names(&self) -> Vec<String> {
        vec!["merges-all".to_owned()]
    }

    fn answer(
        &mut self,
        prompt: &Prompt,
        _cancelled: &dyn Fn() -> bool,
    ) -> Result<Reply, JudgeError> {
        if self.requests == self.requests_max {
            return Err(JudgeError::Budget { limit: "enough".to_owned() });
        }
        self.requests += 1;
        let batch: serde_json::Value = serde_json::from_str(&prompt.user).unwrap();
        let opinions = batch["groups"].as_array().unwrap().iter().map(|group| {
            let memories = group["memories"].as_array().unwrap();
            let ids = memories.iter().map(|memory| memory["id"].as_str().unwrap().to_owned());
            let ids: Vec<String> = ids.collect();
            Opinion { keep: ids.first().cloned(), ..Opinion::of(OpinionKind::Merge, ids) }
        });
        let usage = Usage { requests: 1, prompt_tokens: 100, ..Usage::default() };
        Ok(Reply { judge: "merges-all".to_owned(), opinions: opinions.collect(), usage })
    }
}

const NEVER: &dyn Fn() -> bool = &|| false;

fn asking(votes: usize) -> Asking<'static> {
    Asking {
        batch_size: 10,
        votes,
        task: Task::Duplicates { rewrite: false },
        recorded_only: false,
        cancelled: NEVER,
        progress: &|_, _, _| {},
    }
}

/// Answers of a batch go to their groups under the groups' own handles; the second run asks nothing, and a run that ended in
/// the middle goes on where it was.
#[test]
fn nothing_is_asked_twice() {
    let groups: Vec<Group> = ["a", "b", "c", "d"].map(|name| group(name, 4)).to_vec();
    let mut kept = Kept::default();
    let mut judge = MergesAll { requests: 0, requests_max: 3 };
    let half = ask_all(&groups, &mut judge, &mut kept, &asking(2)).unwrap();
    assert_eq!((half.tally.answered, half.tally.unanswered), (6, 2));
    assert_eq!(half.tally.failures.len(), 1);

    let mut judge = MergesAll { requests: 0, requests_max: 99 };
    let whole = ask_all(&groups, &mut judge, &mut kept, &asking(2)).unwrap();
    assert_eq!((judge.requests, whole.tally.recorded, whole.tally.answered), (1, 6, 2));
    for votes in &whole.votes {
        let said: Vec<_> = votes.iter().map(|vote| vote.opinions[0].ids.join(" ")).collect();
        assert_eq!(said, ["m1 m2 m3 m4", "m4 m3 m2 m1"]);
        assert_ne!(votes[0].key, votes[1].key);
    }

    let mut nobody = MergesAll { requests: 0, requests_max: 0 };
    let again = ask_all(&groups, &mut nobody, &mut kept, &asking(2)).unwrap();
    assert_eq!(again.votes, whole.votes);
    assert_eq!((again.tally.recorded, again.tally.unanswered), (8, 0));
    let mut edited = groups.clone();
    edited[2].memories[1].text.push('!');
    let recorded = Asking { recorded_only: true, ..asking(2) };
    let edited = ask_all(&edited, &mut nobody, &mut kept, &recorded).unwrap();
    assert_eq!((edited.votes[2].len(), edited.votes[3].len()), (0, 2));
}

#[test]
fn requests_hold_about_as_many_memories_as_wanted() {
    let sizes = |counts: &[usize], batch_size| {
        let groups: Vec<Group> = counts.iter().map(|count| group("a", *count)).collect();
        let groups: Vec<(usize, &Group)> = groups.iter().enumerate().collect();
        chunks(&groups, batch_size).iter().map(|chunk| chunk.len()).collect::<Vec<_>>()
    };
    assert_eq!(sizes(&[2, 2, 2, 2, 2, 2], 10), [5, 1]);
    assert_eq!(sizes(&[9, 2, 8], 10), [1, 2]);
    assert_eq!(sizes(&[10, 10], 3), [1, 1]);
    assert_eq!(sizes(&[], 3), Vec::<usize>::new());
}

/// An answer that names memories of two groups cannot be followed in either.
#[test]
fn handles_of_other_groups_mean_nothing() {
    let (a, b) = (group("a", 2), group("b", 3));
    let batch = Batch::of(&[&a, &b]);
    let handles: Vec<&str> = batch
        .groups
        .iter()
        .flat_map(|group| &group.memories)
        .map(|member| &*member.handle)
        .collect();
    assert_eq!(handles, ["m1", "m2", "m3", "m4", "m5"]);
    let opinion = |ids: &[&str]| {
        Opinion::of(OpinionKind::Merge, ids.iter().map(|id| (*id).to_owned()).collect())
    };
    let said = [opinion(&["m2", "m3"]), opinion(&["m5", "m3"]), opinion(&["m77"]), opinion(&[])];
    let said = of_groups(&batch, &said);
    assert_eq!(said[0][0].ids, ["m2", "?m3"]);
    assert_eq!(said[1][0].ids, ["m3", "m1"]);
    assert_eq!((said[0].len(), said[1].len()), (1, 1));
}

#[test]
fn progress_counts_groups() {
    let groups = [group("a", 6), group("b", 6)];
    let seen = Cell::new((0, 0));
    let progress = |done: usize, total: usize, _: &Usage| seen.set((done, total));
    let asking = Asking { progress: &progress, ..asking(1) };
    let mut judge = MergesAll { requests: 0, requests_max: 9 };
    ask_all(&groups, &mut judge, &mut Kept::default(), &asking).unwrap();
    assert_eq!(seen.get(), (2, 2));
    assert_eq!(request_count(&groups, 10), 2);
}

//! Puts questions to a judge in batches, keeps every answer, and asks nothing twice.

use std::collections::BTreeMap;

use crate::memory::MemoryId;
use crate::value::sha256_hex;
use serde::{Deserialize, Serialize};

use crate::judge::question::{Batch, Group, Opinion, Prompt, Task, prompt};

/// A source of answers to questions.
pub trait Judge {
    /// Returns the names under which answers may be recorded, the preferred one first.
    fn names(&self) -> Vec<String>;

    /// Answers a batch.
    ///
    /// # Errors
    /// When nobody answered, or not in the expected form, or nobody may be asked any more.
    fn answer(
        &mut self,
        prompt: &Prompt,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Reply, JudgeError>;
}

/// Where answers are kept.
pub trait Records {
    /// Why they cannot be read or kept.
    type Error;

    /// Returns the vote under a key.
    ///
    /// # Errors
    /// When the records cannot be read.
    fn find(&self, key: &str) -> Result<Option<Vote>, Self::Error>;

    /// Keeps judgements, all or none.
    ///
    /// # Errors
    /// When they cannot be kept.
    fn keep(&mut self, judgements: &[Judgement]) -> Result<(), Self::Error>;
}

/// An answer to a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// Who answered, one of [`Judge::names`].
    pub judge: String,
    /// Its answers.
    pub opinions: Vec<Opinion>,
    /// Its usage.
    pub usage: Usage,
}

/// The usage of answers.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Usage {
    /// Requests, repairs included.
    pub requests: u64,
    /// Tokens of the prompts, as the server counted them, else estimated.
    pub prompt_tokens: u64,
    /// Tokens of the answers.
    pub completion_tokens: u64,
    /// The cost, in the currency of the configured prices; 0 where none are.
    pub cost: f64,
    /// Milliseconds from asking to the whole answer.
    pub latency_ms: u64,
}

/// A judgement to be kept: the answer of one judge about one group in one order.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// The vote.
    pub vote: Vote,
    /// The memories of the group.
    pub memories: Vec<MemoryId>,
    /// The usage of the whole request, on the first judgement of its answer; nothing on the others.
    pub usage: Usage,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum JudgeError {
    /// Nobody answered.
    #[error("no answer: {}", reasons.join("; "))]
    Unanswered {
        /// The message of each judge of the chain, or why it was not asked.
        reasons: Vec<String>,
        /// Whether asking again in this run is useless.
        is_final: bool,
    },
    /// Its answer is not in the expected form, also when asked again.
    #[error("{judge}: {problem}")]
    Nonsense {
        /// Who answered.
        judge: String,
        /// The fault.
        problem: String,
        /// The usage all the same.
        usage: Usage,
    },
    /// The budget is spent.
    #[error("the budget is spent: {limit}")]
    Budget {
        /// The limit and the used amount.
        limit: String,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
}

/// One vote on one group.
#[derive(Debug, Clone, PartialEq)]
pub struct Vote {
    /// The key under which it is recorded: sha256 of the judge's name, the rules of the prompt and the group, in hex.
    pub key: String,
    /// Who said it.
    pub judge: String,
    /// Its answer, under the group's own handles.
    pub opinions: Vec<Opinion>,
}

/// The results of asking.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Tally {
    /// Votes that were recorded before.
    pub recorded: u64,
    /// Votes that were asked for and given.
    pub answered: u64,
    /// Votes that are missing.
    pub unanswered: u64,
    /// The usage of the answers.
    pub usage: Usage,
    /// Why votes are missing, each reason once, with how often.
    pub failures: BTreeMap<String, u64>,
}

/// How questions are asked.
#[derive(Clone, Copy)]
pub struct Asking<'a> {
    /// Memories in one request, about.
    pub batch_size: usize,
    /// Votes that must agree; every second one sees the memories in reverse order.
    pub votes: usize,
    /// What is asked.
    pub task: Task,
    /// Whether nobody is asked: recorded answers only.
    pub recorded_only: bool,
    /// Tells whether the caller wants to stop.
    pub cancelled: &'a dyn Fn() -> bool,
    /// Is told after each answer how many groups of a vote are done, of how many, and the usage so far.
    pub progress: &'a dyn Fn(usize, usize, &Usage),
}

/// The votes on each group, and their usage.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// For each group its votes in order; fewer than asked for where answers are missing, or the first one changes nothing.
    pub votes: Vec<Vec<Vote>>,
    /// The outcome.
    pub tally: Tally,
    /// Whether the caller asked to stop.
    pub is_cancelled: bool,
}

/// Asks for all votes on all groups. Answers are kept as they come; recorded answers are not asked for again.
///
/// A later vote is asked for only where all earlier ones would change something. Cost: a request for each `batch_size` memories
/// and vote.
///
/// # Errors
/// When the records cannot be read or kept. A judge that does not answer is no error: its votes are missing.
pub fn ask_all<R: Records>(
    groups: &[Group],
    judge: &mut dyn Judge,
    records: &mut R,
    asking: &Asking<'_>,
) -> Result<Asked, R::Error> {
    let mut asked = Asked {
        votes: vec![Vec::new(); groups.len()],
        tally: Tally::default(),
        is_cancelled: false,
    };
    let rules = prompt(&Batch { groups: Vec::new() }, asking.task);
    let mut is_over = asking.recorded_only;
    for vote in 0..asking.votes {
        let wants_more = |votes: &[Vote]| {
            votes.len() == vote
                && votes.iter().all(|vote| vote.opinions.iter().any(Opinion::is_change))
        };
        let open = (0..groups.len()).filter(|&at| wants_more(&asked.votes[at]));
        let oriented: Vec<(usize, Group)> = open
            .map(|at| (at, if vote % 2 == 1 { groups[at].reversed() } else { groups[at].clone() }))
            .collect();
        let mut missing = Vec::new();
        for (at, group) in &oriented {
            match recorded(judge, records, &rules, group)? {
                Some(found) => {
                    asked.tally.recorded += 1;
                    asked.votes[*at].push(found);
                }
                None => missing.push((*at, group)),
            }
        }
        let (total, mut done) = (oriented.len(), oriented.len() - missing.len());
        for chunk in chunks(&missing, asking.batch_size) {
            if is_over {
                asked.tally.unanswered += chunk.len() as u64;
                continue;
            }
            is_over = ask(chunk, judge, records, &rules, asking, &mut asked)?;
            done += chunk.len();
            (asking.progress)(done, total, &asked.tally.usage);
        }
    }
    Ok(asked)
}

/// Returns how many requests the first vote on some groups takes at most.
#[must_use]
pub fn request_count(groups: &[Group], batch_size: usize) -> usize {
    let groups: Vec<(usize, &Group)> = groups.iter().enumerate().collect();
    chunks(&groups, batch_size).len()
}

/// Cuts groups into requests of about so many memories, at least one group each.
fn chunks<'a, 'g>(
    missing: &'a [(usize, &'g Group)],
    batch_size: usize,
) -> Vec<&'a [(usize, &'g Group)]> {
    let mut chunks = Vec::new();
    let (mut from, mut size) = (0, 0);
    for (at, (_, group)) in missing.iter().enumerate() {
        if at > from && size + group.memories.len() > batch_size {
            chunks.push(&missing[from..at]);
            (from, size) = (at, 0);
        }
        size += group.memories.len();
    }
    if from < missing.len() {
        chunks.push(&missing[from..]);
    }
    chunks
}

/// Asks about some groups; returns whether nothing more can be asked in this run.
fn ask<R: Records>(
    chunk: &[(usize, &Group)],
    judge: &mut dyn Judge,
    records: &mut R,
    rules: &Prompt,
    asking: &Asking<'_>,
    asked: &mut Asked,
) -> Result<bool, R::Error> {
    let groups: Vec<&Group> = chunk.iter().map(|(_, group)| *group).collect();
    let batch = Batch::of(&groups);
    let reply = match judge.answer(&prompt(&batch, asking.task), asking.cancelled) {
        Ok(reply) => reply,
        Err(error) => {
            asked.tally.unanswered += chunk.len() as u64;
            *asked.tally.failures.entry(error.to_string()).or_default() += chunk.len() as u64;
            asked.is_cancelled |= error == JudgeError::Cancelled;
            return Ok(match error {
                JudgeError::Nonsense { usage, .. } => {
                    asked.tally.usage.add(&usage);
                    false
                }
                JudgeError::Unanswered { is_final, .. } => is_final,
                JudgeError::Budget { .. } | JudgeError::Cancelled => true,
            });
        }
    };
    asked.tally.usage.add(&reply.usage);
    asked.tally.answered += chunk.len() as u64;
    let said = of_groups(&batch, &reply.opinions);
    let judgements: Vec<Judgement> = said
        .into_iter()
        .zip(&groups)
        .enumerate()
        .map(|(at, (opinions, group))| {
            let (key, judge) = (key(&reply.judge, rules, group), reply.judge.clone());
            Judgement {
                vote: Vote { key, judge, opinions },
                memories: group.memories.iter().map(|member| member.id.clone()).collect(),
                usage: if at == 0 { reply.usage } else { Usage::default() },
            }
        })
        .collect();
    records.keep(&judgements)?;
    for ((at, _), judgement) in chunk.iter().zip(judgements) {
        asked.votes[*at].push(judgement.vote);
    }
    Ok(false)
}

fn recorded<R: Records>(
    judge: &dyn Judge,
    records: &R,
    rules: &Prompt,
    group: &Group,
) -> Result<Option<Vote>, R::Error> {
    for name in judge.names() {
        if let Some(vote) = records.find(&key(&name, rules, group))? {
            return Ok(Some(vote));
        }
    }
    Ok(None)
}

/// Hands the opinions on a batch to its groups, with the groups' own handles. An opinion belongs to the group of its first known
/// memory, and a handle of another group means nothing there.
fn of_groups(batch: &Batch, opinions: &[Opinion]) -> Vec<Vec<Opinion>> {
    let mut said = vec![Vec::new(); batch.groups.len()];
    for opinion in opinions {
        let known = opinion.ids.iter().find_map(|id| batch.group_of(id));
        let Some((at, _)) = known else { continue };
        let own = |id: &String| match batch.group_of(id) {
            Some((group, handle)) if group == at => handle,
            _ => format!("?{id}"),
        };
        said[at].push(opinion.with_handles(own));
    }
    said
}

/// The name of a judgement: equal for equal questions to one judge.
fn key(judge: &str, rules: &Prompt, group: &Group) -> String {
    let question = serde_json::to_string(group).unwrap_or_default();
    let parts = [judge, &rules.system, &question];
    let bytes = parts.map(|part| [&(part.len() as u64).to_le_bytes(), part.as_bytes()].concat());
    sha256_hex(bytes.concat())
}

impl Usage {
    /// Adds the usage of another answer.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.prompt_tokens += other.prompt_tokens;
        self.completion_tokens += other.completion_tokens;
        self.cost += other.cost;
        self.latency_ms += other.latency_ms;
    }

    /// Returns the tokens of prompts and answers.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.prompt_tokens + self.completion_tokens
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::judge::question::{Member, OpinionKind};

    fn group(name: &str, count: usize) -> Group {
        let member = |number: usize| {
            Member::of_text(format!("{name}{number}"), format!("{name} says {number}"))
        };
        Group::new((0..count).map(member).collect())
    }

    /// Keeps answers in memory.
    #[derive(Default)]
    struct Kept(BTreeMap<String, Vote>);

    impl Records for Kept {
        type Error = std::convert::Infallible;

        fn find(&self, key: &str) -> Result<Option<Vote>, Self::Error> {
            Ok(self.0.get(key).cloned())
        }

        fn keep(&mut self, judgements: &[Judgement]) -> Result<(), Self::Error> {
            let votes = judgements.iter().map(|kept| (kept.vote.key.clone(), kept.vote.clone()));
            self.0.extend(votes);
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
        let said =
            [opinion(&["m2", "m3"]), opinion(&["m5", "m3"]), opinion(&["m77"]), opinion(&[])];
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
}

//! Puts questions to a judge in batches, keeps every answer, and asks nothing twice.

use std::collections::BTreeMap;

use crate::memory::MemoryId;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::judge::opinion::Opinion;
use crate::judge::prompt::{Prompt, Task, prompt};
use crate::judge::question::{Batch, Group};

/// Whoever answers questions.
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

    /// Returns the judgement under a key.
    ///
    /// # Errors
    /// When the records cannot be read.
    fn find(&self, key: &str) -> Result<Option<Recorded>, Self::Error>;

    /// Keeps judgements, all or none.
    ///
    /// # Errors
    /// When they cannot be kept.
    fn keep(&mut self, judgements: &[Judgement]) -> Result<(), Self::Error>;
}

/// What was recorded under a key.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// Who said it.
    pub judge: String,
    /// What it said of the group.
    pub opinions: Vec<Opinion>,
}

/// An answer to a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// Who answered, one of [`Judge::names`].
    pub judge: String,
    /// What it said.
    pub opinions: Vec<Opinion>,
    /// What it took.
    pub usage: Usage,
}

/// What answers took.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Usage {
    /// Requests, repairs included.
    pub requests: u64,
    /// Tokens of the prompts, as the server counted them, else estimated.
    pub prompt_tokens: u64,
    /// Tokens of the answers.
    pub completion_tokens: u64,
    /// What they cost, in the currency of the configured prices; 0 where none are.
    pub cost: f64,
    /// Milliseconds from asking to the whole answer.
    pub latency_ms: u64,
}

/// A judgement to be kept: what one judge said of one group in one order.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// sha256 of the judge's name, the rules of the prompt and the group, in hex.
    pub key: String,
    /// Who said it.
    pub judge: String,
    /// The memories of the group.
    pub memories: Vec<MemoryId>,
    /// What it said of the group, under the group's own handles.
    pub opinions: Vec<Opinion>,
    /// What the whole request took, on the first judgement of its answer; nothing on the others.
    pub usage: Usage,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum JudgeError {
    /// Nobody answered.
    #[error("no answer: {}", reasons.join("; "))]
    Unanswered {
        /// What each of the chain said, or why it was not asked.
        reasons: Vec<String>,
        /// Whether asking again in this run is useless.
        is_final: bool,
    },
    /// What it said is not in the expected form, also when asked again.
    #[error("{judge}: {problem}")]
    Nonsense {
        /// Who answered.
        judge: String,
        /// What is wrong.
        problem: String,
        /// What it took all the same.
        usage: Usage,
    },
    /// The budget is spent.
    #[error("the budget is spent: {limit}")]
    Budget {
        /// The limit and what was used.
        limit: String,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
}

/// One vote on one group.
#[derive(Debug, Clone, PartialEq)]
pub struct Vote {
    /// The key under which it is recorded.
    pub key: String,
    /// Who said it.
    pub judge: String,
    /// What it said, under the group's own handles.
    pub opinions: Vec<Opinion>,
}

/// What asking came to.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Tally {
    /// Votes that were recorded before.
    pub recorded: u64,
    /// Votes that were asked for and given.
    pub answered: u64,
    /// Votes that are missing.
    pub unanswered: u64,
    /// What the answers took.
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
    /// Is told after each answer how many groups of a vote are done, of how many, and what it took so far.
    pub progress: &'a dyn Fn(usize, usize, &Usage),
}

/// The votes on each group, and what they took.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// For each group its votes in order; fewer than asked for where answers are missing, or the first one changes nothing.
    pub votes: Vec<Vec<Vote>>,
    /// What it came to.
    pub tally: Tally,
    /// Whether the caller asked to stop.
    pub is_cancelled: bool,
}

/// Asks for all votes on all groups. Answers are kept as they come; what is recorded is not asked again.
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
        .map(|(at, (opinions, group))| Judgement {
            key: key(&reply.judge, rules, group),
            judge: reply.judge.clone(),
            memories: group.memories.iter().map(|member| member.id.clone()).collect(),
            opinions,
            usage: if at == 0 { reply.usage } else { Usage::default() },
        })
        .collect();
    records.keep(&judgements)?;
    for ((at, _), Judgement { key, judge, opinions, .. }) in chunk.iter().zip(judgements) {
        asked.votes[*at].push(Vote { key, judge, opinions });
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
        let key = key(&name, rules, group);
        if let Some(Recorded { judge, opinions }) = records.find(&key)? {
            return Ok(Some(Vote { key, judge, opinions }));
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
    let mut hash = Sha256::new();
    let question = serde_json::to_string(group).unwrap_or_default();
    for part in [judge, &rules.system, &question] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

impl Usage {
    /// Adds what another answer took.
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
mod tests;

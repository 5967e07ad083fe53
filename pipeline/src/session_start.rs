//! The block that a session starts with: summaries, or the HOT memories of a store.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use memfold_core::lifecycle::{
    RetentionInput, RetentionPolicy, SessionBlock, SessionState, SummaryItem, Tier, assign,
    session_block,
};
use memfold_core::memory::MemoryId;
use memfold_core::summary::Summary;
use memfold_core::time::Instant;
use memfold_guard::text;
use memfold_index::NoProgress;
use memfold_store::brain_db::{FlagKind, OpenPair, SessionRows, StoreReader, TimedMemory};
use memfold_store::{BrainDb, LoadRequest};

use crate::lookup::SearchError;
use crate::ops::{Failure, Settings};
use crate::recall::superseding;

/// Rows of each kind that are read: the cost does not grow with the store.
const ROWS_MAX: usize = 300;
/// A pause of this length ends a session, in microseconds: as in `due`.
const SESSION_GAP_US: i64 = 30 * 60_000_000;
/// The newest memories of a session show its subject.
const SESSION_MEMORIES_MAX: usize = 20;

/// Makes the text that a session in a directory (its last component counts) and on a git branch starts with; empty where
/// the store has nothing to show. Rows from after `now` are left out.
///
/// Candidates are the 300 latest summaries, the 300 newest memories and, where the store has an
/// index of importance, the 300 most important ones. Ages are counted from the state's own time,
/// the latest change among the candidates, so that the same state gives the same bytes. Of memories
/// with the same words one is displayed, and memories with an open conflict are marked. Nothing is
/// written, and nothing is counted as read.
///
/// # Errors
/// When the store cannot be read.
pub fn session_context(
    store: &BrainDb,
    settings: &Settings,
    directory: &str,
    branch: &str,
    now: Instant,
) -> Result<String, Failure> {
    let time_zone = settings.time_zone()?;
    let retention = &settings.configuration.settings.lifecycle.retention;
    let load = LoadRequest { time_zone: &time_zone, now, progress: &NoProgress };
    let block = block(store, &load, retention, directory, branch)
        .map_err(|error| Failure::of(&format!("read {}", store.path().display()), &error))?;
    Ok(block.map(|block| block.text).unwrap_or_default())
}

fn block(
    store: &BrainDb,
    load: &LoadRequest<'_>,
    retention: &RetentionPolicy,
    directory: &str,
    branch: &str,
) -> Result<Option<SessionBlock>, SearchError> {
    let open = store.open_flags()?;
    store.look_up(load, |reader| {
        let rows = reader.session_rows(ROWS_MAX)?;
        let Some(generated_at) = state_time(&rows, load.now) else { return Ok(None) };
        let asked = Asked { reader, generated_at, retention };
        let mut summaries = Vec::new();
        for (timed, summary) in &rows.summaries {
            if asked.superseding(&timed.memory.id)?.is_none() {
                summaries.push(with_conflicts(of_summary(timed, summary, load.time_zone), &open));
            }
        }
        let mut hot = Vec::new();
        for timed in &rows.memories {
            if asked.is_hot(timed)? {
                hot.push(with_conflicts(of_memory(timed), &open));
            }
        }
        let (summaries, hot) = (distinct(summaries), distinct(hot));
        let state = SessionState {
            summaries: &summaries,
            hot: &hot,
            directory,
            branch,
            last_session: &last_session(&rows, generated_at),
            generated_at,
        };
        Ok(session_block(&state))
    })
}

/// Adds the texts that contradict a memory.
fn with_conflicts(mut item: SummaryItem, open: &[OpenPair]) -> SummaryItem {
    let id = item.id.as_str();
    for pair in open.iter().filter(|pair| pair.kind != FlagKind::Near) {
        let other = match &pair.ids {
            [left, _] if left == id => 1,
            [_, right] if right == id => 0,
            _ => continue,
        };
        item.conflicts.extend(pair.texts[other].clone());
    }
    item
}

/// Keeps one of the memories with the same words but for case, white space and the full stop: the one that is read
/// most, then the latest.
fn distinct(items: Vec<SummaryItem>) -> Vec<SummaryItem> {
    let mut by_words: BTreeMap<String, SummaryItem> = BTreeMap::new();
    let rank =
        |item: &SummaryItem| (!item.conflicts.is_empty(), item.access_count, item.updated_at);
    for item in items {
        let words = text::strict_key(&item.text).to_lowercase();
        let known = by_words.entry(words.trim_end_matches('.').to_owned());
        let kept = known.or_insert_with(|| item.clone());
        if rank(&item) > rank(kept) {
            *kept = item;
        }
    }
    by_words.into_values().collect()
}

/// Returns the texts of the last session: the newest memories, as far as none was made more than
/// half an hour after the one before it.
fn last_session(rows: &SessionRows, now: Instant) -> String {
    let mut made: Vec<(Instant, &str)> = Vec::new();
    for TimedMemory { memory, .. } in &rows.memories {
        made.extend(memory.created_at.instant().map(|at| (at, &*memory.content)));
    }
    made.retain(|(at, _)| *at <= now);
    made.sort_unstable_by(|a, b| b.cmp(a));
    made.truncate(SESSION_MEMORIES_MAX);
    let is_after_pause =
        |pair: &[(Instant, &str)]| pair[0].0.0.saturating_sub(pair[1].0.0) > SESSION_GAP_US;
    let length = made.windows(2).position(is_after_pause).map_or(made.len(), |at| at + 1);
    let texts: Vec<&str> = made[..length].iter().map(|(_, text)| *text).collect();
    texts.join("\n")
}

/// The latest change among the candidates that is not in the future.
fn state_time(rows: &SessionRows, now: Instant) -> Option<Instant> {
    let summaries = rows.summaries.iter().map(|(timed, _)| timed);
    let all = summaries.chain(&rows.memories);
    let times = all.flat_map(|timed| {
        [timed.memory.created_at.instant(), timed.updated_at, timed.memory.last_accessed]
    });
    let known = times.flatten().filter(|at| *at <= now).max();
    let has_any = !rows.summaries.is_empty() || !rows.memories.is_empty();
    // Without a readable time every age is unknown, so any value serves here.
    known.or_else(|| has_any.then_some(Instant(0)))
}

struct Asked<'a> {
    reader: &'a StoreReader<'a>,
    generated_at: Instant,
    retention: &'a RetentionPolicy,
}

impl Asked<'_> {
    /// Tells whether a memory is HOT. Edges are read only for memories that would be HOT without
    /// them.
    fn is_hot(&self, timed: &TimedMemory) -> Result<bool, SearchError> {
        let mut input = RetentionInput::of(&timed.memory);
        let is_hot = |input: &_| assign(input, self.generated_at, self.retention).tier == Tier::Hot;
        if !is_hot(&input) {
            return Ok(false);
        }
        let facts = self.reader.recall_facts(&timed.memory.id)?;
        let id = &timed.memory.id;
        input.is_superseded = superseding(id, &facts.supersedes).is_some();
        input.is_summary = facts.is_summary;
        Ok(is_hot(&input))
    }

    fn superseding(&self, id: &MemoryId) -> Result<Option<MemoryId>, SearchError> {
        let facts = self.reader.recall_facts(id)?;
        Ok(superseding(id, &facts.supersedes))
    }
}

fn of_memory(timed: &TimedMemory) -> SummaryItem {
    let memory = &timed.memory;
    let created_at = memory.created_at.instant();
    SummaryItem {
        id: memory.id.clone(),
        text: memory.content.to_string(),
        topic: memory.categories.first().map(ToString::to_string).unwrap_or_default(),
        start: created_at,
        end: created_at,
        key_facts: Vec::new(),
        decisions: Vec::new(),
        superseded: Vec::new(),
        conflicts: Vec::new(),
        confidence: 1.0,
        access_count: memory.access_count,
        updated_at: timed.updated_at.or(created_at),
    }
}

fn of_summary(timed: &TimedMemory, summary: &Summary, time_zone: &TimeZone) -> SummaryItem {
    let with_reason = |(said, why): (&String, &String)| match why.is_empty() {
        true => said.clone(),
        false => format!("{said} ({why})"),
    };
    let decisions = summary.decisions.iter();
    let superseded = summary.superseded_facts.iter();
    SummaryItem {
        topic: summary.topic.clone(),
        start: Instant::parse(&summary.start, time_zone),
        end: Instant::parse(&summary.end, time_zone),
        key_facts: summary.key_facts.iter().map(|fact| fact.fact.clone()).collect(),
        decisions: decisions.map(|made| with_reason((&made.decision, &made.rationale))).collect(),
        superseded: superseded
            .map(|fact| format!("{} → {}", fact.original_fact, fact.superseded_by))
            .collect(),
        confidence: summary.confidence.overall,
        ..of_memory(timed)
    }
}

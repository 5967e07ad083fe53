//! [`settle`]: a person decides about a pair that waits for a look.

use crate::execute::ExecuteError;
use serde::{Deserialize, Serialize};

use crate::execute::{carry_out_alone, write_unit};
use memfold_core::decisions::content_hash;
use memfold_core::detect::newest_first;
use memfold_core::memory::{Memory, MemoryId};
use memfold_core::merge::{MergeContext, kept_apart, merge_of_two, settled_flag};
use memfold_core::plan::{ActionType, Evidence};
use memfold_core::policy::Policy;
use memfold_core::runs::RunKind;
use memfold_guard::text::excerpt;
use memfold_guard::{Guard, Verdict};
use memfold_store::brain_db::{ActionRecord, Mark, Session, WaitingFlag, Writes};
use memfold_store::upkeep::UpkeepRun;
use memfold_store::{BrainDb, LoadRequest};

/// The rule that stands in lineage.
const RULE: &str = "flag";
const ID_CHARS: usize = 80;

/// What becomes of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Settlement {
    /// Both stay, and no run merges them while their texts stay.
    KeepBoth,
    /// The older one merges into the newer one: they say the same.
    Merge,
    /// The older one merges into the newer one, which holds in its place.
    Supersede,
    /// The newer one merges into the older one, which goes on to hold.
    OlderHolds,
}

impl Settlement {
    /// Returns the state of a flag that was settled so.
    #[must_use]
    pub const fn state(self) -> &'static str {
        match self {
            Self::KeepBoth => "kept",
            Self::Merge => "merged",
            Self::Supersede | Self::OlderHolds => "superseded",
        }
    }
}

/// A pair that was, or would be, settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Settled {
    /// The name of the pair.
    pub key: String,
    /// How.
    pub settlement: Settlement,
    /// The newer memory.
    pub newer: MemoryId,
    /// The older one.
    pub older: MemoryId,
    /// What the fact guard says of the two, where they are to be merged against its opinion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard_says: Option<Verdict>,
    /// What a person should know of it.
    pub note: Option<String>,
}

/// The rules of settling.
#[derive(Clone, Copy)]
pub struct SettleRules<'a> {
    /// How merges are made.
    pub policy: &'a Policy,
    /// Whether two texts say the same.
    pub guard: &'a Guard,
}

/// Returns the expected result of settling a pair, without writing.
///
/// # Errors
/// When it does not wait, or cannot be settled so.
pub(crate) fn preview_settlement(
    store: &BrainDb,
    key: &str,
    settlement: Settlement,
    rules: SettleRules<'_>,
    load: &LoadRequest<'_>,
) -> Result<Settled, ExecuteError> {
    store.look_on(|reads| Ok(examine(reads, key, settlement, rules, load)?.settled))
}

/// Settles a pair; returns the run as well, which can be undone.
///
/// # Errors
/// When it does not wait, cannot be settled so, or the store cannot be written.
pub fn settle(
    session: &Session,
    key: &str,
    settlement: Settlement,
    rules: SettleRules<'_>,
    run: &UpkeepRun<'_>,
) -> Result<(String, Settled), ExecuteError> {
    let load = LoadRequest {
        time_zone: run.time_zone,
        now: run.now,
        progress: &memfold_index::NoProgress,
    };
    session.read(|reads| examine(reads, key, settlement, rules, &load).map(drop))?;
    let at = run.at();
    run.carry_out(session, RunKind::Review, Some(key), |run_id| {
        session.write(|writes| {
            let examined = examine(writes, key, settlement, rules, &load)?;
            let context = MergeContext {
                policy: rules.policy,
                time_zone: run.time_zone,
                run_id,
                now: run.now,
                at: &at,
            };
            let note = carry_out(writes, &examined, context)?;
            Ok((Settled { note, ..examined.settled }, 1))
        })
    })
}

struct Examined {
    settled: Settled,
    flag: WaitingFlag,
    newer: Memory,
    older: Memory,
}

fn examine(
    reads: &Writes<'_>,
    key: &str,
    settlement: Settlement,
    rules: SettleRules<'_>,
    load: &LoadRequest<'_>,
) -> Result<Examined, ExecuteError> {
    let flag = reads.waiting_flag(key)?;
    let flag = flag.ok_or_else(|| ExecuteError::UnknownPair { key: excerpt(key, ID_CHARS) })?;
    let side = |at: usize| {
        let (id, hash) = &flag.sides[at];
        let live = reads.look_up(load, |reader| Ok::<_, ExecuteError>(reader.live_memory(id)?))?;
        live.filter(|memory| content_hash(&memory.content) == *hash)
            .ok_or_else(|| ExecuteError::Changed { id: excerpt(id, ID_CHARS) })
    };
    let mut both = [side(0)?, side(1)?];
    both.sort_by(newest_first);
    // The statement saved again last is the newer one, regardless of its row's age.
    if flag.asserted.as_ref() == Some(&both[1].id) {
        both.swap(0, 1);
    }
    let [newer, older] = both;
    let guard_says = (settlement == Settlement::Merge).then(|| {
        let read = |memory: &Memory| rules.guard.read(&memory.content);
        rules.guard.judge(&read(&older), &read(&newer)).verdict
    });
    // A person's decision counts; a contrary verdict of the guard is reported.
    let guard_says = guard_says.filter(|verdict| !verdict.is_proven());
    let (key, ids) = (flag.key.clone(), (newer.id.clone(), older.id.clone()));
    let settled = Settled { key, settlement, newer: ids.0, older: ids.1, guard_says, note: None };
    Ok(Examined { settled, flag, newer, older })
}

fn carry_out(
    writes: &Writes<'_>,
    examined: &Examined,
    context: MergeContext<'_>,
) -> Result<Option<String>, ExecuteError> {
    const UNIT: i64 = 1;
    let Examined { settled, flag, newer, older } = examined;
    let layout = writes.layout()?;
    let settlement = settled.settlement;
    let closed = settled_flag(flag.id, settlement.state());
    if settlement == Settlement::KeepBoth {
        let group = format!("{}/{UNIT}", context.run_id);
        let mut changes = vec![closed];
        for id in [&newer.id, &older.id] {
            changes.extend(kept_apart(writes.memory(&layout, id)?.as_ref(), &group));
        }
        let mark = Mark { run_id: context.run_id, unit: UNIT, at: context.at };
        let ids = vec![newer.id.clone(), older.id.clone()];
        let record = ActionRecord::alone("keep-both", ActionType::Noop, ids);
        write_unit(writes, &layout, &mark, record, &changes, &[])?;
        return Ok(None);
    }
    let (stays, goes) = match settlement {
        Settlement::OlderHolds => (older, newer),
        _ => (newer, older),
    };
    let mut rows = Vec::new();
    for memory in [stays, goes] {
        let row = writes.memory(&layout, &memory.id)?;
        rows.push(
            row.ok_or_else(|| ExecuteError::Changed { id: excerpt(memory.id.as_str(), ID_CHARS) })?,
        );
    }
    let evidence = Evidence { similarity: flag.similarity, ..Evidence::default() };
    let reason = match settlement {
        Settlement::Supersede | Settlement::OlderHolds => "superseded, by a person's word",
        _ => "merged, by a person's word",
    };
    let action = merge_of_two(stays, goes, &context.policy.merge, RULE, reason, evidence);
    let label = if settlement == Settlement::Merge { "merge" } else { "supersede" };
    Ok(carry_out_alone(writes, &layout, &context, UNIT, label, &action, rows, vec![closed])?)
}

//! [`Material`]: what questions about a plan are made of.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use memfold_guard::Guard;
use memfold_index::Row;
use memfold_model::memory::{Memory, MemoryId, SpaceIndex, Standing, VectorSpace};
use memfold_model::time::Instant;
use memfold_plan::plan::{Action, SavedPlan};
use memfold_plan::policy::Policy;
use memfold_store::{LoadRequest, LoadStoreError, MemoryStore, VectorSink};

/// The memories that a plan names as they are now, and what is known beside them.
#[derive(Debug)]
pub(crate) struct Material<'a> {
    /// The memories with all that was once folded into them; those that are gone are missing.
    pub(crate) memories: BTreeMap<MemoryId, Memory>,
    /// How merges are made.
    pub(crate) policy: &'a Policy,
    /// The guard.
    pub(crate) guard: &'a Guard,
    /// The time that ages count to.
    pub(crate) now: Instant,
}

/// Reads the memories that the changes of a plan name, and all that was once folded into them.
pub(crate) fn named_memories(
    store: &dyn MemoryStore,
    plan: &SavedPlan,
    request: &LoadRequest<'_>,
) -> Result<BTreeMap<MemoryId, Memory>, LoadStoreError> {
    let snapshot = store.load(request, &mut Uncounted::default())?;
    let mut named: BTreeSet<MemoryId> =
        plan.changes().flat_map(|saved| saved.action.target_ids.iter().cloned()).collect();
    let is_new_ghost = |memory: &&Memory, named: &BTreeSet<MemoryId>| match &memory.standing {
        Standing::Ghost { survivor } => named.contains(survivor) && !named.contains(&memory.id),
        _ => false,
    };
    loop {
        let ghosts = snapshot.memories.iter().filter(|memory| is_new_ghost(memory, &named));
        let ghosts: Vec<MemoryId> = ghosts.map(|ghost| ghost.id.clone()).collect();
        if ghosts.is_empty() {
            break;
        }
        named.extend(ghosts);
    }
    let memories = snapshot.memories.into_iter().filter(|memory| named.contains(&memory.id));
    Ok(memories.map(|memory| (memory.id.clone(), memory)).collect())
}

impl Material<'_> {
    /// Returns what keeps an action from being applied as it was planned: memories that are gone or are
    /// no longer what the plan saw.
    pub(crate) fn changed(
        &self,
        plan: &SavedPlan,
        action: &Action,
    ) -> Vec<(MemoryId, &'static str)> {
        let look = |id: &MemoryId| match self.memories.get(id) {
            None => Some((id.clone(), "is gone")),
            Some(memory) => {
                let planned = plan.plan.base_digests.get(id)?;
                (memory.base_digest.to_string() != *planned)
                    .then(|| (id.clone(), "was changed since"))
            }
        };
        action.target_ids.iter().filter_map(look).collect()
    }
}

/// Takes vectors and keeps none.
#[derive(Debug, Default)]
struct Uncounted {
    spaces: u32,
    rows: u32,
}

impl VectorSink for Uncounted {
    fn open_space(&mut self, _space: &VectorSpace) -> io::Result<SpaceIndex> {
        self.spaces += 1;
        Ok(SpaceIndex(self.spaces - 1))
    }

    fn push(&mut self, _space: SpaceIndex, _vector: &[f32]) -> io::Result<Row> {
        self.rows += 1;
        Ok(Row(self.rows - 1))
    }

    fn restart(&mut self) -> io::Result<()> {
        *self = Self::default();
        Ok(())
    }
}

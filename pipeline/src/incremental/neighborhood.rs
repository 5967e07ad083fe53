//! The memories that a changed memory can be clustered with: all that are near and may say the
//! same, and the memories near to them.

use std::collections::{BTreeSet, HashMap, HashSet};

use memfold_core::memory::{Memory, MemoryId, Status, VectorSpace};
use memfold_guard::text::strict_key;
use memfold_guard::{Guard, Reading, Verdict};
use memfold_index::flat::{FlatIndex, FlatScan};
use memfold_index::index_file::PREFIX_TRANSFORM;
use memfold_index::{Pool, VectorError, VectorMatrix};
use memfold_simd::{Kernels, Similarity};
use memfold_store::brain_db::{Reaches, SpaceShapes, StoreReader};
use memfold_store::reading::ModelShapes;

use super::Halt;
use crate::error::MemfoldError;
use crate::lookup::{SearchError, StoreIndex, near_ids, text_hash};

/// This many rows that no index holds are compared; more of them need a new index.
const FRESH_ROWS_MAX: usize = 65_536;
/// Where more than a quarter of the store would be searched, the join of all is as fast.
const SEARCHED_DIVISOR: u64 = 4;
/// Of a small store a neighborhood may be everything.
const SEARCHED_MIN: u64 = 1_000;
/// Pairs of texts that are compared one by one, at most.
const PAIRS_MAX: usize = 2_000_000;
/// Steps from a merged memory to the live one, at most: a cycle ends here.
const MERGES_MAX: usize = 100;

/// The inputs of a neighborhood search.
#[derive(Clone, Copy)]
pub(super) struct Surroundings<'a> {
    pub(super) reader: &'a StoreReader<'a>,
    pub(super) index: &'a StoreIndex,
    pub(super) reaches: Reaches,
    /// From which similarity on vectors are near; `None`: only texts count.
    pub(super) least: Option<Similarity>,
    /// Decides which texts may be linked, and from which score on they contradict each other;
    /// `None`: all near ones are linked.
    pub(super) guard: Option<&'a Guard>,
    pub(super) pool: &'a Pool,
    pub(super) kernels: &'static Kernels,
    pub(super) cancelled: &'a dyn Fn() -> bool,
}

/// The memories around changed ones.
#[derive(Debug, Default)]
pub(super) struct Neighborhood {
    /// Everything that is to be loaded, merged memories included.
    pub(super) ids: BTreeSet<MemoryId>,
    /// Live memories that changed, by themselves or by memories merged into them.
    pub(super) changed: BTreeSet<MemoryId>,
    /// Live memories that the index does not hold as they are.
    pub(super) edited: BTreeSet<String>,
    /// Live memories with a completely known neighborhood.
    searched: BTreeSet<MemoryId>,
}

/// Finds the neighborhood of changed memories. `edited` are the ones that the index does not hold
/// as they were before.
///
/// A memory that may be linked to one that is searched, or contradict it, is searched itself, so
/// that clusters and series are whole. The cost grows with the changed memories and with their
/// neighbors: each takes part in one pass over the prefix codes of the index, 24 of them together.
pub(super) fn neighborhood(
    surroundings: Surroundings<'_>,
    changed: &BTreeSet<String>,
    edited: &BTreeSet<String>,
    row_count: u64,
) -> Result<Neighborhood, Halt> {
    let space = surroundings.index.origin().space();
    let (fresh, edited) = FreshRows::read(&surroundings, &space, edited.union(changed))?;
    let mut walk = Walk {
        surroundings,
        space: &space,
        shapes: &surroundings.index.origin().shapes,
        fresh: &fresh,
        found: Neighborhood { edited, ..Neighborhood::default() },
        near: HashMap::new(),
        seen: HashSet::new(),
        pairs: 0,
    };
    let searched_max = SEARCHED_MIN.max(row_count / SEARCHED_DIVISOR);
    let mut open: BTreeSet<String> = BTreeSet::new();
    for id in changed {
        if let Some((_, live)) = walk.unit_of(id)? {
            walk.found.changed.insert(live.id.clone());
            open.insert(live.id.as_str().to_owned());
        }
    }
    while !open.is_empty() {
        if (surroundings.cancelled)() {
            return Err(MemfoldError::Cancelled.into());
        }
        let searched = (walk.found.searched.len() + open.len()) as u64;
        if searched > searched_max {
            return Err(Halt::Whole(format!(
                "{searched} of {row_count} memories changed or stand near one that did"
            )));
        }
        open = walk.step(&open)?;
    }
    Ok(walk.found)
}

/// Rows that the index does not hold, or not as they are.
struct FreshRows {
    ids: Vec<String>,
    vectors: Vec<f32>,
    /// Their vectors, encoded; `None` where there are none.
    flat: Option<FlatIndex>,
    by_text: HashMap<u64, Vec<String>>,
}

impl FreshRows {
    /// Reads the rows newer than the index, and the memories of `edited` that it does not hold;
    /// returns the ids of the latter.
    fn read<'e>(
        surroundings: &Surroundings<'_>,
        space: &VectorSpace,
        edited: impl Iterator<Item = &'e String>,
    ) -> Result<(Self, BTreeSet<String>), Halt> {
        let (reader, reaches) = (surroundings.reader, surroundings.reaches);
        let shapes = &surroundings.index.origin().shapes;
        let too_many =
            || Halt::Whole("more than 65,536 rows came since the index was built".to_owned());
        let mut fresh =
            Self { ids: Vec::new(), vectors: Vec::new(), flat: None, by_text: HashMap::new() };
        let is_complete = reader.all_texts_since(reaches, FRESH_ROWS_MAX, |id, text| {
            fresh.by_text.entry(text_hash(text)).or_default().push(id.to_owned());
        })?;
        if !is_complete {
            return Err(too_many());
        }
        reader.since(reaches, SpaceShapes { space, shapes }, |id, vector| {
            fresh.ids.push(id.to_owned());
            fresh.vectors.extend_from_slice(vector);
            if fresh.ids.len() > FRESH_ROWS_MAX { Err(too_many()) } else { Ok(()) }
        })?;
        let mut still_edited = BTreeSet::new();
        for id in edited {
            // One that comes back has changed again.
            let Some(memory) = reader.live_memory(id)? else { continue };
            let vector = reader.vector(id, SpaceShapes { space, shapes })?;
            if surroundings.index.holds(id, &memory.content, vector.as_deref())? {
                continue;
            }
            still_edited.insert(id.clone());
            fresh.by_text.entry(text_hash(&memory.content)).or_default().push(id.clone());
            if let Some(vector) = vector {
                fresh.ids.push(id.clone());
                fresh.vectors.extend_from_slice(&vector);
            }
        }
        if !fresh.ids.is_empty() {
            let transform = surroundings.index.files().tiers().section(PREFIX_TRANSFORM);
            let transform = transform.map_err(SearchError::damaged)?;
            let vectors = VectorMatrix::from_slice(&fresh.vectors, space.dim as usize)?;
            let flat = FlatIndex::encode(&vectors, transform, surroundings.kernels);
            fresh.flat = Some(flat.map_err(SearchError::damaged)?);
        }
        Ok((fresh, still_edited))
    }

    /// Adds the rows that are near each query.
    fn add_near(
        &self,
        surroundings: &Surroundings<'_>,
        queries: &VectorMatrix<'_>,
        least: Similarity,
        near: &mut [Vec<String>],
    ) -> Result<(), SearchError> {
        let Some(flat) = &self.flat else { return Ok(()) };
        let Surroundings { pool, kernels, .. } = *surroundings;
        let vectors = VectorMatrix::from_slice(&self.vectors, queries.dim())?;
        let scan = FlatScan::new(flat.view(), &vectors, kernels).map_err(SearchError::damaged)?;
        for (near, found) in near.iter_mut().zip(scan.range_batch(queries, least, pool)?) {
            near.extend(found.iter().map(|found| self.ids[found.row.index()].clone()));
        }
        Ok(())
    }
}

/// A live memory with everything merged into it.
struct Unit {
    id: String,
    texts: Vec<Box<str>>,
    vectors: Vec<Vec<f32>>,
    /// Ids that are near one of its vectors.
    near: BTreeSet<String>,
}

/// A memory that stands near another one, merged or not.
struct Near {
    /// The live memory that it is, or was merged into.
    live: String,
    reading: Option<Reading>,
}

/// One walk from memory to memory.
struct Walk<'a> {
    surroundings: Surroundings<'a>,
    space: &'a VectorSpace,
    shapes: &'a ModelShapes,
    fresh: &'a FreshRows,
    found: Neighborhood,
    /// The memories nearby; `None`: no live one.
    near: HashMap<String, Option<Near>>,
    /// Texts with their vectors that were searched around: a repeated text finds the same.
    seen: HashSet<[u8; 32]>,
    pairs: usize,
}

impl Walk<'_> {
    /// Searches the neighborhood of live memories; returns the memories to search next.
    fn step(&mut self, open: &BTreeSet<String>) -> Result<BTreeSet<String>, Halt> {
        let mut next = BTreeSet::new();
        let mut units = Vec::new();
        for id in open {
            self.found.searched.insert(MemoryId::new(id.as_str()));
            let Some(mut unit) = self.unit(id)? else { continue };
            for text in unit.texts.clone() {
                next.extend(self.of_equal_text(&text)?);
            }
            self.leave_out_seen(&mut unit);
            if !unit.vectors.is_empty() {
                units.push(unit);
            }
        }
        self.find_near(&mut units)?;
        for id in units.iter().flat_map(|unit| &unit.near) {
            self.read_near(id)?;
        }
        self.pairs += units.iter().map(|unit| unit.near.len() * unit.texts.len()).sum::<usize>();
        if self.pairs > PAIRS_MAX {
            return Err(Halt::Whole(format!(
                "more than {PAIRS_MAX} pairs of texts stand near changed memories"
            )));
        }
        let (guard, near) = (self.surroundings.guard, &self.near);
        for ids in self.surroundings.pool.map(units.len(), |i| linked(guard, near, &units[i])) {
            next.extend(ids);
        }
        next.retain(|id| !self.found.searched.contains(&MemoryId::new(id.as_str())));
        Ok(next)
    }

    /// Reads a live memory and the memories merged into it; all of them are to be loaded.
    fn unit(&mut self, id: &str) -> Result<Option<Unit>, Halt> {
        let reader = self.surroundings.reader;
        let Some(memory) = reader.live_memory(id)? else { return Ok(None) };
        let space = SpaceShapes { space: self.space, shapes: self.shapes };
        let mut unit = Unit {
            id: id.to_owned(),
            texts: vec![memory.content.clone()],
            vectors: reader.vector(id, space)?.into_iter().collect(),
            near: BTreeSet::new(),
        };
        if unit.vectors.is_empty() && reader.live(id, None, self.shapes)?.is_some() {
            return Err(Halt::Whole(format!(
                "memory {id:?} has a vector of another model than the index"
            )));
        }
        self.found.ids.insert(memory.id.clone());
        for merged_row in reader.merged_rows(&memory, Some(space), usize::MAX)?.unwrap_or_default()
        {
            self.found.ids.insert(merged_row.id);
            unit.texts.push(merged_row.content);
            unit.vectors.extend(merged_row.vector);
        }
        Ok(Some(unit))
    }

    /// Returns the live memories that have a text in the same words, by themselves or by memories
    /// merged into them.
    fn of_equal_text(&mut self, text: &str) -> Result<Vec<String>, Halt> {
        let key = strict_key(text);
        if !self.seen.insert(*blake3::hash(key.as_bytes()).as_bytes()) {
            return Ok(Vec::new());
        }
        let mut ids = self.surroundings.index.ids_of_text(text)?;
        ids.extend(self.fresh.by_text.get(&text_hash(text)).into_iter().flatten().cloned());
        let mut live = Vec::new();
        for id in ids {
            if let Some((content, memory)) = self.unit_of(&id)?
                && strict_key(&content) == key
            {
                live.push(memory.id.as_str().to_owned());
            }
        }
        Ok(live)
    }

    /// Drops vectors around which the same texts were searched already.
    fn leave_out_seen(&mut self, unit: &mut Unit) {
        let texts: Vec<_> = unit.texts.iter().map(|text| strict_key(text)).collect();
        unit.vectors.retain(|vector| {
            let mut hasher = blake3::Hasher::new();
            for component in vector {
                hasher.update(&component.to_le_bytes());
            }
            for text in &texts {
                hasher.update(&(text.len() as u64).to_le_bytes());
                hasher.update(text.as_bytes());
            }
            self.seen.insert(*hasher.finalize().as_bytes())
        });
    }

    /// Finds the ids near the units' vectors.
    fn find_near(&self, units: &mut [Unit]) -> Result<(), Halt> {
        let Some(least) = self.surroundings.least else { return Ok(()) };
        let vectors: Vec<f32> =
            units.iter().flat_map(|unit| unit.vectors.iter().flatten()).copied().collect();
        if vectors.is_empty() {
            return Ok(());
        }
        let queries = VectorMatrix::from_slice(&vectors, self.space.dim as usize)?;
        let Surroundings { index, pool, kernels, .. } = self.surroundings;
        let mut near = near_ids(index, &queries, least, pool, kernels)?;
        self.fresh.add_near(&self.surroundings, &queries, least, &mut near)?;
        let mut near = near.into_iter();
        for unit in units {
            for ids in near.by_ref().take(unit.vectors.len()) {
                unit.near.extend(ids);
            }
            unit.near.remove(&unit.id);
        }
        Ok(())
    }

    /// Reads a memory nearby; it is to be loaded, together with its unit.
    fn read_near(&mut self, id: &str) -> Result<(), Halt> {
        if self.near.contains_key(id) {
            return Ok(());
        }
        let near = match self.unit_of(id)? {
            Some((content, live)) => {
                self.found.ids.insert(MemoryId::new(id));
                if self.found.ids.insert(live.id.clone()) || live.id.as_str() == id {
                    // The memories merged into it belong to the same unit.
                    let merged_rows =
                        self.surroundings.reader.merged_rows(&live, None, usize::MAX)?;
                    let merged_rows = merged_rows.unwrap_or_default().into_iter();
                    self.found.ids.extend(merged_rows.map(|merged_row| merged_row.id));
                }
                let reading = self.surroundings.guard.map(|guard| guard.read(&content));
                Some(Near { live: live.id.as_str().to_owned(), reading })
            }
            None => None,
        };
        self.near.insert(id.to_owned(), near);
        Ok(())
    }

    /// Returns the text of a memory, and the live one that it is or was merged into; `None` where
    /// there is none.
    fn unit_of(&self, id: &str) -> Result<Option<(Box<str>, Memory)>, Halt> {
        let (mut said, mut id) = (None, id.to_owned());
        for _ in 0..MERGES_MAX {
            let Some(memory) = self.surroundings.reader.remembered(&id)? else { return Ok(None) };
            if memory.status == Status::Live {
                let content = said.unwrap_or_else(|| memory.content.clone());
                return Ok(Some((content, memory)));
            }
            let Some(survivor) = memory.merged_into else { return Ok(None) };
            said.get_or_insert(memory.content);
            id = survivor.as_str().to_owned();
        }
        Ok(None)
    }
}

/// Returns the live memories near a unit that may be linked to it, or contradict it: of a series one flag speaks for all.
fn linked(guard: Option<&Guard>, near: &HashMap<String, Option<Near>>, unit: &Unit) -> Vec<String> {
    let read = |guard: &Guard| unit.texts.iter().map(|text| guard.read(text)).collect();
    let readings: Vec<Reading> = guard.map_or_else(Vec::new, read);
    let may_be = |near: &&Near| match (guard, &near.reading) {
        (Some(guard), Some(reading)) => readings.iter().any(|own| {
            let judgement = guard.judge(reading, own);
            judgement.could_be_same || judgement.verdict == Verdict::Conflict
        }),
        _ => true,
    };
    let near = unit.near.iter().filter_map(|id| near.get(id)?.as_ref());
    near.filter(may_be).map(|near| near.live.clone()).collect()
}

impl From<VectorError> for Halt {
    fn from(error: VectorError) -> Self {
        Self::Whole(format!("the index could not be searched: {error}"))
    }
}

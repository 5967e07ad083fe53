//! [`search`]: the nearest live memories.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Mutex;

use memfold_core::memory::{Memory, Status, VectorSpace};
use memfold_datasets::embedding;
use memfold_guard::text::strict_key;
use memfold_index::flat::{FlatScan, FlatView, ScanMemory};
use memfold_index::graph::{SearchMemory, Searcher};
use memfold_index::index_file::IndexView;
use memfold_index::{Nearest, Neighbor, Row, VectorError, VectorMatrix, query_norm};
use memfold_simd::{Kernels, Similarity};
use memfold_store::brain_db::{LiveMemory, Reaches, SpaceShapes, StoreReader};
use memfold_store::reading::ModelShapes;
use memfold_store::{BrainDb, LoadRequest, MemoryStore as _, NoVectors};
use tracing::info_span;

use super::{SearchError, StoreIndex};

/// Which matches are wanted; without either, all memories are.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Wanted {
    /// At most this many, the nearest.
    pub neighbors: Option<usize>,
    /// Only matches of at least this similarity.
    pub similarity_min: Option<Similarity>,
}

impl Wanted {
    /// Tells whether a row may be so little similar.
    pub(super) fn allows(self, similarity: Similarity) -> bool {
        self.similarity_min.is_none_or(|least| similarity >= least)
    }

    /// Returns the least similarity that a row may have.
    pub(super) fn least(self) -> Similarity {
        self.similarity_min.or(Similarity::new(-1.0)).unwrap_or(Similarity::ONE)
    }
}

/// A live memory and how similar it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Match {
    /// The memory as it is now; its embedding shows in `similarity` only.
    pub memory: Memory,
    /// The canonical similarity of its vector to the query.
    pub similarity: Similarity,
}

/// The searched rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Searched {
    /// An index and newer rows.
    Index {
        /// Newer rows, compared one by one.
        fresh_rows: u64,
        /// Rows of the index that were found near, but have changed since.
        gone_rows: u64,
    },
    /// Every vector of the store: there is no index.
    Store {
        /// How many.
        rows: u64,
    },
    /// Every text of the store, by the built-in embedding.
    Words {
        /// How many.
        rows: u64,
    },
    /// Every vector of the store, because the index no longer fits it: its rows were renumbered, or it is another store's.
    StoreInsteadOfIndex {
        /// How many.
        rows: u64,
    },
}

/// The answer to a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Matches {
    /// The memories, the most similar first; of equally similar ones by the bytes of their ids.
    pub matches: Vec<Match>,
    /// How they were found.
    pub searched: Searched,
    /// How many memories have no vector to be found by; `None` where an index answers, and for one of several queries.
    pub without_vector: Option<u64>,
}

/// Finds the live memories nearest to a query, in one read transaction.
///
/// Similarities are computed from the store's present vectors. With a scan tier or without an index
/// nothing is missed; a graph misses few (its recall is measured by `memfold bench ann`).
///
/// # Errors
/// When the store cannot be read, no live memory is the one or has the text to search by, the query has another dimension or
/// no direction, or the index is damaged.
pub fn search(
    store: &BrainDb,
    index: Option<&StoreIndex>,
    query: Query<'_>,
    wanted: Wanted,
    load: &LoadRequest<'_>,
    kernels: &'static Kernels,
) -> Result<Matches, SearchError> {
    let _span = info_span!("search", store = %store.path().display(), queries = 1_i64).entered();
    store.look_up(load, |reader| {
        let compared = Compared::with(reader, index, kernels)?;
        let Asked { vector, except } = query.resolve(&compared)?;
        let further = usize::from(except.is_some());
        let neighbors = wanted.neighbors.map(|count| count.saturating_add(further));
        let mut found = compared.answer(&vector, Wanted { neighbors, ..wanted })?;
        found.matches.retain(|found| Some(found.memory.id.as_str()) != except);
        found.matches.truncate(wanted.neighbors.unwrap_or(usize::MAX));
        if !matches!(found.searched, Searched::Index { .. }) {
            found.without_vector = Some(reader.count_without_vector()?);
        }
        Ok(found)
    })
}

/// Finds the live memories nearest to a text by the built-in embedding, independent of their
/// vectors: for a text that no memory has, where nobody makes vectors. Reads and embeds every text.
///
/// # Errors
/// When the store cannot be read, or no word of the text is known.
pub(crate) fn search_by_words(
    store: &BrainDb,
    text: &str,
    wanted: Wanted,
    load: &LoadRequest<'_>,
    kernels: &'static Kernels,
) -> Result<Matches, SearchError> {
    let _span = info_span!("search", store = %store.path().display(), queries = 1_i64).entered();
    let query = embedding::embed(text).ok_or(SearchError::NoText)?;
    let snapshot = store.load(load, &mut NoVectors::default())?;
    let live = snapshot.memories.into_iter().filter(|memory| memory.status == Status::Live);
    let mut rows = 0;
    let mut matches: Vec<Match> = live
        .inspect(|_| rows += 1)
        .filter_map(|memory| {
            let vector = embedding::embed(&memory.content)?;
            let norms = [kernels.dot(&query, &query), kernels.dot(&vector, &vector)];
            let similarity = kernels.similarity(&query, &vector, norms)?;
            wanted.allows(similarity).then_some(Match { memory, similarity })
        })
        .collect();
    matches.sort_by(|a, b| {
        b.similarity.cmp(&a.similarity).then_with(|| a.memory.id.cmp(&b.memory.id))
    });
    matches.truncate(wanted.neighbors.unwrap_or(usize::MAX));
    Ok(Matches { matches, searched: Searched::Words { rows }, without_vector: None })
}

/// Finds live memories near a vector, in a read transaction of the caller.
pub(crate) fn near_vector(
    reader: &StoreReader<'_>,
    index: Option<&StoreIndex>,
    vector: &[f32],
    wanted: Wanted,
    kernels: &'static Kernels,
) -> Result<Matches, SearchError> {
    Compared::with(reader, index, kernels)?.answer(vector, wanted)
}

/// Answers several queries, in their order, in one read transaction.
///
/// # Errors
/// As [`search`]; the error says which query it was.
pub fn search_all(
    store: &BrainDb,
    index: Option<&StoreIndex>,
    queries: &VectorMatrix<'_>,
    wanted: Wanted,
    load: &LoadRequest<'_>,
    kernels: &'static Kernels,
) -> Result<Vec<Matches>, SearchError> {
    let place = store.path().display();
    let _span = info_span!("search", store = %place, queries = queries.len() as i64).entered();
    store.look_up(load, |reader| {
        let compared = Compared::with(reader, index, kernels)?;
        let progress = load.progress;
        progress.begin("search", Some(queries.len() as u64));
        let answered = queries.rows().map(|row| {
            if progress.cancelled() {
                return Err(SearchError::Cancelled);
            }
            progress.advance(1);
            let found = compared.answer(queries.vector(row), wanted);
            found.map_err(|error| match error {
                SearchError::Query(error) => SearchError::Query(error.at(row.0)),
                error => error,
            })
        });
        let answered = answered.collect();
        progress.end();
        answered
    })
}

/// The vectors that the queries of one read transaction are compared with.
pub(super) struct Compared<'a> {
    pub(super) reader: &'a StoreReader<'a>,
    /// The index and how far it reaches, where it fits the store.
    pub(super) index: Option<(&'a StoreIndex, Reaches)>,
    /// Whether there is one that does not.
    is_foreign: bool,
    /// The space of the compared vectors: the index's, even where the index is of no use.
    space: Option<VectorSpace>,
    shapes: Cow<'a, ModelShapes>,
    kernels: &'static Kernels,
}

impl<'a> Compared<'a> {
    fn with(
        reader: &'a StoreReader<'a>,
        index: Option<&'a StoreIndex>,
        kernels: &'static Kernels,
    ) -> Result<Self, SearchError> {
        let space = index.map(|index| index.origin().space());
        let reaches = index.map(|index| reader.reaches(index.marks())).transpose()?;
        let fitting = index.zip(reaches).filter(|(_, reaches)| !reaches.is_lost());
        let shapes = match fitting {
            Some((index, _)) => Cow::Borrowed(&index.origin().shapes),
            None => Cow::Owned(reader.shapes()?),
        };
        let is_foreign = index.is_some() && fitting.is_none();
        Ok(Self { reader, index: fitting, is_foreign, space, shapes, kernels })
    }

    /// Reads a memory as it is now; `None` unless it is live and has a vector to compare.
    pub(super) fn live(&self, id: &str) -> Result<Option<LiveMemory>, SearchError> {
        Ok(self.reader.live(id, self.space.as_ref(), &self.shapes)?)
    }

    fn answer(&self, query: &[f32], wanted: Wanted) -> Result<Matches, SearchError> {
        // Without an index: the model with most rows. Dimensions of queries are limited by the
        // vectors' maximum.
        let space = self.space.clone().unwrap_or_else(|| VectorSpace {
            model: self.shapes.model(None).into(),
            dim: query.len() as u32,
        });
        let search = Search::new(
            self.reader,
            query,
            SpaceShapes { space: &space, shapes: &self.shapes },
            self.kernels,
        )?;
        if let Some((index, reaches)) = self.index {
            return search.with_index(index, wanted, reaches);
        }
        let mut best = Best::new(wanted);
        let rows = search.rows_since(Reaches::START, &mut best)?;
        if rows == 0 {
            let VectorSpace { model, dim } = space;
            return Err(SearchError::NoVectors { model, dim });
        }
        let searched = match self.is_foreign {
            true => Searched::StoreInsteadOfIndex { rows },
            false => Searched::Store { rows },
        };
        Ok(Matches { matches: best.into_matches(), searched, without_vector: None })
    }
}

/// One query inside a read transaction.
struct Search<'a> {
    reader: &'a StoreReader<'a>,
    query: &'a [f32],
    squared_norm: f64,
    space: SpaceShapes<'a>,
    kernels: &'static Kernels,
}

impl<'a> Search<'a> {
    fn new(
        reader: &'a StoreReader<'a>,
        query: &'a [f32],
        space: SpaceShapes<'a>,
        kernels: &'static Kernels,
    ) -> Result<Self, SearchError> {
        let squared_norm = query_norm(query, space.space.dim as usize, 0, kernels)?;
        Ok(Self { reader, query, squared_norm, space, kernels })
    }

    fn with_index(
        &self,
        index: &StoreIndex,
        wanted: Wanted,
        reaches: Reaches,
    ) -> Result<Matches, SearchError> {
        let mut best = Best::new(wanted);
        let fresh_rows = self.rows_since(reaches, &mut best)?;
        let mut gone_rows = 0;
        index.each_part(self.kernels, |tier, vectors, id| {
            gone_rows += self.in_part(tier, vectors, id, wanted, &mut best)?;
            Ok(())
        })?;
        let searched = Searched::Index { fresh_rows, gone_rows };
        Ok(Matches { matches: best.into_matches(), searched, without_vector: None })
    }

    /// Searches one set of rows, and farther where some are gone; returns how many gone rows it
    /// found.
    fn in_part<'i>(
        &self,
        mut tier: Tier<'_>,
        vectors: &VectorMatrix<'_>,
        id: IdOf<'i, '_>,
        wanted: Wanted,
        best: &mut Best,
    ) -> Result<u64, SearchError> {
        let (mut gone_rows, mut seen, mut count) = (0, 0, wanted.neighbors);
        loop {
            let found = find(&mut tier, self.query, wanted, count)?;
            for &neighbor in found.get(seen..).unwrap_or_default() {
                gone_rows +=
                    u64::from(!self.take(id(neighbor.row)?, vectors.vector(neighbor.row), best)?);
            }
            // Rows that are gone make room for others, which are farther away.
            let all = count.is_none_or(|count| found.len() < count);
            if all || gone_rows == 0 || seen_enough(&found, best) {
                return Ok(gone_rows);
            }
            seen = found.len();
            count = count.map(|count| count.saturating_mul(4));
        }
    }

    /// Reads a row again from the store; returns whether it is unchanged.
    fn take(&self, id: &str, vector: &[f32], best: &mut Best) -> Result<bool, SearchError> {
        let Some(live) = self.live(id)? else { return Ok(false) };
        let is_same = live.vector == vector;
        if let Some(similarity) = self.similarity(&live.vector)
            && best.wants(similarity, id)
        {
            best.take(Match { memory: live.memory, similarity });
        }
        Ok(is_same)
    }

    /// Compares the query with every row since a place, and returns how many there were.
    fn rows_since(&self, reaches: Reaches, best: &mut Best) -> Result<u64, SearchError> {
        let mut rows = 0;
        self.reader.since(reaches, self.space, |id, vector| {
            rows += 1;
            let Some(similarity) = self.similarity(vector) else { return Ok(()) };
            if !best.wants(similarity, id) {
                return Ok(());
            }
            // Only the last vector of a memory counts.
            if let Some(live) = self.live(id)?
                && live.vector == vector
            {
                best.take(Match { memory: live.memory, similarity });
            }
            Ok::<_, SearchError>(())
        })?;
        Ok(rows)
    }

    fn live(&self, id: &str) -> Result<Option<LiveMemory>, SearchError> {
        Ok(self.reader.live(id, Some(self.space.space), self.space.shapes)?)
    }

    fn similarity(&self, vector: &[f32]) -> Option<Similarity> {
        let norms = [self.squared_norm, self.kernels.dot(vector, vector)];
        self.kernels.similarity(self.query, vector, norms)
    }
}

/// Names the memory of a row.
pub(super) type IdOf<'i, 'f> = &'f dyn Fn(Row) -> Result<&'i str, SearchError>;

/// Tells whether the matches can get no better by looking farther.
fn seen_enough(found: &[Neighbor], best: &Best) -> bool {
    let farthest = found.last().map(|last| last.similarity);
    best.is_full() && farthest.zip(best.worst()).is_some_and(|(farthest, worst)| farthest < worst)
}

/// Finds rows, best first: `count` of the nearest, or all of a range.
fn find(
    tier: &mut Tier<'_>,
    query: &[f32],
    wanted: Wanted,
    count: Option<usize>,
) -> Result<Vec<Neighbor>, VectorError> {
    let mut found = match count {
        Some(count) => tier.k_nearest(query, count)?,
        None => tier.range(query, wanted.least())?,
    };
    found.retain(|neighbor| wanted.allows(neighbor.similarity));
    Ok(found)
}

/// A search query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Query<'a> {
    /// Memories near a vector.
    Vector(&'a [f32]),
    /// Memories near the live memory of this id, which is excluded.
    Memory(&'a str),
    /// Memories near the vector of a live memory with this text (except for white space and the
    /// form of Unicode).
    ///
    /// Where there is no index, only texts that are spelled alike are found.
    Text(&'a str),
}

/// A query as it is compared.
pub(super) struct Asked<'a> {
    pub(super) vector: Cow<'a, [f32]>,
    /// The memory that is excluded.
    pub(super) except: Option<&'a str>,
}

impl<'a> Query<'a> {
    /// Finds its vector.
    pub(super) fn resolve(self, compared: &Compared<'_>) -> Result<Asked<'a>, SearchError> {
        let (found, except) = match self {
            Self::Vector(vector) => (Cow::Borrowed(vector), None),
            Self::Memory(id) => {
                let found = compared.live(id)?;
                let found = found.ok_or_else(|| SearchError::NoMemory { id: id.into() })?;
                (Cow::Owned(found.vector), Some(id))
            }
            Self::Text(text) => {
                let found = of_text(compared, text)?.ok_or(SearchError::NoText)?;
                (Cow::Owned(found.vector), None)
            }
        };
        Ok(Asked { vector: found, except })
    }
}

/// Returns the first live memory with a text, by their ids.
fn of_text(compared: &Compared<'_>, text: &str) -> Result<Option<LiveMemory>, SearchError> {
    let indexed = compared.index.map_or(Ok(Vec::new()), |(index, _)| index.ids_of_text(text))?;
    match first_of(compared, indexed, text)? {
        Some(found) => Ok(Some(found)),
        None => first_of(compared, compared.reader.ids_of_text(text)?, text),
    }
}

fn first_of(
    compared: &Compared<'_>,
    mut ids: Vec<String>,
    text: &str,
) -> Result<Option<LiveMemory>, SearchError> {
    let key = strict_key(text);
    ids.sort_unstable();
    for id in &ids {
        let live = compared.live(id)?;
        if let Some(live) = live.filter(|live| strict_key(&live.memory.content) == key) {
            return Ok(Some(live));
        }
    }
    Ok(None)
}

/// Matches by similarity, then by id.
#[derive(Debug)]
pub(super) struct Best {
    wanted: Wanted,
    matches: Vec<Match>,
    ids: BTreeSet<Box<str>>,
}

impl Best {
    pub(super) const fn new(wanted: Wanted) -> Self {
        Self { wanted, matches: Vec::new(), ids: BTreeSet::new() }
    }

    /// Tells whether a memory of this similarity would be among the matches.
    pub(super) fn wants(&self, similarity: Similarity, id: &str) -> bool {
        if !self.wanted.allows(similarity) || self.ids.contains(id) {
            return false;
        }
        !self.is_full()
            || self
                .matches
                .last()
                .is_some_and(|last| (similarity, last.memory.id.as_str()) > (last.similarity, id))
    }

    /// Tells whether there are as many as requested.
    pub(super) fn is_full(&self) -> bool {
        self.wanted.neighbors.is_some_and(|count| self.matches.len() >= count)
    }

    /// Returns the least similarity among the matches.
    pub(super) fn worst(&self) -> Option<Similarity> {
        self.matches.last().map(|last| last.similarity)
    }

    /// Inserts a wanted match in order.
    pub(super) fn take(&mut self, found: Match) {
        let place = self.matches.partition_point(|other| {
            (other.similarity, found.memory.id.as_str())
                > (found.similarity, other.memory.id.as_str())
        });
        self.ids.insert(found.memory.id.as_str().into());
        self.matches.insert(place, found);
        if let Some(count) = self.wanted.neighbors
            && self.matches.len() > count
            && let Some(last) = self.matches.pop()
        {
            self.ids.remove(last.memory.id.as_str());
        }
    }

    pub(super) fn into_matches(self) -> Vec<Match> {
        self.matches
    }
}

/// `ef_search` of a lookup in the graph: at least this, and wider where more matches are requested.
const EF_SEARCH: usize = 128;

/// A searcher of an index tier; its memory goes back to the index's idle searches.
pub(super) struct Tier<'a> {
    /// `None` once the memory is back.
    search: Option<TierSearch<'a>>,
    idle: &'a IdleSearches,
}

enum TierSearch<'a> {
    Scan(FlatScan<'a>),
    Graph(Searcher<'a>),
}

/// The memory of searches over one index that have ended: after some lookups, one allocates nothing but its answer.
#[derive(Debug, Default)]
pub(super) struct IdleSearches {
    scans: Mutex<Vec<ScanMemory>>,
    graphs: Mutex<Vec<SearchMemory>>,
}

impl IdleSearches {
    /// Searches the graph where there is one.
    pub(super) fn tier<'a>(
        &'a self,
        tiers: &'a IndexView<'a>,
        matrix: &'a VectorMatrix<'a>,
        kernels: &'static Kernels,
    ) -> Result<Tier<'a>, SearchError> {
        let Some(graph) = &tiers.graph else { return self.scan(tiers.flat, matrix, kernels) };
        let memory = taken(&self.graphs);
        let search = Searcher::new(graph, matrix, kernels)?.with_memory(memory);
        Ok(Tier { search: Some(TierSearch::Graph(search)), idle: self })
    }

    pub(super) fn scan<'a>(
        &'a self,
        flat: FlatView<'a>,
        matrix: &'a VectorMatrix<'a>,
        kernels: &'static Kernels,
    ) -> Result<Tier<'a>, SearchError> {
        let scan = FlatScan::new(flat, matrix, kernels)?.with_memory(taken(&self.scans));
        Ok(Tier { search: Some(TierSearch::Scan(scan)), idle: self })
    }
}

fn taken<T: Default>(idle: &Mutex<Vec<T>>) -> T {
    idle.lock().ok().and_then(|mut idle| idle.pop()).unwrap_or_default()
}

fn put<T>(idle: &Mutex<Vec<T>>, memory: T) {
    if let Ok(mut idle) = idle.lock() {
        idle.push(memory);
    }
}

impl Drop for Tier<'_> {
    fn drop(&mut self) {
        match self.search.take() {
            Some(TierSearch::Scan(scan)) => put(&self.idle.scans, scan.into_memory()),
            Some(TierSearch::Graph(graph)) => put(&self.idle.graphs, graph.into_memory()),
            None => {}
        }
    }
}

impl Nearest for Tier<'_> {
    fn k_nearest(&mut self, query: &[f32], k: usize) -> Result<Vec<Neighbor>, VectorError> {
        let ef_search = EF_SEARCH.max(k.saturating_mul(2));
        let found = match &mut self.search {
            Some(TierSearch::Scan(scan)) => scan.k_nearest(query, k)?,
            Some(TierSearch::Graph(graph)) => graph.k_nearest(query, k, ef_search)?,
            None => &[],
        };
        Ok(found.to_vec())
    }

    fn range(
        &mut self,
        query: &[f32],
        threshold: Similarity,
    ) -> Result<Vec<Neighbor>, VectorError> {
        let found = match &mut self.search {
            Some(TierSearch::Scan(scan)) => scan.range(query, threshold)?,
            Some(TierSearch::Graph(graph)) => graph.range(query, threshold, EF_SEARCH)?,
            None => &[],
        };
        Ok(found.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use memfold_index::graph::{Graph, GraphOptions};
    use memfold_index::index_file::TextKeys;
    use memfold_index::{FlatIndex, NoProgress, Pool};

    use super::*;

    /// Every lookup made a searcher of its own, and its memory grows with the index.
    #[test]
    fn lookups_use_memory_again() {
        let values: Vec<f32> = (0..6_000_u32 * 8)
            .map(|at| (at.wrapping_mul(2_654_435_761) >> 8) as f32 / 8_388_608.0 - 1.0)
            .collect();
        let matrix = VectorMatrix::from_slice(&values, 8).unwrap();
        let (pool, kernels) = (Pool::new(None).unwrap(), Kernels::active());
        let flat = FlatIndex::build(&matrix, &pool, kernels).unwrap();
        let options = GraphOptions::default();
        let graph = Graph::build(&matrix, options, &pool, kernels, &NoProgress).unwrap();
        let (view, idle) = (graph.view(), IdleSearches::default());
        let tiers = IndexView {
            flat: flat.view(),
            graph: Some(view),
            graph_options: Some(options),
            text_keys: TextKeys::new(&[]),
        };
        for row in 0..20 {
            let query = matrix.vector(Row(row));
            let mut tier = idle.tier(&tiers, &matrix, kernels).unwrap();
            assert_eq!(tier.k_nearest(query, 3).unwrap()[0].row, Row(row));
            let mut scan = idle.scan(flat.view(), &matrix, kernels).unwrap();
            assert_eq!(scan.k_nearest(query, 3).unwrap()[0].row, Row(row));
            drop((tier, scan));
            let (scans, graphs) = (idle.scans.lock().unwrap(), idle.graphs.lock().unwrap());
            assert_eq!((scans.len(), graphs.len()), (1, 1), "one memory each, after any lookup");
        }
    }
}

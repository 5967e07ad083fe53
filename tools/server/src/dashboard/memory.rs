//! Conflicts, and single memories: their status and their sources.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use jiff::tz::TimeZone;
use memfold_core::lifecycle::{Edge, Tier, TierAssignment};
use memfold_core::lineage::{Branch, Explanation, Few};
use memfold_core::memory::{Memory, MemoryId, Status};
use memfold_store::brain_db::{OpenPair, StoredTier};
use serde::Deserialize;

use super::shell::{
    Fields, PieceView, Refused, Shell, moment, pieces, place, shown, similarity, text, then,
};
use crate::http::{App, Query};
use crate::service::{Problem, ServedStore, SettledAs};

/// Pairs on a page.
const PAIRS_SHOWN: usize = 50;
/// Characters of the text of a pair.
const PAIR_CHARS: usize = 2_000;
/// Characters of a memory on its own page: all that a store is likely to hold.
const TEXT_CHARS: usize = 100_000;
/// Edges that are displayed.
const EDGES_SHOWN: usize = 100;

#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct MemoryQuery {
    store: Option<String>,
    #[serde(default)]
    id: String,
}

struct SideView {
    id: String,
    created_at: String,
    text: Option<String>,
    /// The text, with the words that the other one does not have.
    pieces: Vec<PieceView>,
    /// `newer`, `older`, or empty where that is not known.
    age: &'static str,
}

struct PairView {
    key: String,
    kind: &'static str,
    similarity: String,
    score: String,
    at: String,
    sides: [SideView; 2],
}

#[derive(Template)]
#[template(path = "conflicts.html")]
struct ConflictsPage {
    shell: Shell,
    pairs: Vec<PairView>,
    more: usize,
    unflagged: usize,
}

/// The pairs that wait for a person.
pub(super) async fn conflicts(
    State(app): State<App>,
    Query(query): Query<MemoryQuery>,
) -> Result<Response, Refused> {
    let of = app.clone();
    let work = move |store: &Arc<ServedStore>| {
        let pairs = store.flags()?;
        Ok(ConflictsPage {
            shell: Shell::of(&of, store, "Conflicts"),
            more: pairs.len().saturating_sub(PAIRS_SHOWN),
            unflagged: store.unflagged()?,
            pairs: pairs
                .iter()
                .take(PAIRS_SHOWN)
                .map(|pair| PairView::of(pair, &store.time_zone))
                .collect(),
        })
    };
    Ok(shown(&app.service.on(query.store.as_deref(), work).await?))
}

impl PairView {
    fn of(pair: &OpenPair, time_zone: &TimeZone) -> Self {
        let newer = pair.newer(time_zone);
        let texts = [0, 1].map(|side: usize| Some(text(pair.texts[side].as_deref()?, PAIR_CHARS)));
        let side = |side: usize| SideView {
            id: pair.ids[side].clone(),
            created_at: pair.created_at[side].clone().unwrap_or_default(),
            pieces: marked(texts[side].as_deref(), texts[1 - side].as_deref()),
            text: texts[side].clone(),
            age: match newer {
                Some(newer) if newer == side => "newer",
                Some(_) => "older",
                None => "",
            },
        };
        Self {
            key: pair.key.clone(),
            kind: pair.kind.name(),
            similarity: similarity(pair.similarity),
            score: similarity(pair.score),
            at: pair.at.clone(),
            sides: [side(0), side(1)],
        }
    }
}

/// A text with the parts marked as new that the other one lacks.
fn marked(own: Option<&str>, other: Option<&str>) -> Vec<PieceView> {
    let mut parts = pieces(other.or(own).unwrap_or_default(), own.unwrap_or_default());
    parts.retain(|piece| piece.tag != "del");
    parts
}

/// How a person settles a pair.
#[derive(Debug, Deserialize)]
pub(super) struct SettleFields {
    store: String,
    key: String,
    settlement: SettledAs,
}

pub(super) async fn settle(
    State(app): State<App>,
    Fields(fields): Fields<SettleFields>,
) -> Result<Response, Refused> {
    let (of, key, settlement) = (app.clone(), fields.key, fields.settlement);
    let work = move |store: &Arc<ServedStore>| {
        store.settle(&key, settlement)?;
        Ok(Shell::of(&of, store, "Conflicts").to("/ui/conflicts"))
    };
    Ok(then(&app.service.on(Some(&fields.store), work).await?))
}

/// Memories on a page.
const MEMORIES_SHOWN: usize = 50;
/// Characters of a text of the list.
const LINE_CHARS: usize = 240;
/// Categories that the list can be filtered by: the most frequent ones.
const CATEGORIES_SHOWN: usize = 100;
/// The filters of the list.
const STATES: [(&str, &str); 2] = [("live", "live"), ("merged", "merged into another")];

/// Which memories to list.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ListQuery {
    store: Option<String>,
    /// Words of the text or the id.
    q: String,
    category: String,
    tier: String,
    state: String,
    page: usize,
}

struct MemoryLine {
    id: String,
    text: String,
    categories: Vec<String>,
    tier: &'static str,
    created_at: String,
    access_count: i64,
    survivor: Option<String>,
}

#[derive(Template)]
#[template(path = "memories.html")]
struct MemoriesPage {
    shell: Shell,
    query: ListQuery,
    rows: Vec<MemoryLine>,
    found: usize,
    categories: Vec<(String, usize)>,
    tiers: [&'static str; 4],
    states: [(&'static str, &'static str); 2],
    before: Option<String>,
    after: Option<String>,
    pages: (usize, usize),
}

/// The memories of a store, the newest first. Reads all of them.
pub(super) async fn list(
    State(app): State<App>,
    Query(query): Query<ListQuery>,
) -> Result<Response, Refused> {
    let (of, wanted) = (app.clone(), query.clone());
    let work =
        move |store: &Arc<ServedStore>| memories(Shell::of(&of, store, "Memories"), store, wanted);
    Ok(shown(&app.service.on(query.store.as_deref(), work).await?))
}

fn memories(
    shell: Shell,
    store: &ServedStore,
    mut query: ListQuery,
) -> Result<MemoriesPage, Problem> {
    let now = store.now();
    let mut all = store.db.memories(&store.load(now))?;
    let tiers = store.tiers(now)?;
    let mut categories: BTreeMap<String, usize> = BTreeMap::new();
    for memory in all.iter().filter(|memory| memory.status == Status::Live) {
        for category in &memory.categories {
            *categories.entry(category.to_string()).or_default() += 1;
        }
    }
    let mut categories: Vec<(String, usize)> = categories.into_iter().collect();
    categories.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    categories.truncate(CATEGORIES_SHOWN);
    if query.state.is_empty() {
        query.state = STATES[0].0.to_owned();
    }
    all.retain(|memory| query.is_meant(memory, tiers.get(&memory.id)));
    all.sort_by_key(|memory| (std::cmp::Reverse(memory.created_at.instant()), memory.id.clone()));
    let last = all.len().saturating_sub(1) / MEMORIES_SHOWN;
    let page = query.page.min(last);
    let at = |page: usize| shell.to(&query.place(page));
    Ok(MemoriesPage {
        rows: all
            .iter()
            .skip(page * MEMORIES_SHOWN)
            .take(MEMORIES_SHOWN)
            .map(|memory| MemoryLine::of(memory, tiers.get(&memory.id)))
            .collect(),
        found: all.len(),
        categories,
        tiers: Tier::ALL.map(Tier::as_str),
        states: STATES,
        before: page.checked_sub(1).map(at),
        after: (page < last).then(|| at(page + 1)),
        pages: (page + 1, last + 1),
        shell,
        query,
    })
}

impl ListQuery {
    fn is_meant(&self, memory: &Memory, tier: Option<&TierAssignment>) -> bool {
        let has_state = match (memory.status, &*self.state) {
            (Status::Live, state) => state != "merged",
            (Status::Merged, state) => state == "merged",
            _ => false,
        };
        let text = || format!("{} {}", memory.id.as_str(), memory.content).to_lowercase();
        has_state
            && (self.tier.is_empty() || tier.is_some_and(|tier| tier.tier.as_str() == self.tier))
            && (self.category.is_empty()
                || memory.categories.iter().any(|category| **category == *self.category))
            && (self.q.trim().is_empty() || {
                let text = text();
                self.q.to_lowercase().split_whitespace().all(|word| text.contains(word))
            })
    }

    fn place(&self, page: usize) -> String {
        let page = page.to_string();
        let pairs = [
            ("q", &*self.q),
            ("category", &self.category),
            ("tier", &self.tier),
            ("state", &self.state),
            ("page", &page),
        ];
        let pairs: Vec<_> = pairs.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        place("/ui/memories", &pairs)
    }
}

impl MemoryLine {
    fn of(memory: &Memory, tier: Option<&TierAssignment>) -> Self {
        let survivor = memory.merged_into.as_ref().map(ToString::to_string);
        Self {
            id: memory.id.to_string(),
            text: text(&memory.content, LINE_CHARS),
            categories: memory.categories.iter().take(6).map(|name| text(name, 60)).collect(),
            tier: tier.map_or("", |tier| tier.tier.as_str()),
            created_at: memory.created_at.instant().map_or_else(String::new, |at| at.to_rfc3339()),
            access_count: memory.access_count,
            survivor,
        }
    }
}

/// A memory in the tree of merged ones.
struct TreeLine {
    depth: usize,
    id: MemoryId,
    text: String,
    about: String,
}

struct EdgeView {
    kind: String,
    other: MemoryId,
    is_outgoing: bool,
    reason: String,
    at: String,
}

#[derive(Template)]
#[template(path = "memory.html")]
struct MemoryPage {
    shell: Shell,
    id: String,
    found: Found,
}

struct Found {
    explained: Explanation,
    whereabouts: String,
    text: Option<String>,
    tree: Vec<TreeLine>,
    edges: Vec<EdgeView>,
    tier: Option<StoredTier>,
}

pub(super) async fn page(
    State(app): State<App>,
    Query(query): Query<MemoryQuery>,
) -> Result<Response, Refused> {
    let (of, id) = (app.clone(), query.id.trim().to_owned());
    let work = move |store: &Arc<ServedStore>| {
        let found = Found::of(store, &id)?;
        Ok(MemoryPage { shell: Shell::of(&of, store, "Memories"), id, found })
    };
    Ok(shown(&app.service.on(query.store.as_deref(), work).await?))
}

impl Found {
    fn of(store: &ServedStore, id: &str) -> Result<Self, Problem> {
        let explained = store.explain(id)?;
        let found = store.db.look_up(&store.load(store.now()), |reader| reader.remembered(id))?;
        let text = found.map(|memory| text(&memory.content, TEXT_CHARS));
        let text = text.or_else(|| explained.memory.as_ref()?.text.clone());
        let mut tree = Vec::new();
        push_branches(&explained.absorbed, 0, &mut tree);
        let memory = MemoryId::new(id);
        let time_zone = store.load(store.now()).time_zone;
        let edges = store.db.edges_of(&memory, time_zone)?.into_iter().take(EDGES_SHOWN);
        Ok(Self {
            whereabouts: explained.resolved.whereabouts.name().to_owned(),
            edges: edges.map(|edge| EdgeView::of(edge, id, time_zone)).collect(),
            tier: store.db.stored_tier(&memory)?,
            tree,
            text,
            explained,
        })
    }
}

impl EdgeView {
    fn of(edge: Edge, id: &str, time_zone: &TimeZone) -> Self {
        let is_outgoing = edge.source.as_str() == id;
        Self {
            kind: edge.edge_type.name().to_owned(),
            other: if is_outgoing { edge.target } else { edge.source },
            is_outgoing,
            reason: text(&edge.reason, 300),
            at: edge.created_at.to_naive_local(time_zone),
        }
    }
}

/// The tree in lines, children below their parent. Its depth is bounded where it is read.
fn push_branches(branches: &Few<Branch>, depth: usize, tree: &mut Vec<TreeLine>) {
    for branch in &branches.shown {
        let fold = &branch.fold;
        let at = fold.at.as_deref().unwrap_or_default();
        let similar = similarity(fold.similarity);
        let similar = if similar.is_empty() { similar } else { format!(" similarity {similar}") };
        tree.push(TreeLine {
            depth,
            id: fold.absorbed.clone(),
            text: branch.text.clone().unwrap_or_default(),
            about: format!("{}{similar}", moment(at)),
        });
        push_branches(&branch.branches, depth + 1, tree);
    }
}

//! Conflicts, and single memories: their status and their sources.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use askama::Template;
use jiff::tz::TimeZone;
use memfold::settle::Settlement;
use memfold_core::lifecycle::{Edge, Tier, TierAssignment};
use memfold_core::lineage::{Branch, Explanation};
use memfold_core::memory::{Memory, MemoryId, Status};
use memfold_core::report::{Piece, PieceKind, word_diff};
use memfold_guard::text::excerpt;
use memfold_store::brain_db::{OpenPair, StoredTier};
use serde::Deserialize;

use super::shell::{Fields, Id, Page, Shell, place};
use crate::http::{On, Query};
use crate::service::{Problem, ServedStore};

/// Pairs on a page.
const PAIRS_SHOWN: usize = 50;
/// Characters of the text of a pair.
const PAIR_CHARS: usize = 2_000;
/// Characters of a memory on its own page: all that a store is likely to hold.
const TEXT_CHARS: usize = 100_000;
/// Edges that are displayed.
const EDGES_SHOWN: usize = 100;

struct PairView {
    pair: OpenPair,
    /// Which of the two is newer, where that is known.
    newer: Option<usize>,
    /// Each text, with the words marked that the other one does not have.
    pieces: [Vec<Piece>; 2],
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
pub(super) async fn conflicts(on: On) -> Page {
    on.page("Conflicts", |store, shell| {
        let pairs = store.flags()?;
        let more = pairs.len().saturating_sub(PAIRS_SHOWN);
        let pairs = pairs.into_iter().take(PAIRS_SHOWN);
        let pairs = pairs.map(|pair| PairView::of(pair, &store.time_zone)).collect();
        Ok(ConflictsPage { shell, pairs, more, unflagged: store.unflagged()? })
    })
    .await
}

impl PairView {
    fn of(pair: OpenPair, time_zone: &TimeZone) -> Self {
        let text = |side: usize| Some(excerpt(pair.texts[side].as_deref()?, PAIR_CHARS));
        let marked = |side: usize| {
            let own = text(side).unwrap_or_default();
            let other = text(1 - side).unwrap_or_else(|| own.clone());
            let mut pieces = word_diff(&other, &own);
            pieces.retain(|piece| piece.kind != PieceKind::Gone);
            pieces
        };
        Self { newer: pair.newer(time_zone), pieces: [0, 1].map(marked), pair }
    }
}

/// How a person settles a pair.
#[derive(Debug, Deserialize)]
pub(super) struct SettleFields {
    key: String,
    settlement: Settlement,
}

pub(super) async fn settle(Fields(on, fields): Fields<SettleFields>) -> Page {
    on.then(move |store, shell| {
        store.settle(&fields.key, fields.settlement)?;
        Ok(shell.to("/ui/conflicts"))
    })
    .await
}

/// Memories on a page.
const MEMORIES_SHOWN: usize = 50;
/// Categories that the list can be filtered by: the most frequent ones.
const CATEGORIES_SHOWN: usize = 100;
/// The filters of the list.
const STATES: [(&str, &str); 2] = [("live", "live"), ("merged", "merged into another")];

/// Which memories to list.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ListQuery {
    /// Words of the text or the id.
    q: String,
    category: String,
    tier: String,
    state: String,
    page: usize,
}

#[derive(Template)]
#[template(path = "memories.html")]
struct MemoriesPage {
    shell: Shell,
    query: ListQuery,
    /// Memories and their tiers.
    rows: Vec<(Memory, &'static str)>,
    found: usize,
    categories: Vec<(String, usize)>,
    tiers: [&'static str; 4],
    states: [(&'static str, &'static str); 2],
    /// The page, from 0, and the last one.
    pages: (usize, usize),
}

/// The memories of a store, the newest first. Reads all of them.
pub(super) async fn list(on: On, Query(query): Query<ListQuery>) -> Page {
    on.page("Memories", move |store, shell| memories(shell, store, query)).await
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
    categories.sort_by_key(|(_, count)| Reverse(*count));
    categories.truncate(CATEGORIES_SHOWN);
    if query.state.is_empty() {
        query.state = STATES[0].0.to_owned();
    }
    all.retain(|memory| query.is_meant(memory, tiers.get(&memory.id)));
    all.sort_by_key(|memory| (Reverse(memory.created_at.instant()), memory.id.clone()));
    let found = all.len();
    let last = found.saturating_sub(1) / MEMORIES_SHOWN;
    let page = query.page.min(last);
    let listed = all.into_iter().skip(page * MEMORIES_SHOWN).take(MEMORIES_SHOWN);
    let rows = listed.map(|memory| {
        let tier = tiers.get(&memory.id).map_or("", |tier| tier.tier.as_str());
        (memory, tier)
    });
    let (rows, tiers) = (rows.collect(), Tier::ALL.map(Tier::as_str));
    let (states, pages) = (STATES, (page, last));
    Ok(MemoriesPage { shell, query, rows, found, categories, tiers, states, pages })
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
        place("/ui/memories", &pairs)
    }
}

#[derive(Template)]
#[template(path = "memory.html")]
struct MemoryPage {
    shell: Shell,
    id: String,
    explained: Explanation,
    text: Option<String>,
    /// The memories merged into it, with how deep they stand in the tree.
    tree: Vec<(usize, Branch)>,
    edges: Vec<Edge>,
    time_zone: TimeZone,
    tier: Option<StoredTier>,
}

pub(super) async fn page(on: On, Query(Id { id }): Query<Id>) -> Page {
    on.page("Memories", move |store, shell| {
        let id = id.trim().to_owned();
        let mut explained = store.explain(&id)?;
        let found = store.db.look_up(&store.load(store.now()), |reader| reader.remembered(&id))?;
        let text = found.map(|memory| excerpt(&memory.content, TEXT_CHARS));
        let text = text.or_else(|| explained.memory.as_ref()?.text.clone());
        let mut tree = Vec::new();
        push_branches(std::mem::take(&mut explained.merged.shown), 0, &mut tree);
        let memory = MemoryId::new(&*id);
        let time_zone = store.load(store.now()).time_zone.clone();
        let mut edges = store.db.edges_of(&memory, &time_zone)?;
        edges.truncate(EDGES_SHOWN);
        let tier = store.db.stored_tier(&memory)?;
        Ok(MemoryPage { shell, id, explained, text, tree, edges, time_zone, tier })
    })
    .await
}

/// The tree in lines, children below their parent. Its depth is bounded where it is read.
fn push_branches(branches: Vec<Branch>, depth: usize, tree: &mut Vec<(usize, Branch)>) {
    for mut branch in branches {
        let children = std::mem::take(&mut branch.branches.shown);
        tree.push((depth, branch));
        push_branches(children, depth + 1, tree);
    }
}

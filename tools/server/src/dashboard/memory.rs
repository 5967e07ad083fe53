//! Conflicts, and single memories: what became of them and what they are made of.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use jiff::tz::TimeZone;
use memfold_model::lineage::{Branch, Explanation, Few};
use memfold_model::memory::MemoryId;
use memfold_store::brain_db::{Fate, OpenPair, StoredEdge, StoredTier};
use serde::Deserialize;

use super::shell::{Fields, Refused, Shell, moment, shown, similarity, text, then};
use crate::http::{App, Query};
use crate::service::{Problem, ServedStore, SettledAs};

/// Pairs on a page.
const PAIRS_SHOWN: usize = 50;
/// Characters of the text of a pair.
const PAIR_CHARS: usize = 2_000;
/// Characters of a memory on its own page: all that a store is likely to hold.
const TEXT_CHARS: usize = 100_000;
/// Edges that are shown.
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
        let side = |side: usize| SideView {
            id: pair.ids[side].clone(),
            created_at: pair.created_at[side].clone().unwrap_or_default(),
            text: pair.texts[side].as_deref().map(|words| text(words, PAIR_CHARS)),
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

/// A memory in the tree of those that were merged.
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
    /// Nothing where no memory was asked for.
    found: Option<Found>,
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
        let found = if id.is_empty() { None } else { Some(Found::of(store, &id)?) };
        Ok(MemoryPage { shell: Shell::of(&of, store, "Memory"), id, found })
    };
    Ok(shown(&app.service.on(query.store.as_deref(), work).await?))
}

impl Found {
    fn of(store: &ServedStore, id: &str) -> Result<Self, Problem> {
        let explained = store.explain(id)?;
        let fate = store.db.look_up(&store.load(store.now()), |reader| reader.fate(id))?;
        let whole = match &fate {
            Fate::Live(memory) | Fate::Archived { memory } => Some(&memory.content),
            Fate::Folded { content, .. } => Some(content),
            Fate::Other => None,
        };
        let text = whole.map(|content| text(content, TEXT_CHARS));
        let text = text.or_else(|| explained.memory.as_ref()?.text.clone());
        let mut tree = Vec::new();
        push_branches(&explained.absorbed, 0, &mut tree);
        let memory = MemoryId::new(id);
        let edges = store.db.edges_of(&memory)?;
        Ok(Self {
            whereabouts: format!("{:?}", explained.resolved.whereabouts).to_lowercase(),
            edges: edges.iter().take(EDGES_SHOWN).map(|edge| EdgeView::of(edge, id)).collect(),
            tier: store.db.stored_tier(&memory)?,
            tree,
            text,
            explained,
        })
    }
}

impl EdgeView {
    fn of(edge: &StoredEdge, id: &str) -> Self {
        let is_outgoing = edge.source.as_str() == id;
        Self {
            kind: edge.kind.clone(),
            other: if is_outgoing { edge.target.clone() } else { edge.source.clone() },
            is_outgoing,
            reason: text(edge.reason.as_deref().unwrap_or_default(), 300),
            at: edge.at.clone(),
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

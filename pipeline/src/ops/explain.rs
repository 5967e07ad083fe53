//! What is known of one memory: its status, lineage, tier and edges.

use std::collections::BTreeMap;
use std::path::Path;

use memfold_core::lifecycle::{Edge, TierAssignment, TreeLine, tree};
use memfold_core::lineage::Explanation;
use memfold_core::memory::{MemoryId, Status};
use memfold_guard::text::excerpt;
use memfold_guard::{Judgement, Side};
use memfold_index::NoProgress;
use memfold_store::LoadRequest;
use serde::Serialize;

use super::{Failure, Settings, open_store};
use crate::lifecycle::{EdgeMap, Tiers};
use crate::machine;

/// Characters of an id in a message.
const ID_CHARS: usize = 80;
/// Characters of a text.
const TEXT_CHARS: usize = 200;

/// A memory, explained.
#[derive(Debug)]
pub struct Explained {
    /// Its status and lineage.
    pub explanation: Explanation,
    /// Its tier; `None` where it is not live.
    pub tier: Option<TierAssignment>,
    /// The memories and edges of the store; `None` where no edges were requested.
    pub map: Option<EdgeMap>,
    depth: u32,
}

/// `memfold explain STORE ID --json`
#[derive(Debug, Serialize)]
pub struct ExplainDocument<'a> {
    schema_version: u32,
    /// The id under which it lives on; `null` where it does not.
    live_id: Option<&'a MemoryId>,
    #[serde(flatten)]
    explanation: &'a Explanation,
    /// How alive it is; `null` where it is not live.
    tier: Option<&'a TierAssignment>,
    /// The edges around it; `null` where none were requested.
    edges: Option<EdgesDocument<'a>>,
}

/// `memfold explain --texts --json`
#[derive(Debug, Serialize)]
pub struct TextsDocument {
    schema_version: u32,
    /// How the fact guard judges the two.
    #[serde(flatten)]
    pub judgement: Judgement,
    /// Whether the older one could be merged into the newer one.
    pub mergeable: bool,
}

/// The tree of edges around a memory.
#[derive(Debug, Serialize)]
struct EdgesDocument<'a> {
    depth: u32,
    /// Edges that the depth hides.
    hidden: u64,
    /// The edges, in the order of the tree.
    edges: Vec<&'a Edge>,
    /// The memories of the tree, by id.
    memories: Vec<TreeMemoryDocument<'a>>,
}

/// A memory of the tree.
#[derive(Debug, Serialize)]
struct TreeMemoryDocument<'a> {
    id: &'a MemoryId,
    /// Whether it is live; `null` where the store does not hold it any more.
    is_live: Option<bool>,
    /// The beginning of its text, escaped; `null` where the store does not hold it any more.
    text: Option<String>,
}

/// Explains a memory with the edges up to `depth` steps from it; 0 reads no edges.
///
/// # Errors
/// When the store does not know it, or cannot be read.
pub fn explain(db: &Path, settings: &Settings, id: &str, depth: u32) -> Result<Explained, Failure> {
    let store = open_store(db, settings)?;
    let (time_zone, now, id) = (settings.time_zone()?, machine::clock(), MemoryId::new(id));
    let explanation = store
        .explain_memory(&id, &time_zone, now)
        .map_err(|error| Failure::of("read what is known of the memory", &error))?;
    let status = explanation.resolved.status;
    if status == Status::Unknown {
        let message = format!("{} is not in this store", excerpt(id.as_str(), ID_CHARS));
        return Err(Failure::plain(message, "check the id and the store"));
    }
    let load = LoadRequest { time_zone: &time_zone, now, progress: &NoProgress };
    let unread = |error| Failure::of("read the memories", &error);
    let map = (depth > 0).then(|| EdgeMap::of(&store, &load)).transpose().map_err(unread)?;
    let tier = match status {
        Status::Live => {
            let tiers = Tiers::of(&store, &load, &settings.configuration);
            tiers.map_err(unread)?.assignments.remove(&id)
        }
        _ => None,
    };
    Ok(Explained { explanation, tier, map, depth })
}

/// Judges two texts.
///
/// # Errors
/// When the user's lexicon is not valid.
pub fn compare_texts(
    settings: &Settings,
    older: &str,
    newer: &str,
) -> Result<TextsDocument, Failure> {
    let guard = settings.guard()?;
    let judgement = guard.judge(&guard.read(older), &guard.read(newer));
    let mergeable = judgement.says_all(Side::Right);
    Ok(TextsDocument { schema_version: 1, judgement, mergeable })
}

impl Explained {
    /// Returns the edges as a tree around the memory; empty where none were requested.
    #[must_use]
    pub fn tree(&self) -> Vec<TreeLine<'_>> {
        let id = &self.explanation.resolved.id;
        self.map.as_ref().map_or_else(Vec::new, |map| tree(&map.edges, id, self.depth))
    }

    /// Returns it as a document.
    #[must_use]
    pub fn document(&self) -> ExplainDocument<'_> {
        ExplainDocument {
            schema_version: 1,
            live_id: self.explanation.resolved.live_id(),
            explanation: &self.explanation,
            tier: self.tier.as_ref(),
            edges: self.map.as_ref().map(|map| EdgesDocument::of(map, &self.tree(), self.depth)),
        }
    }
}

impl<'a> EdgesDocument<'a> {
    fn of(map: &'a EdgeMap, lines: &[TreeLine<'a>], depth: u32) -> Self {
        let entry = |id: &'a MemoryId| {
            let memory = map.memories.get(id);
            TreeMemoryDocument {
                id,
                is_live: memory.map(|memory| memory.status == Status::Live),
                text: memory.map(|memory| excerpt(&memory.content, TEXT_CHARS)),
            }
        };
        let memories: BTreeMap<&MemoryId, TreeMemoryDocument<'a>> =
            lines.iter().map(|line| (line.id, entry(line.id))).collect();
        Self {
            depth,
            hidden: lines.iter().map(|line| line.hidden_count as u64).sum(),
            edges: lines.iter().filter_map(|line| line.edge).collect(),
            memories: memories.into_values().collect(),
        }
    }
}

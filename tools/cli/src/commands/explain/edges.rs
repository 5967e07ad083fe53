//! The edges of a memory as a tree: the memories that supersede, consolidate and reference it, and
//! the other way round.

use std::collections::BTreeMap;

use console::measure_text_width;
use memfold::lifecycle::EdgeMap;
use memfold_core::lifecycle::{Edge, TreeLine};
use memfold_core::memory::{Memory, MemoryId, Status};
use memfold_guard::text::excerpt;
use serde::Serialize;

use crate::printer::{COLUMNS, line};

/// Characters of a text in JSON.
const TEXT_CHARS: usize = 200;
/// A text of fewer columns says nothing.
const TEXT_COLUMNS_MIN: usize = 12;
/// The tree of edges around a memory.
#[derive(Debug, Serialize)]
pub(super) struct EdgesDocument<'a> {
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
pub(super) struct TreeMemoryDocument<'a> {
    id: &'a MemoryId,
    /// Whether it is live; `null` where the store does not hold it any more.
    is_live: Option<bool>,
    /// The beginning of its text, escaped; `null` where the store does not hold it any more.
    text: Option<String>,
}

/// The tree as a document.
pub(super) fn document<'a>(
    map: &'a EdgeMap,
    lines: &[TreeLine<'a>],
    depth: u32,
) -> EdgesDocument<'a> {
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
    EdgesDocument {
        depth,
        hidden: lines.iter().map(|line| line.hidden_count as u64).sum(),
        edges: lines.iter().filter_map(|line| line.edge).collect(),
        memories: memories.into_values().collect(),
    }
}

/// The tree in lines; nothing where no edge begins or ends at the memory.
pub(super) fn screen(map: &EdgeMap, lines: &[TreeLine<'_>]) -> String {
    if let [only] = lines
        && only.hidden_count == 0
    {
        return String::new();
    }
    let mut text = "\nedges\n".to_owned();
    for at in lines {
        let memory = map.memories.get(at.id).filter(|_| !at.is_repeated);
        text.push_str(&with_text(&at.to_string(), memory));
        text.push('\n');
    }
    text
}

/// Puts the beginning of a text behind a line, as far as it fits into the columns of a screen.
fn with_text(tree_line: &str, memory: Option<&Memory>) -> String {
    let used = measure_text_width(tree_line);
    match memory {
        Some(memory) if used + TEXT_COLUMNS_MIN <= COLUMNS => {
            let mark = if memory.status == Status::Live { "" } else { "(not live) " };
            line(&format!("{tree_line}  {mark}{}", excerpt(&memory.content, COLUMNS)))
        }
        _ => tree_line.to_owned(),
    }
}

//! `memfold edges`: what supersedes, consolidates and references a memory, and the other way round.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{self, Args};
use console::measure_text_width;
use memfold::lifecycle::EdgeMap;
use memfold::machine;
use memfold_index::NoProgress;
use memfold_lifecycle::{Edge, TREE_DEPTH_MAX, TreeLine, dot, tree};
use memfold_model::memory::{Memory, MemoryId, Standing};
use memfold_model::text::excerpt;
use memfold_store::LoadRequest;
use serde::Serialize;

use crate::args::GlobalArgs;
use crate::commands::tiers::unread;
use crate::context::open_store;
use crate::failure::{Exit, Failure};
use crate::printer::{COLUMNS, Printer, documents, line};
use crate::settings::Settings;

/// Characters of an id in messages.
const ID_CHARS: usize = 80;
/// Characters of a text in JSON.
const TEXT_CHARS: usize = 200;
/// A text of fewer columns says nothing.
const TEXT_COLUMNS_MIN: usize = 12;
/// Edges from the memory on that are shown unless told otherwise.
const DEPTH: u32 = 3;

documents! { "edges" => EdgesDocument<'_> }

/// `memfold edges`
#[derive(Debug, Args)]
pub(crate) struct EdgesArgs {
    /// The store: a brain.db, or one of another kind (memory.jsonl, …)
    pub(crate) db: PathBuf,
    /// The memory's id
    pub(crate) id: String,
    /// Follow so many edges from the memory on, at most 64
    #[arg(long, value_name = "N", default_value_t = DEPTH,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(TREE_DEPTH_MAX)))]
    pub(crate) depth: u32,
    /// Print a digraph in Graphviz's DOT instead of a tree
    #[arg(long, conflicts_with = "json")]
    pub(crate) dot: bool,
}

/// `memfold edges --json`
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct EdgesDocument<'a> {
    schema_version: u32,
    id: &'a MemoryId,
    depth: u32,
    /// Edges that the depth hides.
    hidden: u64,
    /// The edges, in the order of the tree.
    edges: Vec<&'a Edge>,
    /// The memories of the tree, by id.
    memories: Vec<MemoryDocument<'a>>,
}

/// A memory of the tree.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MemoryDocument<'a> {
    id: &'a MemoryId,
    /// Whether it is live; `null` where the store does not hold it any more.
    is_live: Option<bool>,
    /// The beginning of its text, escaped; `null` where the store does not hold it any more.
    text: Option<String>,
}

pub(crate) fn run(
    global: &GlobalArgs,
    args: &EdgesArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let settings = Settings::load(global, Some(&args.db), &[])?;
    settings.show_notices(printer);
    let store = open_store(&args.db, &settings)?;
    let time_zone = settings.time_zone()?;
    let load = LoadRequest { time_zone: &time_zone, now: machine::clock(), progress: &NoProgress };
    let map = EdgeMap::of(&store, &load).map_err(|error| unread(&error))?;
    let root = MemoryId::new(&*args.id);
    if !map.knows(&root) {
        let message = format!("{} is not in this store", excerpt(&args.id, ID_CHARS));
        return Err(Failure::plain(message, "check the id and the store"));
    }
    let lines = tree(&map.edges, &root, args.depth);
    if global.json {
        printer.document(&document(&map, &lines, args.depth))?;
    } else if args.dot {
        let edges: Vec<Edge> = lines.iter().filter_map(|line| line.edge.cloned()).collect();
        printer.data(&dot(&edges))?;
    } else {
        printer.data(&screen(&map, &lines))?;
    }
    Ok(Exit::Done)
}

fn document<'a>(map: &'a EdgeMap, lines: &[TreeLine<'a>], depth: u32) -> EdgesDocument<'a> {
    let entry = |id: &'a MemoryId| {
        let memory = map.memories.get(id);
        MemoryDocument {
            id,
            is_live: memory.map(|memory| memory.standing == Standing::Live),
            text: memory.map(|memory| excerpt(&memory.content, TEXT_CHARS)),
        }
    };
    let memories: BTreeMap<&MemoryId, MemoryDocument<'a>> =
        lines.iter().map(|line| (line.id, entry(line.id))).collect();
    EdgesDocument {
        schema_version: 1,
        id: lines[0].id,
        depth,
        hidden: lines.iter().map(|line| line.hidden_count as u64).sum(),
        edges: lines.iter().filter_map(|line| line.edge).collect(),
        memories: memories.into_values().collect(),
    }
}

fn screen(map: &EdgeMap, lines: &[TreeLine<'_>]) -> String {
    let mut text = String::new();
    for at in lines {
        let memory = map.memories.get(at.id).filter(|_| !at.is_repeated);
        text.push_str(&with_text(&at.to_string(), memory));
        text.push('\n');
    }
    if let [only] = lines
        && only.hidden_count == 0
    {
        text.push_str("no edge begins or ends here\n");
    }
    text
}

/// Puts the beginning of a text behind a line, as far as it fits into the columns of a screen.
fn with_text(tree_line: &str, memory: Option<&Memory>) -> String {
    let used = measure_text_width(tree_line);
    match memory {
        Some(memory) if used + TEXT_COLUMNS_MIN <= COLUMNS => {
            let mark = if memory.standing == Standing::Live { "" } else { "(not live) " };
            line(&format!("{tree_line}  {mark}{}", excerpt(&memory.content, COLUMNS)))
        }
        _ => tree_line.to_owned(),
    }
}

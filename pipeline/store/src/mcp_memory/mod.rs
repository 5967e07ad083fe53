//! `memory.jsonl`, the knowledge graph of the MCP reference memory server: entities with observations, and relations.
//!
//! Each observation is a memory. Its category is the entity's type, its attribute `entity` the entity's name; memories of
//! two entities are never merged into one. Relations are between entities, not memories, and are left alone.
//!
//! **Ids.** `entity#` and 12 hex digits of a hash of entity and text; the second and later ones of one text get `#2`, `#3`.
//! A position would change whenever an earlier observation goes, and with it the identity of all behind it. Observations
//! are not edited by the server, only added and deleted, so that a text is an identity.
//!
//! **Writing.** The server reads the whole file for each request and writes it whole, without a lock. memfold replaces it by
//! a rename, after a look whether it is still what was read. Lines and fields that do not change stay byte for byte. What is
//! taken out goes to `memory.memfold-archive.jsonl` first; a restored observation returns to its position.

mod archive;
mod lines;
mod file;
mod graph;

use std::path::{Path, PathBuf};

use self::file::Files;
use self::graph::Graph;
use self::lines::Line;
use crate::origin::{Origin, OriginConflict, OriginContents, OriginError, OriginUnit, Published};

/// The kind, as `--store-kind` spells it.
pub const KIND: &str = "mcp_memory";
/// Lines that are looked at to recognise a file.
const LINES_LOOKED_AT: usize = 20;
/// Bytes that are read for that.
const BYTES_LOOKED_AT: usize = 1 << 16;
/// Endings of the file's name.
const ENDINGS: [&str; 3] = ["jsonl", "json", "ndjson"];

/// The file of the MCP memory server.
#[derive(Debug)]
pub struct McpMemory {
    path: PathBuf,
}

/// Tells whether a file looks like that of the server: one of its first lines is an entity or a relation.
#[must_use]
pub fn is_one(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    if !ending.is_some_and(|ending| ENDINGS.contains(&ending)) || !path.is_file() {
        return false;
    }
    let head = file::head(path, BYTES_LOOKED_AT);
    let head = String::from_utf8_lossy(&head);
    let mut lines = head.lines().filter(|line| !line.trim().is_empty()).take(LINES_LOOKED_AT);
    lines.any(|line| match Line::read(line) {
        Line::Entity(_) => true,
        Line::Other => is_relation(line),
        Line::Bad(_) => false,
    })
}

fn is_relation(line: &str) -> bool {
    let value: Option<serde_json::Value> = serde_json::from_str(line.trim()).ok();
    value.is_some_and(|value| {
        ["from", "to", "relationType"].iter().all(|key| value[key].is_string())
    })
}

impl McpMemory {
    /// Opens the file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(path: &Path) -> Result<Self, OriginError> {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        Files::read(&path)?;
        Ok(Self { path })
    }

    fn graph(&self) -> Result<(Files, Graph), OriginError> {
        let files = Files::read(&self.path)?;
        let graph = Graph::of(&files.memory, &files.archive);
        Ok((files, graph))
    }
}

impl Origin for McpMemory {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn read(&self) -> Result<OriginContents, OriginError> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(self.graph()?.1.contents(&name))
    }

    fn write(&self, units: &[OriginUnit]) -> Result<Published, OriginError> {
        let _lock = file::lock(&self.path)?;
        let (files, before) = self.graph()?;
        let mut graph = before.clone();
        let mut published = Published::default();
        for (at, unit) in units.iter().enumerate() {
            match unit.changes.iter().try_for_each(|change| graph.check(change)) {
                Ok(()) => {
                    unit.changes.iter().for_each(|change| graph.carry_out(change, unit));
                    published.units.push(at);
                }
                Err((id, reason)) => {
                    published.conflicts.push(OriginConflict { unit: at, id, reason });
                }
            }
        }
        files.replace(&self.path, &graph, &before)?;
        Ok(published)
    }

    fn separate_by(&self) -> &'static [&'static str] {
        &["entity:*"]
    }

    fn advice(&self, _contents: &OriginContents) -> Vec<String> {
        self.graph().map(|(_, graph)| graph.twins()).unwrap_or_default()
    }
}

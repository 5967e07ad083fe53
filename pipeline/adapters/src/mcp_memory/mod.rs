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
//! a rename, after a look whether it is still the same. Lines and fields that do not change stay byte for byte. Removed
//! observations go to `memory.memfold-archive.jsonl` first; a restored observation returns to its position.

mod lines;
mod graph;
mod served;

use std::path::{Path, PathBuf};

use self::graph::{Files, Graph};
pub use self::lines::Relation;
use self::lines::{Line, Pieces};
pub use self::served::{AddedObservations, Entity, GraphError, GraphFile, Nodes, Observations};
use crate::shared::{advice_on, note, remove_leftovers};
use memfold_store::origin::{Origin, OriginContents, OriginError, OriginUnit, Published};

/// The kind, as `--store-kind` spells it.
pub(crate) const KIND: &str = "mcp_memory";
/// Lines that are looked at to recognise a file.
const LINES_LOOKED_AT: usize = 20;
/// Bytes that are read for that.
const BYTES_LOOKED_AT: usize = 1 << 16;
/// Endings of the file's name.
const ENDINGS: [&str; 3] = ["jsonl", "json", "ndjson"];

/// The file of the MCP memory server.
pub(crate) struct McpMemory {
    path: PathBuf,
}

/// Tells whether a file looks like that of the server: one of its first lines is an entity or a relation.
pub(crate) fn is_one(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    if !ending.is_some_and(|ending| ENDINGS.contains(&ending)) || !path.is_file() {
        return false;
    }
    let head = match graph::head(path, BYTES_LOOKED_AT) {
        // Another program may be about to write it.
        head if head.is_empty() => match graph::settled(path) {
            Ok((_, bytes)) if bytes.is_empty() => return is_named_so(path),
            Ok((_, mut bytes)) => {
                bytes.truncate(BYTES_LOOKED_AT);
                bytes
            }
            Err(_) => return false,
        },
        head => head,
    };
    let is_cut = head.len() == BYTES_LOOKED_AT;
    let pieces = Pieces::of(&head);
    if pieces.is_document() {
        let mut members = (0..pieces.parts.len()).filter(|part| pieces.is_read(*part));
        return members.any(|part| is_of_graph(&String::from_utf8_lossy(pieces.parts[part])));
    }
    let head = String::from_utf8_lossy(&head);
    let has = |word: &str| head.contains(word);
    // A document, or an entity, may be longer than the part that was read.
    let begins_document =
        head.trim_start().starts_with(['[', '{']) && (has("\"entityType\"") || has("\"entity\""));
    if is_cut && begins_document && has("\"observations\"") {
        return true;
    }
    let mut lines = head.lines().filter(|line| !line.trim().is_empty()).take(LINES_LOOKED_AT);
    lines.any(is_of_graph)
}

fn is_of_graph(line: &str) -> bool {
    matches!(Line::read(line), Line::Entity(_) | Line::Relation(_))
}

/// An empty file is known by its name, or by the archive beside it.
fn is_named_so(path: &Path) -> bool {
    path.file_stem().is_some_and(|stem| stem == "memory") || graph::archive_path(path).exists()
}

impl McpMemory {
    /// Opens the file.
    pub(crate) fn open(path: &Path) -> Result<Self, OriginError> {
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
        let _lock = graph::lock(&self.path)?;
        remove_leftovers(&graph::leftovers(&self.path))?;
        let (files, before) = self.graph()?;
        let mut graph = before.clone();
        let mut published = Published::default();
        for (at, unit) in units.iter().enumerate() {
            let checked = unit.changes.iter().try_for_each(|change| graph.check(change));
            if checked.is_ok() {
                unit.changes.iter().for_each(|change| graph.carry_out(change, unit));
            }
            note(&mut published, at, checked);
        }
        files.replace(&self.path, &graph, &before)?;
        Ok(published)
    }

    fn separate_by(&self) -> &'static [&'static str] {
        &["entity:*"]
    }

    fn advice(&self) -> Vec<String> {
        let twins = self.graph().map(|(_, graph)| graph.twins()).unwrap_or_default();
        twins
            .into_iter()
            .chain(graph::leftovers(&self.path).iter().map(|path| advice_on(path)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{create, restore, retire, undo, unit, update};
    use memfold_store::origin::{OriginChange, OriginRecord, OriginStatus};

    const MEMORY: &str = concat!(
        "{\"type\":\"entity\",\"name\":\"A\",\"entityType\":\"t\",\"observations\":[\"a\",\"b\",\"a\",\"\\u00e9\",\"c\"]}\n",
        "{\"type\": \"entity\", \"name\": \"B\", \"observations\": [\"a\", \"d\"]}\r\n",
        "{\"type\":\"entity\",\"name\":\"A\",\"observations\":[\"a\"]}",
    );

    fn made(text: &str) -> (tempfile::TempDir, PathBuf, McpMemory) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory.jsonl");
        std::fs::write(&path, text).unwrap();
        let memory = McpMemory::open(&path).unwrap();
        (folder, path, memory)
    }

    fn records(memory: &McpMemory) -> Vec<OriginRecord> {
        memory.read().unwrap().records
    }

    #[test]
    fn a_file_is_recognised_by_its_lines() {
        for (text, expected) in [
            (MEMORY, true),
            ("{\"type\":\"relation\",\"from\":\"A\",\"to\":\"B\",\"relationType\":\"r\"}", true),
            ("{\"text\":\"a memory\"}\n", false),
            ("", true),
            (
                &format!(
                    "{{\"type\":\"entity\",\"name\":\"A\",\"observations\":[\"{}\"]}}",
                    "x".repeat(70_000)
                ),
                true,
            ),
        ] {
            assert_eq!(is_one(&made(text).1), expected, "{text}");
        }
    }

    #[test]
    fn ids_stay_when_others_go() {
        let (_folder, _, memory) = made(MEMORY);
        let before = records(&memory);
        assert_eq!(before.len(), 8);
        let published = memory.write(&[unit(vec![retire(&before[0], Some(&before[2].id))])]);
        assert_eq!(published.unwrap().units, [0]);
        let after = records(&memory);
        let ids = |records: &[OriginRecord]| -> std::collections::BTreeSet<String> {
            records.iter().map(|record| record.id.clone()).collect()
        };
        assert_eq!(ids(&before), ids(&after));
        let retired = after.iter().find(|record| record.id == before[0].id).unwrap();
        assert_eq!(retired.status, OriginStatus::Merged { into: before[2].id.clone() });
        assert_eq!(retired.digest(), before[0].digest());
    }

    #[test]
    fn what_is_written_is_passed_over() {
        let (_folder, path, memory) = made(MEMORY);
        let before = records(&memory);
        let record = OriginRecord {
            id: "new".into(),
            text: "e".into(),
            attributes: vec![("entity".into(), "B".into())],
            ..OriginRecord::default()
        };
        let create = OriginChange::Create { record: Box::new(record), made_of: Vec::new() };
        let units = [unit(vec![create, retire(&before[1], None)])];
        memory.write(&units).unwrap();
        let written = std::fs::read(&path).unwrap();
        assert_eq!(memory.write(&units).unwrap().units, [0]);
        assert_eq!(std::fs::read(&path).unwrap(), written);
        assert!(records(&memory).iter().any(|record| record.id == "new" && record.text == "e"));
        let back = [unit(vec![
            restore(&before[1]),
            OriginChange::Remove { before: None, id: "new".into() },
        ])];
        memory.write(&back).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), MEMORY);
        assert!(!graph::archive_path(&path).exists());
    }

    #[test]
    fn a_unit_of_something_that_is_gone_is_left_alone() {
        let (_folder, path, memory) = made(MEMORY);
        let before = records(&memory);
        std::fs::write(&path, MEMORY.replace("\"b\",", "")).unwrap();
        let conflicting = unit(vec![retire(&before[0], None), retire(&before[1], None)]);
        let other = unit(vec![retire(&before[4], None)]);
        let published = memory.write(&[conflicting, other]).unwrap();
        assert_eq!((published.units, published.conflicts.len()), (vec![1], 1));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("[\"a\",\"a\",\"\\u00e9\"]"), "{text}");
    }

    /// 20,000 equal observations of one entity took minutes: each change wrote the whole line anew.
    #[test]
    fn many_observations_leave_and_return() {
        let count = 20_000;
        let text = format!(
            "{{\"type\":\"entity\",\"name\":\"A\",\"observations\":[{}]}}\n",
            vec!["\"the same\""; count].join(",")
        );
        let (_folder, path, memory) = made(&text);
        let before = records(&memory);
        assert_eq!((before.len(), before[1].id.as_str()), (count, &*format!("{}#2", before[0].id)));
        let changes = before[1..].iter().map(|record| retire(record, Some(&before[0].id)));
        memory.write(&[unit(changes.collect())]).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().ends_with("[\"the same\"]}\n"));
        let back = before[1..].iter().rev().map(restore);
        memory.write(&[unit(back.collect())]).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }

    /// A program that writes the file anew empties it first.
    #[test]
    fn an_empty_file_is_waited_for_and_then_written() {
        let (_folder, path, memory) = made(MEMORY);
        std::fs::write(&path, "").unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(50));
                std::fs::write(&path, MEMORY).unwrap();
            });
            assert_eq!(records(&memory).len(), 8);
        });
        std::fs::write(&path, "").unwrap();
        assert!(is_one(&path) && records(&memory).is_empty());
        memory.write(&[unit(vec![create("n", "e")])]).unwrap();
        assert_eq!(records(&memory).len(), 1);
    }

    /// A killed process leaves the whole text under a temporary name.
    #[test]
    fn what_a_killed_process_left_is_named_and_removed() {
        let (folder, path, memory) = made(MEMORY);
        let left = folder.path().join(".memfold-abc123-memory.jsonl.tmp");
        let other = folder.path().join(".memfold-abc123-other.jsonl.tmp");
        for path in [&left, &other] {
            std::fs::write(path, MEMORY).unwrap();
        }
        let advice = memory.advice();
        assert!(advice.iter().any(|text| text.contains(".memfold-abc123-memory")), "{advice:?}");
        memory.write(&[]).unwrap();
        assert!(path.exists() && other.exists() && !left.exists());
    }

    /// An undo of a text written anew left the new text, and every undo wrote over changes of others.
    #[test]
    fn an_undo_gives_texts_back_and_leaves_what_others_changed() {
        let (_folder, path, memory) = made(MEMORY);
        let before = records(&memory);
        let other = OriginRecord { text: "another".into(), ..before[3].clone() };
        let update = update(&before[3], other, &[]);
        memory.write(&[unit(vec![update]), unit(vec![retire(&before[1], None)])]).unwrap();
        let now = crate::testing::records(&memory);
        let units = [3, 1].map(|at| unit(undo(&now, &[&before[at]], &[])));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("\"another\""), "{text}");
        std::fs::write(&path, text.replace("\"entityType\":\"t\"", "\"entityType\":\"u\""))
            .unwrap();
        let published = memory.write(&units[..1]).unwrap();
        assert_eq!((published.units.len(), published.conflicts.len()), (0, 1));
        assert!(std::fs::read_to_string(&path).unwrap().contains("\"another\""));
        std::fs::write(&path, text).unwrap();
        assert_eq!(memory.write(&units).unwrap().units, [0, 1]);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), MEMORY);
        assert!(!graph::archive_path(&path).exists());
    }

    #[test]
    fn entities_of_one_name_are_named() {
        let (_folder, _, memory) = made(&MEMORY.replace("\"B\"", "\"a\""));
        let advice = memory.advice();
        assert!(advice.iter().any(|text| text.contains("stands on 2 lines")), "{advice:?}");
    }

    proptest! {
        // Each write is synced to the disk.
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Observations are retired and come back in any order: the bytes are as before.
        #[test]
        fn everything_returns_to_its_place(
            order in Just((0..8_usize).collect::<Vec<_>>()).prop_shuffle(),
            back in Just((0..8_usize).collect::<Vec<_>>()).prop_shuffle(),
            count in 1..8_usize,
        ) {
            let (_folder, path, memory) = made(MEMORY);
            let before = records(&memory);
            let gone = &order[..count];
            for at in gone {
                memory.write(&[unit(vec![retire(&before[*at], None)])]).unwrap();
            }
            let live = records(&memory).into_iter().filter(|r| r.status == OriginStatus::Live);
            prop_assert_eq!(live.count(), 8 - count);
            for at in back.iter().filter(|at| gone.contains(at)) {
                memory.write(&[unit(vec![restore(&before[*at])])]).unwrap();
            }
            prop_assert_eq!(std::fs::read_to_string(&path).unwrap(), MEMORY);
        }
    }
}

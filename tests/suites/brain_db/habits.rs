//! A store with every habit loads completely, and every row that is left out has its reason.

use std::collections::{BTreeMap, BTreeSet};

use super::{by_id, load, plain_store, write_wild};
use memfold_core::memory::{Memory, Status};
use memfold_core::{SkipReason, Snapshot};
use memfold_store::VecSink;

fn wild_store(count: u64) -> (Snapshot, VecSink, BTreeMap<SkipReason, u64>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("brain.db");
    let written = write_wild(&path, count);
    let (snapshot, sink) = load(&path);
    assert_eq!(snapshot.rows_total, written.rows_total);
    (snapshot, sink, written.left_out)
}

#[test]
fn every_reason_is_counted_exactly() {
    let (snapshot, _, left_out) = wild_store(200);
    assert_eq!(snapshot.skipped, left_out);
    let explained: BTreeSet<_> = snapshot.skip_examples.keys().collect();
    assert_eq!(explained, left_out.keys().collect());
    // All reasons except the ones that the owner's keys and the scope of a run exclude.
    assert_eq!(left_out.len(), 16, "{left_out:?}");
    let lacking: u64 =
        left_out.iter().filter(|(reason, _)| reason.leaves_out_vector()).map(|(_, n)| n).sum();
    assert_eq!(snapshot.live_count(), snapshot.with_vector_count() + lacking);
}

#[test]
fn other_spellings_mean_the_same() {
    let (_folder, path) = plain_store(200);
    let (plain, plain_sink) = load(&path);
    let (wild, wild_sink, _) = wild_store(200);
    let wild = by_id(&wild);
    let mut compared = 0;
    for expected in &plain.memories {
        let found = wild[expected.id.as_str()];
        // The time of the plain store has no fraction, so neither is the digest the same; and it does not say when a
        // memory was read.
        let found = Memory {
            base_digest: expected.base_digest,
            last_accessed: expected.last_accessed,
            ..found.clone()
        };
        if let (Some((space, row)), Some((wild_space, wild_row))) =
            (expected.embedding.vector(), found.embedding.vector())
        {
            assert_eq!(plain_sink.vector(space, row), wild_sink.vector(wild_space, wild_row));
            compared += 1;
        }
        assert_eq!(Memory { embedding: expected.embedding, ..found }, *expected);
    }
    assert_eq!(compared, 199);
}

#[test]
fn merged_rows_name_their_survivor_and_roots_are_unwrapped() {
    let (snapshot, _, _) = wild_store(3);
    let memories = by_id(&snapshot);
    for merged_row in ["wild_ghost_1", "wild_ghost_2", "wild_ghost_3"] {
        let Some(survivor) = &memories[merged_row].merged_into else { panic!("{merged_row}") };
        assert_eq!(survivor.as_str(), "wild_survivor");
        assert!(memories[merged_row].embedding.vector().is_some());
    }
    assert_eq!(&*memories["wild_ghost_2"].root_source, "manual");
    assert_eq!(&*memories["wild_survivor"].root_source, "user");
    assert_eq!(memories["wild_survivor"].status, Status::Live);
    let merged: Vec<_> = snapshot.decisions.merged_into.keys().map(|id| id.as_str()).collect();
    assert_eq!(merged, ["wild_ghost_1", "wild_ghost_2", "wild_ghost_3", "wild_gone"]);
}

//! A kill between two refs, and writers beside us.

use super::fixture::{Notes, Repo, id, merge, note, restore, sha, summarize, write_notes};
use crate::git_notes::write::write;
use memfold_store::origin::{
    Origin as _, OriginChange, OriginError, OriginRecord, OriginStanding, OriginUnit,
};
use proptest::prelude::*;

fn repository() -> (Repo, Vec<String>) {
    let repo = Repo::new();
    let mut ids = Vec::new();
    for (at, namespace) in ["decisions", "learnings", "patterns"].iter().enumerate() {
        let commits = [sha(2 * at), sha(2 * at + 1)];
        let notes = commits.each_ref().map(|commit| note(&commit[..4], "body"));
        repo.remember(namespace, &[(&commits[0], &notes[0]), (&commits[1], &notes[1])]);
        ids.extend(commits.iter().map(|commit| id(namespace, commit)));
    }
    (repo, ids)
}

/// Merges across namespaces and a summary of a survivor's neighbours.
fn forward(repo: &Repo, ids: &[String]) -> Vec<OriginUnit> {
    let records: Vec<_> = ids.iter().map(|id| repo.record(id)).collect();
    vec![
        merge("run-1", &records[0], &records[2]),
        merge("run-1", &records[0], &records[4]),
        summarize("run-1", "sum_01", &[&records[1], &records[3], &records[5]]),
    ]
}

/// Takes back what was written after `records` were read.
fn backward(repo: &Repo, records: &[OriginRecord]) -> Vec<OriginUnit> {
    let before = |id: &str| Some(repo.record(id).digest());
    let mut undo = restore("undo", &records.iter().collect::<Vec<_>>());
    for change in &mut undo.changes {
        let OriginChange::Restore { before: digest, record } = change else { continue };
        *digest = before(&record.id);
    }
    let id = "sum_01".to_owned();
    undo.changes.push(OriginChange::Remove { before: before(&id), id });
    vec![undo]
}

/// Writes units, killed before the ref at a position; tells whether there was such a ref.
fn killed(repo: &Repo, units: &[OriginUnit], position: usize) -> bool {
    let mut refs = 0;
    let outcome = write(&repo.origin(), units, &mut |name| {
        refs += 1;
        if refs <= position {
            return Ok(());
        }
        let path = name.into();
        Err(OriginError::Locked { path })
    });
    outcome.is_err()
}

/// Merges or changes two of the memories that count; returns these as they are before.
fn step(repo: &Repo, number: usize, seed: usize) -> Option<[OriginRecord; 2]> {
    let records = repo.origin().read().unwrap().records;
    let live: Vec<_> = records.into_iter().filter(|r| r.standing == OriginStanding::Live).collect();
    let first = live.get(seed % live.len())?.clone();
    let second = live.get((seed / 7 + 1 + seed % live.len()) % live.len())?.clone();
    if first.id == second.id {
        return None;
    }
    let mut unit = merge(&format!("run-{number}"), &first, &second);
    if seed.is_multiple_of(3) {
        unit.changes.truncate(1);
    }
    assert_eq!(repo.origin().write(&[unit]).unwrap().units, [0]);
    Some([first, second])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn runs_are_undone_one_by_one(seeds in prop::collection::vec(0..1000_usize, 1..7)) {
        let (repo, _) = repository();
        let mut states = vec![(repo.origin().read().unwrap(), repo.written())];
        let mut before = Vec::new();
        for (number, seed) in seeds.into_iter().enumerate() {
            if let Some(records) = step(&repo, number, seed) {
                before.push(records);
                states.push((repo.origin().read().unwrap(), repo.written()));
            }
        }
        while let Some([first, second]) = before.pop() {
            states.pop();
            repo.origin().write(&[restore("undo", &[&first, &second])]).unwrap();
            let (contents, written) = &states[states.len() - 1];
            prop_assert_eq!(&repo.origin().read().unwrap(), contents);
            prop_assert_eq!(&repo.written(), written);
        }
    }
}

fn lines(repo: &Repo) -> Notes {
    repo.written()
}

#[test]
fn a_kill_between_two_refs_is_made_good_by_the_next_writing() {
    let (undisturbed, ids) = repository();
    let first = forward(&undisturbed, &ids);
    let before: Vec<OriginRecord> = ids.iter().map(|id| undisturbed.record(id)).collect();
    undisturbed.origin().write(&first).unwrap();
    let undo = backward(&undisturbed, &before);
    let expected = lines(&undisturbed);
    let records = undisturbed.origin().read().unwrap();
    let mut kills = 0;
    for position in 0.. {
        let (repo, _) = repository();
        if !killed(&repo, &first, position) {
            break;
        }
        kills += 1;
        assert_eq!(repo.origin().read().unwrap().skipped, []);
        assert_eq!(repo.origin().write(&first).unwrap().units, [0, 1, 2]);
        assert_eq!(lines(&repo), expected, "killed before ref {position}");
        assert_eq!(repo.origin().read().unwrap(), records);
        assert!(killed(&repo, &undo, position), "as many refs go back");
        assert_eq!(repo.origin().write(&undo).unwrap().units, [0]);
        assert!(lines(&repo).is_empty(), "killed before ref {position}: {:?}", lines(&repo));
    }
    assert_eq!(kills, expected.len());
}

#[test]
fn a_unit_that_became_a_conflict_half_way_is_taken_back() {
    let (repo, ids) = repository();
    let units = forward(&repo, &ids)[2..].to_vec();
    assert!(killed(&repo, &units, 3), "the summary and an archived source are written");
    assert_eq!(repo.origin().read().unwrap().records.len(), 7);
    let commit = ids[5].split(':').nth(1).unwrap();
    repo.remember("patterns", &[(commit, &note("changed", "meanwhile"))]);
    let published = repo.origin().write(&units).unwrap();
    assert_eq!((published.units.len(), published.conflicts[0].id.as_str()), (0, ids[5].as_str()));
    assert!(lines(&repo).is_empty(), "{:?}", lines(&repo));
}

/// An undo took the lines out whatever others had said of the memory since.
#[test]
fn an_undo_leaves_what_others_changed_since() {
    let (repo, ids) = repository();
    let before: Vec<OriginRecord> = ids.iter().map(|id| repo.record(id)).collect();
    repo.origin().write(&forward(&repo, &ids)).unwrap();
    let undo = backward(&repo, &before);
    let written = lines(&repo);
    let commit = ids[1].split(':').nth(1).unwrap();
    let (name, notes) =
        ("refs/notes/mem-meta/decisions", &written["refs/notes/mem-meta/decisions"]);
    let later = format!(
        "{}{{\"memory_id\": \"{}\", \"tier\": \"hot\", \"updated_at\": \"2027-01-01T00:00:00Z\"}}\n",
        notes[commit], ids[1]
    );
    repo.write(name, &[(commit, &later)]);
    let edited = lines(&repo);
    let published = repo.origin().write(&undo).unwrap();
    assert_eq!((published.units.len(), published.conflicts[0].id.as_str()), (0, ids[1].as_str()));
    assert_eq!(lines(&repo), edited);
    repo.write(name, &[(commit, &notes[commit])]);
    assert_eq!(repo.origin().write(&undo).unwrap().units, [0]);
    assert!(lines(&repo).is_empty());
}

#[test]
fn a_ref_that_moves_meanwhile_is_read_again() {
    let (repo, ids) = repository();
    let units = forward(&repo, &ids);
    let commit = ids[0].split(':').nth(1).unwrap();
    let theirs = "{memory_id: 'decisions:0000000:0', tier: hot}\n";
    let mut times = 0;
    let published = write(&repo.origin(), &units, &mut |name| {
        if name.ends_with("mem-meta/decisions") && times < 3 {
            times += 1;
            write_notes(&repo.path, name, &[(commit, &theirs.repeat(times))]);
        }
        Ok(())
    });
    assert_eq!(published.unwrap().units, [0, 1, 2]);
    assert_eq!(times, 3);
    let content = repo.written()["refs/notes/mem-meta/decisions"][commit].clone();
    assert!(content.contains(theirs.trim_end()) && content.contains("run-1"), "{content}");
    assert_eq!(repo.record(&ids[0]).access_count, 1);
}

#[test]
fn two_writers_at_once_lose_nothing() {
    let (repo, ids) = repository();
    let units = forward(&repo, &ids);
    let origin = repo.origin();
    std::thread::scope(|scope| {
        let writers: Vec<_> = units
            .iter()
            .map(|unit| scope.spawn(|| origin.write(std::slice::from_ref(unit)).unwrap()))
            .collect();
        for (position, writer) in writers.into_iter().enumerate() {
            let published = writer.join().unwrap();
            // The second merge into one memory may come after the first one, which changed it.
            assert!(published.units == [0] || position < 2, "{:?}", published.conflicts);
        }
    });
    let contents = repo.origin().read().unwrap();
    assert_eq!((contents.records.len(), contents.skipped.len()), (7, 0));
}

//! Plain git reads our notes, and we read its repositories. Skipped where git is missing.

use std::time::Instant;

use super::*;

/// A repository with three commits, each with a decision.
fn repository(folder: &Path) -> Vec<String> {
    run(folder, &["init", "--quiet", "--initial-branch=main", "."]);
    let mut commits = Vec::new();
    for number in 0..3 {
        run(folder, &["commit", "--quiet", "--allow-empty", "-m", &format!("commit {number}")]);
        commits.push(run(folder, &["rev-parse", "HEAD"]).trim().to_owned());
        append(folder, &format!("decision {number}"));
    }
    commits
}

fn run(folder: &Path, arguments: &[&str]) -> String {
    git(folder, arguments).unwrap()
}

/// Captures as the owner does.
fn append(folder: &Path, summary: &str) {
    let note = note(summary, "body\n\n---\n\nend");
    run(folder, &["notes", "--ref=refs/notes/mem/decisions", "append", "-m", &note]);
}

fn records(path: &Path) -> Vec<OriginRecord> {
    let contents = GitNotes::new(path).read().unwrap();
    assert_eq!(contents.skipped, []);
    contents.records
}

/// Merges the second memory into the first and makes a summary of the third.
fn consolidate(path: &Path) {
    let records = records(path);
    let units =
        [merge("run-1", &records[0], &records[1]), summarize("run-1", "sum_01", &[&records[2]])];
    assert_eq!(GitNotes::new(path).write(&units).unwrap().units, [0, 1]);
}

/// An empty folder for a repository; `None` where git is not installed.
fn folder() -> Option<(TempDir, PathBuf)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("repository");
    std::fs::create_dir(&path).unwrap();
    has_git().then_some((folder, path))
}

#[test]
fn plain_git_reads_what_was_written() {
    let Some((_folder, path)) = folder() else { return };
    let commits = repository(&path);
    append(&path, "appended");
    let found = records(&path);
    assert_eq!(found.len(), 4);
    let appended = found.iter().find(|record| record.text.starts_with("appended")).unwrap();
    // Capturing counts the rule in the body of the record before.
    assert_eq!(appended.id, format!("decisions:{}:2", commits[2]));
    consolidate(&path);
    run(&path, &["fsck", "--strict", "--no-dangling"]);
    for (reference, notes) in notes_of(&path) {
        for (commit, content) in notes {
            let shown = run(&path, &["notes", &format!("--ref={reference}"), "show", &commit]);
            assert_eq!(shown.trim_end(), content.trim_end());
        }
    }
    let log = run(&path, &["log", "--show-notes=refs/notes/mem-*"]);
    assert!(
        log.contains("\"consolidated_into\": \"") && log.contains("\"id\": \"sum_01\""),
        "{log}"
    );
    let author =
        run(&path, &["log", "-1", "--format=%an <%ae> %aI", "refs/notes/mem-meta/decisions"]);
    assert_eq!(author.trim(), "memfold <memfold@localhost> 2026-11-24T12:00:00Z");
    let count = run(&path, &["rev-list", "--count", "refs/notes/mem-meta/decisions"]);
    assert_eq!(count.trim(), "1", "one commit per ref");
    // The owner goes on capturing beside it.
    append(&path, "later");
    assert_eq!(records(&path).len(), 6);
}

#[test]
fn a_memory_made_of_none_goes_to_the_commit_that_is_checked_out() {
    let Some((_folder, path)) = folder() else { return };
    let commits = repository(&path);
    let save = summarize("save-1", "stm_1", &[]);
    assert_eq!(GitNotes::new(&path).write(std::slice::from_ref(&save)).unwrap().units, [0]);
    assert!(notes_of(&path)["refs/notes/mem-summaries/learnings"][&commits[2]].contains("stm_1"));
    assert_eq!(records(&path).len(), 4);
    let empty = tempfile::tempdir().unwrap();
    run(empty.path(), &["init", "--quiet", "."]);
    assert_eq!(GitNotes::new(empty.path()).write(&[save]).unwrap().conflicts.len(), 1);
}

#[test]
fn two_clones_merge_and_read_the_same() {
    let Some((folder, path)) = folder() else { return };
    repository(&path);
    consolidate(&path);
    let clone = folder.path().join("clone");
    run(folder.path(), &["clone", "--quiet", "repository", "clone"]);
    let refspec = "+refs/notes/*:refs/notes/*";
    run(&clone, &["fetch", "--quiet", "origin", refspec]);
    assert_eq!(records(&clone), records(&path));
    // Both change the same memories, so that the same notes differ.
    for (number, at) in [(1, &path), (2, &clone)] {
        let found = records(at);
        let live: Vec<_> = found.iter().filter(|r| r.status == OriginStatus::Live).collect();
        let access_count = live[0].access_count + number;
        let updated = OriginRecord { access_count, ..live[0].clone() };
        let update = update(live[0], updated, &[]);
        let mut unit = unit_of(&format!("run-{number}"), "R3", vec![update]);
        unit.at = format!("2026-11-25T12:00:0{number}Z");
        let mut copy = summarize(&format!("copy-{number}"), &format!("sum_1{number}"), &[live[0]]);
        copy.changes.truncate(1);
        assert_eq!(GitNotes::new(at).write(&[unit, copy]).unwrap().units, [0, 1]);
    }
    exchange(&path, &clone);
    exchange(&clone, &path);
    assert_eq!(notes_of(&path), notes_of(&clone));
    let (one, two) = (records(&path), records(&clone));
    assert_eq!(one, two);
    assert_eq!(one.len(), 6, "3 memories and 3 summaries");
    // The later line counts on both sides; nothing of the earlier one is lost.
    let counted = one.iter().find(|record| record.access_count > 0).unwrap();
    assert_eq!(counted.access_count, 3);
    let all = format!("{:?}", notes_of(&path));
    assert!(["run-1", "run-2", "copy-1", "copy-2"].iter().all(|run| all.contains(run)));
    run(&path, &["fsck", "--strict", "--no-dangling"]);
}

/// Fetches the notes of another repository and merges them, as the owner does.
fn exchange(into: &Path, from: &Path) {
    let from = from.to_str().unwrap();
    run(into, &["fetch", "--quiet", from, "+refs/notes/*:refs/notes/origin/*"]);
    let fetched = run(into, &["for-each-ref", "--format=%(refname)", "refs/notes/origin"]);
    for theirs in fetched.lines() {
        let ours = theirs.replace("/origin/", "/");
        run(into, &["notes", &format!("--ref={ours}"), "merge", "-s", "cat_sort_uniq", theirs]);
        run(into, &["update-ref", "-d", theirs]);
    }
}

#[test]
fn an_undo_reaches_the_other_clone() {
    let Some((folder, path)) = folder() else { return };
    repository(&path);
    let before = records(&path);
    consolidate(&path);
    let clone = folder.path().join("clone");
    run(folder.path(), &["clone", "--quiet", "repository", "clone"]);
    run(&clone, &["fetch", "--quiet", "origin", "+refs/notes/*:refs/notes/*"]);
    let undo = restore_all("undo", &before.iter().collect::<Vec<_>>());
    GitNotes::new(&path).write(&[undo]).unwrap();
    exchange(&path, &clone);
    assert_eq!(records(&path), before, "what was taken out does not come back");
    exchange(&clone, &path);
    assert_eq!(records(&clone), before);
}

#[test]
fn every_kind_of_repository_is_read_and_written() {
    let Some((folder, path)) = folder() else { return };
    let commits = repository(&path);
    run(&path, &["checkout", "--quiet", "--detach"]);
    run(&path, &["pack-refs", "--all"]);
    run(&path, &["gc", "--quiet"]);
    assert_eq!(records(&path).len(), 3);
    let bare = folder.path().join("bare.git");
    run(folder.path(), &["clone", "--quiet", "--mirror", "repository", "bare.git"]);
    consolidate(&bare);
    run(&bare, &["fsck", "--strict", "--no-dangling"]);
    // A second work tree shares the notes.
    let tree = folder.path().join("tree");
    run(&path, &["worktree", "add", "--quiet", "--detach", tree.to_str().unwrap()]);
    consolidate(&tree);
    let merged = OriginStatus::Merged { into: id("decisions", &records(&path)[0].id[10..50]) };
    assert_eq!(records(&path)[1].status, merged);
    assert_eq!(records(&path), records(&bare));
    // Packed again, and changed again.
    run(&path, &["pack-refs", "--all"]);
    let found = records(&path);
    GitNotes::new(&path).write(&[summarize("run-2", "sum_02", &[&found[0]])]).unwrap();
    assert_eq!(records(&path).len(), 5);
    run(&path, &["fsck", "--strict", "--no-dangling"]);
    assert_eq!(commits.len(), 3);
}

#[test]
fn notes_outlive_their_commits() {
    let Some((_folder, path)) = folder() else { return };
    let commits = repository(&path);
    run(&path, &["reset", "--quiet", "--hard", &commits[0]]);
    run(&path, &["reflog", "expire", "--expire=now", "--all"]);
    run(&path, &["gc", "--quiet", "--prune=now"]);
    consolidate(&path);
    assert_eq!(records(&path).len(), 4);
    run(&path, &["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn what_is_not_supported_is_said() {
    let Some((folder, _)) = folder() else { return };
    let sha256 = folder.path().join("sha256");
    run(folder.path(), &["init", "--quiet", "--object-format=sha256", "sha256"]);
    let error = GitNotes::new(&sha256).read().unwrap_err().to_string();
    assert!(error.contains("SHA-256"), "{error}");
    assert!(is_one(&sha256), "a folder, expected a SQLite file");
    let reftable = folder.path().join("reftable");
    run(folder.path(), &["init", "--quiet", "--ref-format=reftable", "reftable"]);
    let error = GitNotes::new(&reftable).read().unwrap_err().to_string();
    assert!(error.contains("--ref-format=files"), "{error}");
    assert!(is_one(&reftable));
    run(folder.path(), &["init", "--quiet", "plain"]);
    assert!(!is_one(&folder.path().join("plain")));
}

const NOTES: usize = 20_000;
const DIM: usize = 384;

fn body(number: usize) -> String {
    let line = |line| {
        let worker = number * 7 + line;
        format!("Line {line} of memory {number}: the cache is filled by worker {worker}.\n")
    };
    "## Context\n\n".to_owned() + &(0..8).map(line).collect::<String>()
}

/// `cargo test --release -p memfold-adapters --lib --features git twenty_thousand -- --ignored --nocapture`
#[test]
#[ignore = "measures; run in release"]
#[expect(clippy::disallowed_methods, clippy::print_stderr, reason = "a measurement, run by hand")]
fn twenty_thousand_notes() {
    let repo = Repo::new();
    let notes: Vec<(String, String)> =
        (0..NOTES).map(|n| (sha(n), note(&format!("summary {n}"), &body(n)))).collect();
    let notes: Vec<(&str, &str)> = notes.iter().map(|(c, n)| (c.as_str(), n.as_str())).collect();
    repo.remember("learnings", &notes);
    std::fs::create_dir(repo.path.join(".memory")).unwrap();
    let texts: Vec<_> =
        (0..NOTES).map(|n| (id("learnings", &sha(n)), format!("summary {n}"), body(n))).collect();
    let rows: Vec<Row<'_>> = texts
        .iter()
        .map(|(id, s, b)| (id.as_str(), s.as_str(), b.as_str(), "active", Some(vec![0.05; DIM])))
        .collect();
    write_index(&repo.path.join(".memory/index.db"), &rows);
    let begun = Instant::now();
    let contents = repo.origin().read().unwrap();
    let vectors = contents.records.iter().filter(|record| record.vector.is_some()).count();
    eprintln!("read with {vectors} vectors: {:?}", begun.elapsed());
    assert_eq!((contents.records.len(), vectors), (NOTES, NOTES));

    let units: Vec<_> = contents
        .records
        .chunks(20)
        .map(|records| {
            let retire = |record| super::retire(record, Some(&records[0].id));
            unit_of("run-1", "R2", records[1..].iter().map(retire).collect())
        })
        .collect();
    let begun = Instant::now();
    let published = repo.origin().write(&units).unwrap();
    eprintln!("wrote {} units: {:?}", units.len(), begun.elapsed());
    assert_eq!(published.units.len(), units.len());
}

//! 20,000 notes.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::fixture::{Repo, has_git, id, note, sha};
use crate::git_notes::index_db::tests::{Row, write_index};
use memfold_store::origin::{Origin as _, OriginChange};

const NOTES: usize = 20_000;
const DIM: usize = 384;

fn body(number: usize) -> String {
    let mut body = String::from("## Context\n\n");
    for line in 0..8 {
        let _ = writeln!(
            body,
            "Line {line} of memory {number}: the cache is filled by worker {}.",
            number * 7 + line
        );
    }
    body
}

/// Writes notes by `git fast-import`, with the fanout that git has for so many.
fn import(repo: &Repo) {
    let mut stream = String::new();
    let _ = write!(
        stream,
        "commit refs/notes/mem/learnings\ncommitter a <a@localhost> 1700000000 +0000\ndata 0\n\n"
    );
    for (number, commit) in (0..NOTES).map(sha).enumerate() {
        let text = note(&format!("summary {number}"), &body(number));
        let (folder, rest) = commit.split_at(2);
        let length = text.len();
        let _ = writeln!(stream, "M 100644 inline {folder}/{rest}\ndata {length}\n{text}");
    }
    let mut git = Command::new("git")
        .current_dir(&repo.path)
        .args(["fast-import", "--quiet", "--force"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    git.stdin.take().unwrap().write_all(stream.as_bytes()).unwrap();
    assert!(git.wait().unwrap().success());
}

/// `cargo test --release -p memfold-store --lib git_notes::tests::scale -- --ignored --nocapture`
#[test]
#[ignore = "measures; run in release"]
#[expect(clippy::disallowed_methods, clippy::print_stderr, reason = "a measurement, run by hand")]
fn twenty_thousand_notes() {
    if !has_git() {
        return;
    }
    let repo = Repo::new();
    import(&repo);
    let begun = Instant::now();
    let contents = repo.origin().read().unwrap();
    eprintln!("read {} notes: {:?}", contents.records.len(), begun.elapsed());
    assert_eq!((contents.records.len(), contents.skipped.len()), (NOTES, 0));

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
    assert_eq!(vectors, NOTES);

    let units: Vec<_> = contents
        .records
        .chunks(20)
        .map(|records| {
            let retire = |record: &memfold_store::origin::OriginRecord| OriginChange::Retire {
                before: record.digest(),
                id: record.id.clone(),
                into: Some(records[0].id.clone()),
                reason: "near duplicate".to_owned(),
            };
            super::fixture::unit("run-1", "R2", records[1..].iter().map(retire).collect())
        })
        .collect();
    for what in ["wrote", "wrote again"] {
        let begun = Instant::now();
        let published = repo.origin().write(&units).unwrap();
        eprintln!(
            "{what} {} units, {} records: {:?}",
            units.len(),
            NOTES * 19 / 20,
            begun.elapsed()
        );
        assert_eq!(published.units.len(), units.len());
    }
    let begun = Instant::now();
    let contents = repo.origin().read().unwrap();
    eprintln!("read after it: {:?}", begun.elapsed());
    assert_eq!(contents.records.len(), NOTES);
}

//! Repositories of our own, read and written; with plain git as a witness where it is installed.

mod plain_git;
mod reading;
mod writing;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::GitNotes;
use super::repository::{NotesRepository, RefUpdate};
use crate::testing::{AT, unit_of, update};
use memfold_store::origin::{Origin as _, OriginChange, OriginRecord, OriginUnit};

/// Contents of notes by ref and commit.
type Notes = BTreeMap<String, BTreeMap<String, String>>;

/// A repository that was made without git.
struct Repo {
    _folder: TempDir,
    path: PathBuf,
}

impl Repo {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("repository");
        gix::init(&path).unwrap();
        Self { _folder: folder, path }
    }

    /// With notes of the memories of commits, `namespace` and number: the first four digits, then a body.
    fn with(namespaces: &[(&str, &[usize])]) -> (Self, Vec<String>) {
        let repo = Self::new();
        let mut ids = Vec::new();
        for (namespace, numbers) in namespaces {
            let commits = numbers.iter().map(|number| sha(*number));
            let notes: Vec<_> = commits.map(|c| (note(&c[..4], "body"), c)).collect();
            let notes: Vec<_> = notes.iter().map(|(note, commit)| (&**commit, &**note)).collect();
            repo.remember(namespace, &notes);
            ids.extend(notes.iter().map(|(commit, _)| id(namespace, commit)));
        }
        (repo, ids)
    }

    fn origin(&self) -> GitNotes {
        GitNotes::new(&self.path)
    }

    fn open(&self) -> NotesRepository {
        NotesRepository::open(&self.path).unwrap()
    }

    /// Sets notes of one namespace.
    fn remember(&self, namespace: &str, notes: &[(&str, &str)]) {
        self.set(&format!("refs/notes/mem/{namespace}"), notes);
    }

    /// Sets notes of a ref, as another program: a memfold may be at work.
    fn set(&self, reference: &str, notes: &[(&str, &str)]) {
        let content = |text: &str| (!text.is_empty()).then(|| text.as_bytes().to_vec());
        let notes = notes.iter().map(|(commit, text)| ((*commit).to_owned(), content(text)));
        let (repository, notes) = (self.open(), notes.collect());
        let before = repository.tip(reference).unwrap();
        let message = "fixture";
        let update = RefUpdate { name: reference, before, notes: &notes, seconds: 0, message };
        let lock = repository.common_dir().join("lock-of-another");
        repository.hold_by(lock).unwrap().update(&update).unwrap();
    }

    /// Returns the contents of all notes.
    fn notes(&self) -> Notes {
        notes_of(&self.path)
    }

    /// Returns the notes that memfold writes; refs without any are left out.
    fn written(&self) -> Notes {
        let mut notes = self.notes();
        notes.retain(|name, notes| name.starts_with("refs/notes/mem-") && !notes.is_empty());
        notes
    }

    /// Returns the tips of all notes refs.
    fn tips(&self) -> BTreeMap<String, String> {
        let repository = self.open();
        let names = repository.below("refs/notes").unwrap().0.into_iter();
        let names = names.map(|name| format!("refs/notes/{name}"));
        names
            .map(|name| (name.clone(), repository.tip(&name).unwrap().unwrap().to_string()))
            .collect()
    }

    fn record(&self, id: &str) -> OriginRecord {
        let records = crate::testing::records(&self.origin());
        records.get(id).unwrap_or_else(|| panic!("no {id} in {:?}", records.keys())).clone()
    }

    fn records(&self, ids: &[String]) -> Vec<OriginRecord> {
        let records = crate::testing::records(&self.origin());
        ids.iter().map(|id| records[id].clone()).collect()
    }

    /// Writes units, all of which are possible.
    fn write(&self, units: &[OriginUnit]) {
        let published = self.origin().write(units).unwrap();
        assert_eq!(published.conflicts, []);
        assert_eq!(published.units, (0..units.len()).collect::<Vec<_>>());
    }
}

fn notes_of(path: &Path) -> Notes {
    let repository = NotesRepository::open(path).unwrap();
    let mut all = Notes::new();
    for name in repository.below("refs/notes").unwrap().0 {
        let name = format!("refs/notes/{name}");
        let notes = repository.notes(repository.tip(&name).unwrap().unwrap()).unwrap();
        let text = |blob| String::from_utf8_lossy(&repository.blob(blob).unwrap()).into_owned();
        all.insert(name, notes.into_iter().map(|(commit, blob)| (commit, text(blob))).collect());
    }
    all
}

/// Returns the name of a commit that need not exist.
fn sha(number: usize) -> String {
    blake3::hash(&number.to_le_bytes()).to_hex()[..40].to_owned()
}

fn note(summary: &str, body: &str) -> String {
    format!(
        "---\ntype: decisions\ntimestamp: '2026-01-02T03:04:05+00:00'\nsummary: {summary}\n---\n\n{body}\n"
    )
}

/// Returns the id of the first record of a commit.
fn id(namespace: &str, commit: &str) -> String {
    format!("{namespace}:{commit}:0")
}

/// Returns the commit of an id.
fn commit_of(id: &str) -> &str {
    id.split(':').nth(1).unwrap()
}

/// Merges the older memory into the newer one.
fn merge(run: &str, newer: &OriginRecord, older: &OriginRecord) -> OriginUnit {
    let mut after = newer.clone();
    after.access_count += older.access_count + 1;
    after.tags.push("merged".to_owned());
    let changes =
        vec![update(newer, after, &[&older.id]), crate::testing::retire(older, Some(&newer.id))];
    unit_of(run, "R2-near-duplicate-merge", changes)
}

/// Makes a summary of memories and archives them.
fn summarize(run: &str, id: &str, of: &[&OriginRecord]) -> OriginUnit {
    let record = OriginRecord {
        id: id.to_owned(),
        text: "first line\n---\n  second: \"line\" \u{2028} end".to_owned(),
        tags: vec!["summary".to_owned()],
        importance: 2.0,
        source: "consolidation".to_owned(),
        created_at: Some(AT.to_owned()),
        ..OriginRecord::default()
    };
    let made_of = of.iter().map(|record| record.id.clone()).collect();
    let mut changes = vec![OriginChange::Create { record: Box::new(record), made_of }];
    changes.extend(of.iter().map(|record| crate::testing::retire(record, Some(id))));
    unit_of(run, "summarize", changes)
}

fn restore(run: &str, records: &[&OriginRecord]) -> OriginUnit {
    unit_of(run, "undo", records.iter().map(|record| crate::testing::restore(record)).collect())
}

/// As [`restore`], and removes the summary that was made.
fn restore_all(run: &str, records: &[&OriginRecord]) -> OriginUnit {
    let mut unit = restore(run, records);
    unit.changes.push(OriginChange::Remove { before: None, id: "sum_01".to_owned() });
    unit
}

/// Runs git in a folder, without the configuration of the machine; `None` where it is not installed.
fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    command.current_dir(folder).args(arguments);
    for (name, value) in [
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_AUTHOR_NAME", "a"),
        ("GIT_AUTHOR_EMAIL", "a@localhost"),
        ("GIT_COMMITTER_NAME", "a"),
        ("GIT_COMMITTER_EMAIL", "a@localhost"),
    ] {
        command.env(name, value);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => panic!("git {arguments:?}: {error}"),
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {text}{errors}");
    Some(text + &errors)
}

/// Tells whether git is installed; a test that needs it is skipped otherwise.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn has_git() -> bool {
    let has = git(Path::new("."), &["--version"]).is_some();
    if !has {
        eprintln!("skipped: git is not installed");
    }
    has
}

//! Repositories with notes, made without git.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::git_notes::GitNotes;
use crate::git_notes::repository::{NotesRepository, RefUpdate};
use memfold_store::origin::{Origin as _, OriginChange, OriginRecord, OriginUnit};

pub(super) const AT: &str = "2026-11-24T12:00:00Z";

/// Contents of notes by ref and commit.
pub(super) type Notes = BTreeMap<String, BTreeMap<String, String>>;

pub(super) struct Repo {
    _folder: TempDir,
    pub(super) path: PathBuf,
}

impl Repo {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("repository");
        gix::init(&path).unwrap();
        Self { _folder: folder, path }
    }

    pub(super) fn origin(&self) -> GitNotes {
        GitNotes::new(&self.path)
    }

    pub(super) fn open(&self) -> NotesRepository {
        NotesRepository::open(&self.path).unwrap()
    }

    /// Sets notes of one namespace.
    pub(super) fn remember(&self, namespace: &str, notes: &[(&str, &str)]) {
        self.write(&format!("refs/notes/mem/{namespace}"), notes);
    }

    pub(super) fn write(&self, reference: &str, notes: &[(&str, &str)]) {
        write_notes(&self.path, reference, notes);
    }

    /// Returns the contents of all notes.
    pub(super) fn notes(&self) -> Notes {
        notes_of(&self.path)
    }

    /// Returns the notes that memfold writes; refs without any are left out.
    pub(super) fn written(&self) -> Notes {
        let notes = self.notes().into_iter();
        notes
            .filter(|(name, notes)| name.starts_with("refs/notes/mem-") && !notes.is_empty())
            .collect()
    }

    /// Returns the tips of all notes refs.
    pub(super) fn tips(&self) -> BTreeMap<String, String> {
        let repository = self.open();
        let names = repository.below("refs/notes").unwrap().0.into_iter();
        names
            .map(|name| {
                let name = format!("refs/notes/{name}");
                let tip = repository.tip(&name).unwrap().unwrap().to_string();
                (name, tip)
            })
            .collect()
    }

    pub(super) fn record(&self, id: &str) -> OriginRecord {
        let records = self.origin().read().unwrap().records;
        let ids: Vec<_> = records.iter().map(|record| record.id.clone()).collect();
        let found = records.into_iter().find(|record| record.id == id);
        found.unwrap_or_else(|| panic!("no {id} in {ids:?}"))
    }
}

pub(super) fn write_notes(path: &Path, reference: &str, notes: &[(&str, &str)]) {
    let repository = NotesRepository::open(path).unwrap();
    let content = |text: &str| (!text.is_empty()).then(|| text.as_bytes().to_vec());
    let update = RefUpdate {
        name: reference,
        before: repository.tip(reference).unwrap(),
        notes: &notes.iter().map(|(commit, text)| ((*commit).to_owned(), content(text))).collect(),
        seconds: 1_700_000_000,
        message: "fixture",
    };
    // As another program: a memfold may be at work.
    let lock = repository.common_dir().join("lock-of-another");
    repository.hold_by(lock).unwrap().update(&update).unwrap();
}

pub(super) fn notes_of(path: &Path) -> Notes {
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
pub(super) fn sha(number: usize) -> String {
    blake3::hash(&number.to_le_bytes()).to_hex()[..40].to_owned()
}

pub(super) fn note(summary: &str, body: &str) -> String {
    format!(
        "---\ntype: decisions\ntimestamp: '2026-01-02T03:04:05+00:00'\nsummary: {summary}\n---\n\n{body}\n"
    )
}

/// Returns the id of the first record of a commit.
pub(super) fn id(namespace: &str, commit: &str) -> String {
    format!("{namespace}:{commit}:0")
}

pub(super) fn unit(run: &str, rule: &str, changes: Vec<OriginChange>) -> OriginUnit {
    OriginUnit { run_id: run.to_owned(), at: AT.to_owned(), rule: rule.to_owned(), changes }
}

/// Merges the older memory into the newer one.
pub(super) fn merge(run: &str, newer: &OriginRecord, older: &OriginRecord) -> OriginUnit {
    let mut after = newer.clone();
    after.access_count += older.access_count + 1;
    after.tags.push("merged".to_owned());
    let update = OriginChange::Update {
        before: newer.digest(),
        record: Box::new(after),
        merged: vec![older.id.clone()],
    };
    let retire = OriginChange::Retire {
        before: older.digest(),
        id: older.id.clone(),
        into: Some(newer.id.clone()),
        reason: "near duplicate".to_owned(),
    };
    unit(run, "R2-near-duplicate-merge", vec![update, retire])
}

/// Makes a summary of memories and archives them.
pub(super) fn summarize(run: &str, id: &str, of: &[&OriginRecord]) -> OriginUnit {
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
    changes.extend(of.iter().map(|record| OriginChange::Retire {
        before: record.digest(),
        id: record.id.clone(),
        into: Some(id.to_owned()),
        reason: "summarized".to_owned(),
    }));
    unit(run, "summarize", changes)
}

pub(super) fn restore(run: &str, records: &[&OriginRecord]) -> OriginUnit {
    let restore = |record: &&OriginRecord| OriginChange::Restore {
        before: None,
        record: Box::new((*record).clone()),
    };
    unit(run, "undo", records.iter().map(restore).collect())
}

/// Runs git in a folder, without the configuration of the machine; `None` where it is not installed.
pub(super) fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
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
pub(super) fn has_git() -> bool {
    let has = git(Path::new("."), &["--version"]).is_some();
    if !has {
        eprintln!("skipped: git is not installed");
    }
    has
}

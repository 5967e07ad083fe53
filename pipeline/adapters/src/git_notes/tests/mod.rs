//! Repositories of our own, read and written; with plain git as a witness where it is installed.

mod plain_git;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::prelude::*;
use serde_json::Value;
use tempfile::TempDir;

use super::ledger::{self, Fields};
use super::library::tests::{Row, write_index};
use super::repository::{NotesRepository, RefUpdate};
use super::*;
use crate::testing::{AT, retire, undo, unit_of, update};
use memfold_store::origin::{LinkKind, OriginChange, OriginLink, OriginRecord, OriginStatus};

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
    let changes = vec![update(newer, after, &[&older.id]), retire(older, Some(&newer.id))];
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
    changes.extend(of.iter().map(|record| retire(record, Some(id))));
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

/// The skipped parts, as text in order.
fn skipped(contents: &OriginContents) -> Vec<String> {
    let mut skipped: Vec<_> =
        contents.skipped.iter().map(|s| format!("{}: {}", s.place, s.reason)).collect();
    skipped.sort();
    skipped
}

#[test]
fn a_record_is_read_with_all_it_says() {
    let repo = Repo::new();
    let (one, two) = (sha(1), sha(2));
    let full = format!(
        "---\ntype: decisions\ntimestamp: '2026-01-02T03:04:05+00:00'\nsummary: Use SQLite\nspec: 12\nphase: build\nunknown: [1]\n\
         tags:\n- db\n- ünï\n- 7\nstatus: resolved\nrelates_to:\n- learnings:{}:0\n- decisions:0000000:0\n---\n\n  ## Why\n\nfast  \n\n",
        &two[..7]
    );
    repo.remember("decisions", &[(&one, &full)]);
    let plain = note("Locks", "they wait").replace("---\n\n", "phase: null\ntags: a, b\n---\n\n");
    repo.remember("learnings", &[(&two, &plain)]);
    let contents = repo.origin().read().unwrap();
    assert_eq!(contents.skipped, []);
    assert!(is_one(&repo.path));
    let [decision, learning] = &contents.records[..] else { panic!("{contents:?}") };
    let attributes = [
        ("domain", "project"),
        ("namespace", "decisions"),
        ("phase", "build"),
        ("spec", "12"),
        ("status", "resolved"),
        ("type", "decisions"),
    ];
    let link = |to: String| OriginLink { kind: LinkKind::References, to };
    let expected = OriginRecord {
        id: id("decisions", &one),
        text: "Use SQLite\n  ## Why\n\nfast".to_owned(),
        tags: ["db", "ünï", "7"].map(str::to_owned).into(),
        attributes: attributes.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        importance: 2.9,
        created_at: Some("2026-01-02T03:04:05+00:00".to_owned()),
        source: "git-notes".to_owned(),
        links: vec![link(id("learnings", &two)), link("decisions:0000000:0".to_owned())],
        place: format!("refs/notes/mem/decisions@{one}#0"),
        raw: full.trim_end().to_owned(),
        ..OriginRecord::default()
    };
    assert_eq!(*decision, expected);
    assert!((learning.importance - 2.6).abs() < 1e-9);
    assert_eq!(learning.tags, ["a", "b"]);
    assert!(!learning.attributes.iter().any(|(name, _)| name == "phase"));
}

#[test]
fn repositories_without_memories_are_empty() {
    let repo = Repo::new();
    assert_eq!(repo.origin().read().unwrap(), OriginContents::default());
    assert!(!is_one(&repo.path) && !is_one(&repo.path.join("nowhere")));
    repo.write(&[]);
    assert!(repo.tips().is_empty());
    let error = GitNotes::new(repo.path.join("nowhere")).read().unwrap_err().to_string();
    assert!(error.contains("is no git repository"), "{error}");
}

#[test]
fn both_domains_are_read() {
    let [project, user] = ["mine", "yours"].map(|summary| {
        let repo = Repo::new();
        repo.remember("decisions", &[(&sha(1), &note(summary, ""))]);
        repo
    });
    let origin = project.origin().with_user_domain(&user.path);
    let records = origin.read().unwrap().records;
    let ids: Vec<_> = records.iter().map(|record| record.id.as_str()).collect();
    assert_eq!(ids, [id("decisions", &sha(1)), format!("user:decisions:{}:0", sha(1))]);
    let domains: Vec<_> = records.iter().map(|record| record.attributes[0].1.as_str()).collect();
    assert_eq!(domains, ["project", "user"]);
}

#[test]
fn what_cannot_be_read_is_skipped_with_a_reason_and_hides_no_other() {
    let repo = Repo::new();
    let two = format!("{}\n---\ntype: x\nsummary: [\n---\nbody\n", note("good", "text"));
    repo.remember("progress", &[(&sha(1), "hello"), (&sha(2), &two)]);
    let contents = repo.origin().read().unwrap();
    assert_eq!((contents.records.len(), contents.skipped.len()), (1, 2));
    for (commit, reason) in
        [(sha(1), "line 1: no front matter"), (sha(2), "line 9: front matter is no YAML")]
    {
        let expected = format!("refs/notes/mem/progress@{commit} {reason}");
        let found = skipped(&contents);
        assert!(found.iter().any(|found| found.starts_with(&expected)), "{found:?}");
    }

    let (repo, _) = Repo::with(&[("progress", &[1])]);
    let name = "refs/notes/mem/progress";
    let update = |content: &[u8]| {
        let repository = repo.open();
        let notes = [(sha(2), Some(content.to_vec()))].into();
        let before = repository.tip(name).unwrap();
        let update = RefUpdate { name, before, notes: &notes, seconds: 0, message: "fixture" };
        repository.hold().unwrap().update(&update).unwrap();
    };
    let only_skipped = || {
        let contents = repo.origin().read().unwrap();
        assert_eq!((contents.records.len(), contents.skipped.len()), (1, 1));
        skipped(&contents).remove(0)
    };
    update(b"---\ntype: x\nsummary: \xff\n---\n");
    assert!(only_skipped().contains("no UTF-8"));
    // A blob that is not here, as in a partial clone.
    update(b"missing");
    let repository = repo.open();
    let notes = repository.notes(repository.tip(name).unwrap().unwrap()).unwrap();
    let blob = notes[&sha(2)].to_string();
    let objects = repo.path.join(".git/objects");
    std::fs::remove_file(objects.join(&blob[..2]).join(&blob[2..])).unwrap();
    assert!(only_skipped().contains(&blob));
    // One ref that cannot be read hid all others.
    std::fs::write(repo.path.join(".git/refs/notes/mem/broken"), format!("{}\n", "1".repeat(40)))
        .unwrap();
    let contents = repo.origin().read().unwrap();
    assert_eq!(contents.records.len(), 1);
    assert!(contents.skipped.iter().any(|skipped| skipped.place.contains("broken")));
}

#[test]
fn fanned_out_trees_and_long_bodies_are_read() {
    let repo = Repo::new();
    let body = "long ".repeat(20_000);
    let notes: Vec<(String, String)> =
        (0..600).map(|n| (sha(n), note(&format!("n{n}"), &body[..n * 100]))).collect();
    let notes: Vec<(&str, &str)> = notes.iter().map(|(c, n)| (c.as_str(), n.as_str())).collect();
    repo.remember("patterns", &notes);
    repo.remember("research", &[(&sha(1), &note("long", &body))]);
    let contents = repo.origin().read().unwrap();
    assert_eq!((contents.records.len(), contents.skipped.len()), (601, 0));
    assert_eq!(contents.records[600].text.len(), "long\n".len() + body.trim_end().len());
}

#[test]
fn lines_of_others_decide_status_and_links() {
    let (repo, ids) = Repo::with(&[("decisions", &[1, 2, 3, 4])]);
    let commits: Vec<&str> = ids.iter().map(|id| commit_of(id)).collect();
    let short = |n: usize| format!("decisions:{}:0", &commits[n][..7]);
    let meta = |n: usize, rest: &str| format!("{{memory_id: '{}', {rest}}}\n", short(n));
    let merged = format!("consolidated_into: '{}', updated_at: '2026-01-02T00:00:00Z'", short(1));
    let merged = meta(0, &format!("tier: archived, {merged}"));
    let earlier =
        meta(0, "tier: hot, activation_count: 9, updated_at: '2026-01-01T23:00:00+00:00'");
    let archived =
        meta(2, "tier: archived, activation_count: 3, last_accessed: '2026-01-01T00:00:00Z'");
    let superseded = meta(3, &format!("tier: cold, superseded_by: '{}'", short(1)));
    let notes = [
        (commits[0], &*(merged + &earlier)),
        (commits[2], &*("nonsense: [\n".to_owned() + &archived)),
        (commits[3], &superseded),
    ];
    repo.set("refs/notes/mem-meta/decisions", &notes);
    let edge = format!(
        "{{source_id: '{}', target_id: '{}', edge_type: REFERENCES}}\n",
        short(1),
        short(2)
    );
    repo.set("refs/notes/mem-edges/decisions", &[(commits[1], &edge)]);
    assert_eq!(repo.origin().read().unwrap().skipped.len(), 1);
    let records = repo.records(&ids);
    assert_eq!(records[0].status, OriginStatus::Merged { into: ids[1].clone() });
    assert_eq!((&records[2].status, records[2].access_count), (&OriginStatus::Archived, 3));
    assert_eq!(records[2].last_accessed.as_deref(), Some("2026-01-01T00:00:00Z"));
    assert_eq!(records[3].status, OriginStatus::Live);
    let link = |kind, to: &String| OriginLink { kind, to: to.clone() };
    let expected = [link(LinkKind::References, &ids[2]), link(LinkKind::Supersedes, &ids[3])];
    assert_eq!(records[1].links, expected);
}

#[test]
fn a_vector_counts_while_its_text_is_the_record() {
    let (repo, ids) = Repo::with(&[("decisions", &[1, 2, 3])]);
    let summary = |n: usize| sha(n)[..4].to_owned();
    std::fs::create_dir(repo.path.join(".memory")).unwrap();
    let index = repo.path.join(".memory/index.db");
    let short = format!("decisions:{}:0", &sha(1)[..7]);
    let (one, two) = (summary(1), summary(2));
    let rows = [
        (short.as_str(), one.as_str(), "body\n", "active", Some(vec![0.5, -0.5])),
        (ids[1].as_str(), two.as_str(), "older body", "active", Some(vec![1.0, 0.0])),
        (ids[2].as_str(), "[ARCHIVED] s", "", "archived", None),
        ("decisions:9999999:0", "gone", "", "active", Some(vec![1.0, 1.0])),
    ];
    write_index(&index, &rows);
    let records = repo.records(&ids);
    assert_eq!(records[0].vector, Some(("all-MiniLM-L6-v2".to_owned(), vec![0.5, -0.5])));
    assert_eq!(records[1].vector, None);
    assert_eq!(records[2].status, OriginStatus::Archived);
    assert_eq!(repo.origin().read().unwrap().records.len(), 3);
    std::fs::write(&index, "broken").unwrap();
    let contents = repo.origin().read().unwrap();
    assert_eq!((contents.records.len(), contents.skipped.len()), (3, 1));
}

/// A repository with three decisions and a learning, and the ids of them.
fn repository() -> (Repo, Vec<String>) {
    Repo::with(&[("decisions", &[0, 1, 2]), ("learnings", &[3])])
}

/// A repository of three namespaces.
fn wide() -> (Repo, Vec<String>) {
    Repo::with(&[("decisions", &[0, 1]), ("learnings", &[2, 3]), ("patterns", &[4, 5])])
}

/// A ref of memfold's that leads to `main` moved `main`.
#[test]
fn nothing_is_written_through_a_symbolic_ref() {
    let (repo, ids) = repository();
    repo.set("refs/heads/main", &[(&sha(9), "a file of the owner")]);
    let git = repo.path.join(".git");
    let main = || std::fs::read_to_string(git.join("refs/heads/main")).unwrap();
    let before = main();
    crate::testing::put(&git, [("refs/notes/mem-meta/decisions", "ref: refs/heads/main\n")]);
    let (newer, older) = (repo.record(&ids[0]), repo.record(&ids[1]));
    let refused = repo.origin().write(&[merge("run-1", &newer, &older)]).unwrap_err();
    assert!(refused.to_string().contains("symbolic ref"), "{refused}");
    assert_eq!(main(), before);
}

#[test]
fn a_merge_is_written_beside_the_memories_in_the_documented_fields() {
    let (repo, ids) = repository();
    let before = repo.notes();
    let (newer, older) = (repo.record(&ids[0]), repo.record(&ids[3]));
    repo.write(&[merge("run-1", &newer, &older)]);
    let after = repo.notes();
    assert!(before.iter().all(|(name, notes)| after.get(name) == Some(notes)), "the owner's");
    let names: Vec<_> = repo.written().into_keys().collect();
    let expected =
        ["mem-edges/decisions", "mem-meta/decisions", "mem-meta/learnings", "mem-runs/decisions"];
    assert_eq!(names, expected.map(|name| format!("refs/notes/{name}")));
    let survivor = repo.record(&ids[0]);
    assert_eq!((survivor.access_count, survivor.tags.as_slice()), (1, &["merged".to_owned()][..]));
    assert_eq!(survivor.text, newer.text);
    assert_eq!(repo.record(&ids[3]).status, OriginStatus::Merged { into: ids[0].clone() });
    let line_of = |reference: &str, id: &str| -> Fields {
        let content = &repo.written()[&format!("refs/notes/{reference}")][commit_of(id)];
        ledger::decode(content.trim_end()).unwrap()
    };
    let meta = line_of("mem-meta/learnings", &ids[3]);
    let names: Vec<_> = meta.keys().map(String::as_str).collect();
    let expected = "memory_id tier activation_count last_accessed retention superseded_by consolidated_into created_at \
                    updated_at consolidation_run_id rule reason unit";
    assert_eq!(names.join(" "), expected);
    let edge = line_of("mem-edges/decisions", &ids[0]);
    let run = line_of("mem-runs/decisions", &ids[0]);
    for (fields, name, expected) in [
        (&meta, "tier", "archived"),
        (&meta, "consolidated_into", &ids[0]),
        (&meta, "updated_at", AT),
        (&edge, "edge_type", "consolidates"),
        (&edge, "source_id", &ids[0]),
        (&edge, "target_id", &ids[3]),
        (&run, "run_id", "run-1"),
        (&run, "phase", "completed"),
    ] {
        assert_eq!(ledger::text(fields, name), Some(expected));
    }
    let transitions = run.get("tier_transitions").and_then(Value::as_array).unwrap();
    let archived = transitions.iter().find(|t| t["memory_id"] == ids[3].as_str()).unwrap();
    assert_eq!([&archived["from_tier"], &archived["to_tier"]], ["hot", "archived"]);
    assert!(archived["retention_score"].is_f64());
}

#[test]
fn a_summary_is_a_memory_until_it_is_removed() {
    let (repo, ids) = repository();
    let sources = repo.records(&ids);
    let sources: Vec<_> = sources.iter().collect();
    let made = summarize("run-1", "sum_01", &sources);
    repo.write(std::slice::from_ref(&made));
    let summary = repo.record("sum_01");
    let OriginChange::Create { record, .. } = &made.changes[0] else { panic!() };
    assert_eq!(
        (&summary.text, &summary.tags, &summary.created_at),
        (&record.text, &record.tags, &record.created_at)
    );
    assert!(summary.attributes.contains(&("namespace".to_owned(), "decisions".to_owned())));
    let merged = OriginStatus::Merged { into: "sum_01".to_owned() };
    assert!(repo.records(&ids).iter().all(|record| record.status == merged));
    // A summary is changed and put away like any memory.
    let changed = OriginRecord { text: "other".into(), importance: 2.5, ..summary.clone() };
    repo.write(&[unit_of("run-2", "R9", vec![update(&summary, changed, &[])])]);
    let updated = repo.record("sum_01");
    assert_eq!((&*updated.text, &*updated.importance.to_string()), ("other", "2.5"));
    repo.write(&[restore("undo-2", &[&summary])]);
    assert_eq!(repo.record("sum_01"), summary);
    repo.write(&[restore_all("undo-1", &sources)]);
    assert_eq!(repo.written(), Notes::new());
}

#[test]
fn changes_since_the_reading_are_conflicts() {
    let (repo, ids) = repository();
    let records = repo.records(&ids);
    repo.remember("decisions", &[(commit_of(&ids[0]), &note("other", "words"))]);
    let gone = OriginRecord { id: id("decisions", &sha(99)), ..OriginRecord::default() };
    let units = [
        merge("run-1", &records[1], &records[0]),
        merge("run-1", &records[1], &records[2]),
        summarize("run-1", "sum_02", &[&gone]),
    ];
    let tips = repo.tips();
    let published = repo.origin().write(&units[..1]).unwrap();
    assert_eq!(repo.tips(), tips, "the unit is left alone as a whole");
    assert_eq!((published.units.len(), &published.conflicts[0].id), (0, &ids[0]));
    let published = repo.origin().write(&units).unwrap();
    assert_eq!(published.units, [1]);
    let reasons: Vec<_> = published.conflicts.iter().map(|c| (c.unit, c.reason.as_str())).collect();
    let expected = [
        (0, "it was changed since it was read"),
        (2, "there is no commit to attach it to: none of its sources is in a note"),
    ];
    assert_eq!(reasons, expected);
    // A change of another run is a change too.
    let published = repo.origin().write(&[merge("run-2", &records[3], &records[2])]).unwrap();
    assert_eq!(published.conflicts.len(), 1);
    // An appended record changes no other.
    let learning = commit_of(&ids[3]);
    let two = format!("{}\n{}", note(&learning[..4], "body"), note("appended", "later"));
    repo.remember("learnings", &[(learning, &two)]);
    repo.write(&[merge("run-3", &records[3], &repo.record(&ids[0]))]);
}

#[test]
fn later_lines_count_even_at_the_same_time() {
    let (repo, ids) = repository();
    for n in 1..4_i64 {
        let before = repo.record(&ids[0]);
        let after = OriginRecord { access_count: n, text: format!("text {n}"), ..before.clone() };
        repo.write(&[unit_of(&format!("run-{n}"), "R3", vec![update(&before, after, &[])])]);
        let now = repo.record(&ids[0]);
        assert_eq!((now.access_count, now.text), (n, format!("text {n}")));
    }
}

#[test]
fn two_units_of_one_call_may_change_one_record() {
    let (repo, ids) = repository();
    let records = repo.records(&ids);
    let units =
        [merge("run-1", &records[0], &records[1]), merge("run-1", &records[0], &records[2])];
    repo.write(&units);
    let tips = repo.tips();
    repo.write(&units);
    assert_eq!(repo.tips(), tips);
    let undo = [restore("undo", &[&records[0], &records[1], &records[2]])];
    repo.write(&undo);
    assert_eq!((repo.written(), repo.records(&ids)), (Notes::new(), records));
    let tips = repo.tips();
    repo.write(&undo);
    assert_eq!(repo.tips(), tips);
}

/// Undo of the later of two merges into one memory, as the mirror words it.
#[test]
fn a_partial_undo_goes_back_to_the_state_in_between() {
    let (repo, ids) = repository();
    let records = repo.records(&ids);
    repo.write(&[merge("run-1", &records[0], &records[1])]);
    let (between, notes) = (repo.origin().read().unwrap(), repo.written());
    let is_between = || {
        assert_eq!((&repo.origin().read().unwrap(), &repo.written()), (&between, &notes));
    };
    let survivor = repo.record(&ids[0]);
    repo.write(&[merge("run-2", &survivor, &records[2])]);
    let mut undo = restore("undo-2", &[&records[2]]);
    undo.changes.push(update(&repo.record(&ids[0]), survivor.clone(), &[]));
    for _ in 0..2 {
        repo.write(std::slice::from_ref(&undo));
        is_between();
    }
    // Merged away and back: a restored memory keeps the changes of an earlier run.
    repo.write(&[merge("run-3", &records[3], &survivor)]);
    let told = OriginRecord { raw: records[0].raw.clone(), ..survivor };
    repo.write(&[restore("undo-3", &[&told, &records[3]])]);
    is_between();
    // A memory that went from one survivor to another goes back to the first.
    for (run, into) in [("run-4", &ids[2]), ("undo-4", &ids[0])] {
        repo.write(&[unit_of(run, "R2", vec![retire(&repo.record(&ids[1]), Some(into))])]);
        assert_eq!(repo.record(&ids[1]).status, OriginStatus::Merged { into: into.clone() });
    }
    is_between();
    repo.write(&[restore("undo-1", &[&records[0], &records[1]])]);
    assert_eq!(repo.written(), Notes::new());
}

#[test]
fn a_restored_memory_may_be_another_than_ever() {
    let (repo, ids) = repository();
    let (newer, older) = (repo.record(&ids[0]), repo.record(&ids[1]));
    repo.write(&[merge("run-1", &newer, &older)]);
    let undo = [restore("undo", &[&OriginRecord { access_count: 9, ..older }])];
    repo.write(&undo);
    let record = repo.record(&ids[1]);
    assert_eq!((record.access_count, record.status), (9, OriginStatus::Live));
    let tips = repo.tips();
    repo.write(&undo);
    assert_eq!(repo.tips(), tips);
}

#[test]
fn lines_of_others_stay_as_they_are() {
    let (repo, ids) = repository();
    let commit = commit_of(&ids[0]);
    let theirs = format!(
        "{{memory_id: '{}', tier: warm, activation_count: 4, mood: good}}\n\nfree text: [\n",
        ids[0]
    );
    repo.set("refs/notes/mem-meta/decisions", &[(commit, &theirs)]);
    let before = repo.notes();
    let (newer, older) = (repo.record(&ids[0]), repo.record(&ids[1]));
    assert_eq!(newer.access_count, 4);
    repo.write(&[merge("run-1", &newer, &older)]);
    let content = repo.written()["refs/notes/mem-meta/decisions"][commit].clone();
    let added = content.strip_prefix(&theirs).unwrap();
    let fields = ledger::decode(added.trim_end()).unwrap();
    assert_eq!(ledger::text(&fields, "mood"), Some("good"));
    assert_eq!(repo.record(&ids[0]).access_count, 5);
    repo.write(&[restore("undo", &[&newer, &older])]);
    let mut after = repo.notes();
    after.retain(|_, notes| !notes.is_empty());
    assert_eq!(after, before);
}

/// Merges across namespaces and a summary of a survivor's neighbours.
fn forward(repo: &Repo, ids: &[String]) -> Vec<OriginUnit> {
    let records = repo.records(ids);
    vec![
        merge("run-1", &records[0], &records[2]),
        merge("run-1", &records[0], &records[4]),
        summarize("run-1", "sum_01", &[&records[1], &records[3], &records[5]]),
    ]
}

/// Undoes every change since `records` were read.
fn backward(repo: &Repo, records: &[OriginRecord]) -> Vec<OriginUnit> {
    let now = crate::testing::records(&repo.origin());
    let changes = undo(&now, &records.iter().collect::<Vec<_>>(), &["sum_01"]);
    vec![unit_of("undo", "undo", changes)]
}

/// Writes units, killed before the ref at a position; tells whether there was one.
fn killed(repo: &Repo, units: &[OriginUnit], position: usize) -> bool {
    let mut refs = 0;
    let outcome = write(&repo.origin(), units, &mut |name| {
        refs += 1;
        if refs <= position { Ok(()) } else { Err(OriginError::Locked { path: name.into() }) }
    });
    outcome.is_err()
}

/// Merges or changes two of the memories that count; returns these as they are before.
fn step(repo: &Repo, number: usize, seed: usize) -> Option<[OriginRecord; 2]> {
    let records = repo.origin().read().unwrap().records;
    let live: Vec<_> = records.into_iter().filter(|r| r.status == OriginStatus::Live).collect();
    let first = live.get(seed % live.len())?.clone();
    let second = live.get((seed / 7 + 1 + seed % live.len()) % live.len())?.clone();
    if first.id == second.id {
        return None;
    }
    let mut unit = merge(&format!("run-{number}"), &first, &second);
    if seed.is_multiple_of(3) {
        unit.changes.truncate(1);
    }
    repo.write(&[unit]);
    Some([first, second])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn runs_are_undone_one_by_one(seeds in prop::collection::vec(0..1000_usize, 1..7)) {
        let (repo, _) = wide();
        let state = || (repo.origin().read().unwrap(), repo.written());
        let mut steps = Vec::new();
        for (number, seed) in seeds.into_iter().enumerate() {
            let before = state();
            steps.extend(step(&repo, number, seed).map(|records| (records, before)));
        }
        while let Some(([first, second], before)) = steps.pop() {
            repo.write(&[restore("undo", &[&first, &second])]);
            prop_assert_eq!(state(), before);
        }
    }
}

#[test]
fn a_kill_between_two_refs_is_made_good_by_the_next_writing() {
    let (undisturbed, ids) = wide();
    let first = forward(&undisturbed, &ids);
    let before = undisturbed.records(&ids);
    undisturbed.write(&first);
    let undo = backward(&undisturbed, &before);
    let expected = undisturbed.written();
    let records = undisturbed.origin().read().unwrap();
    let mut kills = 0;
    for position in 0.. {
        let (repo, _) = wide();
        if !killed(&repo, &first, position) {
            break;
        }
        kills += 1;
        assert_eq!(repo.origin().read().unwrap().skipped, []);
        repo.write(&first);
        assert_eq!(repo.written(), expected, "killed before ref {position}");
        assert_eq!(repo.origin().read().unwrap(), records);
        assert!(killed(&repo, &undo, position), "as many refs go back");
        repo.write(&undo);
        assert_eq!(repo.written(), Notes::new(), "killed before ref {position}");
    }
    assert_eq!(kills, expected.len());
}

#[test]
fn a_unit_that_became_a_conflict_half_way_is_taken_back() {
    let (repo, ids) = wide();
    let units = forward(&repo, &ids)[2..].to_vec();
    assert!(killed(&repo, &units, 3), "the summary and an archived source are written");
    assert_eq!(repo.origin().read().unwrap().records.len(), 7);
    repo.remember("patterns", &[(commit_of(&ids[5]), &note("changed", "meanwhile"))]);
    let published = repo.origin().write(&units).unwrap();
    assert_eq!((published.units.len(), &published.conflicts[0].id), (0, &ids[5]));
    assert_eq!(repo.written(), Notes::new());
}

/// An undo took the lines out whatever others had said of the memory since.
#[test]
fn an_undo_leaves_what_others_changed_since() {
    let (repo, ids) = wide();
    let before = repo.records(&ids);
    repo.write(&forward(&repo, &ids));
    let undo = backward(&repo, &before);
    let (name, commit) = ("refs/notes/mem-meta/decisions", commit_of(&ids[1]));
    let note = repo.written()[name][commit].clone();
    let line = format!("\"memory_id\": \"{}\", \"tier\": \"hot\"", ids[1]);
    let later = format!("{note}{{{line}, \"updated_at\": \"2027-01-01T00:00:00Z\"}}\n");
    repo.set(name, &[(commit, &later)]);
    let edited = repo.written();
    let published = repo.origin().write(&undo).unwrap();
    assert_eq!((published.units.len(), &published.conflicts[0].id), (0, &ids[1]));
    assert_eq!(repo.written(), edited);
    repo.set(name, &[(commit, &note)]);
    repo.write(&undo);
    assert_eq!(repo.written(), Notes::new());
}

#[test]
fn a_ref_that_moves_meanwhile_is_read_again() {
    let (repo, ids) = wide();
    let units = forward(&repo, &ids);
    let commit = commit_of(&ids[0]);
    let theirs = "{memory_id: 'decisions:0000000:0', tier: hot}\n";
    let mut times = 0;
    let published = write(&repo.origin(), &units, &mut |name| {
        if name.ends_with("mem-meta/decisions") && times < 3 {
            times += 1;
            repo.set(name, &[(commit, &theirs.repeat(times))]);
        }
        Ok(())
    });
    assert_eq!((published.unwrap().units, times), (vec![0, 1, 2], 3));
    let content = &repo.written()["refs/notes/mem-meta/decisions"][commit];
    assert!(content.contains(theirs.trim_end()) && content.contains("run-1"), "{content}");
    assert_eq!(repo.record(&ids[0]).access_count, 1);
}

#[test]
fn two_writers_at_once_lose_nothing() {
    let (repo, ids) = wide();
    let units = forward(&repo, &ids);
    std::thread::scope(|scope| {
        let writers: Vec<_> = units
            .iter()
            .map(|unit| scope.spawn(|| repo.origin().write(std::slice::from_ref(unit)).unwrap()))
            .collect();
        for (position, writer) in writers.into_iter().enumerate() {
            let published = writer.join().unwrap();
            // The second merge into one memory may come after the first one, which changed it.
            assert!(published.units == [0] || position < 2, "{:?}", published.conflicts);
        }
    });
    let contents = repo.origin().read().unwrap();
    let ids: BTreeSet<&String> = contents.records.iter().map(|record| &record.id).collect();
    assert_eq!((ids.len(), contents.skipped.len()), (7, 0));
}

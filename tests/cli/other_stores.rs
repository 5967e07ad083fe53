//! JSON memory folders and git notes, from the dry run to the undo.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::killed_stores::git_notes;
use crate::support::TestFolder;

const NOW: [&str; 2] = ["--now", "2026-11-24T12:00:00Z"];

pub(crate) fn entry(id: &str, kind: &str, text: &str, reads: u64) -> Value {
    json!({
        "id": id, "type": kind, "subtype": "note", "created_by": "DEV-001",
        "created_at": "2026-01-05T10:00:00Z", "updated_at": "2026-01-05T10:00:00Z",
        "last_accessed": "2026-11-20T10:00:00Z", "scope": "agent", "scope_id": "DEV-001",
        "tags": ["deploy"], "priority": "medium", "content": { "fact": text },
        "access_count": reads, "ours": { "kept": true }
    })
}

/// A folder of an agent: two equal entries, and a procedure that is read often.
fn folder(dir: &TestFolder) {
    let entries = json!({ "version": "1.0", "entries": [
        entry("mem_aaaaaaaaaaa1", "factual", "The staging server listens on port 8080.", 3),
        entry("mem_aaaaaaaaaaa2", "factual", "The staging server listens on port 8080.", 3),
        entry("mem_aaaaaaaaaaa3", "procedural", "Run make release, then push the tag.", 6),
    ] });
    std::fs::create_dir_all(dir.path("memory/agents/DEV-001")).unwrap();
    std::fs::create_dir_all(dir.path("memory/global")).unwrap();
    dir.write("memory/global/_index.json", "{\"version\":\"1.0\",\"entries\":[]}");
    let text = serde_json::to_string_pretty(&entries).unwrap();
    dir.write("memory/agents/DEV-001/memories.json", text);
}

fn execute(dir: &TestFolder, store: &str) -> String {
    let words = ["consolidate", store, "--execute", "--max-change-share", "1"];
    dir.succeed(&[&words[..], &NOW].concat())
}

#[test]
fn a_folder_is_merged_promoted_and_taken_back() {
    let dir = TestFolder::new();
    folder(&dir);
    let before = dir.own_files();
    let dry = dir.succeed(&[&["consolidate", "memory"][..], &NOW].concat());
    assert!(dry.contains("1 identical") && dry.contains("1 promoted"), "{dry}");
    assert_eq!(dir.own_files(), before);

    let _ = execute(&dir, "memory");
    let own = entries(&dir, "memory/agents/DEV-001/memories.json");
    assert_eq!(own.len(), 2, "{own:?}");
    assert_eq!((&own[0]["access_count"], &own[0]["ours"]), (&json!(6), &json!({ "kept": true })));
    let copies = entries(&dir, "memory/teams/development/memories.json");
    assert_eq!(copies[0]["scope"], "team");
    assert_eq!(own[1]["promoted_to"], copies[0]["id"], "{own:?}");
    assert_eq!(entries(&dir, "memory/archive/agents/DEV-001/memories.json").len(), 1);

    let again = dir.succeed(&[&["consolidate", "memory"][..], &NOW].concat());
    assert!(again.contains("nothing to do"), "{again}");
    let _ = dir.succeed("undo memory latest --execute");
    let name = dir.path("memory/agents/DEV-001/memories.json");
    assert_eq!(dir.own_files()[&name], before[&name]);
    // Nothing is left of the run's files: its copy went to the archive once, and the archive got an
    // index.
    for gone in ["teams/development/memories.json", "archive/_index.json", "archive/teams"] {
        let path = dir.path("memory").join(gone);
        assert!(dir.own_files().keys().all(|file| !file.starts_with(&path)), "{gone}");
    }
}

/// Asserts that an entry fits the owner's schema; `supersedes` may be a list besides, as its rules
/// write it.
#[track_caller]
fn assert_fits_the_owner(entry: &Value) {
    for key in ["id", "type", "created_by", "created_at", "content"] {
        assert!(entry.get(key).is_some(), "{key}: {entry}");
    }
    let one_of = |key: &str, values: &[&str]| {
        assert!(entry[key].as_str().is_some_and(|value| values.contains(&value)), "{key}: {entry}");
    };
    one_of("type", &["factual", "procedural", "episodic", "semantic", "working"]);
    one_of("scope", &["global", "team", "agent", "project", "session"]);
    one_of("priority", &["critical", "high", "medium", "low"]);
    let id = entry["id"].as_str().and_then(|id| id.strip_prefix("mem_")).unwrap_or_default();
    let is_plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    assert!(id.len() == 12 && id.bytes().all(is_plain), "{entry}");
    assert!(entry["content"].is_object() && entry["access_count"].is_u64(), "{entry}");
    assert!(entry["tags"].as_array().unwrap().iter().all(Value::is_string), "{entry}");
    for key in ["supersedes", "superseded_by"] {
        let is_one = |value: &Value| value.is_null() || value.is_string() || value.is_array();
        assert!(entry.get(key).is_none_or(is_one), "{key}: {entry}");
    }
}

fn entries(dir: &TestFolder, name: &str) -> Vec<Value> {
    let text = dir.read(name);
    let file: Value = serde_json::from_str(&text).unwrap();
    file["entries"].as_array().unwrap().clone()
}

/// Steps 1 to 5 of a summary, and the full details in the archive.
#[test]
fn a_long_episode_is_summarised_in_its_file_and_taken_back() {
    let dir = TestFolder::new();
    folder(&dir);
    let chatter = "We kept looking at it for a while and talked about it. ".repeat(60);
    let details = format!("{chatter}Port 8080 was closed by Ops at 10:04. {chatter}");
    assert!(details.chars().count() > 5_000);
    let mut episode = entry("mem_ddddddddddd1", "episodic", "", 3);
    let timeline: Vec<Value> = (1..=9)
        .map(|n| json!({ "time": format!("10:0{n}"), "event": format!("step {n}") }))
        .collect();
    episode["content"] = json!({
        "title": "Outage of the queue", "details": details, "timeline": timeline,
        "outcome": "restarted", "lessons": ["look earlier"],
    });
    let name = "memory/agents/DEV-001/episodes.json";
    dir.write(name, format!("{:#}", json!({ "entries": [episode.clone()] })));
    let before = dir.own_files();
    let _ = execute(&dir, "memory");
    let own = &entries(&dir, name)[0];
    let (now, was) = (&own["content"], &episode["content"]);
    let summary = now["details"].as_str().unwrap();
    assert!(summary.contains("Port 8080 was closed by Ops at 10:04."), "{summary}");
    assert!(summary.len() < 500 && !summary.contains("kept looking"), "{summary}");
    for kept in ["title", "outcome", "lessons"] {
        assert_eq!(now[kept], was[kept], "{kept}");
    }
    let kept: Vec<Value> = [0, 1, 2, 6, 7, 8].map(|at| was["timeline"][at].clone()).to_vec();
    assert_eq!(now["timeline"], json!(kept));
    assert_eq!(own["tags"], json!(["deploy", "summarized"]));
    assert_ne!(own["updated_at"], episode["updated_at"]);
    assert_fits_the_owner(own);
    let archived = entries(&dir, "memory/archive/agents/DEV-001/episodes.json");
    assert_eq!(archived[0]["content"], *was, "nothing of it is lost");
    let again = dir.succeed(&[&["consolidate", "memory"][..], &NOW].concat());
    assert!(again.contains("nothing to do"), "{again}");
    let _ = dir.succeed("undo memory latest --execute");
    let path = dir.path(name);
    assert_eq!(dir.own_files()[&path], before[&path]);
}

#[test]
fn indexes_that_are_not_up_to_date_are_named_and_made_anew() {
    let dir = TestFolder::new();
    folder(&dir);
    let index = "memory/agents/DEV-001/_index.json";
    dir.write(index, "{\"version\":\"1.0\",\"entries\":[]}");
    let doctor = dir.run("doctor memory");
    assert!(doctor.err.contains("agents/DEV-001/_index.json is not up to date"), "{}", doctor.err);
    let rebuilt = dir.run("doctor memory --rebuild-indexes --set read_only=yes");
    rebuilt.fails_with(2, &["the configuration forbids to write"]);
    let rebuilt = dir.run("doctor memory --rebuild-indexes");
    assert!(rebuilt.err.contains("rebuilt agents/DEV-001/_index.json"), "{}", rebuilt.err);
    let text = dir.read(index);
    let written: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(written["entries"].as_array().unwrap().len(), 3, "{written}");
    let doctor = dir.run("doctor memory");
    assert!(!doctor.err.contains("not up to date"), "{}", doctor.err);
    let again = dir.run("doctor memory --rebuild-indexes");
    assert!(again.err.contains("all indexes are up to date"), "{}", again.err);
}

/// A trigger of memory folders ran the whole store, and the log named it manual.
#[test]
fn triggers_narrow_a_run_to_what_they_are_about() {
    let dir = TestFolder::new();
    folder(&dir);
    let text = "The queue is drained before each release.";
    let other = |id: &str| {
        let mut entry = entry(id, "factual", text, 3);
        for (key, value) in [("scope_id", "QA-001"), ("created_by", "QA-001")] {
            entry[key] = value.into();
        }
        entry
    };
    let entries = json!({ "entries": [other("mem_bbbbbbbbbbb1"), other("mem_bbbbbbbbbbb2")] });
    std::fs::create_dir_all(dir.path("memory/agents/QA-001")).unwrap();
    dir.write("memory/agents/QA-001/memories.json", entries.to_string());
    let overflow = [&["consolidate", "memory", "--trigger", "index_overflow"][..], &NOW].concat();
    let none = dir.run(&overflow);
    assert_eq!((none.code, &*none.out), (Some(0), ""), "{none:?}");
    assert!(none.err.contains("nothing to do"), "{}", none.err);
    let listed: Vec<Value> = (0..101).map(|n| json!({ "id": format!("mem_{n:012}") })).collect();
    let index = json!({ "version": "1.0", "entries": listed });
    dir.write("memory/agents/QA-001/_index.json", index.to_string());
    let planned = |words: &[&str]| {
        let document = dir.json(&[words, &["--json"]].concat());
        document["planned"]["merge"].as_u64().unwrap()
    };
    assert_eq!(planned(&overflow), 1, "only what the index is of");
    let whole = [&["consolidate", "memory"][..], &NOW].concat();
    assert_eq!(planned(&whole), 2);
    let execute = ["--execute", "--max-change-share", "1"];
    let _ = dir.succeed(&[&overflow[..], &execute].concat());
    let log = dir.read("memory/ops/consolidation-log.json");
    assert!(log.contains("\"trigger\": \"index_overflow\""), "{log}");

    let session = [&["consolidate", "memory", "--trigger", "session_end"][..], &NOW].concat();
    let first = dir.json(&[&session[..], &["--json"]].concat());
    // Without an index of vectors an incremental run searches everything, and says so.
    assert!(first["notes"].to_string().contains("there is no index"), "{first}");
    assert!(!dir.json(&[&whole[..], &["--json"]].concat())["notes"].to_string().contains("index"));
}

pub(crate) fn has_git() -> bool {
    Command::new("git").arg("--version").output().is_ok()
}

pub(crate) fn git(repository: &Path, words: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(repository).args(["-c", "user.name=n", "-c", "user.email=n@m"]);
    let output = command.args(words).env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn git_notes_are_merged_beside_the_owners_and_undone() {
    let dir = TestFolder::new();
    std::fs::create_dir(dir.path("repo")).unwrap();
    if !has_git() {
        eprintln!("skipped: git is not installed");
        return;
    }
    let run = |words: &[&str]| git(&dir.path("repo"), words);
    let _ = run(&["init", "--quiet", "."]);
    for day in ["01", "02"] {
        let _ = run(&["commit", "--quiet", "--allow-empty", "-m", day]);
        let note = format!(
            "---\ntype: decisions\ntimestamp: '2026-{day}-01T10:00:00+00:00'\nsummary: Events go to PostgreSQL\n\
             ---\n\nIt is there already.\n"
        );
        let _ = run(&["notes", "--ref=refs/notes/mem/decisions", "add", "-m", &note, "HEAD"]);
    }
    let refs = || run(&["for-each-ref", "refs/notes/mem"]);
    let owners = refs();
    let dry = dir.succeed(&[&["consolidate", "repo"][..], &NOW].concat());
    assert!(dry.contains("1 identical"), "{dry}");
    let all = run(&["for-each-ref", "refs/notes"]);
    assert!(!all.contains("mem-meta") && refs() == owners, "{all}");

    let _ = execute(&dir, "repo");
    assert_eq!(refs(), owners);
    let noted = ["notes", "--ref=refs/notes/mem-meta/decisions", "show", "HEAD~1"];
    assert!(run(&noted).contains("consolidated_into"));
    let _ = run(&["fsck", "--strict"]);
    // A folder of the work tree names the repository, and its mirror.
    std::fs::create_dir_all(dir.path("repo/src/deep")).unwrap();
    let again = dir.succeed(&[&["consolidate", "repo/src/deep"][..], &NOW].concat());
    assert!(again.contains("nothing to do"), "{again}");
    assert!(!dir.path("repo/src/deep/.memfold").exists());
    let again = dir.succeed(&[&["consolidate", "repo"][..], &NOW].concat());
    assert!(again.contains("nothing to do"), "{again}");

    let _ = dir.succeed("undo repo latest --execute");
    assert_eq!(run(&["notes", "--ref=refs/notes/mem-meta/decisions", "list"]), "");
    assert_eq!(refs(), owners);
}

/// A lock that no memfold left stays, and doctor names it.
#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn foreign_git_locks_stay() {
    if !has_git() {
        eprintln!("skipped: git is not installed");
        return;
    }
    let locked = |mark: &str, content: &str| {
        let dir = TestFolder::new();
        std::fs::create_dir(dir.path("store")).unwrap();
        git_notes(&dir);
        let lock = "store/.git/refs/notes/mem-meta/decisions.lock";
        std::fs::create_dir_all(dir.path("store/.git/refs/notes/mem-meta")).unwrap();
        dir.write(lock, content);
        dir.write("store/.git/memfold-lock", mark);
        let words =
            ["consolidate", "store", "--execute", "--max-change-share", "1", NOW[0], NOW[1]];
        let answer = dir.run(&words);
        assert!(answer.code == Some(5) && answer.err.contains("decisions.lock"), "{answer:?}");
        assert_eq!(dir.read(lock), content, "{mark}");
        dir
    };
    // Each waits its time for the lock.
    std::thread::scope(|scope| {
        for (mark, content) in [
            ("", ""),
            ("refs/notes/mem-meta/learnings 1111\n", "1111\n"),
            ("refs/notes/mem-meta/decisions 1111\n", "2222\n"),
            ("refs/notes/mem-meta/../mem-meta/decisions 1111\n", "1111\n"),
        ] {
            scope.spawn(move || locked(mark, content));
        }
    });
    let dir = locked("refs/notes/mem-meta/decisions 11", "1111\n");
    let found = dir.run("doctor store");
    assert!(found.err.contains("decisions.lock locks a ref that memfold writes"), "{found:?}");
    dir.write("store/.git/memfold-lock", "refs/notes/mem-meta/decisions 1111\n");
    let found = dir.run("doctor store");
    assert!(found.err.contains("the next run that writes removes it"), "{found:?}");
}

//! JSON memory folders and git notes, from the dry run to the undo.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use memfold::machine::Stopwatch;
use memfold_tests::torture::{Calls, Fault, FaultKind, Shim};
use serde_json::{Value, json};

use crate::support::Place;

const NOW: [&str; 2] = ["--now", "2026-11-24T12:00:00Z"];

fn entry(id: &str, kind: &str, text: &str, reads: u64) -> Value {
    json!({
        "id": id, "type": kind, "subtype": "note", "created_by": "DEV-001",
        "created_at": "2026-01-05T10:00:00Z", "updated_at": "2026-01-05T10:00:00Z",
        "last_accessed": "2026-11-20T10:00:00Z", "scope": "agent", "scope_id": "DEV-001",
        "tags": ["deploy"], "priority": "medium", "content": { "fact": text },
        "access_count": reads, "ours": { "kept": true }
    })
}

/// A folder of an agent: two equal entries, and a procedure that is read often.
fn folder(place: &Place) {
    let entries = json!({ "version": "1.0", "entries": [
        entry("mem_aaaaaaaaaaa1", "factual", "The staging server listens on port 8080.", 3),
        entry("mem_aaaaaaaaaaa2", "factual", "The staging server listens on port 8080.", 3),
        entry("mem_aaaaaaaaaaa3", "procedural", "Run make release, then push the tag.", 6),
    ] });
    std::fs::create_dir_all(place.path("memory/agents/DEV-001")).unwrap();
    std::fs::create_dir_all(place.path("memory/global")).unwrap();
    place.write("memory/global/_index.json", "{\"version\":\"1.0\",\"entries\":[]}");
    let text = serde_json::to_string_pretty(&entries).unwrap();
    place.write("memory/agents/DEV-001/memories.json", text);
}

/// The files of a store with their bytes, without what is memfold's.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        if path.is_dir() && path.file_name().is_some_and(|name| name != ".memfold") {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.is_file() {
            found.insert(path.display().to_string(), std::fs::read(&path).unwrap());
        }
    }
    found
}

fn execute(place: &Place, store: &str) -> String {
    let words = ["consolidate", store, "--execute", "--max-change-share", "1"];
    place.succeed(&[&words[..], &NOW].concat())
}

#[test]
fn a_folder_is_merged_promoted_and_taken_back() {
    let place = Place::new();
    folder(&place);
    let before = files(&place.path("memory"));
    let dry = place.succeed(&[&["consolidate", "memory"][..], &NOW].concat());
    assert!(dry.contains("1 identical") && dry.contains("1 promoted"), "{dry}");
    assert_eq!(files(&place.path("memory")), before);

    let _ = execute(&place, "memory");
    let own = entries(&place, "memory/agents/DEV-001/memories.json");
    assert_eq!(own.len(), 2, "{own:?}");
    assert_eq!((&own[0]["access_count"], &own[0]["ours"]), (&json!(6), &json!({ "kept": true })));
    let copies = entries(&place, "memory/teams/development/memories.json");
    assert_eq!(copies[0]["scope"], "team");
    assert_eq!(own[1]["promoted_to"], copies[0]["id"], "{own:?}");
    assert_eq!(entries(&place, "memory/archive/agents/DEV-001/memories.json").len(), 1);

    let again = place.succeed(&[&["consolidate", "memory"][..], &NOW].concat());
    assert!(again.contains("nothing to do"), "{again}");
    let _ = place.succeed(&["undo", "memory", "latest", "--execute"]);
    let name = place.path("memory/agents/DEV-001/memories.json").display().to_string();
    assert_eq!(files(&place.path("memory"))[&name], before[&name]);
    // Nothing is left of what the run made: its copy went to the archive once, and the archive got an index.
    for gone in ["teams/development/memories.json", "archive/_index.json", "archive/teams"] {
        let path = place.path("memory").join(gone);
        assert!(!path.is_file() && files(&path).is_empty(), "{gone}");
    }
}

/// What the owner's schema says of an entry; `supersedes` may be a list besides, as its rules write it.
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

fn entries(place: &Place, name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(place.path(name)).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    file["entries"].as_array().unwrap().clone()
}

/// Steps 1 to 7 of a merge, as the rules of memory folders list them, and the log.
#[test]
fn a_merge_unites_tags_and_keeps_the_fields_of_both() {
    let place = Place::new();
    folder(&place);
    let text = "Backups are written to the vault at noon.";
    let mut older = entry("mem_ccccccccccc1", "factual", text, 3);
    let mut newer = entry("mem_ccccccccccc2", "factual", text, 3);
    older["content"] = json!({ "text": text });
    newer["content"] = json!({ "details": text });
    older["tags"] = json!(["a", "b", "c", "d", "e"]);
    newer["tags"] = json!(["a", "b", "c", "d", "e", "f"]);
    newer["created_at"] = "2026-02-05T10:00:00Z".into();
    newer["supersedes"] = json!(["mem_zzzzzzzzzzz0"]);
    older["tags"].as_array_mut().unwrap().swap(0, 4);
    let name = "memory/agents/DEV-001/backups.json";
    place.write(name, format!("{:#}", json!({ "entries": [older, newer] })));
    place.write("memory/agents/DEV-001/_index.json", "{\"version\":\"1.0\",\"entries\":[]}");
    place.succeed(&["doctor", "memory", "--rebuild-indexes"]);
    let before = files(&place.path("memory"));
    let _ = execute(&place, "memory");
    let own = entries(&place, name);
    assert_eq!(own.len(), 1, "{own:?}");
    assert_eq!(own[0]["id"], "mem_ccccccccccc2", "the newer one stays");
    assert_eq!(own[0]["content"], json!({ "details": text }));
    let lineage = json!([{ "id": "mem_ccccccccccc1", "content": { "text": text } }]);
    assert_eq!(own[0]["lineage"], lineage);
    assert_eq!(own[0]["supersedes"], json!(["mem_zzzzzzzzzzz0", "mem_ccccccccccc1"]));
    assert_eq!(own[0]["tags"], json!(["a", "b", "c", "d", "e", "f"]));
    let archived = entries(&place, "memory/archive/agents/DEV-001/backups.json");
    assert_eq!(archived[0]["superseded_by"], "mem_ccccccccccc2");
    assert_eq!(archived[0]["content"], json!({ "text": text }));
    let live = entries(&place, "memory/agents/DEV-001/memories.json");
    let copies = entries(&place, "memory/teams/development/memories.json");
    assert_eq!(copies[0]["content"], live[1]["content"]);
    for entry in own.iter().chain(&archived).chain(&live).chain(&copies) {
        assert_fits_the_owner(entry);
    }
    let index = std::fs::read_to_string(place.path("memory/agents/DEV-001/_index.json")).unwrap();
    assert!(index.contains("mem_ccccccccccc2") && !index.contains("mem_ccccccccccc1"), "{index}");
    let index = place.path("memory/archive/agents/DEV-001/_index.json");
    let index = std::fs::read_to_string(index)
        .or_else(|_| std::fs::read_to_string(place.path("memory/archive/_index.json")));
    assert!(index.unwrap().contains("mem_ccccccccccc1"));
    let log = std::fs::read_to_string(place.path("memory/ops/consolidation-log.json")).unwrap();
    let log: Value = serde_json::from_str(&log).unwrap();
    let last = log["entries"].as_array().unwrap().last().unwrap();
    assert_eq!(last["trigger"], "manual");
    assert!(last["timestamp"].is_string());
    assert_eq!(last["stats"]["memories_merged"], 2);
    assert_eq!(last["stats"]["memories_promoted"], 1);
    let again = place.succeed(&[&["consolidate", "memory"][..], &NOW].concat());
    assert!(again.contains("nothing to do"), "{again}");
    let _ = place.succeed(&["undo", "memory", "latest", "--execute"]);
    let path = place.path(name).display().to_string();
    assert_eq!(files(&place.path("memory"))[&path], before[&path]);
}

/// Steps 1 to 5 of a summary, and the full details in the archive.
#[test]
fn a_long_episode_is_summarised_in_its_file_and_taken_back() {
    let place = Place::new();
    folder(&place);
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
    place.write(name, format!("{:#}", json!({ "entries": [episode.clone()] })));
    let before = files(&place.path("memory"));
    let _ = execute(&place, "memory");
    let own = &entries(&place, name)[0];
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
    let archived = entries(&place, "memory/archive/agents/DEV-001/episodes.json");
    assert_eq!(archived[0]["content"], *was, "nothing of it is lost");
    let again = place.succeed(&[&["consolidate", "memory"][..], &NOW].concat());
    assert!(again.contains("nothing to do"), "{again}");
    let _ = place.succeed(&["undo", "memory", "latest", "--execute"]);
    let path = place.path(name).display().to_string();
    assert_eq!(files(&place.path("memory"))[&path], before[&path]);
}

#[test]
fn indexes_that_are_not_up_to_date_are_named_and_made_anew() {
    let place = Place::new();
    folder(&place);
    let index = "memory/agents/DEV-001/_index.json";
    place.write(index, "{\"version\":\"1.0\",\"entries\":[]}");
    let doctor = place.run(&["doctor", "memory"]);
    assert!(doctor.err.contains("agents/DEV-001/_index.json is not up to date"), "{}", doctor.err);
    let rebuilt = place.run(&["doctor", "memory", "--rebuild-indexes", "--set", "read_only=yes"]);
    rebuilt.fails_with(2, &["the configuration forbids to write"]);
    let rebuilt = place.run(&["doctor", "memory", "--rebuild-indexes"]);
    assert!(rebuilt.err.contains("rebuilt agents/DEV-001/_index.json"), "{}", rebuilt.err);
    let text = std::fs::read_to_string(place.path(index)).unwrap();
    let written: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(written["entries"].as_array().unwrap().len(), 3, "{written}");
    let doctor = place.run(&["doctor", "memory"]);
    assert!(!doctor.err.contains("not up to date"), "{}", doctor.err);
    let again = place.run(&["doctor", "memory", "--rebuild-indexes"]);
    assert!(again.err.contains("all indexes are up to date"), "{}", again.err);
}

/// A trigger of memory folders ran the whole store, and the log said manual.
#[test]
fn triggers_narrow_a_run_to_what_they_are_about() {
    let place = Place::new();
    folder(&place);
    let text = "The queue is drained before each release.";
    let other = |id: &str| {
        let mut entry = entry(id, "factual", text, 3);
        for (key, value) in [("scope_id", "QA-001"), ("created_by", "QA-001")] {
            entry[key] = value.into();
        }
        entry
    };
    let entries = json!({ "entries": [other("mem_bbbbbbbbbbb1"), other("mem_bbbbbbbbbbb2")] });
    std::fs::create_dir_all(place.path("memory/agents/QA-001")).unwrap();
    place.write("memory/agents/QA-001/memories.json", entries.to_string());
    let overflow = [&["consolidate", "memory", "--trigger", "index_overflow"][..], &NOW].concat();
    let none = place.run(&overflow);
    assert_eq!((none.code, &*none.out), (Some(0), ""), "{none:?}");
    assert!(none.err.contains("nothing to do"), "{}", none.err);
    let listed: Vec<Value> = (0..101).map(|n| json!({ "id": format!("mem_{n:012}") })).collect();
    let index = json!({ "version": "1.0", "entries": listed });
    place.write("memory/agents/QA-001/_index.json", index.to_string());
    let planned = |words: &[&str]| {
        let document = place.json(&[words, &["--json"]].concat());
        document["planned"]["merge"].as_u64().unwrap()
    };
    assert_eq!(planned(&overflow), 1, "only what the index is of");
    let whole = [&["consolidate", "memory"][..], &NOW].concat();
    assert_eq!(planned(&whole), 2);
    let execute = ["--execute", "--max-change-share", "1"];
    let _ = place.succeed(&[&overflow[..], &execute].concat());
    let log = std::fs::read_to_string(place.path("memory/ops/consolidation-log.json")).unwrap();
    assert!(log.contains("\"trigger\": \"index_overflow\""), "{log}");

    let session = [&["consolidate", "memory", "--trigger", "session_end"][..], &NOW].concat();
    let first = place.json(&[&session[..], &["--json"]].concat());
    // Without an index of vectors such a run looks at everything, and says so.
    assert!(first["notes"].to_string().contains("there is no index"), "{first}");
    assert!(
        !place.json(&[&whole[..], &["--json"]].concat())["notes"].to_string().contains("index")
    );
}

fn git(place: &Place, words: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    command.current_dir(place.path("repo")).args(["-c", "user.name=n", "-c", "user.email=n@m"]);
    let output = command.args(words).env("GIT_CONFIG_GLOBAL", "/dev/null").output().ok()?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words:?}: {stderr}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn notes_are_merged_beside_those_of_their_owner_and_taken_back() {
    let place = Place::new();
    std::fs::create_dir(place.path("repo")).unwrap();
    if Command::new("git").arg("--version").output().is_err() {
        eprintln!("skipped: git is not installed");
        return;
    }
    let run = |words: &[&str]| git(&place, words).unwrap();
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
    let dry = place.succeed(&[&["consolidate", "repo"][..], &NOW].concat());
    assert!(dry.contains("1 identical"), "{dry}");
    let all = run(&["for-each-ref", "refs/notes"]);
    assert!(!all.contains("mem-meta") && refs() == owners, "{all}");

    let _ = execute(&place, "repo");
    assert_eq!(refs(), owners);
    let noted = ["notes", "--ref=refs/notes/mem-meta/decisions", "show", "HEAD~1"];
    assert!(run(&noted).contains("consolidated_into"));
    let _ = run(&["fsck", "--strict"]);
    // A folder of the work tree names the repository, and its mirror.
    std::fs::create_dir_all(place.path("repo/src/deep")).unwrap();
    let again = place.succeed(&[&["consolidate", "repo/src/deep"][..], &NOW].concat());
    assert!(again.contains("nothing to do"), "{again}");
    assert!(!place.path("repo/src/deep/.memfold").exists());
    let again = place.succeed(&[&["consolidate", "repo"][..], &NOW].concat());
    assert!(again.contains("nothing to do"), "{again}");

    let _ = place.succeed(&["undo", "repo", "latest", "--execute"]);
    assert_eq!(run(&["notes", "--ref=refs/notes/mem-meta/decisions", "list"]), "");
    assert_eq!(refs(), owners);
}

/// Makes a repository with two namespaces of three pairs each.
fn repository_with_pairs(place: &Place) {
    std::fs::create_dir(place.path("repo")).unwrap();
    let run = |words: &[&str]| git(place, words).unwrap();
    let _ = run(&["init", "--quiet", "."]);
    for (at, text) in ["Events go to PostgreSQL", "Builds run on four workers", "Logs are kept"]
        .iter()
        .flat_map(|text| [text, text])
        .enumerate()
    {
        let _ = run(&["commit", "--quiet", "--allow-empty", "-m", &at.to_string()]);
        for namespace in ["decisions", "learnings"] {
            let note = format!(
                "---\ntype: {namespace}\ntimestamp: '2026-0{}-01T10:00:00+00:00'\nsummary: {text}\n\
                 ---\n\nIn {namespace}.\n",
                at + 1
            );
            let name = format!("--ref=refs/notes/mem/{namespace}");
            let _ = run(&["notes", &name, "add", "-m", &note, "HEAD"]);
        }
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for item in std::fs::read_dir(from).unwrap() {
        let item = item.unwrap();
        let to = to.join(item.file_name());
        match item.file_type().unwrap().is_dir() {
            true => copy(&item.path(), &to),
            false => drop(std::fs::copy(item.path(), to).unwrap()),
        }
    }
}

/// Returns the notes that memfold wrote, without the time and the id of their run.
fn written_notes(place: &Place) -> BTreeMap<String, Vec<String>> {
    let names = git(place, &["for-each-ref", "--format=%(refname)", "refs/notes"]).unwrap();
    let ours = names.lines().filter(|name| name.starts_with("refs/notes/mem-"));
    let notes = ours.map(|name| {
        let reference = format!("--ref={name}");
        let list = git(place, &["notes", &reference, "list"]).unwrap();
        let commits = list.lines().filter_map(|line| line.split_once(' '));
        (name.to_owned(), commits.map(|(_, commit)| commit.to_owned()).collect())
    });
    notes.collect()
}

/// Returns what a process that ended must not leave in a repository: locks, and objects without a name.
fn left_in_repository(place: &Place) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![place.path("repo/.git")];
    while let Some(folder) = open.pop() {
        for item in std::fs::read_dir(folder).unwrap() {
            let path = item.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.ends_with(".lock") || name.starts_with(".tmp") || name.starts_with("tmp_") {
                found.push(path);
            } else if path.is_dir() {
                open.push(path);
            }
        }
    }
    found
}

/// Kills a command: at one of its writes in the repository, or after a part of the time that it takes.
fn kill_within(mut command: Command, shim: Option<(&Shim, &Path, u64)>, after: Duration) -> bool {
    if let Some((shim, folder, at)) = shim {
        shim.inject(&mut command, folder, Fault { kind: FaultKind::Kill, at, is_sticky: true });
    }
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    if shim.is_none() {
        std::thread::sleep(after);
        let _ended_already = child.kill();
    }
    !child.wait().unwrap().success()
}

/// A kill left `.git/refs/notes/mem-meta/decisions.lock`, at which every later run stopped, and nameless objects.
#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn kills_leave_nothing_in_a_repository() {
    if Command::new("git").arg("--version").output().is_err() {
        eprintln!("skipped: git is not installed");
        return;
    }
    let kills = std::env::var("MEMFOLD_TEST_KILLS").map_or(20, |kills| kills.parse().unwrap());
    let execute = ["consolidate", "repo", "--execute", "--max-change-share", "1", NOW[0], NOW[1]];
    let undo = ["undo", "repo", "latest", "--execute"];
    let (template, place) = (Place::new(), Place::new());
    repository_with_pairs(&template);
    let renew = || {
        let _ = std::fs::remove_dir_all(place.path("repo"));
        copy(&template.path("repo"), &place.path("repo"));
    };
    let shim = Shim::build();
    let git_folder = place.path("repo/.git");
    let mut measured = Vec::new();
    renew();
    for words in [&execute[..], &undo] {
        let mut command = place.command(words);
        let counter = shim.as_ref().map(|s| s.count(&mut command, &git_folder, Calls::Writes));
        let clock = Stopwatch::start();
        assert!(command.output().unwrap().status.success());
        let writes =
            counter.map_or(0, |file| std::fs::read_to_string(file).unwrap().parse().unwrap());
        measured.push((Duration::from_secs_f64(clock.seconds()), writes, written_notes(&place)));
        assert_eq!(left_in_repository(&place), [] as [PathBuf; 0]);
    }
    let (mut killed, mut left) = (0, 0);
    for number in 0..kills {
        renew();
        let is_undo = number % 2 == 1;
        if is_undo {
            let _ = place.succeed(&execute);
        }
        let (words, (time, writes, expected)) =
            if is_undo { (&undo[..], &measured[1]) } else { (&execute[..], &measured[0]) };
        // Every third kill is at a time, the others at writes, spread over all of them.
        let share = f64::from(number) * 0.618_034 % 1.0;
        let at = (share * *writes as f64) as u64 + 1;
        let shim = shim.as_ref().filter(|_| number % 3 != 2);
        let shim = shim.map(|shim| (shim, git_folder.as_path(), at));
        let is_killed = kill_within(place.command(words), shim, time.mul_f64(share));
        killed += usize::from(is_killed);
        left += usize::from(!left_in_repository(&place).is_empty());
        let _ = git(&place, &["fsck", "--strict"]).unwrap();
        // A run that was killed before it began is begun, any other one is completed.
        if is_killed && (!is_undo || written_notes(&place) != *expected) {
            let _ = place.run(words);
        }
        let _ = place.succeed(&execute);
        assert_eq!(
            &written_notes(&place),
            expected,
            "kill {number} at write {at}, {share} of {time:?}"
        );
        assert_eq!(left_in_repository(&place), [] as [PathBuf; 0], "kill {number} at write {at}");
    }
    eprintln!("{killed} of {kills} killed, {left} of them left a lock or objects");
    assert!(killed > 0, "every run ended before it could be killed");
}

/// A lock that no memfold left stays, and doctor names it.
#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn locks_of_others_stay() {
    if Command::new("git").arg("--version").output().is_err() {
        eprintln!("skipped: git is not installed");
        return;
    }
    let place = Place::new();
    repository_with_pairs(&place);
    let lock = "repo/.git/refs/notes/mem-meta/decisions.lock";
    std::fs::create_dir_all(place.path("repo/.git/refs/notes/mem-meta")).unwrap();
    for (mark, content) in [
        ("", ""),
        ("refs/notes/mem-meta/learnings 1111\n", "1111\n"),
        ("refs/notes/mem-meta/decisions 1111\n", "2222\n"),
        ("refs/notes/mem-meta/../mem-meta/decisions 1111\n", "1111\n"),
        ("refs/notes/mem-meta/decisions 11", "1111\n"),
    ] {
        place.write(lock, content);
        place.write("repo/.git/memfold-lock", mark);
        let words = ["consolidate", "repo", "--execute", "--max-change-share", "1", NOW[0], NOW[1]];
        let answer = place.run(&words);
        assert!(answer.code == Some(5) && answer.err.contains("decisions.lock"), "{answer:?}");
        assert_eq!(std::fs::read_to_string(place.path(lock)).unwrap(), content, "{mark}");
    }
    let found = place.run(&["doctor", "repo"]);
    assert!(found.err.contains("decisions.lock locks a ref that memfold writes"), "{found:?}");
    place.write("repo/.git/memfold-lock", "refs/notes/mem-meta/decisions 1111\n");
    let found = place.run(&["doctor", "repo"]);
    assert!(found.err.contains("the next run that writes removes it"), "{found:?}");
}

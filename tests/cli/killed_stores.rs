//! A run on a store of another system, or the undo of one, is killed at a write: the store has every
//! fact in whole files, and the run can be completed or undone, byte for byte.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use memfold::machine::Stopwatch;
use memfold_tests::torture::{Calls, Fault, FaultKind, Shim};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::other_stores::{entry, git, has_git};
use crate::sqlite_tables::rows;
use crate::support::{TestFolder, copy};

/// The facts of a store; each stands there twice.
const FACTS: usize = 5;
/// Kills for each kind; `MEMFOLD_TEST_KILLS=300` for more.
const KILLS: u32 = 4;
/// The folder of the mirror and the removed texts.
const STATE: &str = "state";
/// The folder of the store.
const STORE: &str = "store";

/// What the owner's program reads: files by their paths, rows, or notes.
type Content = BTreeMap<String, String>;

struct Kind {
    name: &'static str,
    /// The path of the store.
    path: &'static str,
    /// Further arguments of a run.
    words: &'static [&'static str],
    make: fn(&TestFolder),
    content: fn(&TestFolder) -> Content,
}

const KINDS: [Kind; 5] = [
    Kind { name: "markdown", path: STORE, words: &[], make: markdown, content: files },
    Kind { name: "json_folder", path: STORE, words: &[], make: json_folder, content: files },
    Kind {
        name: "mcp_memory",
        path: "store/memory.jsonl",
        words: &[],
        make: mcp_memory,
        content: files,
    },
    Kind { name: "git_notes", path: STORE, words: &[], make: git_notes, content: notes },
    Kind {
        name: "sqlite_table",
        path: "store/notes.db",
        words: &["--table", "notes", "--text", "body", "--removed", "delete"],
        make: sqlite_table,
        content: table,
    },
];

fn fact(at: usize) -> String {
    format!("Server {at} listens on port {}", 8000 + at)
}

fn facts() -> impl Iterator<Item = String> {
    (0..FACTS).map(fact)
}

/// An index that links to files of one memory, and bullets.
fn markdown(dir: &TestFolder) {
    let mut index = "# Memory\r\n\r\n".to_owned();
    for at in 0..2 {
        for copy in ["a", "b"] {
            let name = format!("server-{at}-{copy}.md");
            let text = format!("---\nname: {at}{copy}\ntype: server\n---\n\n{}\n", fact(at));
            dir.write(&format!("{STORE}/{name}"), text);
            index.push_str(&format!("- [{at}{copy}]({name})\r\n"));
        }
    }
    for twice in [". ", "."] {
        index.push_str(&format!("\r\n## Notes{}\r\n\r\n", twice.trim_end().len()));
        facts().skip(2).for_each(|fact| index.push_str(&format!("* {fact}{twice}\r\n")));
    }
    dir.write("store/MEMORY.md", index);
}

/// A list with an index beside it.
fn json_folder(dir: &TestFolder) {
    let folder = format!("{STORE}/agents/DEV-001");
    std::fs::create_dir_all(dir.path(&folder)).unwrap();
    let ids = (0..2 * FACTS).map(|at| format!("mem_{at:012}"));
    let entries: Vec<Value> = ids
        .clone()
        .zip(facts().chain(facts()))
        .map(|(id, fact)| entry(&id, "factual", &fact, 3))
        .collect();
    let listed: Vec<Value> =
        ids.map(|id| json!({ "id": id, "file_path": "memories.json" })).collect();
    let write = |name: &str, value: Value| {
        dir.write(&format!("{folder}/{name}"), serde_json::to_string_pretty(&value).unwrap())
    };
    write("memories.json", json!({ "version": "1.0", "entries": entries }));
    write("_index.json", json!({ "version": "1.0", "entry_count": 2 * FACTS, "entries": listed }));
}

/// Two entities, of which one has every fact twice.
fn mcp_memory(dir: &TestFolder) {
    let texts: Vec<String> = facts().chain(facts()).collect();
    let line = json!({ "type": "entity", "name": "A", "entityType": "t", "observations": texts });
    let other = "{\"type\": \"entity\", \"name\": \"B\", \"observations\": [\"x\"], \"y\": 1}\r\n";
    dir.write("store/memory.jsonl", format!("{other}{line}"));
}

/// A note on each of several commits, in two namespaces.
pub(crate) fn git_notes(dir: &TestFolder) {
    let run = |words: &[&str]| git(&dir.path(STORE), words);
    run(&["init", "--quiet", "."]);
    for (at, fact) in facts().chain(facts()).enumerate() {
        run(&["commit", "--quiet", "--allow-empty", "-m", &at.to_string()]);
        let namespace = ["decisions", "learnings"][at % FACTS % 2];
        let note = format!(
            "---\ntype: {namespace}\ntimestamp: '2026-01-{:02}T10:00:00+00:00'\nsummary: {fact}\n---\n\nText.\n",
            at + 1
        );
        run(&["notes", &format!("--ref=refs/notes/mem/{namespace}"), "add", "-m", &note, "HEAD"]);
    }
}

fn sqlite_table(dir: &TestFolder) {
    let connection = Connection::open(dir.path("store/notes.db")).unwrap();
    connection
        .execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT, extra BLOB)", [])
        .unwrap();
    for (at, fact) in facts().chain(facts()).enumerate() {
        let extra = (at % 2 == 0).then_some([at as u8, 0xfe]);
        let sql = "INSERT INTO notes (body, extra) VALUES (?, ?)";
        connection.execute(sql, (fact, extra)).unwrap();
    }
}

/// The files, but for locks and the log of runs, which stay.
fn files(dir: &TestFolder) -> Content {
    let root = dir.path(STORE);
    let files = dir.files().into_iter().filter_map(|(path, bytes)| {
        let name = path.strip_prefix(&root).ok()?.to_string_lossy().into_owned();
        let stays = name.ends_with(".memfold-lock") || name == "ops/consolidation-log.json";
        (!stays).then(|| (name, String::from_utf8(bytes).unwrap()))
    });
    files.collect()
}

/// The notes with their texts, the commits that have notes of memfold's, and the remains that a process must not leave.
fn notes(dir: &TestFolder) -> Content {
    let root = dir.path(STORE);
    git(&root, &["fsck", "--strict"]);
    let mut found = Content::new();
    for reference in git(&root, &["for-each-ref", "--format=%(refname)", "refs/notes"]).lines() {
        let name = format!("--ref={reference}");
        for line in git(&root, &["notes", &name, "list"]).lines() {
            let (_, commit) = line.split_once(' ').unwrap();
            // A line of memfold's names its run.
            let is_ours = reference.starts_with("refs/notes/mem-");
            let text =
                if is_ours { String::new() } else { git(&root, &["notes", &name, "show", commit]) };
            found.insert(format!("{reference} {commit}"), text);
        }
    }
    // A killed write of an object leaves a file beside the objects, as one of Git does.
    let is_object = |path: &Path| path.components().any(|part| part.as_os_str() == "objects");
    let left = dir.files().into_keys().filter_map(|path| {
        let name = path.file_name()?.to_str()?.to_owned();
        let is_left = name.trim_start_matches('.').starts_with("tmp") && !is_object(&path);
        (is_left || name.ends_with(".lock")).then_some(name)
    });
    found.extend(left.map(|name| (name, String::new())));
    found
}

fn table(dir: &TestFolder) -> Content {
    let path = dir.path("store/notes.db");
    let rows = rows(&path);
    let connection = Connection::open(&path).unwrap();
    let check: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    rows.into_iter().enumerate().map(|(at, row)| (at.to_string(), row)).collect()
}

/// The content without the archive, which names runs.
fn live(content: &Content) -> Vec<(&String, &String)> {
    content.iter().filter(|(name, _)| !name.contains("archive")).collect()
}

/// Asserts that a store has every fact, and no file that is cut off.
fn assert_whole(found: &Content, before: &Content, context: &str) {
    // A file that is being written has another name.
    let own: Vec<_> = found.iter().filter(|(name, _)| !name.contains(".memfold-")).collect();
    for fact in facts() {
        let is_live =
            |(name, text): &(&String, &String)| !name.contains("archive") && text.contains(&fact);
        assert!(own.iter().any(is_live), "{context}: {fact} is lost: {found:?}");
    }
    let known: Vec<&str> = before.values().flat_map(|text| text.split('\n')).collect();
    for (name, text) in own {
        let is_json = |text: &str| serde_json::from_str::<Value>(text).is_ok();
        let is_whole = match Path::new(name).extension().and_then(|ending| ending.to_str()) {
            Some("json") => is_json(text),
            Some("jsonl") => text.lines().all(is_json),
            Some("md") => text.split('\n').all(|line| known.contains(&line)),
            _ => true,
        };
        assert!(is_whole, "{context}: {name}: {text:?}");
    }
}

/// A store of one kind, the same one after a run, and a folder where commands are killed.
struct Fixture<'k> {
    kind: &'k Kind,
    shim: Shim,
    fresh: TestFolder,
    executed: TestFolder,
    dir: TestFolder,
    /// The arguments of a run and of its undo.
    commands: [Vec<&'k str>; 2],
    /// The number of their writes.
    writes: [u64; 2],
    before: Content,
    after: Content,
}

impl<'k> Fixture<'k> {
    /// Makes a store, and runs both commands undisturbed.
    fn new(kind: &'k Kind, shim: Shim) -> Self {
        let place = ["--mirror", "state/mirror.db"];
        let run = ["--now", "2026-11-24T12:00:00Z", "--execute", "--max-change-share", "1"];
        let execute = [&["consolidate", kind.path][..], kind.words, &run, &place].concat();
        let undo = [&["undo", kind.path, "latest", "--execute"][..], &place].concat();
        let (fresh, executed, dir) = (TestFolder::new(), TestFolder::new(), TestFolder::new());
        for folder in [STATE, STORE] {
            std::fs::create_dir(fresh.path(folder)).unwrap();
        }
        (kind.make)(&fresh);
        move_on(&fresh, &dir);
        let before = (kind.content)(&dir);
        let mut fixture = Self {
            kind,
            shim,
            fresh,
            executed,
            dir,
            commands: [execute, undo],
            writes: [0, 0],
            after: Content::new(),
            before,
        };
        fixture.count(0);
        fixture.after = fixture.content();
        move_on(&fixture.dir, &fixture.executed);
        fixture.count(1);
        assert_ne!(fixture.after, fixture.before, "{}", kind.name);
        assert_eq!(fixture.content(), fixture.before, "{}", kind.name);
        fixture
    }

    fn content(&self) -> Content {
        (self.kind.content)(&self.dir)
    }

    fn count(&mut self, command: usize) {
        let mut process = self.dir.command(&self.commands[command]);
        let counter = self.shim.count(&mut process, self.dir.folder(), Calls::Writes);
        let answer = self.dir.answer(process.output().unwrap());
        assert_eq!(answer.code, Some(0), "{}: {answer:?}", self.kind.name);
        self.writes[command] = std::fs::read_to_string(counter).unwrap().parse().unwrap();
    }

    /// Kills a command at a write, then completes the run or undoes it; tells whether the command was killed.
    fn kill(&self, number: u32, command: usize) -> bool {
        let is_undo = command == 1;
        move_on(if is_undo { &self.executed } else { &self.fresh }, &self.dir);
        let share = f64::from(number) * 0.618_034 % 1.0;
        let at = (share * self.writes[command] as f64) as u64 + 1;
        let words = &self.commands[command];
        let context = format!("{}: kill {number} at write {at} of {words:?}", self.kind.name);
        let mut process = self.dir.command(words);
        let fault = Fault { kind: FaultKind::Kill, at, is_sticky: true };
        self.shim.inject(&mut process, self.dir.folder(), fault);
        let ended = process.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        assert_whole(&self.content(), &self.before, &context);
        let is_completed = number.is_multiple_of(4);
        if is_completed {
            self.dir.succeed(&self.commands[0]);
            assert_eq!(live(&self.content()), live(&self.after), "{context}");
        }
        // A run that was completed is two runs.
        let mut undone = (0..3).map(|_| self.dir.run(&self.commands[1]));
        let last = undone.find(|answer| answer.code != Some(0));
        assert_eq!(self.content(), self.before, "{context}: {last:?}");
        if is_completed || is_undo {
            // Undone merges are not repeated.
            self.dir.succeed(&self.commands[0]);
            assert_eq!(self.content(), self.before, "{context}");
        }
        !ended.success()
    }
}

/// Replaces the store and the mirror of a folder by those of another one.
fn move_on(from: &TestFolder, to: &TestFolder) {
    for folder in [STATE, STORE] {
        let _ = std::fs::remove_dir_all(to.path(folder));
        copy(&from.path(folder), &to.path(folder));
    }
}

/// A kill left `.git/refs/notes/mem-meta/decisions.lock`, at which every later run stopped.
#[test]
#[expect(clippy::print_stderr, reason = "the counts are said")]
fn kills_lose_no_fact_of_any_kind_of_store() {
    let kills = std::env::var("MEMFOLD_TEST_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let has_git = has_git();
    let kill_all = |kind: &Kind| {
        let Some(shim) = Shim::build() else { return eprintln!("skipped: no C compiler on Linux") };
        let clock = Stopwatch::start();
        let fixture = Fixture::new(kind, shim);
        let mut killed = [0, 0];
        for number in 0..kills {
            let command = usize::from(number % 2 == 1);
            killed[command] += u32::from(fixture.kill(number, command));
        }
        let [execute, undo] = killed;
        assert!(
            execute + undo > kills / 2,
            "{}: commands ended before they were killed",
            kind.name
        );
        let counts = json!({
            "suite": "stores", "kind": kind.name, "trials": kills, "killed_during_execute": execute,
            "killed_during_undo": undo, "writes": fixture.writes, "seconds": clock.seconds(),
        });
        eprintln!("{counts}");
    };
    std::thread::scope(|threads| {
        for kind in KINDS.iter().filter(|kind| has_git || kind.name != "git_notes") {
            threads.spawn(move || kill_all(kind));
        }
    });
}

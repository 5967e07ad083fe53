//! Every output file of a command is checked before it works, and a run that stands is reported as
//! such.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;

use memfold_core::report::Report;
use memfold_tests::{memory, unit_vector};
use serde_json::Value;

use crate::support::{TestFolder, consolidate};

/// The same where X was there already, was the store, or could not be written for another reason: nothing is
/// applied, and nothing is touched.
#[test]
fn outputs_are_refused_before_the_first_write() {
    let dir = TestFolder::with_pair();
    dir.write("mine.json", "{\"my\": \"notes\"}");
    dir.write("mine.md", "mine");
    dir.write("config.yaml", "");
    std::fs::create_dir(dir.path("folder")).unwrap();
    let before = dir.files();
    let refused: [(&[&str], &str, i32); 12] = [
        (&["--report", "mine.json"], "mine.json exists", 2),
        (&["--report", "mine.html"], "mine.md exists", 2),
        (&["--report", "folder"], "it is a folder, not a file", 2),
        (&["--plan", "mine.json"], "was not written by an earlier run", 2),
        (&["--metrics", "mine.md"], "was not written by an earlier run", 2),
        (&["--plan", "brain.db"], "--plan brain.db is an input", 2),
        (&["--metrics", "./folder/../brain.db-wal"], "is an input", 2),
        (&["--config", "config.yaml", "--plan", "config.yaml"], "is an input", 2),
        (&["--plan", "x.json", "--metrics", "./x.json"], "name the same file", 2),
        (&["--plan", "r.md", "--report", "r.json"], "name the same file", 2),
        (&["--plan", "nowhere/p.json"], "failed to find the folder of nowhere/p.json", 1),
        (&["--report-dir", "mine.md"], "failed to write the report", 1),
    ];
    for (flags, message, code) in refused {
        let answer = dir.run(&[&consolidate(&["--execute"])[..], flags].concat());
        answer.fails_with(code, &[message, "hint: "]);
        assert!(before == dir.files(), "{flags:?}");
    }
    dir.succeed(&consolidate(&["--plan", "plan.json", "--metrics", "m.prom"]));
    dir.succeed(&consolidate(&["--plan", "plan.json", "--metrics", "m.prom"]));
}

/// The report's place was taken while the run was under way: the run stands, and its id, the place
/// of the report and the undo command are printed. Log lines came only after the run; now each is
/// there when its unit is done.
#[test]
fn run_stands_when_its_report_cannot_be_written() {
    const PAIRS: usize = 150;
    let rows = (0..2 * PAIRS).map(|at| {
        let text = format!("Shelf {} holds the tools of one workshop.", at / 2);
        let mut row = memory(at, text, &unit_vector(PAIRS, at / 2));
        // More than a pipe holds stands in the log, so that the run waits for its reader.
        row.id.push_str(&"x".repeat(500));
        row
    });
    let dir = TestFolder::with(&rows.collect::<Vec<_>>());
    let flags = ["--execute", "-v", "--max-change-share", "1", "--report", "out/r.json"];
    let mut child = dir
        .command(&consolidate(&flags))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut err = String::new();
    while !err.contains("CONSOLIDATE/MERGE") {
        assert_ne!(log.read_line(&mut err).unwrap(), 0, "{err}");
    }
    let state: String = dir.one("SELECT state FROM memfold_runs");
    assert_eq!(state, "running", "the unit is told before the run ends");
    dir.write("out/r.json", "somebody else's");
    log.read_to_string(&mut err).unwrap();
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(4), "{err}");
    let run_id: String = dir.one("SELECT run_id FROM memfold_runs");
    assert!(err.contains("error: failed to write the report: "), "{err}");
    let instead = err.split("hint: the report is ").nth(1).unwrap().split(" instead").next();
    let report = std::fs::read_to_string(instead.unwrap()).unwrap();
    let report: Report = serde_json::from_str(&report).unwrap();
    assert_eq!((report.run_id.as_str(), report.executed.applied), (&*run_id, PAIRS as u64));
    let undo =
        format!("note: run {run_id} stands; to take it back: memfold undo brain.db {run_id}");
    assert!(err.contains(&undo), "{err}");
    assert!(String::from_utf8(out.stdout).unwrap().contains(&run_id));
    assert!(err.contains(&format!("CONSOLIDATE/DONE partial applied={PAIRS} ")), "{err}");
    assert_eq!(std::fs::read(dir.path("out/r.json")).unwrap(), b"somebody else's");
}

/// `DONE ok` came after unfinished runs, `START` named dry_run for runs that wrote, failures had no
/// line.
#[test]
fn log_lines_cover_a_run_from_start_to_end() {
    let log = |err: &str| -> Vec<String> {
        let lines = err.lines().filter_map(|line| line.strip_prefix("CONSOLIDATE/"));
        lines.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    };
    let dir = TestFolder::with_pair();
    let dry = dir.run(&consolidate(&["-v", "--report", "dry.json"]));
    assert_eq!(log(&dry.err), ["START", "DETECT", "PLAN", "REPORT", "DONE"], "{}", dry.err);
    assert!(dry.err.contains(" mode=dry_run "), "{}", dry.err);
    let run = dir.run(&consolidate(&["-v", "--execute"]));
    let events = ["START", "DETECT", "PLAN", "EXECUTE", "MERGE", "REPORT", "DONE"];
    assert_eq!(log(&run.err), events, "{}", run.err);
    assert!(run.err.contains(" mode=execute "), "{}", run.err);
    let id = |event: &str| {
        let line = run.err.lines().find(|line| line.contains(event)).unwrap();
        line.split("run_id=").nth(1).unwrap().split(' ').next().unwrap().to_owned()
    };
    assert_eq!(id("/START"), id("/EXECUTE"));
    let failed = dir.run("consolidate nowhere.db -v");
    assert_eq!(log(&failed.err), ["ERROR"], "{}", failed.err);

    let dir = TestFolder::with_pair();
    dir.succeed(&consolidate(&["--save-plan"]));
    dir.sql("CREATE TRIGGER no BEFORE UPDATE ON stm BEGIN SELECT RAISE(ABORT, 'no'); END");
    let partial = dir.run("apply brain.db latest --execute -v");
    assert_eq!(partial.code, Some(4), "{partial:?}");
    assert_eq!(log(&partial.err), ["START", "EXECUTE", "ERROR", "REPORT", "DONE"], "{partial:?}");
    assert!(partial.err.contains("DONE partial applied=0 stale=0 failed=1"), "{partial:?}");
}

#[test]
fn verbose_runs_log_their_stages() {
    let dir = TestFolder::with_pair();
    let stages = |err: &str| -> Vec<String> {
        let lines = err.lines().filter_map(|line| line.strip_prefix("STAGE/"));
        lines.map(str::to_owned).collect()
    };
    assert!(stages(&dir.run(&consolidate(&[])).err).is_empty());
    let dry = dir.run(&consolidate(&["-v"]));
    let told = stages(&dry.err);
    let names: Vec<_> = told.iter().filter_map(|line| line.split(' ').next()).collect();
    let expected =
        ["load", "scan", "cluster", "plan", "run"].map(|at| format!("consolidation.{at}"));
    assert_eq!(names, expected, "{}", dry.err);
    assert!(told.iter().all(|line| line.contains(" ms=")), "{told:?}");
    assert!(told[4].contains(" store=brain.db mode=dry_run run_id="), "{told:?}");

    let both = stages(&dir.run(&consolidate(&["-vv"])).err);
    assert!(both[0].starts_with("consolidation.run begin "), "{both:?}");
    assert_eq!(both.len(), 2 * told.len(), "{both:?}");

    let run = dir.run(&consolidate(&["--execute", "-v", "--log-format", "json"]));
    let lines: Vec<Value> =
        run.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let persisted = lines.iter().find(|line| line["stage"] == "consolidation.persist").unwrap();
    assert_eq!(persisted["attributes"]["applied"], 1, "{persisted}");
    assert!(persisted["ms"].as_f64() > Some(0.0) && persisted["level"] == "info", "{persisted}");
    let is_logged = |line: &Value| {
        line["message"].as_str() == Some("CONSOLIDATE/DONE ok applied=1 stale=0 failed=0")
    };
    assert!(lines.iter().any(is_logged), "{}", run.err);
    let failed = dir.run("consolidate nowhere.db --log-format json");
    let failed: Value = serde_json::from_str(&failed.err).unwrap();
    assert_eq!(failed["level"], "error", "{failed}");
}

/// Only `consolidate --execute` wrote a report and metrics, so users who review first had neither.
#[test]
fn apply_writes_report_and_metrics() {
    let dir = TestFolder::with_pair();
    dir.succeed(&consolidate(&["--save-plan"]));
    let apply = ["apply", "brain.db", "latest", "--execute", "--report", "new/r.json"];
    let applied = dir.run(&[&apply[..], &["--metrics", "m.prom"]].concat());
    assert_eq!(applied.code, Some(0), "{applied:?}");
    let report: Value =
        serde_json::from_slice(&std::fs::read(dir.path("new/r.json")).unwrap()).unwrap();
    assert_eq!((&report["mode"], &report["state"]), (&"execute".into(), &"done".into()));
    assert_eq!(report["executed"]["applied"], 1);
    assert_eq!(report["merged"]["identical"], 1);
    assert_eq!(report["actions"][0]["label"], "a1");
    let run_id = report["run_id"].as_str().unwrap();
    assert!(applied.out.contains(run_id), "{applied:?}");
    let page = dir.read("new/r.md");
    assert!(page.contains("| a1 merge identical | m000001 ← m000000 |"), "{page}");
    let metrics = dir.read("m.prom");
    for line in ["memfold_memories 2", "memfold_executed{outcome=\"applied\"} 1"] {
        assert!(metrics.lines().any(|found| found == line), "{metrics}");
    }
    assert!(!metrics.contains("memfold_pairs"), "nothing was detected: {metrics}");
    let dir = TestFolder::with_pair();
    dir.succeed(&consolidate(&["--save-plan"]));
    dir.write("r.json", "mine");
    let before = dir.files();
    let apply = ["apply", "brain.db", "latest", "--execute", "--report"];
    dir.run(&[&apply[..], &["r.json"]].concat()).fails_with(2, &["r.json exists"]);
    assert!(before == dir.files());
    dir.succeed("apply brain.db latest --execute");
    let reports = std::fs::read_dir(dir.path("reports/consolidation")).unwrap().count();
    assert_eq!(reports, 2, "where consolidate writes them");
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, bits: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(bits)).unwrap();
}

/// Everything that commands write beside a store.
fn derive_all(dir: &TestFolder) {
    let run = ["--plan", "plan.json", "--save-plan", "--execute", "--max-change-share", "1"];
    dir.succeed(&[&["consolidate", "brain.db"][..], &run].concat());
    dir.succeed("index build brain.db");
    for output in ["rows.arrow", "rows.parquet"] {
        dir.succeed(&["export", "brain.db", "--output", output, "--with", "text"]);
    }
}

/// The copy of a store that only its owner could read was readable by everybody, and so was an export with texts.
#[test]
fn derived_files_are_as_private_as_the_store() {
    let dir = TestFolder::with_sample();
    set_mode(&dir.path("brain.db"), 0o600);
    derive_all(&dir);
    let names: Vec<String> = dir.files().keys().map(|path| path.display().to_string()).collect();
    for part in [".memfold-backup-", ".memfold-lock", ".memfold/MANIFEST", "rows.arrow"] {
        assert!(names.iter().any(|name| name.contains(part)), "no {part} in {names:?}");
    }
    for path in dir.files().into_keys() {
        assert_eq!(mode(&path) & 0o077, 0, "{}: {:o}", path.display(), mode(&path));
    }
}

/// A link at the name of the unfinished copy led the copy elsewhere.
#[test]
fn a_backup_is_not_written_through_a_link() {
    let dir = TestFolder::with_pair();
    let (partial, elsewhere) = ("brain.db.memfold-backup-partial", "elsewhere");
    symlink(dir.path(elsewhere), dir.path(partial)).unwrap();
    dir.succeed("consolidate brain.db --execute");
    assert!(!dir.path(elsewhere).exists());
    assert!(dir.path(partial).symlink_metadata().is_err());
    let is_backup = |path: &Path| path.display().to_string().contains(".memfold-backup-");
    assert_eq!(dir.files().keys().filter(|path| is_backup(path)).count(), 1);
}

/// `index build` deleted `gen-*` of the folder that a link led to.
#[test]
fn an_index_folder_that_is_a_link_is_left_alone() {
    let dir = TestFolder::with_pair();
    let theirs = dir.path("theirs/gen-000001");
    std::fs::create_dir_all(&theirs).unwrap();
    std::fs::write(theirs.join("index.mfi"), "theirs").unwrap();
    symlink(dir.path("theirs"), dir.path("brain.db.memfold")).unwrap();
    let answer = dir.run("index build brain.db");
    answer.fails_with(1, &["a link to another folder", "hint: name the folder itself"]);
    assert_eq!(std::fs::read(theirs.join("index.mfi")).unwrap(), b"theirs");
    assert_eq!(std::fs::read_dir(dir.path("theirs")).unwrap().count(), 1);
}

#[test]
fn a_store_that_is_imported_is_as_private_as_its_file() {
    let dir = TestFolder::new();
    dir.write("memories.jsonl", "{\"text\":\"The kiln is fired on Mondays.\"}\n");
    set_mode(&dir.path("memories.jsonl"), 0o600);
    dir.succeed("import memories.jsonl --into brain.db");
    assert_eq!(mode(&dir.path("brain.db")), 0o600);
}

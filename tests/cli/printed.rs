//! Commands that are printed work as they are printed, and a person's word is asked for and counts.

use std::process::Command;

use memfold_store::brain_db::StoreStyle;
use memfold_tests::{NOW, brain_db, memory, unit_vector};

use crate::reviewing::{self, review};
use crate::support::{Answer, TestFolder, consolidate};

/// Runs a line as a shell does that finds memfold.
#[cfg(unix)]
fn shell(dir: &TestFolder, line: &str) -> Answer {
    let tools = dir.path("tools");
    if !tools.exists() {
        std::fs::create_dir(&tools).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_memfold"), tools.join("memfold")).unwrap();
    }
    let mut command = Command::new("/bin/sh");
    let given = dir.command(&[]);
    command.args(["-c", line]).current_dir(dir.folder()).env_clear();
    for (name, value) in given.get_envs().filter_map(|(name, value)| Some((name, value?))) {
        command.env(name, value);
    }
    dir.answer(command.env("PATH", &tools).output().unwrap())
}

/// The command behind a label, on one line.
fn printed<'a>(text: &'a str, label: &str) -> &'a str {
    let found = text.lines().find_map(|line| line.strip_prefix(label));
    found.unwrap_or_else(|| panic!("no {label} in {text}"))
}

/// What a dry run, a preview and a run that stopped at its limit told to type next lacked --config, --set and other
/// options, was broken at 80 columns, or named a run `RUN`.
#[cfg(unix)]
#[test]
fn printed_commands_work() {
    let dir = TestFolder::new();
    let store = "my store's/brain (1).db";
    std::fs::create_dir(dir.path("my store's")).unwrap();
    let rows: Vec<_> = (0..6)
        .map(|at| memory(at, format!("Shelf {} holds tools.", at / 2), &unit_vector(8, at / 2)))
        .collect();
    brain_db(&dir.path(store), &rows, StoreStyle::Plain);
    dir.write("the team's.yaml", "flags:\n  max_per_run: 1000\n");
    let typed = ["--threshold", "0.97", "--category", "general", "--config", "the team's.yaml"];
    let set = ["--set", "propose.min_similarity=0.81", "--limit", "2", "--now", NOW];
    let words = [&["consolidate", store][..], &typed, &set].concat();
    let dry = dir.run(&words);
    assert_eq!(dry.code, Some(0), "{dry:?}");
    let run = shell(&dir, printed(&dry.out, "next: "));
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.err.contains("2 units applied, 0 stale, 0 failed, 1 not tried"), "{run:?}");
    let rest = shell(&dir, printed(&run.err, "to go on: "));
    assert!(rest.out.contains("1 unit applied by run"), "{rest:?}");
    let undone = shell(&dir, printed(&rest.out, "undo: "));
    assert!(undone.out.contains("1 unit taken back by run"), "{undone:?}");
    // The next plan was empty, and nothing said why.
    assert!(undone.out.contains("kept apart from now on"), "{undone:?}");
    assert!(undone.out.contains("undo with --remerge-ok"), "{undone:?}");
    // The dry run knew no id: the line it printed takes back the last run that can be.
    let undone = shell(&dir, printed(&dry.out, "undo: "));
    assert!(undone.out.contains("2 units taken back by run"), "{undone:?}");
    let nothing = shell(&dir, printed(&dry.out, "undo: "));
    nothing.fails_with(1, &["no run has anything to take back"]);
    let redo = shell(&dir, printed(&undone.out, "to take the undo back: "));
    assert_eq!(redo.code, Some(0), "{redo:?}");
}

/// A saved plan that was made with --config could be neither reviewed nor applied by the lines that were printed.
#[cfg(unix)]
#[test]
fn printed_commands_lead_through_a_review() {
    let dir = reviewing::dir();
    dir.write("my own.yaml", "propose:\n  min_similarity: 0.81\n");
    let saved = dir.run(&consolidate(&["--save-plan", "--config", "my own.yaml"]));
    let next = printed(&saved.out, "next: ").to_owned();
    let reviewed = shell(&dir, &format!("echo y | {next}"));
    assert!(reviewed.out.contains("1 approved"), "{reviewed:?}");
    let apply = printed(&reviewed.out, "next: ");
    let preview = shell(&dir, &apply.replace(" --execute", ""));
    assert!(preview.out.contains("1 unit would be applied, 0 are stale"), "{preview:?}");
    let applied = shell(&dir, printed(&preview.out, "next: "));
    assert!(applied.out.contains("1 unit applied by run"), "{applied:?}");
    let preview = shell(&dir, &printed(&applied.out, "undo: ").replace(" --execute", ""));
    let undone = shell(&dir, printed(&preview.out, "next: "));
    assert!(undone.out.contains("1 unit taken back"), "{undone:?}");
}

/// `apply --only` carried out what a person had rejected or left undecided, as did a second `apply`.
#[test]
fn only_narrows_what_was_reviewed() {
    let dir = reviewing::dir();
    dir.succeed(&consolidate(&["--save-plan"]));
    // The reworded merge is approved, the trivial one rejected, the others are left.
    let walked = review(&dir, &[], "y\nn\nq\n");
    assert_eq!(walked.code, Some(0), "{walked:?}");
    let apply = |only: &str| {
        let only = ["--only", only, "--execute", "--now", NOW];
        dir.run(&[&["apply", "brain.db", "latest"][..], &only].concat())
    };
    for only in ["identical", "a2", "flag_contradiction"] {
        let applied = apply(only);
        assert!(applied.out.contains("0 units applied"), "{only}: {applied:?}");
        assert!(
            applied.err.contains("note: not approved when the plan was reviewed"),
            "{applied:?}"
        );
    }
    assert!(apply("merge").out.contains("1 unit applied"));
    let again = dir.run(&["apply", "brain.db", "latest", "--execute", "--now", NOW]);
    assert!(again.out.contains("0 units applied"), "what was left undecided stays so: {again:?}");
}

/// Flags showed no dates and let only the newer one hold; a merge against the guard's opinion was refused though a
/// person had asked for it.
#[test]
fn flags_are_settled_either_way_by_a_persons_word() {
    for (flag, gone) in [("--older", 7), ("--newer", 6), ("--merge", 6)] {
        let dir = reviewing::dir();
        dir.succeed(&consolidate(&["--execute", "--max-change-share", "1"]));
        let listed = dir.json("review brain.db --flags --json");
        let pair = &listed["flags"][0];
        assert_eq!(pair["newer"], "m000007", "{listed}");
        assert!(pair["created_at"][0].as_str().unwrap() < pair["created_at"][1].as_str().unwrap());
        let screen = dir.succeed("review brain.db --flags");
        assert!(screen.contains(" · older\n    The port of the gateway is 8080."), "{screen}");
        assert!(screen.contains(" · newer\n    The port of the gateway is 9090."), "{screen}");
        let key = pair["key"].as_str().unwrap();
        let preview = dir.succeed(&["review", "brain.db", key, flag]);
        let says = preview.contains("by your word; the fact guard finds that the two conflict");
        assert_eq!(says, flag == "--merge", "{preview}");
        assert!(preview.contains(&format!("next: memfold review brain.db {key} {flag} --execute")));
        dir.succeed(&["review", "brain.db", key, flag, "--execute"]);
        let live = dir.live_id(&format!("m{gone:06}"));
        assert_eq!(live, format!("m{:06}", 13 - gone), "{flag}");
        assert_eq!(dir.json("review brain.db --flags --json")["flags"], serde_json::json!([]));
    }
}

/// `demo` wiped a sample that somebody had reviewed or executed.
#[test]
fn the_demo_does_not_wipe_what_was_worked_on() {
    let dir = TestFolder::new();
    dir.succeed("demo");
    let store = "memfold-demo/brain.db";
    dir.succeed(&["consolidate", store, "--save-plan"]);
    dir.succeed("demo");
    dir.succeed(&["consolidate", store, "--save-plan"]);
    let mut answers = dir.command(&["review", store, "latest"]);
    let reviewed = answers.stdin(std::process::Stdio::piped()).spawn().and_then(|mut child| {
        use std::io::Write as _;
        child.stdin.take().unwrap().write_all(b"n\nq\n")?;
        child.wait()
    });
    assert!(reviewed.unwrap().success());
    let before = dir.files();
    dir.run("demo").fails_with(1, &["has a reviewed plan; rebuilding it loses that", "--force"]);
    assert!(before == dir.files());
    dir.succeed("demo --force");
    dir.succeed(&["consolidate", store, "--execute", "--max-change-share", "1"]);
    let before = dir.files();
    dir.run("demo").fails_with(1, &["was executed or reviewed", "hint: rebuild it with --force"]);
    assert!(before == dir.files());
}

/// What was undone stayed apart until the undo was undone.
#[cfg(unix)]
#[test]
fn again_allows_merges_that_were_undone() {
    let dir = TestFolder::with_pair();
    let all = ["--execute", "--max-change-share", "1"];
    let _ = dir.succeed(&consolidate(&all));
    let undone = dir.succeed(&["undo", "brain.db", "latest", "--execute", "--now", NOW]);
    assert!(undone.contains("memfold consolidate --again"), "{undone}");
    let apart = dir.succeed(&consolidate(&all));
    assert!(apart.contains("nothing to do"), "{apart}");
    let dry = dir.run(&consolidate(&["--again"]));
    let again = shell(&dir, printed(&dry.out, "next: "));
    assert!(again.err.contains("1 unit applied"), "{again:?}");
    let nothing = dir.succeed(&consolidate(&all));
    assert!(nothing.contains("nothing to do"), "{nothing}");
}

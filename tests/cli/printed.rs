//! Commands that are printed work as they are printed, and a person's word is asked for and counts.

use std::process::Command;

use memfold_store::brain_db::StoreStyle;
use memfold_tests::{NOW, brain_db, memory, unit_vector};
use serde_json::Value;

use crate::reviewing::{self, review};
use crate::support::{Answer, Place, consolidate};

/// Runs a line as a shell does that finds memfold.
#[cfg(unix)]
fn shell(place: &Place, line: &str) -> Answer {
    let tools = place.path("tools");
    if !tools.exists() {
        std::fs::create_dir(&tools).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_memfold"), tools.join("memfold")).unwrap();
    }
    let mut command = Command::new("/bin/sh");
    let given = place.command(&[]);
    command.args(["-c", line]).current_dir(place.folder()).env_clear();
    for (name, value) in given.get_envs().filter_map(|(name, value)| Some((name, value?))) {
        command.env(name, value);
    }
    place.answer(command.env("PATH", &tools).output().unwrap())
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
    let place = Place::new();
    let store = "my store's/brain (1).db";
    std::fs::create_dir(place.path("my store's")).unwrap();
    let rows: Vec<_> = (0..6)
        .map(|at| memory(at, format!("Shelf {} holds tools.", at / 2), &unit_vector(8, at / 2)))
        .collect();
    brain_db(&place.path(store), &rows, StoreStyle::Plain);
    place.write("the team's.yaml", "flags:\n  max_per_run: 1000\n");
    let typed = ["--threshold", "0.97", "--category", "general", "--config", "the team's.yaml"];
    let set = ["--set", "propose.min_similarity=0.81", "--limit", "2", "--now", NOW];
    let words = [&["consolidate", store][..], &typed, &set].concat();
    let dry = place.run(&words);
    assert_eq!(dry.code, Some(0), "{dry:?}");
    let run = shell(&place, printed(&dry.out, "next: "));
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.err.contains("2 units applied, 0 stale, 0 failed, 1 not tried"), "{run:?}");
    let rest = shell(&place, printed(&run.err, "to go on: "));
    assert!(rest.out.contains("1 unit applied by run"), "{rest:?}");
    let undone = shell(&place, printed(&rest.out, "undo: "));
    assert!(undone.out.contains("1 unit taken back by run"), "{undone:?}");
    // The next plan was empty, and nothing said why.
    assert!(undone.out.contains("kept apart from now on"), "{undone:?}");
    assert!(undone.out.contains("undo with --remerge-ok"), "{undone:?}");
    // The dry run knew no id: the line it printed takes back the last run that can be.
    let undone = shell(&place, printed(&dry.out, "undo: "));
    assert!(undone.out.contains("2 units taken back by run"), "{undone:?}");
    let nothing = shell(&place, printed(&dry.out, "undo: "));
    nothing.fails_with(1, &["no run has anything to take back"]);
    let redo = shell(&place, printed(&undone.out, "to take the undo back: "));
    assert_eq!(redo.code, Some(0), "{redo:?}");
}

/// A saved plan that was made with --config could be neither reviewed nor applied by the lines that were printed.
#[cfg(unix)]
#[test]
fn printed_commands_lead_through_a_review() {
    let place = reviewing::place();
    place.write("my own.yaml", "propose:\n  min_similarity: 0.81\n");
    let saved = place.run(&consolidate(&["--save-plan", "--config", "my own.yaml"]));
    let next = printed(&saved.out, "next: ").to_owned();
    let reviewed = shell(&place, &format!("echo y | {next}"));
    assert!(reviewed.out.contains("1 approved"), "{reviewed:?}");
    let apply = printed(&reviewed.out, "next: ");
    let preview = shell(&place, &apply.replace(" --execute", ""));
    assert!(preview.out.contains("1 unit would be applied, 0 are stale"), "{preview:?}");
    let applied = shell(&place, printed(&preview.out, "next: "));
    assert!(applied.out.contains("1 unit applied by run"), "{applied:?}");
    let preview = shell(&place, &printed(&applied.out, "undo: ").replace(" --execute", ""));
    let undone = shell(&place, printed(&preview.out, "next: "));
    assert!(undone.out.contains("1 unit taken back"), "{undone:?}");
}

/// `apply --only` carried out what a person had rejected or left undecided, as did a second `apply`.
#[test]
fn only_narrows_what_was_reviewed() {
    let place = reviewing::place();
    place.succeed(&consolidate(&["--save-plan"]));
    // The reworded merge is approved, the trivial one rejected, the others are left.
    let walked = review(&place, &[], "y\nn\nq\n");
    assert_eq!(walked.code, Some(0), "{walked:?}");
    let apply = |only: &str| {
        let only = ["--only", only, "--execute", "--now", NOW];
        place.run(&[&["apply", "brain.db", "latest"][..], &only].concat())
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
    let again = place.run(&["apply", "brain.db", "latest", "--execute", "--now", NOW]);
    assert!(again.out.contains("0 units applied"), "what was left undecided stays so: {again:?}");
}

/// `u` after `s` took back the answer before and left the swap.
#[test]
fn a_swap_is_taken_back() {
    let place = reviewing::place();
    place.succeed(&consolidate(&["--save-plan"]));
    let survivor = || -> Vec<Value> {
        let plan = place.json(&["runs", "brain.db", "latest", "--plans", "--json"]);
        let actions = plan["actions"].as_array().unwrap().clone();
        actions.iter().map(|saved| saved["action"]["targetIds"][0].clone()).collect()
    };
    let before = survivor();
    let amended = |out: &str| out.matches("amended").count();
    let walked = review(&place, &[], "n\nn\ns\nu\nq\n");
    assert_eq!(amended(&walked.out), 1, "{walked:?}");
    assert_eq!(survivor(), before);
    assert!(walked.out.contains("0 approved · 2 rejected"), "{walked:?}");
}

/// Flags showed no dates and let only the newer one hold; a merge against the guard's opinion was refused though a
/// person had asked for it.
#[test]
fn flags_are_settled_either_way_by_a_persons_word() {
    for (flag, gone) in [("--older", 7), ("--newer", 6), ("--merge", 6)] {
        let place = reviewing::place();
        place.succeed(&consolidate(&["--execute", "--max-change-share", "1"]));
        let listed = place.json(&["review", "brain.db", "--flags", "--json"]);
        let pair = &listed["flags"][0];
        assert_eq!(pair["newer"], "m000007", "{listed}");
        assert!(pair["created_at"][0].as_str().unwrap() < pair["created_at"][1].as_str().unwrap());
        let screen = place.succeed(&["review", "brain.db", "--flags"]);
        assert!(screen.contains(" · older\n    The port of the gateway is 8080."), "{screen}");
        assert!(screen.contains(" · newer\n    The port of the gateway is 9090."), "{screen}");
        let key = pair["key"].as_str().unwrap();
        let preview = place.succeed(&["review", "brain.db", key, flag]);
        let says = preview.contains("by your word; the fact guard finds that the two conflict");
        assert_eq!(says, flag == "--merge", "{preview}");
        assert!(preview.contains(&format!("next: memfold review brain.db {key} {flag} --execute")));
        place.succeed(&["review", "brain.db", key, flag, "--execute"]);
        let live = place.live_id(&format!("m{gone:06}"));
        assert_eq!(live, format!("m{:06}", 13 - gone), "{flag}");
        assert_eq!(
            place.json(&["review", "brain.db", "--flags", "--json"])["flags"],
            serde_json::json!([])
        );
    }
}

/// `demo` wiped a sample that somebody had reviewed or executed.
#[test]
fn the_demo_does_not_wipe_what_was_worked_on() {
    let place = Place::new();
    place.succeed(&["demo"]);
    let store = "memfold-demo/brain.db";
    place.succeed(&["consolidate", store, "--save-plan"]);
    place.succeed(&["demo"]);
    place.succeed(&["consolidate", store, "--save-plan"]);
    let mut answers = place.command(&["review", store, "latest"]);
    let reviewed = answers.stdin(std::process::Stdio::piped()).spawn().and_then(|mut child| {
        use std::io::Write as _;
        child.stdin.take().unwrap().write_all(b"n\nq\n")?;
        child.wait()
    });
    assert!(reviewed.unwrap().success());
    let before = place.files();
    place
        .run(&["demo"])
        .fails_with(1, &["has a reviewed plan; rebuilding it loses that", "--force"]);
    assert!(before == place.files());
    place.succeed(&["demo", "--force"]);
    place.succeed(&["consolidate", store, "--execute", "--max-change-share", "1"]);
    let before = place.files();
    place
        .run(&["demo"])
        .fails_with(1, &["was executed or reviewed", "hint: rebuild it with --force"]);
    assert!(before == place.files());
}

/// What was undone stayed apart until the undo was undone.
#[cfg(unix)]
#[test]
fn again_allows_merges_that_were_undone() {
    let place = Place::with_pair();
    let all = ["--execute", "--max-change-share", "1"];
    let _ = place.succeed(&consolidate(&all));
    let undone = place.succeed(&["undo", "brain.db", "latest", "--execute", "--now", NOW]);
    assert!(undone.contains("memfold consolidate --again"), "{undone}");
    let apart = place.succeed(&consolidate(&all));
    assert!(apart.contains("nothing to do"), "{apart}");
    let dry = place.run(&consolidate(&["--again"]));
    let again = shell(&place, printed(&dry.out, "next: "));
    assert!(again.err.contains("1 unit applied"), "{again:?}");
    let nothing = place.succeed(&consolidate(&all));
    assert!(nothing.contains("nothing to do"), "{nothing}");
}

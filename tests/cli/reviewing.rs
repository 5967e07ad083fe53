//! `memfold runs --plans`, `review` and `audit` through pipes; proposals, and the commands that are printed.

use std::process::Command;
use std::time::Duration;

use memfold_store::brain_db::{Session, SessionOptions};
use memfold_tests::{NOW, StoreStyle, brain_db, memory, turned_vector, unit_vector};

use crate::support::{Answer, TestFolder, consolidate};

/// Equal, trivially and otherwise different texts, each twice, and a contradiction.
pub(crate) fn dir() -> TestFolder {
    let texts = [
        "The kiln is fired on Mondays.",
        "The kiln is fired on Mondays.",
        "Tea is ordered from the harbour shop.",
        "Tea is ordered from the harbour shop",
        "Backups run nightly at 02:00 and are kept for 4 weeks.",
        "Backups run nightly at 02:00 and are kept for 28 days.",
        "The port of the gateway is 8080.",
        "The port of the gateway is 9090.",
    ];
    let row = |(at, text): (usize, &&str)| memory(at, *text, &unit_vector(8, at / 2));
    let rows: Vec<_> = texts.iter().enumerate().map(row).collect();
    TestFolder::with(&rows)
}

/// Saves the plan of a run, and returns the plan's name.
fn save_plan(dir: &TestFolder) -> String {
    dir.succeed(&consolidate(&["--save-plan"]));
    let plans = dir.json("runs brain.db --plans --json");
    plans["plans"][0]["plan_id"].as_str().unwrap().to_owned()
}

pub(crate) fn review(dir: &TestFolder, further: &[&str], answers: &str) -> Answer {
    let arguments = [&["review", "brain.db", "latest", "--now", NOW], further].concat();
    dir.run_with(&arguments, answers)
}

/// The states of the plan's changes, by label.
fn states(dir: &TestFolder) -> Vec<String> {
    let plan = dir.json("runs brain.db latest --plans --json");
    let actions = plan["actions"].as_array().unwrap().iter();
    let changes = actions.filter(|saved| saved["action"]["type"] != "noop");
    changes.map(|saved| format!("{} {}", saved["label"], saved["state"]).replace('"', "")).collect()
}

#[test]
fn plans_are_listed_with_their_actions() {
    let dir = dir();
    let name = save_plan(&dir);
    insta::assert_snapshot!(
        "plans",
        dir.succeed("runs brain.db --plans").replace(&name, "PLAN_ID______")
    );
    let before = dir.files();
    let plan = dir.succeed(&["runs", "brain.db", &name[..6], "--plans"]);
    insta::assert_snapshot!("plan", plan.replace(&name, "PLAN"));
    assert!(before == dir.files(), "looking leaves no trace");
    let listed = dir.json("runs brain.db --plans --json");
    assert_eq!(listed["plans"][0]["plan_id"], name.as_str());
    assert_eq!(listed["plans"][0]["states"]["proposed"], 4);
}

#[test]
fn a_plan_is_reviewed_through_a_pipe() {
    let dir = dir();
    let name = save_plan(&dir);
    let walked = review(&dir, &[], "v\ny\nperhaps\nn\nu\nk\ns\ny\n");
    assert_eq!((walked.code, walked.err.as_str()), (Some(0), ""), "{walked:?}");
    insta::assert_snapshot!("review", walked.out.replace(&name, "PLAN"));
    assert_eq!(states(&dir), ["a1 approved", "a2 rejected", "a3 approved", "a4 proposed"]);
    // Undecided actions come first next time.
    let rest = review(&dir, &[], "k\n");
    assert!(rest.out.contains("1 of 1 · a4 flag_contradiction"), "{}", rest.out);
    assert_eq!(states(&dir)[3], "a4 rejected");
    let nothing = review(&dir, &[], "");
    assert_eq!(nothing.err, format!("nothing is left to decide in {name}\n"));
}

#[test]
fn the_count_of_answers_is_a_document() {
    let dir = dir();
    let name = save_plan(&dir);
    let walked = review(&dir, &["--json"], "y\nn\n");
    let document: serde_json::Value = serde_json::from_str(&walked.out).unwrap();
    let expected = serde_json::json!({
        "schema_version": 1, "plan_id": name,
        "approved": 1, "rejected": 1, "kept_both": 0, "undecided": 2,
    });
    assert_eq!(document, expected);
    assert!(walked.err.contains("1 of 4 · "), "questions go to stderr: {}", walked.err);
}

#[test]
fn apply_follows_the_review() {
    let dir = dir();
    let name = save_plan(&dir);
    // The backups as planned, the tea kept apart, the kiln the other way round, no flag.
    let walked = review(&dir, &[], "y\nk\ns\ny\nk\n");
    assert_eq!(walked.code, Some(0), "{walked:?}");
    dir.succeed(&["apply", "brain.db", &name, "--now", NOW, "--execute"]);
    let left = [0, 2, 3, 5, 6, 7].map(|number| format!("m{number:06}"));
    assert_eq!(dir.live(), left, "the newer kiln merged into the older one");
    assert_eq!(states(&dir), ["a1 applied", "a2 rejected", "a3 applied", "a4 rejected"]);
    let again = dir.json(&consolidate(&["--json"]));
    assert_eq!(again["planned"]["merge"], 0, "what was kept apart is not planned again");
    assert_eq!(again["planned"]["flag_contradiction"], 0);
}

#[test]
fn review_beside_a_run_defers_keep_both() {
    let dir = dir();
    save_plan(&dir);
    let options = SessionOptions { busy_timeout: Duration::from_secs(5), holder: "here 1".into() };
    let run = Session::open(&dir.path("brain.db"), &options).unwrap();
    let walked = review(&dir, &[], "k\ny\nq\n");
    assert_eq!(walked.code, Some(0), "{walked:?}");
    let out = walked.out.replace('\n', " ");
    assert!(out.contains("is locked by another run of"), "{}", walked.out);
    drop(run);
    assert_eq!(states(&dir)[..2], ["a1 approved", "a2 proposed"]);
    review(&dir, &[], "k\n");
    assert_eq!(states(&dir)[1], "a2 rejected");
}

/// One answer for many actions comes on the command line, by `--only` or by labels.
#[test]
fn many_actions_are_answered_at_once() {
    let dir = dir();
    save_plan(&dir);
    let before = dir.files();
    let review = |further: &[&str]| {
        dir.succeed(&[&["review", "brain.db", "latest", "--now", NOW], further].concat())
    };
    let dry = review(&["--only", "merge", "--approve"]);
    assert_eq!(dry, "3 actions would be approved: a1, a2, a3\n");
    assert!(before == dir.files());
    let done = review(&["--only", "merge", "--approve", "--execute"]);
    assert!(done.contains("3 approved · 0 rejected"), "{done}");
    review(&["a4", "--reject", "--execute"]);
    assert_eq!(states(&dir), ["a1 approved", "a2 approved", "a3 approved", "a4 rejected"]);
    for (words, said) in [
        (&["--approve"][..], "no action is named"),
        (&["a1"], "a1 without an answer"),
        (&["--only", "nonsense", "--approve"], "names no actions"),
        (&["--only", "a9", "--approve"], "no a9"),
        (&["--execute"], "a dialogue writes each answer at once"),
    ] {
        dir.run(&[&["review", "brain.db", "latest"], words].concat()).fails_with(2, &[said]);
    }
}

#[test]
fn an_audit_takes_answers_back_and_repeats_its_sample() {
    let dir = dir();
    let audit = |further: &[&str], answers: &str| {
        dir.run_with(&[&["audit", "brain.db", "--now", NOW], further].concat(), answers)
    };
    audit(&[], "").fails_with(1, &["no run has written"]);
    dir.succeed(&consolidate(&["--execute", "--max-change-share", "1"]));
    let first = audit(&["--sample", "2", "--json"], "v\nperhaps\nn\nu\ny\nn\n");
    assert_eq!(first.code, Some(0), "{first:?}");
    let found: serde_json::Value = serde_json::from_str(&first.out).unwrap();
    assert_eq!((&found["right"], &found["wrong"]), (&1.into(), &1.into()));
    assert_eq!(found["wrong_share"], 0.5);
    // Without an answer nothing is kept.
    let question = |answer: &Answer| answer.out.lines().next().map(str::to_owned);
    assert_eq!(question(&audit(&[], "q\n")), question(&audit(&[], "y\nq\n")));
    let shown = dir.succeed(&["runs", "brain.db", found["run_id"].as_str().unwrap()]);
    let line = "audit: 2 looked at: 1 right, 1 wrong; 50.0 % wrong, 9.5 % to 90.5 % (95 %)";
    assert!(shown.contains(line), "{shown}");
    assert!(shown.contains("audit: 1 looked at: 1 right, 0 wrong; at most"), "{shown}");
    // An audit's record is no run to undo.
    dir.succeed(&["undo", "brain.db", "latest", "--execute", "--now", NOW]);
    assert_eq!(audit(&["latest"], "y\nq\n").code, Some(0));
}

const DIM: usize = 8;

/// Pairs in other words at 0.93, one of them with a copy of its newer text; a pair that differs in a port.
fn with_rewordings() -> TestFolder {
    let texts = [
        ("Marek is the tech lead of payments.", 0, 0.0),
        ("The payments team's tech lead is Marek.", 0, 0.38),
        ("The payments team's tech lead is Marek.", 0, 0.38),
        ("Invoices get sent out by Ines every Friday.", 2, 0.0),
        ("Every Friday Ines sends out the invoices.", 2, 0.38),
        ("The gateway listens on port 8080.", 4, 0.0),
        ("The gateway listens on port 9090.", 4, 0.38),
    ];
    let row = |(at, (text, axis, turn)): (usize, &(&str, usize, f32))| {
        memory(at, *text, &turned_vector(DIM, *axis, *turn))
    };
    let rows: Vec<_> = texts.iter().enumerate().map(row).collect();
    TestFolder::with(&rows)
}

/// The proposals of a run: survivor first.
pub(crate) fn proposed(dir: &TestFolder, further: &[&str]) -> Vec<Vec<String>> {
    dir.succeed(&consolidate(&[&["--plan", "plan.json"], further].concat()));
    let plan = std::fs::read(dir.path("plan.json")).unwrap();
    let plan: serde_json::Value = serde_json::from_slice(&plan).unwrap();
    let actions = plan["actions"].as_array().unwrap().iter();
    let proposals = actions.filter(|action| action["type"] == "propose_merge");
    let ids = |action: &serde_json::Value| {
        let ids = action["targetIds"].as_array().unwrap().iter();
        ids.map(|id| id.as_str().unwrap().to_owned()).collect()
    };
    proposals.map(ids).collect()
}

#[test]
fn near_texts_in_other_words_are_proposed_with_the_copies_merged_first() {
    let dir = with_rewordings();
    let report = dir.json(&consolidate(&["--json"]));
    assert_eq!(report["planned"]["propose_merge"], 2, "{}", report["planned"]);
    assert_eq!(report["planned"]["merge"], 1);
    let found = proposed(&dir, &[]);
    assert!(found.iter().all(|ids| ids.len() == 2), "copies are one memory: {found:?}");
    assert!(found.iter().flatten().all(|id| !["m000005", "m000006"].contains(&&**id)), "{found:?}");
    assert_eq!(proposed(&dir, &["--set", "propose.max_per_run=1"]).len(), 1);
    assert_eq!(proposed(&dir, &["--set", "propose.max_per_run=0"]).len(), 0);
    assert_eq!(proposed(&dir, &["--set", "propose.min_similarity=0.94"]).len(), 0);
    let screen = dir.succeed(&consolidate(&[]));
    assert!(screen.contains("2 probably the same (review)"), "{screen}");
}

#[test]
fn proposals_wait_for_an_answer() {
    let dir = with_rewordings();
    dir.succeed(&consolidate(&["--execute", "--max-change-share", "1"]));
    assert_eq!(dir.live().len(), 6, "only the copy went");
    assert_eq!(proposed(&dir, &[]).len(), 2, "they wait on");
    // Neither does a saved plan that nobody reviewed, with any selection.
    dir.succeed(&consolidate(&["--save-plan"]));
    let apply = ["apply", "brain.db", "latest", "--execute", "--now", NOW];
    for picks in [&[][..], &["--only", "propose_merge"], &["--only", "a1,a2"]] {
        let applied = dir.run(&[&apply, picks].concat());
        assert_eq!(dir.live().len(), 6, "{picks:?}: {applied:?}");
    }
}

#[test]
fn approved_proposals_are_merged_and_undone() {
    let dir = with_rewordings();
    dir.succeed(&consolidate(&["--save-plan"]));
    // The copy; of the ports the older, which is undone, then none, then both; one proposal with
    // the other survivor, the second kept apart.
    let walked = review(&dir, &[], "y\no\nu\ns\nu\nb\ns\ny\nk\n");
    assert!(walked.out.contains("y merge · s swap · k both · n not now"), "{walked:?}");
    assert!(walked.out.contains("2 approved · 0 rejected · 2 kept apart"), "{walked:?}");
    let before = dir.files();
    dir.succeed(&["apply", "brain.db", "latest", "--execute", "--now", NOW]);
    assert_eq!(dir.live().len(), 5);
    assert_eq!(proposed(&dir, &[]).len(), 0, "one is done, one is decided");
    let report = dir.json(&consolidate(&["--json"]));
    assert_eq!(report["planned"]["merge"], 0);
    assert_eq!(report["planned"]["flag_contradiction"], 0);
    assert!(before != dir.files());
    dir.succeed("undo brain.db latest --execute");
    assert_eq!(dir.live().len(), 7);
    assert_eq!(proposed(&dir, &[]).len(), 0, "what was undone is settled");
}

/// One port, stated twice.
fn updated() -> TestFolder {
    let texts = ["The gateway listens on port 8080.", "The gateway listens on port 9090."];
    let row = |(at, text): (usize, &&str)| memory(at, *text, &[1.0; DIM]);
    let rows: Vec<_> = texts.iter().enumerate().map(row).collect();
    let dir = TestFolder::with(&rows);
    dir.succeed(&consolidate(&["--save-plan"]));
    dir
}

#[test]
fn an_update_is_settled_on_the_spot() {
    let apply = ["apply", "brain.db", "latest", "--execute", "--now", NOW];
    for (answers, stays) in [
        ("n\n", vec!["m000001"]),
        ("o\n", vec!["m000000"]),
        ("b\n", vec!["m000000", "m000001"]),
        ("s\n", vec!["m000000", "m000001"]),
    ] {
        let dir = updated();
        let walked = review(&dir, &[], answers);
        assert_eq!((walked.code, &*walked.err), (Some(0), ""), "{walked:?}");
        assert!(walked.out.contains("n newer · o older · b both · s skip"), "{walked:?}");
        if answers != "s\n" {
            dir.run(&apply);
        }
        assert_eq!(dir.live(), stays, "{answers:?}: {walked:?}");
        let report = dir.json(&consolidate(&["--json"]));
        let again = u64::from(answers == "s\n");
        assert_eq!(report["planned"]["flag_contradiction"], again, "{answers:?}");
        assert_eq!(report["planned"]["merge"], 0, "{answers:?}");
        if stays.len() == 1 {
            dir.succeed("undo brain.db latest --execute");
            assert_eq!(dir.live().len(), 2);
        }
    }
}

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

/// The next command printed by a dry run, a preview and a run that stopped at its limit lacked
/// --config, --set and other options, was broken at 80 columns, or named a run `RUN`.
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
    assert!(undone.out.contains("1 unit undone by run"), "{undone:?}");
    // The next plan was empty, without an explanation.
    assert!(undone.out.contains("kept apart from now on"), "{undone:?}");
    assert!(undone.out.contains("undo with --remerge-ok"), "{undone:?}");
    // The dry run knew no id: its printed command undoes the last run that can be undone.
    let undone = shell(&dir, printed(&dry.out, "undo: "));
    assert!(undone.out.contains("2 units undone by run"), "{undone:?}");
    let nothing = shell(&dir, printed(&dry.out, "undo: "));
    nothing.fails_with(1, &["no run has anything to take back"]);
    let redo = shell(&dir, printed(&undone.out, "to take the undo back: "));
    assert_eq!(redo.code, Some(0), "{redo:?}");
}

/// A saved plan that was made with --config could be neither reviewed nor applied by the lines that were printed.
#[cfg(unix)]
#[test]
fn printed_commands_lead_through_a_review() {
    let dir = dir();
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
    assert!(undone.out.contains("1 unit undone"), "{undone:?}");
}

/// `apply --only` applied actions that a person had rejected or left undecided, as did a second
/// `apply`.
#[test]
fn only_narrows_what_was_reviewed() {
    let dir = dir();
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
        let note = "note: not approved when the plan was reviewed";
        assert!(applied.err.contains(note), "{applied:?}");
    }
    assert!(apply("merge").out.contains("1 unit applied"));
    let again = dir.run(&["apply", "brain.db", "latest", "--execute", "--now", NOW]);
    assert!(again.out.contains("0 units applied"), "what was left undecided stays so: {again:?}");
}

/// Flags showed no dates and let only the newer one hold; a merge against the guard's opinion was
/// refused though a person had requested it.
#[test]
fn flags_are_settled_either_way() {
    for (flag, gone) in [("--older", 7), ("--newer", 6), ("--merge", 6)] {
        let dir = dir();
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
fn demo_keeps_a_reviewed_sample() {
    let dir = TestFolder::new();
    dir.succeed("demo");
    let store = "memfold-demo/brain.db";
    dir.succeed(&["consolidate", store, "--save-plan"]);
    dir.succeed("demo");
    dir.succeed(&["consolidate", store, "--save-plan"]);
    assert_eq!(dir.run_with(&["review", store, "latest"], "n\nq\n").code, Some(0));
    let before = dir.files();
    dir.run("demo").fails_with(1, &["has a reviewed plan; rebuilding it loses that", "--force"]);
    assert!(before == dir.files());
    dir.succeed("demo --force");
    dir.succeed(&["consolidate", store, "--execute", "--max-change-share", "1"]);
    let before = dir.files();
    dir.run("demo").fails_with(1, &["was executed or reviewed", "hint: rebuild it with --force"]);
    assert!(before == dir.files());
}

/// Undone merges stayed apart until the undo was undone.
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

#[test]
fn a_store_that_must_not_be_written_is_not_reviewed() {
    let dir = dir();
    save_plan(&dir);
    for key in ["read_only=true", "enabled=false"] {
        let refused = review(&dir, &["--set", key], "y\n");
        assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""), "{refused:?}");
        assert!(refused.err.contains("answers cannot be written"), "{}", refused.err);
    }
    assert!(states(&dir).iter().all(|state| state.ends_with("proposed")));
}

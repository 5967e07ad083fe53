//! Commands that together print every published document, in every form it has.

use memfold_tests::{NOW, PATIENT};

use crate::support::TestFolder;
use crate::{reviewing, searching};

/// A day after the runs.
const LATER: &str = "2026-07-02T12:00:00Z";

/// Commands in a folder, one after the other.
pub(super) struct Scenario {
    pub(super) dir: fn() -> TestFolder,
    pub(super) steps: Vec<Step>,
}

/// A step of a scenario.
pub(super) enum Step {
    /// Runs a command with `--json`: the documents that it prints, its exit code, and its
    /// arguments, in which `{/pointer}` stands for the value at that place of the last document.
    Run(&'static [&'static str], i32, Vec<&'static str>),
    /// Checks a file by a schema.
    File(&'static str, &'static str),
    /// Changes rows of `brain.db` as its owner could.
    Sql(&'static str),
}

pub(super) fn scenarios() -> Vec<Scenario> {
    let scenario = |dir, steps| Scenario { dir, steps };
    vec![
        scenario(reviewing::dir, runs()),
        scenario(reviewing::dir, undone()),
        scenario(TestFolder::with_sample, sample()),
        scenario(TestFolder::with_pair, lookups()),
        scenario(with_files, files()),
    ]
}

/// Rows of vectors, and a store of another kind.
fn with_files() -> TestFolder {
    let dir = searching::with_rows();
    let observations = "[\"Lamps are lit.\",\"Lamps are lit.\"]";
    dir.write(
        "memory.jsonl",
        format!("{{\"type\":\"entity\",\"name\":\"A\",\"observations\":{observations}}}\nnone\n"),
    );
    dir
}

/// A command that succeeds and prints one document, of a published schema unless the name is empty.
fn says(name: &'static str, words: &[&'static str]) -> Step {
    // One list of names for each document would be long to write.
    Step::Run(Box::leak(Box::new([name])), 0, words.to_vec())
}

fn ends(code: i32, names: &'static [&'static str], words: &[&'static str]) -> Step {
    Step::Run(names, code, words.to_vec())
}

/// A plan from its making to its end.
fn runs() -> Vec<Step> {
    let consolidate = ["consolidate", "brain.db", "--now", NOW, "--save-plan"];
    let files = ["--plan", "plan.json", "--report", "report.json"];
    let plan = ["runs", "brain.db", "latest", "--plans"];
    vec![
        says("plans", &["runs", "brain.db", "--plans"]),
        says("runs", &["runs", "brain.db"]),
        says("consolidate", &[&consolidate[..], &files].concat()),
        Step::File("plan", "plan.json"),
        Step::File("report", "report.json"),
        says("plans", &["runs", "brain.db", "--plans"]),
        says("saved-plan", &plan),
        says("apply", &["apply", "brain.db", "latest"]),
        Step::Sql("UPDATE stm SET content = 'The kiln is cold.' WHERE id = 'm000000'"),
        says("apply", &["apply", "brain.db", "latest"]),
        ends(4, &["apply"], &["apply", "brain.db", "latest", "--execute", "--now", NOW]),
        says("saved-plan", &plan),
        says("runs", &["runs", "brain.db"]),
        says("run", &["runs", "brain.db", "latest"]),
        ends(1, &[], &["explain", "brain.db", "nobody"]),
        says("flags", &["review", "brain.db", "--flags"]),
        says("flags-settled", &["review", "brain.db", "{/flags/0/key}", "--both"]),
        says(
            "flags-settled",
            &["review", "brain.db", "{/settled/key}", "--both", "--execute", "--now", LATER],
        ),
        says("flags", &["review", "brain.db", "--flags"]),
        says("status", &["status", "brain.db", "--now", LATER]),
        says("status", &["status", "brain.db", "--now", LATER, "--store-tiers"]),
        says("status", &["status", "brain.db", "--now", "2036-07-01T00:00:00Z", "--list", "cold"]),
        says("status", &["status", "brain.db", "--now", LATER, "--exit-code"]),
        ends(1, &["status"], &["status", "brain.db", "--now", NOW, "--exit-code"]),
        Step::Sql("UPDATE memfold_runs SET prev_hash = 'x'"),
        says("runs", &["runs", "brain.db"]),
    ]
}

/// A run is undone, except for a memory that somebody edited since.
fn undone() -> Vec<Step> {
    let execute = ["consolidate", "brain.db", "--now", NOW, "--execute", "--max-change-share", "1"];
    vec![
        says("consolidate", &[&execute[..], &["--set", "merge.absorbed=archive"]].concat()),
        Step::Sql("UPDATE stm SET categories = '[\"tea\"]' WHERE id = 'm000002'"),
        says("undo", &["undo", "brain.db", "{/run_id}"]),
        ends(4, &["undo"], &["undo", "brain.db", "{/units/0/run_id}", "--execute"]),
        says("run", &["runs", "brain.db", "latest"]),
    ]
}

/// A store of many kinds of memories.
fn sample() -> Vec<Step> {
    vec![
        says("consolidate", &["demo"]),
        says(
            "consolidate",
            &["consolidate", "brain.db", "--now", NOW, "--method", "graph", "--category", "work"],
        ),
        says("plans", &["runs", "brain.db", "--plans"]),
        says("flags", &["review", "brain.db", "--flags"]),
        says("status", &["status", "brain.db", "--now", NOW]),
        ends(1, &[], &["runs", "brain.db", "latest", "--plans"]),
    ]
}

/// A small store, its index, and memories that come.
fn lookups() -> Vec<Step> {
    let save = ["save", "brain.db", "--set", PATIENT];
    let save = |further: &[&'static str]| [&save[..], further].concat();
    vec![
        says("search", &["search", "brain.db", "--id", "m000000"]),
        says("", &["index", "build", "brain.db"]),
        says("search", &["search", "brain.db", "--id", "m000000", "--threshold", "0.5"]),
        says("check", &["check", "brain.db", "--text", "Lamps are lit.", "--set", PATIENT]),
        says("check", &["check", "brain.db", "--vector", "[1,0.1,0,0,0,0,0,0]", "--set", PATIENT]),
        says("save", &save(&["--text", "Lamps.", "--vector", "[0,0,1,0,0,0,0,0]"])),
        says("save", &save(&["--text", "The kiln is fired on Mondays."])),
        says("search", &["search", "brain.db", "--id", "m000000"]),
        says("recall", &["recall", "brain.db", "when was the kiln fired", "--mode", "exhaustive"]),
        says("recall", &["recall", "brain.db", "tea", "--vector", "[0,1,0,0,0,0,0,0]"]),
    ]
}

/// Files of vectors, without a store.
fn files() -> Vec<Step> {
    vec![
        says("dedup", &["dedup", "rows.npy"]),
        says("dedup", &["dedup", "rows.npy", "--tiles", "tiles"]),
        says("dedup", &["dedup", "rows.npy", "--threshold", "0.8,0.9", "--method", "graph"]),
        says("search", &["search", "rows.npy", "--row", "3"]),
        says("", &["index", "build", "rows.npy", "--tier", "graph"]),
        says("search", &["search", "rows.npy", "--row", "3"]),
        says("consolidate", &["consolidate", "memory.jsonl", "--now", NOW]),
    ]
}

//! Commands that together print every document, in every form it has.

use memfold_tests::{NOW, npy_of_rows};

use crate::support::Place;
use crate::{doctor, reviewing};

/// Waits longer than any test takes, because other tests take the processors meanwhile.
const PATIENT: &str = "quick_check.time_limit_ms=60000";
/// A day after the runs.
const LATER: &str = "2026-07-02T12:00:00Z";

/// Commands in a folder, one after the other.
pub(super) struct Scene {
    pub(super) place: fn() -> Place,
    pub(super) steps: Vec<Step>,
}

/// What is done in a scene.
pub(super) enum Step {
    /// Runs a command with `--json`: the documents that it prints, its exit code, and what is typed, in which
    /// `{/pointer}` stands for what the last document holds there.
    Run(&'static [&'static str], i32, Vec<&'static str>),
    /// Checks a file by a schema.
    File(&'static str, &'static str),
    /// Changes rows of `brain.db` as its owner could.
    Sql(&'static str),
}

pub(super) fn scenes() -> Vec<Scene> {
    let scene = |place, steps| Scene { place, steps };
    vec![
        scene(reviewing::place, runs()),
        scene(reviewing::place, taken_back()),
        scene(Place::with_sample, sample()),
        scene(doctor::wild, vec![says("doctor", &["doctor", "brain.db"])]),
        scene(doctor::damaged, damaged()),
        scene(Place::with_pair, lookups()),
        scene(with_vectors, files()),
        scene(with_inputs, judged()),
    ]
}

/// A command that succeeds and prints one document.
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
    vec![
        says("plans", &["plans", "brain.db"]),
        says("runs", &["runs", "brain.db"]),
        says("consolidate", &[&consolidate[..], &files].concat()),
        Step::File("plan", "plan.json"),
        Step::File("report", "report.json"),
        says("plans", &["plans", "brain.db"]),
        says("saved-plan", &["plans", "brain.db", "latest"]),
        says("review", &["review", "brain.db", "latest", "--now", NOW]),
        says("apply", &["apply", "brain.db", "latest"]),
        Step::Sql("UPDATE stm SET content = 'The kiln is cold.' WHERE id = 'm000000'"),
        says("apply", &["apply", "brain.db", "latest"]),
        ends(4, &["apply"], &["apply", "brain.db", "latest", "--execute", "--now", NOW]),
        says("saved-plan", &["plans", "brain.db", "latest"]),
        says("runs", &["runs", "brain.db"]),
        says("run", &["runs", "brain.db", "latest"]),
        says("explain-memory", &["explain", "brain.db", "m000002"]),
        says("explain-memory", &["explain", "brain.db", "m000003"]),
        says("explain-memory", &["explain", "brain.db", "m000006"]),
        ends(1, &[], &["explain", "brain.db", "nobody"]),
        says("resolve", &["resolve", "brain.db", "m000002"]),
        ends(1, &["resolve"], &["resolve", "brain.db", "nobody"]),
        says("flags", &["flags", "brain.db"]),
        says("flags-settled", &["flags", "brain.db", "--keep-both", "{/flags/0/key}"]),
        says(
            "flags-settled",
            &["flags", "brain.db", "--keep-both", "{/settled/key}", "--execute", "--now", LATER],
        ),
        says("flags", &["flags", "brain.db"]),
        says("status", &["status", "brain.db", "--now", LATER]),
        says("tiers", &["tiers", "brain.db", "--now", LATER]),
        says("tiers", &["tiers", "brain.db", "--now", LATER, "--execute"]),
        says("tiers", &["tiers", "brain.db", "--at", "2036-07-01T00:00:00Z", "--list", "cold"]),
        says("edges", &["edges", "brain.db", "m000003"]),
        ends(1, &[], &["edges", "brain.db", "nobody"]),
        says("due", &["due", "brain.db", "--now", LATER]),
        ends(1, &["due"], &["due", "brain.db", "--now", NOW]),
        says("forget", &["forget", "brain.db", "m000003", "--with-absorbed"]),
        says("forget", &["forget", "brain.db", "m000003", "--with-absorbed", "--execute"]),
        says("prune", &["prune", "brain.db", "--journal-older-than", "1h", "--now", LATER]),
        says(
            "prune",
            &["prune", "brain.db", "--journal-older-than", "1h", "--now", LATER, "--execute"],
        ),
        Step::Sql("UPDATE memfold_runs SET prev_hash = 'x'"),
        says("runs", &["runs", "brain.db"]),
    ]
}

/// What was merged is restored, and what was done is undone.
fn taken_back() -> Vec<Step> {
    vec![
        says(
            "consolidate",
            &[
                "consolidate",
                "brain.db",
                "--now",
                NOW,
                "--execute",
                "--max-change-share",
                "1",
                "--set",
                "merge.absorbed=archive",
            ],
        ),
        says("restore-candidates", &["restore", "brain.db"]),
        says("restore", &["restore", "brain.db", "m000000"]),
        says("restore", &["restore", "brain.db", "m000000", "--execute", "--now", LATER]),
        says("undo", &["undo", "brain.db", "{/run_id}"]),
        says("undo", &["undo", "brain.db", "{/units/0/run_id}", "--execute"]),
        says("run", &["runs", "brain.db", "latest"]),
        Step::Sql("UPDATE stm SET content = 'Tea is out of stock.' WHERE id = 'm000002'"),
        says("restore-candidates", &["restore", "brain.db"]),
        says("runs", &["runs", "brain.db"]),
        says("undo", &["undo", "brain.db", "{/runs/0/run_id}"]),
    ]
}

/// A store of many kinds of memories.
fn sample() -> Vec<Step> {
    vec![
        says("consolidate", &["demo"]),
        says("doctor", &["doctor", "brain.db"]),
        says("doctor-health", &["doctor", "brain.db", "--health", "--now", NOW]),
        ends(2, &["doctor-health"], &["doctor", "nowhere.db", "--health"]),
        says("embed", &["embed", "brain.db"]),
        says("export", &["export", "brain.db", "-o", "rows.arrow"]),
        says(
            "consolidate",
            &["consolidate", "brain.db", "--now", NOW, "--method", "graph", "--category", "work"],
        ),
        says("plans", &["plans", "brain.db"]),
        says("flags", &["flags", "brain.db"]),
        says("status", &["status", "brain.db", "--now", NOW]),
        says("due", &["due", "brain.db", "--now", NOW]),
        ends(1, &[], &["plans", "brain.db", "latest"]),
    ]
}

fn damaged() -> Vec<Step> {
    vec![
        ends(1, &["doctor"], &["doctor", "brain.db"]),
        ends(2, &["doctor-health"], &["doctor", "brain.db", "--health"]),
    ]
}

/// A small store, its index, and memories that come.
fn lookups() -> Vec<Step> {
    let save = ["save", "brain.db", "--set", PATIENT];
    let save = |further: &[&'static str]| [&save[..], further].concat();
    vec![
        says("search", &["search", "brain.db", "--id", "m000000"]),
        says("index-build", &["index", "build", "brain.db"]),
        says("search", &["search", "brain.db", "--id", "m000000", "--threshold", "0.5"]),
        says("check", &["check", "brain.db", "--text", "Lamps are lit.", "--set", PATIENT]),
        says("check", &["check", "brain.db", "--vector", "[1,0.1,0,0,0,0,0,0]", "--set", PATIENT]),
        says("save", &save(&["--text", "Lamps.", "--vector", "[0,0,1,0,0,0,0,0]"])),
        says("save", &save(&["--text", "The kiln is fired on Mondays."])),
        ends(1, &["save-refused"], &save(&["--text", " "])),
        says("search", &["search", "brain.db", "--id", "m000000"]),
        says("recall", &["recall", "brain.db", "when was the kiln fired", "--mode", "exhaustive"]),
        says("recall", &["recall", "brain.db", "tea", "--vector", "[0,1,0,0,0,0,0,0]"]),
        says("index-info", &["index", "build", "brain.db", "--append"]),
        says("index-info", &["index", "info", "brain.db"]),
        says("index-verify", &["index", "verify", "brain.db"]),
        says("index-verify", &["index", "verify", "brain.db", "--full"]),
        says("index-warm", &["index", "warm", "brain.db"]),
        says("export", &["export", "brain.db", "-o", "rows.parquet"]),
        says(
            "search-queries",
            &["search", "brain.db", "--queries", "rows.parquet", "-o", "near.parquet"],
        ),
        says("index-remove", &["index", "remove", "brain.db"]),
        says("index-remove", &["index", "remove", "brain.db"]),
        ends(1, &[], &["index", "info", "brain.db"]),
    ]
}

/// Files of vectors, without a store.
fn files() -> Vec<Step> {
    vec![
        says("convert", &["convert", "rows.npy", "rows.parquet"]),
        says("convert", &["convert", "rows.parquet", "rows.f16bin", "--type", "f16"]),
        says("dedup", &["dedup", "rows.npy"]),
        says("dedup", &["dedup", "rows.npy", "--tiles", "tiles"]),
        says("plan-join", &["plan-join", "--rows", "100e6", "--like", "rows.npy"]),
        says("dedup", &["dedup", "rows.parquet", "--threshold", "0.8,0.9", "--method", "graph"]),
        says("search", &["search", "rows.npy", "--row", "3"]),
        says("index-build", &["index", "build", "rows.npy", "--tier", "graph"]),
        says("search", &["search", "rows.npy", "--row", "3"]),
        says("index-info", &["index", "info", "rows.npy"]),
        says("index-verify", &["index", "verify", "rows.npy", "--full"]),
        says(
            "search-queries",
            &["search", "rows.npy", "--queries", "rows.parquet", "-o", "near.parquet"],
        ),
        ends(2, &[], &["convert", "rows.npy", "rows.parquet"]),
    ]
}

/// With vectors in a file.
fn with_vectors() -> Place {
    let place = Place::new();
    npy_of_rows(&place.path("rows.npy"), 600, 16, 1);
    place
}

/// With lines to save, and a configuration.
fn with_inputs() -> Place {
    let place = Place::with_pair();
    place.write("lines.jsonl", "{\"text\": \"Lamps are lit.\"}\n\n{\"txt\": \"unknown\"}\n");
    place.write(
        "memories.jsonl",
        "{\"text\": \"Lamps are lit.\", \"vector\": [1, 0], \"model\": \"m\"}\n",
    );
    place.write("memfold.yaml", "cluster:\n  linkage: average\n");
    let observations = "[\"Lamps are lit.\",\"Lamps are lit.\"]";
    place.write(
        "memory.jsonl",
        format!("{{\"type\":\"entity\",\"name\":\"A\",\"observations\":{observations}}}\nnone\n"),
    );
    place.write("mem0.jsonl", "{\"id\": \"m\", \"memory\": \"Lamps are lit.\"}\n");
    place
}

/// What needs no vectors.
fn judged() -> Vec<Step> {
    vec![
        ends(
            4,
            &["save", "save-refused"],
            &["save", "brain.db", "--jsonl", "lines.jsonl", "--set", PATIENT],
        ),
        says("import", &["import", "memories.jsonl", "--into", "new.db"]),
        says("import", &["import", "memories.jsonl", "--into", "new.db"]),
        says("import", &["import", "mem0.jsonl", "--into", "mem0.db", "--preset", "mem0"]),
        says("export-lines", &["export", "mem0.db", "-o", "back.jsonl", "--preset", "mem0"]),
        says("sync", &["sync", "memory.jsonl"]),
        says("consolidate", &["consolidate", "memory.jsonl", "--now", NOW]),
        says("sync", &["sync", "memory.jsonl", "--execute"]),
        says("explain-texts", &["explain", "--texts", "The port is 8080.", "The port is 9090."]),
        says("explain-texts", &["explain", "--texts", "The port is 8080.", "the port is 8080"]),
        says("explain-texts", &["explain", "--texts", "Tea at 5, and cake.", "Tea."]),
        says("config-show", &["config", "show"]),
        says("config-show", &["config", "show", "brain.db", "--set", "guard.enabled=false"]),
        says("config-path", &["config", "path"]),
        says("config-path", &["config", "path", "brain.db"]),
    ]
}

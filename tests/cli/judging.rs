//! Models decide about proposals: within limits, never twice, and never by models that a file
//! beside the store names.

use std::process::Stdio;

use memfold_tests::stub_provider::{StubProvider, chat};
use memfold_tests::{StoreStyle, brain_db, memory, turned_vector};
use serde_json::{Value, json};

use crate::support::{TestFolder, consolidate, wait_until};

const DIM: usize = 12;
const KEY: &str = "opensesame-4711";

/// Three pairs in other words at 0.93, a pair that differs in a port, and memories that say nothing of the kind.
fn dir() -> TestFolder {
    let texts = [
        ("Marek is the tech lead of payments.", 0, 0.0),
        ("The payments team's tech lead is Marek.", 0, 0.38),
        ("Invoices get sent out by Ines every Friday.", 2, 0.0),
        ("Every Friday Ines sends out the invoices.", 2, 0.38),
        ("The gateway listens on port 8080.", 4, 0.0),
        ("The gateway listens on port 9090.", 4, 0.38),
        ("Standups are at nine in the small room.", 6, 0.0),
        ("In the small room standups begin at nine.", 6, 0.38),
    ];
    let mut rows: Vec<_> = texts
        .iter()
        .enumerate()
        .map(|(at, (text, axis, turn))| memory(at, *text, &turned_vector(DIM, *axis, *turn)))
        .collect();
    rows.extend((8..40).map(|at| memory(at, format!("Note {at} is about nothing else."), &[])));
    TestFolder::with(&rows)
}

/// Merges all but the standups, which it keeps separate.
fn sensible() -> StubProvider {
    StubProvider::start(|asked| {
        let action = |group: &Vec<(String, String)>| {
            let ids: Vec<&String> = group.iter().map(|(id, _)| id).collect();
            let kind = if group[0].1.contains("tandups") { "KEEP_SEPARATE" } else { "MERGE" };
            json!({"action": kind, "ids": ids, "keep": ids[0], "text": null, "reason": "so it reads"})
        };
        let actions: Vec<Value> = asked.groups().iter().map(action).collect();
        chat(&json!({"actions": actions}).to_string())
    })
}

fn asking<'a>(chain: &'a str, further: &[&'a str]) -> Vec<&'a str> {
    let share = ["--set", "judge.loss.max_live_share_per_run=1"];
    consolidate(&[&["--set", chain][..], &share, further].concat())
}

fn chain(stub: &StubProvider) -> String {
    format!("judge.chain=[{{url: \"{}/v1\", model: wise, price: [1, 10]}}]", stub.url())
}

#[test]
fn model_decisions_are_merged_once_and_undone() {
    let (dir, stub) = (dir(), sensible());
    let chain = chain(&stub);
    let first = dir.run(&asking(&chain, &["--judge", "--plan", "first.json", "-v"]));
    assert_eq!(first.code, Some(0), "{first:?}");
    assert!(first.err.contains("asking about 3 proposals with 6 memories"), "{first:?}");
    assert!(first.err.contains("(this machine)"), "{first:?}");
    assert!(first.err.contains("CONSOLIDATE/JUDGE action=keep_separate"), "{first:?}");
    assert!(first.out.contains("judged: 2 merge · 1 kept separate · 0 left to you"), "{first:?}");
    assert_eq!(dir.live().len(), 40, "nothing is changed without --execute");
    // One request for each vote: the second does not ask about pairs that are kept separate.
    let asked = stub.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked.iter().map(|asked| asked.groups().len()).collect::<Vec<_>>(), [3, 2]);
    assert_eq!(asked[0].path, "/v1/chat/completions");
    assert_eq!(asked[0].body["model"], "wise");
    let (forth, back) = (asked[0].groups(), asked[1].groups());
    assert!(forth.iter().any(|group| group[0] == back[0][1]), "the second vote sees them reversed");
    assert!(!asked[0].body.to_string().contains("m0000"), "no id of the store leaves it");

    let again = dir.json(&asking(&chain, &["--judge", "--json"]));
    assert_eq!(stub.asked().len(), 2, "nothing is asked twice");
    assert_eq!(again["judged"]["votes_recorded"], 5);
    assert_eq!(again["judged"]["requests"], 0);
    drop(stub);
    dir.succeed(&asking(&chain, &["--judge", "recorded", "--plan", "second.json"]));
    let plan = |name: &str| std::fs::read(dir.path(name)).unwrap();
    assert_eq!(plan("first.json"), plan("second.json"), "a replay is the same to the byte");

    let judged = ["--judge", "recorded", "--execute", "--max-change-share", "1"];
    dir.succeed(&asking(&chain, &judged));
    assert_eq!(dir.live().len(), 38);
    let explained = dir.run("explain brain.db m000001");
    assert!(explained.out.contains("wise merges"), "{explained:?}");
    let runs = dir.run("runs brain.db latest");
    assert!(runs.out.contains("merge by wise"), "{runs:?}");
    dir.succeed("undo brain.db latest --execute");
    assert_eq!(dir.live().len(), 40);
}

#[test]
fn budgets_hold() {
    let (dir, stub) = (dir(), sensible());
    let chain = chain(&stub);
    let little = ["--set", "judge.budget.tokens_per_run=900", "--judge"];
    let answer = dir.run(&asking(&chain, &little));
    assert!(answer.err.contains("judge.budget.tokens_per_run is 900"), "{answer:?}");
    assert_eq!(stub.asked().len(), 0);
    // 1,000 tokens at 1 and 100 at 10 a million: 0.002 a request; the second vote is beyond it.
    let cheap = ["--set", "judge.budget.cost_per_day=0.001", "--judge"];
    let answer = dir.run(&asking(&chain, &cheap));
    assert!(answer.err.contains("judge.budget.cost_per_day"), "{answer:?}");
    assert_eq!(stub.asked().len(), 1);
    // Costs of that day count in later runs.
    dir.run(&asking(&chain, &cheap));
    assert_eq!(stub.asked().len(), 1);
    dir.run(&asking(&chain, &["--judge", "--set", "judge.budget.cost_per_day=1"]));
    assert_eq!(stub.asked().len(), 2, "the first vote was kept");
}

#[test]
fn store_file_cannot_name_models() {
    let (dir, stub) = (dir(), sensible());
    let yaml = format!("judge: {{ chain: [{{ url: \"{}\" }}] }}\n", stub.url());
    std::fs::write(dir.path("memfold.yaml"), yaml).unwrap();
    let flags = consolidate(&["--judge"]);
    dir.run(&flags).fails_with(2, &["`judge.chain` is empty", "judge: { chain: [{ url:"]);
    assert_eq!(stub.asked().len(), 0);
}

#[test]
fn a_classifier_is_named_with_what_it_lacks() {
    let (dir, stub) = (dir(), sensible());
    let chain = chain(&stub);
    let classifier = "judge.nli.folder=no-such-folder";
    let flags = consolidate(&["--set", &chain, "--set", classifier, "--judge"]);
    let hint = "build with --features local-models";
    dir.run(&flags).fails_with(1, &["no-such-folder cannot be used", hint]);
    // A classifier takes the place of the chain: nothing is sent where it fails.
    assert_eq!(stub.asked().len(), 0);
}

#[test]
fn keys_are_sent_and_never_shown() {
    let dir = dir();
    let stub = StubProvider::start(|asked| {
        assert!(asked.head.contains(KEY), "{}", asked.head);
        chat(&format!("{KEY} is no JSON, and neither is this"))
    });
    let chain =
        format!("judge.chain=[{{url: \"{}\", model: wise, key_env: WISE_KEY}}]", stub.url());
    let flags = asking(&chain, &["--judge", "-v"]);
    let unset = dir.run(&flags);
    unset.fails_with(2, &["names the variable WISE_KEY, which is not set"]);
    let output = dir.command(&flags).env("WISE_KEY", KEY).output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(said.contains("3 not judged"), "{said}");
    assert!(!said.contains(KEY), "{said}");
    assert!(!String::from_utf8_lossy(&std::fs::read(dir.path("brain.db")).unwrap()).contains(KEY));
}

#[test]
fn forget_erases_judgements() {
    let (dir, stub) = (dir(), sensible());
    let chain = chain(&stub);
    dir.succeed(&asking(&chain, &["--judge"]));
    let count = || dir.one::<i64>("SELECT count(*) FROM memfold_judgements");
    assert_eq!(count(), 5);
    dir.succeed("forget brain.db m000001 --execute");
    assert_eq!(count(), 3);
}

/// A vector that is near no other one.
pub(crate) fn noise(number: usize) -> Vec<f32> {
    let value = |axis: usize| {
        let mixed = ((number * 64 + axis) as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 40) as f32 / 8e6 - 1.0
    };
    (0..64).map(value).collect()
}

/// A vector at about 0.93 to that of `base`.
pub(crate) fn near(base: usize, number: usize) -> Vec<f32> {
    noise(base).iter().zip(noise(number)).map(|(base, own)| base + 0.4 * own).collect()
}

const PAIRS: usize = 300;

/// A store of 2,000 memories with [`PAIRS`] pairs in other words.
fn large_store(dir: &TestFolder) {
    let rows: Vec<_> = (0..2_000)
        .map(|at| {
            let (pair, is_newer) = (at / 2, at % 2 == 1);
            let text = match (pair < PAIRS, is_newer) {
                (true, false) => format!("The archive of payments{pair} is kept in the cellar."),
                (true, true) => format!("Archive of payments{pair} is kept in the cellar."),
                _ => format!("Note {at} is about nothing else."),
            };
            let vector = match pair < PAIRS && is_newer {
                true => near(pair * 2, at),
                false => noise(at),
            };
            memory(at, text, &vector)
        })
        .collect();
    brain_db(&dir.path("brain.db"), &rows, StoreStyle::Plain);
}

/// Takes 15 ms for each answer, and merges everything.
fn slow_and_credulous() -> StubProvider {
    StubProvider::start(|asked| {
        std::thread::sleep(std::time::Duration::from_millis(15));
        let action = |group: &Vec<(String, String)>| {
            let ids: Vec<&String> = group.iter().map(|(id, _)| id).collect();
            json!({"action": "MERGE", "ids": ids, "keep": ids[0]})
        };
        let actions: Vec<Value> = asked.groups().iter().map(action).collect();
        chat(&json!({"actions": actions}).to_string())
    })
}

/// A run over 2,000 memories with 300 proposals is killed again and again: answers are kept, the
/// plan of the run that ends equals the plan of every replay, and undo brings all back.
#[test]
fn killed_judged_run_keeps_its_answers() {
    let (dir, stub) = (TestFolder::new(), slow_and_credulous());
    large_store(&dir);
    let chain = chain(&stub);
    let minute = ["--set", "judge.budget.requests_per_minute=10000"];
    let tokens = ["--set", "judge.budget.tokens_per_minute=100000000"];
    let all = ["--set", "propose.max_per_run=1000", "--judge"];
    let flags = asking(&chain, &[&minute[..], &tokens, &all].concat());
    const KILLS: usize = 3;
    for kill in 0..KILLS {
        let mut child =
            dir.command(&flags).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let wanted = 12 * (kill + 1);
        wait_until(|| stub.asked().len() >= wanted || child.try_wait().unwrap().is_some());
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let whole = [&flags[..], &["--plan", "whole.json", "--json"]].concat();
    let report = dir.json(&whole);
    let judged = &report["judged"];
    assert_eq!(judged["proposals"], PAIRS, "{judged}");
    assert_eq!(judged["merged"], PAIRS, "{judged}");
    assert!(judged["votes_recorded"].as_u64().unwrap() >= 100, "{judged}");
    let mut bodies: Vec<String> = stub.asked().iter().map(|asked| asked.body.to_string()).collect();
    let count = bodies.len();
    bodies.sort();
    bodies.dedup();
    assert!(count - bodies.len() <= KILLS, "only what was under way is asked again");
    drop(stub);
    let recorded = ["--set", "propose.max_per_run=1000", "--judge", "recorded"];
    let run = |further: &[&str]| {
        dir.succeed(&asking(&chain, &[&recorded, further].concat()));
    };
    run(&["--plan", "again.json"]);
    let plan = |name: &str| -> Value {
        let plan = std::fs::read(dir.path(name)).unwrap();
        let mut plan: Value = serde_json::from_slice(&plan).unwrap();
        plan.as_object_mut().unwrap().remove("overrides");
        plan
    };
    assert_eq!(plan("whole.json"), plan("again.json"));
    run(&["--execute", "--max-change-share", "1"]);
    assert_eq!(dir.live().len(), 2_000 - PAIRS);
    dir.succeed("undo brain.db latest --execute");
    assert_eq!(dir.live().len(), 2_000);
}

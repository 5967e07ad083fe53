//! llama.cpp's server answers whole judged runs, with tiny models of random weights: no answer
//! makes a fact get lost.
//!
//! Runs only where `MEMFOLD_LLAMA_PYTHON` names a Python with `tests/extras/requirements.txt`.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use memfold_tests::{StoreImage, StoreStyle, brain_db, diff, integrity, memory};
use serde_json::Value;

use crate::judging::{near, noise};
use crate::support::{TestFolder, consolidate};

const VARIABLE: &str = "MEMFOLD_LLAMA_PYTHON";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/extras/llama_server.py");
const PAIRS: usize = 24;
const ROWS: usize = 100;
/// A whole run takes seconds; later it hangs.
const TIME_MAX: Duration = Duration::from_secs(300);

/// The models that the script serves: their kind, the seed of their weights, and the number of
/// votes.
const MODELS: [[&str; 3]; 6] = [
    ["babbling", "4", "1"],
    ["stammering", "1", "2"],
    ["opinionated", "1", "2"],
    ["opinionated", "3", "2"],
    ["opinionated", "4", "1"],
    ["opinionated", "5", "1"],
];

/// The script, until the end of the test.
struct LlamaServer {
    child: Child,
    url: String,
}

impl LlamaServer {
    fn start(python: &str, dir: &TestFolder, [kind, seed, _]: [&str; 3]) -> Self {
        let mut command = dir.program(Path::new(python), &[SCRIPT, kind, seed]);
        let log = File::create(dir.path("server.log")).unwrap();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut server = Self { child: command.spawn().unwrap(), url: String::new() };
        let lines = BufReader::new(server.child.stdout.take().unwrap()).lines();
        let lines = lines.map(Result::unwrap);
        let url =
            lines.filter_map(|line| line.strip_prefix("listening ").map(str::to_owned)).next();
        let log = || std::fs::read_to_string(dir.path("server.log")).unwrap_or_default();
        server.url = url.unwrap_or_else(|| panic!("the server ended: {}", log()));
        server
    }
}

impl Drop for LlamaServer {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// Two texts that say the same in other words, and facts that some text must contain afterwards.
/// Some say less than the other.
fn wordings(pair: usize) -> ([String; 2], Vec<String>) {
    match pair % 4 {
        0 => (
            [
                format!("Marek{pair} is the tech lead of payments{pair}."),
                format!("The payments{pair} team's tech lead is Marek{pair}."),
            ],
            vec![format!("Marek{pair}"), format!("payments{pair}")],
        ),
        1 => (
            [
                format!("The backup of alpha{pair} runs nightly at 02:{pair:02}."),
                format!("Nightly there is the backup of alpha{pair}."),
            ],
            vec![format!("alpha{pair}"), format!("02:{pair:02}")],
        ),
        2 => (
            [
                format!("Every Friday Ines{pair} sends out the invoices."),
                format!("Invoices get sent out by Ines{pair} every Friday from /srv/mail/{pair}."),
            ],
            vec![format!("Ines{pair}"), format!("/srv/mail/{pair}")],
        ),
        _ => (
            [
                format!("The gateway of site{pair} listens on port 80{pair:02}."),
                format!("Port 80{pair:02} is where the gateway of site{pair} listens."),
            ],
            vec![format!("site{pair}"), format!("80{pair:02}")],
        ),
    }
}

fn store(dir: &TestFolder) {
    let row = |at: usize| match at < 2 * PAIRS {
        true => {
            let texts = wordings(at / 2).0;
            let vector = if at % 2 == 1 { near(at - 1, at) } else { noise(at) };
            memory(at, &texts[at % 2], &vector)
        }
        false => memory(at, format!("Note {at} is about nothing else."), &noise(at)),
    };
    let rows: Vec<_> = (0..ROWS).map(row).collect();
    brain_db(&dir.path("brain.db"), &rows, StoreStyle::Plain);
}

/// Returns the facts that stand in no live memory.
fn lost(dir: &TestFolder) -> Vec<String> {
    let texts: Vec<String> = dir.all("SELECT content FROM stm WHERE source NOT LIKE 'archived:%'");
    let facts = (0..PAIRS).flat_map(|pair| wordings(pair).1);
    facts.filter(|fact| !texts.iter().any(|text| text.contains(fact.as_str()))).collect()
}

/// Asks in a dry run, merges from the recorded answers, undoes that, and returns the `judged` of the first report.
fn judged_run(python: &str, model: [&str; 3]) -> Value {
    let dir = TestFolder::new();
    store(&dir);
    let path = dir.path("brain.db");
    let before = StoreImage::of(&path);
    let server = LlamaServer::start(python, &dir, model);
    let chain = format!("judge.chain=[{{url: \"{}/v1\", model: tiny}}]", server.url);
    let votes = format!("judge.votes={}", model[2]);
    let mut sets = vec!["--set", &chain, "--set", &votes];
    for set in [
        "judge.timeout_ms=60000",
        "judge.loss.max_live_share_per_run=1",
        "judge.budget.requests_per_minute=10000",
        "judge.budget.tokens_per_minute=100000000",
        "judge.budget.tokens_per_run=100000000",
        "propose.max_per_run=1000",
    ] {
        sets.extend(["--set", set]);
    }
    let run = |further: &[&'static str]| consolidate(&[&sets, further].concat());

    let report = dir.json(&run(&["--judge", "--json"]));
    drop(server);
    assert!(report["judged"]["proposals"].as_u64().unwrap() >= 20, "{report}");
    assert_eq!(diff(&before, &StoreImage::of(&path)), Vec::<String>::new(), "a dry run");
    assert_eq!(dir.live().len(), ROWS);

    dir.succeed(&run(&["--judge", "recorded", "--execute", "--max-change-share", "1"]));
    assert_eq!(lost(&dir), Vec::<String>::new(), "{report}");
    assert_eq!(integrity(&path), Vec::<String>::new());
    let merged = report["planned"]["merge"].as_u64().unwrap() as usize;
    assert_eq!(dir.live().len(), ROWS - merged, "the same is merged as was planned");
    if merged > 0 {
        dir.succeed("undo brain.db latest --execute");
    }
    assert_eq!(diff(&before, &StoreImage::of(&path)), Vec::<String>::new(), "undone");
    report["judged"].clone()
}

#[test]
#[expect(clippy::print_stderr, reason = "an extra says what it did, and what would run it")]
fn tiny_models_behind_llama_cpp_do_no_harm() {
    let Ok(python) = std::env::var(VARIABLE) else {
        return eprintln!("skipped: {VARIABLE} names no Python with tests/extras/requirements.txt");
    };
    let (mut given, mut refused, mut merged) = (0, 0, 0);
    for model in MODELS {
        #[expect(clippy::disallowed_methods, reason = "a run that hangs must fail")]
        let started = Instant::now();
        let judged = judged_run(&python, model);
        let seconds = started.elapsed().as_secs_f64();
        let number = |key: &str| judged[key].as_u64().unwrap();
        let refusals: u64 =
            judged["refusals"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
        (given, refused, merged) =
            (given + number("votes_given"), refused + refusals, merged + number("merged"));
        eprintln!(
            "{}: {} proposals, {} requests, {} votes answered, {} without answer {}, {refusals} opinions refused {}, \
             {} merged, {} kept separate, {} left, {seconds:.1} s",
            model.join(" "),
            number("proposals"),
            number("requests"),
            number("votes_given"),
            number("votes_missing"),
            judged["failures"],
            judged["refusals"],
            number("merged"),
            number("kept_separate"),
            number("left"),
        );
        assert!(started.elapsed() < TIME_MAX, "{seconds} s");
    }
    eprintln!("all: {given} votes answered, {refused} opinions refused, {merged} merged");
    assert!(given > 0, "no model gave an answer that was read: llama.cpp was not tested");
}

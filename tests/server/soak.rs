//! Half an hour of everything at once (`MEMFOLD_SOAK_SECONDS`, 1,800). `python3 bench/measure.py soak --full` runs it and keeps
//! the line of figures that it prints.

use std::collections::BTreeMap;
use std::io::{BufReader, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use memfold::lookup::TierChoice;
use memfold::machine::{self, Stopwatch};
use memfold_core::memory::MemoryId;
use memfold_core::memory::Status;
use memfold_store::{BrainDb, OpenOptions};
use memfold_tests::{TestIndex, generated_rows, memory};
use serde_json::{Value, json};

use crate::support::{Answer, Server, TestFolder};

const ROWS: u32 = 5_000;
const DIM: usize = 64;
const CALLERS: usize = 4;
/// Requests in a second, of all callers together.
const RATE: f64 = 200.0;
/// One in this many requests saves something new in the first third of the time, and afterwards
/// repeats one of these saves: the store then no longer changes, and the memory of the process must
/// not grow either.
const SAVE_EVERY: usize = 20;
/// How much more memory may stay between runs in the last sixth of the time than in the sixth after the middle.
const GROWTH_MAX: f64 = 1.1;
/// Pairs of equal texts: each run merges them, and each undo takes that back.
const COPIES: usize = 100;

/// Counts of answers.
#[derive(Default)]
struct Tally {
    statuses: Mutex<BTreeMap<(String, u64), usize>>,
    saved: Mutex<Vec<String>>,
    requests: AtomicUsize,
    /// Requests that began more than a second late.
    late: AtomicUsize,
}

#[test]
#[ignore = "takes half an hour"]
fn everything_at_once_loses_nothing() {
    let seconds = std::env::var("MEMFOLD_SOAK_SECONDS").ok();
    let seconds: f64 = seconds.and_then(|text| text.parse().ok()).unwrap_or(1_800.0);
    let vectors = generated_rows(ROWS, DIM, 7);
    let row = |at: usize| memory(at, text(at), &vectors[original(at) * DIM..][..DIM]);
    let rows: Vec<_> = (0..ROWS as usize).map(row).collect();
    let dir = TestFolder::with(&rows);
    TestIndex::of(&dir.path("brain.db")).build(TierChoice::Auto);
    let server = dir.serve_writing();
    let (tally, clock) = (Tally::default(), Stopwatch::start());
    let log = dir.path("brain.db-wal");
    let (mut anonymous, mut log_most) = (Vec::new(), 0);
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (server, tally, clock, vectors) = (&server, &tally, &clock, &vectors);
            scope.spawn(move || call(server, caller, vectors, tally, clock, seconds));
        }
        scope.spawn(|| work(&server, &dir, &tally, &clock, seconds));
        while clock.seconds() < seconds {
            anonymous.push(anonymous_kib(server.process()));
            log_most = log_most.max(log.metadata().map_or(0, |log| log.len()));
            std::thread::sleep(Duration::from_secs_f64((seconds / 30.0).min(10.0)));
        }
    });
    let statuses = tally.statuses.into_inner().unwrap();
    let saved = tally.saved.into_inner().unwrap();
    let store = BrainDb::open(dir.path("brain.db"), OpenOptions::default()).unwrap();
    let is_lost = |id: &&String| {
        let resolved =
            store.resolve(&MemoryId::new(id.as_str()), &jiff::tz::TimeZone::UTC, machine::clock());
        resolved.unwrap().status == Status::Unknown
    };
    let lost = saved.iter().filter(is_lost).count();
    let mib = |kib: u64| kib as f64 / 1024.0;
    let series: Vec<f64> =
        anonymous.iter().copied().map(mib).step_by(anonymous.len().div_ceil(30)).collect();
    let sixth = |at: usize| {
        let count = anonymous.len();
        // The least: during a run there is more.
        let part = anonymous[at * count / 6..(at + 1) * count / 6].iter().copied();
        mib(part.min().unwrap_or_default())
    };
    let (middle, last) = (sixth(3), sixth(5));
    let count = |is_meant: fn(&str, u64) -> bool| -> usize {
        let meant = statuses.iter().filter(|((kind, status), _)| is_meant(kind, *status));
        meant.map(|(_, count)| count).sum()
    };
    let figures = json!({
        "memories": ROWS, "seconds": seconds, "requests": tally.requests.load(Ordering::Relaxed),
        "late": tally.late.load(Ordering::Relaxed), "saved": saved.len(), "lost": lost,
        "runs": count(|kind, _| kind == "run"), "undone": count(|kind, _| kind == "undo"),
        "refused": count(|_, status| status == 429), "errors": count(|_, status| !is_fine(status)),
        "anonymous_mib": {
            "middle": middle, "last": last, "most": anonymous.iter().copied().max().map(mib),
            "series": series,
        },
        "log_mib_most": log_most as f64 / 1024.0 / 1024.0,
        "answers": statuses.iter().map(|((kind, status), count)| json!([kind, status, count])).collect::<Vec<_>>(),
    });
    std::io::stdout().write_all(format!("{figures}\n").as_bytes()).unwrap();
    assert!(statuses.keys().all(|(_, status)| is_fine(*status)), "{statuses:?}");
    assert_eq!(lost, 0);
    assert!(last <= middle * GROWTH_MAX, "{anonymous:?}");
}

fn is_fine(status: u64) -> bool {
    (200..300).contains(&status) || status == 429
}

const fn original(at: usize) -> usize {
    if at < 2 * COPIES { at / 2 } else { at }
}

fn text(at: usize) -> String {
    let at = original(at);
    format!("Memory {at} speaks of topic {}", at % 997)
}

/// Calls at an even pace over one connection.
fn call(
    server: &Server,
    caller: usize,
    vectors: &[f32],
    tally: &Tally,
    clock: &Stopwatch,
    seconds: f64,
) {
    let mut reader = BufReader::new(server.connect());
    let pace = CALLERS as f64 / RATE;
    let new_facts = ((seconds / 3.0 / pace) as usize).next_multiple_of(SAVE_EVERY);
    for at in 0.. {
        let due = at as f64 * pace;
        if due >= seconds {
            break;
        }
        let wait = due - clock.seconds();
        if wait > 0.0 {
            std::thread::sleep(Duration::from_secs_f64(wait));
        } else if wait < -1.0 {
            tally.late.fetch_add(1, Ordering::Relaxed);
        }
        let row = (at * 31 + caller * 7) % ROWS as usize;
        let vector = &vectors[original(row) * DIM..][..DIM];
        let known = text(row);
        let fact = at % new_facts;
        let new = format!("Caller {caller} noted fact {fact} at desk {}", fact % 13);
        let (path, body) = match at % SAVE_EVERY {
            0 => ("/v1/save", json!({ "text": new, "vector": vector })),
            1 => ("/v1/save", json!({ "text": known, "vector": vector })),
            2..5 => ("/v1/search", json!({ "vector": vector, "limit": 5 })),
            5..8 => ("/v1/recall", json!({ "query": known, "vector": vector })),
            _ => ("/v1/check", json!({ "text": known, "vector": vector })),
        };
        let answer = exchange(&mut reader, &server.address, path, &body.to_string());
        tally.requests.fetch_add(1, Ordering::Relaxed);
        tally.count(path, &answer);
        if at % SAVE_EVERY == 0 && answer["stored"] == true {
            tally.saved.lock().unwrap().push(answer["id"].as_str().unwrap().to_owned());
        }
    }
}

/// Runs, undoes, rebuilds the index and reads pages, one after the other.
fn work(server: &Server, dir: &TestFolder, tally: &Tally, clock: &Stopwatch, seconds: f64) {
    let mut round = 0;
    while clock.seconds() < seconds {
        let job = server.job("/v1/runs", &[], &json!({ "execute": "identical" }));
        tally.count("run", &job);
        assert_eq!(job["state"], "done", "{job}");
        if let Some(run) = job["run_id"].as_str() {
            let path = format!("/v1/runs/{run}/undo");
            let undone = server.job(&path, &[], &json!({ "remerge_ok": true }));
            tally.count("undo", &undone);
            assert_eq!(undone["state"], "done", "{undone}");
        }
        for page in ["/ui", "/ui/runs", "/ui/plans", "/metrics", "/v1/stats"] {
            let status = u64::from(server.get(page).status);
            tally.count(page, &json!({ "status": status }));
        }
        round += 1;
        if round % 5 == 0 {
            TestIndex::of(&dir.path("brain.db")).build(TierChoice::Auto);
        }
        std::thread::sleep(Duration::from_secs(2));
    }
}

impl Tally {
    /// Problems name their status; an answer without one counts as 200.
    fn count(&self, kind: &str, answer: &Value) {
        let status = answer["status"].as_u64().unwrap_or(200);
        *self.statuses.lock().unwrap().entry((kind.to_owned(), status)).or_default() += 1;
    }
}

fn anonymous_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn exchange(
    reader: &mut BufReader<std::net::TcpStream>,
    host: &str,
    path: &str,
    body: &str,
) -> Value {
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    reader.get_mut().write_all(request.as_bytes()).unwrap();
    Answer::next(reader).json()
}

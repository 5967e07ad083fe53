//! How long a check and a save take over loopback; run by hand:
//! `cargo test --release -p memfold-server --test server latency -- --ignored --nocapture`.

use std::io::{BufReader, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use memfold::machine::Stopwatch;
use memfold_tests::{generated_rows, memory};
use serde_json::{Value, json};

use crate::support::{Answer, Place, Server};

/// Vectors as small as these leave the time of HTTP, JSON and the store. `MEMFOLD_ROWS` sets the memories,
/// `MEMFOLD_WRITERS` how many save beside what is timed.
const DIM: usize = 384;
const CALLS: usize = 2_000;

#[test]
#[ignore = "measures time"]
fn a_check_and_a_save_over_keep_alive() {
    let number = |name| std::env::var(name).ok().and_then(|number| number.parse::<u32>().ok());
    let rows = number("MEMFOLD_ROWS").unwrap_or(100_000);
    let writers = number("MEMFOLD_WRITERS").unwrap_or(0);
    let vectors = generated_rows(rows, DIM, 7);
    let texts = |at: usize| {
        format!("Memory number {at} says something of its own about topic {}", at % 997)
    };
    let memories: Vec<_> = vectors
        .chunks_exact(DIM)
        .enumerate()
        .map(|(at, vector)| memory(at, texts(at), vector))
        .collect();
    let place = Place::with(&memories);
    build_index(&place);
    let server = place.write();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let (server, is_over) = (&server, &is_over);
            scope.spawn(move || {
                for at in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let text = format!("Writer {writer} says number {at}");
                    assert_eq!(server.post("/v1/save", &json!({ "text": text })).status, 200);
                }
            });
        }
        time(&server, (&vectors, rows, writers), &texts);
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Times calls over one connection, and prints them beside what the engine told.
fn time(
    server: &Server,
    (vectors, rows, writers): (&[f32], u32, u32),
    texts: &dyn Fn(usize) -> String,
) {
    let stream = server.connect();
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream);
    for (path, is_save) in [("/v1/check", false), ("/v1/save", true)] {
        let (mut outside, mut inside) = (Vec::new(), Vec::new());
        for call in 0..CALLS {
            let vector = &vectors[call * 17 % rows as usize * DIM..][..DIM];
            let text = match is_save {
                true => format!("A new memory, number {call}, said by nobody before"),
                false => texts(call),
            };
            let body = json!({ "text": text, "vector": vector }).to_string();
            let started = Stopwatch::start();
            let answer = exchange(&mut reader, &server.address, path, &body);
            outside.push((started.seconds() * 1e6) as u64);
            inside.push(answer["elapsed_us"]["total"].as_u64().unwrap());
        }
        let at = |times: &mut Vec<u64>, share: usize| {
            times.sort_unstable();
            times[(times.len() - 1) * share / 100]
        };
        let figures = json!({
            "path": path, "rows": rows, "dim": DIM, "calls": CALLS, "writers": writers,
            "http_us": { "p50": at(&mut outside, 50), "p99": at(&mut outside, 99) },
            "engine_us": { "p50": at(&mut inside, 50), "p99": at(&mut inside, 99) },
        });
        std::io::stdout().write_all(format!("{figures}\n").as_bytes()).unwrap();
    }
}

pub(crate) fn build_index(place: &Place) {
    use memfold::lookup::{BuildIndex, TierChoice, build_index};
    use memfold_store::{BrainDb, LoadRequest};
    let store =
        BrainDb::open(place.path("brain.db"), memfold_store::OpenOptions::default()).unwrap();
    let (zone, progress) = (jiff::tz::TimeZone::UTC, memfold_index::NoProgress);
    let load =
        LoadRequest { time_zone: &zone, now: memfold::machine::clock(), progress: &progress };
    build_index(
        &store,
        &BuildIndex {
            folder: &place.path("brain.db.memfold"),
            mode: memfold_index::file::FileMode::PRIVATE,
            load,
            model: None,
            tier: TierChoice::Auto,
            pool: &memfold_index::Pool::new(None).unwrap(),
            kernels: memfold_simd::Kernels::active(),
            scratch_dir: &std::env::temp_dir(),
            wait: std::time::Duration::ZERO,
        },
    )
    .unwrap();
}

pub(crate) fn exchange(
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

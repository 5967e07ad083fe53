//! Crashes, several servers, several writers: nothing is lost and nothing doubles.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::folder::wait_until;
use crate::support::{Answer, Server, TestFolder};

fn save(server: &Server, key: &str, text: &str) -> Answer {
    let body = json!({ "text": text, "vector": [0, 0, 0, 1] }).to_string();
    server.send("POST", "/v1/save", &[("Idempotency-Key", key)], &body)
}

/// A client that got no answer sends again, to a server that was killed in the middle and started anew.
#[test]
fn a_save_that_is_sent_again_is_not_done_again() {
    let dir = TestFolder::with_deploys();
    let server = dir.serve_writing();
    let first = save(&server, "key-1", "Carol sails on Sundays");
    assert_eq!(first.status, 200, "{first:?}");
    let again = save(&server, "key-1", "Carol sails on Sundays");
    assert_eq!(first.body, again.body);
    let other = save(&server, "key-1", "Carol sails on Mondays");
    other.assert_problem(422, "unprocessable");
    save(&server, "a key", "text").assert_problem(400, "malformed");
    server.kill();
    let server = dir.serve_writing();
    assert_eq!(save(&server, "key-1", "Carol sails on Sundays").body, first.body);
    let sql = "SELECT count(*) FROM stm WHERE content LIKE 'Carol%'";
    let touched = "SELECT access_count FROM stm WHERE content LIKE 'Carol%'";
    assert_eq!((dir.one::<i64>(sql), dir.one::<i64>(touched)), (1, 0));
}

#[test]
fn saves_survive_a_server_that_is_killed_among_them() {
    let dir = TestFolder::with_deploys();
    for round in 0..4 {
        let server = dir.serve_writing();
        let address = server.address.clone();
        let (is_over, saved) = (AtomicBool::new(false), AtomicUsize::new(0));
        let answered = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..3)
                .map(|writer| {
                    let (server, is_over, saved) = (&server, &is_over, &saved);
                    scope.spawn(move || {
                        let mut answered = Vec::new();
                        for at in 0.. {
                            if is_over.load(Ordering::Relaxed) {
                                break;
                            }
                            let key = format!("{round}-{writer}-{at}");
                            let text = format!("Fact {key} is of its own");
                            if save(server, &key, &text).status == 200 {
                                saved.fetch_add(1, Ordering::Relaxed);
                                answered.push((key, text));
                            }
                        }
                        answered
                    })
                })
                .collect();
            wait_until(|| saved.load(Ordering::Relaxed) >= 10 + 7 * round);
            let id = server.process().to_string();
            let killed = std::process::Command::new("kill").args(["-KILL", &id]).status();
            assert!(killed.unwrap().success(), "{address}");
            is_over.store(true, Ordering::Relaxed);
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
        });
        drop(server);
        let server = dir.serve_writing();
        for (key, text) in &answered {
            assert_eq!(save(&server, key, text).status, 200);
            let sql = format!("SELECT count(*) FROM stm WHERE content = '{text}'");
            assert_eq!(dir.one::<i64>(&sql), 1, "{text}");
        }
    }
    assert_eq!(
        dir.one::<i64>("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"),
        0
    );
}

#[test]
fn two_servers_and_four_writers_share_a_store() {
    let dir = TestFolder::with_deploys();
    let servers = [dir.serve_writing(), dir.serve_writing()];
    let texts = |writer: usize| (0..15).map(move |at| format!("Writer {writer} says number {at}"));
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let server = &servers[writer % 2];
            scope.spawn(move || {
                for text in texts(writer) {
                    let answer = server.post("/v1/save", &json!({ "text": text }));
                    assert_eq!(answer.status, 200, "{answer:?}");
                }
            });
        }
        for server in &servers {
            scope.spawn(move || {
                for _ in 0..30 {
                    let asked = json!({ "text": "The deploy runs every Friday at noon" });
                    let answer = server.post("/v1/check", &asked);
                    assert!([200, 429].contains(&answer.status), "{answer:?}");
                    if answer.status == 200 {
                        assert_eq!(answer.json()["decision"], "touch", "{answer:?}");
                    }
                }
            });
        }
    });
    assert_eq!(dir.one::<i64>("SELECT count(*) FROM stm"), 4 + 60);
    // The writes of one are known to the other at once.
    for server in &servers {
        let known = server.post("/v1/check", &json!({ "text": "Writer 0 says number 0" })).json();
        assert_eq!(known["decision"], "touch", "{known}");
    }
    let plan = servers[0].plan(&json!({ "save_plan": true }));
    servers[1].apply(&plan.0, &plan.1);
    assert_eq!(dir.one::<i64>("SELECT count(*) FROM stm"), 3 + 60);
}

/// SQLite begins its write-ahead log anew only where no reader needs it, and here one always does.
#[test]
fn the_log_stays_short_under_readers_without_a_gap() {
    let dir = TestFolder::with_deploys();
    let server = dir.serve_writing();
    let log = dir.path("brain.db-wal");
    let bytes = || log.metadata().map_or(0, |log| log.len());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let open = || dir.connect();
            let [one, other] = [open(), open()];
            let begin = "BEGIN; SELECT count(*) FROM stm";
            one.execute_batch(begin).unwrap();
            for (next, last) in [(&other, &one), (&one, &other)].into_iter().cycle() {
                next.execute_batch(begin).unwrap();
                std::thread::sleep(Duration::from_millis(5));
                last.execute_batch("COMMIT").unwrap();
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let limit = 16 << 20;
        let owner = dir.connect();
        owner.execute_batch("CREATE TABLE of_the_owner (content BLOB)").unwrap();
        for _ in 0..20 {
            owner.execute("INSERT INTO of_the_owner VALUES (zeroblob(1000000))", []).unwrap();
        }
        let longest = bytes();
        assert_eq!(save(&server, "key", "The deploy moved to Monday at nine").status, 200);
        let clock = memfold::machine::Stopwatch::start();
        wait_until(|| bytes() <= limit || clock.seconds() >= 60.0);
        is_over.store(true, Ordering::Relaxed);
        assert!(longest > limit, "the log never grew long: {longest} bytes");
        assert!(bytes() <= limit, "{} bytes after a minute", bytes());
    });
    let sql = "SELECT count(*) FROM stm WHERE content LIKE '%moved to Monday%'";
    assert_eq!(dir.one::<i64>(sql), 1);
}

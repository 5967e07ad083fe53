//! `memfold embed`: who has no embedding gets one, once, from the configured provider and nobody else.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use memfold_store::brain_db::StoreStyle;
use memfold_tests::PlainMemory;
use memfold_tests::stub_provider::{StubProvider, answer, embeddings, text_vector};
use memfold_tests::{StoreImage, brain_db, created_at, diff, integrity, memory, unit_vector};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::Place;

const DIM: usize = 8;
const NOW: &str = "2026-06-30T12:00:00Z";

/// Three memories with a vector of the model `m`, and so many without.
fn lacking(count: usize) -> Place {
    let place = Place::new();
    let mut rows: Vec<PlainMemory> = (0..3)
        .map(|row| memory(row, format!("Lamp {row} burns."), &unit_vector(DIM, row)))
        .collect();
    rows.extend((3..3 + count).map(|row| {
        PlainMemory::new(format!("m{row:06}"), format!("Boat {row} leaves."), created_at(row))
    }));
    brain_db(&place.path("brain.db"), &rows, StoreStyle::Plain);
    place
}

fn connect(place: &Place) -> Connection {
    Connection::open(place.path("brain.db")).unwrap()
}

fn count(place: &Place, sql: &str) -> i64 {
    connect(place).query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Arguments with a provider, and whether to write.
fn embed<'a>(url: &'a str, further: &[&'a str]) -> Vec<&'a str> {
    let words = ["embed", "brain.db", "--now", NOW, "--set", "embed.provider=daemon"];
    [&words[..], &["--set", url], further].concat()
}

fn url_of(stub: &StubProvider) -> String {
    format!("embed.url={}", stub.url())
}

#[test]
fn a_dry_run_counts_and_sends_nothing() {
    let place = lacking(4);
    let stub = StubProvider::daemon(DIM);
    let url = url_of(&stub);
    let before = place.files();
    let answer = place.run(&embed(&url, &["--limit", "3"]));
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let place_asked = format!("{}/embed", stub.url());
    let expected = format!(
        "7 memories in use: 3 with an embedding, 4 without one\n\
         the store's vectors: m, 8 dimensions\n\
         3 texts would go to {place_asked}\n\
         next: memfold embed brain.db --limit 3 --set embed.provider=daemon --set {url} --execute\n"
    );
    assert_eq!(answer.out, expected);
    assert_eq!(answer.err, "dry run: nothing was sent anywhere or written to the store\n");
    assert_eq!(stub.asked(), []);
    assert_eq!(place.files(), before);
}

#[test]
fn memories_without_an_embedding_get_one_and_no_second_one() {
    let place = lacking(5);
    let stub = StubProvider::daemon(DIM);
    let url = url_of(&stub);
    let before = StoreImage::of(&place.path("brain.db"));
    let further = ["--execute", "--json"];
    let document = place.json(&embed(&url, &further));
    for (key, expected) in [("live", 8), ("missing", 5), ("wanted", 5), ("filled", 5)] {
        assert_eq!(document[key], expected, "{key}");
    }
    assert_eq!((&document["model"], &document["dim"]), (&json!("m"), &json!(DIM)));
    assert_eq!(document["provider"], "daemon");
    let newest_first: Vec<String> = stub.asked().iter().flat_map(|asked| asked.texts()).collect();
    let expected: Vec<String> = (3..8).rev().map(|row| format!("Boat {row} leaves.")).collect();
    assert_eq!(newest_first, expected);
    let sql = "SELECT id, content, embedding, model, created_at FROM embeddings
               WHERE source_type = 'stm' AND source_id = 'm000005'";
    let row = connect(&place)
        .query_row(sql, [], |row| {
            let id: String = row.get(0)?;
            assert!(id.starts_with("emb_") && id.len() == 16, "{id}");
            let vector: Vec<u8> = row.get(2)?;
            let stamp: String = row.get(4)?;
            Ok((row.get::<_, String>(1)?, vector, row.get::<_, String>(3)?, stamp))
        })
        .unwrap();
    let vector = text_vector("Boat 5 leaves.", DIM);
    let vector: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
    let stamp = "2026-06-30T12:00:00.000000".to_owned();
    assert_eq!(row, ("Boat 5 leaves.".to_owned(), vector, "m".to_owned(), stamp));
    let after = StoreImage::of(&place.path("brain.db"));
    assert_eq!(before.lost_in(&after), Vec::<String>::new());
    assert_eq!(count(&place, "SELECT count(*) FROM sqlite_master WHERE name LIKE 'memfold%'"), 0);

    let again = place.run(&embed(&url, &["--execute"]));
    assert_eq!(again.code, Some(0), "{again:?}");
    assert_eq!(
        again.out,
        "8 memories in use: 8 with an embedding, 0 without one\n0 were given one\n"
    );
    assert_eq!(stub.asked().len(), 1);
    assert_eq!(diff(&after, &StoreImage::of(&place.path("brain.db"))), Vec::<String>::new());
    assert_eq!(integrity(&place.path("brain.db")), Vec::<String>::new());
    let planned = place.json(&["consolidate", "brain.db", "--now", NOW, "--json"]);
    assert_eq!(planned["loaded"]["with_embedding"], 8);
}

#[test]
fn several_processes_at_once_make_one_embedding_each() {
    let place = lacking(150);
    let stub = StubProvider::daemon(DIM);
    let url = url_of(&stub);
    let arguments = embed(&url, &["--execute", "--json"]);
    let documents: Vec<Value> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..3).map(|_| scope.spawn(|| place.json(&arguments))).collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let filled: i64 = documents.iter().map(|document| document["filled"].as_i64().unwrap()).sum();
    assert_eq!(filled, 150);
    let sql = "SELECT count(*) FROM embeddings WHERE source_type = 'stm'";
    assert_eq!(count(&place, sql), 153);
    assert_eq!(count(&place, &sql.replace("count(*)", "count(DISTINCT source_id)")), 153);
    assert_eq!(integrity(&place.path("brain.db")), Vec::<String>::new());
}

/// Changes the store while the provider thinks.
fn meddling(path: &Path, sql: &'static str) -> StubProvider {
    let path = path.to_owned();
    StubProvider::start(move |asked| {
        if asked.number == 0 {
            Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        }
        embeddings(&asked.texts(), DIM)
    })
}

#[test]
fn what_changes_while_the_provider_thinks_is_left_alone() {
    let edited = "UPDATE stm SET content = 'Boat 3 stays.' WHERE id = 'm000003'";
    let deleted = "DELETE FROM stm WHERE id = 'm000003'";
    let given = "INSERT INTO embeddings(id, source_type, source_id, embedding, created_at)
                 VALUES ('e', 'stm', 'm000003', x'0000803f', '2026-06-30')";
    for (sql, filled, present, changed) in [(edited, 1, 0, 1), (deleted, 1, 0, 1), (given, 1, 1, 0)]
    {
        let place = lacking(2);
        let stub = meddling(&place.path("brain.db"), sql);
        let document = place.json(&embed(&url_of(&stub), &["--execute", "--json"]));
        let found = [&document["filled"], &document["present"], &document["changed"]];
        assert_eq!(found, [&json!(filled), &json!(present), &json!(changed)], "{sql}");
        let sql = "SELECT count(*) FROM embeddings WHERE source_id = 'm000003'";
        assert_eq!(count(&place, sql), present);
    }
}

#[test]
fn vectors_of_another_model_or_dimension_are_refused() {
    let place = lacking(2);
    let before = place.files();
    let other = StubProvider::daemon(DIM);
    let url = url_of(&other);
    for further in [&["--set", "embed.model=n"][..], &["--set", "embed.model=n", "--execute"]] {
        place.run(&embed(&url, further)).fails(
            1,
            "failed to embed: the store's vectors are of the model \"m\", these would be of \"n\"",
            "use the store's model; if it is the same under another name, say so: --set \
             embed.model=m --set embed.request_model=NAME",
        );
    }
    assert_eq!(other.asked(), []);
    let longer = StubProvider::daemon(DIM + 1);
    let answer = place.run(&embed(&url_of(&longer), &["--execute"]));
    let words = "the store's vectors have 8 dimensions, those of ";
    answer.fails_with(1, &[words, " have 9", "hint: "]);
    let stored = "SELECT count(*) FROM embeddings";
    assert_eq!(count(&place, stored), 3);
    assert_eq!(place.files().keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
}

#[test]
fn a_store_without_vectors_takes_what_the_provider_says() {
    let place = Place::new();
    let rows = [PlainMemory::new("m000001", "Tea is green.", created_at(1))];
    brain_db(&place.path("brain.db"), &rows, StoreStyle::Plain);
    let stub = StubProvider::daemon(3);
    let document = place.json(&embed(&url_of(&stub), &["--execute", "--json"]));
    assert_eq!((&document["filled"], &document["dim"]), (&json!(1), &json!(3)));
    let sql = "SELECT model FROM embeddings";
    let model: String = connect(&place).query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(model, "all-MiniLM-L6-v2");
}

#[test]
fn without_a_provider_the_hint_says_how_to_name_one() {
    let place = lacking(1);
    let answer = place.run(&["embed", "brain.db"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.out.contains("no provider is configured: --set embed.provider="), "{answer:?}");
    place.run(&["embed", "brain.db", "--execute"]).fails(
        2,
        "no provider of vectors is configured",
        "say who makes them: --set embed.provider=daemon (the brain's own, port 8030), ollama, \
         openai or local; docs/embedding.md tells more",
    );
    let whole = lacking(0);
    assert!(whole.succeed(&["embed", "brain.db", "--execute"]).ends_with("0 were given one\n"));
}

#[test]
fn settings_that_forbid_writing_hold() {
    let place = lacking(1);
    let stub = StubProvider::daemon(DIM);
    let url = url_of(&stub);
    let before = place.files();
    for further in [
        &["--execute", "--dry-run"][..],
        &["--execute", "--set", "read_only=true"],
        &["--execute", "--set", "enabled=false"],
    ] {
        let answer = place.run(&embed(&url, further));
        assert_eq!(answer.code, Some(0), "{answer:?}");
        assert!(answer.err.contains("nothing will be written"), "{answer:?}");
    }
    let answer = place.answer(
        place.command(&embed(&url, &["--execute"])).env("MEMFOLD_READ_ONLY", "1").output().unwrap(),
    );
    assert!(answer.err.contains("read_only is set"), "{answer:?}");
    assert_eq!((stub.asked(), place.files()), (vec![], before));
}

#[test]
fn texts_that_are_refused_do_not_hold_up_the_others() {
    let place = lacking(9);
    let stub = StubProvider::start(|asked| {
        let texts = asked.texts();
        if texts.iter().any(|text| text.contains("Boat 5")) {
            return answer("400 Bad Request", &[], b"{\"error\": \"too many tokens\"}");
        }
        embeddings(&texts, DIM)
    });
    let url = url_of(&stub);
    let output = place.run(&embed(&url, &["--execute"]));
    assert_eq!(output.code, Some(4), "{output:?}");
    assert!(
        output.out.contains("8 were given one: m, 8 dimensions\n  1 were refused:\n    m000005: ")
    );
    assert!(output.out.contains("too many tokens"), "{output:?}");
    assert_eq!(count(&place, "SELECT count(*) FROM embeddings"), 11);

    // One text with a null in its vector, or at which the server fails, stopped all.
    for (status, bad) in
        [("500 Internal Server Error", "{}"), ("200 OK", "{\"embeddings\": [[null, 1]]}")]
    {
        let place = lacking(9);
        let stub = StubProvider::start(move |asked| {
            let texts = asked.texts();
            match texts.iter().any(|text| text.contains("Boat 5")) {
                true => answer(status, &[], bad.as_bytes()),
                false => embeddings(&texts, DIM),
            }
        });
        let output = place.run(&embed(&url_of(&stub), &["--execute"]));
        assert_eq!(output.code, Some(4), "{output:?}");
        assert!(output.out.contains("8 were given one"), "{output:?}");
    }

    let place = lacking(30);
    let stub = StubProvider::start(|_| answer("400 Bad Request", &[], b"no such thing"));
    let answer = place.run(&embed(&url_of(&stub), &["--execute"]));
    answer.fails_with(1, &["status 400: no such thing", "hint: "]);
    assert!(stub.asked().len() < 30, "{}", stub.asked().len());
}

#[test]
fn a_provider_that_fails_midway_leaves_what_was_written() {
    let place = lacking(36);
    let stub = StubProvider::start(|asked| match asked.number {
        0 => embeddings(&asked.texts(), DIM),
        _ => answer("500 Internal Server Error", &[], b"out of memory"),
    });
    place.run(&embed(&url_of(&stub), &["--execute"])).fails_with(
        1,
        &["status 500: out of memory; 32 embeddings were written and stay", "hint: "],
    );
    assert_eq!(count(&place, "SELECT count(*) FROM embeddings"), 35);
    let refused = "CREATE TRIGGER no BEFORE INSERT ON embeddings WHEN NEW.source_id = 'm000004'
                   BEGIN SELECT RAISE(ABORT, 'not this one'); END";
    connect(&place).execute_batch(refused).unwrap();
    let well = StubProvider::daemon(DIM);
    let answer = place.run(&embed(&url_of(&well), &["--execute"]));
    assert_eq!(answer.code, Some(4), "{answer:?}");
    assert!(
        answer.out.contains("3 were given one") && answer.out.contains("not this one"),
        "{answer:?}"
    );
    assert_eq!(count(&place, "SELECT count(*) FROM embeddings"), 38);
}

#[test]
fn a_table_that_wants_more_is_refused_before_anything_is_sent() {
    let place = lacking(1);
    let strange = "ALTER TABLE embeddings RENAME TO old;
                   CREATE TABLE embeddings(source_type TEXT, source_id TEXT, embedding BLOB, norm REAL NOT NULL)";
    connect(&place).execute_batch(strange).unwrap();
    let stub = StubProvider::daemon(DIM);
    let answer = place.run(&embed(&url_of(&stub), &["--execute"]));
    answer.fails_with(1, &["`embeddings.norm` must not be NULL and has no default"]);
    assert_eq!(stub.asked(), []);
}

#[test]
fn a_store_that_stays_busy_is_an_error_and_nothing_is_half_done() {
    let place = lacking(2);
    let stub = StubProvider::daemon(DIM);
    let holder = connect(&place);
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let url = url_of(&stub);
    let answer = place.run(&embed(&url, &["--execute", "--set", "busy_timeout_ms=60"]));
    answer.fails_with(1, &["was locked by another process", "hint: "]);
    holder.execute_batch("COMMIT").unwrap();
    assert_eq!(count(&place, "SELECT count(*) FROM embeddings"), 3);
}

#[test]
fn the_screen_fits_and_shows_no_key() {
    let place = lacking(2);
    let key = "opensesame-4711";
    let stub = StubProvider::start(move |_| {
        answer("401 Unauthorized", &[], format!("{{\"error\": \"bad key {key}\"}}").as_bytes())
    });
    let url = url_of(&stub);
    let further = ["--execute", "-v", "--set", "embed.api_key_env=K"];
    let output = place.command(&embed(&url, &further)).env("K", key).output().unwrap();
    let answer = place.answer(output);
    answer.fails_with(1, &["status 401: bad key", "`embed.api_key_env`"]);
    assert!(!answer.err.contains(key), "{answer:?}");
    assert!(stub.asked()[0].head.contains(key));
    let screen = place.succeed(&["embed", "brain.db"]);
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
}

#[cfg(target_os = "linux")]
#[test]
fn an_interruption_keeps_what_was_written_and_running_again_continues() {
    use crate::support::interrupt;
    let place = lacking(36);
    let stub = StubProvider::start(|asked| {
        if asked.number == 1 {
            std::thread::sleep(Duration::from_secs(60));
        }
        embeddings(&asked.texts(), DIM)
    });
    let url = url_of(&stub);
    let mut command = place.command(&embed(&url, &["--execute"]));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while stub.asked().len() < 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    interrupt(&child);
    let answer = place.answer(child.wait_with_output().unwrap());
    let said =
        ["note: texts are sent to", "error: interrupted; 32 embeddings were written and stay"];
    answer.fails_with(130, &[&said[..], &["hint: running again continues"]].concat());
    assert_eq!(count(&place, "SELECT count(*) FROM embeddings"), 35);
    let document = place.json(&embed(&url, &["--execute", "--json"]));
    assert_eq!((&document["missing"], &document["filled"]), (&json!(4), &json!(4)));
}

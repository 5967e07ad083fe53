//! `memfold embed`, and memories without a vector.

use std::path::Path;
use std::process::Stdio;

use memfold_tests::stub_provider::{
    StubProvider, answer, embeddings, json_answer, never, text_vector,
};
use memfold_tests::{NOW, PlainMemory, created_at, diff, integrity, memory, unit_vector};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::schemas::assert_fits;
use crate::support::TestFolder;

const DIM: usize = 8;
const PROVIDER: &str = "embed.provider=daemon";

const TEA: &str = "Tea is ordered from the harbour shop.";

/// Three memories with a vector of the model `m`, and `count` without.
fn lacking(count: usize) -> TestFolder {
    let texts = ["The kiln is fired on Mondays.", TEA, "The gate opens at six."];
    let with = (0..).zip(texts).map(|(row, text)| memory(row, text, &text_vector(text, DIM)));
    let without = (3..3 + count).map(|row| {
        PlainMemory::new(format!("m{row:06}"), format!("Boat {row} leaves."), created_at(row))
    });
    TestFolder::with(&with.chain(without).collect::<Vec<_>>())
}

/// Arguments with a provider, and whether to write.
fn embed<'a>(url: &'a str, further: &[&'a str]) -> Vec<&'a str> {
    let words = ["embed", "brain.db", "--now", NOW, "--set", PROVIDER];
    [&words[..], &["--set", url], further].concat()
}

fn blob(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn url_of(stub: &StubProvider) -> String {
    format!("embed.url={}", stub.url())
}

#[test]
fn a_dry_run_counts_and_sends_nothing() {
    let dir = lacking(4);
    let stub = StubProvider::daemon(DIM);
    let url = url_of(&stub);
    let before = dir.files();
    let answer = dir.run(&embed(&url, &["--limit", "3"]));
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
    assert_eq!(dir.files(), before);
}

#[test]
fn embed_fills_each_memory_once() {
    let dir = lacking(5);
    let stub = StubProvider::daemon(DIM);
    let url = url_of(&stub);
    let before = dir.image();
    let further = ["--execute", "--json"];
    let document = dir.json(&embed(&url, &further));
    for (key, expected) in [("live", 8), ("missing", 5), ("wanted", 5), ("filled", 5)] {
        assert_eq!(document[key], expected, "{key}");
    }
    assert_eq!((&document["model"], &document["dim"]), (&json!("m"), &json!(DIM)));
    assert_eq!(document["provider"], "daemon");
    let newest_first: Vec<String> = stub.asked().iter().flat_map(|asked| asked.texts()).collect();
    let expected: Vec<String> = (3..8).rev().map(|row| format!("Boat {row} leaves.")).collect();
    assert_eq!(newest_first, expected);
    let sql = "SELECT CELL FROM embeddings WHERE source_type = 'stm' AND source_id = 'm000005'";
    let cell = |name: &str| dir.one::<String>(&sql.replace("CELL", name));
    let id = cell("id");
    assert!(id.starts_with("emb_") && id.len() == 16, "{id}");
    let row = ["content", "model", "created_at"].map(cell);
    assert_eq!(row, ["Boat 5 leaves.", "m", "2026-06-30T12:00:00.000000"]);
    let vector = dir.one::<Vec<u8>>(&sql.replace("CELL", "embedding"));
    assert_eq!(vector, blob(&text_vector("Boat 5 leaves.", DIM)));
    let after = dir.image();
    assert_eq!(before.lost_in(&after), Vec::<String>::new());
    assert_eq!(dir.one::<i64>("SELECT count(*) FROM sqlite_master WHERE name LIKE 'memfold%'"), 0);

    let again = dir.run(&embed(&url, &["--execute"]));
    assert_eq!(again.code, Some(0), "{again:?}");
    let nothing = "8 memories in use: 8 with an embedding, 0 without one\n0 were given one\n";
    assert_eq!(again.out, nothing);
    assert_eq!(stub.asked().len(), 1);
    assert_eq!(diff(&after, &dir.image()), Vec::<String>::new());
    assert_eq!(integrity(&dir.path("brain.db")), Vec::<String>::new());
    let planned = dir.json(&["consolidate", "brain.db", "--now", NOW, "--json"]);
    assert_eq!(planned["loaded"]["with_embedding"], 8);
}

#[test]
fn concurrent_embeds_fill_each_memory_once() {
    let dir = lacking(150);
    let stub = StubProvider::daemon(DIM);
    let url = url_of(&stub);
    let arguments = embed(&url, &["--execute", "--json"]);
    let documents: Vec<Value> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..3).map(|_| scope.spawn(|| dir.json(&arguments))).collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let filled: i64 = documents.iter().map(|document| document["filled"].as_i64().unwrap()).sum();
    assert_eq!(filled, 150);
    let sql = "SELECT count(*) FROM embeddings WHERE source_type = 'stm'";
    assert_eq!(dir.one::<i64>(sql), 153);
    assert_eq!(dir.one::<i64>(&sql.replace("count(*)", "count(DISTINCT source_id)")), 153);
    assert_eq!(integrity(&dir.path("brain.db")), Vec::<String>::new());
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
fn rows_changed_during_the_request_are_left_alone() {
    let edited = "UPDATE stm SET content = 'Boat 3 stays.' WHERE id = 'm000003'";
    let deleted = "DELETE FROM stm WHERE id = 'm000003'";
    let given = "INSERT INTO embeddings(id, source_type, source_id, embedding, created_at)
                 VALUES ('e', 'stm', 'm000003', x'0000803f', '2026-06-30')";
    for (sql, filled, present, changed) in [(edited, 1, 0, 1), (deleted, 1, 0, 1), (given, 1, 1, 0)]
    {
        let dir = lacking(2);
        let stub = meddling(&dir.path("brain.db"), sql);
        let document = dir.json(&embed(&url_of(&stub), &["--execute", "--json"]));
        let found = [&document["filled"], &document["present"], &document["changed"]];
        assert_eq!(found, [&json!(filled), &json!(present), &json!(changed)], "{sql}");
        let sql = "SELECT count(*) FROM embeddings WHERE source_id = 'm000003'";
        assert_eq!(dir.one::<i64>(sql), present);
    }
}

#[test]
fn vectors_of_another_model_or_dimension_are_refused() {
    let dir = lacking(2);
    let before = dir.files();
    let other = StubProvider::daemon(DIM);
    let url = url_of(&other);
    for further in [&["--set", "embed.model=n"][..], &["--set", "embed.model=n", "--execute"]] {
        dir.run(&embed(&url, further)).fails(
            1,
            "failed to embed: the store's vectors are of the model \"m\", these would be of \"n\"",
            "use the store's model; if it is the same under another name, say so: --set \
             embed.model=m --set embed.request_model=NAME",
        );
    }
    assert_eq!(other.asked(), []);
    let longer = StubProvider::daemon(DIM + 1);
    let answer = dir.run(&embed(&url_of(&longer), &["--execute"]));
    let words = "the store's vectors have 8 dimensions, those of ";
    answer.fails_with(1, &[words, " have 9", "hint: "]);
    let stored = "SELECT count(*) FROM embeddings";
    assert_eq!(dir.one::<i64>(stored), 3);
    assert_eq!(dir.files().keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
}

#[test]
fn without_a_provider_the_hint_says_how_to_name_one() {
    let dir = lacking(1);
    let answer = dir.run("embed brain.db");
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.out.contains("no provider is configured: --set embed.provider="), "{answer:?}");
    dir.run("embed brain.db --execute").fails(
        2,
        "no provider of vectors is configured",
        "say who makes them: --set embed.provider=daemon (the brain's own, port 8030), ollama, \
         openai or local; docs/embedding.md tells more",
    );
    let whole = lacking(0);
    assert!(whole.succeed("embed brain.db --execute").ends_with("0 were given one\n"));
}

#[test]
fn refused_texts_do_not_stop_others() {
    let dir = lacking(9);
    let stub = StubProvider::start(|asked| {
        let texts = asked.texts();
        if texts.iter().any(|text| text.contains("Boat 5")) {
            return answer("400 Bad Request", &[], b"{\"error\": \"too many tokens\"}");
        }
        embeddings(&texts, DIM)
    });
    let url = url_of(&stub);
    let output = dir.run(&embed(&url, &["--execute"]));
    assert_eq!(output.code, Some(4), "{output:?}");
    let said = "8 were given one: m, 8 dimensions\n  1 were refused:\n    m000005: ";
    assert!(output.out.contains(said) && output.out.contains("too many tokens"), "{output:?}");
    assert_eq!(dir.one::<i64>("SELECT count(*) FROM embeddings"), 11);

    // One text with a null in its vector, or at which the server fails, stopped all.
    for (status, bad) in
        [("500 Internal Server Error", "{}"), ("200 OK", "{\"embeddings\": [[null, 1]]}")]
    {
        let dir = lacking(9);
        let stub = StubProvider::start(move |asked| {
            let texts = asked.texts();
            match texts.iter().any(|text| text.contains("Boat 5")) {
                true => answer(status, &[], bad.as_bytes()),
                false => embeddings(&texts, DIM),
            }
        });
        let output = dir.run(&embed(&url_of(&stub), &["--execute"]));
        assert_eq!(output.code, Some(4), "{output:?}");
        assert!(output.out.contains("8 were given one"), "{output:?}");
    }

    let dir = lacking(30);
    let stub = StubProvider::start(|_| answer("400 Bad Request", &[], b"no such thing"));
    let answer = dir.run(&embed(&url_of(&stub), &["--execute"]));
    answer.fails_with(1, &["status 400: no such thing", "hint: "]);
    assert!(stub.asked().len() < 30, "{}", stub.asked().len());
}

#[test]
fn a_provider_that_fails_midway_leaves_what_was_written() {
    let dir = lacking(36);
    let stub = StubProvider::start(|asked| match asked.number {
        0 => embeddings(&asked.texts(), DIM),
        _ => answer("500 Internal Server Error", &[], b"out of memory"),
    });
    dir.run(&embed(&url_of(&stub), &["--execute"])).fails_with(
        1,
        &["status 500: out of memory; 32 embeddings were written and stay", "hint: "],
    );
    assert_eq!(dir.one::<i64>("SELECT count(*) FROM embeddings"), 35);
    let refused = "CREATE TRIGGER no BEFORE INSERT ON embeddings WHEN NEW.source_id = 'm000004'
                   BEGIN SELECT RAISE(ABORT, 'not this one'); END";
    dir.connect().execute_batch(refused).unwrap();
    let well = StubProvider::daemon(DIM);
    let answer = dir.run(&embed(&url_of(&well), &["--execute"]));
    assert_eq!(answer.code, Some(4), "{answer:?}");
    for said in ["3 were given one", "not this one"] {
        assert!(answer.out.contains(said), "{answer:?}");
    }
    assert_eq!(dir.one::<i64>("SELECT count(*) FROM embeddings"), 38);
}

#[cfg(target_os = "linux")]
#[test]
fn an_interruption_keeps_what_was_written_and_running_again_continues() {
    use crate::support::{interrupt, wait_until};
    let dir = lacking(36);
    let stub = StubProvider::start(|asked| {
        if asked.number == 1 {
            return never();
        }
        embeddings(&asked.texts(), DIM)
    });
    let url = url_of(&stub);
    let mut command = dir.command(&embed(&url, &["--execute"]));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(|| stub.asked().len() >= 2);
    interrupt(&child);
    let answer = dir.answer(child.wait_with_output().unwrap());
    let said =
        ["note: texts are sent to", "error: interrupted; 32 embeddings were written and stay"];
    answer.fails_with(130, &[&said[..], &["hint: running again continues"]].concat());
    assert_eq!(dir.one::<i64>("SELECT count(*) FROM embeddings"), 35);
    let document = dir.json(&embed(&url, &["--execute", "--json"]));
    assert_eq!((&document["missing"], &document["filled"]), (&json!(4), &json!(4)));
}

#[test]
fn a_run_says_how_many_memories_have_no_vector() {
    let screen = lacking(3).succeed("consolidate brain.db");
    let line = "3 memories without a vector compared by words, built in: memfold embed\n";
    assert!(screen.contains(line), "{screen}");
    assert!(!lacking(0).succeed("consolidate brain.db").contains("memfold embed"));
    let bare = lacking(1);
    bare.sql("DELETE FROM embeddings");
    let screen = bare.succeed("consolidate brain.db");
    let said = "compared by words, built in; a model finds more rewordings: memfold embed";
    assert!(screen.contains(said), "{screen}");
    let words = ["check", "brain.db", "--text", "New.", "--vector", "[1,0]", "--json"];
    let checked = bare.json(&words);
    let notes = checked["notes"].to_string();
    assert!(notes.contains("no memory of the store has a vector"), "{notes}");
    let doctor = bare.succeed("doctor brain.db");
    assert!(doctor.contains("8030") && doctor.contains("memfold embed"), "{doctor}");
}

#[test]
fn search_by_unknown_text_asks_the_provider() {
    let dir = lacking(2);
    let words = ["search", "brain.db", "--text", "Tea is ordered.", "--json"];
    let off = [&words[..], &["--set", "embed.provider=off"]].concat();
    let by_words = dir.run(&off);
    assert!(by_words.err.contains("note: compared by words"), "{by_words:?}");
    assert!(by_words.out.contains("\"matches\""), "{by_words:?}");
    let stub = StubProvider::daemon(DIM);
    let url = url_of(&stub);
    let set = ["--set", PROVIDER, "--set", &url];
    let found = dir.run(&[&words[..], &set].concat());
    assert_eq!(found.code, Some(0), "{found:?}");
    assert_eq!(stub.asked()[0].texts(), ["Tea is ordered."]);
    assert!(found.err.contains("note: texts are sent to"), "{found:?}");
    let document: serde_json::Value = serde_json::from_str(&found.out).unwrap();
    assert_fits("search", &document);
    assert_eq!(document["matches"].as_array().unwrap().len(), 3);
    let note = "2 memories have no vector and cannot be found; `memfold embed` makes them";
    assert_eq!(document["notes"], serde_json::json!([note]));
    assert!(found.err.contains(note), "{found:?}");
    // A text that is there needs nobody.
    dir.succeed(&[&["search", "brain.db", "--text", TEA][..], &set].concat());
    assert_eq!(stub.asked().len(), 1);
}

#[test]
fn a_vector_of_a_wrong_dimension_is_not_saved() {
    let dir = lacking(0);
    let stub = StubProvider::daemon(DIM - 3);
    let url = url_of(&stub);
    for model in ["embed.model=m", "embed.model=null"] {
        let text = format!("Something new with {model}.");
        let words = ["save", "brain.db", "--text", &text, "--json", "--set", PROVIDER];
        let saved = dir.json(&[&words[..], &["--set", &url, "--set", model]].concat());
        assert_eq!(saved["stored"], true, "{saved:#}");
        assert!(saved["notes"].to_string().contains("the vector was not saved"), "{saved:#}");
        assert_eq!(dir.one::<i64>("SELECT count(*) FROM embeddings"), 3, "{model}");
    }
}

#[test]
fn a_provider_that_lets_wait_does_not_keep_a_memory_from_being_saved() {
    // `Retry-After` was honoured for 30 seconds, twice, before the memory was on disk.
    let dir = lacking(0);
    let stub = StubProvider::start(|_| answer("429 Too Many", &["retry-after: 25"], b"busy"));
    let url = url_of(&stub);
    let lines: String =
        (0..5).map(|line| format!("{{\"text\":\"Line {line} is new.\"}}\n")).collect();
    dir.write("lines.jsonl", lines);
    let words = ["save", "brain.db", "--jsonl", "lines.jsonl", "--set", PROVIDER, "--set", &url];
    let saved = dir.succeed(&words);
    assert_eq!(saved.matches("\"stored\":true").count(), 5, "{saved}");
    assert_eq!(saved.matches("no vector was made of the text").count(), 3, "{saved}");
    assert_eq!(saved.matches("is not asked again").count(), 2, "{saved}");
    // None of them was waited for, and after three failures no provider is queried.
    assert_eq!(stub.asked().len(), 3);
}

/// A store with two models: by model `m` the first two memories are near, by the stub's model `n`
/// the last two.
fn of_two_models() -> (TestFolder, StubProvider) {
    let texts =
        ["Lamp one burns.", "The first lamp is lit.", "Boat three leaves.", "A third boat sails."];
    let near = |row: usize| if row == 1 { 0 } else { row };
    let rows: Vec<PlainMemory> = (0..)
        .zip(texts)
        .map(|(row, text)| memory(row, text, &unit_vector(DIM, near(row))))
        .collect();
    let dir = TestFolder::with(&rows);
    let stub = StubProvider::start(move |asked| {
        let axis = |text: &String| match &**text {
            "Lamp one burns." => 0,
            "The first lamp is lit." => 1,
            _ => 2,
        };
        let vectors: Vec<Vec<f32>> =
            asked.texts().iter().map(|text| unit_vector(2 * DIM, axis(text))).collect();
        json_answer(&json!({ "embeddings": vectors }))
    });
    (dir, stub)
}

fn of_model(dir: &TestFolder, model: &str) -> i64 {
    dir.one(&format!("SELECT count(*) FROM embeddings WHERE model = '{model}'"))
}

#[test]
fn a_model_is_replaced_after_the_pairs_of_both_were_compared_and_brought_back() {
    let (dir, stub) = of_two_models();
    let url = url_of(&stub);
    let before = dir.image();
    let shown = dir.json(&embed(&url, &["--replace", "n", "--json"]));
    assert_eq!(diff(&before, &dir.image()), Vec::<String>::new());
    let space = (&shown["model_before"], &shown["dim_before"], &shown["model"], &shown["dim"]);
    assert_eq!(space, (&json!("m"), &json!(DIM), &json!("n"), &json!(2 * DIM)));
    assert_eq!(shown["mode"], "dry_run");
    assert_eq!([&shown["sent"], &shown["replaced"]], [4, 0]);
    let pairs = &shown["pairs"];
    assert_eq!([&pairs["before"], &pairs["after"], &pairs["both"]], [1, 1, 0]);
    let texts = |pairs: &Value| {
        let mut texts: Vec<String> = serde_json::from_value(pairs[0]["texts"].clone()).unwrap();
        texts.sort();
        texts
    };
    assert_eq!(texts(&pairs["lost"]), ["Lamp one burns.", "The first lamp is lit."]);
    assert_eq!(texts(&pairs["gained"]), ["A third boat sails.", "Boat three leaves."]);

    let told = dir.run(&embed(&url, &["--replace", "n"]));
    assert_eq!(stub.asked().len(), 1, "no text is sent twice");
    assert!(told.out.contains("1 lost, the nearest:\n  1.000  "), "{told:?}");
    assert!(told.out.contains("next: memfold embed brain.db --replace n"), "{told:?}");
    assert_eq!(told.err.lines().last(), Some("dry run: the store was not written"));

    let done = dir.json(&embed(&url, &["--replace", "n", "--json", "--execute"]));
    assert_eq!([&done["replaced"], &done["changed"], &done["sent"]], [4, 0, 0]);
    assert_eq!((of_model(&dir, "m"), of_model(&dir, "n")), (0, 4));
    let planned = dir.json(&["consolidate", "brain.db", "--now", NOW, "--json"]);
    assert_eq!(planned["loaded"]["with_embedding"], 4);
    assert_eq!(integrity(&dir.path("brain.db")), Vec::<String>::new());

    // The old vectors are kept: no provider is needed, and they are the same to the bit.
    drop(stub);
    let back = dir.run(&["embed", "brain.db", "--now", NOW, "--replace", "m", "--execute"]);
    assert_eq!(back.code, Some(0), "{back:?}");
    assert!(back.out.contains("0 texts sent now"), "{back:?}");
    let lost = before.lost_in(&dir.image());
    assert!(lost.iter().all(|row| row.contains("embeddings")), "{lost:?}");
    let blobs: Vec<Vec<u8>> = dir.all("SELECT embedding FROM embeddings ORDER BY source_id");
    assert_eq!(blobs, [0, 0, 2, 3].map(|axis| blob(&unit_vector(DIM, axis))));
}

#[test]
fn a_model_is_not_replaced_without_vectors_and_forget_removes_those_that_are_kept() {
    let (dir, stub) = of_two_models();
    let refused = dir.run(&["embed", "brain.db", "--replace", "n"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("4 texts have no kept vector"), "{refused:?}");
    assert_eq!(dir.run(&["embed", "brain.db", "--replace", ""]).code, Some(2));
    assert_eq!(dir.run(&["embed", "brain.db", "--replace", "n", "--limit", "1"]).code, Some(2));
    // A text that the provider does not take keeps its vector.
    let picky = StubProvider::start(|asked| match asked.texts() {
        texts if texts.iter().any(|text| text.contains("Boat")) => answer("400 Bad", &[], b"{}"),
        texts => embeddings(&texts, 2 * DIM),
    });
    let done = dir.run(&embed(&url_of(&picky), &["--replace", "n", "--execute"]));
    assert_eq!(done.code, Some(4), "{done:?}");
    assert!(done.out.contains("refused: m000002"), "{done:?}");
    assert_eq!((of_model(&dir, "m"), of_model(&dir, "n")), (1, 3));
    let is_kept = |path: &Path| path.to_string_lossy().contains("brain.db.memfold/vectors-");
    let kept = || dir.files().keys().filter(|path| is_kept(path)).count();
    assert_eq!(kept(), 2);
    dir.succeed(&["forget", "brain.db", "m000000", "--execute"]);
    assert_eq!(kept(), 0);
    drop(stub);
}

#[test]
fn an_undo_leaves_the_vectors_of_another_model() {
    let rows: Vec<PlainMemory> = ["Lamp one burns.", "Lamp one burns.", "Boat three leaves."]
        .into_iter()
        .enumerate()
        .map(|(row, text)| memory(row, text, &unit_vector(DIM, row / 2)))
        .collect();
    let dir = TestFolder::with(&rows);
    let merge = ["consolidate", "brain.db", "--now", NOW, "--max-change-share", "1", "--execute"];
    dir.succeed(&merge);
    let stub = StubProvider::daemon(2 * DIM);
    dir.succeed(&embed(&url_of(&stub), &["--replace", "n"]));
    dir.succeed(&["undo", "brain.db", "latest", "--execute"]);
    assert_eq!(dir.one::<i64>("SELECT count(*) FROM stm WHERE source NOT LIKE 'archived:%'"), 3);
    dir.succeed(&embed(&url_of(&stub), &["--replace", "n"]));
    assert_eq!(stub.asked().len(), 1, "no text is sent twice");
}

/// A store with vectors that name no model, and are all equal.
#[test]
fn vectors_without_a_name_are_kept_and_each_pair_of_equal_ones_counts() {
    let (dir, stub) = of_two_models();
    let same = blob(&unit_vector(DIM, 0));
    dir.connect().execute("UPDATE embeddings SET model = NULL, embedding = ?1", [same]).unwrap();
    let shown = dir.json(&embed(&url_of(&stub), &["--replace", "n", "--json", "--execute"]));
    let pairs = &shown["pairs"];
    assert_eq!([&pairs["before"], &pairs["after"], &pairs["both"]], [6, 1, 1]);
    let before = shown["model_before"].as_str().unwrap();
    drop(stub);
    let back = dir.run(&["embed", "brain.db", "--replace", before, "--execute"]);
    assert!(back.out.contains("4 memories have the new vectors"), "{back:?}");
}

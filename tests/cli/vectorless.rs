//! Memories without a vector: said, and made where somebody can.
//!
//! With every embedding deleted, `consolidate` said "0 near pairs, all of them (exact join)".

use memfold_store::brain_db::StoreStyle;
use memfold_tests::PlainMemory;
use memfold_tests::stub_provider::{StubProvider, text_vector};
use memfold_tests::{brain_db, created_at, memory};
use rusqlite::Connection;

use crate::schemas::assert_fits;
use crate::support::TestFolder;

const DIM: usize = 8;
const KILN: &str = "The kiln is fired on Mondays.";
const TEA: &str = "Tea is ordered from the harbour shop.";

/// Two memories with a vector, and so many without.
fn lacking(count: usize) -> TestFolder {
    let dir = TestFolder::new();
    let vector = |text: &str| text_vector(text, DIM);
    let mut rows = vec![memory(0, KILN, &vector(KILN)), memory(1, TEA, &vector(TEA))];
    rows.extend((2..2 + count).map(|row| {
        PlainMemory::new(format!("m{row:06}"), format!("Boat {row} leaves."), created_at(row))
    }));
    brain_db(&dir.path("brain.db"), &rows, StoreStyle::Plain);
    dir
}

fn embeddings(dir: &TestFolder) -> i64 {
    let connection = Connection::open(dir.path("brain.db")).unwrap();
    connection.query_row("SELECT count(*) FROM embeddings", [], |row| row.get(0)).unwrap()
}

fn provider(stub: &StubProvider) -> [String; 2] {
    ["embed.provider=daemon".to_owned(), format!("embed.url={}", stub.url())]
}

#[test]
fn a_run_says_how_many_memories_have_no_vector() {
    let screen = lacking(3).succeed("consolidate brain.db");
    let line = "3 memories without a vector compared by words, built in: memfold embed\n";
    assert!(screen.contains(line), "{screen}");
    assert!(!lacking(0).succeed("consolidate brain.db").contains("memfold embed"));
    let bare = lacking(1);
    Connection::open(bare.path("brain.db")).unwrap().execute("DELETE FROM embeddings", []).unwrap();
    let screen = bare.succeed("consolidate brain.db");
    assert!(
        screen
            .contains("compared by words, built in; a model finds more rewordings: memfold embed"),
        "{screen}"
    );
    let words = ["check", "brain.db", "--text", "New.", "--vector", "[1,0]", "--json"];
    let checked = bare.json(&words);
    let notes = checked["notes"].to_string();
    assert!(notes.contains("no memory of the store has a vector"), "{notes}");
    let doctor = bare.succeed("doctor brain.db");
    assert!(doctor.contains("8030") && doctor.contains("memfold embed"), "{doctor}");
}

#[test]
fn a_search_by_text_asks_the_provider_where_no_memory_has_the_text() {
    let dir = lacking(2);
    let words = ["search", "brain.db", "--text", "Tea is ordered.", "--json"];
    let off = [&words[..], &["--set", "embed.provider=off"]].concat();
    let by_words = dir.run(&off);
    assert!(by_words.err.contains("note: compared by words"), "{by_words:?}");
    assert!(by_words.out.contains("\"matches\""), "{by_words:?}");
    let stub = StubProvider::daemon(DIM);
    let [kind, url] = provider(&stub);
    let set = ["--set", &kind, "--set", &url];
    let found = dir.run(&[&words[..], &set].concat());
    assert_eq!(found.code, Some(0), "{found:?}");
    assert_eq!(stub.asked()[0].texts(), ["Tea is ordered."]);
    assert!(found.err.contains("note: texts are sent to"), "{found:?}");
    let document: serde_json::Value = serde_json::from_str(&found.out).unwrap();
    assert_fits("search", &document);
    assert_eq!(document["matches"].as_array().unwrap().len(), 2);
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
    let [kind, url] = provider(&stub);
    let words = ["save", "brain.db", "--text", "Something new.", "--json", "--set", &kind];
    for model in ["embed.model=m", "embed.model=null"] {
        let text = format!("Something new with {model}.");
        let words =
            [&words[..2], &["--text", &text], &words[4..], &["--set", &url, "--set", model]];
        let saved = dir.json(&words.concat());
        assert_eq!(saved["stored"], true, "{saved:#}");
        assert!(saved["notes"].to_string().contains("the vector was not saved"), "{saved:#}");
        assert_eq!(embeddings(&dir), 2, "{model}");
    }
}

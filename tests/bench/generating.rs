//! `memfold-bench generate`: vectors and stores.

use memfold_datasets::{MappedColumns, VectorFile};
use serde_json::{Value, json};

use crate::memfold;
use crate::support::Place;

/// What `memfold consolidate` says of a store.
fn consolidated(place: &Place, store: &str) -> Value {
    let words = ["consolidate", store, "--json", "--now", memfold_tests::NOW];
    serde_json::from_str(&memfold(place, &words)).unwrap()
}

#[test]
fn generated_vectors_are_the_same_for_one_seed() {
    let place = Place::new();
    let generate = |name: &str, seed: &str| {
        place.succeed(&["generate", "-o", name, "--rows", "300", "--dim", "16", "--seed", seed]);
        std::fs::read(place.path(name)).unwrap()
    };
    let first = generate("a.npy", "5");
    assert_eq!(first, generate("b.npy", "5"));
    assert_ne!(first, generate("c.npy", "6"));
    let reader = VectorFile::open(&place.path("a.npy")).unwrap();
    assert_eq!((reader.dim(), reader.read_all().unwrap().len()), (16, 300 * 16));
    generate("a.arrow", "5");
    let columns = MappedColumns::open(&place.path("a.arrow")).unwrap();
    assert_eq!((columns.vectors().len(), columns.vectors().dim()), (300, 16));
}

#[test]
fn an_existing_file_is_replaced_only_with_force() {
    let place = Place::new();
    place.write("a.npy", "mine");
    let arguments = ["generate", "-o", "a.npy", "--rows", "10", "--dim", "4"];
    place.run(&arguments).fails(2, "a.npy exists", "name another file, or replace it with --force");
    assert_eq!(std::fs::read(place.path("a.npy")).unwrap(), b"mine");
    place.succeed(&[&arguments[..], &["--force"]].concat());
    assert_ne!(std::fs::read(place.path("a.npy")).unwrap(), b"mine");
}

#[test]
fn generated_stores_load_completely() {
    let place = Place::new();
    for (name, wild) in [("brain.db", None), ("wild.db", Some("--wild"))] {
        let mut arguments = vec!["generate", "-o", name, "--brain", "--rows", "400", "--dim", "32"];
        arguments.extend(wild);
        place.succeed(&arguments);
        let loaded = &consolidated(&place, name)["loaded"];
        let (rows, live) = (loaded["memories"].as_u64().unwrap(), loaded["live"].as_u64().unwrap());
        if wild.is_none() {
            assert_eq!((rows, live), (400, 400));
        } else {
            assert!(live >= 400 && rows > live, "{loaded}");
        }
    }
}

#[test]
fn a_store_is_made_of_given_vectors() {
    let place = Place::with_sample();
    for file in ["x.arrow", "x.parquet"] {
        memfold(&place, &["export", "brain.db", "-o", file]);
    }
    for (file, name) in [("x.arrow", "a.db"), ("x.parquet", "p.db")] {
        place.succeed(&["generate", "-o", name, "--brain", "--from", file]);
    }
    let digests = ["a.db", "p.db"].map(|name| {
        let document = consolidated(&place, name);
        assert_eq!(document["loaded"]["live"], document["loaded"]["memories"], "{name}");
        (document["loaded"].clone(), document["plan_digest"].clone())
    });
    assert_eq!(digests[0], digests[1]);
}

#[test]
fn documents_say_what_was_written() {
    let place = Place::new();
    for (words, rows, synthetic) in [
        (&["generate", "-o", "rows.npy", "--rows", "600", "--dim", "16"][..], 600, true),
        (&["generate", "-o", "made.db", "--brain", "--from", "rows.npy"], 600, false),
        (&["generate", "-o", "like.npy", "--like", "rows.npy", "--rows", "700"], 700, true),
    ] {
        let document = place.json(&[words, &["--json"]].concat());
        assert_eq!((&document["rows"], &document["output"]), (&json!(rows), &json!(words[2])));
        assert_eq!((&document["synthetic"], &document["seed"]), (&json!(synthetic), &json!(1)));
    }
}

#[test]
fn wrong_outputs_and_numbers_are_usage_errors() {
    let place = Place::new();
    let words = ["generate", "-o", "x.npy", "--rows", "ten"];
    place.run(&words).fails_with(2, &["expected a whole number, 0 or more"]);
    #[cfg(unix)]
    place
        .run(&["generate", "--brain", "--rows", "5", "-o", "/dev/null", "--force"])
        .fails_with(2, &["it is a device, not a file"]);
}

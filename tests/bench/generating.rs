//! `memfold-bench generate`: vectors and stores.

use memfold_datasets::{Corpus, CorpusOptions, MappedColumns};
use serde_json::Value;

use crate::memfold;
use crate::support::TestFolder;

/// Returns the report of `memfold consolidate` on a store.
fn consolidated(dir: &TestFolder, store: &str) -> Value {
    let words = ["consolidate", store, "--json", "--now", memfold_tests::NOW];
    serde_json::from_str(&memfold(dir, &words)).unwrap()
}

#[test]
fn generated_vectors_are_the_same_for_one_seed() {
    let dir = TestFolder::new();
    let generate = |name: &str, seed: &str| {
        dir.succeed(&["generate", "-o", name, "--rows", "300", "--dim", "16", "--seed", seed]);
        std::fs::read(dir.path(name)).unwrap()
    };
    let first = generate("a.npy", "5");
    assert_eq!(first, generate("b.npy", "5"));
    assert_ne!(first, generate("c.npy", "6"));
    let corpus = Corpus::open(&[dir.path("a.npy")], &CorpusOptions::new(&dir.path(""))).unwrap();
    assert_eq!((corpus.dim(), corpus.matrix().len()), (16, 300));
    generate("a.arrow", "5");
    let columns = MappedColumns::open(&dir.path("a.arrow")).unwrap();
    assert_eq!((columns.vectors().len(), columns.vectors().dim()), (300, 16));
}

#[test]
fn generated_stores_load_completely() {
    let dir = TestFolder::new();
    for (name, wild) in [("brain.db", None), ("wild.db", Some("--wild"))] {
        let mut arguments = vec!["generate", "-o", name, "--brain", "--rows", "400", "--dim", "32"];
        arguments.extend(wild);
        dir.succeed(&arguments);
        let loaded = &consolidated(&dir, name)["loaded"];
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
    let dir = TestFolder::with_sample();
    for file in ["x.arrow", "x.parquet"] {
        memfold(&dir, &["export", "brain.db", "-o", file]);
    }
    for (file, name) in [("x.arrow", "a.db"), ("x.parquet", "p.db")] {
        dir.succeed(&["generate", "-o", name, "--brain", "--from", file]);
    }
    let digests = ["a.db", "p.db"].map(|name| {
        let document = consolidated(&dir, name);
        assert_eq!(document["loaded"]["live"], document["loaded"]["memories"], "{name}");
        (document["loaded"].clone(), document["plan_digest"].clone())
    });
    assert_eq!(digests[0], digests[1]);
}

#[test]
fn wrong_outputs_and_numbers_are_usage_errors() {
    let dir = TestFolder::new();
    let words = ["generate", "-o", "x.npy", "--rows", "ten"];
    dir.run(&words).fails_with(2, &["expected a whole number, 0 or more"]);
    #[cfg(unix)]
    dir.run("generate --brain --rows 5 -o /dev/null --force")
        .fails_with(2, &["it is a device, not a file"]);
}

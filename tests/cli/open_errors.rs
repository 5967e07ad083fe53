//! Every way in which a store cannot be opened, in the words that a user reads.

use crate::support::{TestFolder, consolidate};

/// All of these were "no SQLite file", and a JSON file had to be "decrypted first".
#[test]
fn json_and_repositories_are_named_as_what_they_are() {
    let dir = TestFolder::new();
    for folder in ["brain.db", "brain.db/.git"] {
        std::fs::create_dir(dir.path(folder)).unwrap();
    }
    let is = |what: &str| {
        format!("failed to open the store: brain.db is {what}, expected a SQLite file")
    };
    dir.run(&consolidate(&[])).fails_with(1, &[&is("a git repository without notes of memories")]);
    std::fs::remove_dir(dir.path("brain.db/.git")).unwrap();
    dir.write("brain.db/a.json", "{}");
    let hint = "--store-kind json_folder";
    dir.run(&consolidate(&[])).fails_with(1, &[&is("a folder of JSON files"), hint]);
    std::fs::remove_dir_all(dir.path("brain.db")).unwrap();
    for text in ["{\"text\": \"User likes tea\"}\n", "\n  [1]"] {
        dir.write("brain.db", text);
        let hint = "memfold import brain.db --into brain.db makes a store of it";
        dir.run(&consolidate(&[])).fails_with(1, &[&is("a JSON file"), hint]);
    }
}

#[test]
fn every_command_that_opens_a_store_says_the_same() {
    let dir = TestFolder::new();
    for arguments in [
        ["doctor", "nowhere.db", "--quiet"].as_slice(),
        &["export", "nowhere.db", "-o", "x.arrow"],
        &["consolidate", "nowhere.db", "--json"],
    ] {
        let answer = dir.run(arguments);
        answer
            .fails_with(1, &["error: failed to open the store: nowhere.db does not exist\nhint: "]);
    }
    assert!(dir.files().is_empty());
}

//! Every command that honours `--json`: what it prints fits a published schema, and `docs/schemas/README.md` says which.

mod scenes;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use self::scenes::{Scene, Step, scenes};
use crate::schemas::{Schema, assert_right, folder, index};
use crate::support::{Place, listed_commands};

/// Files that commands write beside what they print.
const FILES: [&str; 3] = ["plan", "report", "applied-report"];

#[test]
fn documents_fit_their_schemas_and_nothing_else_does() {
    std::thread::scope(|threads| {
        for scene in scenes() {
            threads.spawn(move || play(&scene));
        }
    });
}

#[test]
fn the_index_names_every_command_and_its_documents() {
    let index = index("memfold");
    let named: BTreeSet<&str> = index.keys().map(String::as_str).collect();
    let all = commands(&[]);
    assert_eq!(named, all.iter().map(String::as_str).collect());
    let mut printed: BTreeMap<String, BTreeSet<String>> =
        all.into_iter().map(|command| (command, BTreeSet::new())).collect();
    for step in scenes().into_iter().flat_map(|scene| scene.steps) {
        let Step::Run(names, _, words) = step else { continue };
        let command = (1..=2).rev().map(|length| words[..length.min(words.len())].join(" "));
        let command = command.clone().find(|command| printed.contains_key(command)).unwrap();
        let names = names.iter().map(|name| (*name).to_owned());
        printed.get_mut(&command).unwrap().extend(names);
    }
    assert_eq!(index, printed);
}

#[test]
fn every_schema_is_one_of_a_document() {
    let programs = ["memfold", "memfold-bench"].map(index);
    let printed = programs.into_iter().flat_map(BTreeMap::into_values).flatten();
    let expected: BTreeSet<String> = printed.chain(FILES.map(str::to_owned)).collect();
    let files = std::fs::read_dir(folder()).unwrap().map(|file| file.unwrap().file_name());
    let found = files
        .filter_map(|name| name.to_str().unwrap().strip_suffix(".schema.json").map(str::to_owned));
    assert_eq!(found.collect::<BTreeSet<_>>(), expected);
    for name in expected {
        assert!(Schema::published(&name).required().contains("schema_version"), "{name}");
    }
}

/// The commands that have no further ones below them, as the binary lists them.
fn commands(path: &[&str]) -> Vec<String> {
    let help = Place::new().succeed(&[path, &["--help"]].concat());
    let below = listed_commands(&help);
    if below.is_empty() {
        return vec![path.join(" ")];
    }
    below.iter().flat_map(|name| commands(&[path, &[name.as_str()]].concat())).collect()
}

fn play(scene: &Scene) {
    let place = (scene.place)();
    let mut last = Value::Null;
    for step in &scene.steps {
        match step {
            Step::Sql(statement) => {
                let store = rusqlite::Connection::open(place.path("brain.db")).unwrap();
                assert!(store.execute(statement, []).unwrap() > 0, "{statement}");
            }
            Step::File(name, path) => {
                let text = std::fs::read_to_string(place.path(path)).unwrap();
                assert_right(name, &serde_json::from_str(&text).unwrap());
            }
            Step::Run(names, code, words) => {
                let words: Vec<String> = words.iter().map(|word| filled(word, &last)).collect();
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let answer = place.run(&[&words, &["--json"][..]].concat());
                assert_eq!(answer.code, Some(*code), "{words:?}: {answer:?}");
                let documents = serde_json::Deserializer::from_str(&answer.out).into_iter();
                let documents: Vec<Value> = documents.map(Result::unwrap).collect();
                assert_eq!(documents.len(), names.len(), "{words:?}: {answer:?}");
                for (name, document) in names.iter().zip(documents) {
                    assert_right(name, &document);
                    last = document;
                }
            }
        }
    }
}

/// Puts what the last document holds in place of a `{/pointer}` into it.
fn filled(word: &str, last: &Value) -> String {
    match word.strip_prefix("{/").and_then(|rest| rest.strip_suffix('}')) {
        None => word.to_owned(),
        Some(pointer) => {
            let found = last.pointer(&format!("/{pointer}")).and_then(Value::as_str);
            found.unwrap_or_else(|| panic!("no {pointer} in {last:#}")).to_owned()
        }
    }
}

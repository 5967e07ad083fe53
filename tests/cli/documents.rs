//! Every command that honours `--json`: what it prints fits a published schema, and `docs/schemas/README.md` says which.

mod scenes;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use self::scenes::{Scene, Step, scenes};
use crate::schemas::{Schema, folder};
use crate::support::{Place, listed_commands};

/// Files that commands write beside what they print.
const FILES: [&str; 3] = ["plan", "report", "applied-report"];

/// Documents with lists are cut to so many items before they are spoilt.
const ITEMS_MAX: usize = 2;

/// What users define: anything fits there.
const FREE: [&str; 3] = ["/merged", "/overrides", "/value"];

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
    let index = index();
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
    let printed = index().into_values().flatten();
    let expected: BTreeSet<String> = printed.chain(FILES.map(str::to_owned)).collect();
    let files = std::fs::read_dir(folder()).unwrap().map(|file| file.unwrap().file_name());
    let found = files
        .filter_map(|name| name.to_str().unwrap().strip_suffix(".schema.json").map(str::to_owned));
    assert_eq!(found.collect::<BTreeSet<_>>(), expected);
    for name in expected {
        assert!(Schema::published(&name).required().contains("schema_version"), "{name}");
    }
}

/// Which command prints which documents, as the index page says: `| command | [name](name.schema.json), … |`.
fn index() -> BTreeMap<String, BTreeSet<String>> {
    let page = std::fs::read_to_string(folder().join("README.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `memfold "));
    let row = |line: &str| {
        let (command, rest) = line.split_once('`').unwrap();
        let links = rest.split("](").skip(1).map(|link| link.split(')').next().unwrap());
        let names = links.map(|link| link.strip_suffix(".schema.json").unwrap().to_owned());
        (command.to_owned(), names.collect())
    };
    rows.map(row).collect()
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

#[track_caller]
fn assert_right(name: &str, document: &Value) {
    let schema = Schema::published(name);
    if let Err(misfit) = schema.check(document) {
        panic!("{name}: {misfit}\n{document:#}");
    }
    assert_eq!(document["schema_version"], 1, "{name}");
    assert_refuses_wrong_ones(name, &schema, document);
}

/// Spoils a document in every place where it can be.
fn assert_refuses_wrong_ones(name: &str, schema: &Schema, document: &Value) {
    let mut short = document.clone();
    shorten(&mut short);
    assert_eq!(schema.check(&short), Ok(()), "{name}");
    for field in schema.required() {
        let mut lacking = short.clone();
        lacking.as_object_mut().unwrap().remove(field);
        assert!(schema.check(&lacking).is_err(), "{name} without {field} fits");
    }
    let mut places = vec![String::new()];
    pointers(&short, "", &mut places);
    for place in places {
        if FREE.iter().any(|free| place.contains(free)) {
            continue;
        }
        let mut spoilt = short.clone();
        match spoilt.pointer_mut(&place).unwrap() {
            Value::Object(fields) => {
                fields.insert("undocumented".to_owned(), Value::Array(vec![Value::Null]));
            }
            other => *other = serde_json::json!({ "undocumented": true }),
        }
        assert!(schema.check(&spoilt).is_err(), "{name} fits though spoilt at {place:?}");
    }
}

/// Leaves the first items of every list.
fn shorten(value: &mut Value) {
    match value {
        Value::Array(items) => {
            items.truncate(ITEMS_MAX);
            items.iter_mut().for_each(shorten);
        }
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        _ => {}
    }
}

/// Collects where the values of a document are.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    let mut below = |name: String, value: &Value| {
        let place = format!("{at}/{name}");
        found.push(place.clone());
        pointers(value, &place, found);
    };
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| below(at.to_string(), item));
        }
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            below(name.replace('~', "~0").replace('/', "~1"), value);
        }),
        _ => {}
    }
}

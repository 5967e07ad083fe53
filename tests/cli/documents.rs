//! Documents that programs read: output fits its published schema, and `docs/schemas/README.md`
//! lists all.

mod scenarios;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use self::scenarios::{Scenario, Step, scenarios};
use crate::schemas::{Schema, assert_right, folder, index};

/// Files that commands write beside their output.
const FILES: [&str; 2] = ["plan", "report"];

#[test]
fn documents_fit_their_schemas_exactly() {
    std::thread::scope(|threads| {
        for scenario in scenarios() {
            threads.spawn(move || play(&scenario));
        }
    });
}

/// The page lists exactly the schemas that there are, and each is that of a document that a scenario prints.
#[test]
fn every_schema_is_printed_and_listed() {
    let listed = ["memfold", "memfold-bench"].map(index);
    let listed = listed.into_iter().flat_map(BTreeMap::into_values).flatten();
    let listed: BTreeSet<String> = listed.chain(FILES.map(str::to_owned)).collect();
    let files = std::fs::read_dir(folder()).unwrap().map(|file| file.unwrap().file_name());
    let found = files
        .filter_map(|name| name.to_str().unwrap().strip_suffix(".schema.json").map(str::to_owned));
    assert_eq!(found.collect::<BTreeSet<_>>(), listed);
    let printed =
        scenarios().into_iter().flat_map(|scenario| scenario.steps).filter_map(|step| match step {
            Step::Run(names, _, _) => Some(names),
            _ => None,
        });
    let printed: BTreeSet<&str> = printed.flatten().copied().chain(FILES).collect();
    for name in &listed {
        assert!(Schema::published(name).required().contains("schema_version"), "{name}");
        let is_bench = name.starts_with("bench-");
        assert!(is_bench || printed.contains(&**name), "no scenario prints {name}");
    }
}

fn play(scenario: &Scenario) {
    let dir = (scenario.dir)();
    let mut last = Value::Null;
    for step in &scenario.steps {
        match step {
            Step::Sql(statement) => {
                let store = dir.connect();
                assert!(store.execute(statement, []).unwrap() > 0, "{statement}");
            }
            Step::File(name, path) => {
                let text = std::fs::read_to_string(dir.path(path)).unwrap();
                assert_right(name, &serde_json::from_str(&text).unwrap());
            }
            Step::Run(names, code, words) => {
                let words: Vec<String> = words.iter().map(|word| filled(word, &last)).collect();
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let answer = dir.run(&[&words, &["--json"][..]].concat());
                assert_eq!(answer.code, Some(*code), "{words:?}: {answer:?}");
                let documents = serde_json::Deserializer::from_str(&answer.out).into_iter();
                let documents: Vec<Value> = documents.map(Result::unwrap).collect();
                assert_eq!(documents.len(), names.len(), "{words:?}: {answer:?}");
                for (name, document) in names.iter().zip(documents) {
                    if !name.is_empty() {
                        assert_right(name, &document);
                    }
                    last = document;
                }
            }
        }
    }
}

/// Replaces a `{/pointer}` by the value at that place of the last document.
fn filled(word: &str, last: &Value) -> String {
    match word.strip_prefix("{/").and_then(|rest| rest.strip_suffix('}')) {
        None => word.to_owned(),
        Some(pointer) => {
            let found = last.pointer(&format!("/{pointer}")).and_then(Value::as_str);
            found.unwrap_or_else(|| panic!("no {pointer} in {last:#}")).to_owned()
        }
    }
}

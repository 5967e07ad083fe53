//! `memfold index` and `memfold search`.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;

use memfold_datasets::sample;
use serde_json::Value;

use crate::schemas::assert_fits;
use crate::support::{Place, consolidate};

fn ids(found: &Value) -> Vec<&str> {
    found["matches"].as_array().unwrap().iter().map(|found| found["id"].as_str().unwrap()).collect()
}

/// The first vector of the sample as JSON.
fn vector() -> String {
    let sample = sample::memories();
    let at = (0..sample.memories.len()).find_map(|at| sample.vector(at)).unwrap();
    serde_json::to_string(at).unwrap()
}

/// Saves a memory with the vector of another.
fn save_copy(place: &Place, id: &str) {
    let owner = rusqlite::Connection::open(place.path("brain.db")).unwrap();
    let memory =
        "INSERT INTO stm (id, content, categories, importance, access_count, created_at, source)
         VALUES (?1, 'Saved late.', '[]', 1.0, 0, '2026-06-01T10:00:00', 'agent')";
    owner.execute(memory, [id]).unwrap();
    let vector = "INSERT INTO embeddings (id, source_type, source_id, embedding, model, created_at)
         SELECT 'emb_' || ?1, source_type, ?1, embedding, model, created_at FROM embeddings LIMIT 1";
    owner.execute(vector, [id]).unwrap();
}

#[test]
fn an_index_is_built_inspected_and_verified() {
    let place = Place::with_sample();
    let built = place.json(&["index", "build", "brain.db", "--json"]);
    assert_eq!((&built["generation"], &built["tier"]), (&1.into(), &"scan".into()));
    let rows = built["rows"].as_u64().unwrap();
    assert!(rows > 300 && built["dim"] == 384, "{built}");
    let info = place.json(&["index", "info", "brain.db", "--json"]);
    assert_eq!((&info["rows"], &info["fresh_rows"]), (&rows.into(), &0.into()), "{info}");
    assert_eq!(info["verified"], serde_json::Value::Null);
    let verify = ["index", "info", "brain.db", "--verify"];
    let verified = place.json(&[&verify[..], &["--json"]].concat())["verified"].clone();
    assert_eq!((&verified["store"]["same"], &verified["store"]["gone"]), (&rows.into(), &0.into()));
    let bytes: u64 = info["bytes"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(verified["bytes"], bytes);
    for words in [&["index", "build", "brain.db"][..], &["index", "info", "brain.db"], &verify] {
        let screen = place.succeed(words);
        assert!(screen.lines().all(|line| line.chars().count() <= 100), "{screen}");
    }
    assert!(place.succeed(&verify).contains("compared with the store"));
    assert_eq!(place.json(&["index", "info", "brain.db", "--json"])["generation"], 2);
}

#[test]
fn a_run_that_builds_the_index_anew_keeps_its_graph() {
    let place = Place::with_pair();
    place.succeed(&["index", "build", "brain.db", "--tier", "graph"]);
    place.succeed(&consolidate(&["--execute", "--max-change-share", "1"]));
    let info = place.json(&["index", "info", "brain.db", "--json"]);
    assert_eq!((&info["generation"], &info["tier"]), (&2.into(), &"graph".into()), "{info}");
}

#[test]
fn documents_fit_the_published_schemas() {
    let place = Place::with_sample();
    let says = |name: &str, words: &[&str]| {
        assert_fits(name, &place.json(&[words, &["--json"]].concat()));
    };
    let vector = vector();
    let search = ["search", "brain.db", "--vector", &vector];
    says("search", &search);
    for tier in ["scan", "graph"] {
        place.succeed(&["index", "build", "brain.db", "--tier", tier]);
        says("search", &search);
    }
}

#[test]
fn segments_are_verified_and_counted_like_other_files() {
    let place = Place::with_sample();
    place.succeed(&["index", "build", "brain.db"]);
    save_copy(&place, "late");
    let info = place.json(&["index", "build", "brain.db", "--append", "--json"]);
    assert_eq!((&info["segments"], &info["sealed_rows"]), (&1.into(), &1.into()), "{info}");
    let folder = std::fs::read_dir(place.path("brain.db.memfold/gen-000001")).unwrap();
    let lengths: BTreeMap<String, u64> = folder
        .map(Result::unwrap)
        .map(|file| (file.file_name().into_string().unwrap(), file.metadata().unwrap().len()))
        .filter(|(name, _)| name != "LOCK")
        .collect();
    assert!(lengths["fresh-0001.mfi"] > 0);
    assert_eq!(info["bytes"], serde_json::to_value(&lengths).unwrap());
    let total: u64 = lengths.values().sum();
    let found = place.json(&["index", "info", "brain.db", "--verify", "--json"]);
    assert_eq!(found["verified"]["bytes"], total);
}

#[test]
fn a_search_gives_the_same_answer_with_and_without_an_index() {
    let place = Place::with_sample();
    let vector = vector();
    let search = ["search", "brain.db", "--vector", &vector, "--json"];
    let without = place.json(&search);
    assert_eq!(without["index"]["kind"], "none");
    place.succeed(&["index", "build", "brain.db"]);
    let with = place.json(&search);
    assert_eq!(with["index"]["kind"], "scan");
    assert_eq!((ids(&with).len(), ids(&with)), (10, ids(&without)));
    assert_eq!(with["matches"], without["matches"]);
    place.succeed(&["index", "build", "brain.db", "--tier", "graph"]);
    assert_eq!(place.json(&search)["matches"], without["matches"]);
    let near = place.json(&[&search[..], &["--threshold", "0.5"]].concat());
    let least = |found: &Value| found["similarity"].as_f64().unwrap() >= 0.5;
    assert!(near["matches"].as_array().unwrap().iter().all(least), "{near}");
}

#[test]
fn memories_and_texts_are_searched_for_by_example() {
    let place = Place::with_sample();
    place.succeed(&["index", "build", "brain.db"]);
    let vector = vector();
    let found = place.json(&["search", "brain.db", "--vector", &vector, "-k", "3", "--json"]);
    let first = &found["matches"][0];
    let (id, text) = (first["id"].as_str().unwrap(), first["text"].as_str().unwrap());
    let by_id = place.json(&["search", "brain.db", "--id", id, "-k", "2", "--json"]);
    assert_eq!(ids(&by_id), ids(&found)[1..], "itself is no answer");
    let spaced = format!("  {}", text.replace(' ', "  "));
    let by_text = place.json(&["search", "brain.db", "--text", &spaced, "-k", "3", "--json"]);
    assert_eq!(by_text["matches"][0]["similarity"], 1.0);
    let reworded = format!("so, {} indeed", text.to_lowercase());
    let answer = place.run(&["search", "brain.db", "--text", &reworded, "-k", "1"]);
    assert!(answer.out.contains(id), "{answer:?}");
    assert!(answer.err.contains("note: compared by words"), "{}", answer.err);
    let answer = place.run(&["search", "brain.db", "--text", "🎉"]);
    answer.fails_with(1, &["no word of it is known", "hint: search by another text"]);
    let answer = place.run(&["search", "brain.db", "--id", "nobody"]);
    assert!(answer.code == Some(1) && answer.err.contains("\"nobody\""), "{}", answer.err);
}

#[test]
fn many_queries_go_to_a_file() {
    let place = Place::with_sample();
    place.succeed(&["index", "build", "brain.db"]);
    place.succeed(&["export", "brain.db", "-o", "queries.parquet"]);
    let words =
        ["search", "brain.db", "--queries", "queries.parquet", "-o", "near.parquet", "-k", "4"];
    let done = place.json(&[&words[..], &["--json"]].concat());
    let queries = done["queries"].as_u64().unwrap();
    assert_eq!(done["neighbors"].as_u64().unwrap(), 4 * queries);
    let file = std::fs::File::open(place.path("near.parquet")).unwrap();
    let reader = parquet::file::reader::SerializedFileReader::new(file).unwrap();
    let schema =
        parquet::file::reader::FileReader::metadata(&reader).file_metadata().schema_descr();
    let names: Vec<&str> = schema.columns().iter().map(|column| column.name()).collect();
    assert_eq!(names, ["query", "rank", "row", "similarity", "id"]);
    let again = place.run(&words);
    assert!(again.code == Some(2) && again.err.contains("--force"), "{}", again.err);
}

#[test]
fn what_cannot_be_searched_is_said() {
    let place = Place::with_sample();
    place.write("words.txt", "no vector at all");
    for (words, code, said) in [
        (&["search", "brain.db"][..], 2, "--vector"),
        (&["search", "brain.db", "--vector", "[1,2,3]"], 1, "with 3 components"),
        (&["search", "brain.db", "--vector", "nothing"], 2, "no vector and no file"),
        (&["search", "brain.db", "--vector", "words.txt", "-k", "0"], 2, "0"),
        (&["search", "missing.db", "--vector", "[1]"], 1, "missing.db"),
        (&["search", "brain.db", "--queries", "words.txt"], 2, "--output"),
        (&["index", "info", "brain.db"], 1, "index build"),
        (&["index", "info", "brain.db", "--verify"], 1, "no index in"),
        (&["index", "build", "words.txt"], 1, "words.txt"),
        (&["index", "build", "brain.db", "--model", "other"], 1, "other"),
    ] {
        let answer = place.run(words);
        assert_eq!(answer.code, Some(code), "{words:?}: {}", answer.err);
        assert!(answer.err.contains(said), "{words:?}: {}", answer.err);
    }
    assert!(!place.path("brain.db.memfold/MANIFEST").exists(), "nothing was built");
}

#[test]
fn a_damaged_index_is_found_out_and_done_without() {
    let place = Place::with_sample();
    let vector = vector();
    let search = ["search", "brain.db", "--vector", &vector, "--json"];
    let right = place.json(&search);
    place.succeed(&["index", "build", "brain.db"]);
    let file = place.path("brain.db.memfold/gen-000001/columns.arrow");
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, &bytes).unwrap();
    let answer = place.run(&["index", "info", "brain.db", "--verify"]);
    assert!(
        answer.code == Some(1) && answer.err.contains("columns.arrow: damaged"),
        "{}",
        answer.err
    );
    std::fs::write(place.path("brain.db.memfold/MANIFEST"), "nonsense").unwrap();
    let answer = place.run(&search);
    assert_eq!(answer.code, Some(0));
    assert!(answer.err.contains("the index cannot be used"), "{}", answer.err);
    let found: Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(found["matches"], right["matches"]);
}

#[test]
fn a_folder_that_cannot_be_written_keeps_its_index_in_the_cache() {
    let place = Place::with_sample();
    std::fs::create_dir(place.path("shelf")).unwrap();
    std::fs::rename(place.path("brain.db"), place.path("shelf/brain.db")).unwrap();
    std::fs::set_permissions(place.path("shelf"), std::fs::Permissions::from_mode(0o555)).unwrap();
    let is_root = std::fs::write(place.path("shelf/probe"), "").is_ok();
    if is_root {
        // Nothing is read-only for root.
        std::fs::remove_file(place.path("shelf/probe")).unwrap();
    } else {
        let built = place.json(&["index", "build", "shelf/brain.db", "--json"]);
        assert!(built["folder"].as_str().unwrap().contains(".cache/memfold/brain.db-"), "{built}");
        let found = place.json(&["search", "shelf/brain.db", "--vector", &vector(), "--json"]);
        assert_eq!(found["index"]["kind"], "scan");
    }
    std::fs::set_permissions(place.path("shelf"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let named = ["--index-dir", "elsewhere"];
    place.succeed(&[&["index", "build", "shelf/brain.db"][..], &named].concat());
    assert!(place.path("elsewhere/MANIFEST").exists());
    let search = ["search", "shelf/brain.db", "--vector", &vector(), "--json"];
    assert_eq!(place.json(&[&search[..], &named].concat())["index"]["kind"], "scan");
}

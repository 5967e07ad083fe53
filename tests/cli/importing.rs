//! `memfold import` and `convert`, and files that are damaged or cannot grow.

use std::path::Path;

use memfold_datasets::npy::{Component, NpyWriter};
use memfold_tests::NOW;
use rusqlite::Connection;

use crate::support::TestFolder;

const LINES: &str = r#"{"id":"a","text":"The kiln is fired on Mondays.","categories":["decision","r\u00e9gie"],"importance":2,"access_count":3,"created_at":"2026-05-01T10:00:00Z","source":"manual","vector":[1,0,0],"model":"tiny"}

{"content":"Tea is ordered from the harbour shop.","embedding":[0,1,0],"embedding_model":"tiny","mood":"calm"}
{"id":7,"text":"Lamps are lit at dusk."}
"#;

fn import(dir: &TestFolder) -> serde_json::Value {
    dir.json("import memories.jsonl --into brain.db --json")
}

/// Nobody without the owner's programs could make a store to try memfold on their own texts.
#[test]
fn imported_lines_make_an_owner_store() {
    let dir = TestFolder::new();
    dir.write("memories.jsonl", LINES);
    let document = import(&dir);
    assert_eq!((&document["created"], &document["imported"]), (&true.into(), &3.into()));
    assert_eq!(document["vectors"][0]["rows"], 2);
    assert_eq!(document["unknown_fields"][0], "mood");
    let row = |column: &str, id: &str| -> String {
        dir.one(&format!("SELECT CAST({column} AS TEXT) FROM stm WHERE id = '{id}'"))
    };
    assert_eq!(row("content", "a"), "The kiln is fired on Mondays.");
    assert_eq!(row("categories", "a"), r#"["decision", "r\u00e9gie"]"#);
    assert_eq!(row("importance || ' ' || access_count || ' ' || source", "a"), "2.0 3 manual");
    assert_eq!(row("created_at", "a"), "2026-05-01T10:00:00.000000");
    let defaults = row("categories || importance || access_count || source", "7");
    assert_eq!(defaults, "[\"general\"]1.00agent");
    let embedded = "SELECT e.content || hex(e.embedding) || e.model FROM embeddings e
                    WHERE e.source_type = 'stm' AND e.source_id = 'a'";
    let expected = "The kiln is fired on Mondays.0000803F0000000000000000tiny";
    assert_eq!(dir.one::<String>(embedded), expected);
    assert_eq!(dir.one::<i64>("SELECT count(*) FROM stm_fts WHERE stm_fts MATCH 'lamps'"), 1);
    let indexed = "SELECT count(*) FROM stm WHERE rowid IN (SELECT id FROM stm_fts_docsize)";
    assert_eq!(dir.one::<i64>(indexed), 3);
    assert_eq!(dir.one::<String>("PRAGMA journal_mode"), "wal");
    assert_eq!(dir.one::<String>("PRAGMA integrity_check"), "ok");
    assert_eq!(dir.json("doctor brain.db --json")["live"], 3);
    dir.succeed(&["consolidate", "brain.db", "--now", NOW]);
    assert_eq!(dir.temporary_files(), 0);
}

#[test]
fn importing_again_adds_what_is_new_and_changes_nothing() {
    let dir = TestFolder::new();
    dir.write("memories.jsonl", LINES);
    import(&dir);
    let before = dir.one::<i64>("SELECT count(*) FROM stm");
    let document = import(&dir);
    assert_eq!((&document["created"], &document["imported"]), (&false.into(), &0.into()));
    assert_eq!((before, &document["known"]), (3, &3.into()));
    let more = r#"{"id":"a","text":"The kiln is cold."}
{"id":"b","text":"The gate opens at six."}
{"text":"Equal lines without an id"}
{"text":"Equal lines without an id"}
"#;
    dir.write("memories.jsonl", more);
    let document = import(&dir);
    assert_eq!((&document["imported"], &document["known_otherwise"]), (&3.into(), &1.into()));
    assert_eq!(import(&dir)["imported"], 0);
    let kept: String = dir.one("SELECT content FROM stm WHERE id = 'a'");
    assert_eq!(kept, "The kiln is fired on Mondays.");
    assert_eq!(dir.one::<i64>("SELECT count(*) FROM stm"), 6);
}

/// Rows that a run moved out of the owner's tables do not come back by importing them again.
#[test]
fn a_memory_that_was_moved_is_known() {
    let dir = TestFolder::new();
    let lines = r#"{"id":"a","text":"The kiln is fired on Mondays.","created_at":"2026-01-01T10:00:00"}
{"id":"b","text":"The kiln is fired on Mondays.","created_at":"2026-01-02T10:00:00"}
"#;
    dir.write("memories.jsonl", lines);
    import(&dir);
    let run =
        ["consolidate", "brain.db", "--execute", "--now", NOW, "--set", "merge.absorbed=move"];
    dir.succeed(&run);
    assert_eq!(dir.one::<i64>("SELECT count(*) FROM stm"), 1);
    let document = import(&dir);
    assert_eq!((&document["imported"], &document["known"]), (&0.into(), &2.into()));
}

/// All bad lines are named at once; a strict import writes nothing.
#[test]
fn bad_lines_are_named_and_left_out() {
    let dir = TestFolder::new();
    let lines = [
        r#"{"text":"good"}"#,
        r#"{"text":"  "}"#,
        r#"["text"]"#,
        r#"{"text":"x","importance":"high"}"#,
        r#"{"text":"x","created_at":"tomorrow"}"#,
        r#"{"text":"x","source":"archived:{\"merged_into\":\"y\"}"}"#,
        r#"{"text":"x","vector":[0,0],"model":"m"}"#,
        r#"{"text":"x","vector":[1,2,3]}"#,
        r#"{"text":"x","content":"y"}"#,
        r#"{"id":"i","text":"x"}"#,
        r#"{"id":"i","text":"y"}"#,
        r#"{"text":"x""#,
    ];
    dir.write("memories.jsonl", lines.join("\n"));
    let strict = ["import", "memories.jsonl", "--into", "brain.db", "--strict"];
    dir.run(&strict).fails_with(
        1,
        &[
            "failed to import memories.jsonl: 9 bad lines: line 2: the text is blank",
            "line 3: invalid type: sequence, expected an object or a text",
            "line 4: field \"importance\": \"high\" cannot be used",
            "line 5: field \"created_at\": \"tomorrow\" is no time",
            "line 6: field \"source\": \"archived:\" marks what is no live memory",
            "line 7: a vector of zeros",
            "line 8: a vector of 3 components without a model; name it on the line or with --model",
            "line 11: field \"id\": \"i\" stands on an earlier line with another text",
            "line 12: not JSON: EOF while parsing an object, column 11",
            "hint: nothing was imported",
        ],
    );
    assert_eq!(dir.files().len(), 1, "no store, and nothing beside it");
    let answer = dir.succeed(&strict[..4]);
    let expected = "3 memories added to a new store brain.db
  3 without a vector
  3 without a time of their own: now
1 of 12 lines is left out, the text is blank: 2
1 of 12 lines is left out, invalid type: sequence, expected an object or a text: 3
1 of 12 lines is not JSON: 12
left out: line 4: field \"importance\": \"high\" cannot be used
";
    assert!(answer.starts_with(expected), "{answer}");
    assert_eq!(dir.one::<i64>("SELECT count(*) FROM stm"), 3);
    std::fs::remove_file(dir.path("brain.db")).unwrap();
    dir.write("memories.jsonl", "{\"text\":\"x\",\"vector\":[1,2,3]}\n");
    dir.succeed("import memories.jsonl --into brain.db --model tiny");
}

/// An exported store comes back with the same names of fields.
#[test]
fn an_exported_store_can_be_imported() {
    let dir = TestFolder::with_sample();
    dir.succeed("export brain.db --output rows.parquet --with text");
    dir.succeed("convert rows.parquet rows.jsonl");
    let document = dir.json("import rows.jsonl --into copy.db --json");
    assert_eq!(document["unknown_fields"].as_array().unwrap().len(), 0);
    assert_eq!(document["without_vector"], 0);
    dir.succeed("export copy.db --output copy.parquet --with text");
    dir.succeed("convert copy.parquet copy.jsonl");
    let rows = |name: &str| -> Vec<serde_json::Value> {
        let text = dir.read(name);
        let mut rows: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for row in &mut rows {
            row.as_object_mut().unwrap().retain(|field, _| field != "row" && field != "rowid");
        }
        rows.sort_by_key(|row| row["id"].as_str().unwrap().to_owned());
        rows
    };
    let exported = dir.json("export brain.db --output rows.csv --with text --json");
    let texts = dir.json("import rows.csv --into texts.db --json");
    assert_eq!((&texts["imported"], &texts["left_out"]), (&exported["rows"], &0.into()));
    let (before, after) = (rows("rows.jsonl"), rows("copy.jsonl"));
    assert_eq!(before.len() as u64, document["imported"].as_u64().unwrap());
    assert_eq!(before, after);
}

const MEM0: &str = concat!(
    "{\"id\":\"m1\",\"memory\":\"Prefers tea in the morning\",\"user_id\":\"u1\",\"hash\":\"x\",\"metadata\":{\"k\": [1, 2.50]},\"categories\":[\"food\"],\"created_at\":\"2026-01-02T03:04:05.000-08:00\"}\n",
    "{ \"memory\" : \"Prefers tea in the morning\", \"id\" : \"m2\", \"user_id\":\"u1\", \"created_at\":\"2026-01-03T03:04:05Z\" }\n",
    "{\"id\":\"m3\",\"memory\":\"Sp\\u00e4t am Abend schreibt sie Briefe\",\"user_id\":\"u2\",\"created_at\":\"2026-01-03T03:04:05Z\"}\n",
);

/// Lines imported by a preset are exported by it, byte for byte where nothing changed.
#[test]
fn preset_lines_round_trip() {
    let dir = TestFolder::new();
    dir.write("mem0.jsonl", MEM0);
    dir.succeed("import mem0.jsonl --into brain.db --preset mem0");
    let categories: String = dir.one("SELECT categories FROM stm WHERE id = 'm1'");
    assert_eq!(categories, r#"["food", "user:u1"]"#);
    let back = ["export", "brain.db", "--output", "back.jsonl", "--preset", "mem0", "--force"];
    dir.succeed(&back);
    assert_eq!(dir.read("back.jsonl"), MEM0);

    let execute = ["--execute", "--max-change-share", "1", "--now", NOW];
    dir.succeed(&[&["consolidate", "brain.db"], &execute[..]].concat());
    let document = dir.json(&[&back[..], &["--json"]].concat());
    assert_eq!((&document["unchanged"], &document["left_out"]), (&1.into(), &1.into()));
    let text = dir.read("back.jsonl");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1], MEM0.lines().nth(2).unwrap());
    let survivor: serde_json::Value = serde_json::from_str(lines[0]).unwrap();
    assert_eq!(survivor["memory"], "Prefers tea in the morning");
    assert_eq!(survivor["metadata"]["consolidated_from"].as_array().unwrap().len(), 1);
    dir.succeed("undo brain.db latest --execute");
    dir.succeed(&back);
    assert_eq!(dir.read("back.jsonl"), MEM0);
    dir.run("import mem0.jsonl --into x.db --preset mem1").fails_with(
        2,
        &["expected one of mem0, letta, agentic-memories, chroma, secureyeoman, qdrant"],
    );
}

/// An empty file made an empty store.
#[test]
fn files_without_memories_make_no_store() {
    let dir = TestFolder::new();
    for (name, content, said) in [
        ("empty.jsonl", "", "the file is empty"),
        ("header.csv", "id,text\n", "a header and no rows"),
        ("odd.csv", "id,wert\n1,x\n", "no field for the text, found \"id\", \"wert\""),
    ] {
        dir.write(name, content);
        dir.run(&["import", name, "--into", "brain.db"]).fails_with(1, &[said, "hint: "]);
        assert!(!dir.path("brain.db").exists(), "{name}");
    }
    dir.succeed("import odd.csv --into brain.db --text-field wert --user-field id");
    assert_eq!(dir.one::<String>("SELECT content || categories FROM stm"), r#"x["user:1"]"#);
}

const ROWS: [f32; 6] = [0.5, -0.0, 1.0, f32::MIN_POSITIVE / 2.0, 3.0, -4.25];

/// Three vectors in `in.npy`.
fn with_npy() -> TestFolder {
    let dir = TestFolder::new();
    let mut writer = NpyWriter::create(&dir.path("in.npy"), 2, Component::F32).unwrap();
    writer.push(&ROWS).unwrap();
    writer.finish().unwrap();
    dir
}

#[test]
fn documents_fit_the_published_schema() {
    let dir = with_npy();
    dir.succeed("convert in.npy a.parquet");
    let mut found = dir.json("convert a.parquet a.f16bin --type f16 --json");
    let seconds = found.as_object_mut().unwrap().remove("seconds").unwrap();
    assert!(seconds.as_f64().unwrap() > 0.0);
    assert!(found.as_object_mut().unwrap().remove("peak_anon_bytes").is_some());
    insta::assert_json_snapshot!("document", found);
    assert_eq!(std::fs::metadata(dir.path("a.f16bin")).unwrap().len(), 8 + 12);
}

/// Bytes that make a decoder give up: the file, the place, and the value.
const GIVES_UP: [(&str, usize, u8); 3] =
    [("lists.parquet", 329, 0), ("lists.parquet", 400, 255), ("lists-v2.parquet", 310, 169)];

/// The message of a decoder's panic stood on stderr before the error, even with `-q`.
#[test]
fn decoder_panic_is_one_error() {
    let dir = TestFolder::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/fuzz");
    for (name, at, byte) in GIVES_UP {
        let mut bytes = std::fs::read(folder.join(name)).unwrap();
        bytes[at] = byte;
        dir.write(name, &bytes);
        let answer = dir.run(&["-q", "convert", name, "out.jsonl"]);
        answer.fails_with(1, &["damaged: column ", "the decoder gave up: ", "hint: "]);
        assert!(answer.err.starts_with("error: "), "{answer:?}");
        assert_eq!(answer.err.lines().count(), 2, "{answer:?}");
    }
}

/// Makes a store with texts in UTF-16; some hold half a surrogate pair, which UTF-8 cannot
/// represent.
fn utf16_store(path: &Path) {
    let store = Connection::open(path).unwrap();
    store
        .execute_batch(
            "PRAGMA encoding = 'UTF-16le';
             CREATE TABLE stm (id TEXT PRIMARY KEY, content TEXT NOT NULL, categories TEXT,
                 importance REAL, access_count INTEGER, created_at TEXT, updated_at TEXT,
                 expires_at TEXT, source TEXT, source_message_id TEXT);
             CREATE TABLE embeddings (id TEXT PRIMARY KEY, source_type TEXT, source_id TEXT,
                 content TEXT, embedding BLOB, model TEXT, created_at TEXT,
                 UNIQUE (source_type, source_id));
             CREATE VIRTUAL TABLE stm_fts USING fts5(content, content='', content_rowid='');",
        )
        .unwrap();
    let at = "2026-01-01T10:00:00";
    // "Kiln" with half a pair at its end, before a letter, and two halves in the wrong order.
    let half = "CAST(x'4B0069006C006E003DD8' AS TEXT)";
    let before = "CAST(x'4B0069006C006E0000DC4100' AS TEXT)";
    let swapped = "CAST(x'4B0000DC3DD8' AS TEXT)";
    let text = "'The kiln is fired on Mondays.'";
    let rows = [
        ("'a'", text, "'[\"x\"]'", "'agent'"),
        ("'b'", text, "'[\"x\"]'", "'agent'"),
        ("'c'", half, "'[\"x\"]'", "'agent'"),
        ("'d'", before, "'[\"x\"]'", "'agent'"),
        ("'e'", swapped, "'[\"x\"]'", "'agent'"),
        (half, "'Lamps are lit at dusk.'", "'[\"x\"]'", "'agent'"),
        ("'f'", "'Tea is ordered by ship.'", half, "'agent'"),
        ("'g'", "'The gate opens at six.'", "'[\"x\"]'", half),
    ];
    for (number, (id, content, categories, source)) in rows.into_iter().enumerate() {
        let insert = format!(
            "INSERT INTO stm VALUES ({id}, {content}, {categories}, 1.0, 0, '{at}', '{at}', NULL, {source}, NULL);
             INSERT INTO stm_fts (rowid, content) VALUES ({}, {content});
             INSERT INTO embeddings VALUES ('e{number}', 'stm', {id}, {content}, x'0000803F{}', 'tiny', '{at}');",
            number + 1,
            if number < 3 { "00000000" } else { "0000803F" },
        );
        store.execute_batch(&insert).unwrap();
    }
}

/// Half a pair in a text of a UTF-16 store costs that row alone: it is left out with the reason, and everything else is
/// done.
#[test]
fn lone_surrogate_skips_only_its_row() {
    let dir = TestFolder::new();
    utf16_store(&dir.path("brain.db"));
    let document = dir.json("consolidate brain.db --json");
    assert_eq!(document["planned"]["merge"], 1, "{document:#}");
    for command in [
        &["doctor", "brain.db"][..],
        &["index", "build", "brain.db"],
        &["index", "info", "brain.db", "--verify"],
        &["search", "brain.db", "--id", "a"],
        &["check", "brain.db", "--text", "The kiln is fired on Mondays."],
        &["export", "brain.db", "--output", "rows.arrow", "--with", "text"],
        &["consolidate", "brain.db", "--execute"],
        &["explain", "brain.db", "a"],
        &["doctor", "brain.db"],
        &["review", "brain.db", "--flags"],
        &["save", "brain.db", "--text", "The moat is deep."],
    ] {
        let answer = dir.run(command);
        assert_eq!(answer.code, Some(0), "{command:?}: {answer:?}");
    }
    assert_eq!(dir.one::<i64>("SELECT count(*) FROM stm WHERE source LIKE 'archived:%'"), 1);
}

/// A limit on the size of files (`ulimit -f`) killed the process without a word.
#[cfg(unix)]
#[test]
fn file_size_limit_is_an_error() {
    let dir = TestFolder::with_sample();
    let limited = |command: &str| {
        let binary = env!("CARGO_BIN_EXE_memfold");
        // 4 or 8 KiB, by the shell.
        let script = format!("ulimit -f 8; exec '{binary}' {command}");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script]).current_dir(dir.folder()).env("HOME", dir.folder());
        dir.answer(shell.env("TMPDIR", "/tmp").output().unwrap())
    };
    let before = std::fs::read(dir.path("brain.db")).unwrap();
    let answer = limited("export brain.db --output rows.parquet --with text");
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert!(answer.err.contains("File too large"), "{answer:?}");
    let answer = limited("save brain.db --text 'The moat is deep.'");
    answer.fails_with(
        1,
        &[
            "brain.db cannot grow: the limit on the size of files is reached",
            "hint: raise the limit",
        ],
    );
    assert_eq!(std::fs::read(dir.path("brain.db")).unwrap(), before);
    // The log that this writer left behind wants an index, for which there is no room either.
    let answer = limited("doctor brain.db");
    assert!(answer.code == Some(0) || answer.err.contains("ulimit -f"), "{answer:?}");
}

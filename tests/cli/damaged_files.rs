//! What memfold says of files that are damaged, cannot be read, or cannot grow.

use std::path::Path;

use rusqlite::Connection;

use crate::support::TestFolder;

/// Bytes by which a decoder gives up: the file, where, and what.
const GIVES_UP: [(&str, usize, u8); 3] =
    [("lists.parquet", 329, 0), ("lists.parquet", 400, 255), ("lists-v2.parquet", 310, 169)];

/// The message of a decoder's panic stood on stderr before the error, even with `-q`.
#[test]
fn a_file_that_makes_a_decoder_give_up_ends_in_one_error() {
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

/// Makes a store whose texts are kept as UTF-16, where some hold half a pair, which no UTF-8 can hold.
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
fn half_a_pair_in_a_utf_16_store_costs_that_row_alone() {
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
    let store = Connection::open(dir.path("brain.db")).unwrap();
    let sql = "SELECT count(*) FROM stm WHERE source LIKE 'archived:%'";
    assert_eq!(store.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap(), 1);
}

/// A limit on the size of files (`ulimit -f`) killed the process without a word.
#[cfg(unix)]
#[test]
fn a_limit_on_the_size_of_files_is_told() {
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

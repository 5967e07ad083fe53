//! The same 300 memories in every form, as `tests/data/texts` keeps them.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow_ipc::writer::FileWriter;
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};

/// Sentences with what they are: `a` and `b` are users; `~` says the line before in other words, `!` contradicts it.
const WRITTEN: &str = include_str!("../../../tests/data/texts/written.txt");
pub(super) const MEMORIES: usize = 300;
pub(super) const COPIES: usize = 51;
pub(super) const OTHER_CAPITALS: usize = 20;
/// Coprime to the number of memories: each place is taken once.
const STRIDE: usize = 137;
/// 2026-01-05T08:00:00Z, and the time between two memories.
const FIRST_MICROS: i64 = 1_767_600_000_000_000;
const STEP_MICROS: i64 = 37 * 60 * 1_000_000;
const SET_TO_WRITE: &str = "MEMFOLD_WRITE_FIXTURES";

/// A memory of the fixtures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) id: String,
    pub(super) user: &'static str,
    pub(super) text: String,
    micros: i64,
}

impl Written {
    fn time(&self) -> String {
        jiff::Timestamp::from_microsecond(self.micros).unwrap().to_string()
    }
}

/// Returns all memories in the order of the files.
pub(super) fn memories() -> Vec<Written> {
    let lines = WRITTEN.lines().map(|line| {
        let (kind, text) = line.split_once('|').unwrap();
        let user = if kind.starts_with('a') { "ana" } else { "ben" };
        (kind.len() == 1, user, text.to_owned())
    });
    let mut written: Vec<(bool, &'static str, String)> = lines.collect();
    let bases: Vec<_> = written.iter().filter(|(is_base, ..)| *is_base).cloned().collect();
    written.extend(bases.iter().step_by(4).take(COPIES).cloned());
    let others = bases.iter().skip(1).step_by(4);
    let others = others.filter(|(_, _, text)| !text.bytes().any(|byte| byte.is_ascii_digit()));
    let in_other_capitals = others.enumerate().map(|(at, (_, user, text))| {
        let text = if at % 3 == 0 { text.to_uppercase() } else { text.to_lowercase() };
        (false, *user, text)
    });
    written.extend(in_other_capitals.take(OTHER_CAPITALS));
    assert_eq!(written.len(), MEMORIES);
    let place = |at: usize| at * STRIDE % MEMORIES;
    let mut memories: Vec<(usize, Written)> = written
        .into_iter()
        .enumerate()
        .map(|(at, (_, user, text))| {
            let micros = FIRST_MICROS + STEP_MICROS * place(at) as i64;
            (place(at), Written { id: format!("m{:03}", place(at) + 1), user, text, micros })
        })
        .collect();
    memories.sort_by_key(|(place, _)| *place);
    memories.into_iter().map(|(_, memory)| memory).collect()
}

/// A form of the memories.
pub(super) struct Fixture {
    pub(super) name: &'static str,
    pub(super) bytes: Vec<u8>,
    /// Whether it holds users and ids.
    pub(super) has_users: bool,
}

/// Returns the memories in all forms.
pub(super) fn fixtures() -> Vec<Fixture> {
    let memories = memories();
    let object = |it: &Written| json!({ "id": it.id, "text": it.text, "user_id": it.user, "created_at": it.time() });
    let objects: Vec<Value> = memories.iter().map(object).collect();
    let texts: Vec<&str> = memories.iter().map(|it| &*it.text).collect();
    let lines: String = objects.iter().map(|object| format!("{object}\n")).collect();
    let with = |name, bytes| Fixture { name, bytes, has_users: true };
    let without = |name, bytes| Fixture { name, bytes, has_users: false };
    vec![
        with("memories.jsonl", lines.into_bytes()),
        with("memories.json", pretty(&objects)),
        without("strings.json", pretty(&texts)),
        with("memories.csv", [b"\xEF\xBB\xBF", &*cells(&memories, b',', true)].concat()),
        with("memories.tsv", cells(&memories, b'\t', false)),
        without("memories.txt", (texts.join("\n") + "\n").into_bytes()),
        with("memories.parquet", parquet_of(&memories)),
        with("memories.arrow", arrow_of(&memories)),
        with("chroma.json", chroma(&memories)),
        with("mem0.json", mem0(&memories)),
        with("qdrant.json", qdrant(&memories)),
    ]
}

fn pretty(values: &impl serde::Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(values).unwrap();
    bytes.push(b'\n');
    bytes
}

fn cells(memories: &[Written], delimiter: u8, is_of_windows: bool) -> Vec<u8> {
    let end = if is_of_windows { csv::Terminator::CRLF } else { csv::Terminator::Any(b'\n') };
    let mut out =
        csv::WriterBuilder::new().delimiter(delimiter).terminator(end).from_writer(vec![]);
    out.write_record(["id", "text", "user_id", "created_at"]).unwrap();
    for memory in memories {
        out.write_record([&*memory.id, &memory.text, memory.user, &memory.time()]).unwrap();
    }
    out.into_inner().unwrap()
}

fn batch(memories: &[Written]) -> RecordBatch {
    let texts = |of: fn(&Written) -> &str| -> ArrayRef {
        Arc::new(memories.iter().map(of).map(Some).collect::<StringArray>())
    };
    let times = memories.iter().map(|it| it.micros).collect::<Vec<i64>>();
    let times = TimestampMicrosecondArray::from(times).with_timezone("UTC");
    RecordBatch::try_from_iter([
        ("id", texts(|it| &it.id)),
        ("text", texts(|it| &it.text)),
        ("user_id", texts(|it| it.user)),
        ("created_at", Arc::new(times) as ArrayRef),
    ])
    .unwrap()
}

fn parquet_of(memories: &[Written]) -> Vec<u8> {
    let batch = batch(memories);
    let mut out = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    out.write(&batch).unwrap();
    out.into_inner().unwrap()
}

fn arrow_of(memories: &[Written]) -> Vec<u8> {
    let batch = batch(memories);
    let mut out = FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    out.write(&batch).unwrap();
    out.into_inner().unwrap()
}

/// As `collection.get()` returns it; the last document is null.
fn chroma(memories: &[Written]) -> Vec<u8> {
    let mut ids: Vec<&str> = memories.iter().map(|it| &*it.id).collect();
    let mut documents: Vec<Option<&str>> = memories.iter().map(|it| Some(&*it.text)).collect();
    let metadata = |it: &Written| json!({ "user_id": it.user, "created_at": it.time() });
    let mut metadatas: Vec<Value> = memories.iter().map(metadata).collect();
    ids.push("m301");
    documents.push(None);
    metadatas.push(Value::Null);
    pretty(&json!({
        "ids": ids, "embeddings": null, "documents": documents, "uris": null,
        "included": ["metadatas", "documents"], "data": null, "metadatas": metadatas,
    }))
}

/// As `memory.get_all()` returns it.
fn mem0(memories: &[Written]) -> Vec<u8> {
    let results = memories.iter().enumerate().map(|(at, it)| {
        let mut hash = String::new();
        write!(hash, "{:032x}", at * STRIDE).unwrap();
        json!({
            "id": it.id, "memory": it.text, "hash": hash, "metadata": null,
            "created_at": it.time(), "updated_at": null, "user_id": it.user,
        })
    });
    pretty(&json!({ "results": results.collect::<Vec<Value>>() }))
}

/// As the scroll API answers.
fn qdrant(memories: &[Written]) -> Vec<u8> {
    let points = memories.iter().enumerate().map(|(at, it)| {
        let payload = json!({ "data": it.text, "user_id": it.user, "created_at": it.time() });
        json!({ "id": at + 1, "payload": payload, "vector": null })
    });
    let result = json!({ "points": points.collect::<Vec<Value>>(), "next_page_offset": null });
    let mut bytes =
        json!({ "result": result, "status": "ok", "time": 0.001 }).to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/data/texts")
}

/// The committed files are those that this module makes; tables may be encoded otherwise by another version.
#[test]
fn committed_files_are_these() {
    for fixture in fixtures() {
        let path = folder().join(fixture.name);
        if std::env::var_os(SET_TO_WRITE).is_some() {
            std::fs::write(&path, &fixture.bytes).unwrap();
        }
        let found = std::fs::read(&path).unwrap();
        let is_table = fixture.name.ends_with("parquet") || fixture.name.ends_with("arrow");
        assert!(is_table || found == fixture.bytes, "{}", fixture.name);
    }
}

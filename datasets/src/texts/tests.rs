use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow_ipc::writer::FileWriter;
use parquet::arrow::ArrowWriter;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::DataError;
use crate::read::support::touch;

/// Sentences with what they are: `a` and `b` are users; `~` says the line before in other words,
/// `!` contradicts it.
const WRITTEN: &str = include_str!("../../../tests/data/texts/written.txt");
const MEMORIES: usize = 300;
const COPIES: usize = 51;
const OTHER_CAPITALS: usize = 20;
/// Coprime to the number of memories: each place is taken once.
const STRIDE: usize = 137;
/// 2026-01-05T08:00:00Z, and the time between two memories.
const FIRST_MICROS: i64 = 1_767_600_000_000_000;
const STEP_MICROS: i64 = 37 * 60 * 1_000_000;
const SET_TO_WRITE: &str = "MEMFOLD_WRITE_FIXTURES";

/// A memory of the fixtures.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Written {
    id: String,
    user: &'static str,
    text: String,
    micros: i64,
}

impl Written {
    fn time(&self) -> String {
        jiff::Timestamp::from_microsecond(self.micros).unwrap().to_string()
    }
}

/// Returns all memories in the order of the files.
fn memories() -> Vec<Written> {
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
struct Fixture {
    name: &'static str,
    bytes: Vec<u8>,
    /// Whether it holds users and ids.
    has_users: bool,
}

/// Returns the memories in all forms.
fn fixtures() -> Vec<Fixture> {
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

/// The committed files are those that this module makes; tables may be encoded otherwise by another
/// version.
#[test]
fn committed_files_are_these() {
    for fixture in fixtures() {
        let path = committed(fixture.name);
        if std::env::var_os(SET_TO_WRITE).is_some() {
            std::fs::write(&path, &fixture.bytes).unwrap();
        }
        let found = std::fs::read(&path).unwrap();
        let is_table = fixture.name.ends_with("parquet") || fixture.name.ends_with("arrow");
        assert!(is_table || found == fixture.bytes, "{}", fixture.name);
    }
}

fn read_as(name: &str, text: impl AsRef<[u8]>) -> Result<TextFile, DataError> {
    TextFile::read_bytes(name.as_ref(), text.as_ref().to_vec(), &TextFields::default())
}

fn read(name: &str, text: impl AsRef<[u8]>) -> TextFile {
    read_as(name, text).unwrap()
}

fn texts(file: &TextFile) -> Vec<&str> {
    file.records.iter().map(|record| &*record.text).collect()
}

fn without(file: &TextFile, left_out: &[usize]) -> Vec<u8> {
    let mut out = Vec::new();
    file.write(&|index| !left_out.contains(&index), &mut out).unwrap();
    out
}

fn without_text(file: &TextFile, left_out: &[usize]) -> String {
    String::from_utf8(without(file, left_out)).unwrap()
}

fn committed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/texts").join(name)
}

#[test]
fn every_form_holds_the_same_memories() {
    let expected = memories();
    for fixture in fixtures() {
        let path = committed(fixture.name);
        assert!(TextFile::is_texts(&path), "{}", fixture.name);
        let file = TextFile::read(&path, &TextFields::default()).unwrap();
        let found = texts(&file);
        assert!(found.iter().eq(expected.iter().map(|it| &it.text)), "{}", fixture.name);
        let is_chroma = fixture.name == "chroma.json";
        assert_eq!(file.skipped.len(), usize::from(is_chroma), "{}", fixture.name);
        if fixture.has_users {
            let user = |it: &Written| vec![format!("user:{}", it.user)];
            let categories = file.records.iter().map(|record| record.categories.clone());
            assert!(categories.eq(expected.iter().map(user)), "{}", fixture.name);
            assert!(file.records.iter().all(|it| it.id.is_some() && it.created_at.is_some()));
        }
        if !matches!(file.form, TextForm::Parquet | TextForm::Arrow) {
            assert_eq!(without(&file, &[]), fixture.bytes, "{}", fixture.name);
        }
        let left_out: Vec<usize> = (0..expected.len()).filter(|at| at % 3 != 1).collect();
        let rest = without(&file, &left_out);
        let rest = TextFile::read_bytes(&path, rest, &TextFields::default()).unwrap();
        let kept = expected.iter().enumerate().filter(|(at, _)| at % 3 == 1);
        assert!(texts(&rest).iter().eq(kept.map(|(_, it)| &it.text)), "{}", fixture.name);
        assert_eq!((rest.form, rest.shape), (file.form, file.shape));
    }
}

#[test]
fn the_form_is_told_by_the_content() {
    for (text, name) in [
        ("{\"text\":\"a\"}\n{\"text\":\"b\"}\n", "JSON Lines"),
        ("{\"text\":\"a\"}", "JSON Lines"),
        ("{\"results\":[{\"memory\":\"a\"}]}", "JSON"),
        ("[\"a\", \"b\"]", "JSON array"),
        ("id,text\n1,a\n2,b\n", "CSV"),
        ("id;text\n1;a,b\n2;c,d\n", "CSV"),
        ("id\ttext\n1\ta\n2\tb\n", "TSV"),
        ("Prefers tea, not coffee.\nLikes milk, no sugar.\n", "plain text"),
        ("[2026-01-01] a note\n[2026-01-02] another\n", "plain text"),
    ] {
        assert_eq!(read("memories", text).form.name(), name, "{text}");
    }
    // The extension decides where a header names no text that is known.
    let fields = TextFields { text: Some("Was".into()), ..TextFields::default() };
    let file = TextFile::read_bytes("a.csv".as_ref(), b"Wer,Was\nx,y\n".to_vec(), &fields).unwrap();
    assert_eq!(texts(&file), ["y"]);
}

#[test]
fn fields_of_a_record_are_found() {
    let file = read(
        "a.jsonl",
        r#"{"id":7,"content":"Prefers tea","tags":["food","food"],"importance":2,"access_count":3,"created_at":1767225600000,"updated_at":"2026-02-01","source":"chat","embedding":[1,0.5],"embedding_model":"m","metadata":{"userId":"u","mood":"calm"},"mood":"calm","session_id":9}"#,
    );
    let expected = TextRecord {
        place: 1,
        id: Some("7".into()),
        text: "Prefers tea".into(),
        categories: ["food", "user:u", "session:9"].map(str::to_owned).into(),
        importance: Some(2.0),
        access_count: Some(3),
        created_at: Some("1767225600000".into()),
        updated_at: Some("2026-02-01".into()),
        source: Some("chat".into()),
        model: Some("m".into()),
        vector: Some(vec![1.0, 0.5]),
        ..TextRecord::default()
    };
    assert_eq!(file.records, [expected]);
    assert!(file.passed_over.iter().eq(["mood"]));
    assert_eq!(file.raw(0)["metadata"]["mood"], "calm");
}

/// Memories of two users were merged where a file kept the user under another name.
#[test]
fn scopes_of_exports_become_categories() {
    for (name, text, expected) in [
        (
            "mem0",
            r#"{"results":[{"memory":"x","hash":"h","user_id":"u","run_id":"r"}]}"#,
            &["user:u", "run:r"][..],
        ),
        (
            "qdrant",
            r#"{"points":[{"id":1,"payload":{"page_content":"x","metadata":{"user":"u"}},"vector":[1]}]}"#,
            &["user:u"],
        ),
        ("qdrant", r#"[[{"id":1,"payload":{"document":"x","owner":"u"}}],null]"#, &["user:u"]),
        (
            "langgraph",
            r#"[{"namespace":["u","memories"],"key":"k","value":{"content":{"content":"x"}}}]"#,
            &["ns:u/memories"],
        ),
        ("langchain", r#"[{"page_content":"x","metadata":{"agent_id":7}}]"#, &["agent:7"]),
        (
            "langchain",
            r#"[{"lc":1,"kwargs":{"page_content":"x","metadata":{"app_id":"a"}}}]"#,
            &["app:a"],
        ),
        ("chroma", r#"{"ids":["1"],"documents":["x"],"metadatas":[{"user_id":"u"}]}"#, &["user:u"]),
        (
            "letta",
            r#"[{"text":"x","agent_id":"g","archive_id":"r","is_deleted":false}]"#,
            &["agent:g", "archive:r"],
        ),
        (
            "agentic-memories",
            r#"[{"document":"x","metadata":{"layer":"l","tags":"[\"a\"]","user_id":"u"}}]"#,
            &["a", "user:u", "layer:l"],
        ),
    ] {
        let file = read("a.json", text);
        assert_eq!((file.shape, texts(&file)), (Some(name), vec!["x"]), "{text}");
        assert_eq!(file.records[0].categories, expected, "{text}");
    }
}

#[test]
fn what_its_system_deleted_is_left_out_and_stays_in_the_file() {
    let text = r#"[{"text":"a","is_deleted":true},{"text":"b","is_deleted":false}]"#;
    let file = read("a.json", text);
    assert_eq!((texts(&file), &*file.deleted), (vec!["b"], &[1][..]));
    assert_eq!(without_text(&file, &[0]), r#"[{"text":"a","is_deleted":true}]"#);
}

#[test]
fn vectors_are_read_in_every_spelling() {
    let base64 = "AACAPwAAAL8=";
    let text =
        format!("id,content,embedding\n1,a,\"[1.0,-0.5]\"\n2,b,{base64}\n3,c,\n4,d,\"[1,null]\"\n");
    let file = read("rows.csv", text);
    let vectors: Vec<Option<&[f32]>> = file.records.iter().map(|it| it.vector.as_deref()).collect();
    assert_eq!(vectors, [Some(&[1.0, -0.5][..]), Some(&[1.0, -0.5]), None, None]);
    assert!(file.records[3].fault.as_ref().unwrap().contains("\"embedding\""));
    let named = read("q.json", r#"{"points":[{"payload":{"text":"a"},"vector":{"dense":[1,2]}}]}"#);
    assert_eq!(named.records[0].vector.as_deref(), Some(&[1.0, 2.0][..]));
}

#[test]
fn bad_records_are_named_and_stay_as_they_are() {
    let text =
        "{\"text\":\"a\"}\n\nnot json\n{\"text\":\" \"}\n{\"mood\":1}\n[1]\r\n{\"text\":\"b\"}";
    let file = read("a.jsonl", text);
    let skipped: Vec<(u64, &str)> = file.skipped.iter().map(|it| (it.place, &*it.reason)).collect();
    assert_eq!(texts(&file), ["a", "b"]);
    assert_eq!(skipped[0].0, 3);
    assert!(skipped[0].1.starts_with("not JSON: "), "{skipped:?}");
    assert_eq!(skipped[1..3], [(4, "the text is blank"), (5, "there is no text")]);
    assert!(skipped[3].1.contains("expected an object or a text"), "{skipped:?}");
    assert_eq!(without_text(&file, &[0]), &text["{\"text\":\"a\"}\n".len()..]);

    let rows = read("a.csv", "id,text\n1,a\n2\n3,b,c\n4,\n5,d\n");
    assert_eq!(texts(&rows), ["a", "d"]);
    let places: Vec<u64> = rows.skipped.iter().map(|it| it.place).collect();
    assert_eq!(places, [3, 4, 5]);
}

#[test]
fn cells_keep_their_quotes_and_line_ends() {
    let text = "\u{feff}id;\"text\"\r\n1;\"two\r\nlines; \"\"quoted\"\"\"\r\n\r\n2;b\r\n3;c";
    let file = read("a.csv", text);
    assert_eq!(texts(&file), ["two\r\nlines; \"quoted\"", "b", "c"]);
    let places: Vec<u64> = file.records.iter().map(|it| it.place).collect();
    assert_eq!(places, [2, 5, 6]);
    assert_eq!(without_text(&file, &[0]), "\u{feff}id;\"text\"\r\n\r\n2;b\r\n3;c");
    assert_eq!(without_text(&file, &[1, 2]), &text[..text.len() - "2;b\r\n3;c".len()]);
    assert_eq!(file.raw(1), json!({ "id": "2", "text": "b" }));
}

/// Each wrong input says what it is, and the command that helps.
#[test]
fn wrong_inputs_say_what_they_are() {
    for (name, bytes, said, hint) in [
        ("a.txt", &b""[..], "the file is empty", "write the memories"),
        ("a.json", b" \n\n", "the file is empty", "write the memories"),
        ("a.json", b"[]", "the file is empty", "write the memories"),
        ("a.csv", b"id,text\n", "a header and no rows", "write the memories"),
        (
            "a.csv",
            b"id,wert\n1,x\n",
            "no field for the text, found \"id\", \"wert\"",
            "name the field of the text",
        ),
        ("a.jsonl", b"{\"a\":{\"b\":1}}\n", "found \"a\", \"a.b\"", "name the field of the text"),
        ("a.txt", b"ok\ncaf\xE9\n", "line 2 is not UTF-8", "iconv -f latin1 -t utf-8 a.txt"),
        ("a.txt", b"\xFF\xFEa\0", "UTF-16", "iconv -f utf-16 -t utf-8 a.txt"),
        ("a.pdf", b"%PDF-1.7\n", "a PDF", "pdftotext a.pdf"),
        ("a.docx", b"PK\x03\x04....", "a Word document", "pandoc"),
        ("a.xlsx", b"PK\x03\x04....", "an Excel workbook", "save it as CSV"),
        ("a.zip", b"PK\x03\x04....", "a zip archive", "unzip a.zip"),
        ("a.png", b"\x89PNG\r\n", "an image", "tesseract"),
        ("a.gz", b"\x1F\x8B\x08", "compressed with gzip", "gunzip -k a.gz"),
        ("a.pkl", b"\x80\x04\x95", "a Python pickle", "json.dump"),
        ("a.html", b"<!DOCTYPE html><p>x", "an HTML page", "pandoc"),
        ("a.bin", b"ab\0\0", "binary data", "JSON Lines"),
        ("a.json", b"[\n{\"text\":\"a\"},\n{\"te", "cut off at line 3", "write the file again"),
        ("a.json", b"{\"results\":\n [", "cut off at line 2", "write the file again"),
        (
            "a.json",
            b"[\n{\"text\":\"a\"}\n{\"text\":\"b\"}]",
            "line 3, column 1 is not JSON",
            "mend the line",
        ),
        (
            "a.json",
            b"{\n\"x\": 1,\n\"y\": []}",
            "without a list of memories, found \"x\", \"y\"",
            "jq",
        ),
        (
            "a.json",
            b"{\"text\":\n\"a\"}\n{\"text\":\n\"b\"}",
            "longer than a line",
            "one JSON object on each line",
        ),
        ("a.csv", b"id,text\n1,\"a\n2,b\n", "row of line 2 is never closed", "close the quote"),
        (
            "a.jsonl",
            b"{\"text\":\"\"}\n{\"text\":null}\n",
            "none of 2 records has a text",
            "\"text\"",
        ),
    ] {
        let error = read_as(name, bytes).unwrap_err();
        let (found, advice) = (error.to_string(), error.hint().unwrap_or_default());
        assert!(found.contains(said) && advice.contains(hint), "{name}: {found}; {advice}");
    }
    let given = TextFields { id: Some("key".into()), ..TextFields::default() };
    let error =
        TextFile::read_bytes("a".as_ref(), b"{\"text\":\"a\"}".to_vec(), &given).unwrap_err();
    assert_eq!(error.to_string(), "no field for the id \"key\", found \"text\"");
    let folder = tempfile::tempdir().unwrap();
    let error = TextFile::read(folder.path(), &TextFields::default()).unwrap_err();
    assert_eq!(error.to_string(), "a folder, expected a file of texts");
}

#[test]
fn other_stores_are_no_files_of_texts() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!TextFile::is_texts(folder.path()));
    for (name, bytes, expected) in [
        ("a.md", &b"# Notes\n"[..], false),
        ("memory.jsonl", b"{\"type\":\"entity\",\"name\":\"a\",\"observations\":[]}\n", false),
        ("lines.jsonl", b"{\"type\":\"entity\",\"text\":\"a\"}\n", true),
        ("brain.db", b"SQLite format 3\0", false),
        ("a.npy", b"\x93NUMPY\x01\0", false),
        ("a.fvecs", b"\x02\0\0\0", false),
        ("a.docx", b"PK\x03\x04", true),
        ("a.txt", b"one\n", true),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(TextFile::is_texts(&path), expected, "{name}");
    }
}

/// Rows were left out by their places, also where other rows stood there by then.
#[test]
fn table_that_was_changed_since_it_was_read_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["memories.parquet", "memories.arrow"] {
        let path = folder.path().join(name);
        std::fs::copy(committed(name), &path).unwrap();
        let file = TextFile::read(&path, &TextFields::default()).unwrap();
        touch(&path);
        let error = file.write(&|_| true, &mut Vec::new()).unwrap_err();
        assert!(matches!(error, DataError::Changed { .. }), "{error}");
    }
}

/// A text that a cell must quote, or JSON must escape.
fn any_text() -> impl Strategy<Value = String> {
    "[a-z\",;\\\\ é\n\r\t]{0,12}".prop_map(|text| format!("x{text}"))
}

fn in_form(form: usize, texts: &[String], indent: &str) -> Vec<u8> {
    let objects = texts.iter().enumerate().map(|(id, text)| json!({ "id": id, "text": text }));
    match form {
        0 => objects.map(|object| format!("{object}{indent}\n")).collect::<String>().into_bytes(),
        1 => {
            let objects: Vec<String> = objects.map(|it| format!("{indent}{it}")).collect();
            format!("[{}{indent}]", objects.join(",")).into_bytes()
        }
        2 => {
            let texts: Vec<Value> = texts.iter().cloned().map(Value::from).collect();
            serde_json::to_vec_pretty(&texts).unwrap()
        }
        3 => {
            let mut out = csv::Writer::from_writer(vec![]);
            out.write_record(["id", "text"]).unwrap();
            for (id, text) in texts.iter().enumerate() {
                out.write_record([&id.to_string(), text]).unwrap();
            }
            out.into_inner().unwrap()
        }
        _ => {
            let flat = |text: &String| text.replace(['\n', '\r'], " ") + "\r\n";
            texts.iter().map(flat).collect::<String>().into_bytes()
        }
    }
}

proptest! {
    #[test]
    fn only_left_out_records_are_missing(
        all in prop::collection::vec(any_text(), 1..8),
        form in 0..5_usize,
        at in any::<prop::sample::Index>(),
        indent in prop::sample::select(vec!["", " ", "\n  "]),
    ) {
        let indent = if form == 0 { indent.trim_matches('\n') } else { indent };
        let bytes = in_form(form, &all, indent);
        let name = ["a.jsonl", "a.json", "a.json", "a.csv", "a.txt"][form];
        let file = read(name, &bytes);
        prop_assert_eq!(file.records.len(), all.len());
        if form < 4 {
            prop_assert!(file.records.iter().map(|it| &it.text).eq(&all));
        }
        prop_assert_eq!(without(&file, &[]), bytes.clone());
        let left_out = at.index(all.len());
        let rest = without(&file, &[left_out]);
        let mut pieces: Vec<Vec<u8>> = (0..all.len()).map(|kept| {
            let others: Vec<usize> = (0..all.len()).filter(|other| *other != kept).collect();
            without(&file, &others)
        }).collect();
        pieces.remove(left_out);
        if pieces.is_empty() {
            prop_assert!(rest.len() < bytes.len());
        } else {
            let rest = read(name, &rest);
            let kept = (0..all.len()).filter(|index| *index != left_out);
            for (index, before) in kept.enumerate() {
                prop_assert_eq!(rest.raw(index), file.raw(before));
                let others: Vec<usize> = (0..pieces.len()).filter(|it| *it != index).collect();
                prop_assert_eq!(&without(&rest, &others), &pieces[index]);
            }
        }
    }
}

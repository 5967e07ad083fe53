use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::DataError;
use crate::read::support::touch;

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

/// `tests/data/texts/README.md` says how the files were made; of some forms they have no users.
#[test]
fn every_form_holds_the_same_memories() {
    let lines = std::fs::read_to_string(committed("memories.jsonl")).unwrap();
    let expected: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(expected.len(), 300);
    for (name, has_users) in [
        ("memories.jsonl", true),
        ("memories.json", true),
        ("strings.json", false),
        ("memories.csv", true),
        ("memories.tsv", true),
        ("memories.txt", false),
        ("memories.parquet", true),
        ("memories.arrow", true),
        ("chroma.json", true),
        ("mem0.json", true),
        ("qdrant.json", true),
    ] {
        let path = committed(name);
        assert!(TextFile::is_texts(&path), "{name}");
        let file = TextFile::read(&path, &TextFields::default()).unwrap();
        assert!(texts(&file).into_iter().eq(expected.iter().map(|it| &it["text"])), "{name}");
        assert_eq!(file.skipped.len(), usize::from(name == "chroma.json"), "{name}");
        if has_users {
            let user = |it: &Value| vec![format!("user:{}", it["user_id"].as_str().unwrap())];
            let categories = file.records.iter().map(|record| record.categories.clone());
            assert!(categories.eq(expected.iter().map(user)), "{name}");
            assert!(file.records.iter().all(|it| it.id.is_some() && it.created_at.is_some()));
        }
        if !matches!(file.form, TextForm::Parquet | TextForm::Arrow) {
            assert_eq!(without(&file, &[]), std::fs::read(&path).unwrap(), "{name}");
        }
        let left_out: Vec<usize> = (0..expected.len()).filter(|at| at % 3 != 1).collect();
        let rest = without(&file, &left_out);
        let rest = TextFile::read_bytes(&path, rest, &TextFields::default()).unwrap();
        let kept = expected.iter().enumerate().filter(|(at, _)| at % 3 == 1);
        assert!(texts(&rest).into_iter().eq(kept.map(|(_, it)| &it["text"])), "{name}");
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

/// Each wrong input is named with its kind, and the command that converts it.
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

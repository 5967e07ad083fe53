//! What is wrong with a file is named, and no change to a file makes its reader panic, hang or ask
//! for memory.

use std::sync::OnceLock;

use arrow_buffer::Buffer;
use proptest::prelude::*;

use super::*;
use crate::{
    ColumnRecord, ColumnSet, ColumnsMeta, ColumnsWriter, Corpus, CorpusOptions, MappedColumns,
    ParquetText,
};

/// Reads all vectors; returns the error without the path.
fn said(path: &Path, member: Option<&str>) -> String {
    let read = VectorFile::open_member(path, member).and_then(VectorFile::read_all);
    let error = match read {
        Ok(values) => panic!("{}: {} values, expected an error", path.display(), values.len()),
        Err(error) => error,
    };
    assert!(error.hint().is_some(), "{error}");
    error.to_string().replace(&format!("{}: ", path.display()), "")
}

/// Checks what is said about each file: a line of `expected`, which begins with a blank one.
fn check(files: Vec<(&str, Vec<u8>)>, expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let found = files.into_iter().enumerate().map(|(i, (name, bytes))| {
        let path = folder.path().join(format!("{i}_{name}"));
        std::fs::write(&path, bytes).unwrap();
        format!("\n{}", said(&path, None))
    });
    assert_eq!(found.collect::<String>(), expected);
}

/// Checks files of one format.
fn check_all(extension: &str, files: Vec<Vec<u8>>, expected: &str) {
    let name = format!("v.{extension}");
    check(files.into_iter().map(|bytes| (name.as_str(), bytes)).collect(), expected);
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn rows_after_their_lengths() {
    let two = f32s(&[1.0, 2.0]);
    let whole = vecs(2, 8, &f32s(&[1.0, 2.0, 3.0, 4.0]));
    let mut other = whole.clone();
    other[12] = 3;
    check(
        vec![
            ("v.fvecs", vec![]),
            ("v.fvecs", vec![2, 0, 0]),
            ("v.fvecs", vec![0; 4]),
            ("v.ivecs", vecs(u32::MAX, 8, &two)),
            ("v.bvecs", vecs(65_537, 8, &two)),
            ("v.fvecs", whole[..4].to_vec()),
            ("v.fvecs", whole[..23].to_vec()),
            ("v.bvecs", whole[..16].to_vec()),
            ("v.fvecs", other),
        ],
        r#"
damaged: 0 bytes, expected at least one row
damaged: 3 bytes, expected at least one row
vectors of 0 components, expected 1 to 65536
vectors of 4294967295 components, expected 1 to 65536
vectors of 65537 components, expected 1 to 65536
damaged: 4 bytes, expected whole rows of 12 for a dim of 2
damaged: 23 bytes, expected whole rows of 12 for a dim of 2
damaged: 16 bytes, expected whole rows of 6 for a dim of 2
row 1: vector has 3 components, expected 2"#,
    );
}

#[test]
fn rows_after_their_count() {
    let four = f32s(&[1.0, 2.0, 3.0, 4.0]);
    check(
        vec![
            ("v.fbin", vec![]),
            ("v.fbin", vec![1; 7]),
            ("v.fbin", bin(2, 0, &[])),
            ("v.fbin", bin(2, 65_537, &four)),
            ("v.ibin", bin(u32::MAX, 2, &four)),
            ("v.fbin", bin(2, 2, &four[..15])),
            ("v.f16bin", bin(2, 2, &four)),
            ("v.u8bin", bin(3, 2, &[1; 5])),
            ("v.i8bin", bin(0, 2, &[1; 5])),
            ("v.fbin", bin(1 << 31, 65_536, &[])),
        ],
        r#"
damaged: 0 bytes, expected a header of 8
damaged: 7 bytes, expected a header of 8
vectors of 0 components, expected 1 to 65536
vectors of 65537 components, expected 1 to 65536
4294967295 rows, expected at most 4294967294
damaged: 23 bytes, expected 24 for 2 × 2
damaged: 24 bytes, expected 16 for 2 × 2
damaged: 13 bytes, expected 14 for 3 × 2
damaged: 13 bytes, expected 8 for 0 × 2
damaged: 8 bytes, expected 562949953421320 for 2147483648 × 65536"#,
    );
}

fn array() -> Vec<u8> {
    npy("<f4", "(2, 2)", &f32s(&[1.0, 2.0, 3.0, 4.0]))
}

#[test]
fn members_of_npz() {
    let array = array();
    let plain = zip(&[Member::stored("v.npy", &array)]);
    let deflated = Member::deflated("v.npy", &array);
    let of = |member: Member| zip(&[member]);
    let mut cut = deflated.clone();
    cut.stored.truncate(cut.stored.len() - 4);
    let mut unreadable = deflated.clone();
    unreadable.stored[0] = 0xFF;
    let mut far = plain.clone();
    // The size when compressed, in the directory.
    let directory = far.windows(4).rposition(|bytes| bytes == b"PK\x01\x02").unwrap();
    far[directory + 20..][..8].copy_from_slice(&[0xFF, 0xFF, 0, 0, 0xFF, 0xFF, 0, 0]);
    check_all(
        "npz",
        vec![
            b"PK\x03\x04".to_vec(),
            plain[..plain.len() - 30].to_vec(),
            of(Member::stored("read.me", b"text")),
            zip(&[
                Member::stored("a.npy", &array),
                Member::stored("b.npy", &npy("<i4", "(3,)", &[0; 12])),
                Member::stored("c.npy", &array),
            ]),
            of(Member { flags: 1, ..deflated.clone() }),
            of(Member { method: 12, ..deflated.clone() }),
            zip(&[Member::stored("v.npy", &array), deflated.clone()]),
            of(Member::deflated("v.npy", &array[..140])),
            of(Member { crc: 7, ..deflated.clone() }),
            of(cut),
            of(unreadable),
            of(Member { claimed_length: 145, ..Member::stored("v.npy", &array) }),
            far,
        ],
        r#"
damaged: invalid Zip archive: Could not find EOCD
damaged: invalid Zip archive: Could not find EOCD
no array that is the only matrix, or named vector, vectors, embedding, embeddings, emb, arr_0, found none
no array that is the only matrix, or named vector, vectors, embedding, embeddings, emb, arr_0, found "a" ((2, 2) of <f4), "b" ((3,) of <i4), "c" ((2, 2) of <f4)
damaged: array "v": encrypted, expected plain
damaged: array "v": compressed with Bzip2, expected none or deflate
damaged: two members have the same name
damaged: array "v": 140 bytes, expected 144 for 2 × 2
damaged: array "v": Invalid checksum
damaged: array "v": incomplete deflate stream
damaged: array "v": corrupt deflate stream
damaged: array "v": 144 stored bytes that claim to be 145
damaged: array "v": 65535 bytes at 35 lie outside"#,
    );
}

#[test]
fn arrays_of_npz() {
    let array = array();
    let of = |member: Member| zip(&[member]);
    check_all(
        "npz",
        vec![
            of(Member::deflated("v.npy", &npy("<c8", "(2, 2)", &array))),
            of(Member::stored("v.npy", b"no array")),
            of(Member::deflated("v.npy", &array[..90])),
        ],
        r#"
damaged: array "v": values of type "<c8", expected one of f2, f4, f8, i1, u1, i4, i8
damaged: array "v": it begins with "no array", not an npy file
damaged: array "v": damaged: the file ends in its header"#,
    );
}

#[test]
fn zip_bombs() {
    let array = npy("<f4", "(2, 2)", &f32s(&[1.0, 2.0, 3.0, 4.0]));
    let zeros = vec![0; 1 << 24];
    let longer = [&array[..], &zeros].concat();
    let huge = npy("<f4", "(4194304, 65536)", &zeros);
    let claims = |claimed_length, bytes: &[u8]| {
        zip(&[Member { claimed_length, ..Member::deflated("v.npy", bytes) }])
    };
    check_all(
        "npz",
        vec![
            claims(144, &longer),
            claims(1 << 40, &huge),
            claims((1 << 24) + 128 + 4, &npy("<f4", "(4194305, 1)", &zeros)),
        ],
        r#"
damaged: array "v": File is larger than its declared uncompressed size
damaged: array "v": 16401 deflated bytes that claim to be 1099511627776
damaged: array "v": it inflates to 16777344 bytes, expected 16777348"#,
    );
}

/// One tensor of 16 bytes.
fn tensor(dtype: &str, shape: &str, offsets: &str) -> Vec<u8> {
    tensors(&[("v", dtype, shape, offsets)])
}

/// Some tensors in 16 bytes: name, type, shape, place.
fn tensors(tensors: &[(&str, &str, &str, &str)]) -> Vec<u8> {
    let entries = tensors.iter().map(|(name, dtype, shape, offsets)| {
        format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}"#)
    });
    let header = format!("{{{}}}", entries.collect::<Vec<_>>().join(","));
    safetensors(&header, &f32s(&[1.0, 2.0, 3.0, 4.0]))
}

/// Two tensors called `a` and `b`.
fn two(offsets: &str, others: &str) -> Vec<u8> {
    tensors(&[("a", "F32", "[1,2]", offsets), ("b", "F32", "[1,2]", others)])
}

#[test]
fn headers_of_tensors() {
    let data = f32s(&[1.0, 2.0, 3.0, 4.0]);
    let whole = tensor("F32", "[2,2]", "[0,16]");
    let length = |length: u64| [&length.to_le_bytes()[..], &whole[8..]].concat();
    let entry = ("v", "F32", "[1,2]", "[0,8]");
    let twice = tensors(&[entry, entry]);
    check_all(
        "safetensors",
        vec![
            whole[..5].to_vec(),
            length(1 << 60),
            whole[..40].to_vec(),
            length(99_999_999),
            length(30),
            safetensors("[]      ", &data),
            twice,
            safetensors(r#"{"v":{"dtype":"F32"}}"#, &data),
            tensor("F32", "[2,-2]", "[0,16]"),
        ],
        r#"
damaged: 5 bytes, expected the length of a header
damaged: a header of 1152921504606846976 bytes in 81
damaged: a header of 57 bytes in 40
damaged: a header of 99999999 bytes in 81
unreadable header: EOF while parsing a list at line 1 column 30
unreadable header: invalid type: sequence, expected a map at line 1 column 0
damaged: 16 bytes after the header, expected 8
unreadable header: missing field `shape`
unreadable header: invalid value: integer `-2`, expected u64"#,
    );
}

#[test]
fn places_of_tensors() {
    let whole = tensor("F32", "[2,2]", "[0,16]");
    check_all(
        "safetensors",
        vec![
            tensor("F32", "[2,2]", "[0,17]"),
            tensor("F32", "[2,2]", "[16,0]"),
            tensor("F32", "[1,2]", "[8,16]"),
            two("[0,12]", "[8,16]"),
            tensor("F32", "[1,2]", "[0,8]"),
            whole[..whole.len() - 1].to_vec(),
            tensor("F32", "[3,2]", "[0,16]"),
            tensor("I16", "[4,2]", "[0,16]"),
            tensor("F32", "[4]", "[0,16]"),
            tensor("F32", "[4,0]", "[0,16]"),
            tensor("F32", "[9223372036854775808,2]", "[0,16]"),
            safetensors("{}", &[]),
            two("[0,8]", "[8,16]"),
        ],
        r#"
damaged: tensor "v": bytes 0 to 17 lie outside the 16 after the header
damaged: tensor "v": bytes 16 to 0 lie outside the 16 after the header
damaged: tensor "v": bytes 8 to 16 where others end at 0
damaged: tensor "b": bytes 8 to 16 where others end at 12
damaged: 16 bytes after the header, expected 8
damaged: tensor "v": bytes 0 to 16 lie outside the 15 after the header
damaged: tensor "v": 16 bytes, expected 24 for 3 × 2
tensor "v": values of type "I16", expected one of F16, BF16, F32, F64, I8, U8, I32, I64
tensor "v": shape (4), expected (rows, dim)
tensor "v": vectors of 0 components, expected 1 to 65536
tensor "v": 9223372036854775808 rows, expected at most 4294967294
no array that is the only matrix, or named vector, vectors, embedding, embeddings, emb, arr_0, found none
no array that is the only matrix, or named vector, vectors, embedding, embeddings, emb, arr_0, found "a" ((1, 2) of F32), "b" ((1, 2) of F32)"#,
    );
}

#[test]
fn lines() {
    let good = "{\"vector\":[1,2]}\n";
    let after = |line: &str| [good, "\n", good, line, "\n", good].concat().into_bytes();
    let fields: Vec<String> = (0..5000).map(|i| format!("\"f{i}\":1")).collect();
    check_all(
        "jsonl",
        vec![
            b"a,b\n1,2\n".to_vec(),
            after("[1,2]"),
            after("{\"vector\":[1,2]"),
            after("{\"vector\":[1,2"),
            after("{\"vector\":[1,2]} {}"),
            after("{\"vector\":[1,2,3]}"),
            after("{\"vector\":[]}"),
            after("{\"vector\":[1,\"2\"]}"),
            after("{\"vector\":[1,null]}"),
            after("{\"vector\":\"1 2\"}"),
            after("{\"vector\":[1,NaN]}"),
            after("{\"vector\":[1,1e39]}"),
            after("{\"vector\":[1,2],\"vector\":[1,2]}"),
            after(&format!("{{{}}}", fields.join(","))),
            [good.as_bytes(), b"{\"t\":\"\xFF\"}\n"].concat(),
            b"{\"id\":1}\n".to_vec(),
        ],
        r#"
line 1: expected value (column 1)
line 4: invalid type: sequence, expected an object (column 0)
line 4: EOF while parsing an object (column 15)
line 4: field "vector": EOF while parsing a list (column 14)
line 4: trailing characters (column 18)
line 4: field "vector": vector has 3 components, expected 2 as on line 1 (column 17)
line 4: field "vector": vector of 0 components, expected 1 to 65536 (column 12)
line 4: field "vector": invalid type: string "2", expected a number (column 16)
line 4: field "vector": invalid type: null, expected a number (column 17)
line 4: field "vector": invalid type: string "1 2", expected an array of numbers (column 15)
line 4: field "vector": expected value (column 14)
line 4: field "vector": number out of range (column 17)
line 4: field "vector": it occurs twice (column 24)
line 4: more than 4096 different fields (column 39848)
line 2: field "t": invalid unicode code point (column 7)
no column vector, embedding, embeddings, emb, found "id" (Int64)"#,
    );
}

#[test]
fn a_line_without_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.jsonl");
    let start = b"{\"vector\":[1]}\n{\"t\":\"".to_vec();
    std::fs::write(&path, [start, vec![b'x'; (64 << 20) + 1]].concat()).unwrap();
    assert_eq!(said(&path, None), "line 2: longer than 67108864 bytes");
}

#[test]
fn members_that_are_not_there() {
    let said = |name: &str, member: &str| said(&fixture(name), Some(member));
    assert_eq!(
        said("npz/numpy_several.npz", "vector"),
        "no array \"vector\", found \"emb\" ((3, 3) of <f2), \"other\" ((3, 3) of |u1)"
    );
    assert_eq!(
        said("safetensors/numpy_f16.safetensors", "vector"),
        "no array \"vector\", found \"x\" ((3, 3) of F16)"
    );
}

#[cfg(feature = "hdf5")]
#[test]
fn damaged_data_sets() {
    let whole = std::fs::read(fixture("hdf5/h5py_contiguous.hdf5")).unwrap();
    let gzip = std::fs::read(fixture("hdf5/h5py_gzip_f64.hdf5")).unwrap();
    let magic = &whole[..8];
    // The directory of the chunks, as a node above itself.
    let mut circle = gzip.clone();
    let node = circle.windows(4).rposition(|bytes| bytes == b"TREE").unwrap();
    circle[node + 5] = 1;
    circle[node + 56..][..8].copy_from_slice(&(node as u64).to_le_bytes());
    // The numbers of rows and components of the only data set that has three of each.
    let shape = [3_u64.to_le_bytes(), 3_u64.to_le_bytes()].concat();
    let shape = whole.windows(16).position(|bytes| bytes == shape).unwrap();
    let with_shape = |rows: u64, dim: u64| {
        let mut bytes = whole.clone();
        bytes[shape..][..8].copy_from_slice(&rows.to_le_bytes());
        bytes[shape + 8..][..8].copy_from_slice(&dim.to_le_bytes());
        bytes
    };
    check_all(
        "h5",
        vec![
            b"no".to_vec(),
            magic.to_vec(),
            [magic, &[0xFF; 500]].concat(),
            whole[..whole.len() / 2].to_vec(),
            gzip[..gzip.len() - 8].to_vec(),
            circle,
            with_shape(1 << 31, 3),
            with_shape(1 << 33, 3),
            with_shape(3, 1 << 40),
            with_shape(u64::MAX, u64::MAX),
            with_shape(3, 0),
            with_shape(1000, 3),
        ],
        r#"
damaged: invalid HDF5 magic bytes
damaged: unexpected end of data at offset 8 (need 1 bytes, have 0)
damaged: unsupported superblock version 255
damaged: child 'distances' at 0x2000: unexpected end of data at offset 8192 (need 4 bytes, have 0)
damaged: child 'distances' at 0x2a38: unexpected end of data at offset 10808 (need 272 bytes, have 264)
damaged: data set "train": row 0 and after: invalid data: B-tree v1 traversal revisits node at offset 0x1800
damaged: data set "train": 2147483648 × 3 in a file of 8464 bytes
data set "train": 8589934592 rows, expected at most 4294967294
data set "train": vectors of 1099511627776 components, expected 1 to 65536
data set "train": vectors of 18446744073709551615 components, expected 1 to 65536
data set "train": vectors of 0 components, expected 1 to 65536
damaged: data set "train": row 0 and after: invalid data: contiguous raw data has 36 bytes, expected 12000 bytes"#,
    );
}

#[cfg(feature = "hdf5")]
#[test]
fn data_sets_that_hold_no_vectors() {
    let others = fixture("hdf5/h5py_others.h5");
    let names =
        "that is the only matrix, or named vector, vectors, embedding, embeddings, emb, arr_0";
    let found = "found \"f2\" ((3, 3) of f16), \"i8\" ((3, 3) of i64), \"labels\" ((3) of i64), \
                 \"text\" ((1, 2) of other values), \"u1\" ((3, 3) of u8), \"u2\" ((3, 3) of u16), \
                 \"group/train\" ((3, 3) of f32)";
    assert_eq!(said(&others, None), format!("no array {names}, {found}"));
    let train = format!("no array \"train\", {found}");
    assert_eq!(said(&others, Some("train")), train);
    assert_eq!(said(&others, Some("group")), format!("no array \"group\", {found}"));
    let types = "expected f32, f64, i8, u8, i32 or i64";
    for (member, what) in [
        ("labels", "shape (3), expected (rows, dim)".to_owned()),
        ("text", format!("values of type other values, {types}")),
        ("u2", format!("values of type u16, {types}")),
        ("f2", format!("values of type f16, {types}")),
    ] {
        let expected = format!("data set \"{member}\": {what}");
        assert_eq!(said(&others, Some(member)), expected);
    }
    assert_eq!(said(&others, Some("group/none")), format!("no array \"group/none\", {found}"));
}

/// A change to the bytes of a file.
#[derive(Debug, Clone)]
enum Change {
    Set(usize, u8),
    Flip(usize, u8),
    Number(usize, u32),
    Cut(usize),
    Repeat(usize, usize),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let numbers = prop_oneof![Just(0), Just(1), Just(u32::MAX), Just(1 << 31), any::<u32>()];
    let change = prop_oneof![
        (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (any::<usize>(), 0..8_u8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        (any::<usize>(), numbers).prop_map(|(at, number)| Change::Number(at, number)),
        any::<usize>().prop_map(Change::Cut),
        (any::<usize>(), 1..64_usize).prop_map(|(at, count)| Change::Repeat(at, count)),
    ];
    prop::collection::vec(change, 1..6)
}

fn apply(changes: &[Change], bytes: &mut Vec<u8>) {
    for change in changes {
        let length = bytes.len();
        if length == 0 {
            return;
        }
        match *change {
            Change::Set(at, byte) => bytes[at % length] = byte,
            Change::Flip(at, bit) => bytes[at % length] ^= 1 << bit,
            Change::Number(at, number) => {
                let at = at % length;
                let end = length.min(at + 4);
                bytes[at..end].copy_from_slice(&number.to_le_bytes()[..end - at]);
            }
            Change::Cut(at) => bytes.truncate(at % length),
            Change::Repeat(at, count) => {
                let at = at % length;
                let part = bytes[at..length.min(at + count)].to_vec();
                bytes.splice(at..at, part);
            }
        }
    }
}

/// Reads a file in all ways; returns how many values there were.
fn read_all_ways(name: &str, bytes: &[u8]) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    for member in ["v", "train", "distances", "none"] {
        let _ = VectorFile::open_member(&path, Some(member)).and_then(VectorFile::read_all);
    }
    if let Ok(file) = opened(&path) {
        let positions: Vec<usize> = (0..file.schema().fields().len()).collect();
        let batches = file.batches(&positions, DECODE_ROWS);
        let rows = batches.into_iter().flatten().map_while(Result::ok);
        assert!(rows.map(|batch| batch.num_rows()).sum::<usize>() <= file.row_count());
        if file.row_count() > 0 && !positions.is_empty() {
            let _ = file.batches_of_rows(0, &[file.row_count() - 1]);
        }
    }
    let texts = ParquetText::open(&path, &["text"]);
    let _ = texts.and_then(|texts| texts.collect::<Result<Vec<_>, _>>());
    let _ = read_mapped(bytes);
    let corpus = Corpus::open(std::slice::from_ref(&path), &CorpusOptions::new(folder.path()));
    let values = VectorFile::open(&path).and_then(VectorFile::read_all);
    // Other columns than the vectors may be damaged.
    let is_vectors_only = name.starts_with("v.");
    assert!(!is_vectors_only || corpus.is_ok() || values.is_err(), "{:?}", corpus.err());
    values.map_or(0, |values| values.len())
}

/// Reads all of a column file from memory.
fn read_mapped(bytes: &[u8]) -> Result<usize, DataError> {
    let columns = MappedColumns::from_buffer(Buffer::from(bytes), Path::new("f"))?;
    let matrix = columns.vectors();
    let values: usize = matrix.rows().map(|row| matrix.vector(row).len()).sum();
    let by_row: Vec<bool> = matrix.rows().map(|row| columns.id_at(row).is_ok()).collect();
    let ids = columns.ids()?;
    assert!(ids.iter().map(|id| id.is_some()).eq(by_row));
    let records = columns.records()?;
    Ok(values + matrix.rows().map(|row| records.record(row).source.len()).sum::<usize>())
}

fn floats(count: u8) -> Vec<u8> {
    (1..=count).flat_map(|value| f32::from(value).to_le_bytes()).collect()
}

fn column_file() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("columns.arrow");
    let columns = ColumnSet::Records { text: true, lineage: true };
    let meta = ColumnsMeta { columns, ..ColumnsMeta::vectors(2) };
    let mut writer = ColumnsWriter::create(&path, &meta).unwrap();
    for id in ["a", "b", "c"] {
        let text = (id != "b").then_some("text, ünï");
        let categories = ["one".into(), "två".into()];
        let (categories, vector) = (&categories[..], &[1.0, -0.5]);
        let record = ColumnRecord { id, text, categories, vector, ..ColumnRecord::default() };
        writer.push(&record).unwrap();
    }
    writer.publish().unwrap();
    std::fs::read(path).unwrap()
}

/// Files of every format, with how many values each holds.
fn files() -> &'static [(&'static str, Vec<u8>, usize)] {
    static FILES: OnceLock<Vec<(&str, Vec<u8>, usize)>> = OnceLock::new();
    let v = r#""v":{"dtype":"BF16","shape":[4,2],"data_offsets":[0,16]}"#;
    let w = r#""w":{"dtype":"F32","shape":[4],"data_offsets":[16,32]}"#;
    let tensors = safetensors(&format!(r#"{{"__metadata__":{{"a":"b"}},{v},{w}}}"#), &floats(8));
    let array = npy("<f4", "(4, 2)", &floats(8));
    let other = Member::stored("w.npy", &npy("|u1", "(3,)", &[1; 3]));
    let archive = zip(&[Member::deflated("v.npy", &array), other]);
    let lines = "{\"vector\":[1,2],\"t\":\"ü\",\"n\":1}\n{\"vector\":[3,4.5],\"tags\":[\"a\"],\"o\":{\"k\":1}}\n";
    FILES.get_or_init(|| {
        let mut files = vec![
            ("v.fvecs", vecs(2, 8, &floats(8)), 8),
            ("v.bvecs", vecs(3, 3, &[5; 12]), 12),
            ("v.fbin", bin(4, 2, &floats(8)), 8),
            ("v.i8bin", bin(4, 2, &[7; 8]), 8),
            ("v.npy", npy("<i8", "(4, 2)", &[0; 64]), 8),
            ("v.npz", archive, 8),
            ("v.safetensors", tensors, 8),
            ("v.jsonl", lines.into(), 4),
            ("columns.arrow", column_file(), 6),
        ];
        let fixtures = [
            "npz/numpy_deflated_f64.npz",
            "hdf5/h5py_contiguous.hdf5",
            "hdf5/h5py_gzip_f64.hdf5",
            "hdf5/h5py_chunked_latest.hdf5",
            "parquet/list_f32.parquet",
            "parquet/fixed_list_f32_pages_v2.parquet",
            "parquet/fixed_binary.parquet",
        ];
        for name in fixtures.into_iter().chain(ARROW_FILES) {
            let is_read = cfg!(feature = "hdf5") || !name.starts_with("hdf5");
            let bytes = std::fs::read(fixture(name)).unwrap();
            let (_, name) = name.split_once('/').unwrap();
            files.push((name, bytes, if is_read { ROWS.len() } else { 0 }));
        }
        files
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6000))]

    #[test]
    fn no_change_makes_a_reader_panic_hang_or_ask_for_memory(
        file in prop::sample::select((0..files().len()).collect::<Vec<_>>()),
        changes in changes(),
    ) {
        let (name, bytes, _) = &files()[file];
        let mut changed = bytes.clone();
        apply(&changes, &mut changed);
        let _ = read_all_ways(name, &changed);
    }
}

/// A file of its own for bytes that are damaged again and again.
fn read_damaged(path: &Path, bytes: &[u8]) -> Result<usize, DataError> {
    std::fs::write(path, bytes).unwrap();
    let mapped = read_mapped(bytes);
    let read = VectorFile::open(path).and_then(VectorFile::read_all);
    let is_columns = path.ends_with("columns.arrow");
    if is_columns { mapped.and(read) } else { read }.map(|values| values.len())
}

#[test]
fn every_truncation_is_an_error_or_fewer_rows() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes, count) in files() {
        assert_eq!(read_all_ways(name, bytes), *count, "{name}");
        let path = folder.path().join(name);
        for length in (0..bytes.len()).step_by((bytes.len() / 512).max(1)) {
            if let Ok(found) = read_damaged(&path, &bytes[..length]) {
                // Only whole rows after their lengths, and lines, end without a sign; of HDF5 in
                // chunks other data sets lie behind the one that is read.
                let has_no_end = matches!(*name, "v.fvecs" | "v.bvecs" | "v.jsonl");
                let is_whole = name.starts_with("h5py_chunked") && found == *count;
                assert!(has_no_end || is_whole, "{name} at {length}");
                assert!(found <= *count, "{name} at {length}");
            }
        }
    }
}

#[test]
fn no_flipped_bit_makes_a_reader_panic() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes, _) in files() {
        let (path, mut damaged, mut errors) = (folder.path().join(name), bytes.clone(), 0);
        // Every bit of a byte has its turn.
        for position in (0..bytes.len() * 8).step_by(41) {
            damaged[position / 8] ^= 1 << (position % 8);
            errors += usize::from(read_damaged(&path, &damaged).is_err());
            damaged[position / 8] = bytes[position / 8];
        }
        assert!(errors > 0, "{name}");
    }
}

//! Errors name the defect of a file, and no change to a file makes its reader panic, hang or
//! exhaust memory.

use std::sync::OnceLock;

use arrow_buffer::Buffer;
use proptest::prelude::*;

use super::*;
use crate::read::support::{records_meta, write_records};
use crate::texts::{TextFields, TextFile};
use crate::{ColumnsWriter, Corpus, CorpusOptions, MappedColumns};

/// Checks files of one format.
fn check_all(extension: &str, files: Vec<Vec<u8>>, expected: &str) {
    let name = format!("v.{extension}");
    check_said(files.into_iter().map(|bytes| (name.as_str(), bytes)).collect(), expected);
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
    check_said(
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
    let four = f32s(&[1.0, 2.0, 3.0, 4.0]);
    check_said(
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

/// Changes the entry of the last array in the directory of a zip file.
fn claiming(zip: &[u8], at: usize, claim: &[u8]) -> Vec<u8> {
    let mut bytes = zip.to_vec();
    let entry = bytes.windows(4).rposition(|bytes| bytes == b"PK\x01\x02").unwrap();
    bytes[entry + at..][..claim.len()].copy_from_slice(claim);
    bytes
}

fn array() -> Vec<u8> {
    npy("<f4", "(2, 2)", &f32s(&[1.0, 2.0, 3.0, 4.0]))
}

#[test]
fn members_of_npz() {
    let array = array();
    let plain = zip(&[("v.npy", &array, false)]);
    let deflated = zip(&[("v.npy", &array, true)]);
    // The size when compressed, in the directory.
    let size = deflated.len() - (30 + 5) - (46 + 5) - 22;
    let mut unreadable = deflated.clone();
    unreadable[30 + 5] = 0xFF;
    let matrix = npy("<i4", "(3,)", &[0; 12]);
    check_all(
        "npz",
        vec![
            b"PK\x03\x04".to_vec(),
            plain[..plain.len() - 30].to_vec(),
            zip(&[("read.me", b"text", false)]),
            zip(&[("a.npy", &array, false), ("b.npy", &matrix, false), ("c.npy", &array, false)]),
            claiming(&deflated, 8, &[1, 0]),
            claiming(&deflated, 10, &[12, 0]),
            claiming(&zip(&[("v.npy", &array, false), ("w.npy", &array, true)]), 46, b"v"),
            zip(&[("v.npy", &array[..140], true)]),
            claiming(&deflated, 16, &[7, 0, 0, 0]),
            claiming(&deflated, 20, &(size as u32 - 4).to_le_bytes()),
            unreadable,
            claiming(&plain, 24, &145_u32.to_le_bytes()),
            claiming(&plain, 20, &[0xFF, 0xFF, 0, 0, 0xFF, 0xFF, 0, 0]),
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
    let zeros = vec![0; 1 << 24];
    let huge = npy("<f4", "(4194304, 65536)", &zeros);
    let short = npy("<f4", "(4194305, 1)", &zeros);
    let claims = |claimed_length: u32, bytes: &[u8]| {
        claiming(&zip(&[("v.npy", bytes, true)]), 24, &claimed_length.to_le_bytes())
    };
    check_all(
        "npz",
        vec![
            zip(&[("v.npy", &npy("<c8", "(2, 2)", &array), true)]),
            zip(&[("v.npy", b"no array", false)]),
            zip(&[("v.npy", &array[..90], true)]),
            // Zip bombs.
            claims(144, &[&array[..], &zeros].concat()),
            claims(u32::MAX - 1, &huge),
            claims((1 << 24) + 128 + 4, &short),
        ],
        r#"
damaged: array "v": values of type "<c8", expected one of f2, f4, f8, i1, u1, i4, i8
damaged: array "v": it begins with "no array", not an npy file
damaged: array "v": damaged: the file ends in its header
damaged: array "v": File is larger than its declared uncompressed size
damaged: array "v": 16401 deflated bytes that claim to be 4294967294
damaged: array "v": it inflates to 16777344 bytes, expected 16777348"#,
    );
}

#[test]
fn headers_of_npy() {
    let whole = |descr: &str, shape: &str| npy(descr, shape, &f32s(&[1.0, 2.0]));
    let edited = |from: &str, to: &str| {
        let text = whole("<f4", "(1, 2)");
        let at = text.windows(from.len()).position(|part| part == from.as_bytes()).unwrap();
        [&text[..at], to.as_bytes(), &text[at + from.len()..]].concat()
    };
    check_all(
        "npy",
        vec![
            b"a,b\n1,2\n".to_vec(),
            b"\x93NUMPY\x01\x00".to_vec(),
            whole("<c8", "(1, 2)"),
            edited("False", "Maybe"),
            whole("<f4", "(2,)"),
            whole("<f4", "(1, 0)"),
            whole("<f4", "(2, 2)"),
            edited("'shape'", "'form' "),
            npy("<f8", "(1, 1)", &f64::to_le_bytes(1e39)),
        ],
        r#"
it begins with "a,b\n1,2\n", not an npy file
damaged: the file ends in its header
values of type "<c8", expected one of f2, f4, f8, i1, u1, i4, i8
fortran_order Maybe, expected False or True
shape (2,), expected (rows, dim)
vectors of 0 components, expected 1 to 65536
damaged: 136 bytes, expected 144 for 2 × 2
no shape in the header
row 0: component 0 is inf"#,
    );
}

#[test]
fn tables() {
    let read = |name: &str| std::fs::read(fixture(name)).unwrap();
    let file = read("arrow/pyarrow_lz4.feather");
    let stream = read("arrow/pyarrow_stream.arrow");
    let parquet = read("parquet/list_f32.parquet");
    let text = b"a,b\n1,2\n";
    check_said(
        vec![
            ("rows.csv", text.to_vec()),
            ("rows", vec![]),
            ("rows.arrow", text.to_vec()),
            ("b.arrow", file[..700].to_vec()),
            ("c.arrow", stream[..stream.len() - 100].to_vec()),
            ("rows.parquet", text.to_vec()),
            ("f.parquet", vec![]),
            ("f.parquet", b"PAR1PAR1".to_vec()),
            ("f.parquet", parquet[..100].to_vec()),
            ("f.parquet", b"PAR1\xFF\xFF\xFF\x7FPAR1".to_vec()),
            ("f.parquet", b"PAR1\0\0\0\0PARE".to_vec()),
            ("f.parquet", read("parquet/null_row.parquet")),
            ("f.parquet", read("parquet/null_component.parquet")),
            ("f.parquet", read("parquet/ragged.parquet")),
            ("f.parquet", read("parquet/not_finite.parquet")),
            ("f.parquet", read("parquet/no_vector.parquet")),
        ],
        r#"
expected Arrow IPC, Parquet, npy, npz, safetensors, HDF5, JSON lines, fvecs, ivecs, bvecs, fbin, f16bin, u8bin, i8bin or ibin, found a file that begins with "a,b\n1,2\n"
expected Arrow IPC, Parquet, npy, npz, safetensors, HDF5, JSON lines, fvecs, ivecs, bvecs, fbin, f16bin, u8bin, i8bin or ibin, found a file that begins with ""
not a finished Arrow IPC file (8 bytes)
not a finished Arrow IPC file (it ends with "\x00\x00\x00\x00\x00\x00")
an Arrow stream, cut off: a message at byte 776 of 956
not a readable Parquet file (it begins with "a,b\n")
not a readable Parquet file (it begins with "")
not a readable Parquet file (cut off after 8 bytes)
not a readable Parquet file (cut off: it ends in "\x00\x00\x11\x11")
not a readable Parquet file (a footer of 2147483647 bytes in 12)
not a readable Parquet file (its footer is encrypted)
row 1: the vector is null
row 1: component 1 is null
row 2: vector has 1 components, expected 3
row 1: component 1 is inf
no column vector, embedding, embeddings, emb, found "row" (Int64), "text" (Utf8), "score" (Float64)"#,
    );
}

#[test]
fn values_that_f32_cannot_hold() {
    let nan = f32s(&[1.0, 2.0, 3.0, f32::NAN]);
    let tensor = r#"{"v":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}"#;
    let mut columns = column_file();
    let needle = f32s(&[1.0, -0.5]);
    let at = columns.windows(8).position(|window| window == needle).unwrap();
    columns[at + 16..at + 20].copy_from_slice(&f32::INFINITY.to_le_bytes());
    check_said(
        vec![
            ("v.fbin", bin(2, 2, &nan)),
            ("v.fvecs", vecs(2, 8, &nan)),
            ("v.npy", npy("<f4", "(2, 2)", &nan)),
            ("v.npz", zip(&[("v.npy", &npy("<f4", "(2, 2)", &nan), true)])),
            ("v.safetensors", safetensors(tensor, &nan)),
            ("v.arrow", columns),
        ],
        r#"
row 1: component 1 is NaN
row 1: component 1 is NaN
row 1: component 1 is NaN
row 1: component 1 is NaN
row 1: component 1 is NaN
row 1: component 1 is inf"#,
    );
    assert!(opened(Path::new("/missing")).unwrap_err().to_string().contains("missing: "));
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
    for (name, member, expected) in [
        (
            "npz/numpy_several.npz",
            "vector",
            "no array \"vector\", found \"emb\" ((3, 3) of <f2), \"other\" ((3, 3) of |u1)",
        ),
        (
            "safetensors/numpy_f16.safetensors",
            "vector",
            "no array \"vector\", found \"x\" ((3, 3) of F16)",
        ),
        (
            "parquet/list_f32.parquet",
            "text",
            "column \"text\" is Utf8, expected a list of f16, f32, f64, i8, u8, i32 or i64, or \
             fixed-size binary of 4-byte floats",
        ),
    ] {
        assert_eq!(said(&fixture(name), Some(member)), expected);
    }
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
        assert_eq!(said(&others, Some(member)), format!("data set \"{member}\": {what}"));
    }
    assert_eq!(said(&others, Some("group/none")), format!("no array \"group/none\", {found}"));
}

/// Changes to the bytes of a file: of which kind, where, and a number.
fn changes() -> impl Strategy<Value = Vec<(u8, usize, u32)>> {
    let numbers = prop_oneof![Just(0), Just(1), Just(u32::MAX), Just(1 << 31), any::<u32>()];
    prop::collection::vec((0..5_u8, any::<usize>(), numbers), 1..6)
}

fn apply(changes: &[(u8, usize, u32)], bytes: &mut Vec<u8>) {
    for &(kind, at, number) in changes {
        let Some(at) = at.checked_rem(bytes.len()) else { return };
        let end = |count: usize| bytes.len().min(at + count);
        let (four, some) = (end(4), end(1 + number as usize % 63));
        match kind {
            0 => bytes[at] = number as u8,
            1 => bytes[at] ^= 1 << (number % 8),
            2 => bytes[at..four].copy_from_slice(&number.to_le_bytes()[..four - at]),
            3 => bytes.truncate(at),
            _ => drop(bytes.splice(at..at, bytes[at..some].to_vec())),
        }
    }
}

/// Reads a file in all ways; returns how many values there were.
fn read_all_ways(name: &str, bytes: &[u8]) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    for member in ["v", "train", "distances", "none"] {
        let _ = vectors_in(&path, Some(member));
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
    let _ = TextFile::read(&path, &TextFields::default());
    let _ = read_mapped(bytes);
    let corpus = Corpus::open(std::slice::from_ref(&path), &CorpusOptions::new(folder.path()));
    let values = vectors_in(&path, None);
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
    Ok(values)
}

fn floats(count: u8) -> Vec<u8> {
    (1..=count).flat_map(|value| f32::from(value).to_le_bytes()).collect()
}

fn column_file() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("columns.arrow");
    let writer = ColumnsWriter::create(&path, &records_meta(true, true)).unwrap();
    write_records(writer, &[1.0, -0.5, 2.0].repeat(3));
    std::fs::read(path).unwrap()
}

/// Files of every format, with how many values each holds.
fn files() -> &'static [(&'static str, Vec<u8>, usize)] {
    static FILES: OnceLock<Vec<(&str, Vec<u8>, usize)>> = OnceLock::new();
    let v = r#""v":{"dtype":"BF16","shape":[4,2],"data_offsets":[0,16]}"#;
    let w = r#""w":{"dtype":"F32","shape":[4],"data_offsets":[16,32]}"#;
    let tensors = safetensors(&format!(r#"{{"__metadata__":{{"a":"b"}},{v},{w}}}"#), &floats(8));
    let array = npy("<f4", "(4, 2)", &floats(8));
    let other = npy("|u1", "(3,)", &[1; 3]);
    let archive = zip(&[("v.npy", &array, true), ("w.npy", &other, false)]);
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
            ("columns.arrow", column_file(), 9),
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
    let read = vectors_in(path, None);
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

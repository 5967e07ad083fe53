//! What is wrong with a file is named: each damage with its own message.

use super::super::support::fixture;
use super::build::{Member, bin, npy, npy_with, safetensors, vecs, zip};
use super::*;
use crate::VectorFile;

/// A file's name, its bytes, and what is said about it.
type Case<'a> = (&'a str, Vec<u8>, &'static str);

/// Reads all vectors; returns the error without the path.
pub(super) fn said(path: &Path, member: Option<&str>) -> String {
    let read = VectorFile::open_member(path, member).and_then(VectorFile::read_all);
    let error = match read {
        Ok(values) => panic!("{}: {} values, expected an error", path.display(), values.len()),
        Err(error) => error,
    };
    assert!(error.hint().is_some(), "{error}");
    error.to_string().replace(&format!("{}: ", path.display()), "")
}

fn check(cases: Vec<Case<'_>>) {
    let folder = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    for (i, (name, bytes, expected)) in cases.into_iter().enumerate() {
        let path = folder.path().join(format!("{i}_{name}"));
        std::fs::write(&path, bytes).unwrap();
        let found = said(&path, None);
        if found != expected {
            wrong.push(format!("{i} {name}\n   found: {found}\nexpected: {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Checks files of one format.
pub(super) fn check_all(extension: &str, cases: Vec<(Vec<u8>, &'static str)>) {
    let name = format!("v.{extension}");
    check(cases.into_iter().map(|(bytes, expected)| (name.as_str(), bytes, expected)).collect());
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
    check(vec![
        ("v.fvecs", vec![], "damaged: 0 bytes, expected at least one row"),
        ("v.fvecs", vec![2, 0, 0], "damaged: 3 bytes, expected at least one row"),
        ("v.fvecs", vec![0; 4], "vectors of 0 components, expected 1 to 65536"),
        (
            "v.ivecs",
            vecs(u32::MAX, 8, &two),
            "vectors of 4294967295 components, expected 1 to 65536",
        ),
        ("v.bvecs", vecs(65_537, 8, &two), "vectors of 65537 components, expected 1 to 65536"),
        (
            "v.fvecs",
            whole[..4].to_vec(),
            "damaged: 4 bytes, expected whole rows of 12 for a dim of 2",
        ),
        (
            "v.fvecs",
            whole[..23].to_vec(),
            "damaged: 23 bytes, expected whole rows of 12 for a dim of 2",
        ),
        (
            "v.bvecs",
            whole[..16].to_vec(),
            "damaged: 16 bytes, expected whole rows of 6 for a dim of 2",
        ),
        ("v.fvecs", other, "row 1: vector has 3 components, expected 2"),
    ]);
}

#[test]
fn rows_after_their_count() {
    let four = f32s(&[1.0, 2.0, 3.0, 4.0]);
    check(vec![
        ("v.fbin", vec![], "damaged: 0 bytes, expected a header of 8"),
        ("v.fbin", vec![1; 7], "damaged: 7 bytes, expected a header of 8"),
        ("v.fbin", bin(2, 0, &[]), "vectors of 0 components, expected 1 to 65536"),
        ("v.fbin", bin(2, 65_537, &four), "vectors of 65537 components, expected 1 to 65536"),
        ("v.ibin", bin(u32::MAX, 2, &four), "4294967295 rows, expected at most 4294967294"),
        ("v.fbin", bin(2, 2, &four[..15]), "damaged: 23 bytes, expected 24 for 2 × 2"),
        ("v.f16bin", bin(2, 2, &four), "damaged: 24 bytes, expected 16 for 2 × 2"),
        ("v.u8bin", bin(3, 2, &[1; 5]), "damaged: 13 bytes, expected 14 for 3 × 2"),
        ("v.i8bin", bin(0, 2, &[1; 5]), "damaged: 13 bytes, expected 8 for 0 × 2"),
        (
            "v.fbin",
            bin(1 << 31, 65_536, &[]),
            "damaged: 8 bytes, expected 562949953421320 for 2147483648 × 65536",
        ),
    ]);
}

#[test]
fn npy_headers() {
    let data = f32s(&[1.0, 2.0]);
    let whole = npy("<f4", "(1, 2)", &data);
    let order = "{'descr': '<f4', 'fortran_order': Perhaps, 'shape': (1, 2), }";
    check_all(
        "npy",
        vec![
            (whole[..9].to_vec(), "damaged: the file ends in its header"),
            (whole[..100].to_vec(), "damaged: the file ends in its header"),
            (whole[..131].to_vec(), "damaged: 131 bytes, expected 136 for 1 × 2"),
            (npy_with(order, &data), "fortran_order Perhaps, expected False or True"),
            (
                npy("<U5", "(1, 2)", &data),
                "values of type \"<U5\", expected one of f2, f4, f8, i1, u1, i4, i8",
            ),
            (
                npy("<f4", "(99999999999999999999, 2)", &data),
                "shape (99999999999999999999, 2), expected (rows, dim)",
            ),
        ],
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
            (b"PK\x03\x04".to_vec(), "damaged: invalid Zip archive: Could not find EOCD"),
            (
                plain[..plain.len() - 30].to_vec(),
                "damaged: invalid Zip archive: Could not find EOCD",
            ),
            (
                of(Member::stored("read.me", b"text")),
                "no array that is the only matrix, or named vector, vectors, embedding, embeddings, emb, arr_0, \
             found none",
            ),
            (
                zip(&[
                    Member::stored("a.npy", &array),
                    Member::stored("b.npy", &npy("<i4", "(3,)", &[0; 12])),
                    Member::stored("c.npy", &array),
                ]),
                "no array that is the only matrix, or named vector, vectors, embedding, embeddings, emb, arr_0, \
             found \"a\" ((2, 2) of <f4), \"b\" ((3,) of <i4), \"c\" ((2, 2) of <f4)",
            ),
            (
                of(Member { flags: 1, ..deflated.clone() }),
                "damaged: array \"v\": encrypted, expected plain",
            ),
            (
                of(Member { method: 12, ..deflated.clone() }),
                "damaged: array \"v\": compressed with Bzip2, expected none or deflate",
            ),
            (
                zip(&[Member::stored("v.npy", &array), deflated.clone()]),
                "damaged: two members have the same name",
            ),
            (
                of(Member::deflated("v.npy", &array[..140])),
                "damaged: array \"v\": 140 bytes, expected 144 for 2 × 2",
            ),
            (of(Member { crc: 7, ..deflated.clone() }), "damaged: array \"v\": Invalid checksum"),
            (of(cut), "damaged: array \"v\": incomplete deflate stream"),
            (of(unreadable), "damaged: array \"v\": corrupt deflate stream"),
            (
                of(Member { claimed_length: 145, ..Member::stored("v.npy", &array) }),
                "damaged: array \"v\": 144 stored bytes that claim to be 145",
            ),
            (far, "damaged: array \"v\": 65535 bytes at 35 lie outside"),
        ],
    );
}

#[test]
fn arrays_of_npz() {
    let array = array();
    let of = |member: Member| zip(&[member]);
    check_all(
        "npz",
        vec![
            (
                of(Member::deflated("v.npy", &npy("<c8", "(2, 2)", &array))),
                "damaged: array \"v\": values of type \"<c8\", expected one of f2, f4, f8, i1, u1, i4, i8",
            ),
            (
                of(Member::stored("v.npy", b"no array")),
                "damaged: array \"v\": it begins with \"no array\", not an npy file",
            ),
            (
                of(Member::deflated("v.npy", &array[..90])),
                "damaged: array \"v\": damaged: the file ends in its header",
            ),
        ],
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
            (
                claims(144, &longer),
                "damaged: array \"v\": File is larger than its declared uncompressed size",
            ),
            (
                claims(1 << 40, &huge),
                "damaged: array \"v\": 16401 deflated bytes that claim to be 1099511627776",
            ),
            (
                claims((1 << 24) + 128 + 4, &npy("<f4", "(4194305, 1)", &zeros)),
                "damaged: array \"v\": it inflates to 16777344 bytes, expected 16777348",
            ),
        ],
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
            (whole[..5].to_vec(), "damaged: 5 bytes, expected the length of a header"),
            (length(1 << 60), "damaged: a header of 1152921504606846976 bytes in 81"),
            (whole[..40].to_vec(), "damaged: a header of 57 bytes in 40"),
            (length(99_999_999), "damaged: a header of 99999999 bytes in 81"),
            (length(30), "unreadable header: EOF while parsing a list at line 1 column 30"),
            (
                safetensors("[]      ", &data),
                "unreadable header: invalid type: sequence, expected a map at line 1 column 0",
            ),
            (twice, "damaged: 16 bytes after the header, expected 8"),
            (
                safetensors(r#"{"v":{"dtype":"F32"}}"#, &data),
                "unreadable header: missing field `shape`",
            ),
            (
                tensor("F32", "[2,-2]", "[0,16]"),
                "unreadable header: invalid value: integer `-2`, expected u64",
            ),
        ],
    );
}

#[test]
fn places_of_tensors() {
    let whole = tensor("F32", "[2,2]", "[0,16]");
    check_all(
        "safetensors",
        vec![
            (
                tensor("F32", "[2,2]", "[0,17]"),
                "damaged: tensor \"v\": bytes 0 to 17 lie outside the 16 after the header",
            ),
            (
                tensor("F32", "[2,2]", "[16,0]"),
                "damaged: tensor \"v\": bytes 16 to 0 lie outside the 16 after the header",
            ),
            (
                tensor("F32", "[1,2]", "[8,16]"),
                "damaged: tensor \"v\": bytes 8 to 16 where others end at 0",
            ),
            (
                two("[0,12]", "[8,16]"),
                "damaged: tensor \"b\": bytes 8 to 16 where others end at 12",
            ),
            (tensor("F32", "[1,2]", "[0,8]"), "damaged: 16 bytes after the header, expected 8"),
            (
                whole[..whole.len() - 1].to_vec(),
                "damaged: tensor \"v\": bytes 0 to 16 lie outside the 15 after the header",
            ),
            (
                tensor("F32", "[3,2]", "[0,16]"),
                "damaged: tensor \"v\": 16 bytes, expected 24 for 3 × 2",
            ),
            (
                tensor("I16", "[4,2]", "[0,16]"),
                "tensor \"v\": values of type \"I16\", expected one of F16, BF16, F32, F64, I8, U8, I32, I64",
            ),
            (tensor("F32", "[4]", "[0,16]"), "tensor \"v\": shape (4), expected (rows, dim)"),
            (
                tensor("F32", "[4,0]", "[0,16]"),
                "tensor \"v\": vectors of 0 components, expected 1 to 65536",
            ),
            (
                tensor("F32", "[9223372036854775808,2]", "[0,16]"),
                "tensor \"v\": 9223372036854775808 rows, expected at most 4294967294",
            ),
            (
                safetensors("{}", &[]),
                "no array that is the only matrix, or named vector, vectors, embedding, embeddings, emb, arr_0, found none",
            ),
            (
                two("[0,8]", "[8,16]"),
                "no array that is the only matrix, or named vector, vectors, embedding, embeddings, emb, arr_0, found \"a\" ((1, 2) of F32), \"b\" ((1, 2) of F32)",
            ),
        ],
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
            (b"a,b\n1,2\n".to_vec(), "line 1: expected value (column 1)"),
            (after("[1,2]"), "line 4: invalid type: sequence, expected an object (column 0)"),
            (after("{\"vector\":[1,2]"), "line 4: EOF while parsing an object (column 15)"),
            (
                after("{\"vector\":[1,2"),
                "line 4: field \"vector\": EOF while parsing a list (column 14)",
            ),
            (after("{\"vector\":[1,2]} {}"), "line 4: trailing characters (column 18)"),
            (
                after("{\"vector\":[1,2,3]}"),
                "line 4: field \"vector\": vector has 3 components, expected 2 as on line 1 (column 17)",
            ),
            (
                after("{\"vector\":[]}"),
                "line 4: field \"vector\": vector of 0 components, expected 1 to 65536 (column 12)",
            ),
            (
                after("{\"vector\":[1,\"2\"]}"),
                "line 4: field \"vector\": invalid type: string \"2\", expected a number (column 16)",
            ),
            (
                after("{\"vector\":[1,null]}"),
                "line 4: field \"vector\": invalid type: null, expected a number (column 17)",
            ),
            (
                after("{\"vector\":\"1 2\"}"),
                "line 4: field \"vector\": invalid type: string \"1 2\", expected an array of numbers (column 15)",
            ),
            (after("{\"vector\":[1,NaN]}"), "line 4: field \"vector\": expected value (column 14)"),
            (
                after("{\"vector\":[1,1e39]}"),
                "line 4: field \"vector\": number out of range (column 17)",
            ),
            (
                after("{\"vector\":[1,2],\"vector\":[1,2]}"),
                "line 4: field \"vector\": it occurs twice (column 24)",
            ),
            (
                after(&format!("{{{}}}", fields.join(","))),
                "line 4: more than 4096 different fields (column 39848)",
            ),
            (
                [good.as_bytes(), b"{\"t\":\"\xFF\"}\n"].concat(),
                "line 2: field \"t\": invalid unicode code point (column 7)",
            ),
            (
                b"{\"id\":1}\n".to_vec(),
                "no column vector, embedding, embeddings, emb, found \"id\" (Int64)",
            ),
        ],
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

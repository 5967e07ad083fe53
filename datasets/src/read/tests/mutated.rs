//! No change to a file makes its reader panic, hang or ask for memory.

use proptest::prelude::*;

use super::super::support::fixture;
use super::build::{Member, bin, npy, safetensors, vecs, zip};
use super::*;
use crate::{Corpus, CorpusOptions, VectorFile};

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
        let batches = file.batches(&positions, DECODE_ROWS).unwrap();
        let rows: usize = batches.map_while(Result::ok).map(|batch| batch.num_rows()).sum();
        assert!(rows <= file.row_count());
        if file.row_count() > 0 && !positions.is_empty() {
            let _ = file.batches_of_rows(0, &[file.row_count() - 1]);
        }
    }
    let corpus = Corpus::open(std::slice::from_ref(&path), &CorpusOptions::new(folder.path()));
    let values = VectorFile::open(&path).and_then(VectorFile::read_all);
    assert!(corpus.is_ok() || values.is_err(), "{:?}", corpus.err());
    values.map_or(0, |values| values.len())
}

/// Checks that the file itself is read, and that no change to it does harm.
fn check(name: &str, bytes: &[u8], changes: &[Change]) {
    let mut changed = bytes.to_vec();
    apply(changes, &mut changed);
    let _ = read_all_ways(name, &changed);
}

fn floats(count: u8) -> Vec<u8> {
    (1..=count).flat_map(|value| f32::from(value).to_le_bytes()).collect()
}

fn header() -> String {
    let v = r#""v":{"dtype":"BF16","shape":[4,2],"data_offsets":[0,16]}"#;
    let w = r#""w":{"dtype":"F32","shape":[4],"data_offsets":[16,32]}"#;
    format!(r#"{{"__metadata__":{{"a":"b"}},{v},{w}}}"#)
}

fn archive() -> Vec<u8> {
    let array = npy("<f4", "(4, 2)", &floats(8));
    zip(&[Member::deflated("v.npy", &array), Member::stored("w.npy", &npy("|u1", "(3,)", &[1; 3]))])
}

const LINES: &str = "{\"vector\":[1,2],\"t\":\"ü\",\"n\":1}\n{\"vector\":[3,4.5],\"tags\":[\"a\"],\"o\":{\"k\":1}}\n";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn fvecs(changes in changes()) {
        check("v.fvecs", &vecs(2, 8, &floats(8)), &changes);
    }

    #[test]
    fn bvecs(changes in changes()) {
        check("v.bvecs", &vecs(3, 3, &[5; 12]), &changes);
    }

    #[test]
    fn fbin(changes in changes()) {
        check("v.fbin", &bin(4, 2, &floats(8)), &changes);
    }

    #[test]
    fn i8bin(changes in changes()) {
        check("v.i8bin", &bin(4, 2, &[7; 8]), &changes);
    }

    #[test]
    fn npy_of_integers(changes in changes()) {
        check("v.npy", &npy("<i8", "(4, 2)", &[0; 64]), &changes);
    }

    #[test]
    fn npz(changes in changes()) {
        check("v.npz", &archive(), &changes);
    }

    #[test]
    fn npz_of_numpy(changes in changes()) {
        let bytes = std::fs::read(fixture("npz/numpy_deflated_f64.npz")).unwrap();
        check("v.npz", &bytes, &changes);
    }

    #[test]
    fn tensors(changes in changes()) {
        check("v.safetensors", &safetensors(&header(), &floats(8)), &changes);
    }

    #[test]
    fn json_lines(changes in changes()) {
        check("v.jsonl", LINES.as_bytes(), &changes);
    }

    #[test]
    fn hdf5_contiguous(changes in changes()) {
        let bytes = std::fs::read(fixture("hdf5/h5py_contiguous.hdf5")).unwrap();
        check("v.hdf5", &bytes, &changes);
    }

    #[test]
    fn hdf5_in_chunks(changes in changes()) {
        let bytes = std::fs::read(fixture("hdf5/h5py_gzip_f64.hdf5")).unwrap();
        check("v.hdf5", &bytes, &changes);
    }

    #[test]
    fn hdf5_of_the_latest_version(changes in changes()) {
        let bytes = std::fs::read(fixture("hdf5/h5py_chunked_latest.hdf5")).unwrap();
        check("v.hdf5", &bytes, &changes);
    }
}

#[test]
fn what_is_changed_is_whole_before() {
    for (name, bytes, expected) in [
        ("v.fvecs", vecs(2, 8, &floats(8)), 8),
        ("v.npz", archive(), 8),
        ("v.safetensors", safetensors(&header(), &floats(8)), 8),
        ("v.jsonl", LINES.into(), 4),
    ] {
        assert_eq!(read_all_ways(name, &bytes), expected, "{name}");
    }
}

#[test]
fn every_truncation_of_every_format_is_an_error_or_fewer_rows() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in [
        ("v.fvecs", vecs(2, 8, &floats(8))),
        ("v.fbin", bin(4, 2, &floats(8))),
        ("v.npz", archive()),
        ("v.safetensors", safetensors(&header(), &floats(8))),
        ("v.jsonl", LINES.into()),
        ("v.hdf5", std::fs::read(fixture("hdf5/h5py_contiguous.hdf5")).unwrap()),
    ] {
        let whole = read_all_ways(name, &bytes);
        let step = (bytes.len() / 512).max(1);
        for length in (0..bytes.len()).step_by(step) {
            let path = folder.path().join(name);
            std::fs::write(&path, &bytes[..length]).unwrap();
            if let Ok(values) = VectorFile::open(&path).and_then(VectorFile::read_all) {
                // Only whole rows after their lengths, and lines, end without a sign.
                assert!(matches!(name, "v.fvecs" | "v.jsonl"), "{name} at {length}");
                assert!(values.len() <= whole, "{name} at {length}");
            }
        }
    }
}

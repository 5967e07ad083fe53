//! What is wrong with an HDF5 file is named.

use super::super::support::fixture;
use super::damaged::{check_all, said};

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
            (b"no".to_vec(), "damaged: invalid HDF5 magic bytes"),
            (magic.to_vec(), "damaged: unexpected end of data at offset 8 (need 1 bytes, have 0)"),
            ([magic, &[0xFF; 500]].concat(), "damaged: unsupported superblock version 255"),
            (
                whole[..whole.len() / 2].to_vec(),
                "damaged: child 'distances' at 0x2000: unexpected end of data at offset 8192 (need 4 bytes, have 0)",
            ),
            (
                gzip[..gzip.len() - 8].to_vec(),
                "damaged: child 'distances' at 0x2a38: unexpected end of data at offset 10808 (need 272 bytes, have 264)",
            ),
            (
                circle,
                "damaged: data set \"train\": row 0 and after: invalid data: B-tree v1 traversal revisits node at offset 0x1800",
            ),
            (
                with_shape(1 << 31, 3),
                "damaged: data set \"train\": 2147483648 × 3 in a file of 8464 bytes",
            ),
            (
                with_shape(1 << 33, 3),
                "data set \"train\": 8589934592 rows, expected at most 4294967294",
            ),
            (
                with_shape(3, 1 << 40),
                "data set \"train\": vectors of 1099511627776 components, expected 1 to 65536",
            ),
            (
                with_shape(u64::MAX, u64::MAX),
                "data set \"train\": vectors of 18446744073709551615 components, expected 1 to 65536",
            ),
            (with_shape(3, 0), "data set \"train\": vectors of 0 components, expected 1 to 65536"),
            (
                with_shape(1000, 3),
                "damaged: data set \"train\": row 0 and after: invalid data: contiguous raw data has 36 bytes, expected 12000 bytes",
            ),
        ],
    );
}

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

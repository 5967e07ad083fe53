//! Readers of what was written, each a few lines that know nothing of the writers.

use std::path::Path;

use arrow_array::cast::AsArray;
use half::f16;
use serde_json::Value;

use crate::components::Components;
use crate::read::support;
use crate::write::convert::{ComponentType, VectorFormat};

/// Returns the bytes of components.
pub(super) fn bytes_of(values: &arrow_array::ArrayRef) -> Vec<u8> {
    Components::of(values).unwrap().bytes().to_vec()
}

/// What a file holds: rows, components, and the bytes of all vectors.
#[derive(Debug, PartialEq)]
pub(super) struct Found {
    pub(super) rows: usize,
    pub(super) dim: usize,
    pub(super) bytes: Vec<u8>,
}

pub(super) fn read(path: &Path, format: VectorFormat, component: ComponentType) -> Found {
    let bytes = std::fs::read(path).unwrap();
    match format {
        VectorFormat::Columns | VectorFormat::Parquet => table(path, component),
        VectorFormat::Jsonl => json_lines(&bytes, component),
        VectorFormat::Npy => npy(&bytes, component),
        VectorFormat::Npz => npy(member(&bytes), component),
        VectorFormat::Safetensors => safetensors(&bytes, component),
        VectorFormat::Fvecs | VectorFormat::Ivecs | VectorFormat::Bvecs => {
            vecs(&bytes, component.bytes())
        }
        _ => {
            let (rows, dim) = (number(&bytes[..4]), number(&bytes[4..8]));
            Found { rows, dim, bytes: bytes[8..].to_vec() }
        }
    }
}

fn number(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
}

fn table(path: &Path, component: ComponentType) -> Found {
    let mut found = Found { rows: 0, dim: 0, bytes: Vec::new() };
    for batch in support::read(path) {
        let vectors = batch.column_by_name("vector").unwrap().as_fixed_size_list();
        assert_eq!(vectors.value_type(), component.data_type());
        found.rows += batch.num_rows();
        found.dim = vectors.value_length() as usize;
        found.bytes.extend_from_slice(&bytes_of(vectors.values()));
    }
    found
}

fn json_lines(bytes: &[u8], component: ComponentType) -> Found {
    let mut found = Found { rows: 0, dim: 0, bytes: Vec::new() };
    for line in std::str::from_utf8(bytes).unwrap().lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let vector = row["vector"].as_array().unwrap();
        for value in vector {
            let text = value.to_string();
            let bytes = match component {
                ComponentType::F16 => f16::from_f32(text.parse().unwrap()).to_le_bytes().to_vec(),
                ComponentType::F32 => text.parse::<f32>().unwrap().to_le_bytes().to_vec(),
                ComponentType::F64 => text.parse::<f64>().unwrap().to_le_bytes().to_vec(),
                ComponentType::U8 => text.parse::<u8>().unwrap().to_le_bytes().to_vec(),
                ComponentType::I8 => text.parse::<i8>().unwrap().to_le_bytes().to_vec(),
                _ => text.parse::<i32>().unwrap().to_le_bytes().to_vec(),
            };
            found.bytes.extend(bytes);
        }
        (found.rows, found.dim) = (found.rows + 1, vector.len());
    }
    found
}

fn npy(bytes: &[u8], component: ComponentType) -> Found {
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let header_end = 10 + number(&bytes[8..10]);
    assert_eq!((header_end % 64, bytes[header_end - 1]), (0, b'\n'));
    let header = std::str::from_utf8(&bytes[10..header_end]).unwrap();
    let descr = component.npy_descr();
    let start = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (");
    let (shape, _) = header.strip_prefix(&start).unwrap().split_once("), }").unwrap();
    let (rows, dim) = shape.split_once(", ").unwrap();
    let (rows, dim) = (rows.parse().unwrap(), dim.parse().unwrap());
    Found { rows, dim, bytes: bytes[header_end..].to_vec() }
}

/// The one member of an archive, which must be stored, aligned and undamaged.
fn member(bytes: &[u8]) -> &[u8] {
    assert_eq!(&bytes[..4], b"PK\x03\x04");
    assert_eq!(number(&bytes[8..10]), 0, "the method is not that of stored bytes");
    let name_end = 30 + number(&bytes[26..28]);
    assert_eq!(&bytes[30..name_end], b"vectors.npy");
    let start = name_end + number(&bytes[28..30]);
    assert_eq!(start % 64, 0);
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(bytes)).unwrap();
    assert_eq!(archive.len(), 1);
    let mut unpacked = Vec::new();
    // Its checksum is looked at when all of it was read.
    std::io::copy(&mut archive.by_index(0).unwrap(), &mut unpacked).unwrap();
    let member = &bytes[start..start + unpacked.len()];
    assert!(member == unpacked);
    member
}

/// The metadata of a safetensors file.
pub(super) fn tensor_header(bytes: &[u8]) -> (Value, usize) {
    let end = 8 + number(&bytes[..8]);
    assert_eq!(end % 64, 0);
    (serde_json::from_slice(&bytes[8..end]).unwrap(), end)
}

fn safetensors(bytes: &[u8], component: ComponentType) -> Found {
    let (header, start) = tensor_header(bytes);
    let tensor = &header["vectors"];
    assert_eq!(tensor["dtype"], component.name().to_uppercase());
    let size = |value: &Value| value.as_u64().unwrap() as usize;
    let (rows, dim) = (size(&tensor["shape"][0]), size(&tensor["shape"][1]));
    assert_eq!(tensor["data_offsets"][0], 0);
    assert_eq!(size(&tensor["data_offsets"][1]), bytes.len() - start);
    Found { rows, dim, bytes: bytes[start..].to_vec() }
}

fn vecs(bytes: &[u8], width: usize) -> Found {
    let mut found = Found { rows: 0, dim: 0, bytes: Vec::new() };
    let mut rest = bytes;
    while !rest.is_empty() {
        let dim = number(&rest[..4]);
        found.bytes.extend_from_slice(&rest[4..4 + dim * width]);
        rest = &rest[4 + dim * width..];
        (found.rows, found.dim) = (found.rows + 1, dim);
    }
    found
}

//! What stands before the vectors of each format.
//!
//! npy: numpy's `numpy.lib.format`, version 1.0. safetensors: a length of 64 bits, then JSON.
//! fbin and its like: two counts of 32 bits, as the billion-scale benchmarks use them.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::{ComponentType, OutputFormat};

/// What tensors and arrays are called inside of a file.
pub(super) const NAME: &str = "vectors";

/// The data begin at a multiple of this, so that they can be used where they are mapped.
pub(super) const ALIGNMENT: usize = 64;

/// The header's length of an npy file, as numpy pads it.
const NPY_BYTES: usize = 128;

/// Vectors as a whole.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) rows: u64,
    pub(super) dim: usize,
    pub(super) component: ComponentType,
}

impl Shape {
    /// Returns the bytes of one vector.
    pub(super) const fn row_bytes(self) -> usize {
        self.dim * self.component.bytes()
    }

    /// Returns the bytes of all vectors.
    pub(super) const fn bytes(self) -> u64 {
        self.rows.saturating_mul(self.row_bytes() as u64)
    }
}

/// Returns the header of a file of bare vectors; that of an archive is its member's.
pub(super) fn header(
    format: OutputFormat,
    shape: Shape,
    metadata: &HashMap<String, String>,
) -> Vec<u8> {
    match format {
        OutputFormat::Npy | OutputFormat::Npz => npy(shape),
        OutputFormat::Safetensors => safetensors(shape, metadata),
        OutputFormat::Fbin
        | OutputFormat::F16bin
        | OutputFormat::U8bin
        | OutputFormat::I8bin
        | OutputFormat::Ibin => {
            // More rows than that were refused.
            [(shape.rows as u32).to_le_bytes(), (shape.dim as u32).to_le_bytes()].concat()
        }
        OutputFormat::Fvecs | OutputFormat::Ivecs | OutputFormat::Bvecs => Vec::new(),
        OutputFormat::Arrow | OutputFormat::Parquet | OutputFormat::JsonLines => Vec::new(),
    }
}

/// Returns what stands before every vector.
pub(super) fn row_prefix(format: OutputFormat, dim: usize) -> Option<[u8; 4]> {
    let has_lengths =
        matches!(format, OutputFormat::Fvecs | OutputFormat::Ivecs | OutputFormat::Bvecs);
    has_lengths.then(|| (dim as u32).to_le_bytes())
}

fn npy(Shape { rows, dim, component }: Shape) -> Vec<u8> {
    let text = format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({rows}, {dim}), }}",
        component.npy_descr()
    );
    let width = NPY_BYTES - 11;
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(((NPY_BYTES - 10) as u16).to_le_bytes());
    bytes.extend(format!("{text:<width$}\n").into_bytes());
    bytes
}

fn safetensors(shape: Shape, metadata: &HashMap<String, String>) -> Vec<u8> {
    let mut keys: Vec<&String> = metadata.keys().collect();
    keys.sort();
    let metadata: Map<String, Value> =
        keys.into_iter().map(|key| (key.clone(), metadata[key].clone().into())).collect();
    let mut header = Map::new();
    if !metadata.is_empty() {
        header.insert("__metadata__".to_owned(), metadata.into());
    }
    let tensor = json!({
        "dtype": shape.component.name().to_uppercase(),
        "shape": [shape.rows, shape.dim],
        "data_offsets": [0, shape.bytes()],
    });
    header.insert(NAME.to_owned(), tensor);
    let mut text = Value::from(header).to_string().into_bytes();
    text.resize((8 + text.len()).next_multiple_of(ALIGNMENT) - 8, b' ');
    [&(text.len() as u64).to_le_bytes()[..], &text].concat()
}

//! Files of every format, byte by byte.

use std::io::Write;

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

/// Rows after their number and that of their components.
pub(super) fn bin(rows: u32, dim: u32, data: &[u8]) -> Vec<u8> {
    [&rows.to_le_bytes()[..], &dim.to_le_bytes(), data].concat()
}

/// Rows of `row_bytes`, each after its number of components.
pub(super) fn vecs(dim: u32, row_bytes: usize, data: &[u8]) -> Vec<u8> {
    data.chunks(row_bytes).flat_map(|row| [&dim.to_le_bytes()[..], row].concat()).collect()
}

/// An npy file of version 1 with any header.
pub(super) fn npy_with(header: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{header:<117}\n");
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), data].concat()
}

pub(super) fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    npy_with(&header, data)
}

pub(super) fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

/// A member of a zip file; what it claims may differ from what it holds.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) method: u16,
    pub(super) flags: u16,
    pub(super) stored: Vec<u8>,
    pub(super) claimed_length: u64,
    pub(super) crc: u32,
}

impl Member {
    pub(super) fn stored(name: &str, data: &[u8]) -> Self {
        let mut crc = Crc::new();
        crc.update(data);
        Self {
            name: name.into(),
            method: 0,
            flags: 0,
            stored: data.into(),
            claimed_length: data.len() as u64,
            crc: crc.sum(),
        }
    }

    pub(super) fn deflated(name: &str, data: &[u8]) -> Self {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(data).unwrap();
        Self { method: 8, stored: encoder.finish().unwrap(), ..Self::stored(name, data) }
    }

    /// The fields that both headers have; sizes beyond 32 bits stand in the extra field.
    fn fields(&self) -> (Vec<u8>, Vec<u8>) {
        let compressed_length = self.stored.len() as u32;
        let is_long = self.claimed_length >= u64::from(u32::MAX);
        let length = if is_long { u32::MAX } else { self.claimed_length as u32 };
        let extra = if is_long {
            let compressed_length = u64::from(compressed_length);
            [
                &[1, 0, 16, 0][..],
                &self.claimed_length.to_le_bytes(),
                &compressed_length.to_le_bytes(),
            ]
            .concat()
        } else {
            Vec::new()
        };
        let compressed_length = if is_long { u32::MAX } else { compressed_length };
        let fields = [
            &45_u16.to_le_bytes()[..],
            &self.flags.to_le_bytes(),
            &self.method.to_le_bytes(),
            &[0; 4],
            &self.crc.to_le_bytes(),
            &compressed_length.to_le_bytes(),
            &length.to_le_bytes(),
            &(self.name.len() as u16).to_le_bytes(),
            &(extra.len() as u16).to_le_bytes(),
        ];
        (fields.concat(), extra)
    }
}

/// A zip file of some members.
pub(super) fn zip(members: &[Member]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for member in members {
        let (fields, extra) = member.fields();
        let start = bytes.len() as u32;
        for part in [b"PK\x03\x04", &fields[..], member.name.as_bytes(), &extra, &member.stored] {
            bytes.extend_from_slice(part);
        }
        // Comment length, disk, two kinds of attributes, place.
        let attributes = [&[0; 10][..], &start.to_le_bytes()].concat();
        let name = member.name.as_bytes();
        for part in [b"PK\x01\x02\x2D\x00", &fields[..], &attributes, name, &extra] {
            directory.extend_from_slice(part);
        }
    }
    let count = (members.len() as u16).to_le_bytes();
    let directory_start = (bytes.len() as u32).to_le_bytes();
    let directory_length = (directory.len() as u32).to_le_bytes();
    bytes.extend(directory);
    for part in [b"PK\x05\x06", &[0; 4][..], &count, &count, &directory_length, &directory_start] {
        bytes.extend_from_slice(part);
    }
    bytes.extend([0, 0]);
    bytes
}

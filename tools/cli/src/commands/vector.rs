//! A vector on the command line: a file, JSON, or base64.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::failure::Failure;

/// Longest file that is read: some vectors of the largest dimension as JSON.
const BYTES_MAX: u64 = 4 << 20;

/// Reads a vector: a JSON array, the name of a file that holds one or plain f32 (little-endian), or base64 of such.
pub(crate) fn parse(typed: &str) -> Result<Vec<f32>, Failure> {
    let vector = if typed.trim_start().starts_with('[') {
        from_json(typed.as_bytes())
    } else if Path::new(typed).is_file() {
        from_file(Path::new(typed))
    } else {
        STANDARD.decode(typed.trim()).ok().and_then(|bytes| from_f32(&bytes))
    };
    let vector = vector.filter(|vector| !vector.is_empty());
    vector.ok_or_else(|| {
        let shown: String = typed.chars().take(40).collect();
        Failure::usage(
            format!("--vector {shown:?} is no vector and no file that holds one"),
            "give a file of f32 or JSON, a JSON array, or base64 of f32 (little-endian)",
        )
    })
}

fn from_file(path: &Path) -> Option<Vec<f32>> {
    if path.metadata().ok()?.len() > BYTES_MAX {
        return None;
    }
    let bytes = std::fs::read(path).ok()?;
    if bytes.trim_ascii_start().starts_with(b"[")
        && let Some(vector) = from_json(&bytes)
    {
        return Some(vector);
    }
    from_f32(&bytes)
}

fn from_json(bytes: &[u8]) -> Option<Vec<f32>> {
    serde_json::from_slice(bytes).ok()
}

fn from_f32(bytes: &[u8]) -> Option<Vec<f32>> {
    let (numbers, []) = bytes.as_chunks::<4>() else { return None };
    Some(numbers.iter().map(|number| f32::from_le_bytes(*number)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_read_in_every_form() {
        let expected = vec![0.5, -2.0];
        let bytes: Vec<u8> = expected.iter().flat_map(|x: &f32| x.to_le_bytes()).collect();
        assert_eq!(parse(" [0.5, -2]").unwrap(), expected);
        assert_eq!(parse(&STANDARD.encode(&bytes)).unwrap(), expected);
        let folder = tempfile::tempdir().unwrap();
        for content in [&bytes[..], b"\n[5e-1, -2]\n"] {
            let path = folder.path().join("vector");
            std::fs::write(&path, content).unwrap();
            assert_eq!(parse(path.to_str().unwrap()).unwrap(), expected);
        }
        for wrong in ["", "[]", "[1", "no vector", "AAA=", "missing.f32"] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}

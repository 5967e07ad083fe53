//! Decodes one embedding: f32 or f64 little-endian, or a JSON array.

use super::Cell;
use memfold_model::memory::InvalidEmbedding;

/// More components than a vector matrix takes.
const DIM_MAX: usize = 65_536;

/// Decodes `cell` into `vector`, finite and not zero, −0 made +0.
pub(super) fn decode(
    cell: Cell<'_>,
    holds_f64: bool,
    vector: &mut Vec<f32>,
) -> Result<(), InvalidEmbedding> {
    vector.clear();
    match cell {
        Cell::Text(bytes) => decode_json(bytes, vector)?,
        Cell::Blob(bytes) if is_json(bytes) => decode_json(bytes, vector)?,
        Cell::Blob(bytes) => decode_numbers(bytes, holds_f64, vector)?,
        Cell::Null | Cell::Integer(_) | Cell::Real(_) => return Err(InvalidEmbedding::Unreadable),
    }
    check(vector)
}

fn decode_numbers(
    bytes: &[u8],
    holds_f64: bool,
    vector: &mut Vec<f32>,
) -> Result<(), InvalidEmbedding> {
    let (singles, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() || singles.is_empty() {
        return Err(InvalidEmbedding::Length);
    }
    if holds_f64 {
        let (doubles, _) = bytes.as_chunks::<8>();
        vector.extend(doubles.iter().map(|bytes| f64::from_le_bytes(*bytes) as f32 + 0.0));
    } else {
        // Adding zero makes −0 positive and changes nothing else.
        vector.extend(singles.iter().map(|bytes| f32::from_le_bytes(*bytes) + 0.0));
    }
    Ok(())
}

/// Two bytes of chance look like brackets in one of 65,536 blobs; those must also hold only JSON.
fn is_json(bytes: &[u8]) -> bool {
    let inside = bytes.trim_ascii().strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
    inside.is_some_and(|inside| inside.iter().all(|byte| b"0123456789+-.eE, \t\r\n".contains(byte)))
}

fn decode_json(bytes: &[u8], vector: &mut Vec<f32>) -> Result<(), InvalidEmbedding> {
    let numbers: Vec<f64> =
        serde_json::from_slice(bytes).map_err(|_| InvalidEmbedding::Unreadable)?;
    vector.extend(numbers.iter().map(|number| *number as f32 + 0.0));
    Ok(())
}

fn check(vector: &[f32]) -> Result<(), InvalidEmbedding> {
    if vector.is_empty() || vector.len() > DIM_MAX {
        return Err(InvalidEmbedding::Length);
    }
    // Without a branch for each component.
    if !vector.iter().fold(true, |finite, component| finite & component.is_finite()) {
        return Err(InvalidEmbedding::NotFinite);
    }
    if vector.iter().all(|component| *component == 0.0) {
        return Err(InvalidEmbedding::Zero);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(cell: Cell<'_>, holds_f64: bool) -> Result<Vec<f32>, InvalidEmbedding> {
        let mut vector = vec![9.0];
        decode(cell, holds_f64, &mut vector).map(|()| vector)
    }

    fn blob(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn reads_three_encodings() {
        let expected = Ok(vec![0.5, -2.0]);
        assert_eq!(read(Cell::Blob(&blob(&[0.5, -2.0])), false), expected);
        let doubles: Vec<u8> = [0.5_f64, -2.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(read(Cell::Blob(&doubles), true), expected);
        assert_eq!(read(Cell::Text(b" [0.5, -2]"), false), expected);
        assert_eq!(read(Cell::Blob(b"[0.5, -2e0]"), false), expected);
    }

    #[test]
    fn minus_zero_becomes_zero() {
        let vector = read(Cell::Blob(&blob(&[-0.0, 1.0])), false).unwrap();
        assert_eq!(vector[0].to_bits(), 0);
        assert_eq!(read(Cell::Text(b"[-0.0, 1]"), false).unwrap()[0].to_bits(), 0);
    }

    #[test]
    fn says_what_is_wrong() {
        use InvalidEmbedding::{Length, NotFinite, Unreadable, Zero};
        assert_eq!(read(Cell::Blob(&[]), false), Err(Length));
        assert_eq!(read(Cell::Blob(&[0; 7]), false), Err(Length));
        assert_eq!(read(Cell::Text(b"[]"), false), Err(Length));
        assert_eq!(read(Cell::Blob(&vec![1; 4 * (DIM_MAX + 1)]), false), Err(Length));
        assert_eq!(read(Cell::Blob(&blob(&[1.0, f32::NAN])), false), Err(NotFinite));
        assert_eq!(read(Cell::Blob(&blob(&[f32::NEG_INFINITY])), false), Err(NotFinite));
        assert_eq!(read(Cell::Blob(&1e300_f64.to_le_bytes()), true), Err(NotFinite));
        assert_eq!(read(Cell::Text(b"[1e300]"), false), Err(NotFinite));
        assert_eq!(read(Cell::Blob(&blob(&[0.0, -0.0])), false), Err(Zero));
        assert_eq!(read(Cell::Text(b"[\"a\"]"), false), Err(Unreadable));
        assert_eq!(read(Cell::Text(b"[[1.0]]"), false), Err(Unreadable));
        assert_eq!(read(Cell::Integer(4), false), Err(Unreadable));
    }
}

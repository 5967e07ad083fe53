//! Walks a footer before it is decoded, so that no count in it can ask for memory.
//!
//! The format is Thrift's compact protocol: a struct is fields of (id, type) until a stop byte.

/// Deepest nesting that is followed; real footers need 7 levels.
const DEPTH_MAX: usize = 32;

/// Checks that every field, list and text of the footer lies inside its bytes.
///
/// An element takes at least a byte, so a count that passes is no larger than the footer.
pub(super) fn check_footer(bytes: &[u8]) -> Result<(), String> {
    let mut walk = Walk { bytes, position: 0 };
    walk.structure(0)
        .ok_or_else(|| format!("unreadable at byte {} of {}", walk.position, bytes.len()))
}

/// A position in the bytes; `None` from a step means that they end too early or make no sense.
struct Walk<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl Walk<'_> {
    fn structure(&mut self, depth: usize) -> Option<()> {
        loop {
            let header = self.byte()?;
            if header == 0 {
                return Some(());
            }
            // A zero in the upper half says that the field's id follows in full.
            if header >> 4 == 0 {
                self.number()?;
            }
            // A field holds a flag in its type; in a list it takes a byte.
            if !matches!(header & 15, 1 | 2) {
                self.value(header & 15, depth)?;
            }
        }
    }

    fn value(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            1..=3 => self.skip(1),
            4..=6 => self.number().map(drop),
            7 => self.skip(8),
            8 => {
                let length = self.number()?;
                self.skip(length)
            }
            9 | 10 if depth < DEPTH_MAX => self.list(depth + 1),
            12 if depth < DEPTH_MAX => self.structure(depth + 1),
            _ => None,
        }
    }

    fn list(&mut self, depth: usize) -> Option<()> {
        let header = self.byte()?;
        let count = match header >> 4 {
            15 => self.number()?,
            count => u64::from(count),
        };
        if count > (self.bytes.len() - self.position) as u64 {
            return None;
        }
        (0..count).try_for_each(|_| self.value(header & 15, depth))
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 127) << shift;
            if byte & 128 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn skip(&mut self, count: u64) -> Option<()> {
        let end = self.position.checked_add(usize::try_from(count).ok()?)?;
        (end <= self.bytes.len()).then(|| self.position = end)
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.position).copied();
        self.position += usize::from(byte.is_some());
        byte
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lists_and_texts_are_walked() {
        // i32 1 · list of two structs, each a text · flag · stop
        let bytes = [0x15, 2, 0x19, 0x2C, 0x18, 1, b'a', 0, 0x18, 1, b'b', 0, 0x11, 0];
        assert_eq!(check_footer(&bytes), Ok(()));
        assert!((0..bytes.len()).all(|length| check_footer(&bytes[..length]).is_err()));
    }

    #[test]
    fn a_count_beyond_the_end_is_refused() {
        // A list of 2³¹ − 1 structs.
        let bytes = [0x19, 0xFC, 0xFF, 0xFF, 0xFF, 0xFF, 0x07, 0, 0];
        assert_eq!(check_footer(&bytes).unwrap_err(), "unreadable at byte 7 of 9");
    }

    #[test]
    fn deep_nesting_is_refused() {
        assert!(check_footer(&[0x1C; 10_000]).is_err());
        assert!(check_footer(&[0x19; 10_000]).is_err());
    }
}

//! A short list in place: most words have one or two meanings, and thousands of lists of their own would make the
//! lexicon slow to read.

use std::ops::Deref;

/// Elements kept in place.
const IN_PLACE_MAX: usize = 2;

/// A list that needs no memory of its own while it is short.
#[derive(Debug, Clone)]
pub(crate) enum Few<T> {
    /// So many of these.
    InPlace(u8, [T; IN_PLACE_MAX]),
    /// More.
    Many(Vec<T>),
}

impl<T: Copy + Default> Few<T> {
    pub(super) fn push(&mut self, element: T) {
        match self {
            Self::InPlace(length, elements) => match elements.get_mut(usize::from(*length)) {
                Some(free) => {
                    *free = element;
                    *length += 1;
                }
                None => {
                    let mut many = elements.to_vec();
                    many.push(element);
                    *self = Self::Many(many);
                }
            },
            Self::Many(elements) => elements.push(element),
        }
    }
}

impl<T: Copy + Default> Default for Few<T> {
    fn default() -> Self {
        Self::InPlace(0, [T::default(); IN_PLACE_MAX])
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::InPlace(length, elements) => &elements[..usize::from(*length)],
            Self::Many(elements) => elements,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_grows_beyond_its_place() {
        let mut few = Few::default();
        for length in 0..5 {
            assert_eq!(few.len(), length);
            few.push(length);
        }
        assert_eq!(*few, [0, 1, 2, 3, 4]);
    }
}

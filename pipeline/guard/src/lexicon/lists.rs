//! Lists and tables in a few plain arrays, which may be compiled in.

use std::borrow::Cow;

/// Lists of elements, one behind the other.
#[derive(Debug)]
pub(crate) struct Lists<T: Clone + 'static> {
    /// Where each list starts, and where the last one ends.
    pub(super) starts: Cow<'static, [u32]>,
    pub(super) elements: Cow<'static, [T]>,
}

impl<T: Clone> Lists<T> {
    pub(super) fn of<L: AsRef<[T]>>(lists: impl IntoIterator<Item = L>) -> Self {
        let (mut starts, mut elements) = (vec![0], Vec::new());
        for list in lists {
            elements.extend_from_slice(list.as_ref());
            starts.push(elements.len() as u32);
        }
        Self { starts: starts.into(), elements: elements.into() }
    }

    /// Returns a list, which must be there.
    pub(super) fn at(&self, index: usize) -> &[T] {
        &self.elements[self.starts[index] as usize..self.starts[index + 1] as usize]
    }
}

/// Values by keys that are hashes already.
#[derive(Debug)]
pub(crate) struct Table<V: Clone + 'static> {
    /// In lists by the lowest bits of keys, which FNV mixes best; as many lists as a power of two.
    pub(super) keys: Lists<u64>,
    /// One for each key.
    pub(super) values: Cow<'static, [V]>,
}

impl<V: Clone> Table<V> {
    pub(super) fn of(pairs: impl IntoIterator<Item = (u64, V)>) -> Self {
        let mut pairs: Vec<(u64, V)> = pairs.into_iter().collect();
        let list_count = pairs.len().next_power_of_two();
        let list_of = |key: u64| key as usize & (list_count - 1);
        pairs.sort_by_key(|(key, _)| (list_of(*key), *key));
        let mut starts = vec![0; list_count + 1];
        pairs.iter().for_each(|(key, _)| starts[list_of(*key) + 1] += 1);
        for at in 0..list_count {
            starts[at + 1] += starts[at];
        }
        let (elements, values): (Vec<u64>, Vec<V>) = pairs.into_iter().unzip();
        Self {
            keys: Lists { starts: starts.into(), elements: elements.into() },
            values: values.into(),
        }
    }

    pub(super) fn get(&self, key: u64) -> Option<&V> {
        // A power of two, and the end of the last.
        let list = key as usize & (self.keys.starts.len() - 2);
        let place = self.keys.at(list).iter().position(|other| *other == key)?;
        self.values.get(self.keys.starts[list] as usize + place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_find_their_keys_and_no_others() {
        for count in [0, 1, 2, 5, 300] {
            let key = |at: u64| at.wrapping_mul(0x9E37_79B9_7F4A_7C15) << 3;
            let table = Table::of((0..count).map(|at| (key(at), at)));
            for at in 0..count {
                assert_eq!(table.get(key(at)), Some(&at));
                assert_eq!(table.get(key(at) + 1), None);
            }
            assert_eq!(table.get(key(count)), None);
        }
    }

    #[test]
    fn lists_stay_apart() {
        let lists = Lists::of([vec![1, 2], vec![], vec![3]]);
        assert_eq!([lists.at(0), lists.at(1), lists.at(2)], [&[1, 2][..], &[], &[3]]);
    }
}

//! [`Links`] and [`LinkTable`]: which positions each position of a layer leads to, in three bytes each where they fit.

use crate::codes::Pages;

/// So many positions or more have links of four bytes.
const NARROW_POSITIONS: usize = (1 << 24) - 1;

/// Returns the bytes of a link among so many positions.
///
/// All bits set is the end of a list that is not full, so no position may have that number.
pub(super) const fn link_bytes(positions: usize) -> usize {
    if positions < NARROW_POSITIONS { 3 } else { 4 }
}

/// The links of all positions of a layer, borrowed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Links<'a> {
    bytes: &'a [u8],
    width: usize,
    /// Bytes of one position.
    stride: usize,
}

impl<'a> Links<'a> {
    /// Takes `degree` links for each of so many positions, as [`LinkTable`] has them.
    pub(super) const fn new(bytes: &'a [u8], positions: usize, degree: usize) -> Self {
        let width = link_bytes(positions);
        Self { bytes, width, stride: width * degree }
    }

    /// Returns the number of positions.
    pub(super) const fn len(&self) -> usize {
        self.bytes.len() / self.stride
    }

    /// Returns the links of a position as they lie in memory.
    #[inline]
    pub(super) fn bytes(&self, position: u32) -> &'a [u8] {
        &self.bytes[position as usize * self.stride..][..self.stride]
    }

    /// Returns where a position leads to, which may be nowhere in damaged files.
    #[inline]
    pub(super) fn of(&self, position: u32) -> impl Iterator<Item = u32> + use<'a> {
        let end = u32::MAX >> (32 - 8 * self.width as u32);
        let width = self.width;
        let links = self.bytes(position).chunks_exact(width).map(read);
        links.take_while(move |&link| link != end)
    }
}

#[inline]
fn read(link: &[u8]) -> u32 {
    match *link {
        [a, b, c] => u32::from_le_bytes([a, b, c, 0]),
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
        _ => u32::MAX,
    }
}

/// The links of all positions of a layer, or of some that follow each other, owned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LinkTable {
    bytes: Pages<u8>,
    /// Of the layer.
    positions: usize,
    degree: usize,
}

impl LinkTable {
    /// Packs lists of at most `degree` links among so many positions.
    pub(super) fn new<L: AsRef<[u32]>>(positions: usize, degree: usize, lists: &[L]) -> Self {
        let bytes = Pages::zeroed(lists.len() * degree * link_bytes(positions));
        let mut table = Self { bytes, positions, degree };
        for (position, list) in (0..).zip(lists) {
            table.set(position, list.as_ref());
        }
        table
    }

    /// Puts parts of a layer of so many positions together.
    pub(super) fn joined(positions: usize, degree: usize, parts: &[Self]) -> Self {
        let mut bytes = Pages::zeroed(positions * degree * link_bytes(positions));
        let mut rest = &mut bytes[..];
        for Self { bytes, .. } in parts {
            let place = rest.split_off_mut(..bytes.len()).expect("parts are those of the layer");
            place.copy_from_slice(bytes);
        }
        Self { bytes, positions, degree }
    }

    /// Returns all bytes.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns how many links a position can have.
    pub(super) const fn degree(&self) -> usize {
        self.degree
    }

    /// Returns the links for reading.
    pub(super) fn view(&self) -> Links<'_> {
        Links::new(&self.bytes, self.positions, self.degree)
    }

    /// Replaces the links of a position; those beyond the room that there is are dropped.
    pub(super) fn set(&mut self, position: u32, links: &[u32]) {
        let width = link_bytes(self.positions);
        let stride = width * self.degree;
        let places = &mut self.bytes[position as usize * stride..][..stride];
        let mut links = links.iter();
        for place in places.chunks_exact_mut(width) {
            let link = links.next().map_or([u8::MAX; 4], |link| link.to_le_bytes());
            place.copy_from_slice(&link[..width]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_come_back_in_three_bytes_and_in_four() {
        for (positions, width) in [(5, 3), (NARROW_POSITIONS - 1, 3), (NARROW_POSITIONS, 4)] {
            assert_eq!(link_bytes(positions), width);
            let last = positions as u32 - 1;
            let mut bytes = vec![u8::MAX; 3 * width];
            for (at, link) in [last, 0, 4].into_iter().enumerate() {
                bytes[at * width..][..width].copy_from_slice(&link.to_le_bytes()[..width]);
            }
            let links = Links::new(&bytes, positions, 3);
            assert_eq!(links.of(0).collect::<Vec<_>>(), [last, 0, 4]);
            assert_eq!(links.len(), 1);
        }
    }

    #[test]
    fn lists_end_where_they_are_not_full() {
        let mut table = LinkTable::new(3, 2, &[&[1, 2][..], &[0], &[]]);
        let of = |table: &LinkTable, position| table.view().of(position).collect::<Vec<_>>();
        assert_eq!([of(&table, 0), of(&table, 1), of(&table, 2)], [vec![1, 2], vec![0], vec![]]);
        let parts = [LinkTable::new(3, 2, &[[1, 2]]), LinkTable::new(3, 2, &[&[0][..], &[]])];
        assert_eq!(LinkTable::joined(3, 2, &parts), table);
        table.set(2, &[1]);
        table.set(0, &[2, 1, 0]);
        assert_eq!([of(&table, 0), of(&table, 1), of(&table, 2)], [vec![2, 1], vec![0], vec![1]]);
        assert_eq!(table.as_bytes()[6..12], [0, 0, 0, 255, 255, 255]);
    }
}

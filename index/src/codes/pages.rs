//! [`Pages`]: numbers in memory that is read here and there.

use std::ops::{Deref, DerefMut};

use bytemuck::Pod;
use memmap2::MmapMut;

/// What is smaller stays on the heap: two large pages.
const MAPPED_BYTES_MIN: usize = 4 << 20;

/// Numbers on large pages, where they are many and the system has such pages.
///
/// A search reads some thousand rows here and there. On pages of 4 KiB each of them waits for the page's address too, and rows of
/// 384 codes that do not begin where a line of the cache does take seven lines instead of six.
#[derive(Debug)]
pub(crate) struct Pages<T>(Memory<T>);

#[derive(Debug)]
enum Memory<T> {
    Heap(Vec<T>),
    Mapped(MmapMut),
}

impl<T: Pod> Pages<T> {
    /// Returns so many zeros.
    pub(crate) fn zeroed(count: usize) -> Self {
        let bytes = count * size_of::<T>();
        let mapped = if bytes < MAPPED_BYTES_MIN { None } else { MmapMut::map_anon(bytes).ok() };
        let Some(map) = mapped else { return Self::from(vec![T::zeroed(); count]) };
        // A hint: without it everything works, and takes longer.
        #[cfg(target_os = "linux")]
        let _unheeded = map.advise(memmap2::Advice::HugePage);
        Self(Memory::Mapped(map))
    }
}

impl<T> From<Vec<T>> for Pages<T> {
    fn from(values: Vec<T>) -> Self {
        Self(Memory::Heap(values))
    }
}

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Self::from(Vec::new())
    }
}

impl<T: Pod> Deref for Pages<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Memory::Heap(values) => values,
            Memory::Mapped(map) => bytemuck::cast_slice(map),
        }
    }
}

impl<T: Pod> DerefMut for Pages<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Memory::Heap(values) => values,
            Memory::Mapped(map) => bytemuck::cast_slice_mut(map),
        }
    }
}

impl<T: Pod> Clone for Pages<T> {
    fn clone(&self) -> Self {
        let mut clone = Self::zeroed(self.len());
        clone.copy_from_slice(self);
        clone
    }
}

impl<T: Pod + PartialEq> PartialEq for Pages<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Pod + Eq> Eq for Pages<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_numbers_are_the_same() {
        assert!(Pages::<i8>::default().is_empty());
        for count in [0, 1, 1_000, (MAPPED_BYTES_MIN / 4) - 1, MAPPED_BYTES_MIN / 4, 3_000_001] {
            let mut pages = Pages::<u32>::zeroed(count);
            assert_eq!(matches!(pages.0, Memory::Mapped(_)), count * 4 >= MAPPED_BYTES_MIN);
            assert!(pages.len() == count && pages.iter().all(|&number| number == 0));
            (0..).zip(pages.iter_mut()).for_each(|(at, number)| *number = at);
            let numbers: Vec<u32> = (0..count as u32).collect();
            assert_eq!(*pages, *numbers);
            assert!(pages == pages.clone() && pages == Pages::from(numbers));
            if let Some(last) = pages.last_mut() {
                *last += 1;
                assert_ne!(pages, Pages::zeroed(count));
            }
        }
    }
}

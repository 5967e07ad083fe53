//! [`ExternalSort`]: sorts more records than memory should hold.
//!
//! Records are gathered, sorted and written as runs into one file without a name; reading maps that
//! file and merges its runs. As long as one run is enough, no file is made. Merging costs a comparison per
//! record and doubling of the runs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use bytemuck::Pod;

use crate::Mapped;

/// Records on their way to being sorted.
#[derive(Debug)]
pub struct ExternalSort<T> {
    scratch_dir: Option<PathBuf>,
    run_records: usize,
    open: Vec<T>,
    file: Option<File>,
    /// Positions of runs in the file, in records.
    runs: Vec<Range<usize>>,
}

/// Sorted records, to be read any number of times.
#[derive(Debug)]
pub struct Sorted<T> {
    in_memory: Vec<T>,
    file: Option<Mapped>,
    runs: Vec<Range<usize>>,
}

impl<T: Pod + Ord> ExternalSort<T> {
    /// Makes an empty sort that keeps up to `run_records` records (at least one) in memory and moves
    /// more to a file without a name in `scratch_dir`. `None`: everything stays in memory.
    #[must_use]
    pub fn new(scratch_dir: Option<&Path>, run_records: usize) -> Self {
        Self {
            scratch_dir: scratch_dir.map(Path::to_owned),
            run_records: run_records.max(1),
            open: Vec::new(),
            file: None,
            runs: Vec::new(),
        }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// When the scratch file cannot be written.
    pub fn push(&mut self, record: T) -> io::Result<()> {
        if self.open.len() >= self.run_records && self.scratch_dir.is_some() {
            self.write_run()?;
        }
        self.open.push(record);
        Ok(())
    }

    /// Sorts the remaining records and returns all records in order.
    ///
    /// # Errors
    /// When the scratch file cannot be written or mapped.
    pub fn finish(mut self) -> io::Result<Sorted<T>> {
        if self.file.is_some() && !self.open.is_empty() {
            self.write_run()?;
        }
        self.open.sort_unstable();
        let file = self.file.as_ref().map(Mapped::from_file).transpose();
        let file = file.map_err(io::Error::other)?;
        Ok(Sorted { in_memory: self.open, file, runs: self.runs })
    }

    fn write_run(&mut self) -> io::Result<()> {
        let Some(dir) = &self.scratch_dir else { return Ok(()) };
        if self.file.is_none() {
            self.file = Some(tempfile::tempfile_in(dir)?);
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        self.open.sort_unstable();
        file.write_all(bytemuck::cast_slice(&self.open))?;
        let start = self.runs.last().map_or(0, |run| run.end);
        self.runs.push(start..start + self.open.len());
        self.open.clear();
        Ok(())
    }
}

impl<T: Pod + Ord> Sorted<T> {
    /// Returns the number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.in_memory.len() + self.runs.last().map_or(0, |run| run.end)
    }

    /// Tells whether there are no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all records in ascending order; can be called again.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = T> {
        let filed: &[T] = self.file.as_deref().map_or(&[], bytemuck::cast_slice);
        let filed = self.runs.iter().map(|run| &filed[run.clone()]);
        let mut iter = SortedIter {
            heads: BinaryHeap::new(),
            rests: filed.chain([&self.in_memory[..]]).collect(),
            left: self.len(),
        };
        for run in 0..iter.rests.len() {
            let head = iter.take_head(run);
            iter.heads.extend(head);
        }
        iter
    }
}

/// Merges the runs of a [`Sorted`].
struct SortedIter<'a, T> {
    /// The next record of each run that has one, with the run's number.
    heads: BinaryHeap<Reverse<(T, usize)>>,
    /// The records behind it.
    rests: Vec<&'a [T]>,
    left: usize,
}

impl<T: Copy + Ord> SortedIter<'_, T> {
    fn take_head(&mut self, run: usize) -> Option<Reverse<(T, usize)>> {
        let (&head, rest) = self.rests[run].split_first()?;
        self.rests[run] = rest;
        Some(Reverse((head, run)))
    }
}

impl<T: Copy + Ord> Iterator for SortedIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let Reverse((record, run)) = *self.heads.peek()?;
        let next = self.take_head(run);
        let mut head = self.heads.peek_mut()?;
        match next {
            Some(next) => *head = next,
            None => {
                PeekMut::pop(head);
            }
        }
        self.left -= 1;
        Some(record)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T: Copy + Ord> ExactSizeIterator for SortedIter<'_, T> {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_of_any_length_give_the_same_order(
            records in prop::collection::vec(0_u64..500, 0..400),
            run_records in 1_usize..90,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut spool = ExternalSort::new(Some(folder.path()), run_records);
            for &record in &records {
                spool.push(record).unwrap();
            }
            let sorted = spool.finish().unwrap();
            let mut expected = records;
            expected.sort_unstable();
            prop_assert_eq!(sorted.len(), expected.len());
            prop_assert!(sorted.iter().eq(expected.iter().copied()));
            prop_assert!(sorted.iter().eq(expected), "a second reading");
            prop_assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn without_a_folder_everything_stays_in_memory() {
        let mut spool = ExternalSort::new(None, 2);
        for record in [5_u32, 1, 4, 1, 3] {
            spool.push(record).unwrap();
        }
        let sorted = spool.finish().unwrap();
        assert!(sorted.file.is_none());
        assert_eq!(sorted.iter().collect::<Vec<_>>(), [1, 1, 3, 4, 5]);
    }

    #[test]
    fn a_missing_folder_is_an_error() {
        let mut spool = ExternalSort::new(Some(Path::new("/nonexistent/scratch")), 1);
        spool.push(1_u8).unwrap();
        assert!(spool.push(2).is_err());
    }
}

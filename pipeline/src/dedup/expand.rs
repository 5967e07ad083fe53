//! [`each_logical_pair`]: pairs of distinct rows become pairs of rows.

use std::path::Path;

use memfold_index::{Pair, PairStream, Progress, Row, Sorted, Spool};
use memfold_simd::Similarity;

use super::DedupError;
use super::run::{RUN_RECORDS, watched};

/// A pair's rows and its similarity's bits, sorted by the rows.
type PairRecord = [u64; 2];

/// Calls `write` with every pair of rows by (left, right): pairs inside and between groups of bit-equal rows
/// included, as [`PairStream::logical_pairs`] counts them.
///
/// Where there are groups the pairs are sorted anew, 16 bytes each: the first 64 MiB in memory, more in
/// `scratch_dir`. Time grows with the logical pairs, which can be as many as half the square of the rows.
///
/// # Errors
/// When `write` fails, the scratch folder is full or gone, or the caller asked to stop.
pub fn each_logical_pair<E: From<DedupError>>(
    pairs: &PairStream,
    scratch_dir: Option<&Path>,
    progress: &dyn Progress,
    mut write: impl FnMut(Pair) -> Result<(), E>,
) -> Result<(), E> {
    let total = Some(pairs.logical_pairs());
    if pairs.groups().is_empty() {
        progress.begin("write pairs", total);
        watched(pairs.pairs(), progress).try_for_each(|pair| write(pair?))?;
    } else {
        progress.begin("expand pairs", total);
        let sorted = sorted(pairs, scratch_dir, progress)?;
        progress.begin("write pairs", total);
        watched(sorted.iter(), progress).try_for_each(|record| write(pair(record?)))?;
    }
    progress.end();
    Ok(())
}

fn sorted(
    pairs: &PairStream,
    scratch_dir: Option<&Path>,
    progress: &dyn Progress,
) -> Result<Sorted<PairRecord>, DedupError> {
    let failed = DedupError::scratch(scratch_dir);
    let mut spool = Spool::new(scratch_dir, RUN_RECORDS);
    for record in watched(expanded(pairs), progress) {
        spool.push(record?).map_err(&failed)?;
    }
    spool.finish().map_err(failed)
}

/// All pairs of rows, in no order that matters.
fn expanded(pairs: &PairStream) -> impl Iterator<Item = PairRecord> {
    let groups = pairs.groups();
    let inside = groups.iter().flat_map(|group| {
        (0..group.len()).flat_map(move |left| {
            group[left + 1..].iter().map(move |&right| record(group[left], right, Similarity::ONE))
        })
    });
    let between = pairs.pairs().flat_map(move |pair| {
        let (left, right) = (rows_of(groups, pair.left), rows_of(groups, pair.right));
        left.flat_map(move |a| {
            right.clone().map(move |b| record(a.min(b), a.max(b), pair.similarity))
        })
    });
    inside.chain(between)
}

/// The rows that a distinct row stands for, itself included.
fn rows_of(groups: &[Vec<Row>], row: Row) -> impl Iterator<Item = Row> + Clone {
    let group = groups.binary_search_by_key(&row, |group| group[0]).ok();
    let others = group.map_or(&[][..], |at| &groups[at][1..]);
    std::iter::once(row).chain(others.iter().copied())
}

fn record(left: Row, right: Row, similarity: Similarity) -> PairRecord {
    [u64::from(left.0) << 32 | u64::from(right.0), similarity.get().to_bits()]
}

fn pair([rows, bits]: PairRecord) -> Pair {
    // The bits were a similarity's, which the clamp leaves as they are.
    let similarity = Similarity::clamped(f64::from_bits(bits)).unwrap_or_default();
    Pair { left: Row((rows >> 32) as u32), right: Row(rows as u32), similarity }
}

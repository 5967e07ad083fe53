//! [`verify_corpus_index`]: is every byte of an index as it was written, and is the file what it was?

use memfold_datasets::Corpus;
use memfold_index::graph::gate;
use memfold_index::{Pool, Progress};
use memfold_simd::Kernels;

use super::CorpusIndex;
use crate::lookup::inspect::{
    HasTexts, IndexDifference, VerifiedIndex, VerifyIndexError, verify_files,
};

/// Compares every byte of an index with what was written, and looks up rows in its graph: 10,000, or all of them where it is
/// compared with its file too.
///
/// # Errors
/// The first damage found, or the caller asked to stop.
pub fn verify_corpus_index(
    index: &CorpusIndex,
    corpus: Option<&Corpus>,
    tools: (&Pool, &'static Kernels, &dyn Progress),
) -> Result<VerifiedIndex, VerifyIndexError> {
    let lookups = if corpus.is_some() { usize::MAX } else { gate::SAMPLED_LOOKUPS };
    let verified = verify_files(index.files(), HasTexts(false), lookups, tools)?;
    let difference = corpus.map(|corpus| difference(index, corpus)).transpose()?;
    Ok(VerifiedIndex { difference, ..verified })
}

/// Compares every row with the one at its place in the file.
fn difference(index: &CorpusIndex, corpus: &Corpus) -> Result<IndexDifference, VerifyIndexError> {
    let columns = index.files().columns();
    let (records, indexed, matrix) = (columns.records()?, columns.vectors(), corpus.matrix());
    let mut found = IndexDifference::default();
    for row in indexed.rows() {
        let record = records.record(row);
        match corpus.row_at(record.rowid.cast_unsigned()) {
            None => found.gone += 1,
            Some(at) => {
                let is_same = matrix.vector(at) == indexed.vector(row)
                    && corpus.id(at).unwrap_or_default() == record.id;
                *(if is_same { &mut found.same } else { &mut found.changed }) += 1;
            }
        }
    }
    found.fresh = matrix.len() as u64 - found.same - found.changed;
    Ok(found)
}

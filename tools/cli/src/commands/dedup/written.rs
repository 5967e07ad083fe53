//! The files of a run, written side by side and published at its end.

use std::num::NonZeroU32;
use std::path::PathBuf;

use memfold::dedup::{Clustering, DedupError, DedupSeconds, Member, each_logical_pair};
use memfold_datasets::annotate::{AnnotateError, Membership, annotate};
use memfold_datasets::parquet::WriteTableError;
use memfold_datasets::results::{
    ClusterRow, ClustersWriter, PairRow, PairsForm, PairsWriter, ResultOptions,
};
use memfold_index::{Pair, PairStream, Progress, Row};

use super::{Work, unclustered};
use crate::args::PairsFormArg;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::resources::Stopwatch;
use crate::settings;

/// Members between two looks at the wish to stop.
const BATCH_MEMBERS: usize = 65_536;

impl Work<'_> {
    /// Writes what was asked for and returns where. Nothing takes its place before everything but the
    /// annotated input is written, and that as a whole.
    pub(super) fn write(
        &self,
        pairs: &PairStream,
        clusterings: &[Clustering],
        seconds: &mut DedupSeconds,
    ) -> Result<Vec<PathBuf>, Failure> {
        let stopwatch = Stopwatch::start();
        let pairs = self.write_pairs(pairs)?;
        let clusters = self.write_clusters(clusterings)?;
        if self.bars.cancelled() {
            return Err(Failure::interrupted());
        }
        let mut written = Vec::new();
        if let (Some(path), [clustering]) = (&self.args.annotate, clusterings) {
            let memberships = Memberships::of(clustering, self.matrix.len());
            annotate(self.corpus, path, &|row| memberships.get(row), self.bars)
                .map_err(|error| unannotated(&error))?;
            written.push(path.clone());
        }
        if let (Some(writer), Some(path)) = (pairs, &self.args.pairs) {
            writer.finish().map_err(|error| unwritten("the pairs", &error))?;
            written.push(path.clone());
        }
        if let (Some(writer), Some(path)) = (clusters, &self.args.clusters) {
            writer.finish().map_err(|error| unwritten("the clusters", &error))?;
            written.push(path.clone());
        }
        seconds.write = stopwatch.seconds();
        Ok(written)
    }

    /// Writes the pairs at the lowest threshold: those at higher ones are among them.
    fn write_pairs(&self, pairs: &PairStream) -> Result<Option<PairsWriter>, Failure> {
        let Some(path) = &self.args.pairs else { return Ok(None) };
        let lowest = self.args.thresholds().first().map_or(1.0, |threshold| threshold.get());
        let options = ResultOptions { thresholds: &[lowest], threshold_column: false };
        let form = match self.args.pairs_form {
            PairsFormArg::Logical => PairsForm::All,
            PairsFormArg::Distinct => PairsForm::Distinct,
        };
        let failed = |error| unwritten("the pairs", &error);
        let mut writer = PairsWriter::create(path, &options, form).map_err(failed)?;
        let mut push = |Pair { left, right, similarity }| {
            let (left, right) = (self.corpus.ordinal(left), self.corpus.ordinal(right));
            let similarity = similarity.get();
            writer.push(PairRow { threshold: lowest, left, right, similarity }).map_err(failed)
        };
        match form {
            PairsForm::Distinct => {
                self.bars.begin("write pairs", Some(pairs.pair_count()));
                for (position, pair) in pairs.pairs().enumerate() {
                    self.watch(position)?;
                    push(pair)?;
                }
                self.bars.end();
            }
            PairsForm::All => {
                let scratch_dir = settings::scratch_dir();
                each_logical_pair(pairs, Some(&scratch_dir), self.bars, |pair| {
                    push(pair).map_err(Stopped::Unwritten)
                })?;
            }
        }
        Ok(Some(writer))
    }

    /// Writes the members of clusters by threshold, survivor and row.
    fn write_clusters(
        &self,
        clusterings: &[Clustering],
    ) -> Result<Option<ClustersWriter>, Failure> {
        let Some(path) = &self.args.clusters else { return Ok(None) };
        let thresholds: Vec<f64> = clusterings.iter().map(|one| one.threshold.get()).collect();
        let options =
            ResultOptions { thresholds: &thresholds, threshold_column: thresholds.len() > 1 };
        let failed = |error| unwritten("the clusters", &error);
        let has_ids = self.corpus.has_ids();
        let mut writer = ClustersWriter::create(path, &options, has_ids).map_err(failed)?;
        for clustering in clusterings {
            self.bars.begin("write clusters", Some(clustering.members.len() as u64));
            for (position, member) in clustering.members.iter().enumerate() {
                self.watch(position)?;
                let line = ClusterRow {
                    threshold: clustering.threshold.get(),
                    row: self.corpus.ordinal(member.row),
                    cluster: self.corpus.ordinal(member.survivor),
                    similarity: member.similarity.get(),
                    id: self.corpus.id(member.row),
                };
                writer.push(line).map_err(failed)?;
            }
            self.bars.end();
        }
        Ok(Some(writer))
    }

    /// Tells of progress now and then, and stops when the user asked to.
    fn watch(&self, position: usize) -> Result<(), Failure> {
        if (position + 1).is_multiple_of(BATCH_MEMBERS) {
            self.bars.advance(BATCH_MEMBERS as u64);
            if self.bars.cancelled() {
                return Err(Failure::interrupted());
            }
        }
        Ok(())
    }
}

/// The cluster of each row of a matrix.
struct Memberships<'a> {
    members: &'a [Member],
    /// Where each row stands among the members, and how many rows its cluster has.
    places: Vec<Option<(u32, NonZeroU32)>>,
}

impl<'a> Memberships<'a> {
    fn of(clustering: &'a Clustering, row_count: usize) -> Self {
        let mut places = vec![None; row_count];
        let mut position = 0;
        for cluster in clustering.clusters() {
            // There are no more members than rows, which have 32 bits.
            let size = NonZeroU32::new(cluster.len() as u32);
            for member in cluster {
                places[member.row.index()] = size.map(|size| (position, size));
                position += 1;
            }
        }
        Self { members: &clustering.members, places }
    }

    fn get(&self, row: Row) -> Option<Membership> {
        let (position, size) = self.places[row.index()]?;
        let Member { survivor, similarity, .. } = self.members[position as usize];
        Some(Membership { survivor, size: size.get().into(), similarity: similarity.get() })
    }
}

/// Why pairs were not all written.
enum Stopped {
    Unread(DedupError),
    Unwritten(Failure),
}

impl From<DedupError> for Stopped {
    fn from(error: DedupError) -> Self {
        Self::Unread(error)
    }
}

impl From<Stopped> for Failure {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Unread(error) => unclustered(&error),
            Stopped::Unwritten(failure) => failure,
        }
    }
}

/// The copy of the input could not be written.
pub(super) fn unannotated(error: &AnnotateError) -> Failure {
    match error {
        AnnotateError::Cancelled => Failure::interrupted(),
        AnnotateError::OutputFormat { .. } => {
            let hint = error.hint();
            Failure { exit: Exit::Usage, ..Failure::new("annotate the input", error, hint) }
        }
        error => Failure::new("annotate the input", error, error.hint()),
    }
}

fn unwritten(what: &str, error: &WriteTableError) -> Failure {
    Failure::new(&format!("write {what}"), error, error.hint())
}

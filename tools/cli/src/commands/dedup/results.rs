//! The results of `memfold dedup`: a screen, and files.

use std::cmp::Reverse;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use memfold::dedup::{Clustering, DedupError, DedupSeconds, Member, each_logical_pair};
use memfold::machine::Stopwatch;
use memfold::ops::{self, FailureKind};
use memfold_core::policy::name_of;
use memfold_core::report::{Commands, Recall, grouped, shell_words};
use memfold_datasets::DataError;
use memfold_datasets::annotate::{Membership, annotate};
use memfold_datasets::corpus::Corpus;
use memfold_datasets::results::{
    ClusterRow, ClustersWriter, PairRow, PairsForm, PairsWriter, ResultOptions,
};
use memfold_guard::text::excerpt;
use memfold_index::{Pair, PairStream, Progress, Row, TileSummary};

use super::join::{Work, unclustered};
use crate::commands::dedup::join::{JoinArg, PairsFormArg};
use crate::context::unreadable;
use crate::failure::Failure;
use crate::printer::{self, COLUMNS, line, table};
use crate::writing::counted;

/// Returns the screen of a run.
pub(super) fn screen(
    work: &Work<'_>,
    inputs: &[PathBuf],
    pairs: &PairStream,
    clusterings: &[Clustering],
) -> Result<String, Failure> {
    let mut lines = loaded(work, inputs, pairs);
    match clusterings {
        [one] => lines.extend(figures(work, one)),
        several => lines.extend(thresholds(work, several).lines().map(str::to_owned)),
    }
    // The lowest threshold: that is where a person has to look.
    if let Some(lowest) = clusterings.first() {
        lines.extend(examples(work, lowest)?);
    }
    lines.extend(next(work, clusterings));
    Ok(lines.iter().map(|line| format!("{line}\n")).collect())
}

/// Reports the tiles' savings and that the tiles stay.
pub(super) fn tiled(tiles: &TileSummary, dir: &Path) -> String {
    let resumed = match tiles.tasks_resumed {
        0 => String::new(),
        count => format!(", {} of them from an earlier run", grouped(count)),
    };
    format!(
        "{} of {} between {}{resumed}; they stay in {} ({}): remove it when you need it no more",
        grouped(tiles.tasks),
        counted(tiles.tasks_total, "task", "tasks"),
        counted(tiles.tiles, "tile", "tiles"),
        dir.display(),
        byte_size(tiles.tile_bytes)
    )
}

/// Returns a number of bytes in the largest fitting unit.
pub(crate) fn byte_size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let unit = (bytes.max(1).ilog2() / 10).min(4);
    match unit {
        0 => counted(bytes, "byte", "bytes"),
        _ => {
            format!("{:.1} {}", bytes as f64 / (1_u64 << (10 * unit)) as f64, UNITS[unit as usize])
        }
    }
}

fn loaded(work: &Work<'_>, inputs: &[PathBuf], pairs: &PairStream) -> Vec<String> {
    let corpus = work.corpus;
    let mut lines = vec![format!(
        "{} of {} from {} · {} distinct",
        counted(corpus.rows(), "row", "rows"),
        counted(corpus.dim() as u64, "dimension", "dimensions"),
        counted(inputs.len() as u64, "file", "files"),
        grouped(pairs.distinct_rows()),
    )];
    lines.extend(skipped_rows(corpus));
    lines
}

/// Names the rows without a usable vector, a line for each reason.
pub(crate) fn skipped_rows(corpus: &Corpus) -> Vec<String> {
    let mut lines = Vec::new();
    for (reason, count) in corpus.skipped().counts() {
        let examples = corpus.skipped().examples().iter().filter(|one| one.reason == reason);
        let places = examples.map(|one| {
            let name = one.path.file_name().unwrap_or_default().to_string_lossy();
            format!("{name} row {}", grouped(one.row))
        });
        let places = excerpt(&places.collect::<Vec<_>>().join(", "), 40);
        lines.push(format!("  {} skipped: {} ({places})", grouped(count), reason.name()));
    }
    lines
}

/// Duplicate rows as a share of the rows that took part.
fn share(work: &Work<'_>, clustering: &Clustering) -> String {
    let rows = work.matrix.len().max(1) as f64;
    format!("{:.1} %", clustering.duplicate_rows() as f64 / rows * 100.0)
}

fn figures(work: &Work<'_>, clustering: &Clustering) -> Vec<String> {
    let clusters = clustering.clusters().count() as u64;
    let pairs = format!(
        "{} at or above {}",
        counted(clustering.logical_pairs, "pair", "pairs"),
        clustering.threshold
    );
    let recall = Recall::from(clustering.recall);
    let pairs = match recall.sampled_rows {
        None => vec![format!("{pairs}, all of them (exact join)")],
        Some(rows) => vec![
            format!("{pairs}, found by a graph"),
            format!(
                "recall of different vectors {}, audited with {} rows",
                recall.estimate(3),
                grouped(rows)
            ),
        ],
    };
    let clusters = format!(
        "{} · {} ({} of the rows)",
        counted(clusters, "cluster", "clusters"),
        counted(clustering.duplicate_rows(), "duplicate row", "duplicate rows"),
        share(work, clustering)
    );
    [pairs, vec![clusters]].concat()
}

fn thresholds(work: &Work<'_>, clusterings: &[Clustering]) -> String {
    let is_measured = clusterings.iter().any(|one| one.recall.is_some());
    let rows = clusterings.iter().map(|one| {
        let mut row = vec![
            one.threshold.to_string(),
            grouped(one.logical_pairs),
            grouped(one.clusters().count() as u64),
            grouped(one.duplicate_rows()),
            share(work, one),
        ];
        row.extend(is_measured.then(|| Recall::from(one.recall).estimate(3)));
        row
    });
    let mut header = vec!["at or above", "pairs", "clusters", "duplicate rows", "of the rows"];
    header.extend(is_measured.then_some("recall"));
    let table = table(&header, rows.collect());
    let how = if is_measured {
        "pairs are found by a graph; recall is that of different vectors, by a sample"
    } else {
        "all pairs are found (exact join)"
    };
    format!("{table}{how}\n")
}

/// The largest clusters, and the members that are least like their survivor.
fn examples(work: &Work<'_>, clustering: &Clustering) -> Result<Vec<String>, Failure> {
    let shown = work.args.examples;
    let mut largest: Vec<&[Member]> = clustering.clusters().collect();
    largest.sort_by_key(|cluster| (Reverse(cluster.len()), cluster[0].survivor));
    largest.truncate(shown);
    let others = clustering.members.iter().filter(|member| member.row != member.survivor);
    let mut farthest: Vec<&Member> = others.collect();
    if farthest.len() > shown && shown > 0 {
        farthest.select_nth_unstable_by_key(shown, |member| (member.similarity, member.row));
    }
    farthest.truncate(shown);
    farthest.sort_unstable_by_key(|member| (member.similarity, member.row));
    let mut lines = Vec::new();
    if !largest.is_empty() {
        lines.extend([String::new(), "largest clusters".to_owned()]);
        let survivors: Vec<Row> = largest.iter().map(|cluster| cluster[0].survivor).collect();
        let names = names(work, &survivors)?;
        for (cluster, name) in largest.iter().zip(names) {
            lines.push(line(&format!("  {:>9} rows  {name}", grouped(cluster.len() as u64))));
        }
    }
    if !farthest.is_empty() {
        lines.extend([String::new(), "closest calls: least like the row that stays".to_owned()]);
        let rows: Vec<Row> = farthest.iter().flat_map(|m| [m.row, m.survivor]).collect();
        for (member, names) in farthest.iter().zip(names(work, &rows)?.chunks_exact(2)) {
            lines.push(line(&format!("  {:.6}  {}", member.similarity.get(), names[0])));
            lines.push(line(&format!("   stays:  {}", names[1])));
        }
    }
    Ok(lines)
}

/// The names of rows: ordinal, id and the beginning of the text, as far as they exist.
fn names(work: &Work<'_>, rows: &[Row]) -> Result<Vec<String>, Failure> {
    let texts = work.corpus.excerpts(rows).map_err(|error| unreadable(&error))?;
    let named = rows.iter().zip(texts).map(|(&row, text)| {
        let mut name = format!("row {}", grouped(work.corpus.ordinal(row)));
        if let Some(id) = work.corpus.id(row) {
            name.push_str(&format!(" ({})", excerpt(id, 24)));
        }
        if let Some(text) = text {
            name.push_str(&format!(": {}", excerpt(&text, COLUMNS)));
        }
        name
    });
    Ok(named.collect())
}

/// Names the command that writes the results, if nothing was written.
fn next(work: &Work<'_>, clusterings: &[Clustering]) -> Vec<String> {
    let args = work.args;
    let is_written = args.pairs.is_some() || args.clusters.is_some();
    let Some(clustering) = clusterings.first().filter(|one| !one.members.is_empty()) else {
        return vec!["nothing is there twice".to_owned()];
    };
    if let Some(path) = &args.annotate {
        let path = shell_words(&[&path.display().to_string()]);
        return vec![
            String::new(),
            line(&format!("next: keep the rows of {path} where is_survivor")),
        ];
    }
    if is_written {
        return Vec::new();
    }
    let mut words = vec!["memfold".to_owned(), "dedup".to_owned()];
    words.extend(args.inputs.iter().map(|input| input.display().to_string()));
    words.extend(["--threshold".to_owned(), clustering.threshold.to_string()]);
    if args.method != JoinArg::Exact {
        words.extend(["--method".to_owned(), name_of(args.method.join())]);
    }
    words.extend(["--annotate", "annotated.parquet"].map(str::to_owned));
    let lines =
        Commands { next: words, is_wrapped: printer::is_terminal(), ..Commands::default() }.lines();
    std::iter::once(String::new()).chain(lines).collect()
}

/// Members between two checks for cancellation.
const BATCH_MEMBERS: usize = 65_536;

impl Work<'_> {
    /// Writes the requested files and returns their paths. Nothing takes its place before
    /// everything but the annotated input is written, and that as a whole.
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

    /// Writes the pairs at the lowest threshold: they include the pairs at higher ones.
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
                let scratch_dir = ops::scratch_dir();
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

    /// Reports progress now and then, and stops when the user cancelled.
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
pub(super) fn unannotated(error: &DataError) -> Failure {
    match error {
        DataError::Format { .. } => {
            let hint = Some("name the copy with one of these extensions".to_owned());
            Failure::new("annotate the input", error, hint).of_kind(FailureKind::Usage)
        }
        error => Failure::of("annotate the input", error),
    }
}

fn unwritten(what: &str, error: &DataError) -> Failure {
    Failure::of(&format!("write {what}"), error)
}

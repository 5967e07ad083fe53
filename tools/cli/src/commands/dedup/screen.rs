//! What a person reads: figures, the largest clusters, the closest calls, what to do next.

use std::cmp::Reverse;
use std::path::PathBuf;

use memfold::dedup::{Clustering, Member};
use memfold_index::{PairStream, Row};
use memfold_model::text::excerpt;
use memfold_plan::report::{Commands, Recall, grouped, shell_words};

use super::{Work, unreadable};
use crate::failure::Failure;
use crate::printer::{self, table};

/// Lines are at most so wide, unless one word of a command is wider.
const COLUMNS: usize = 80;

/// Returns the screen of a run.
pub(super) fn screen(
    work: &Work<'_>,
    inputs: &[PathBuf],
    pairs: &PairStream,
    clusterings: &[Clustering],
) -> Result<String, Failure> {
    let mut text = String::new();
    let mut line = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    loaded(work, inputs, pairs).iter().for_each(|loaded| line(loaded));
    match clusterings {
        [one] => figures(work, one).iter().for_each(|figures| line(figures)),
        several => thresholds(work, several).lines().for_each(&mut line),
    }
    // The lowest threshold: that is where a person has to look.
    if let Some(lowest) = clusterings.first() {
        examples(work, lowest)?.iter().for_each(|example| line(example));
    }
    next(work, clusterings).iter().for_each(|next| line(next));
    Ok(text)
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { many })
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
            lines.push(fitted(&format!("  {:>9} rows  {name}", grouped(cluster.len() as u64))));
        }
    }
    if !farthest.is_empty() {
        lines.extend([String::new(), "closest calls: least like the row that stays".to_owned()]);
        let rows: Vec<Row> = farthest.iter().flat_map(|m| [m.row, m.survivor]).collect();
        for (member, names) in farthest.iter().zip(names(work, &rows)?.chunks_exact(2)) {
            lines.push(fitted(&format!("  {:.6}  {}", member.similarity.get(), names[0])));
            lines.push(fitted(&format!("   stays:  {}", names[1])));
        }
    }
    Ok(lines)
}

/// What rows are called: ordinal, id and the beginning of the text, as far as there are such.
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

/// Cuts a line to the screen's width.
fn fitted(line: &str) -> String {
    match line.char_indices().nth(COLUMNS) {
        None => line.to_owned(),
        Some(_) => line.chars().take(COLUMNS - 1).chain(['…']).collect(),
    }
}

/// Names the command that writes what was found, where nothing was written.
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
            fitted(&format!("next: keep the rows of {path} where is_survivor")),
        ];
    }
    if is_written {
        return Vec::new();
    }
    let mut words = vec!["memfold".to_owned(), "dedup".to_owned()];
    words.extend(args.inputs.iter().map(|input| input.display().to_string()));
    words.extend(["--threshold".to_owned(), clustering.threshold.to_string()]);
    if let Some(index) = args.graph_index() {
        words.extend(["--method", "graph"].map(str::to_owned));
        words.extend(args.index.iter().flat_map(|_| ["--index", index.name()]).map(str::to_owned));
    }
    words.extend(["--annotate", "annotated.parquet"].map(str::to_owned));
    let lines =
        Commands { next: words, is_folded: printer::is_terminal(), ..Commands::default() }.lines();
    std::iter::once(String::new()).chain(lines).collect()
}

//! `memfold dedup`: files of vectors in; near pairs and clusters out. No store involved.

mod forecast;
mod join;
mod results;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};
use memfold::dedup::{Clustering, DedupSeconds};
use memfold::machine::{MemoryWatch, Stopwatch};
use memfold::ops;
use memfold_core::policy::defaults::RECALL_TARGET;
use memfold_core::report::Recall;
use memfold_datasets::annotate;
use memfold_datasets::corpus::{Corpus, CorpusOptions};
use memfold_index::{Pool, Progress};
use memfold_simd::Similarity;

use self::join::{JoinArg, KeepArg, Work};
use crate::call::Call;
use crate::context::unreadable;
use crate::failure::{Exit, Failure};
use crate::outputs;
use crate::progress::Bars;

pub(crate) use self::join::DedupArgs;
pub(crate) use self::results::skipped_rows;

pub(crate) fn run(call: Call<'_>, args: &DedupArgs) -> Result<Exit, Failure> {
    if args.tiles.is_some() && args.method == JoinArg::Graph {
        return Err(Failure::usage(
            "--tiles cuts the exact join, --method graph is another",
            "leave one of the two out",
        ));
    }
    let inputs = expand(&args.inputs)?;
    check_outputs(args, &inputs)?;
    let watch = MemoryWatch::start();
    let (stopwatch, bars) = (Stopwatch::start(), Bars::new(call.printer));
    let pool = ops::pool(call.global.threads)?;
    let corpus = load(args, &inputs, &pool, &bars)?;
    if let Some(path) = &args.annotate {
        annotate::check(&corpus, path).map_err(|error| results::unannotated(&error))?;
    }
    if let Some(rows) = args.tiles_for {
        // At least one threshold is typed or the default.
        let lowest = args.thresholds().first().copied().unwrap_or(Similarity::ONE);
        return forecast::run(call, &corpus, rows, lowest);
    }
    let mut seconds = DedupSeconds { load: stopwatch.seconds(), ..DedupSeconds::default() };
    let work = Work { args, pool, corpus: &corpus, matrix: &corpus.matrix(), bars: &bars };
    let joined = work.join(&mut seconds)?;
    let (pairs, tiles) = &joined;
    work.check_pairs_fit(pairs)?;
    let clusterings = work.cluster(pairs, &mut seconds)?;
    let written = work.write(pairs, &clusterings, &mut seconds)?;
    seconds.total = stopwatch.seconds();
    if call.global.json {
        let mut report = work.report(&joined, &clusterings, seconds);
        (report.peak_rss_bytes, report.peak_anon_bytes) = watch.finish();
        call.printer.document(&report)?;
    } else {
        call.printer.data(&results::screen(&work, &inputs, pairs, &clusterings)?)?;
    }
    if let Some(remark) = clusterings.iter().find_map(remark) {
        call.printer.note(&remark);
    }
    if let (Some(tiles), Some(dir)) = (tiles, &args.tiles) {
        call.printer.note(&results::tiled(tiles, dir));
    }
    for path in written {
        call.printer.note(&format!("wrote {}", path.display()));
    }
    Ok(Exit::Done)
}

fn load(args: &DedupArgs, inputs: &[PathBuf], pool: &Pool, bars: &Bars) -> Result<Corpus, Failure> {
    let options = CorpusOptions {
        order_column: match &args.keep {
            KeepArg::First | KeepArg::MostCentral => None,
            KeepArg::Newest => Some("created_at".to_owned()),
            KeepArg::Column(name) => Some(name.clone()),
        },
        pool: Some(pool),
        ..args.columns.options(&ops::scratch_dir(), bars)
    };
    let corpus = Corpus::open(inputs, &options).map_err(|error| unreadable(&error))?;
    bars.end();
    Ok(corpus)
}

/// Warns if pairs may be missing.
fn remark(clustering: &Clustering) -> Option<String> {
    Recall::from(clustering.recall).remark(clustering.threshold, RECALL_TARGET)
}

/// Returns the files that the arguments name, in their order; matches of a pattern in the order of
/// their bytes.
///
/// A file that is called like a pattern is that file.
fn expand(arguments: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for argument in arguments {
        if argument.is_dir() {
            let pattern = argument.join("*.parquet");
            return Err(Failure::plain(
                format!("{} is a folder", argument.display()),
                format!("name its files, such as '{}'", pattern.display()),
            ));
        }
        let pattern = argument.to_str().filter(|text| text.contains(['*', '?', '[']));
        match pattern {
            Some(pattern) if argument.symlink_metadata().is_err() => {
                files.extend(matches(pattern)?)
            }
            _ => files.push(argument.clone()),
        }
    }
    check_once(&files)?;
    Ok(files)
}

/// Returns the files that a pattern matches, by the bytes of their paths.
fn matches(pattern: &str) -> Result<Vec<PathBuf>, Failure> {
    Pattern::new(pattern).map_err(|error| {
        Failure::plain(
            format!("{pattern}: not a pattern: {}", error.msg),
            "* stands for any characters, ? for one, [abc] for one of several, ** for folders",
        )
    })?;
    let (folder, rest) = match pattern.strip_prefix('/') {
        Some(rest) => (Path::new("/"), rest),
        None => (Path::new(""), pattern),
    };
    let parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
    let mut files = Vec::new();
    find(folder, &parts, &mut files)?;
    if files.is_empty() {
        return Err(Failure::plain(
            format!("no file matches {pattern}"),
            "check the folder and the ending of the pattern",
        ));
    }
    files.sort_unstable_by(|a, b| bytes(a).cmp(bytes(b)));
    files.dedup();
    Ok(files)
}

/// Adds the files in `folder` with paths that match the parts of a pattern. A name that is not
/// UTF-8 is compared with the replacement character in place of its other bytes.
fn find(folder: &Path, parts: &[&str], files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let Some((&part, rest)) = parts.split_first() else {
        if folder.is_file() {
            files.push(folder.to_owned());
        }
        return Ok(());
    };
    if part == "**" {
        find(folder, rest, files)?;
    } else if !part.contains(['*', '?', '[']) {
        return find(&folder.join(part), rest, files);
    }
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    if !here.is_dir() {
        return Ok(());
    }
    let failed = |error| Failure::new("look for files", &error, None);
    let options = MatchOptions { require_literal_leading_dot: true, ..MatchOptions::default() };
    for entry in here.read_dir().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = folder.join(entry.file_name());
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let matches = Pattern::new(part).is_ok_and(|part| part.matches_with(&name, options));
        match part {
            "**" if is_folder && !name.starts_with('.') => find(&path, parts, files)?,
            "**" => {}
            _ if matches => find(&path, rest, files)?,
            _ => {}
        }
    }
    Ok(())
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

/// Refuses a file that is named twice: all its rows would be duplicates.
fn check_once(files: &[PathBuf]) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    // A missing file is reported when it is opened.
    for file in files {
        if file.canonicalize().is_ok_and(|path| !seen.insert(path)) {
            return Err(Failure::usage(
                format!("{} is named twice", file.display()),
                "name each input once: all its rows would be duplicates",
            ));
        }
    }
    Ok(())
}

/// Refuses several thresholds where there is a column for one, and outputs that cannot be written.
fn check_outputs(args: &DedupArgs, inputs: &[PathBuf]) -> Result<(), Failure> {
    if args.annotate.is_some() && args.thresholds().len() > 1 {
        return Err(Failure::usage(
            "--annotate takes one threshold: a row has one cluster in it",
            "choose one, or write the clusters of all with --clusters",
        ));
    }
    let files =
        [("--pairs", &args.pairs), ("--clusters", &args.clusters), ("--annotate", &args.annotate)];
    outputs::check(&files, inputs, args.force)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_sorted_by_bytes_and_a_literal_file_wins() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.npy", "B.npy", "a[1].npy", "a1.npy", ".hidden.npy", "c.txt"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        std::fs::create_dir(folder.path().join("folder.npy")).unwrap();
        let names = |arguments: &[&str]| -> Vec<String> {
            let paths: Vec<_> = arguments.iter().map(|name| folder.path().join(name)).collect();
            let files = expand(&paths).map_err(|failure| failure.message).unwrap();
            files.iter().map(|f| f.file_name().unwrap().to_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(&["*.npy"]), ["B.npy", "a1.npy", "a[1].npy", "b.npy"]);
        assert_eq!(names(&["a[1].npy"]), ["a[1].npy"]);
        assert_eq!(names(&["c.txt", "?.npy"]), ["c.txt", "B.npy", "b.npy"]);
    }
}

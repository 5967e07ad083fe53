//! `memfold-bench export`: how fast a store becomes a file, beside the times that SQLite and the
//! disk take alone.

use std::io::Write as _;
use std::path::Path;

use memfold::machine::{MemoryWatch, Stopwatch};
use memfold::ops::{ExportFormat, ExportRequest, Settings, export, open_store, scratch_dir};
use memfold_bench::{percentile, put_out};
use memfold_cli::GlobalArgs;
use memfold_datasets::atomic_file::NewFile;
use memfold_store::BrainDb;
use memfold_terminal::failure::{Exit, Failure};
use memfold_terminal::printer::{Printer, table};
use memfold_terminal::progress::Bars;
use serde::Serialize;

/// `memfold-bench export --json`
#[derive(Debug, Serialize)]
struct BenchExportDocument {
    schema_version: u32,
    /// Embeddings of memories in the store.
    rows: u64,
    /// Bytes of their vectors as stored.
    vector_bytes: u64,
    /// Runs of each kind; they took turns.
    runs: usize,
    settings: Vec<Setting>,
}

/// One way of reading the store.
#[derive(Debug, Serialize)]
struct Setting {
    /// `sqlite` (every vector is read and dropped), `disk` (as many bytes are written, made durable and nothing else),
    /// `arrow` or `parquet` (an export).
    name: &'static str,
    /// Whether the store was put out of memory before each run.
    cold: bool,
    /// Median.
    seconds: f64,
    fastest_seconds: f64,
    slowest_seconds: f64,
    /// Bytes of stored vectors in a second of the median.
    bytes_per_second: f64,
    /// This speed as a share of SQLite's, as cold as this, by medians.
    of_sqlite: f64,
    /// Bytes of the file; `null` where there is none.
    file_bytes: Option<u64>,
    /// Bytes of anonymous memory at most, in any run.
    peak_anon_bytes: Option<u64>,
}

/// The kind of a measurement.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Sqlite,
    Disk,
    Export(ExportFormat),
}

/// One thing that is measured.
#[derive(Debug, Clone, Copy)]
struct Way {
    name: &'static str,
    kind: Kind,
    cold: bool,
}

/// The measurements, in the order of a turn; `cold` ones come last.
const WAYS: [Way; 6] = [
    Way { name: "sqlite", kind: Kind::Sqlite, cold: false },
    Way { name: "disk", kind: Kind::Disk, cold: false },
    Way { name: "arrow", kind: Kind::Export(ExportFormat::Arrow), cold: false },
    Way { name: "parquet", kind: Kind::Export(ExportFormat::Parquet), cold: false },
    Way { name: "sqlite", kind: Kind::Sqlite, cold: true },
    Way { name: "arrow", kind: Kind::Export(ExportFormat::Arrow), cold: true },
];

/// Bytes that are written at once where only the disk is measured.
const PIECE_BYTES: usize = 1 << 20;

/// The cost of one run of a kind.
#[derive(Debug, Clone, Copy)]
struct Run {
    seconds: f64,
    file_bytes: Option<u64>,
    peak_anon_bytes: Option<u64>,
}

impl Run {
    fn of(work: impl FnOnce() -> Result<(), Failure>) -> Result<Self, Failure> {
        let (watch, stopwatch) = (MemoryWatch::start(), Stopwatch::start());
        work()?;
        let (seconds, (_, peak_anon_bytes)) = (stopwatch.seconds(), watch.finish());
        Ok(Self { seconds, file_bytes: None, peak_anon_bytes })
    }
}

pub(crate) fn run(
    global: &GlobalArgs,
    args: &crate::args::ExportArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let settings = Settings::load(&global.sources, Some(&args.db.clone().into()), &[])?;
    settings.show_notices(&printer);
    let store = open_store(&args.db, &settings)?;
    let with_cold = args.cold && can_put_out(&store, printer);
    // The first pass reads the store into memory and is not counted.
    let (rows, bytes) = blobs(&store)?;
    let folder = scratch()?;
    let mut ways: Vec<(Way, Vec<Run>)> =
        WAYS.into_iter().filter(|way| with_cold || !way.cold).map(|way| (way, vec![])).collect();
    for turn in 0..args.runs {
        for (way, runs) in &mut ways {
            printer.detail(&format!("run {} of {}: {}", turn + 1, args.runs, way.text()));
            if way.cold {
                put_out(&[store.path().to_owned()]);
            }
            runs.push(match way.kind {
                Kind::Sqlite => Run::of(|| blobs(&store).map(drop))?,
                Kind::Disk => write_alone(folder.path(), bytes)?,
                Kind::Export(format) => {
                    export_once(args, format, &settings, folder.path(), printer)?
                }
            });
        }
    }
    let document = document(args.runs, rows, bytes, &ways);
    printer.show(global.json, &document, || screen(&document, &ways))
}

fn can_put_out(store: &BrainDb, printer: Printer) -> bool {
    let can = put_out(&[store.path().to_owned()]);
    if !can {
        printer.note("note: files cannot be put out of memory here: nothing cold was measured");
    }
    can
}

impl Way {
    /// Describes it in some words.
    fn text(self) -> String {
        let cold = if self.cold { ", cold" } else { "" };
        match self.kind {
            Kind::Sqlite => format!("SQLite alone{cold}"),
            Kind::Disk => format!("the disk alone{cold}"),
            Kind::Export(_) => format!("export to {}{cold}", self.name),
        }
    }
}

fn scratch() -> Result<tempfile::TempDir, Failure> {
    let folder = scratch_dir();
    tempfile::tempdir_in(&folder).map_err(|error| {
        let hint = "name a folder with room for the exports with TMPDIR".to_owned();
        Failure::new(&format!("write to {}", folder.display()), &error, Some(hint))
    })
}

/// Reads every vector; returns their rows and bytes.
fn blobs(store: &BrainDb) -> Result<(u64, u64), Failure> {
    let read = store.read_blobs().map_err(|error| {
        let hint = error.hint();
        Failure::new(&format!("read {}", store.path().display()), &error, hint)
    })?;
    if read.bytes == 0 {
        let hint = "`memfold doctor` tells why vectors are left out";
        return Err(Failure::plain("the store has no vectors to export", hint));
    }
    Ok((read.rows, read.bytes))
}

/// Writes this many incompressible bytes in the way exports are written.
fn write_alone(folder: &Path, bytes: u64) -> Result<Run, Failure> {
    let output = folder.join("bytes");
    let piece: Vec<u8> = (0..PIECE_BYTES as u32)
        .map(|at| (at.wrapping_mul(2_654_435_761).rotate_left(at % 31) >> 13) as u8)
        .collect();
    let write = || {
        let mut file = NewFile::create(&output)?;
        let mut left = bytes;
        while left > 0 {
            let piece = &piece[..left.min(PIECE_BYTES as u64) as usize];
            file.write_all(piece)?;
            left -= piece.len() as u64;
        }
        file.publish()
    };
    let failed = |error| Failure::new(&format!("write {}", output.display()), &error, None);
    let run = Run::of(|| write().map(drop).map_err(failed))?;
    remove(&output)?;
    Ok(Run { file_bytes: Some(bytes), ..run })
}

/// Removes the output, so that the next one finds as much room.
fn remove(output: &Path) -> Result<(), Failure> {
    std::fs::remove_file(output)
        .map_err(|error| Failure::new(&format!("remove {}", output.display()), &error, None))
}

fn export_once(
    args: &crate::args::ExportArgs,
    format: ExportFormat,
    settings: &Settings,
    folder: &Path,
    printer: Printer,
) -> Result<Run, Failure> {
    let output = folder.join("rows");
    let request = ExportRequest {
        output: output.clone(),
        format: Some(format),
        with: Vec::new(),
        model: None,
    };
    let bars = Bars::new(printer);
    let run = Run::of(|| export(&args.db, settings, &request, format, &bars).map(drop))?;
    let file_bytes = std::fs::metadata(&output).ok().map(|metadata| metadata.len());
    remove(&output)?;
    Ok(Run { file_bytes, ..run })
}

fn document(
    count: usize,
    rows: u64,
    vector_bytes: u64,
    ways: &[(Way, Vec<Run>)],
) -> BenchExportDocument {
    let share_of = |runs: &[Run], share| {
        percentile(&runs.iter().map(|run| run.seconds).collect::<Vec<_>>(), share)
    };
    let median = |runs: &[Run]| share_of(runs, 0.5);
    let alone = |cold: bool| {
        let is_alone = |way: &Way| way.cold == cold && matches!(way.kind, Kind::Sqlite);
        ways.iter().find(|(way, _)| is_alone(way)).map_or(f64::NAN, |(_, runs)| median(runs))
    };
    let settings = ways.iter().map(|(way, runs)| {
        let seconds = median(runs);
        Setting {
            name: way.name,
            cold: way.cold,
            seconds,
            fastest_seconds: share_of(runs, 0.0),
            slowest_seconds: share_of(runs, 1.0),
            bytes_per_second: vector_bytes as f64 / seconds,
            of_sqlite: alone(way.cold) / seconds,
            file_bytes: runs.iter().find_map(|run| run.file_bytes),
            peak_anon_bytes: runs.iter().filter_map(|run| run.peak_anon_bytes).max(),
        }
    });
    let settings = settings.collect();
    BenchExportDocument { schema_version: 1, rows, vector_bytes, runs: count, settings }
}

fn screen(document: &BenchExportDocument, ways: &[(Way, Vec<Run>)]) -> String {
    let mebibytes = |bytes: f64| bytes / f64::from(1 << 20);
    let rows = document.settings.iter().zip(ways).map(|(setting, (way, _))| {
        vec![
            way.text(),
            format!("{:.2}", setting.seconds),
            format!("{:.0}", mebibytes(setting.bytes_per_second)),
            format!("{:.0} %", setting.of_sqlite * 100.0),
            setting
                .peak_anon_bytes
                .map_or_else(String::new, |bytes| format!("{:.0}", mebibytes(bytes as f64))),
        ]
    });
    let headings = ["", "seconds", "MiB/s", "of SQLite's speed", "anonymous MiB"];
    let mut text = table(&headings, rows.collect::<Vec<_>>());
    let vectors = mebibytes(document.vector_bytes as f64);
    text.push_str(&format!("\n{} vectors of {vectors:.0} MiB\n", document.rows));
    if document.settings.iter().any(|setting| setting.cold) {
        text.push_str("cold: nothing of the store in memory\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_medians() {
        let runs = |seconds: [f64; 3]| {
            seconds
                .map(|seconds| Run { seconds, file_bytes: Some(9), peak_anon_bytes: None })
                .to_vec()
        };
        let took =
            [[3.0, 1.0, 2.0], [1.0; 3], [8.0, 2.0, 4.0], [4.0, 2.0, 1.0], [9.0; 3], [6.0; 3]];
        let ways: Vec<_> = WAYS.into_iter().zip(took.map(runs)).collect();
        let document = document(3, 10, 400, &ways);
        let found: Vec<_> = document.settings.iter().map(|s| (s.seconds, s.of_sqlite)).collect();
        assert_eq!(found, [(2.0, 1.0), (1.0, 2.0), (4.0, 0.5), (2.0, 1.0), (9.0, 1.0), (6.0, 1.5)]);
        let arrow = &document.settings[2];
        assert_eq!((arrow.fastest_seconds, arrow.slowest_seconds), (2.0, 8.0));
        assert_eq!(arrow.bytes_per_second.to_bits(), 100.0_f64.to_bits());
        assert_eq!((document.settings[0].name, document.settings[0].cold), ("sqlite", false));
        let shown = screen(&document, &ways);
        assert!(shown.contains("export to arrow, cold"), "{shown}");
    }
}

//! `memfold-bench check`: how long checks take, in this process and as whole processes, alone and
//! beside writers.

mod processes;
mod service;

use std::path::Path;

use memfold::machine::{MemoryWatch, clock};
use memfold::ops::{Settings, open_quick_check};
use memfold::quick_check::{Incoming, QuickCheck};
use memfold_bench::{percentile, put_out};
use memfold_cli::{GlobalArgs, check_outputs, write_output};
use memfold_terminal::failure::{Exit, Failure};
use memfold_terminal::printer::{Printer, table};
use serde::Serialize;

use self::processes::{Executable, Place, Writers};
use self::service::Service;
use crate::args::CheckArgs;
use crate::common::timed;
use crate::plot::{Caption, Distribution, histogram};

/// Checks before the measurement: they read its data into memory.
const WARMING: usize = 32;
/// Checks with nothing in memory: each begins by putting it out.
const COLD: usize = 15;

memfold_terminal::documents! { "bench-check" => BenchCheckDocument }

/// `memfold-bench check --json`
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct BenchCheckDocument {
    schema_version: u32,
    /// `graph`, `scan`, or `none`.
    index: String,
    /// Rows of the index.
    rows: u64,
    /// Checks of each setting, but for cold ones.
    checks: usize,
    settings: Vec<Setting>,
    /// Bytes of anonymous memory at most, of this process while it checked.
    peak_anon_bytes: Option<u64>,
    isa: &'static str,
}

/// What was measured in one way.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Setting {
    /// `in_process`, `process`, `version` (a process that does nothing), `beyond_version` (pairs of both), `http` or
    /// `mcp` (through a server); `in_process_save` and `http_save` save.
    mode: &'static str,
    /// Processes that saved meanwhile.
    writers: usize,
    /// Memories that they saved.
    saved: u64,
    /// Whether nothing was in memory.
    cold: bool,
    /// Checks measured.
    count: usize,
    /// Of them, those that looked through everything in time.
    checked: usize,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
    #[serde(skip)]
    microseconds: Vec<f64>,
}

pub(crate) fn run(
    global: &GlobalArgs,
    args: &CheckArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    check_outputs(&[("--histogram", &args.histogram)], &[args.place.db.to_path_buf()], args.force)?;
    let settings = Settings::load(&global.sources, Some(&args.place.db), &[])?;
    settings.show_notices(&printer);
    let is_written = args.writers > 0 || args.server.is_some();
    let place = Place::of(&args.place, &settings, is_written)?;
    let document = measure(global, args, &place, &settings, printer)?;
    if let Some(path) = &args.histogram {
        draw(path, args, &document)?;
        printer.note(&format!("wrote {}", path.display()));
    }
    printer.show(global.json, &document, || screen(&document))
}

fn measure(
    global: &GlobalArgs,
    args: &CheckArgs,
    place: &Place,
    settings: &Settings,
    printer: Printer,
) -> Result<BenchCheckDocument, Failure> {
    let store = place.args();
    let quick_check = open_quick_check(&store.db, store.index_dir.as_deref(), settings)?;
    let sampled = quick_check.sample(args.checks + WARMING, clock());
    let mut sample =
        sampled.map_err(|error| Failure::new("read the store", &error, error.hint()))?;
    if sample.is_empty() {
        let hint = "checks are measured by memories like those of the store";
        return Err(Failure::plain("no memory of the store has a vector", hint));
    }
    let warming = sample.split_off(args.checks.min(sample.len()));
    let executable = Executable::find(global, args.memfold.as_deref(), store)?;
    // Looking at memory takes time of its own, so that is done while nothing is timed.
    let watch = MemoryWatch::start();
    in_process(&quick_check, &warming);
    let (_, peak_anon_bytes) = watch.finish();
    let mut service = match &args.server {
        Some(path) => Some(Service::start(path, &executable)?),
        None => None,
    };
    let mut found = Vec::new();
    let mut index = None;
    let with_writers = [0, args.writers];
    let rounds = &with_writers[..1 + usize::from(args.writers > 0)];
    for writers in rounds {
        printer.detail(&format!("measuring beside {writers} writers"));
        let beside = Writers::start(*writers, args.rate, &executable)?;
        let (times, used) = in_process(&quick_check, &sample);
        let mut push = |mode, times| found.push(Setting::of(mode, *writers, false, times));
        push("in_process", times);
        index = index.or(Some(used));
        let [whole, version, beyond] = executable.pairs(&sample)?;
        push("process", whole);
        push("version", version);
        push("beyond_version", beyond);
        if let Some(service) = &mut service {
            service.post("/v1/check", &warming)?;
            push("http", service.post("/v1/check", &sample)?);
            service.call(&warming)?;
            push("mcp", service.call(&sample)?);
            // Saved rows make checks slower until they are sealed, so saves come last.
            if Some(writers) == rounds.last() {
                found.extend(saves(&quick_check, service, *writers, &sample)?);
            }
        }
        let saved = beside.stop()?;
        for setting in found.iter_mut().filter(|setting| setting.writers == *writers) {
            setting.saved = saved;
        }
    }
    drop(service);
    // Files mapped by this process stay in memory.
    drop(quick_check);
    if args.cold {
        found.extend(cold(place, &executable, &sample, printer)?);
    }
    let (kind, rows) = index.unwrap_or_default();
    Ok(BenchCheckDocument {
        schema_version: 1,
        index: kind,
        rows,
        checks: sample.len(),
        settings: found,
        peak_anon_bytes,
        isa: memfold_simd::Kernels::active().level().name(),
    })
}

/// How long each of some checks or saves took, and how many of them searched everything.
#[derive(Debug, Default)]
struct Times {
    microseconds: Vec<f64>,
    checked: usize,
}

impl Times {
    /// Does one thing after the other; `one` returns its microseconds, and whether everything was searched.
    fn of(
        memories: &[Incoming],
        mut one: impl FnMut(&Incoming) -> Result<(f64, bool), Failure>,
    ) -> Result<Self, Failure> {
        let mut times = Self::default();
        for incoming in memories {
            let (microseconds, was_checked) = one(incoming)?;
            times.push(microseconds, was_checked);
        }
        Ok(times)
    }

    fn push(&mut self, microseconds: f64, was_checked: bool) {
        self.microseconds.push(microseconds);
        self.checked += usize::from(was_checked);
    }
}

/// Checks one after the other; returns the times, and the kind and the rows of the index.
fn in_process(quick_check: &QuickCheck, sample: &[Incoming]) -> (Times, (String, u64)) {
    let (mut times, mut used) = (Times::default(), (String::new(), 0));
    for incoming in sample {
        let now = clock();
        let (check, took) = timed(|| quick_check.check(incoming, now));
        let check = check.expect("samples are memories of a store");
        times.push(took, check.checked);
        used = (check.index.kind.to_owned(), check.index.rows);
    }
    (times, used)
}

/// Saves new memories, in this process and through a server.
fn saves(
    quick_check: &QuickCheck,
    service: &Service,
    writers: usize,
    sample: &[Incoming],
) -> Result<[Setting; 2], Failure> {
    let new = |way: &str| -> Vec<Incoming> {
        let text = |number| Some(format!("Noted {way}, event {number} of those that nobody knew"));
        let numbered = sample.iter().enumerate();
        numbered
            .map(|(at, memory)| Incoming { id: None, text: text(at), ..memory.clone() })
            .collect()
    };
    let times = Times::of(&new("in process"), |incoming| {
        let (saved, took) = timed(|| quick_check.save(incoming, clock()));
        let saved = saved.map_err(|error| Failure::new("save", &error, error.hint()))?;
        Ok((took, saved.check.checked))
    })?;
    let in_process = Setting::of("in_process_save", writers, false, times);
    let times = service.post("/v1/save", &new("over HTTP"))?;
    Ok([in_process, Setting::of("http_save", writers, false, times)])
}

/// Whole processes with nothing in memory; none where the system does not let us put it out.
fn cold(
    place: &Place,
    executable: &Executable,
    sample: &[Incoming],
    printer: Printer,
) -> Result<Option<Setting>, Failure> {
    let mut times = Times::default();
    for incoming in sample.iter().take(COLD) {
        if !put_out(&place.files()) {
            printer.note("note: files cannot be put out of memory here: nothing cold was measured");
            return Ok(None);
        }
        let (took, was_checked) = executable.check(incoming)?;
        times.push(took, was_checked);
    }
    Ok(Some(Setting::of("process", 0, true, times)))
}

impl Setting {
    fn of(mode: &'static str, writers: usize, cold: bool, times: Times) -> Self {
        let Times { microseconds, checked } = times;
        let at = |share| percentile(&microseconds, share).round();
        Self {
            mode,
            writers,
            saved: 0,
            cold,
            count: microseconds.len(),
            checked,
            p50_us: at(0.5),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: at(1.0),
            microseconds,
        }
    }

    /// Describes it in some words.
    fn name(&self) -> String {
        let mode = match self.mode {
            "in_process" => "in process",
            "process" => "whole process",
            "version" => "--version",
            "http" => "over HTTP",
            "mcp" => "over MCP",
            "in_process_save" => "save in process",
            "http_save" => "save over HTTP",
            _ => "beyond --version",
        };
        let cold = if self.cold { ", cold" } else { "" };
        let beside = match self.writers {
            0 => String::new(),
            writers => format!(", {writers} writers"),
        };
        format!("{mode}{cold}{beside}")
    }
}

fn draw(path: &Path, args: &CheckArgs, document: &BenchCheckDocument) -> Result<(), Failure> {
    let distributions: Vec<Distribution> = document
        .settings
        .iter()
        .filter(|setting| setting.mode != "beyond_version")
        .map(|setting| Distribution {
            name: setting.name(),
            microseconds: setting.microseconds.clone(),
        })
        .collect();
    let BenchCheckDocument { rows, checks, isa, .. } = document;
    let store = args.place.db.file_name().unwrap_or_default().to_string_lossy();
    let title = format!("Checks of {store}");
    let details = format!("{rows} rows, {checks} checks of each kind, {isa}");
    let svg = histogram(&Caption { title: &title, details: &details }, &distributions);
    write_output(path, &svg)
}

/// Returns the text for the screen.
fn screen(document: &BenchCheckDocument) -> String {
    let rows = document.settings.iter().map(|setting| {
        let us = |value: f64| match value {
            value if value.abs() >= 10_000.0 => format!("{:.1} ms", value / 1e3),
            value => format!("{:.2} ms", value / 1e3),
        };
        vec![
            setting.name(),
            us(setting.p50_us),
            us(setting.p99_us),
            us(setting.p999_us),
            us(setting.max_us),
            format!("{}/{}", setting.checked, setting.count),
        ]
    });
    let mut text =
        table(&["check", "p50", "p99", "p99.9", "max", "in full"], rows.collect::<Vec<_>>());
    let BenchCheckDocument { index, rows, isa, .. } = document;
    text.push_str(&format!("\n{rows} rows, index: {index}; {isa}\n"));
    let saved = document.settings.iter().map(|setting| setting.saved).max().unwrap_or(0);
    if saved > 0 {
        text.push_str(&format!("writers saved {saved} memories into a copy of the store\n"));
    }
    if let Some(bytes) = document.peak_anon_bytes {
        let mebibytes = bytes as f64 / f64::from(1 << 20);
        text.push_str(&format!("anonymous memory of this process: {mebibytes:.1} MiB\n"));
    }
    text
}

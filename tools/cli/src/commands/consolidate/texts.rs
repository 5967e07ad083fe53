//! `memfold consolidate FILE`: a file of texts, which is never changed.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use memfold::consolidate::Outcome;
use memfold::machine::MemoryWatch;
use memfold::mirror::mirror_path;
use memfold::ops::{ConsolidateDocument, Settings, Written, planning_failure, with_run_context};
use memfold::texts::{Answers, RemovedRecord, TextStore};
use memfold_core::plan::Risk;
use memfold_core::report::{Commands, MergeSample, Mode, Report, grouped, screen, shell_words};
use memfold_datasets::DataError;
use memfold_datasets::atomic_file::NewFile;
use memfold_datasets::texts::TextFile;
use memfold_guard::text::excerpt;

use super::ConsolidateArgs;
use crate::call::Call;
use crate::commands::import::{is_stdin, read_texts};
use crate::context::{data_hint, open_store};
use crate::failure::{Exit, Failure};
use crate::outputs::{Existing, Outputs};
use crate::printer::{self, Printer};
use crate::progress::Bars;
use crate::writing::{self, counted};

/// Number of listed entries of each kind.
const LISTED: usize = 5;
/// Characters of a text in a list, which is indented.
const TEXT_CHARS: usize = 72;

pub(super) fn run(call: Call<'_>, args: &ConsolidateArgs) -> Result<Exit, Failure> {
    refuse(args)?;
    let (sources, scope) = (&call.global.sources, &args.request.scope);
    let settings = Settings::load(sources, Some(&args.db), &scope.flags())?;
    settings.show_notices(&call.printer);
    let removed_path = args.output.as_deref().map(removed_path);
    let mut outputs = Outputs::beside([&*args.db].into_iter().chain(sources.config.as_deref()));
    for (flag, path) in
        [("--output", args.output.as_deref()), ("the list of --output", removed_path.as_deref())]
    {
        if let Some(path) = path {
            outputs.take(flag, path, Existing::Never)?;
        }
    }
    writing::check_files(&args.request.files, outputs)?;
    let file = read_texts(&args.db, &args.fields.fields(None))?;
    tell(&file, args, call.printer)?;
    let answers = answers(call, &args.db, &settings, &file)?;
    if !answers.is_empty() {
        call.printer.note("note: the answers of memfold review count");
    }
    let store = TextStore::new(&file).with_answers(answers);
    let watch = MemoryWatch::start();
    let (now, threads, bars) = (scope.now.as_deref(), call.global.threads, Bars::new(call.printer));
    let mut outcome = with_run_context(&settings, now, threads, &bars, |guard, context| {
        let planned = store.consolidate(&settings.configuration.policy, guard, context);
        planned.map_err(|error| planning_failure(&args.db, &error))
    })?;
    drop(bars);
    outcome.plan.overrides = scope.overrides(sources, false);
    let report = &mut outcome.report;
    let (peak_rss, peak_anon) = watch.finish();
    (report.peak_rss_bytes, report.peak_anon_bytes) =
        (peak_rss.unwrap_or(0), peak_anon.unwrap_or(0));
    let removed = store.removed(&outcome.plan);
    if let Some(output) = &args.output {
        if let Some(expected) = &args.request.expect
            && *expected != report.plan_digest
        {
            return Err(Failure::plain(
                format!("the plan is {}, expected {expected}", report.plan_digest),
                "look at the plan again: the file or the configuration changed",
            ));
        }
        report.mode = Mode::Execute;
        report.executed.applied = removed.len() as u64;
        write(&file, &args.db, output, &removed)?;
    }
    finish(call, args, &outcome)?;
    let pending = args.exit_code && args.output.is_none() && outcome.plan.changes() > 0;
    Ok(if pending { Exit::ChangesPending } else { Exit::Done })
}

/// Refuses options that need a store.
fn refuse(args: &ConsolidateArgs) -> Result<(), Failure> {
    let of_stores = [
        ("--save-plan", args.request.save_plan),
        ("--incremental", args.request.incremental),
        ("--budget", args.budget.is_some()),
        ("--judge", args.request.judge.is_some()),
        ("--limit", args.request.limit.is_some()),
        ("--metrics", args.request.files.metrics.is_some()),
    ];
    if let Some((flag, _)) = of_stores.iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::usage(
            format!("{flag}: {} is a file of texts, not a store", args.db.display()),
            format!(
                "make a store of it: {}",
                shell_words(&[
                    "memfold",
                    "import",
                    &args.db.to_string_lossy(),
                    "--into",
                    "brain.db"
                ])
            ),
        ));
    }
    if args.request.execute && !args.request.dry_run && args.output.is_none() {
        return Err(Failure::usage(
            "--execute: a file of texts is never changed",
            format!("name the file to write: --output {}", output_word(&args.db)),
        ));
    }
    Ok(())
}

/// Reports the detected form of the file, and the parts that were left out.
fn tell(file: &TextFile, args: &ConsolidateArgs, printer: Printer) -> Result<(), Failure> {
    let shape = file.shape.map_or_else(String::new, |shape| format!(" (as {shape} exports them)"));
    let count = counted(file.records.len() as u64, "text", "texts");
    printer.detail(&format!("{count} in {}{shape}", file.form.name()));
    for note in file.skipped_notes() {
        if args.fields.strict {
            return Err(Failure::plain(note, "mend these lines, or leave --strict out"));
        }
        printer.note(&format!("note: {note}"));
    }
    if !file.deleted.is_empty() {
        let count = counted(file.deleted.len() as u64, "record is", "records are");
        printer.note(&format!("note: {count} marked as deleted and left alone"));
    }
    if !file.passed_over.is_empty() {
        let names: Vec<String> = file.passed_over.iter().map(|name| excerpt(name, 40)).collect();
        printer.detail(&format!("fields passed over: {}", names.join(", ")));
    }
    Ok(())
}

/// Reads a person's answers about a file, in its mirror; no answers where there is none.
fn answers(
    call: Call<'_>,
    path: &Path,
    settings: &Settings,
    file: &TextFile,
) -> Result<Answers, Failure> {
    let mirror = call.global.mirror.clone().unwrap_or_else(|| mirror_path(path));
    if is_stdin(path) || !mirror.exists() {
        return Ok(Answers::default());
    }
    let store = open_store(&mirror, settings)?;
    Answers::read(&store, file)
        .map_err(|error| Failure::of(&format!("read the answers in {}", mirror.display()), &error))
}

/// Where the list of removed records stands.
fn removed_path(output: &Path) -> PathBuf {
    let mut path = output.as_os_str().to_owned();
    path.push(".removed.jsonl");
    path.into()
}

/// `notes.csv` is written as `notes.clean.csv`.
pub(crate) fn output_word(input: &Path) -> String {
    if is_stdin(input) {
        return "clean.txt".to_owned();
    }
    let extension = input.extension().map(|extension| extension.to_string_lossy().into_owned());
    let extension = extension.map_or_else(String::new, |extension| format!(".{extension}"));
    let clean = input.with_extension(format!("clean{extension}"));
    writing::path_word(&clean)
}

/// Writes the file without removed records, and their list before it.
fn write(
    file: &TextFile,
    input: &Path,
    output: &Path,
    removed: &BTreeMap<usize, RemovedRecord>,
) -> Result<(), Failure> {
    let create = |path: &Path| match is_stdin(input) {
        true => NewFile::create(path),
        false => NewFile::create_like(path, input),
    };
    let list = removed_path(output);
    let write_list = || -> io::Result<()> {
        let mut out = create(&list)?;
        for record in removed.values() {
            serde_json::to_writer(&mut out, record)?;
            out.write_all(b"\n")?;
        }
        out.publish().map(drop)
    };
    let failed = |path: &Path| format!("write {}", path.display());
    write_list().map_err(|error| Failure::new(&failed(&list), &error, None))?;
    let write_texts = || -> Result<(), DataError> {
        let mut out = create(output)?;
        file.write(&|index| !removed.contains_key(&index), &mut out)?;
        Ok(out.publish().map(drop)?)
    };
    write_texts().map_err(|error| Failure::new(&failed(output), &error, data_hint(&error)))
}

/// Writes the files of the run and shows the results.
fn finish(call: Call<'_>, args: &ConsolidateArgs, outcome: &Outcome) -> Result<(), Failure> {
    let (report, files) = (&outcome.report, &args.request.files);
    let mut written = Written::default();
    files.write_plan(&outcome.plan, &mut written);
    files.write_report(report, &args.db, false, &call.printer, &mut written);
    if let Some(failure) = written.failures.pop() {
        return Err(failure);
    }
    if call.global.json {
        return call.printer.document(&ConsolidateDocument::of(report));
    }
    let mut next = Vec::new();
    if args.output.is_none() {
        let path =
            if is_stdin(&args.db) { "-".into() } else { writing::path_word(args.db.named()) };
        next.extend(["memfold", "consolidate", &path].map(str::to_owned));
        next.extend(["--execute", "--output", &output_word(&args.db)].map(str::to_owned));
        next.extend(args.repeated().global(call.global).into_vec());
    }
    let commands = Commands { next, undo: Vec::new(), is_wrapped: printer::is_terminal() };
    call.printer.data(&format!("{}{}", screen(report, &commands), listing(report)))?;
    writing::tell_written(&written, &args.db, &report.run_id, call.printer);
    match &args.output {
        Some(output) => call.printer.note(&format!(
            "wrote {}; {} left out, listed in {}",
            output.display(),
            counted(report.executed.applied, "text is", "texts are"),
            removed_path(output).display()
        )),
        None => call.printer.note("dry run: nothing was written"),
    }
    Ok(())
}

/// The first merges of other words, conflicts and proposals, with their texts.
fn listing(report: &Report) -> String {
    let samples = &report.samples;
    let shown = |text: &str| excerpt(text, TEXT_CHARS);
    let texts = |merge: &MergeSample| {
        let merged = merge.merged.iter().map(|merged| shown(&merged.row.excerpt));
        (shown(&merge.survivor.excerpt), merged.collect())
    };
    let merges = samples.merges.iter().filter(|merge| merge.risk != Risk::Identical).map(texts);
    let proposals = samples.proposals.iter().map(texts);
    let conflicts = samples
        .contradictions
        .iter()
        .map(|pair| (shown(&pair.older.excerpt), vec![shown(&pair.newer.excerpt)]));
    let mut text = list("the same in other words, merged:", "=", merges.collect());
    text.push_str(&list("in conflict, both kept:", "≠", conflicts.collect()));
    text.push_str(&list("probably the same, both kept:", "~", proposals.collect()));
    text
}

fn list(title: &str, sign: &str, groups: Vec<(String, Vec<String>)>) -> String {
    if groups.is_empty() {
        return String::new();
    }
    let mut text = format!("{title}\n");
    for (first, others) in groups.iter().take(LISTED) {
        text.push_str(&format!("    {first}\n"));
        for other in others.iter().take(LISTED) {
            text.push_str(&format!("  {sign} {other}\n"));
        }
    }
    let more = groups.len().saturating_sub(LISTED) as u64;
    if more > 0 {
        text.push_str(&format!("  … {} more (--report FILE lists them)\n", grouped(more)));
    }
    text
}

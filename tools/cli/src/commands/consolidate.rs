//! `memfold consolidate`: detect → plan → report. Writes nothing to the store.

use std::path::Path;
use std::time::Duration;

use memfold_pipeline::consolidate::{Outcome, RunContext, consolidate};
use memfold_pipeline::policy::JoinMethod;
use memfold_pipeline::report::{
    Commands, Report, screen, write_plan, write_report, write_report_in,
};
use memfold_pipeline::store::BrainDb;
use memfold_pipeline::store::brain_db::OpenOptions;
use memfold_simd::Kernels;
use serde_json::Value;

use crate::args::{ConsolidateArgs, GlobalArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::progress::Bars;
use crate::resources::{MemoryWatch, Stopwatch};
use crate::settings::{self, FlagValue, Settings};

pub(crate) fn run(
    global: &GlobalArgs,
    args: &ConsolidateArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let settings = Settings::load(global, Some(&args.db), &flags(args)?)?;
    settings.show_notices(printer);
    let watch = MemoryWatch::start();
    let mut outcome = plan_store(global, args, &settings, printer)?;
    let (peak_rss, peak_anon) = watch.finish();
    // 0 where the system does not tell.
    outcome.report.peak_rss_bytes = peak_rss.unwrap_or(0);
    outcome.report.peak_anon_bytes = peak_anon.unwrap_or(0);
    let written = write_files(args, &outcome)?;
    if global.json {
        printer.json(&summary(&outcome.report)?)?;
    } else {
        printer.data(&screen(&outcome.report, &commands(args)))?;
        printer.note("dry run: nothing was written to the store");
    }
    for path in written {
        printer.note(&format!("wrote {path}"));
    }
    let pending = args.exit_code && outcome.plan.changes() > 0;
    Ok(if pending { Exit::ChangesPending } else { Exit::Done })
}

/// Opens the store that a command names.
pub(crate) fn open_store(path: &Path, settings: &Settings) -> Result<BrainDb, Failure> {
    let timeout = Duration::from_millis(settings.configuration.settings.busy_timeout_ms.into());
    let options = OpenOptions::default().busy_timeout(timeout);
    BrainDb::open(path, options).map_err(|error| {
        let hint = error.hint();
        Failure::new("open the store", &error, hint)
    })
}

fn flags(args: &ConsolidateArgs) -> Result<Vec<FlagValue>, Failure> {
    if args.method == Some(crate::args::MethodArg::Graph) {
        return Err(no_graph());
    }
    let mut flags = Vec::new();
    let mut flag = |flag, key, value: Option<Value>| {
        flags.extend(value.map(|value| FlagValue { flag, key, value }));
    };
    flag("--threshold", "threshold", args.threshold.map(Value::from));
    flag("--method", "detect.method", args.method.map(|method| method.name().into()));
    let categories = (!args.category.is_empty()).then(|| args.category.clone().into());
    flag("--category", "scope.categories", categories);
    flag("--since", "scope.since", args.since.clone().map(Value::from));
    flag("--until", "scope.until", args.until.clone().map(Value::from));
    flag("--trigger", "trigger", args.trigger.clone().map(Value::from));
    Ok(flags)
}

fn no_graph() -> Failure {
    Failure::usage(
        "the graph method needs an index, which this version cannot build",
        "use --method exact: it finds every pair and is the faster one up to about 2 million vectors",
    )
}

fn plan_store(
    global: &GlobalArgs,
    args: &ConsolidateArgs,
    settings: &Settings,
    printer: Printer,
) -> Result<Outcome, Failure> {
    let policy = &settings.configuration.policy;
    if policy.detect.method == JoinMethod::Graph {
        return Err(no_graph());
    }
    let guard = settings.guard()?;
    let store = open_store(&args.db, settings)?;
    let time_zone = settings.time_zone()?;
    let stopwatch = Stopwatch::start();
    let context = RunContext {
        now: settings::now(args.now.as_deref(), &time_zone)?,
        time_zone: &time_zone,
        config_hash: &settings.config_hash(&guard),
        pool: &settings::pool(global)?,
        kernels: Kernels::active(),
        progress: &Bars::new(printer),
        clock: &|| stopwatch.seconds(),
        scratch_dir: &settings::scratch_dir(),
    };
    consolidate(&store, policy, &guard, &context).map_err(|error| {
        if error.is_cancelled() {
            return Failure::interrupted();
        }
        let hint = error.hint();
        Failure::new(&format!("consolidate {}", args.db.display()), &error, hint)
    })
}

/// Writes what was asked for and returns where.
fn write_files(args: &ConsolidateArgs, outcome: &Outcome) -> Result<Vec<String>, Failure> {
    let mut written = Vec::new();
    if let Some(path) = &args.plan {
        write_plan(path, &outcome.plan).map_err(|error| {
            let hint = error.hint();
            Failure::new("write the plan", &error, hint)
        })?;
        written.push(path.display().to_string());
    }
    let report = match (&args.report, &args.report_dir) {
        (Some(path), _) => Some(write_report(path, &outcome.report)),
        (None, Some(folder)) => Some(write_report_in(folder, &outcome.report)),
        (None, None) => None,
    };
    if let Some(paths) = report {
        let paths = paths.map_err(|error| {
            let hint = error.hint();
            Failure::new("write the report", &error, hint)
        })?;
        written.extend([paths.json, paths.markdown].map(|path| path.display().to_string()));
    }
    Ok(written)
}

/// What other programs rely on; the lists for people stay in the report file.
fn summary(report: &Report) -> Result<Value, Failure> {
    const FIELDS: [&str; 15] = [
        "schema_version",
        "run_id",
        "mode",
        "plan_digest",
        "config_hash",
        "scope",
        "loaded",
        "detected",
        "planned",
        "executed",
        "seconds",
        "peak_rss_bytes",
        "peak_anon_bytes",
        "threads",
        "isa",
    ];
    let mut document = serde_json::to_value(report)
        .map_err(|error| Failure::new("encode the report", &error, None))?;
    if let Value::Object(fields) = &mut document {
        fields.retain(|name, _| {
            FIELDS.contains(&name.as_str()) || name == "stats" || name == "notes"
        });
    }
    Ok(document)
}

/// The next thing to do: read the whole report.
fn commands(args: &ConsolidateArgs) -> Commands {
    if args.report.is_some() || args.report_dir.is_some() {
        return Commands::default();
    }
    let words = ["memfold", "consolidate", &args.db.to_string_lossy(), "--report", "report.json"];
    Commands { next: words.map(str::to_owned).to_vec(), undo: Vec::new() }
}

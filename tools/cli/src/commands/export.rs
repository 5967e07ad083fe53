//! `memfold export`: the live memories of a store with their vectors, as one column file.

use std::path::Path;

use memfold_datasets::{ColumnsWriter, ParquetWriter};
use memfold_pipeline::export::{Export, ExportError, ExportOptions, Exported};
use memfold_pipeline::store::LoadRequest;
use memfold_pipeline::text::excerpt;
use serde_json::json;

use crate::args::{ExportArgs, ExportFormat, ExtraColumn, GlobalArgs};
use crate::commands::consolidate::open_store;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::progress::Bars;
use crate::resources::Stopwatch;
use crate::settings::{self, Settings};

pub(crate) fn run(
    global: &GlobalArgs,
    args: &ExportArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let format = format(args)?;
    refuse_existing(&args.output, args.force)?;
    let settings = Settings::load(global, Some(&args.db), &[])?;
    settings.show_notices(printer);
    let stopwatch = Stopwatch::start();
    let exported = export(args, format, &settings, &Bars::new(printer))?;
    let seconds = stopwatch.seconds();
    if global.json {
        printer.json(&json!({
            "schema_version": 1,
            "rows": exported.rows,
            "dim": exported.space.dim,
            "model": exported.space.model,
            "without_vector": exported.without_vector,
            "output": args.output.display().to_string(),
            "seconds": seconds,
        }))?;
    } else {
        let Exported { rows, space, without_vector } = &exported;
        let rate = *rows as f64 / seconds.max(f64::MIN_POSITIVE);
        printer.note(&format!(
            "wrote {} rows of {} ({} dimensions) to {} in {seconds:.2} s, {rate:.0} rows/s",
            rows,
            excerpt(&space.model, 60),
            space.dim,
            args.output.display()
        ));
        if *without_vector > 0 {
            printer.note(&format!("{without_vector} live memories have no vector of this model"));
        }
    }
    Ok(Exit::Done)
}

fn format(args: &ExportArgs) -> Result<ExportFormat, Failure> {
    let ending = args.output.extension().and_then(|ending| ending.to_str());
    match (args.format, ending) {
        (Some(format), _) => Ok(format),
        (None, Some("arrow" | "ipc")) => Ok(ExportFormat::Arrow),
        (None, Some("parquet")) => Ok(ExportFormat::Parquet),
        (None, _) => Err(Failure::usage(
            format!("{} does not tell the format", args.output.display()),
            "end the name in .arrow or .parquet, or give --format; memfold convert makes npy and \
             other formats of these",
        )),
    }
}

/// Refuses to replace a file unless asked to.
pub(crate) fn refuse_existing(path: &Path, force: bool) -> Result<(), Failure> {
    if path.symlink_metadata().is_ok() && !force {
        return Err(Failure::usage(
            format!("{} exists", path.display()),
            "name another file, or replace it with --force",
        ));
    }
    Ok(())
}

fn export(
    args: &ExportArgs,
    format: ExportFormat,
    settings: &Settings,
    bars: &Bars,
) -> Result<Exported, Failure> {
    let store = open_store(&args.db, settings)?;
    let time_zone = settings.time_zone()?;
    let request = LoadRequest { time_zone: &time_zone, now: settings::clock(), progress: bars };
    let options = ExportOptions {
        model: args.model.as_deref(),
        text: args.with.contains(&ExtraColumn::Text),
        lineage: args.with.contains(&ExtraColumn::Lineage),
        scratch_dir: &settings::scratch_dir(),
    };
    let written = Export::read(&store, &request, &options).and_then(|export| match format {
        ExportFormat::Arrow => {
            let mut writer = ColumnsWriter::create(&args.output, &export.meta())?;
            let exported = export.write(&mut writer, bars)?;
            writer.finish()?;
            Ok(exported)
        }
        ExportFormat::Parquet => {
            let mut writer = ParquetWriter::create(&args.output, &export.meta())?;
            let exported = export.write(&mut writer, bars)?;
            writer.finish()?;
            Ok(exported)
        }
    });
    written.map_err(|error: ExportError| {
        if error.is_cancelled() {
            return Failure::interrupted();
        }
        let hint = error.hint();
        Failure::new(&format!("export {}", args.db.display()), &error, hint)
    })
}

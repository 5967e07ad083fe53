//! `memfold config`: the merged configuration, its schema, its files.

use std::path::{Path, PathBuf};

use clap::{self, Args, Subcommand};
use memfold_plan::policy::config::{Entry, FileLayer};
use memfold_plan::policy::config_schema;
use serde::Serialize;
use serde_json::Value;

use crate::args::GlobalArgs;
use crate::failure::{Exit, Failure};
use crate::printer::{Printer, documents, table};
use crate::settings::{Settings, loader};

documents! {
    "config-show" => ShowDocument,
    "config-path" => PathDocument,
}

/// `memfold config`
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

/// What to show of the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show the merged configuration and where each value came from
    Show {
        /// Include the memfold.yaml beside this store
        #[arg(value_name = "DB")]
        db: Option<PathBuf>,
    },
    /// Print the JSON Schema of configuration files
    Schema,
    /// List the files that are looked for, and which of them exist
    Path {
        /// Include the memfold.yaml beside this store
        #[arg(value_name = "DB")]
        db: Option<PathBuf>,
    },
}

/// `memfold config show --json`
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ShowDocument {
    schema_version: u32,
    /// The merged configuration; `memfold config schema` prints its schema.
    merged: Value,
    /// Every value with its source, in the order of that schema.
    entries: Vec<Entry>,
}

/// `memfold config path --json`
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PathDocument {
    schema_version: u32,
    /// The files that exist; later ones win.
    files: Vec<FileDocument>,
}

/// A configuration file.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FileDocument {
    layer: FileLayer,
    path: String,
}

pub(crate) fn run(
    global: &GlobalArgs,
    args: &ConfigArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    match &args.command {
        ConfigCommand::Show { db } => show(global, db.as_deref(), printer),
        ConfigCommand::Schema => printer.data(&format!("{:#}\n", config_schema())),
        ConfigCommand::Path { db } => path(global, db.as_deref(), printer),
    }?;
    Ok(Exit::Done)
}

fn show(global: &GlobalArgs, db: Option<&Path>, printer: Printer) -> Result<(), Failure> {
    let settings = Settings::load(global, db, &[])?;
    settings.show_notices(printer);
    let entries = settings.configuration.entries();
    if global.json {
        let merged = settings.configuration.merged();
        return printer.document(&ShowDocument { schema_version: 1, merged, entries });
    }
    let rows = entries
        .iter()
        .map(|Entry { key, value, source }| vec![key.clone(), shown(value), source.to_string()]);
    printer.data(&table(&["key", "value", "from"], rows.collect()))
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

fn path(global: &GlobalArgs, db: Option<&Path>, printer: Printer) -> Result<(), Failure> {
    let files = loader(global, db).files().map_err(|error| {
        let hint = error.hint();
        Failure::new("look for configuration files", &error, hint)
    })?;
    if global.json {
        let file = |(layer, path): &(FileLayer, PathBuf)| FileDocument {
            layer: *layer,
            path: path.display().to_string(),
        };
        let files = files.iter().map(file).collect();
        return printer.document(&PathDocument { schema_version: 1, files });
    }
    if files.is_empty() {
        printer.note("no configuration files; everything is built in");
    }
    let lines = files.iter().map(|(_, path)| format!("{}\n", path.display()));
    printer.data(&lines.collect::<String>())
}

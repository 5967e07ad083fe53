//! `memfold config`: the merged configuration with its files, and the schema of these files.

use std::path::PathBuf;

use clap::{self, Args, Subcommand, ValueHint};
use memfold::ops::{Settings, StorePath};
use memfold_core::policy::{Entry, FileLayer, config_schema};
use serde::Serialize;
use serde_json::Value;

use crate::args::store_path;
use crate::call::Call;
use crate::failure::{Exit, Failure};
use crate::printer::table;

/// `memfold config`
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

/// What to show of the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show the merged configuration, where each value came from, and the files that were read
    Show {
        /// Include the memfold.yaml beside this store
        #[arg(value_name = "DB", value_parser = store_path(), value_hint = ValueHint::AnyPath)]
        db: Option<StorePath>,
    },
    /// Print the JSON Schema of configuration files
    Schema,
}

/// `memfold config show --json`
#[derive(Debug, Serialize)]
struct ShowDocument {
    schema_version: u32,
    /// The merged configuration; `memfold config schema` prints its schema.
    merged: Value,
    /// Every value with its source, in the order of that schema.
    entries: Vec<Entry>,
    /// The files that were read; later ones win.
    files: Vec<FileDocument>,
}

/// A configuration file.
#[derive(Debug, Serialize)]
struct FileDocument {
    layer: FileLayer,
    path: String,
}

pub(crate) fn run(call: Call<'_>, args: &ConfigArgs) -> Result<Exit, Failure> {
    match &args.command {
        ConfigCommand::Show { db } => show(call, db.as_ref()),
        ConfigCommand::Schema => call.printer.data(config_schema()).map(|()| Exit::Done),
    }
}

fn show(call: Call<'_>, db: Option<&StorePath>) -> Result<Exit, Failure> {
    let sources = &call.global.sources;
    let settings = Settings::load(sources, db, &[])?;
    settings.show_notices(&call.printer);
    let files = sources.loader(db).files();
    let files = files.map_err(|error| Failure::of("look for configuration files", &error))?;
    let file = |(layer, path): (FileLayer, PathBuf)| FileDocument {
        layer,
        path: path.display().to_string(),
    };
    let document = ShowDocument {
        schema_version: 1,
        merged: settings.configuration.merged(),
        entries: settings.configuration.entries(),
        files: files.into_iter().map(file).collect(),
    };
    call.show(&document, || {
        let rows = document.entries.iter().map(|Entry { key, value, source }| {
            vec![key.clone(), shown(value), source.to_string()]
        });
        let mut text = table(&["key", "value", "from"], rows.collect());
        text.push_str(match document.files.is_empty() {
            true => "\nno configuration files: every value is built in\n",
            false => "\nfiles, later ones win:\n",
        });
        text.extend(document.files.iter().map(|file| format!("  {}\n", file.path)));
        text
    })
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

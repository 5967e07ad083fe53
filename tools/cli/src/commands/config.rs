//! `memfold config`: the merged configuration, its schema, its files.

use std::path::Path;

use memfold_pipeline::policy::config::Entry;
use memfold_pipeline::policy::{Configuration, config_schema};
use serde_json::{Value, json};

use crate::args::{ConfigArgs, ConfigCommand, GlobalArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, table};
use crate::settings::{Settings, loader};

pub(crate) fn run(
    global: &GlobalArgs,
    args: &ConfigArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    match &args.command {
        ConfigCommand::Show { db } => show(global, db.as_deref(), printer),
        ConfigCommand::Schema => printer.json(config_schema()),
        ConfigCommand::Path { db } => path(global, db.as_deref(), printer),
    }?;
    Ok(Exit::Done)
}

fn show(global: &GlobalArgs, db: Option<&Path>, printer: Printer) -> Result<(), Failure> {
    let settings = Settings::load(global, db, &[])?;
    settings.show_notices(printer);
    let Configuration { merged, .. } = &settings.configuration;
    let entries = settings.configuration.entries();
    if global.json {
        let document = json!({ "schema_version": 1, "merged": merged, "entries": entries });
        return printer.json(&document);
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
        let list: Vec<Value> = files
            .iter()
            .map(|(layer, path)| json!({ "layer": layer, "path": path.display().to_string() }))
            .collect();
        return printer.json(&json!({ "schema_version": 1, "files": list }));
    }
    if files.is_empty() {
        printer.note("no configuration files; everything is built in");
    }
    let lines = files.iter().map(|(_, path)| format!("{}\n", path.display()));
    printer.data(&lines.collect::<String>())
}

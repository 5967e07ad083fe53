//! `memfold doctor`: what is in a store, what is wrong with it, and what mends it.

mod document;
mod health;
mod listing;

use memfold_model::text::excerpt;
use memfold_store::brain_db::{Checkup, Finding, findings};
use memfold_store::{LoadRequest, LoadStoreError, Snapshot};

use self::document::DoctorDocument;
use crate::args::{DoctorArgs, GlobalArgs};
use crate::commands::consolidate::open_store;
use crate::commands::writing;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{self, Printer, table};
use crate::progress::Bars;
use crate::settings::{self, Settings};

/// Names of models are cut after so many characters.
const MODEL_CHARS: usize = 60;

pub(crate) fn run(
    global: &GlobalArgs,
    args: &DoctorArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    if args.health {
        return health::run(global, args, printer);
    }
    let settings = Settings::load(global, Some(&args.db), &[])?;
    settings.show_notices(printer);
    let checkup = examine(args, &settings, printer)?;
    let findings = findings(&checkup.facts, &writing::path_word(&args.db));
    if global.json {
        printer.document(&DoctorDocument::new(&checkup, &findings))?;
    } else {
        let view = View { checkup: &checkup, findings: &findings };
        printer.data(&view.to_text(&writing::path_word(&args.db)))?;
    }
    match &checkup.loaded {
        Ok(_) => Ok(Exit::Done),
        Err(error) => Err(unreadable(args, error)),
    }
}

fn examine(args: &DoctorArgs, settings: &Settings, printer: Printer) -> Result<Checkup, Failure> {
    let store = open_store(&args.db, settings)?;
    let time_zone = settings.time_zone()?;
    let now = settings::now(args.now.as_deref(), &time_zone)?;
    let request = LoadRequest { time_zone: &time_zone, now, progress: &Bars::new(printer) };
    let shared_texts = settings.configuration.policy.detect.shared_vector_texts_max;
    store.checkup(&request, shared_texts).map_err(|error| unreadable(args, &error))
}

fn unreadable(args: &DoctorArgs, error: &LoadStoreError) -> Failure {
    if matches!(error, LoadStoreError::Cancelled) {
        return Failure::interrupted();
    }
    Failure::new(&format!("read {}", args.db.display()), error, error.hint())
}

struct View<'a> {
    checkup: &'a Checkup,
    findings: &'a [Finding],
}

impl View<'_> {
    fn to_text(&self, store: &str) -> String {
        let mut text = match &self.checkup.loaded {
            Ok(snapshot) => self.contents(snapshot) + "\n",
            Err(_) => String::new(),
        };
        text.push_str(&listing::listing(self.findings, store, printer::is_terminal()));
        text
    }

    fn contents(&self, snapshot: &Snapshot) -> String {
        let mut text = format!(
            "{}, {} live, {} of them with a usable vector\n",
            writing::counted(snapshot.rows_total, "memory", "memories"),
            snapshot.live_count(),
            snapshot.with_vector_count()
        );
        for (space, vectors) in snapshot.spaces.iter().zip(&self.checkup.vectors) {
            text.push_str(&format!(
                "{vectors} {} of {} with {} dimensions\n",
                if *vectors == 1 { "vector" } else { "vectors" },
                excerpt(&space.model, MODEL_CHARS),
                space.dim
            ));
        }
        if !snapshot.skipped.is_empty() {
            text.push('\n');
            text.push_str(&skipped_table(snapshot));
        }
        for note in &snapshot.notes {
            text.push_str(&format!("note: {note}\n"));
        }
        text
    }
}

fn skipped_table(snapshot: &Snapshot) -> String {
    let rows = snapshot.skipped.iter().map(|(reason, count)| {
        let name = serde_json::to_value(reason).unwrap_or_default();
        let name = name.as_str().unwrap_or_default().replace('_', " ");
        let example = snapshot.skip_examples.get(reason).cloned().unwrap_or_default();
        vec![name, count.to_string(), example]
    });
    table(&["left out or limited", "rows", "for example"], rows.collect())
}

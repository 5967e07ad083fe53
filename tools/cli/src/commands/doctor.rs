//! `memfold doctor`: what is in a store, and what is wrong with it.

use std::io;

use memfold_index::Row;
use memfold_pipeline::memory::{SpaceIndex, VectorSpace};
use memfold_pipeline::store::brain_db::{BrainDb, Rival};
use memfold_pipeline::store::{LoadRequest, LoadStoreError, MemoryStore, Snapshot, VectorSink};
use memfold_pipeline::text::excerpt;
use serde_json::json;

use crate::args::{DoctorArgs, GlobalArgs};
use crate::commands::consolidate::open_store;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, table};
use crate::progress::Bars;
use crate::settings::{self, Settings};

/// Names of models are cut after so many characters.
const MODEL_CHARS: usize = 60;

pub(crate) fn run(
    global: &GlobalArgs,
    args: &DoctorArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let settings = Settings::load(global, Some(&args.db), &[])?;
    settings.show_notices(printer);
    let store = open_store(&args.db, &settings)?;
    let bars = Bars::new(printer);
    let mut sink = CountingSink::default();
    let time_zone = settings.time_zone()?;
    let request = LoadRequest { time_zone: &time_zone, now: settings::clock(), progress: &bars };
    let (snapshot, rivals) = examine(&store, &request, &mut sink).map_err(|error| {
        if matches!(error, LoadStoreError::Cancelled) {
            return Failure::interrupted();
        }
        let hint = error.hint();
        Failure::new(&format!("read {}", args.db.display()), &error, hint)
    })?;
    let checkup = Checkup { snapshot: &snapshot, vectors: &sink.rows, rivals: &rivals };
    if global.json {
        printer.json(&checkup.to_json())?;
    } else {
        printer.data(&checkup.to_text())?;
    }
    Ok(Exit::Done)
}

fn examine(
    store: &BrainDb,
    request: &LoadRequest<'_>,
    sink: &mut CountingSink,
) -> Result<(Snapshot, Vec<Rival>), LoadStoreError> {
    let snapshot = store.load(request, sink)?;
    Ok((snapshot, store.rivals()?))
}

/// Counts vectors and keeps none.
#[derive(Debug, Default)]
struct CountingSink {
    rows: Vec<u32>,
}

impl VectorSink for CountingSink {
    fn open_space(&mut self, _space: &VectorSpace) -> io::Result<SpaceIndex> {
        self.rows.push(0);
        Ok(SpaceIndex(self.rows.len() as u32 - 1))
    }

    fn push(&mut self, space: SpaceIndex, _vector: &[f32]) -> io::Result<Row> {
        let rows = &mut self.rows[space.0 as usize];
        *rows += 1;
        Ok(Row(*rows - 1))
    }

    fn restart(&mut self) -> io::Result<()> {
        self.rows.clear();
        Ok(())
    }
}

struct Checkup<'a> {
    snapshot: &'a Snapshot,
    vectors: &'a [u32],
    rivals: &'a [Rival],
}

impl Checkup<'_> {
    fn to_json(&self) -> serde_json::Value {
        let snapshot = self.snapshot;
        let spaces = snapshot.spaces.iter().zip(self.vectors);
        let spaces = spaces.map(|(space, vectors)| {
            json!({ "model": space.model, "dim": space.dim, "vectors": vectors })
        });
        let rivals =
            self.rivals.iter().map(|rival| json!({ "place": rival.place, "what": rival.what }));
        json!({
            "schema_version": 1,
            "store_id": snapshot.store_id,
            "memories": snapshot.rows_total,
            "live": snapshot.live_count(),
            "with_embedding": snapshot.with_vector_count(),
            "skipped": snapshot.skipped,
            "examples": snapshot.skip_examples,
            "spaces": spaces.collect::<Vec<_>>(),
            "rivals": rivals.collect::<Vec<_>>(),
            "notes": snapshot.notes,
        })
    }

    fn to_text(&self) -> String {
        let snapshot = self.snapshot;
        let mut text = format!(
            "{} memories, {} live, {} of them with a usable vector\n",
            snapshot.rows_total,
            snapshot.live_count(),
            snapshot.with_vector_count()
        );
        for (space, vectors) in snapshot.spaces.iter().zip(self.vectors) {
            text.push_str(&format!(
                "{vectors} vectors of {} with {} dimensions\n",
                excerpt(&space.model, MODEL_CHARS),
                space.dim
            ));
        }
        if !snapshot.skipped.is_empty() {
            text.push('\n');
            text.push_str(&self.skipped_table());
        }
        for note in &snapshot.notes {
            text.push_str(&format!("note: {note}\n"));
        }
        for Rival { place, what } in self.rivals {
            text.push_str(&format!("rival: {place}: {what}\n"));
        }
        text
    }

    fn skipped_table(&self) -> String {
        let rows = self.snapshot.skipped.iter().map(|(reason, count)| {
            let name = serde_json::to_value(reason).unwrap_or_default();
            let name = name.as_str().unwrap_or_default().replace('_', " ");
            let example = self.snapshot.skip_examples.get(reason).cloned().unwrap_or_default();
            vec![name, count.to_string(), example]
        });
        table(&["left out or limited", "rows", "for example"], rows.collect())
    }
}

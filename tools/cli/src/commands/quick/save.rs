//! `memfold save`: remember this, unless it is known already.

use memfold::machine;
use memfold::quick_check::{Incoming, QuickCheck, SaveError, Saved, Written};
use memfold_index::NoProgress;
use memfold_model::text::excerpt;

use super::check::screen;
use super::documents::{NotSavedDocument, SaveDocument};
use super::lines::Lines;
use super::{Provider, incoming, mode_like, open};
use crate::args::{GlobalArgs, SaveArgs};
use crate::commands::index::build::{Rebuild, rebuild};
use crate::commands::writing;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

const ID_CHARS: usize = 60;

pub(crate) fn run(global: &GlobalArgs, args: &SaveArgs, printer: Printer) -> Result<Exit, Failure> {
    let settings = Settings::load(global, Some(&args.place.db), &[])?;
    settings.show_notices(printer);
    let quick_check = open(&args.place, &settings)?;
    let provider = Provider::open(&settings, printer)?;
    let mut saving = Saving { args, quick_check, provider, printer };
    match &args.jsonl {
        Some(path) => saving.lines(Lines::open(path)?, (global, &settings)),
        None => saving.one(global),
    }
}

struct Saving<'a> {
    args: &'a SaveArgs,
    quick_check: QuickCheck,
    provider: Provider,
    printer: Printer,
}

impl Saving<'_> {
    fn one(&mut self, global: &GlobalArgs) -> Result<Exit, Failure> {
        let incoming = Incoming {
            id: self.args.id.clone(),
            importance: self.args.importance,
            ..incoming(self.args.text.as_ref(), &self.args.memory)?
        };
        let saved = match self.save(incoming) {
            Ok(saved) => saved,
            Err(error) => {
                let failure = failure(&error);
                if global.json {
                    let (message, hint) = (failure.message.clone(), failure.hint.clone());
                    self.printer.document(&NotSavedDocument::new(None, (message, hint)))?;
                }
                return Err(failure);
            }
        };
        if global.json {
            self.printer.document(&SaveDocument::new(None, &saved))?;
        } else {
            self.printer.data(&told(&saved))?;
        }
        self.seal(&saved);
        Ok(Exit::Done)
    }

    /// Saves line after line, each answered before the next one is read.
    fn lines(
        &mut self,
        mut lines: Lines,
        (global, settings): (&GlobalArgs, &Settings),
    ) -> Result<Exit, Failure> {
        let mut is_partial = false;
        let mut last = None;
        let unread = |error| Failure::new("read the lines", &error, None);
        while let Some((number, line)) = lines.next().map_err(unread)? {
            let saved = line.map_err(|error| (error, None)).and_then(|incoming| {
                self.save(incoming).map_err(|error| {
                    let failure = failure(&error);
                    (failure.message, failure.hint)
                })
            });
            match saved {
                Ok(saved) => {
                    self.printer.document_line(&SaveDocument::new(Some(number), &saved))?;
                    self.seal(&saved);
                    last = Some(saved);
                }
                Err(refused) => {
                    is_partial = true;
                    self.printer.document_line(&NotSavedDocument::new(Some(number), refused))?;
                }
            }
        }
        if let Some(saved) = &last {
            self.rebuild(saved, (global, settings));
        }
        Ok(if is_partial { Exit::Partial } else { Exit::Done })
    }

    fn save(&mut self, mut incoming: Incoming) -> Result<Saved, SaveError> {
        let note = self.provider.fill(&mut incoming);
        let mut saved = self.quick_check.save(&incoming, machine::clock())?;
        saved.check.notes.extend(note);
        Ok(saved)
    }

    /// Seals fresh rows where they are many; the memory is saved and told, whatever comes of it.
    fn seal(&self, saved: &Saved) {
        if !self.quick_check.wants_sealing(saved) {
            return;
        }
        if let Err(error) = self.quick_check.seal(machine::clock(), mode_like(&self.args.place)) {
            self.printer.detail(&format!("note: fresh rows were not sealed: {error}"));
        }
    }

    /// Brings the index up to date after many saves, where that is cheap.
    fn rebuild(&self, saved: &Saved, (global, settings): (&GlobalArgs, &Settings)) {
        let rows = saved.check.index.rows;
        let wanted = Rebuild::wanted(rows, saved.fresh_rows);
        if !wanted || settings.configuration.settings.read_only {
            return;
        }
        let place = (&self.args.place).into();
        if let Err(failure) = rebuild((global, settings), &place, &NoProgress) {
            self.printer.note(&format!("note: the index was not built: {}", failure.message));
        }
    }
}

fn failure(error: &SaveError) -> Failure {
    match error {
        SaveError::Session(error) => writing::session_failure("save", error),
        error => Failure::new("save", error, error.hint()),
    }
}

fn told(saved: &Saved) -> String {
    let id = excerpt(saved.id.as_str(), ID_CHARS);
    let did = match saved.written {
        Written::Inserted => format!("saved as {id}"),
        Written::Touched => format!("known already: {id}"),
        Written::Replaced => {
            let replaced = saved.replaced.iter().map(|id| excerpt(id.as_str(), ID_CHARS));
            let replaced = replaced.collect::<Vec<_>>().join(", ");
            format!("saved as {id} in the place of {replaced}")
        }
    };
    let mut text = format!("{did}\n{}", screen(&saved.check));
    if let Some(run_id) = &saved.run_id {
        text.push_str(&format!("run {run_id}\n"));
    }
    text
}

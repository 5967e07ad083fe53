//! `memfold save`: saves a memory, unless it is known already.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{self, Args};
use memfold::ops::{
    self, IndexUpkeep, Memories, MemoriesOptions, NotSavedDocument, SaveDocument, Settings,
};
use memfold::quick_check::{Incoming, SaveError, Saved, Written};
use memfold_guard::text::excerpt;

use super::check::screen;
use crate::args::{StorePlaceArgs, finite};
use crate::call::Call;
use crate::commands::check::{MemoryArgs, incoming};
use crate::failure::{Exit, Failure};

const ID_CHARS: usize = 60;

/// `memfold save`
#[derive(Debug, Args)]
#[command(
    override_usage = "memfold save [OPTIONS] <DB> --text T|--jsonl FILE",
    after_help = SAVE_LINES
)]
pub(crate) struct SaveArgs {
    #[command(flatten)]
    pub(crate) place: StorePlaceArgs,
    /// What the memory says
    #[arg(
        long,
        value_name = "TEXT",
        required_unless_present = "jsonl",
        allow_hyphen_values = true
    )]
    pub(crate) text: Option<String>,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
    /// How important it is [default: 1.0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = finite)]
    pub(crate) importance: Option<f64>,
    /// Its id: saving it again under the same id changes nothing [default: a new one]
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Save the memories of this file, one JSON object on each line; - is stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "vector", "categories", "importance", "source", "id"])]
    pub(crate) jsonl: Option<PathBuf>,
}

/// The end of the help of `memfold save`.
const SAVE_LINES: &str = "\
A line of --jsonl has `text`, and may have `vector`, `model`, `categories`,
`user_id`, `importance`, `source` and `id`; it is answered by a line of JSON on
stdout.
A line that cannot be saved is answered with `stored: false`, and the next one
follows; the exit code is then 4.";

pub(crate) fn run(call: Call<'_>, args: &SaveArgs) -> Result<Exit, Failure> {
    let settings = call.settings(&args.place.db)?;
    let index_dir = args.place.index_dir.as_deref();
    let options = MemoriesOptions { index_dir, embeds: true, ..Default::default() };
    let memories = Memories::open(&args.place.db, &settings, options)?;
    let saving = Saving { call, args, memories };
    match &args.jsonl {
        Some(path) => saving.lines(Lines::open(path)?, &settings),
        None => saving.one(),
    }
}

struct Saving<'a> {
    call: Call<'a>,
    args: &'a SaveArgs,
    memories: Memories,
}

impl Saving<'_> {
    fn one(&self) -> Result<Exit, Failure> {
        let incoming = Incoming {
            id: self.args.id.clone(),
            importance: self.args.importance,
            ..incoming(self.args.text.as_ref(), &self.args.memory)?
        };
        let saved = match self.save(incoming) {
            Ok(saved) => saved,
            Err(error) => {
                let failure = failure(&error);
                if self.call.global.json {
                    let (message, hint) = (failure.message.clone(), failure.hint.clone());
                    self.call.printer.document(&NotSavedDocument::new(None, message, hint))?;
                }
                return Err(failure);
            }
        };
        let shown = self.call.show(&SaveDocument::new(None, &saved), || told(&saved))?;
        self.seal(&saved);
        Ok(shown)
    }

    /// Saves line after line, each answered before the next one is read.
    fn lines(&self, mut lines: Lines, settings: &Settings) -> Result<Exit, Failure> {
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
                    self.call.printer.document_line(&SaveDocument::new(Some(number), &saved))?;
                    self.seal(&saved);
                    last = Some(saved);
                }
                Err((error, hint)) => {
                    is_partial = true;
                    let refused = NotSavedDocument::new(Some(number), error, hint);
                    self.call.printer.document_line(&refused)?;
                }
            }
        }
        if let Some(saved) = &last {
            self.rebuild(saved, settings);
        }
        Ok(if is_partial { Exit::Partial } else { Exit::Done })
    }

    fn save(&self, incoming: Incoming) -> Result<Saved, SaveError> {
        self.memories.save(incoming, &self.call.printer)
    }

    /// Seals fresh rows if there are many; the memory is saved and reported in any case.
    fn seal(&self, saved: &Saved) {
        if !self.memories.wants_sealing(saved) {
            return;
        }
        if let Err(error) = self.memories.seal() {
            self.call.printer.detail(&format!("note: fresh rows were not sealed: {error}"));
        }
    }

    /// Brings the index up to date after many saves, where that is cheap.
    fn rebuild(&self, saved: &Saved, settings: &Settings) {
        let rows = saved.check.index.rows;
        if !ops::wants_rebuild(rows, saved.fresh_rows) || settings.configuration.settings.read_only
        {
            return;
        }
        let upkeep = IndexUpkeep {
            db: &self.args.place.db,
            index_dir: self.args.place.index_dir.as_deref(),
            settings,
            threads: self.call.global.threads,
            listener: &self.call.printer,
            wait: Duration::ZERO,
        };
        if let Err(failure) = upkeep.build(None, None) {
            self.call.printer.note(&format!("note: the index was not built: {}", failure.message));
        }
    }
}

fn failure(error: &SaveError) -> Failure {
    Failure::of("save", error)
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

/// Longer lines are refused: no memory is this long.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// Lines of a file, or of stdin where it is `-`.
struct Lines {
    input: Box<dyn BufRead>,
    buffer: Vec<u8>,
    number: u64,
}

impl Lines {
    fn open(path: &Path) -> Result<Self, Failure> {
        let input: Box<dyn BufRead> = if path == Path::new("-") {
            Box::new(BufReader::new(io::stdin()))
        } else {
            let file = File::open(path)
                .map_err(|error| Failure::new(&format!("open {}", path.display()), &error, None))?;
            Box::new(BufReader::new(file))
        };
        Ok(Self { input, buffer: Vec::new(), number: 0 })
    }

    /// Returns the next memory and its line's number, or the defect of the line; `None` at the end.
    /// Blank lines are passed over.
    fn next(&mut self) -> io::Result<Option<(u64, Result<Incoming, String>)>> {
        loop {
            self.buffer.clear();
            let mut limited = io::Read::take(&mut self.input, LINE_BYTES_MAX);
            if limited.read_until(b'\n', &mut self.buffer)? == 0 {
                return Ok(None);
            }
            self.number += 1;
            if self.buffer.len() as u64 == LINE_BYTES_MAX && self.buffer.last() != Some(&b'\n') {
                self.skip_line()?;
                let most = LINE_BYTES_MAX >> 20;
                return Ok(Some((self.number, Err(format!("the line is longer than {most} MiB")))));
            }
            if !self.buffer.trim_ascii().is_empty() {
                return Ok(Some((self.number, read(&self.buffer))));
            }
        }
    }

    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let (used, is_end) = match self.input.fill_buf()? {
                [] => return Ok(()),
                bytes => match bytes.iter().position(|byte| *byte == b'\n') {
                    Some(at) => (at + 1, true),
                    None => (bytes.len(), false),
                },
            };
            self.input.consume(used);
            if is_end {
                return Ok(());
            }
        }
    }
}

fn read(line: &[u8]) -> Result<Incoming, String> {
    let incoming: Incoming = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    match incoming.text {
        Some(_) => Ok(incoming),
        None => Err("missing field `text`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Vec<(u64, Result<Incoming, String>)> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut lines = Lines::open(file.path()).unwrap();
        std::iter::from_fn(|| lines.next().unwrap()).collect()
    }

    #[test]
    fn each_line_is_a_memory_or_says_what_is_wrong() {
        let found = lines(
            b"{\"text\":\"a\",\"categories\":\"x\",\"vector\":[1,0]}\n\n{\"text\":\"b\"}\nnonsense\n{\"txt\":\"c\"}\n\xff\n{\"text\":\"d\"}",
        );
        let numbers: Vec<u64> = found.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [1, 3, 4, 5, 6, 7]);
        let first = found[0].1.as_ref().unwrap();
        assert_eq!(
            (&first.categories[..], &first.vector),
            (&["x".to_owned()][..], &Some(vec![1.0, 0.0]))
        );
        let texts: Vec<_> = found
            .iter()
            .map(|(_, line)| line.as_ref().ok().and_then(|l| l.text.as_deref()))
            .collect();
        assert_eq!(texts, [Some("a"), Some("b"), None, None, None, Some("d")]);
        assert!(found[3].1.as_ref().unwrap_err().contains("unknown field `txt`"));
    }

    #[test]
    fn a_line_without_an_end_is_refused_and_the_next_one_read() {
        let mut text = vec![b'x'; LINE_BYTES_MAX as usize + 70_000];
        text.extend_from_slice(b"\n{\"text\":\"b\"}\n");
        let found = lines(&text);
        assert!(found[0].1.as_ref().unwrap_err().contains("longer than 16 MiB"));
        assert_eq!((found.len(), found[1].0, found[1].1.is_ok()), (2, 2, true));
    }
}

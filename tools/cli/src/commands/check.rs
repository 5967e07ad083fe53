//! `memfold check`: tells whether a memory is known, and writes nothing. `save` uses its parts.

use clap::{self, Args};
use memfold::ops::{CheckDocument, FailureKind, Memories, MemoriesOptions};
use memfold::quick_check::{Check, Incoming};
use memfold_guard::text::excerpt;

use crate::args::StorePlaceArgs;
use crate::call::Call;
use crate::context;
use crate::failure::{Exit, Failure};

/// `memfold check`
#[derive(Debug, Args)]
#[command(override_usage = "memfold check [OPTIONS] <DB> --text T|--vector V")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) place: StorePlaceArgs,
    /// What the memory says
    #[arg(
        long,
        value_name = "TEXT",
        required_unless_present = "vector",
        allow_hyphen_values = true
    )]
    pub(crate) text: Option<String>,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// A memory as typed.
#[derive(Debug, Clone, Args)]
pub(crate) struct MemoryArgs {
    /// Its vector: a file of f32 or JSON, a JSON array, or base64 of f32 (little-endian)
    #[arg(long, value_name = "VECTOR", allow_hyphen_values = true)]
    pub(crate) vector: Option<String>,
    /// The model of the vector [default: the store's]
    #[arg(long, value_name = "NAME", requires = "vector")]
    pub(crate) model: Option<String>,
    /// A category (can be repeated)
    #[arg(long = "category", short = 'c', value_name = "NAME")]
    pub(crate) categories: Vec<String>,
    /// Where it comes from [default: agent]
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
}

/// Takes a memory as typed.
pub(super) fn incoming(text: Option<&String>, args: &MemoryArgs) -> Result<Incoming, Failure> {
    Ok(Incoming {
        text: text.cloned(),
        vector: args.vector.as_deref().map(context::typed_vector).transpose()?,
        model: args.model.clone(),
        categories: args.categories.clone(),
        source: args.source.clone(),
        ..Incoming::default()
    })
}

/// Matches on the screen, and characters of a line.
const MATCHES_SHOWN: usize = 10;
const LINE_CHARS: usize = 76;

pub(crate) fn run(call: Call<'_>, args: &CheckArgs) -> Result<Exit, Failure> {
    let settings = call.settings(&args.place.db)?;
    let incoming = incoming(args.text.as_ref(), &args.memory)?;
    let index_dir = args.place.index_dir.as_deref();
    let options =
        MemoriesOptions { index_dir, embeds: incoming.vector.is_none(), ..Default::default() };
    let memories = Memories::open(&args.place.db, &settings, options)?;
    let check = memories
        .check(incoming, &call.printer)
        .map_err(|error| Failure::of("check", &error).of_kind(FailureKind::Usage))?;
    call.show(&CheckDocument::new(&check), || screen(&check))
}

/// Says it in some lines.
pub(super) fn screen(check: &Check) -> String {
    let decision = check.decision.name().replace('_', " ");
    let mut text = format!("{decision}: {}\n", excerpt(&check.reason, 4 * LINE_CHARS));
    for found in check.matches.iter().take(MATCHES_SHOWN) {
        let similarity =
            found.similarity.map_or("      ".to_owned(), |value| format!("{value:.4}"));
        let verdict = found.verdict.map_or("", |verdict| verdict.name());
        let id = excerpt(found.id.as_str(), LINE_CHARS / 2);
        text.push_str(&format!("  {similarity}  {verdict:13}  {id}\n"));
        if let Some(first) = found.differences.first() {
            text.push_str(&format!("      {}\n", excerpt(first, LINE_CHARS - 6)));
        }
    }
    let shown = check.matches.len().min(MATCHES_SHOWN) as u64;
    if check.matches_total > shown {
        text.push_str(&format!("  and {} more\n", check.matches_total - shown));
    }
    for note in &check.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    text
}

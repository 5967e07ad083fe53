//! `memfold embed`: memories without an embedding get one.

mod document;
mod screen;

use memfold::embed::fill::{Fill, FillError, Filled, Unembedded, check_space, fill, unembedded};
use memfold::embed::{Embedder, Provider, embedder};
use memfold::machine;
use memfold_index::Progress;
use memfold_store::LoadRequest;

use self::document::EmbedDocument;
use crate::args::{EmbedArgs, GlobalArgs};
use crate::commands::consolidate::open_store;
use crate::commands::writing;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::progress::Bars;
use crate::resources::Stopwatch;
use crate::settings::{self, Settings};

pub(crate) fn run(
    global: &GlobalArgs,
    args: &EmbedArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let settings = Settings::load(global, Some(&args.db), &[])?;
    settings.show_notices(printer);
    let stopwatch = Stopwatch::start();
    let wanted = (args.writing.execute, args.writing.dry_run);
    let executes = writing::may_write(&settings, wanted, printer);
    let bars = Bars::new(printer);
    let mut lacking = look(args, &settings, &bars)?;
    let over = lacking.pending.len().saturating_sub(args.limit.unwrap_or(usize::MAX));
    lacking.pending.truncate(lacking.pending.len() - over);
    let provider = provider(&settings, &lacking)?;
    let place = provider.as_ref().map(|provider| provider.place().to_owned());
    let filled = match provider {
        _ if !executes => None,
        _ if lacking.pending.is_empty() => Some(Filled::default()),
        Some(provider) => {
            printer.note(&format!("note: texts are sent to {}", provider.place()));
            Some(give(args, &settings, (&lacking, provider), &bars)?)
        }
        None => return Err(nobody()),
    };
    drop(bars);
    let found = EmbedDocument::new(
        &lacking,
        (settings.configuration.settings.embed.provider.map(Provider::name), place),
        (filled, over as u64),
        stopwatch.seconds(),
    );
    if global.json {
        printer.document(&found)?;
    } else {
        printer.data(&screen::told(&found, (global, args)))?;
        if !executes {
            printer.note("dry run: nothing was sent anywhere or written to the store");
        }
    }
    Ok(if found.refused.is_empty() { Exit::Done } else { Exit::Partial })
}

/// Finds what the store lacks.
fn look(args: &EmbedArgs, settings: &Settings, bars: &Bars) -> Result<Unembedded, Failure> {
    let store = open_store(&args.db, settings)?;
    let time_zone = settings.time_zone()?;
    let now = settings::now(args.writing.now.as_deref(), &time_zone)?;
    let request = LoadRequest { time_zone: &time_zone, now, progress: bars };
    unembedded(&store, &request).map_err(|error| failed(&error, 0))
}

/// Makes the configured provider ready, and sees whether it fits the store.
fn provider(
    settings: &Settings,
    lacking: &Unembedded,
) -> Result<Option<Box<dyn Embedder>>, Failure> {
    let variables = |name: &str| std::env::var(name).ok();
    let configured = &settings.configuration.settings.embed;
    let provider = embedder(configured, lacking.model(), &variables);
    let provider = provider.map_err(|error| failed(&FillError::Embed(error), 0))?;
    if let Some(provider) = &provider {
        check_space(lacking.space.as_ref(), provider.model()).map_err(|error| failed(&error, 0))?;
    }
    Ok(provider)
}

fn give(
    args: &EmbedArgs,
    settings: &Settings,
    (lacking, provider): (&Unembedded, Box<dyn Embedder>),
    bars: &Bars,
) -> Result<Filled, Failure> {
    let time_zone = settings.time_zone()?;
    let fixed = args.writing.now.as_deref();
    let fixed = fixed.map(|now| settings::now(Some(now), &time_zone)).transpose()?;
    // Beside other runs: rows are only added, and each transaction looks again at what is there.
    let session = writing::open_own_tables(&args.db, settings)?;
    let (filled, done) = fill(
        &session,
        &lacking.pending,
        Fill {
            provider,
            space: lacking.space.clone(),
            batch_size: settings.configuration.settings.embed.batch_size,
            clock: &|| fixed.unwrap_or_else(machine::clock),
            time_zone: &time_zone,
            progress: bars,
        },
    );
    bars.end();
    done.map(|()| filled.clone()).map_err(|error| failed(&error, filled.filled))
}

fn nobody() -> Failure {
    Failure::usage(
        "no provider of vectors is configured",
        "say who makes them: --set embed.provider=daemon (the brain's own, port 8030), ollama, \
         openai or local; docs/embedding.md tells more",
    )
}

/// A failure after so many embeddings were written.
fn failed(error: &FillError, filled: u64) -> Failure {
    let failure = match error {
        error if error.is_cancelled() && filled == 0 => return Failure::interrupted(),
        error if error.is_cancelled() => Failure {
            exit: Exit::Interrupted,
            message: "interrupted".to_owned(),
            hint: Some("running again continues".to_owned()),
        },
        FillError::Session(error) => writing::session_failure("embed", error),
        error => Failure::new("embed", error, error.hint()),
    };
    match filled {
        0 => failure,
        _ => {
            let message = format!("{}; {filled} embeddings were written and stay", failure.message);
            Failure { message, ..failure }
        }
    }
}

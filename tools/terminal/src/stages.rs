//! [`Stages`]: lines on stderr about the stages of a command, from the spans of the library.

use std::fmt::Debug;

use memfold::machine::Stopwatch;
use memfold_core::report::log_lines;
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Registry};

use crate::Shown;
use crate::printer::{Fields, Printer};

/// Prints a line when a stage ends, or also when it begins.
#[derive(Debug, Clone, Copy)]
pub struct Stages {
    printer: Printer,
    tells_begins: bool,
}

/// A stage under way.
struct Open {
    stopwatch: Stopwatch,
    attributes: Collected,
}

#[derive(Default)]
struct Collected(Fields);

impl Stages {
    /// Returns the printer of stages for the options; `None` where they want no stages.
    #[must_use]
    pub fn wanted(shown: Shown, printer: Printer) -> Option<Self> {
        (shown.verbose > 0).then_some(Self { printer, tells_begins: shown.verbose > 1 })
    }

    /// Tells whether a span is one of ours: other crates have spans of their own.
    #[must_use]
    pub fn are_ours(metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("memfold")
    }

    fn tell(self, name: &'static str, milliseconds: Option<f64>, attributes: &Fields) {
        let text = || {
            let shown = attributes.iter().map(|(key, value)| (key.as_str(), plain(value)));
            log_lines::stage(name, milliseconds, shown)
        };
        let fields = || {
            let mut fields = Fields::new();
            fields.insert("stage".to_owned(), name.into());
            fields.insert("ms".to_owned(), milliseconds.map_or(Value::Null, |ms| json!(ms)));
            fields.insert("attributes".to_owned(), attributes.clone().into());
            fields
        };
        self.printer.stage(text, fields);
    }
}

/// Watches the stages of this process from now on; without this each span costs next to nothing.
pub fn watch_stages(stages: Option<Stages>) {
    let Some(stages) = stages else { return };
    let watched = Registry::default().with(stages.with_filter(filter_fn(Stages::are_ours)));
    // Set once: a second command in one process goes on with the first one's.
    let _is_set = tracing::subscriber::set_global_default(watched);
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Stages {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut collected = Collected::default();
        attributes.record(&mut collected);
        if self.tells_begins {
            self.tell(span.name(), None, &collected.0);
        }
        let open = Open { stopwatch: Stopwatch::start(), attributes: collected };
        span.extensions_mut().insert(open);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<Open>() {
            values.record(&mut open.attributes);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        if let Some(Open { stopwatch, attributes }) = span.extensions_mut().remove::<Open>() {
            let milliseconds = (stopwatch.seconds() * 1e6).round() / 1e3;
            self.tell(span.name(), Some(milliseconds), &attributes.0);
        }
    }
}

impl Collected {
    fn take(&mut self, field: &Field, value: Value) {
        // Fields of this prefix steer exporters of OpenTelemetry.
        if !field.name().starts_with("otel.") {
            self.0.insert(field.name().to_owned(), value);
        }
    }
}

impl Visit for Collected {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.take(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.take(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.take(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.take(field, json!(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.take(field, value.into());
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

//! [`Telemetry`]: traces, metrics and logs for a collector, where the environment names one.
//!
//! OTLP over HTTP as protobuf, sent by ureq from the threads of the exporters. Requests never wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::http::HeaderMap;
use memfold_core::judge::http::{is_this_machine, shown};
use memfold_terminal::printer::Printer;
use memfold_terminal::stages::Stages;
use opentelemetry::KeyValue;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_http::{Bytes, HeaderExtractor, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    ExporterBuildError, LogExporter, MetricExporter, SpanExporter, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::registry::Registry;
use ureq::{Agent, Proxy};

use crate::metrics::{ACTIVE_REQUESTS, ACTIVE_RUNS, Kind, Labels, METRICS, Metrics};

/// The name under which a collector knows the server, unless `OTEL_SERVICE_NAME` says another.
const SERVICE: &str = "memfold-server";
/// The instrumentation scope.
const SCOPE: &str = "memfold";
/// How long one export may take, unless `OTEL_EXPORTER_OTLP_TIMEOUT` says otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long the end of the server waits for each kind of export.
const STOP_PATIENCE: Duration = Duration::from_secs(3);
/// Answers of collectors are short.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// The exporters. None where no variable names a collector.
#[derive(Debug, Default)]
pub(crate) struct Telemetry {
    traces: Option<SdkTracerProvider>,
    metrics: Option<SdkMeterProvider>,
    logs: Option<SdkLoggerProvider>,
}

/// Which collector the environment names.
struct Environment<'a>(&'a dyn Fn(&str) -> Option<String>);

impl Environment<'_> {
    fn text(&self, name: &str) -> Option<String> {
        (self.0)(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// Tells whether a signal (`TRACES`, `METRICS`, `LOGS`) is wanted.
    fn wants(&self, signal: &str) -> bool {
        let is = |name: &str, value: &str| {
            self.text(name).is_some_and(|text| text.eq_ignore_ascii_case(value))
        };
        let endpoints =
            ["OTEL_EXPORTER_OTLP_ENDPOINT", &format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")];
        !is("OTEL_SDK_DISABLED", "true")
            && !is(&format!("OTEL_{signal}_EXPORTER"), "none")
            && endpoints.iter().any(|name| self.text(name).is_some())
    }

    fn timeout(&self) -> Duration {
        let milliseconds =
            self.text("OTEL_EXPORTER_OTLP_TIMEOUT").and_then(|text| text.parse().ok());
        milliseconds.map_or(TIMEOUT, Duration::from_millis)
    }

    fn resource(&self) -> Resource {
        let attributes = self.text("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        let is_named = self.text("OTEL_SERVICE_NAME").is_some()
            || attributes.split(',').any(|pair| pair.trim().starts_with("service.name="));
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = Resource::builder().with_attribute(version);
        if is_named { resource } else { resource.with_service_name(SERVICE) }.build()
    }
}

/// Makes a span part of the trace that a caller says it belongs to (`traceparent` of W3C Trace Context).
pub(crate) fn join_trace(span: &Span, headers: &HeaderMap) {
    if headers.contains_key("traceparent") {
        let caller = TraceContextPropagator::new().extract(&HeaderExtractor(headers));
        // Without an exporter there is no trace to join.
        let _is_joined = span.set_parent(caller);
    }
}

impl Telemetry {
    /// Begins to export the signals that the variables `OTEL_*` select, and to print the stages
    /// that `-v` selects.
    pub(crate) fn start(printer: Printer, stages: Option<Stages>) -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        let telemetry = Self::exporting(&Environment(&variable), printer);
        let Self { traces, logs, .. } = &telemetry;
        if traces.is_none() && logs.is_none() && stages.is_none() {
            return telemetry;
        }
        let ours = || filter_fn(Stages::are_ours);
        let traces = traces.as_ref().map(|provider| {
            tracing_opentelemetry::layer()
                .with_tracer(provider.tracer(SCOPE))
                .with_location(false)
                .with_threads(false)
                .with_filter(ours())
        });
        let logs =
            logs.as_ref().map(|logs| OpenTelemetryTracingBridge::new(logs).with_filter(ours()));
        let stages = stages.map(|stages| stages.with_filter(ours()));
        let subscriber = Registry::default().with(traces).with(logs).with(stages);
        // Another one may be there where a test has set it.
        let _is_set = tracing::subscriber::set_global_default(subscriber);
        telemetry
    }

    fn exporting(environment: &Environment<'_>, printer: Printer) -> Self {
        let wanted = ["TRACES", "METRICS", "LOGS"].map(|signal| environment.wants(signal));
        if wanted == [false; 3] {
            return Self::default();
        }
        let (client, resource) = (Client::new(environment, printer), environment.resource());
        let [traces, metrics, logs] = wanted;
        let traces = traces.then(|| SpanExporter::builder().with_http());
        let traces = traces.map(|builder| builder.with_http_client(client.clone()).build());
        let metrics = metrics.then(|| MetricExporter::builder().with_http());
        let metrics = metrics.map(|builder| builder.with_http_client(client.clone()).build());
        let logs = logs.then(|| LogExporter::builder().with_http());
        let logs = logs.map(|builder| builder.with_http_client(client).build());
        let of = || resource.clone();
        Self {
            traces: built("traces", traces, printer).map(|exporter| {
                let provider = SdkTracerProvider::builder().with_resource(of());
                provider.with_batch_exporter(exporter).build()
            }),
            metrics: built("metrics", metrics, printer).map(|exporter| {
                let provider = SdkMeterProvider::builder().with_resource(of());
                provider.with_periodic_exporter(exporter).build()
            }),
            logs: built("logs", logs, printer).map(|exporter| {
                let provider = SdkLoggerProvider::builder().with_resource(of());
                provider.with_batch_exporter(exporter).build()
            }),
        }
    }

    /// Exports the counters of the server: the numbers of `/metrics`, which stay the only ones.
    pub(crate) fn watch(&self, metrics: &Arc<Metrics>) {
        let Some(provider) = &self.metrics else { return };
        let meter = provider.meter(SCOPE);
        for (name, kind, words) in METRICS {
            let counted = || Arc::clone(metrics);
            match kind {
                Kind::Counter => {
                    let counted = counted();
                    let counter = meter.u64_observable_counter(name).with_description(words);
                    let observed = counter.with_callback(move |observer| {
                        counted.each_count(name, |labels, n| observer.observe(n, &pairs(labels)));
                    });
                    let _kept = observed.build();
                }
                Kind::Histogram => {
                    let (counts, sums) = (counted(), counted());
                    let counter = meter.u64_observable_counter(format!("{name}_count"));
                    let observed = counter.with_callback(move |observer| {
                        counts.each_sum(name, |labels, n, _| observer.observe(n, &pairs(labels)));
                    });
                    let _kept = observed.build();
                    let counter = meter.f64_observable_counter(format!("{name}_sum"));
                    let observed = counter.with_unit("s").with_callback(move |observer| {
                        sums.each_sum(name, |labels, _, s| observer.observe(s, &pairs(labels)));
                    });
                    let _kept = observed.build();
                }
                Kind::Gauge => {}
            }
        }
        let (requests, runs) = (Arc::clone(metrics), Arc::clone(metrics));
        let active = meter.i64_observable_gauge(ACTIVE_REQUESTS);
        let active =
            active.with_callback(move |gauge| gauge.observe(requests.in_flight.get(), &[]));
        let running = meter.i64_observable_gauge(ACTIVE_RUNS);
        let running = running.with_callback(move |gauge| gauge.observe(runs.running.get(), &[]));
        let _kept = (active.build(), running.build());
    }

    /// Sends the rest, and ends. Data that a collector does not take by then are lost.
    pub(crate) fn stop(self) {
        let Self { traces, metrics, logs } = self;
        std::thread::scope(|scope| {
            // Failures were reported when they happened.
            scope.spawn(|| traces.map(|traces| traces.shutdown_with_timeout(STOP_PATIENCE)));
            scope.spawn(|| metrics.map(|metrics| metrics.shutdown_with_timeout(STOP_PATIENCE)));
            scope.spawn(|| logs.map(|logs| logs.shutdown_with_timeout(STOP_PATIENCE)));
        });
    }
}

/// Returns the exporter. A wrong variable does not affect the others.
fn built<T>(
    what: &str,
    exporter: Option<Result<T, ExporterBuildError>>,
    printer: Printer,
) -> Option<T> {
    let tell = |error: &ExporterBuildError| {
        printer.note(&format!("note: {what} are not exported: {error}"));
    };
    exporter?.inspect_err(tell).ok()
}

fn pairs(labels: &Labels) -> Vec<KeyValue> {
    labels.iter().map(|(name, value)| KeyValue::new(*name, value.clone())).collect()
}

/// Sends for all exporters; tells the first failure of a series, and no further one.
#[derive(Debug, Clone)]
struct Client {
    agent: Agent,
    direct: Agent,
    printer: Printer,
    is_failing: Arc<AtomicBool>,
}

impl Client {
    fn new(environment: &Environment<'_>, printer: Printer) -> Self {
        let timeout = environment.timeout();
        let agent = |proxy| {
            Agent::config_builder()
                .http_status_as_error(false)
                .max_redirects(0)
                .max_redirects_will_error(false)
                .proxy(proxy)
                .timeout_global(Some(timeout))
                .user_agent(concat!("memfold-server/", env!("CARGO_PKG_VERSION")))
                .build()
                .new_agent()
        };
        Self {
            agent: agent(Proxy::try_from_env()),
            direct: agent(None),
            printer,
            is_failing: Arc::default(),
        }
    }

    fn post(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ureq::Error> {
        let is_here = is_this_machine(request.uri().host().unwrap_or_default());
        let agent = if is_here { &self.direct } else { &self.agent };
        let response = agent.run(request.map(|body| body.to_vec()))?;
        let (head, mut body) = response.into_parts();
        let body = body.with_config().limit(ANSWER_BYTES_MAX).read_to_vec()?;
        Ok(Response::from_parts(head, body.into()))
    }

    fn tell(&self, place: &str, problem: Option<String>) {
        let was_failing = self.is_failing.swap(problem.is_some(), Ordering::Relaxed);
        match problem {
            Some(problem) if !was_failing => {
                self.printer.note(&format!("note: no telemetry reaches {place}: {problem}"));
            }
            None if was_failing => {
                self.printer.note(&format!("note: telemetry reaches {place} again"))
            }
            _ => {}
        }
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        // Blocks a thread that has nothing else to do.
        let place = shown(&request.uri().to_string());
        let sent = self.post(request);
        self.tell(
            &place,
            match &sent {
                Ok(response) if response.status().is_success() => None,
                Ok(response) => {
                    Some(format!("it answered with status {}", response.status().as_u16()))
                }
                Err(error) => Some(error.to_string()),
            },
        );
        Ok(sent?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_exported_unless_a_collector_is_named() {
        let wants = |variables: &[(&str, &str)]| {
            let of = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            ["TRACES", "METRICS", "LOGS"].map(|signal| Environment(&of).wants(signal))
        };
        let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");
        assert_eq!(wants(&[]), [false; 3]);
        assert_eq!(wants(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]), [false; 3]);
        assert_eq!(wants(&[all]), [true; 3]);
        assert_eq!(wants(&[all, ("OTEL_SDK_DISABLED", "TRUE")]), [false; 3]);
        assert_eq!(wants(&[all, ("OTEL_METRICS_EXPORTER", "none")]), [true, false, true]);
        let one = ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://127.0.0.1:4318/v1/logs");
        assert_eq!(wants(&[one]), [false, false, true]);
    }
}

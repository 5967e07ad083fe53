//! The data for a collector: spans, counters and log lines as protobuf, and never a memory's text.

use std::collections::BTreeMap;
use std::net::TcpListener;

use memfold_tests::stub_provider::{StubProvider, answer};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::json;

use crate::support::{Server, TestFolder};

/// A collector that answers everything with one status, and keeps the requests.
struct Collector(StubProvider);

impl Collector {
    fn answering(status: &'static str) -> Self {
        Self(StubProvider::start(move |_| answer(status, &[], b"")))
    }

    fn decoded<M: Message + Default>(&self, path: &str) -> Vec<M> {
        let mut asked = self.0.asked();
        asked.retain(|asked| asked.path == path);
        assert!(!asked.is_empty(), "nothing was sent to {path}");
        asked.iter().map(|asked| M::decode(&*asked.bytes).unwrap()).collect()
    }

    fn spans(&self) -> Vec<Span> {
        let requests: Vec<ExportTraceServiceRequest> = self.decoded("/v1/traces");
        let resources = requests.into_iter().flat_map(|request| request.resource_spans);
        let checked = resources.inspect(|found| {
            assert_named(&found.resource.as_ref().unwrap().attributes);
        });
        let scopes = checked.flat_map(|found| found.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }
}

fn assert_named(attributes: &[KeyValue]) {
    assert_eq!(text(attributes, "service.name"), "memfold-server");
}

fn value<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a Any> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    found.value.as_ref().and_then(|AnyValue { value }| value.as_ref())
}

fn text(attributes: &[KeyValue], key: &str) -> String {
    match value(attributes, key) {
        Some(Any::StringValue(text)) => text.clone(),
        other => panic!("{key} is {other:?} of {attributes:?}"),
    }
}

fn serve(dir: &TestFolder, variables: &[(&str, &str)]) -> Server {
    let arguments = ["http", "brain.db", "--listen", "127.0.0.1:0", "--allow-writes"];
    let mut command = dir.command(&arguments);
    command.envs(variables.iter().copied());
    Server::start(command)
}

const TEXT: &str = "The deploy runs every Friday at noon";

#[test]
fn a_collector_receives_stages_counters_and_logs_but_no_text() {
    let (dir, collector) = (TestFolder::with_deploys(), Collector::answering("200 OK"));
    let endpoint = collector.0.url();
    let server = serve(&dir, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)]);
    assert_eq!(server.post("/v1/check", &json!({ "text": TEXT })).status, 200);
    assert_eq!(server.post("/v1/save", &json!({ "text": TEXT })).status, 200);
    let caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let traced = [("traceparent", caller), ("tracestate", "theirs=1")];
    assert_eq!(server.send("GET", "/v1/stats", &traced, "").status, 200);
    server.job("/v1/runs", &[], &json!({ "execute": "identical" }));
    let log = server.log();
    // Waiting data are sent before it ends.
    assert_eq!(server.terminate(), Some(0));
    assert!(!log.contains("telemetry"), "{log}");

    let spans = collector.spans();
    let by_id: BTreeMap<&[u8], &Span> = spans.iter().map(|span| (&*span.span_id, span)).collect();
    let named = |name: &str| {
        spans.iter().find(|span| span.name == name).unwrap_or_else(|| {
            let names: Vec<_> = spans.iter().map(|span| &span.name).collect();
            panic!("no {name} in {names:?}")
        })
    };
    let parent = |name: &str| by_id.get(&*named(name).parent_span_id).map(|span| &*span.name);
    assert_eq!((parent("check"), parent("save")), (Some("http.request"), Some("http.request")));
    for stage in ["load", "scan", "cluster", "plan"] {
        let name = format!("consolidation.{stage}");
        assert_eq!(parent(&name), Some("consolidation.run"), "{name}");
    }
    // A run of the server saves its plan and applies the requested part.
    assert_eq!(parent("consolidation.run"), Some("job"));
    assert_eq!((parent("consolidation.persist"), parent("job")), (Some("job"), None));
    assert_eq!(named("job").links.len(), 1, "the request that asked for it");

    let is_traced = |span: &&Span| text(&span.attributes, "http.route") == "/v1/stats";
    let traced = spans.iter().filter(|span| span.name == "http.request").find(is_traced).unwrap();
    assert_eq!(traced.trace_id, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736_u128.to_be_bytes());
    assert_eq!(traced.parent_span_id, 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes());
    assert_ne!(named("check").trace_id, traced.trace_id, "others begin one of their own");

    let check = named("check");
    assert_eq!(text(&check.attributes, "decision"), "touch");
    assert!(text(&check.attributes, "store").ends_with("brain.db"));
    let request = by_id[&*check.parent_span_id];
    assert_eq!(text(&request.attributes, "http.route"), "/v1/check");
    assert_eq!(value(&request.attributes, "http.response.status_code"), Some(&Any::IntValue(200)));
    let persisted = value(&named("consolidation.persist").attributes, "applied");
    assert_eq!(persisted, Some(&Any::IntValue(1)));

    assert_counted(&collector);
    assert_logged(&collector);
    let words = ["Friday", "prefers tea", "Frankfurt"];
    for asked in collector.0.asked() {
        for word in words {
            let found = asked.bytes.windows(word.len()).any(|window| window == word.as_bytes());
            assert!(!found, "{word} was sent to {}", asked.path);
        }
    }
}

/// The counters of `/metrics`.
fn assert_counted(collector: &Collector) {
    let requests: Vec<ExportMetricsServiceRequest> = collector.decoded("/v1/metrics");
    let resources = requests.into_iter().flat_map(|request| request.resource_metrics);
    let scopes = resources.flat_map(|found| {
        assert_named(&found.resource.unwrap().attributes);
        found.scope_metrics
    });
    let metrics: Vec<_> = scopes.flat_map(|scope| scope.metrics).collect();
    let point = |name: &str, (key, wanted): (&str, &str)| {
        let metric = metrics.iter().rfind(|metric| metric.name == name);
        let metric = metric.unwrap_or_else(|| panic!("no {name} in {metrics:?}"));
        let Some(Data::Sum(sum)) = &metric.data else { panic!("{metric:?}") };
        let is_wanted = |attributes: &[KeyValue]| text(attributes, key) == wanted;
        let found = sum.data_points.iter().find(|point| is_wanted(&point.attributes));
        found.unwrap_or_else(|| panic!("{metric:?}")).value
    };
    let route = ("route", "/v1/check");
    assert_eq!(point("memfold_http_requests_total", route), Some(Number::AsInt(1)));
    assert_eq!(point("memfold_http_request_seconds_count", route), Some(Number::AsInt(1)));
    let sum = point("memfold_http_request_seconds_sum", route);
    assert!(matches!(sum, Some(Number::AsDouble(seconds)) if seconds > 0.0), "{sum:?}");
    let touch = ("operation", "check");
    assert_eq!(point("memfold_decisions_total", touch), Some(Number::AsInt(1)));
}

fn assert_logged(collector: &Collector) {
    let requests: Vec<ExportLogsServiceRequest> = collector.decoded("/v1/logs");
    let resources = requests.into_iter().flat_map(|request| request.resource_logs);
    let scopes = resources.flat_map(|found| {
        assert_named(&found.resource.unwrap().attributes);
        found.scope_logs
    });
    let records: Vec<_> = scopes.flat_map(|scope| scope.log_records).collect();
    let ended = Any::StringValue("run ended".to_owned());
    let is_ended = |body: &AnyValue| body.value.as_ref() == Some(&ended);
    let found = records.iter().find(|record| record.body.as_ref().is_some_and(is_ended));
    let found = found.unwrap_or_else(|| panic!("{records:?}"));
    assert_eq!(text(&found.attributes, "state"), "done");
}

/// A collector that is away or refuses costs a line on stderr, and no request.
#[test]
fn requests_do_not_need_the_collector() {
    let refusing = Collector::answering("503 Service Unavailable");
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let nobody = format!("http://{nobody}");
    for (endpoint, why) in [(refusing.0.url(), "status 503"), (nobody, "refused")] {
        let dir = TestFolder::with_deploys();
        let variables =
            [("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint), ("OTEL_BSP_SCHEDULE_DELAY", "20")];
        let server = serve(&dir, &variables);
        for _ in 0..400 {
            assert_eq!(server.post("/v1/check", &json!({ "text": TEXT })).status, 200);
            if server.log().contains("note: no telemetry reaches ") {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let log = server.log();
        assert!(log.contains("note: no telemetry reaches ") && log.contains(why), "{log}");
        assert_eq!(log.matches("no telemetry reaches").count(), 1, "{log}");
        assert_eq!(server.terminate(), Some(0));
    }
}

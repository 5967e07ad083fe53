//! The routes, and the layers around all of them: the gate, a time limit, counting.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::handler::Handler;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderValue, Method};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{MethodFilter, MethodRouter};
use memfold::machine::Stopwatch;
use schemars::JsonSchema;
use tracing::field::Empty;
use tracing::{Instrument as _, Span, info_span, warn};

use super::answers::{Answer, json, json_bytes};
use super::connections::Peer;
use super::gate::{Door, Gate};
use super::openapi::Shape;
use super::{compatible, memories, openapi, runs};
use crate::metrics::store_gauges;
use crate::schedule::{ScheduleSettings, ScheduleView, Schedules};
use crate::service::{
    ApplyRequest, CompactAllAnswer, CompactAnswer, DecisionsRequest, HistoryAnswer, Incoming,
    JobDocument, Problem, ProblemKind, ProposalsDocument, RecallRequest, RunAnswer, RunOptions,
    RunRequest, SearchRequest, Service, SettleRequest, UndoRequest,
};
use crate::telemetry::join_trace;

/// Time limit for an answer, or for its first byte.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Requests that wait for a run, as long as the compatible paths are used to.
pub(crate) const RUN_TIMEOUT: Duration = Duration::from_secs(600);

/// Paths that need no token: they say whether the server lives, and nothing of its contents.
const OPEN: [&str; 2] = ["/healthz", "/readyz"];

/// Where browsers give the token.
pub(crate) const SIGN_IN: &str = "/ui/sign-in";
/// The icon of all pages.
pub(crate) const ICON: &str = "/ui/icon.svg";
/// The sign-in page and the files that it needs.
const OPEN_PAGES: [&str; 3] = [SIGN_IN, "/ui/style.css", ICON];

fn door(path: &str) -> Door {
    if OPEN.contains(&path) || OPEN_PAGES.contains(&path) {
        return Door::Open;
    }
    let is_page = path == "/" || path == "/ui" || path.starts_with("/ui/");
    if is_page { Door::Page } else { Door::Token }
}

/// The state that all routes share.
#[derive(Debug, Clone)]
pub(crate) struct App {
    /// The operations of requests.
    pub(crate) service: Arc<Service>,
    /// When stores run by themselves.
    pub(crate) schedules: Arc<Schedules>,
    /// Who may ask.
    pub(crate) gate: Arc<Gate>,
}

/// A path: its handler, and its description.
pub(super) struct Operation {
    pub(super) method: Method,
    pub(super) path: &'static str,
    handler: MethodRouter<App>,
    pub(super) summary: &'static str,
    pub(super) body: Option<Shape>,
    /// The status of the answer.
    pub(super) status: u16,
    pub(super) answer: Shape,
    /// Parameters beside the path's.
    pub(super) parameters: &'static [&'static str],
}

/// Makes an operation of `post /v1/check`, for example.
fn op<T: 'static>(
    place: &'static str,
    handler: impl Handler<T, App>,
    summary: &'static str,
) -> Operation {
    let (method, path) = place.split_once(' ').expect("a method stands before each path");
    let method = Method::from_bytes(method.as_bytes()).expect("each method is one");
    let filter = MethodFilter::try_from(method.clone()).expect("each method can be routed");
    let (body, status, answer) = (None, 200, Shape::named(""));
    let handler = axum::routing::on(filter, handler);
    Operation { method, path, handler, summary, body, status, answer, parameters: &["store"] }
}

impl Operation {
    fn body<T: JsonSchema>(self) -> Self {
        Self { body: Some(Shape::of::<T>()), ..self }
    }

    /// Answers with a type of ours.
    fn answer<T: JsonSchema>(self) -> Self {
        Self { answer: Shape::of::<T>(), ..self }
    }

    /// Answers with a published document, or a content type.
    fn published(self, name: &'static str) -> Self {
        Self { answer: Shape::named(name), ..self }
    }

    /// Starts a job.
    fn starts(self) -> Self {
        Self { status: 202, ..self.answer::<JobDocument>() }
    }

    fn parameters(self, parameters: &'static [&'static str]) -> Self {
        Self { parameters, ..self }
    }
}

/// Every path of the server except the paths of agents and pages: the router and the description
/// are made of it.
#[expect(clippy::too_many_lines, reason = "one table of all routes")]
pub(super) fn operations() -> Vec<Operation> {
    vec![
        op("POST /v1/check", memories::check, "Tells whether a memory is known; writes nothing")
            .body::<Incoming>()
            .published("Check"),
        op("POST /v1/save", memories::save, "Remembers a memory unless it is known")
            .body::<Incoming>()
            .published("Save")
            .parameters(&["store", "Idempotency-Key"]),
        op("POST /v1/search", memories::search, "Finds the nearest memories")
            .body::<SearchRequest>()
            .published("Search"),
        op("POST /v1/recall", memories::recall, "Finds the memories that answer a question")
            .body::<RecallRequest>()
            .published("Recall"),
        op("GET /v1/flags", memories::flags, "Lists contradictory pairs that wait for a person")
            .published("Flags"),
        op("POST /v1/flags/{key}", memories::settle, "Settles a contradictory pair")
            .body::<SettleRequest>()
            .published("FlagSettled"),
        op("GET /v1/proposals", memories::proposals, "Lists merges of which nothing is proven")
            .answer::<ProposalsDocument>(),
        op("GET /v1/stats", memories::stats, "Tells where the store stands").published("Status"),
        op("GET /v1/runs", runs::list, "Lists the runs of the store and the jobs of this server")
            .published("Runs"),
        op(
            "POST /v1/runs",
            runs::start,
            "Starts a consolidation, a dry run unless it says otherwise",
        )
        .body::<RunRequest>()
        .starts()
        .parameters(&["store", "Prefer"]),
        op("GET /v1/runs/{id}", runs::one, "Shows a job of this server, or a run of the store")
            .published("RunOrJob"),
        op("DELETE /v1/runs/{id}", runs::cancel, "Asks a job to stop; what was applied stays")
            .starts(),
        op(
            "GET /v1/runs/{id}/events",
            runs::events,
            "Follows a job as server-sent events: stage, progress, end",
        )
        .published("text/event-stream")
        .parameters(&["store", "Last-Event-ID"]),
        op("POST /v1/runs/{id}/undo", runs::undo, "Takes back what a run did")
            .body::<UndoRequest>()
            .starts()
            .parameters(&["store", "Prefer"]),
        op("GET /v1/plans", runs::plans, "Lists plans").published("Plans"),
        op("GET /v1/plans/{id}", runs::plan, "Shows a plan; its digest is the ETag")
            .published("SavedPlan"),
        op(
            "POST /v1/plans/{id}/decisions",
            runs::decide,
            "Writes down what a person decides about actions",
        )
        .body::<DecisionsRequest>()
        .published("SavedPlan")
        .parameters(&["store", "If-Match"]),
        op("POST /v1/plans/{id}/apply", runs::apply, "Applies a plan whose digest is named")
            .body::<ApplyRequest>()
            .starts()
            .parameters(&["store", "If-Match", "Prefer"]),
        op(
            "POST /api/v1/brain/consolidation/run",
            compatible::run,
            "Runs a consolidation and waits for its end",
        )
        .body::<RunOptions>()
        .answer::<RunAnswer>(),
        op(
            "GET /api/v1/brain/consolidation/schedule",
            runs::schedule,
            "Shows when the store runs by itself",
        )
        .answer::<ScheduleView>(),
        op(
            "PUT /api/v1/brain/consolidation/schedule",
            runs::set_schedule,
            "Sets when the store runs by itself",
        )
        .body::<ScheduleSettings>()
        .answer::<ScheduleView>(),
        op(
            "GET /api/v1/brain/consolidation/history",
            compatible::history,
            "Lists the consolidations of this server",
        )
        .answer::<HistoryAnswer>(),
        op(
            "POST /v1/maintenance/compact",
            compatible::compact,
            "Consolidates the memories of a user and waits for the end",
        )
        .answer::<CompactAnswer>()
        .parameters(&["store", "user_id", "skip_reextract", "skip_consolidate", "dry_run"]),
        op(
            "POST /v1/maintenance/compact_all",
            compatible::compact_all,
            "Consolidates the memories of all users, in all stores",
        )
        .answer::<CompactAllAnswer>()
        .parameters(&["store", "skip_reextract", "skip_consolidate", "dry_run"]),
        op("GET /healthz", healthz, "Whether the server lives; needs no token")
            .published("Health")
            .parameters(&[]),
        op("GET /readyz", readyz, "Whether every store can be read; needs no token")
            .published("Health")
            .parameters(&[]),
        op("GET /metrics", metrics, "What is counted, for Prometheus")
            .published("text/plain")
            .parameters(&[]),
        op("GET /openapi.json", described, "This description")
            .published("application/json")
            .parameters(&[]),
    ]
}

/// Makes the routes. `further` are routes of other modules (of agents, for example); the gate
/// stands before them too.
pub(crate) fn router(app: App, further: Router<App>) -> Router {
    operations()
        .into_iter()
        .fold(Router::new(), |router, operation| router.route(operation.path, operation.handler))
        .merge(further)
        .fallback(async || Problem::not_found("there is nothing at this path"))
        .method_not_allowed_fallback(async || {
            Problem::new(ProblemKind::MethodNotAllowed, "the path knows other methods")
        })
        .layer(from_fn_with_state(app.clone(), watched))
        .with_state(app)
}

/// The span of a request for a collector; none for requests that supervisors send all the time.
fn span(request: &Request, route: &str) -> Span {
    if OPEN.contains(&route) || route == "/metrics" {
        return Span::none();
    }
    let span = info_span!(
        "http.request",
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = request.method().as_str(),
        http.route = route,
        http.response.status_code = Empty,
    );
    join_trace(&span, request.headers());
    span
}

/// Lets a request in, within its time, and counts it.
async fn watched(State(app): State<App>, request: Request, next: Next) -> Response {
    let stopwatch = Stopwatch::start();
    let metrics = Arc::clone(&app.service.metrics);
    let path = request.uri().path();
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("unknown", MatchedPath::as_str).to_owned();
    let peer = request.extensions().get::<Peer>().and_then(|peer| peer.0);
    let door = door(path);
    let patience = match path.starts_with("/api/") || path.starts_with("/v1/maintenance/") {
        true => RUN_TIMEOUT,
        false if request.headers().contains_key("prefer") => RUN_TIMEOUT,
        false => REQUEST_TIMEOUT,
    };
    let span = span(&request, &route);
    metrics.in_flight.add(1);
    let mut response = match app.gate.check(request.headers(), peer, door) {
        Err(problem) => {
            metrics.refused(match problem.kind {
                ProblemKind::Misdirected => "host or origin",
                ProblemKind::Busy => "too many tries",
                _ => "token",
            });
            match (door, problem.kind) {
                (Door::Page, ProblemKind::Unauthorized) => Redirect::to(SIGN_IN).into_response(),
                _ => problem.into_response(),
            }
        }
        Ok(()) => tokio::time::timeout(patience, next.run(request))
            .instrument(span.clone())
            .await
            .unwrap_or_else(|_| {
                let detail = format!("the request took longer than {} seconds", patience.as_secs());
                Problem::new(ProblemKind::TooSlow, detail).into_response()
            }),
    };
    metrics.in_flight.add(-1);
    let status = response.status();
    span.record("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        span.record("otel.status_code", "ERROR");
        span.in_scope(|| warn!(route, status = i64::from(status.as_u16()), "request failed"));
    }
    metrics.request(&route, status.as_u16(), stopwatch.seconds());
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers
        .entry(CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"));
    response
}

async fn healthz() -> Response {
    json_bytes(br#"{"status":"ok"}"#.to_vec())
}

/// Whether every store can be read.
async fn readyz(State(app): State<App>) -> Answer {
    for store in app.service.stores() {
        let store = Arc::clone(store);
        let looked = app.service.workers.run(move || {
            store.runs().map_err(|problem| {
                // Nothing of the store is revealed without a token.
                let detail = format!("a store cannot be read ({})", problem.kind.status().as_u16());
                Problem::new(ProblemKind::Unavailable, detail)
            })
        });
        looked.await?;
    }
    Ok(json_bytes(br#"{"status":"ready"}"#.to_vec()))
}

async fn metrics(State(app): State<App>) -> Answer {
    let stores: Vec<_> = app.service.stores().cloned().collect();
    let gauges = app.service.workers.run(move || {
        let mut gauges: Vec<_> = stores.iter().flat_map(|store| store_gauges(store)).collect();
        gauges.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        Ok(gauges)
    });
    let page = app.service.metrics.page(&gauges.await?);
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page).into_response())
}

async fn described() -> Answer {
    json(&openapi::openapi())
}

//! The routes, and the layers around all of them: the gate, a time limit, counting.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::HeaderValue;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{MethodRouter, delete, get, post, put};
use memfold::machine::Stopwatch;
use tracing::field::Empty;
use tracing::{Instrument as _, Span, info_span, warn};

use super::answers::json_bytes;
use super::connections::Peer;
use super::gate::{Door, Gate};
use super::{compatible, memories, openapi, runs};
use crate::metrics::store_gauges;
use crate::schedule::Schedules;
use crate::service::{Problem, ProblemKind, Service};
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
pub struct App {
    /// The operations of requests.
    pub service: Arc<Service>,
    /// When stores run by themselves.
    pub schedules: Arc<Schedules>,
    /// Who may ask.
    pub gate: Arc<Gate>,
}

/// A path: its handler, and its description.
pub(super) struct Operation {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    handler: MethodRouter<App>,
    pub(super) summary: &'static str,
    /// The schema of the body, if there is one.
    pub(super) body: Option<&'static str>,
    /// The status of the answer.
    pub(super) status: u16,
    /// The schema of the answer.
    pub(super) schema: &'static str,
    /// Parameters beside the path's.
    pub(super) parameters: &'static [&'static str],
}

fn op(
    method: &'static str,
    path: &'static str,
    handler: MethodRouter<App>,
    summary: &'static str,
) -> Operation {
    let (body, status, schema, parameters) = (None, 200, "", &[][..]);
    Operation { method, path, handler, summary, body, status, schema, parameters }
}

impl Operation {
    fn body(self, schema: &'static str) -> Self {
        Self { body: Some(schema), ..self }
    }

    fn answer(self, status: u16, schema: &'static str) -> Self {
        Self { status, schema, ..self }
    }

    fn parameters(self, parameters: &'static [&'static str]) -> Self {
        Self { parameters, ..self }
    }
}

const STORE: &[&str] = &["store"];
const STARTED: &[&str] = &["store", "Prefer"];

/// Every path of the server except the paths of agents and pages: the router and the description
/// are made of it.
#[expect(clippy::too_many_lines, reason = "one table of all routes")]
pub(super) fn operations() -> Vec<Operation> {
    vec![
        op(
            "post",
            "/v1/check",
            post(memories::check),
            "Tells whether a memory is known; writes nothing",
        )
        .body("MemoryRequest")
        .answer(200, "Check")
        .parameters(STORE),
        op("post", "/v1/save", post(memories::save), "Remembers a memory unless it is known")
            .body("MemoryRequest")
            .answer(200, "Save")
            .parameters(&["store", "Idempotency-Key"]),
        op("post", "/v1/search", post(memories::search), "Finds the nearest memories")
            .body("SearchRequest")
            .answer(200, "Search")
            .parameters(STORE),
        op(
            "post",
            "/v1/recall",
            post(memories::recall),
            "Finds the memories that answer a question",
        )
        .body("RecallRequest")
        .answer(200, "Recall")
        .parameters(STORE),
        op(
            "get",
            "/v1/flags",
            get(memories::flags),
            "Lists contradictory pairs that wait for a person",
        )
        .answer(200, "Flags")
        .parameters(STORE),
        op("post", "/v1/flags/{key}", post(memories::settle), "Settles a contradictory pair")
            .body("SettleRequest")
            .answer(200, "FlagSettled")
            .parameters(STORE),
        op(
            "get",
            "/v1/proposals",
            get(memories::proposals),
            "Lists merges of which nothing is proven",
        )
        .answer(200, "ProposalsDocument")
        .parameters(STORE),
        op("get", "/v1/stats", get(memories::stats), "Tells where the store stands")
            .answer(200, "Status")
            .parameters(STORE),
        op(
            "get",
            "/v1/runs",
            get(runs::list),
            "Lists the runs of the store and the jobs of this server",
        )
        .answer(200, "Runs")
        .parameters(STORE),
        op(
            "post",
            "/v1/runs",
            post(runs::start),
            "Starts a consolidation, a dry run unless it says otherwise",
        )
        .body("RunRequest")
        .answer(202, "JobDocument")
        .parameters(STARTED),
        op(
            "get",
            "/v1/runs/{id}",
            get(runs::one),
            "Shows a job of this server, or a run of the store",
        )
        .answer(200, "RunOrJob")
        .parameters(STORE),
        op(
            "delete",
            "/v1/runs/{id}",
            delete(runs::cancel),
            "Asks a job to stop; what was applied stays",
        )
        .answer(202, "JobDocument")
        .parameters(STORE),
        op(
            "get",
            "/v1/runs/{id}/events",
            get(runs::events),
            "Follows a job as server-sent events: stage, progress, end",
        )
        .answer(200, "text/event-stream")
        .parameters(&["store", "Last-Event-ID"]),
        op("post", "/v1/runs/{id}/undo", post(runs::undo), "Takes back what a run did")
            .body("UndoRequest")
            .answer(202, "JobDocument")
            .parameters(STARTED),
        op("get", "/v1/plans", get(runs::plans), "Lists plans")
            .answer(200, "Plans")
            .parameters(STORE),
        op("get", "/v1/plans/{id}", get(runs::plan), "Shows a plan; its digest is the ETag")
            .answer(200, "SavedPlan")
            .parameters(STORE),
        op(
            "post",
            "/v1/plans/{id}/decisions",
            post(runs::decide),
            "Writes down what a person decides about actions",
        )
        .body("DecisionsRequest")
        .answer(200, "SavedPlan")
        .parameters(&["store", "If-Match"]),
        op(
            "post",
            "/v1/plans/{id}/apply",
            post(runs::apply),
            "Applies a plan whose digest is named",
        )
        .body("ApplyRequest")
        .answer(202, "JobDocument")
        .parameters(&["store", "If-Match", "Prefer"]),
        op(
            "post",
            "/api/v1/brain/consolidation/run",
            post(compatible::run),
            "Runs a consolidation and waits for its end",
        )
        .body("RunOptions")
        .answer(200, "RunAnswer")
        .parameters(STORE),
        op(
            "get",
            "/api/v1/brain/consolidation/schedule",
            get(runs::schedule),
            "Shows when the store runs by itself",
        )
        .answer(200, "ScheduleView")
        .parameters(STORE),
        op(
            "put",
            "/api/v1/brain/consolidation/schedule",
            put(runs::set_schedule),
            "Sets when the store runs by itself",
        )
        .body("ScheduleSettings")
        .answer(200, "ScheduleView")
        .parameters(STORE),
        op(
            "get",
            "/api/v1/brain/consolidation/history",
            get(compatible::history),
            "Lists the consolidations of this server",
        )
        .answer(200, "HistoryAnswer")
        .parameters(STORE),
        op(
            "post",
            "/v1/maintenance/compact",
            post(compatible::compact),
            "Consolidates the memories of a user and waits for the end",
        )
        .answer(200, "CompactAnswer")
        .parameters(&["store", "user_id", "skip_reextract", "skip_consolidate", "dry_run"]),
        op(
            "post",
            "/v1/maintenance/compact_all",
            post(compatible::compact_all),
            "Consolidates the memories of all users, in all stores",
        )
        .answer(200, "CompactAllAnswer")
        .parameters(&["store", "skip_reextract", "skip_consolidate", "dry_run"]),
        op("get", "/healthz", get(healthz), "Whether the server lives; needs no token")
            .answer(200, "Health"),
        op("get", "/readyz", get(readyz), "Whether every store can be read; needs no token")
            .answer(200, "Health"),
        op("get", "/metrics", get(metrics), "What is counted, for Prometheus")
            .answer(200, "text/plain"),
        op("get", "/openapi.json", get(described), "This description")
            .answer(200, "application/json"),
    ]
}

/// Makes the routes. `further` are routes of other modules (of agents, for example); the gate
/// stands before them too.
pub fn router(app: App, further: Router<App>) -> Router {
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
async fn readyz(State(app): State<App>) -> Result<Response, Problem> {
    for store in app.service.stores() {
        let store = Arc::clone(store);
        let looked = app.service.workers.run(move || {
            store.runs().map_err(|problem| {
                // Nothing of the store is revealed without a token.
                let detail = format!("a store cannot be read ({})", problem.kind.status());
                Problem::new(ProblemKind::Unavailable, detail)
            })
        });
        looked.await?;
    }
    Ok(json_bytes(br#"{"status":"ready"}"#.to_vec()))
}

async fn metrics(State(app): State<App>) -> Result<Response, Problem> {
    let stores: Vec<_> = app.service.stores().cloned().collect();
    let gauges = app.service.workers.run(move || {
        let mut gauges: Vec<_> = stores.iter().flat_map(|store| store_gauges(store)).collect();
        gauges.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        Ok(gauges)
    });
    let page = app.service.metrics.page(&gauges.await?);
    let mut response = page.into_response();
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}

async fn described() -> Response {
    json_bytes(openapi::openapi().to_string().into_bytes())
}

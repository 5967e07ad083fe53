//! The dashboard: pages that people read and decide on, made on the server.
//!
//! Every page works without a script; `live.js` only follows a run that is at work. Forms hold a
//! token that other sites cannot know, and texts of memories are escaped wherever they stand
//! (askama does so automatically, and pages may run no script but ours). The words of a page stand
//! in its template, in `tools/server/templates`.

mod shell;
mod overview;
mod plan;
mod memory;
mod runs;

use axum::Router;
use axum::response::Redirect;
use axum::routing::{get, post};

use crate::http::{App, ICON, SIGN_IN};

/// Returns the routes of the dashboard.
pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/", get(async || Redirect::to("/ui")))
        .route("/ui", get(overview::page))
        .route("/ui/plans", get(plan::latest))
        .route("/ui/plan", get(plan::page))
        .route("/ui/plan/decide", post(plan::decide))
        .route("/ui/plan/apply", post(plan::apply))
        .route("/ui/conflicts", get(memory::conflicts).post(memory::settle))
        .route("/ui/memories", get(memory::list))
        .route("/ui/memory", get(memory::page))
        .route("/ui/schedule", get(runs::schedule).post(runs::set_schedule))
        .route("/ui/runs", get(runs::list).post(runs::start))
        .route("/ui/run", get(runs::one))
        .route("/ui/run/undo", post(runs::undo))
        .route("/ui/job", get(runs::job))
        .route("/ui/job/stop", post(runs::stop))
        .route("/ui/jobs/{id}/events", get(crate::http::events))
        .route(SIGN_IN, get(shell::sign_in_page).post(shell::sign_in))
        .route("/ui/style.css", get(shell::style))
        .route("/ui/live.js", get(shell::script))
        .route(ICON, get(shell::icon))
        .route("/ui/{*nothing}", get(shell::nothing))
}

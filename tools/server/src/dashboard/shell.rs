//! Shared by all pages: the frame around them, forms, refusals, signing in.

use std::fmt::Display;
use std::sync::Arc;

use askama::Template;
use askama::filters::urlencode_strict;
use axum::extract::rejection::FormRejection;
use axum::extract::{Extension, Form, FromRequest, Request, State};
use axum::http::StatusCode;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, SET_COOKIE,
};
use axum::response::{Html, IntoResponse, Redirect, Response};
use memfold_guard::text::excerpt;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::http::{App, On, Peer};
use crate::service::{Problem, ProblemDocument, ProblemKind, ServedStore};

/// Nothing runs on a page but our own file, nothing is sent elsewhere, and no site shows it in a frame.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The frame of a page.
#[derive(Debug, Clone)]
pub(super) struct Shell {
    /// The page's name in the navigation, and its title.
    pub(super) title: &'static str,
    pub(super) store: String,
    pub(super) stores: Vec<String>,
    /// The token in forms.
    pub(super) form: String,
    pub(super) may_write: bool,
    /// Seconds after which the page reloads while a job is at work; 0 for never.
    pub(super) refresh: u8,
}

impl Shell {
    pub(super) fn of(app: &App, store: &ServedStore, title: &'static str) -> Self {
        Self {
            title,
            store: store.name.clone(),
            stores: app.service.stores().map(|store| store.name.clone()).collect(),
            form: app.gate.form_token(),
            may_write: store.may_write().is_ok(),
            refresh: 0,
        }
    }

    /// Returns a path of this store's pages.
    pub(super) fn to(&self, path: &str) -> String {
        match self.stores.len() {
            0 | 1 => path.to_owned(),
            _ => place(path, &[("store", &self.store)]),
        }
    }

    /// Returns the path of a page about something.
    pub(super) fn about(&self, path: &str, name: &str, value: &dyn Display) -> String {
        self.to(&place(path, &[(name, &value.to_string())]))
    }

    /// Returns a time as people read it.
    #[expect(clippy::unused_self, reason = "templates call it on what they have")]
    pub(super) fn at(&self, time: &str) -> String {
        moment(time)
    }

    /// Returns a text of a memory as it is displayed.
    #[expect(clippy::unused_self, reason = "templates call it on what they have")]
    pub(super) fn text(&self, text: &str, chars_max: usize) -> String {
        excerpt(text, chars_max)
    }

    /// Returns the path of a memory's page.
    pub(super) fn memory(&self, id: &dyn Display) -> String {
        self.about("/ui/memory", "id", id)
    }
}

/// What a handler of a page returns.
pub(super) type Page = Result<Response, Refused>;

impl On {
    /// Makes a page about the store.
    pub(super) async fn page<P: Template>(
        self,
        title: &'static str,
        make: impl FnOnce(&Arc<ServedStore>, Shell) -> Result<P, Problem> + Send + 'static,
    ) -> Page {
        let app = self.app.clone();
        let work =
            move |store: &Arc<ServedStore>| Ok(shown(&make(store, Shell::of(&app, store, title))?));
        Ok(self.work(work).await?)
    }

    /// Does the work of a form and redirects to the page that it returns.
    pub(super) async fn then(
        self,
        change: impl FnOnce(&Arc<ServedStore>, Shell) -> Result<String, Problem> + Send + 'static,
    ) -> Page {
        let app = self.app.clone();
        let work = move |store: &Arc<ServedStore>| change(store, Shell::of(&app, store, ""));
        Ok(Redirect::to(&self.work(work).await?).into_response())
    }
}

/// The memory, the plan, the run or the job that a page is about.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Id {
    pub(super) id: String,
}

/// Makes a path with a query; empty values are left out.
pub(super) fn place(path: &str, pairs: &[(&str, &str)]) -> String {
    let mut place = path.to_owned();
    for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        place.push(if place.contains('?') { '&' } else { '?' });
        let Ok(value) = urlencode_strict(value);
        place.push_str(&format!("{name}={value}"));
    }
    place
}

/// Makes an answer of a page.
pub(super) fn shown(page: &impl Template) -> Response {
    match page.render() {
        Ok(page) => html(page),
        Err(error) => Problem::new(ProblemKind::Failed, error.to_string()).into_response(),
    }
}

fn html(page: String) -> Response {
    // Forms would name no origin without the policy of referrers.
    let headers = [(CONTENT_SECURITY_POLICY, POLICY), (REFERRER_POLICY, "same-origin")];
    (headers, Html(page)).into_response()
}

/// A problem as a page.
#[derive(Debug)]
pub(super) struct Refused(pub(super) Problem);

impl<P: Into<Problem>> From<P> for Refused {
    fn from(problem: P) -> Self {
        Self(problem.into())
    }
}

#[derive(Template)]
#[template(path = "refused.html")]
struct RefusedPage {
    problem: ProblemDocument,
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.0.kind.status(), shown(&RefusedPage { problem: self.0.document() })).into_response()
    }
}

/// A form's fields with its token.
#[derive(Debug, Deserialize)]
struct Signed<T> {
    #[serde(default)]
    form: String,
    store: Option<String>,
    #[serde(flatten)]
    fields: T,
}

/// A form of one of our own pages: the store that it is about, and its fields.
pub(super) struct Fields<T>(pub(super) On, pub(super) T);

impl<T: DeserializeOwned> FromRequest<App> for Fields<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refused> {
        let Form(signed) = Form::<Signed<T>>::from_request(request, app).await.map_err(of_form)?;
        app.gate.check_form(&signed.form)?;
        Ok(Self(On { app: app.clone(), name: signed.store }, signed.fields))
    }
}

fn of_form(rejection: FormRejection) -> Problem {
    let kind = match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ProblemKind::TooLarge,
        _ => ProblemKind::Malformed,
    };
    Problem::new(kind, "the form cannot be read").with_hint("open the page again")
}

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage {
    form: String,
    problem: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct SignIn {
    #[serde(default)]
    token: String,
}

pub(super) async fn sign_in_page(State(app): State<App>) -> Response {
    shown(&SignInPage { form: app.gate.form_token(), problem: None })
}

pub(super) async fn sign_in(
    peer: Option<Extension<Peer>>,
    Fields(On { app, .. }, SignIn { token }): Fields<SignIn>,
) -> Response {
    let peer = peer.and_then(|Extension(peer)| peer.0);
    match app.gate.sign_in(&token, peer) {
        Ok(cookie) => ([(SET_COOKIE, cookie)], Redirect::to("/ui")).into_response(),
        Err(problem) => {
            let page = SignInPage { form: app.gate.form_token(), problem: Some(problem.detail) };
            (problem.kind.status(), shown(&page)).into_response()
        }
    }
}

pub(super) async fn style() -> Response {
    asset("text/css; charset=utf-8", include_str!("../../templates/style.css"))
}

pub(super) async fn script() -> Response {
    asset("text/javascript; charset=utf-8", include_str!("../../templates/live.js"))
}

pub(super) async fn icon() -> Response {
    asset("image/svg+xml", include_str!("../../templates/icon.svg"))
}

/// The answer for paths that the dashboard lacks.
pub(super) async fn nothing() -> Refused {
    Refused(Problem::not_found("there is no page at this path"))
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, "private, max-age=3600")], text).into_response()
}

/// A time as people read it, from one of ISO 8601, which is returned as it is where it is none.
pub(super) fn moment(time: &str) -> String {
    let (bare, zone) = time.split_once('[').unwrap_or((time, ""));
    let is_time = bare.is_ascii() && bare.len() >= 19 && bare.as_bytes()[10] == b'T';
    if !is_time {
        return excerpt(time, 60);
    }
    let rest = bare[19..].trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    let (day, clock) = (&bare[..10], &bare[11..19]);
    let clock = clock.strip_suffix(":00").unwrap_or(clock);
    let rest = rest.replace('Z', "UTC");
    let zone = if zone.is_empty() { &rest } else { zone.trim_end_matches(']') };
    format!("{day} {clock} {zone}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short_and_keep_their_zone() {
        assert_eq!(moment("2026-11-25T09:35:19.011815"), "2026-11-25 09:35:19");
        assert_eq!(moment("2026-11-25T09:35:00.1Z"), "2026-11-25 09:35 UTC");
        let zoned = "2026-03-29T03:00:00+02:00[Europe/Berlin]";
        assert_eq!(moment(zoned), "2026-03-29 03:00 Europe/Berlin");
        assert_eq!(moment("gestern früh, glaube ich"), "gestern früh, glaube ich");
    }

    #[test]
    fn whatever_an_id_holds_stays_a_value_of_the_query() {
        let place = place("/ui/memory", &[("id", "a/b?c=d&e#\"<ü"), ("store", "x y")]);
        assert_eq!(place, "/ui/memory?id=a%2Fb%3Fc%3Dd%26e%23%22%3C%C3%BC&store=x%20y");
    }
}

//! Posting JSON to an address of the user's choosing, and explaining failures.

use std::io::ErrorKind;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use memfold_guard::text::excerpt;
use serde_json::Value;
use ureq::http::{Response, Uri};
use ureq::{Agent, Body, Proxy};

/// How much of an answer is shown.
const SHOWN_CHARS: usize = 120;
/// How long to wait before the first repetition; each further one waits twice as long.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// A server that wants a longer rest is left alone.
const REST_MAX: Duration = Duration::from_secs(30);
/// The most that is read of the body of an error status.
const COMPLAINT_BYTES: u64 = 64 << 10;
pub(super) const PROBLEM_CHARS: usize = 160;
/// How often the wish to stop is looked at while a server thinks.
pub(super) const GLANCE: Duration = Duration::from_millis(50);

/// Why there is no answer. Texts in it come from others and are shown escaped and shortened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The configured value is no address.
    #[error("{found} is no address")]
    Address {
        /// What was found.
        found: String,
    },
    /// Nobody answers there.
    #[error("{place} cannot be reached: {reason}")]
    Unreachable {
        /// The address.
        place: String,
        /// Why.
        reason: String,
    },
    /// The time was up.
    #[error("{place} did not answer within {} ms", waited.as_millis())]
    Slow {
        /// The address.
        place: String,
        /// How long was waited.
        waited: Duration,
    },
    /// The connection ended before the answer did.
    #[error("the answer of {place} broke off: {reason}")]
    BrokenOff {
        /// The address.
        place: String,
        /// How.
        reason: String,
    },
    /// It said no.
    #[error("{place} answered with status {status}: {found}")]
    Status {
        /// The address.
        place: String,
        /// The HTTP status.
        status: u16,
        /// The beginning of its answer.
        found: String,
    },
    /// It wants to be asked again much later.
    #[error("{place} answered with status {status} and wants {} s of rest", wait.as_secs())]
    Resting {
        /// The address.
        place: String,
        /// The HTTP status.
        status: u16,
        /// How long.
        wait: Duration,
    },
    /// It sends elsewhere, where nothing was meant to go.
    #[error("{place} sends to {target}, which is not followed")]
    Redirected {
        /// The address.
        place: String,
        /// Where to.
        target: String,
    },
    /// The answer is longer than any could be.
    #[error("the answer of {place} is longer than {bytes_max} bytes")]
    TooLong {
        /// The address.
        place: String,
        /// The limit.
        bytes_max: u64,
    },
    /// The answer is something else.
    #[error("{place} should answer with {expected}, and answered with {found}")]
    Unexpected {
        /// The address.
        place: String,
        /// The expected form.
        expected: &'static str,
        /// What was found.
        found: String,
    },
}

/// Where to post, and how patiently.
#[derive(Clone)]
pub struct Endpoint {
    /// The whole address.
    pub url: String,
    /// Sent as a bearer token; never shown.
    pub key: Option<String>,
    /// How long one request may take, from connecting to the last byte.
    pub timeout: Duration,
    /// How long a call may take with all its repetitions; `None`: as long as these take.
    pub time_limit: Option<Duration>,
    /// How often a request is repeated that found nobody, or a server that is busy or failed.
    pub retries: u32,
}

/// One address that is posted to.
#[derive(Clone)]
pub struct Client {
    agent: Agent,
    endpoint: Endpoint,
    place: String,
    unrepeated: Option<u16>,
}

/// A request that failed, and whether it is worth another try.
struct Failed {
    error: HttpError,
    again: Again,
}

enum Again {
    No,
    Soon,
    After(Duration),
}

impl Client {
    /// Makes one; connects to nothing yet.
    ///
    /// # Errors
    /// When the address is none.
    pub fn new(endpoint: Endpoint) -> Result<Self, HttpError> {
        let place = shown(&endpoint.url);
        let uri: Uri = endpoint
            .url
            .parse()
            .map_err(|error| HttpError::Address { found: format!("{place}: {error}") })?;
        let host = uri.host().unwrap_or_default();
        let proxy = if is_this_machine(host) { None } else { Proxy::try_from_env() };
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(proxy)
            .timeout_global(Some(endpoint.timeout))
            .timeout_connect(Some(endpoint.timeout))
            .user_agent(concat!("memfold/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        Ok(Self { agent, endpoint, place, unrepeated: None })
    }

    /// Returns it so that a request answered with this status is not repeated.
    #[must_use]
    pub(crate) const fn not_repeating(mut self, status: u16) -> Self {
        self.unrepeated = Some(status);
        self
    }

    /// Returns the address as messages name it: without parts that may be secret.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Takes the key out of a server's message.
    #[must_use]
    pub fn without_key(&self, said: &[u8]) -> String {
        let said = String::from_utf8_lossy(said);
        match &self.endpoint.key {
            Some(key) => said.replace(key.as_str(), "(key)"),
            None => said.into_owned(),
        }
    }

    /// Posts JSON and returns the answer.
    ///
    /// Repeated where nobody was there yet, the connection ended before an answer began, or the server said that
    /// it is busy (429) or failed (5xx).
    ///
    /// # Errors
    /// When there is no answer, or it says no.
    pub fn post(&self, body: &Value, bytes_max: u64) -> Result<Vec<u8>, HttpError> {
        let body = body.to_string();
        let mut pause = PAUSE;
        let mut left = self.endpoint.retries;
        let started = now();
        loop {
            let time_left =
                self.endpoint.time_limit.map(|limit| limit.saturating_sub(started.elapsed()));
            if time_left.is_some_and(|left| left.is_zero()) {
                return Err(self.slow());
            }
            let timeout =
                time_left.map_or(self.endpoint.timeout, |left| left.min(self.endpoint.timeout));
            let Failed { error, again } = match self.post_once(&body, bytes_max, timeout) {
                Ok(reply) => return Ok(reply),
                Err(failed) => failed,
            };
            let wait = match again {
                Again::No => return Err(error),
                Again::Soon => pause,
                Again::After(wait) => wait,
            };
            let ends =
                self.endpoint.time_limit.is_some_and(|limit| started.elapsed() + wait >= limit);
            if left == 0 || ends {
                return Err(error);
            }
            left -= 1;
            pause = (2 * pause).min(PAUSE_MAX);
            thread::sleep(wait);
        }
    }

    /// Posts on a thread of its own, so that nobody waits for a slow server who wants to stop; `None`: the caller does.
    ///
    /// # Errors
    /// The ones of [`Self::post`].
    pub(crate) fn post_until(
        &self,
        body: &Value,
        bytes_max: u64,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<u8>>, HttpError> {
        let (client, body) = (self.clone(), body.clone());
        let (answers, answer) = mpsc::channel();
        let work = move || {
            let _gone = answers.send(client.post(&body, bytes_max));
        };
        let broken = |reason: String| HttpError::BrokenOff { place: self.place.clone(), reason };
        let spawned = thread::Builder::new().name("judge".to_owned()).spawn(work);
        spawned.map_err(|error| broken(format!("no thread could be started: {error}")))?;
        loop {
            match answer.recv_timeout(GLANCE) {
                Ok(reply) => return reply.map(Some),
                Err(RecvTimeoutError::Timeout) if cancelled() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(broken("it ended unexpectedly".to_owned()));
                }
            }
        }
    }

    /// Returns the error for an unexpected answer, with its beginning.
    pub(crate) fn unexpected(
        &self,
        reply: &[u8],
        expected: &'static str,
        problem: &str,
    ) -> HttpError {
        let found = beginning(&self.without_key(reply));
        HttpError::Unexpected {
            place: self.place.clone(),
            expected,
            found: format!("{found} ({})", excerpt(problem, PROBLEM_CHARS)),
        }
    }

    fn post_once(&self, body: &str, bytes_max: u64, timeout: Duration) -> Result<Vec<u8>, Failed> {
        let mut request = self
            .agent
            .post(&self.endpoint.url)
            .config()
            .timeout_global(Some(timeout))
            .timeout_connect(Some(timeout))
            .build()
            .header("content-type", "application/json")
            .header("accept", "application/json");
        if let Some(key) = &self.endpoint.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let mut response = request.send(body).map_err(|error| self.unsent(&error))?;
        let status = response.status();
        if status.is_success() {
            return self.read(&mut response, bytes_max).map_err(Failed::for_good);
        }
        Err(self.refused(&mut response))
    }

    fn read(&self, response: &mut Response<Body>, bytes_max: u64) -> Result<Vec<u8>, HttpError> {
        let read = response.body_mut().with_config().limit(bytes_max).read_to_vec();
        read.map_err(|error| match error {
            ureq::Error::BodyExceedsLimit(_) => {
                HttpError::TooLong { place: self.place.clone(), bytes_max }
            }
            ureq::Error::Timeout(_) => self.slow(),
            error => HttpError::BrokenOff { place: self.place.clone(), reason: error.to_string() },
        })
    }

    /// The meaning of a missing answer.
    fn unsent(&self, error: &ureq::Error) -> Failed {
        let place = self.place.clone();
        let again = match error {
            ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => Again::Soon,
            ureq::Error::Io(error) if is_passing(error.kind()) => Again::Soon,
            _ => Again::No,
        };
        let error = match error {
            ureq::Error::Timeout(_) => self.slow(),
            ureq::Error::Io(error) if error.kind() == ErrorKind::UnexpectedEof => {
                let reason = "it ended before it began".to_owned();
                HttpError::BrokenOff { place, reason }
            }
            ureq::Error::Protocol(_) | ureq::Error::Http(_) => {
                HttpError::Unexpected { place, expected: "HTTP", found: error.to_string() }
            }
            error => HttpError::Unreachable { place, reason: error.to_string() },
        };
        Failed { error, again }
    }

    /// The meaning of a status other than success.
    fn refused(&self, response: &mut Response<Body>) -> Failed {
        let place = self.place.clone();
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let status = response.status().as_u16();
        if response.status().is_redirection() {
            let target = header("location").map_or_else(|| "nowhere".to_owned(), shown);
            return Failed::for_good(HttpError::Redirected { place, target });
        }
        let rest = header("retry-after").and_then(|rest| rest.trim().parse().ok());
        let wait = rest.map(Duration::from_secs);
        let again = match wait {
            _ if status != 429 && status < 500 => Again::No,
            _ if self.unrepeated == Some(status) => Again::No,
            Some(wait) if wait > REST_MAX => {
                return Failed::for_good(HttpError::Resting { place, status, wait });
            }
            Some(wait) => Again::After(wait),
            None => Again::Soon,
        };
        let reply = self.read(response, COMPLAINT_BYTES).unwrap_or_default();
        let found = complaint(&self.without_key(&reply));
        Failed { error: HttpError::Status { place, status, found }, again }
    }

    fn slow(&self) -> HttpError {
        let waited = self
            .endpoint
            .time_limit
            .map_or(self.endpoint.timeout, |limit| limit.min(self.endpoint.timeout));
        HttpError::Slow { place: self.place.clone(), waited }
    }
}

impl Failed {
    const fn for_good(error: HttpError) -> Self {
        Self { error, again: Again::No }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a server may take is real time; no plan depends on it"
)]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Tells whether a connection may do better next time.
const fn is_passing(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::UnexpectedEof
    )
}

/// Reads a key from the variable that the configuration names.
///
/// # Errors
/// The fault of the variable, in words.
pub fn key_in(name: &str, variables: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let value = variables(name).map(|value| value.trim().to_owned()).unwrap_or_default();
    if value.is_empty() {
        Err(format!("names the variable {name}, which is not set"))
    } else if !value.bytes().all(|byte| byte.is_ascii_graphic()) {
        Err(format!("names the variable {name}, whose value has characters that no key has"))
    } else {
        Ok(value)
    }
}

/// Returns the message in the body of an error status, or its beginning.
fn complaint(reply: &str) -> String {
    let said = serde_json::from_str::<Value>(reply).ok().and_then(|reply| {
        let places =
            [&reply["error"]["message"], &reply["error"], &reply["message"], &reply["detail"]];
        places.into_iter().find_map(Value::as_str).map(str::to_owned)
    });
    said.map_or_else(|| beginning(reply), |said| excerpt(&said, SHOWN_CHARS))
}

/// Returns how an answer begins.
#[must_use]
pub fn beginning(reply: &str) -> String {
    if reply.is_empty() {
        return "nothing".to_owned();
    }
    excerpt(reply, SHOWN_CHARS)
}

/// Returns an address as messages name it: without the part after the path, which may be secret.
#[must_use]
pub fn shown(url: &str) -> String {
    let plain = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = plain.split_once("://").unwrap_or(("", plain));
    let authority = rest.split('/').next().unwrap_or_default();
    let without_user = authority.rsplit('@').next().unwrap_or_default();
    let rest = format!("{without_user}{}", &rest[authority.len()..]);
    let shown = if scheme.is_empty() { rest } else { format!("{scheme}://{rest}") };
    excerpt(&shown, ADDRESS_CHARS)
}

const ADDRESS_CHARS: usize = 200;

/// Tells whether a host is this machine: no proxy stands in between, whatever the environment says.
#[must_use]
pub fn is_this_machine(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches([']', '.']);
    host.eq_ignore_ascii_case("localhost")
        || host.to_ascii_lowercase().ends_with(".localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_an_address_are_not_shown() {
        assert_eq!(shown("https://me:secret@h:1/v1?key=secret#x"), "https://h:1/v1");
        assert_eq!(shown("/elsewhere?key=secret"), "/elsewhere");
    }

    #[test]
    fn this_machine_is_known_by_its_names() {
        for host in ["localhost", "LOCALHOST.", "a.localhost", "127.0.0.1", "127.9.9.9", "[::1]"] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in ["localhost.example.org", "10.0.0.1", "example.org", ""] {
            assert!(!is_this_machine(host), "{host}");
        }
    }
}

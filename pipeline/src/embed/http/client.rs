//! [`Client`]: one address, asked as often as it is worth it.

use std::io::ErrorKind;
use std::time::Duration;

use serde_json::Value;
use ureq::http::{Response, Uri};
use ureq::{Agent, Body, Proxy};

use super::address::{endpoint, is_this_machine, shown};
use super::api::{Api, complaint};
use crate::embed::{EmbedError, EmbedSettings};

/// How long to wait before the first repetition; each further one waits twice as long.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// A provider that wants a longer rest is left alone.
const REST_MAX: Duration = Duration::from_secs(30);
/// How much of what comes with an error status is read.
const COMPLAINT_BYTES: u64 = 64 << 10;

/// One address.
pub(super) struct Client {
    agent: Agent,
    url: String,
    place: String,
    key: Option<String>,
    timeout: Duration,
    time_limit: Option<Duration>,
    retries: u32,
}

/// A request that failed, and whether it is worth another try.
struct Failed {
    error: EmbedError,
    again: Again,
}

enum Again {
    No,
    Soon,
    After(Duration),
}

impl Client {
    /// Makes one; connects to nothing yet.
    pub(super) fn new(
        api: Api,
        settings: &EmbedSettings,
        variables: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, EmbedError> {
        let base = settings.url.as_deref();
        let base = base.or_else(|| settings.provider?.url_default()).ok_or_else(no_address)?;
        let url = endpoint(api, base);
        let place = shown(&url);
        let uri: Uri = url.parse().map_err(|error| bad_address(format!("{place}: {error}")))?;
        let host = uri.host().unwrap_or_default();
        let proxy = if is_this_machine(host) { None } else { Proxy::try_from_env() };
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(proxy)
            .timeout_global(Some(settings.timeout))
            .timeout_connect(Some(settings.timeout))
            .user_agent(concat!("memfold/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        let key = key(settings, variables)?;
        let EmbedSettings { timeout, time_limit, retries, .. } = *settings;
        Ok(Self { agent, url, place, key, timeout, time_limit, retries })
    }

    /// The address as messages name it.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Takes the key out of what a provider said.
    pub(super) fn without_key(&self, said: &[u8]) -> String {
        let said = String::from_utf8_lossy(said);
        match &self.key {
            Some(key) => said.replace(key.as_str(), "(key)"),
            None => said.into_owned(),
        }
    }

    /// Posts JSON and returns the answer.
    ///
    /// Repeated where nobody was there yet, the connection ended before an answer began, or the provider said that
    /// it is busy (429) or failed (5xx).
    pub(super) fn post(&self, body: &Value, bytes_max: u64) -> Result<Vec<u8>, EmbedError> {
        let body = body.to_string();
        let mut pause = PAUSE;
        let mut left = self.retries;
        let started = now();
        loop {
            let time_left = self.time_limit.map(|limit| limit.saturating_sub(started.elapsed()));
            if time_left.is_some_and(|left| left.is_zero()) {
                return Err(self.slow());
            }
            let timeout = time_left.map_or(self.timeout, |left| left.min(self.timeout));
            let Failed { error, again } = match self.post_once(&body, (bytes_max, timeout)) {
                Ok(reply) => return Ok(reply),
                Err(failed) => failed,
            };
            let wait = match again {
                Again::No => return Err(error),
                Again::Soon => pause,
                Again::After(wait) => wait,
            };
            let ends = self.time_limit.is_some_and(|limit| started.elapsed() + wait >= limit);
            if left == 0 || ends {
                return Err(error);
            }
            left -= 1;
            pause = (2 * pause).min(PAUSE_MAX);
            std::thread::sleep(wait);
        }
    }

    fn post_once(
        &self,
        body: &str,
        (bytes_max, timeout): (u64, Duration),
    ) -> Result<Vec<u8>, Failed> {
        let mut request = self
            .agent
            .post(&self.url)
            .config()
            .timeout_global(Some(timeout))
            .timeout_connect(Some(timeout))
            .build()
            .header("content-type", "application/json")
            .header("accept", "application/json");
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let mut response = request.send(body).map_err(|error| self.unsent(&error))?;
        let status = response.status();
        if status.is_success() {
            return self.read(&mut response, bytes_max).map_err(Failed::for_good);
        }
        Err(self.refused(&mut response))
    }

    fn read(&self, response: &mut Response<Body>, bytes_max: u64) -> Result<Vec<u8>, EmbedError> {
        let read = response.body_mut().with_config().limit(bytes_max).read_to_vec();
        read.map_err(|error| match error {
            ureq::Error::BodyExceedsLimit(_) => {
                EmbedError::TooLong { place: self.place.clone(), bytes_max }
            }
            ureq::Error::Timeout(_) => self.slow(),
            error => EmbedError::BrokenOff { place: self.place.clone(), reason: error.to_string() },
        })
    }

    /// What it means that no answer began.
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
                EmbedError::BrokenOff { place, reason }
            }
            ureq::Error::Protocol(_) | ureq::Error::Http(_) => {
                EmbedError::Unexpected { place, expected: "HTTP", found: error.to_string() }
            }
            error => EmbedError::Unreachable { place, reason: error.to_string() },
        };
        Failed { error, again }
    }

    /// What a status other than success means.
    fn refused(&self, response: &mut Response<Body>) -> Failed {
        let place = self.place.clone();
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let status = response.status().as_u16();
        if response.status().is_redirection() {
            let target = header("location").map_or_else(|| "nowhere".to_owned(), shown);
            return Failed::for_good(EmbedError::Redirected { place, target });
        }
        let rest = header("retry-after").and_then(|rest| rest.trim().parse().ok());
        let wait = rest.map(Duration::from_secs);
        let again = match wait {
            _ if status != 429 && status < 500 => Again::No,
            Some(wait) if wait > REST_MAX => {
                return Failed::for_good(EmbedError::Resting { place, status, wait });
            }
            Some(wait) => Again::After(wait),
            None => Again::Soon,
        };
        let reply = self.read(response, COMPLAINT_BYTES).unwrap_or_default();
        let found = complaint(&self.without_key(&reply));
        Failed { error: EmbedError::Status { place, status, found }, again }
    }

    fn slow(&self) -> EmbedError {
        let waited = self.time_limit.map_or(self.timeout, |limit| limit.min(self.timeout));
        EmbedError::Slow { place: self.place.clone(), waited }
    }
}

impl Failed {
    const fn for_good(error: EmbedError) -> Self {
        Self { error, again: Again::No }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a provider may take is real time; no plan depends on it"
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

/// Reads the key from the variable that the configuration names.
fn key(
    settings: &EmbedSettings,
    variables: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<String>, EmbedError> {
    let Some(name) = &settings.api_key_env else { return Ok(None) };
    let value = variables(name).map(|value| value.trim().to_owned()).unwrap_or_default();
    let problem = if value.is_empty() {
        format!("names the variable {name}, which is not set")
    } else if !value.bytes().all(|byte| byte.is_ascii_graphic()) {
        format!("names the variable {name}, whose value has characters that no key has")
    } else {
        return Ok(Some(value));
    };
    let advice = format!("export {name}=…, or --set embed.api_key_env=null where no key is needed");
    Err(EmbedError::Setting { key: "embed.api_key_env", problem, advice })
}

fn no_address() -> EmbedError {
    EmbedError::Setting {
        key: "embed.url",
        problem: "is not set, and many programs speak this protocol".to_owned(),
        advice: "say where texts may go, such as --set embed.url=http://localhost:1234 or https://api.openai.com"
            .to_owned(),
    }
}

fn bad_address(found: String) -> EmbedError {
    EmbedError::Setting {
        key: "embed.url",
        problem: format!("is no address: {found}"),
        advice: "write it like http://localhost:8030".to_owned(),
    }
}

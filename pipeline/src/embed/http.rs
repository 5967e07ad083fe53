//! Providers that are asked over HTTP.

use std::io::ErrorKind;
use std::time::Duration;

use memfold_model::text::excerpt;
use serde::Deserialize;
use serde_json::{Value, json};
use ureq::http::{Response, Uri};
use ureq::{Agent, Body, Proxy};

use super::provider::checked;
use super::{EmbedError, EmbedSettings, Embedder};

/// Longest answer that holds no vector.
const REPLY_BYTES: u64 = 1 << 20;
/// Longest vector as text: some 16,000 components.
const VECTOR_BYTES: u64 = 512 << 10;
/// How much of what is wrong with an answer is shown.
const PROBLEM_CHARS: usize = 100;

/// A provider behind an address.
pub(super) struct HttpEmbedder {
    api: Api,
    client: Client,
    /// The model's name as the provider spells it.
    request_model: Option<String>,
    model: Option<String>,
}

impl HttpEmbedder {
    /// Makes one; sends nothing yet.
    pub(super) fn new(
        api: Api,
        settings: &EmbedSettings,
        store_model: Option<&str>,
        variables: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, EmbedError> {
        let configured = settings.model.as_deref();
        let request_model = settings.request_model.as_deref().or(configured).or(store_model);
        let model = match api {
            // It has one model, and may say which.
            Api::Daemon => configured,
            Api::Openai | Api::Ollama => configured.or(store_model).or(request_model),
        };
        if api != Api::Daemon && request_model.is_none() {
            return Err(EmbedError::Setting {
                key: "embed.model",
                problem: "is not set, and the store names no model".to_owned(),
                advice: "name the model that should make the vectors: --set embed.model=NAME"
                    .into(),
            });
        }
        Ok(Self {
            api,
            client: Client::new(api, settings, variables)?,
            request_model: request_model.map(str::to_owned),
            model: model.map(str::to_owned),
        })
    }
}

impl Embedder for HttpEmbedder {
    fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    fn place(&self) -> &str {
        self.client.place()
    }

    fn embed(&mut self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let request = self.api.request(texts, self.request_model.as_deref());
        let bytes_max = REPLY_BYTES + VECTOR_BYTES * texts.len() as u64;
        let reply = self.client.post(&request, bytes_max)?;
        let answer = self.api.answer(&reply).map_err(|problem| {
            let found = beginning(&self.client.without_key(&reply));
            let problem = self.client.without_key(problem.as_bytes());
            EmbedError::Unexpected {
                place: self.place().to_owned(),
                expected: self.api.expected(),
                found: format!("{found} ({})", excerpt(&problem, PROBLEM_CHARS)),
            }
        })?;
        let vectors = checked(self.place(), texts.len(), answer.vectors)?;
        if self.model.is_none() {
            self.model = answer.model;
        }
        Ok(vectors)
    }
}

/// How long to wait before the first repetition; each further one waits twice as long.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// A provider that wants a longer rest is left alone.
const REST_MAX: Duration = Duration::from_secs(30);
/// How much of what comes with an error status is read.
const COMPLAINT_BYTES: u64 = 64 << 10;

/// One address.
struct Client {
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
    fn new(
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
    fn place(&self) -> &str {
        &self.place
    }

    /// Takes the key out of what a provider said.
    fn without_key(&self, said: &[u8]) -> String {
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
    fn post(&self, body: &Value, bytes_max: u64) -> Result<Vec<u8>, EmbedError> {
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

/// How much of an answer is shown.
const SHOWN_CHARS: usize = 120;

/// A way to ask for vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    /// `POST /embed`.
    Daemon,
    /// `POST /v1/embeddings`.
    Openai,
    /// `POST /api/embed`.
    Ollama,
}

/// What came.
#[derive(Debug, PartialEq)]
struct Answer {
    vectors: Vec<Vec<f32>>,
    model: Option<String>,
}

#[derive(Deserialize)]
struct Plain {
    embeddings: Option<Vec<Vec<f32>>>,
    embedding: Option<Vec<f32>>,
    model: Option<Value>,
}

#[derive(Deserialize)]
struct Listed {
    data: Vec<Item>,
    model: Option<Value>,
}

#[derive(Deserialize)]
struct Item {
    index: Option<usize>,
    embedding: Vec<f32>,
}

impl Api {
    /// Returns the body of a request.
    fn request(self, texts: &[&str], model: Option<&str>) -> Value {
        match (self, texts) {
            (Self::Daemon, [text]) => json!({ "text": text }),
            (Self::Daemon, texts) => json!({ "texts": texts }),
            (Self::Openai | Self::Ollama, texts) => json!({ "model": model, "input": texts }),
        }
    }

    /// Returns what an answer looks like.
    const fn expected(self) -> &'static str {
        match self {
            Self::Daemon | Self::Ollama => "{\"embeddings\": [[…]]}",
            Self::Openai => "{\"data\": [{\"index\": 0, \"embedding\": […]}]}",
        }
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// What is wrong with it.
    fn answer(self, reply: &[u8]) -> Result<Answer, String> {
        match self {
            Self::Daemon | Self::Ollama => plain(reply),
            Self::Openai => listed(reply),
        }
    }
}

fn plain(reply: &[u8]) -> Result<Answer, String> {
    let Plain { embeddings, embedding, model } = parsed(reply)?;
    let vectors = embeddings.or_else(|| embedding.map(|one| vec![one]));
    let vectors = vectors.ok_or("no `embeddings`")?;
    Ok(Answer { vectors, model: named(model) })
}

fn listed(reply: &[u8]) -> Result<Answer, String> {
    let Listed { mut data, model } = parsed(reply)?;
    // Some servers leave the places out, and then list the vectors in order.
    if data.iter().any(|item| item.index.is_some()) {
        data.sort_by_key(|item| item.index);
        if !data.iter().map(|item| item.index).eq((0..data.len()).map(Some)) {
            return Err(format!("`index` does not run from 0 to {}", data.len() - 1));
        }
    }
    let vectors = data.into_iter().map(|item| item.embedding).collect();
    Ok(Answer { vectors, model: named(model) })
}

fn parsed<'a, T: Deserialize<'a>>(reply: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(reply).map_err(|error| error.to_string())
}

fn named(model: Option<Value>) -> Option<String> {
    model?.as_str().filter(|name| !name.is_empty()).map(str::to_owned)
}

/// Returns the message in what came with an error status, or how it begins.
fn complaint(reply: &str) -> String {
    let said = serde_json::from_str::<Value>(reply).ok().and_then(|reply| {
        let places =
            [&reply["error"]["message"], &reply["error"], &reply["message"], &reply["detail"]];
        places.into_iter().find_map(Value::as_str).map(str::to_owned)
    });
    said.map_or_else(|| beginning(reply), |said| excerpt(&said, SHOWN_CHARS))
}

/// Returns how an answer begins.
fn beginning(reply: &str) -> String {
    if reply.is_empty() {
        return "nothing".to_owned();
    }
    excerpt(reply, SHOWN_CHARS)
}

/// Returns where to post: the address as given where it names the path, else with it.
fn endpoint(api: Api, base: &str) -> String {
    let (path, query) =
        base.split_once('?').map_or((base, None), |(path, query)| (path, Some(query)));
    let path = path.split('#').next().unwrap_or_default().trim_end_matches('/');
    let (whole, part, rest) = match api {
        Api::Daemon => ("/embed", "", "/embed"),
        Api::Openai => ("/embeddings", "/v1", "/embeddings"),
        Api::Ollama => ("/api/embed", "/api", "/embed"),
    };
    let path = if path.ends_with(whole) {
        path.to_owned()
    } else if path.ends_with(part) {
        format!("{path}{rest}")
    } else {
        format!("{path}{part}{rest}")
    };
    query.map_or_else(|| path.clone(), |query| format!("{path}?{query}"))
}

/// Returns an address as messages name it: without what follows the path, which may be secret.
fn shown(url: &str) -> String {
    let plain = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = plain.split_once("://").unwrap_or(("", plain));
    let authority = rest.split('/').next().unwrap_or_default();
    let without_user = authority.rsplit('@').next().unwrap_or_default();
    let rest = format!("{without_user}{}", &rest[authority.len()..]);
    let shown = if scheme.is_empty() { rest } else { format!("{scheme}://{rest}") };
    memfold_model::text::excerpt(&shown, ADDRESS_CHARS)
}

const ADDRESS_CHARS: usize = 200;

/// Tells whether a host is this machine: no proxy stands in between, whatever the environment says.
fn is_this_machine(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches([']', '.']);
    host.eq_ignore_ascii_case("localhost")
        || host.to_ascii_lowercase().ends_with(".localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_added_where_they_lack() {
        for (api, base, expected) in [
            (Api::Daemon, "http://localhost:8030", "http://localhost:8030/embed"),
            (Api::Daemon, "http://localhost:8030/", "http://localhost:8030/embed"),
            (Api::Daemon, "http://h/embed", "http://h/embed"),
            (Api::Openai, "http://h:1234", "http://h:1234/v1/embeddings"),
            (Api::Openai, "https://h/v1", "https://h/v1/embeddings"),
            (Api::Openai, "https://h/v1/", "https://h/v1/embeddings"),
            (Api::Openai, "https://h/v1/embeddings", "https://h/v1/embeddings"),
            (Api::Openai, "https://h/x?v=1", "https://h/x/v1/embeddings?v=1"),
            (Api::Ollama, "http://h", "http://h/api/embed"),
            (Api::Ollama, "http://h/api", "http://h/api/embed"),
            (Api::Ollama, "http://h/api/embed", "http://h/api/embed"),
        ] {
            assert_eq!(endpoint(api, base), expected, "{base}");
        }
    }

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

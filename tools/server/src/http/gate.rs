//! [`Gate`]: whether a request may come in at all: host, origin, token.
//!
//! A page of another site can make a browser send requests here, also under a name that it had
//! resolved to this machine (DNS rebinding): these requests name another host or origin, and are
//! refused.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Mutex;

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, COOKIE as COOKIE_HEADER, HOST, ORIGIN};
use memfold::machine::Stopwatch;
use memfold::ops::Failure;

use crate::service::{Problem, ProblemKind};

/// Wrong tokens that an address may try in [`WINDOW_SECONDS`].
const TRIES_MAX: u32 = 10;
const WINDOW_SECONDS: f64 = 60.0;
/// Addresses that are remembered: more at once are an attack from many places, and wait together.
const ADDRESSES_MAX: usize = 10_000;
/// A shorter token can be guessed.
const TOKEN_CHARS_MIN: usize = 16;
/// The cookie of browsers that signed in.
const COOKIE: &str = "memfold";
/// Longest token file.
const TOKEN_BYTES_MAX: u64 = 4_096;

/// The secret that requests must name; only its hash is kept.
#[derive(Debug, Clone)]
pub(crate) struct Token(blake3::Hash);

impl Token {
    /// Reads the token of a file; white space around it does not count.
    ///
    /// # Errors
    /// When it cannot be read, or holds no token of 16 characters or more.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let mut text = String::new();
        std::fs::File::open(path)
            .and_then(|file| file.take(TOKEN_BYTES_MAX).read_to_string(&mut text))
            .map_err(|error| {
                Failure::new(&format!("read the token in {}", path.display()), &error, None)
            })?;
        let token = text.trim();
        if token.len() < TOKEN_CHARS_MIN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Failure::usage(
                format!(
                    "{} holds no token of {TOKEN_CHARS_MIN} visible characters",
                    path.display()
                ),
                "make one: head -c 32 /dev/urandom | base64 > token; chmod 600 token",
            ));
        }
        Ok(Self::of(token))
    }

    /// Takes a token.
    pub(crate) fn of(token: &str) -> Self {
        Self(blake3::hash(token.as_bytes()))
    }

    /// Tells whether a token is this one, in a time that does not depend on how much of it is right.
    fn is(&self, token: &str) -> bool {
        // Hashes are compared in constant time.
        self.0 == blake3::hash(token.as_bytes())
    }
}

/// Something that nobody can guess, made when the server starts.
#[derive(Clone)]
struct Secret([u8; 32]);

impl Secret {
    fn new() -> Self {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).expect("the system has random numbers once it has started");
        Self(bytes)
    }

    /// As a form or a cookie names it.
    fn text(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }

    /// Tells whether a text is it, in a time that does not depend on how much of it is right.
    fn is(&self, text: &str) -> bool {
        blake3::Hash::from_hex(text).is_ok_and(|hash| hash == blake3::Hash::from_bytes(self.0))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// The requirements of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    /// Nothing but a host and an origin that are served.
    Open,
    /// The token, or the cookie of a browser that signed in.
    Page,
    /// The token.
    Token,
}

/// Whether requests may come in.
#[derive(Debug)]
pub(crate) struct Gate {
    /// The hosts that requests may name; `None` on a Unix socket, which no browser reaches.
    hosts: Option<Vec<String>>,
    origins: Vec<String>,
    token: Option<Token>,
    /// The browser's secret after a person has given the token.
    session: Secret,
    /// The secret in forms of our own pages, which other sites cannot know.
    form: Secret,
    tries: Mutex<BTreeMap<Option<IpAddr>, (u32, f64)>>,
    stopwatch: Stopwatch,
}

impl Gate {
    /// A gate for an address; further hosts and origins come from a proxy.
    pub(crate) fn at(
        address: Option<SocketAddr>,
        hosts: &[String],
        origins: &[String],
        token: Option<Token>,
    ) -> Self {
        let mut allowed_origins = origins.to_vec();
        let hosts = address.map(|address| {
            let port = address.port();
            let mut names: Vec<String> = vec![address.to_string()];
            if address.ip().is_loopback() || address.ip().is_unspecified() {
                let here = ["localhost", "127.0.0.1", "[::1]"];
                names.extend(here.map(|name| format!("{name}:{port}")));
            }
            allowed_origins.extend(names.iter().map(|name| format!("http://{name}")));
            names.extend(hosts.iter().cloned());
            names
        });
        let (tries, stopwatch) = (Mutex::default(), Stopwatch::start());
        let (session, form) = (Secret::new(), Secret::new());
        Self { hosts, origins: allowed_origins, token, session, form, tries, stopwatch }
    }

    /// Lets a request in or says why not.
    ///
    /// # Errors
    /// Another host or origin, no token or a wrong one, or too many wrong ones.
    pub(crate) fn check(
        &self,
        headers: &HeaderMap,
        peer: Option<IpAddr>,
        door: Door,
    ) -> Result<(), Problem> {
        self.check_host(headers)?;
        self.check_origin(headers)?;
        match door {
            Door::Open => Ok(()),
            Door::Page if self.is_signed_in(headers) => Ok(()),
            Door::Page | Door::Token => self.check_token(headers, peer),
        }
    }

    /// Returns the cookie of a browser after its user gave the token.
    ///
    /// # Errors
    /// When the token is wrong, or too many wrong ones came before.
    pub(crate) fn sign_in(&self, given: &str, peer: Option<IpAddr>) -> Result<String, Problem> {
        if let Some(token) = &self.token {
            self.check_tries(peer)?;
            self.check_given(token, given.trim(), peer)?;
        }
        let session = self.session.text();
        Ok(format!("{COOKIE}={session}; HttpOnly; SameSite=Strict; Path=/ui"))
    }

    /// Returns the token in forms of our own pages.
    pub(crate) fn form_token(&self) -> String {
        self.form.text()
    }

    /// Refuses a form that is not one of our own pages.
    ///
    /// # Errors
    /// [`ProblemKind::Misdirected`].
    pub(crate) fn check_form(&self, given: &str) -> Result<(), Problem> {
        if self.form.is(given) {
            return Ok(());
        }
        Err(Problem::new(ProblemKind::Misdirected, "the form is from before the server started")
            .with_hint("open the page again"))
    }

    fn is_signed_in(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(COOKIE_HEADER).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|value| value.split(';'));
        pairs.any(|pair| {
            let named = pair.trim().split_once('=');
            named.is_some_and(|(name, value)| name == COOKIE && self.session.is(value))
        })
    }

    fn check_host(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let Some(hosts) = &self.hosts else { return Ok(()) };
        let mut named = headers.get_all(HOST).iter();
        let host = match (named.next(), named.next()) {
            (Some(host), None) => host.to_str().unwrap_or_default(),
            _ => "",
        };
        if hosts.iter().any(|allowed| is_host(allowed, host)) {
            return Ok(());
        }
        let detail = format!("the host {host:?} is not served here");
        Err(Problem::new(ProblemKind::Misdirected, detail).with_hint(
            "call it by the address it listens on, or allow the name: --allow-host NAME",
        ))
    }

    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let mut named = headers.get_all(ORIGIN).iter();
        let Some(origin) = named.next() else { return Ok(()) };
        let origin = origin.to_str().unwrap_or_default();
        let is_one = named.next().is_none();
        if is_one && self.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin)) {
            return Ok(());
        }
        let detail = format!("pages of {origin:?} may not call this server");
        Err(Problem::new(ProblemKind::Misdirected, detail)
            .with_hint("allow the site: --allow-origin https://HOST"))
    }

    fn check_token(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Result<(), Problem> {
        let Some(token) = &self.token else { return Ok(()) };
        self.check_tries(peer)?;
        let mut named = headers.get_all(AUTHORIZATION).iter();
        let given = named.next().and_then(|value| value.to_str().ok());
        let given = given.filter(|_| named.next().is_none()).and_then(|value| {
            let (scheme, given) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| given.trim())
        });
        match given {
            Some(given) => self.check_given(token, given, peer),
            None => Err(Problem::new(ProblemKind::Unauthorized, "a token is needed")
                .with_hint("send it: Authorization: Bearer TOKEN")),
        }
    }

    fn check_given(&self, token: &Token, given: &str, peer: Option<IpAddr>) -> Result<(), Problem> {
        if token.is(given) {
            self.forgive(peer);
            return Ok(());
        }
        self.count_try(peer);
        Err(Problem::new(ProblemKind::Unauthorized, "the token is not the right one"))
    }

    fn check_tries(&self, peer: Option<IpAddr>) -> Result<(), Problem> {
        let now = self.stopwatch.seconds();
        let Ok(mut tries) = self.tries.lock() else { return Ok(()) };
        if tries.len() >= ADDRESSES_MAX {
            tries.retain(|_, (_, since)| now - *since < WINDOW_SECONDS);
        }
        let since = match tries.get(&peer) {
            Some((count, since)) if now - since < WINDOW_SECONDS => {
                (*count >= TRIES_MAX).then_some(*since)
            }
            Some(_) => {
                tries.remove(&peer);
                None
            }
            None => (tries.len() >= ADDRESSES_MAX).then_some(now),
        };
        let Some(since) = since else { return Ok(()) };
        // At most a minute.
        let seconds = (since + WINDOW_SECONDS - now).ceil().max(1.0) as u32;
        Err(Problem::new(ProblemKind::Busy, "too many wrong tokens")
            .with_hint(format!("wait {seconds} seconds"))
            .with_retry(seconds))
    }

    fn count_try(&self, peer: Option<IpAddr>) {
        if let Ok(mut tries) = self.tries.lock() {
            let now = self.stopwatch.seconds();
            tries.entry(peer).or_insert((0, now)).0 += 1;
        }
    }

    fn forgive(&self, peer: Option<IpAddr>) {
        if let Ok(mut tries) = self.tries.lock() {
            tries.remove(&peer);
        }
    }
}

/// Tells whether a host is the one allowed: with its port, or with any port where none is allowed
/// by name.
fn is_host(allowed: &str, host: &str) -> bool {
    if allowed.eq_ignore_ascii_case(host) {
        return true;
    }
    let has_port = |name: &str| {
        name.rsplit_once(':').is_some_and(|(_, port)| {
            !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
        }) && !(name.starts_with('[') && name.ends_with(']'))
    };
    !has_port(allowed)
        && host
            .rsplit_once(':')
            .is_some_and(|(name, _)| has_port(host) && name.eq_ignore_ascii_case(allowed))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use axum::http::header::HeaderName;

    use super::*;

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs.map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    fn gate(token: Option<&str>) -> Gate {
        let address = Some(([127, 0, 0, 1], 8077).into());
        let (hosts, origins) = (["brain.example".to_owned()], ["https://app.example".to_owned()]);
        Gate::at(address, &hosts, &origins, token.map(Token::of))
    }

    #[test]
    fn other_hosts_and_origins_are_refused() {
        let gate = gate(None);
        let check =
            |pairs: &[_]| gate.check(&headers(pairs), None, Door::Token).map_err(|p| p.kind);
        for host in [
            "127.0.0.1:8077",
            "localhost:8077",
            "LOCALHOST:8077",
            "[::1]:8077",
            "brain.example",
            "brain.example:80",
        ] {
            assert_eq!(check(&[(HOST, host)]), Ok(()), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "127.0.0.1:8078",
            "127.0.0.1",
            "localhost",
            "brain.example.evil",
            "brain.example:",
            "xbrain.example",
            "localhost:8077.evil",
        ] {
            assert_eq!(check(&[(HOST, host)]), Err(ProblemKind::Misdirected), "{host}");
        }
        assert_eq!(check(&[]), Err(ProblemKind::Misdirected));
        let with = |origin| check(&[(HOST, "localhost:8077"), (ORIGIN, origin)]);
        assert_eq!(with("http://localhost:8077"), Ok(()));
        assert_eq!(with("https://app.example"), Ok(()));
        for origin in ["null", "http://localhost", "https://localhost:8077", "http://evil.example"]
        {
            assert_eq!(with(origin), Err(ProblemKind::Misdirected), "{origin}");
        }
    }

    #[test]
    fn ten_wrong_tokens_make_an_address_wait() {
        let gate = gate(Some("a token of enough characters"));
        let check = |token: &str, peer: u8| {
            let bearer = format!("Bearer {token}");
            let headers = headers(&[(HOST, "localhost:8077"), (AUTHORIZATION, &bearer)]);
            gate.check(&headers, Some([10, 0, 0, peer].into()), Door::Token).map_err(|p| p.kind)
        };
        assert_eq!(check("a token of enough characters", 1), Ok(()));
        for _ in 0..TRIES_MAX {
            assert_eq!(check("a token of enough characterz", 1), Err(ProblemKind::Unauthorized));
        }
        assert_eq!(check("a token of enough characters", 1), Err(ProblemKind::Busy));
        assert_eq!(check("a token of enough characters", 2), Ok(()));
        let none = headers(&[(HOST, "localhost:8077")]);
        assert_eq!(
            gate.check(&none, None, Door::Token).unwrap_err().kind,
            ProblemKind::Unauthorized
        );
        assert_eq!(gate.check(&none, None, Door::Open), Ok(()));
    }
}

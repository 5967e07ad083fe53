//! Connections: how many, how long each part of a request may take, and how they end.
//!
//! axum's own loop sets no time limits, so the connections are served by hyper here.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::header::HeaderName;
use axum::http::{HeaderValue, StatusCode};
use axum::response::IntoResponse as _;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use memfold::ops::Failure;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tower::ServiceExt as _;

/// Time limit for a head: a client that sends it byte by byte holds a connection no longer.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Headers of a request.
const HEADERS_MAX: usize = 64;
/// Bytes of a head.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Connections at once; others wait to be accepted.
const CONNECTIONS_MAX: usize = 1_024;
/// How long requests under way may take when the server stops.
const STOP_PATIENCE: Duration = Duration::from_secs(10);
/// After a failed accept (no file is left, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Listen {
    /// An address.
    Tcp(SocketAddr),
    /// A Unix socket: the permissions of its file decide who may use it.
    Unix(PathBuf),
}

/// Something that listens.
#[derive(Debug)]
pub(crate) enum Listener {
    /// At an address.
    Tcp(TcpListener),
    /// At a Unix socket.
    Unix(UnixListener, PathBuf),
}

/// Who sent a request; none over a Unix socket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) Option<IpAddr>);

impl Listener {
    /// Begins to listen.
    ///
    /// # Errors
    /// When the address is taken, or the socket's file cannot be made.
    pub(crate) async fn bind(listen: &Listen) -> Result<Self, Failure> {
        match listen {
            Listen::Tcp(address) => {
                let listener = TcpListener::bind(address).await.map_err(|error| {
                    let hint = "choose another port: --listen 127.0.0.1:0 takes a free one";
                    Failure::new(&format!("listen at {address}"), &error, Some(hint.to_owned()))
                })?;
                Ok(Self::Tcp(listener))
            }
            Listen::Unix(path) => {
                let failed = |error: io::Error| {
                    Failure::new(&format!("listen at {}", path.display()), &error, None)
                };
                remove_stale(path).map_err(failed)?;
                let listener = UnixListener::bind(path).map_err(failed)?;
                restrict(path).map_err(failed)?;
                Ok(Self::Unix(listener, path.clone()))
            }
        }
    }

    /// Returns the address, with the port that was taken.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::Unix(..) => None,
        }
    }
}

/// Removes the socket of a server that has ended; one that answers is left alone.
fn remove_stale(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt as _;
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|at| at.file_type().is_socket());
    match is_socket && std::os::unix::net::UnixStream::connect(path).is_err() {
        true => std::fs::remove_file(path),
        false => Ok(()),
    }
}

/// Lets the owner alone use the socket.
fn restrict(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
}

/// Serves until `stop` is ready; then lets requests under way end, for ten seconds at most.
pub(crate) async fn serve(listener: Listener, router: Router, stop: impl Future<Output = ()>) {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    tokio::pin!(stop);
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { break };
        tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let connection = connection(stream, peer, router.clone());
                    let watched = graceful.watch(connection);
                    tokio::spawn(async move {
                        let _place = place;
                        // How a connection ends is the other side's matter.
                        let _ended = watched.await;
                    });
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
        }
    }
    let path = match &listener {
        Listener::Unix(_, path) => Some(path.clone()),
        Listener::Tcp(_) => None,
    };
    drop(listener);
    if let Some(path) = path {
        // Gone already where somebody cleared up.
        let _removed = std::fs::remove_file(path);
    }
    let _in_time = tokio::time::timeout(STOP_PATIENCE, graceful.shutdown()).await;
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Listener {
    async fn accept(&self) -> io::Result<(Box<dyn Stream>, Option<IpAddr>)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok((Box::new(stream), Some(address.ip())))
            }
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                Ok((Box::new(stream), None))
            }
        }
    }
}

/// The bytes of a head as it was sent.
fn head_bytes(request: &Request<Incoming>) -> usize {
    // ": " and the end of a line.
    let of = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + 4;
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    target + request.headers().iter().map(of).sum::<usize>()
}

fn connection(
    stream: Box<dyn Stream>,
    peer: Option<IpAddr>,
    router: Router,
) -> impl hyper_util::server::graceful::GracefulConnection<Error = hyper::Error> + Send {
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        // hyper reads on to the end of a buffer, so a head that is a little longer gets through.
        let is_long = head_bytes(&request) > HEAD_BYTES_MAX;
        let router = router.clone();
        async move {
            if is_long {
                return Ok(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE.into_response());
            }
            router.oneshot(request).await
        }
    });
    hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .half_close(false)
        .serve_connection(TokioIo::new(stream), service)
}

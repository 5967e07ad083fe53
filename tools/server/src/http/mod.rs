//! HTTP: connections within limits, who may ask, routes, and answers as JSON.

mod gate;
mod connections;
mod answers;
mod routes;
mod memories;
mod runs;
mod compatible;
mod openapi;

pub(crate) use answers::Query;
pub(crate) use connections::Peer;
pub use connections::{Listen, Listener, serve};
pub use gate::{Door, Gate, Token};
pub use openapi::openapi;
pub use routes::{App, router};
pub(crate) use routes::{ICON, SIGN_IN};
pub(crate) use runs::events;

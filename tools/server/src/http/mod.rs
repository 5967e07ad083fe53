//! HTTP: connections within limits, who may ask, routes, and answers as JSON.

mod gate;
mod connections;
mod answers;
mod routes;
mod memories;
mod runs;
mod compatible;
mod openapi;

pub(crate) use answers::{On, Query};
pub(crate) use connections::Peer;
pub(crate) use connections::{Listen, Listener, serve};
pub(crate) use gate::{Gate, Token};
pub(crate) use openapi::openapi;
pub(crate) use routes::{App, router};
pub(crate) use routes::{ICON, SIGN_IN};
pub(crate) use runs::events;

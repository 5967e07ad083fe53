//! HTTP: connections within limits, who may ask, routes, and answers as JSON.

mod gate;
mod connections;
mod answers;
mod routes;
mod memories;
mod runs;
mod compatible;
mod openapi;

pub use connections::{Listen, Listener, serve};
pub use gate::{Gate, Token};
pub use openapi::openapi;
pub use routes::{App, router};

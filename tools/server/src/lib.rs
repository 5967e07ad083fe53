//! `memfold-server`: keeps stores open for agents, programs and schedules.
//!
//! | module | the question it answers |
//! |---|---|
//! | [`service`] | what does a request do? Functions on stores, plain types |
//! | [`http`] | how is it asked over HTTP, and who may ask? |
//! | [`mcp`] | how do agents ask? |
//! | [`dashboard`] | what do people see in a browser? |
//! | [`schedule`] | when does a store run by itself? |
//! | [`metrics`] | what is counted? |
//! | `telemetry` | what does a collector hear of it? |
//!
//! `docs/server.md` is the manual.

pub mod service;
pub mod metrics;
pub mod http;
pub mod mcp;
pub mod schedule;
pub mod dashboard;
mod telemetry;
mod args;
mod run;

pub use args::{HttpArgs, McpArgs};
pub use run::run;

//! `memfold-server`: keeps stores open for agents, programs and schedules.
//!
//! | module | the question it answers |
//! |---|---|
//! | [`service`] | which operations are there? Functions on stores, plain types |
//! | [`http`] | how do requests over HTTP arrive, and who may send them? |
//! | [`mcp`] | which tools do agents get? |
//! | [`dashboard`] | how do people use it in a browser? |
//! | [`schedule`] | when do runs start without a request? |
//! | [`metrics`] | which counters are there? |
//! | `telemetry` | which data go to a collector? |
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

//! `memfold-server`: keeps stores open for agents, programs and schedules.
//!
//! | module | the question it answers |
//! |---|---|
//! | `service` | which operations are there? Functions on stores, plain types |
//! | `metrics` | which counters are there? |
//! | `http` | how do requests over HTTP arrive, and who may send them? |
//! | `mcp` | which tools do agents get? |
//! | `schedule` | when do runs start without a request? |
//! | `dashboard` | how do people use it in a browser? |
//! | `telemetry` | which data go to a collector? |
//!
//! `docs/server.md` is the manual.

mod service;
mod metrics;
mod http;
mod mcp;
mod schedule;
mod dashboard;
mod telemetry;
mod args;
mod run;

pub use run::run;

//! The promises, one module each.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod library;
mod brain_db;
mod exports;
mod planning;
mod lookups;
mod saves;
mod labelled_store;
mod nothing_lost;
mod hostile_input;
mod run_twice;
mod executed_model;
mod incremental;
mod recorded;
mod images_and_facts;
mod nightly_runs;
mod judging;
mod scored;
mod careless;
mod undone;
mod survivors;
mod odd_stores;
mod owners_tables;
mod live_again;
mod providers;
mod hivemind;

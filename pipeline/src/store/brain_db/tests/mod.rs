//! Tests of reading and creating stores, on real files.

mod support;
mod checkup;
mod errors;
mod model;
mod odd_schemas;
mod recorded;
mod traceless;
mod wild;
mod writing;

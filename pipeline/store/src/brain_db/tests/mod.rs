//! Tests of reading and creating stores, on real files.

pub(crate) mod support;
mod checkup;
mod errors;
mod in_step;
mod model;
mod odd_schemas;
mod traceless;
mod wild;
mod writing;

//! Tests of reading and creating stores, on real files.

mod support;
mod errors;
mod model;
mod odd_schemas;
mod traceless;
mod wild;
mod writing;

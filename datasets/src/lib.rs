//! Where do vectors come from, and how are they laid out?
//!
//! All column files have one [`schema`]; [`columns`] is its mapped form (Arrow IPC, read without a
//! copy) and writes its exchange form (Parquet). [`npy`] exchanges bare vectors with numpy,
//! [`corpus`] reads many files of any format as one matrix. [`results`] writes the results of
//! their comparison, [`annotate`] adds these to their rows, and [`convert`] writes a file in
//! another format. [`texts`] reads somebody's own memories in any form and writes them back;
//! [`embedding`] is the vector of a text that has none. [`sample`] holds the memories this project
//! wrote for its demo and its tests.

pub mod schema;
mod error;
pub mod atomic_file;
mod input;
mod catch_panic;
mod vectors;
pub mod columns;
pub mod npy;
mod parquet;
pub mod embedding;
mod read;
mod write;
pub mod texts;
pub mod sample;

pub use catch_panic::is_catching_panics;
pub use columns::{ColumnRecord, ColumnsWriter, MappedColumns};
pub use error::{ColumnRole, DataError, VectorFault};
pub use npy::NpyWriter;
pub use read::VectorFormat;
pub use read::corpus::{self, Corpus, CorpusOptions};
pub use schema::{Column, ColumnSet, ColumnsMeta};
pub use write::{TextRowsWriter, annotate, convert, results};

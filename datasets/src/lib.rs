//! Where do vectors come from, and how are they laid out?
//!
//! Everything that is written down in columns has one [`schema`]; [`columns`] is its mapped form
//! (Arrow IPC, read without a copy), [`parquet`] its exchange form. [`npy`] exchanges bare vectors
//! with numpy, [`vector_file`] reads vectors from any of them, [`generate`] makes labelled synthetic
//! ones. [`corpus`] reads many files as one matrix, and
//! [`results`] writes what their comparison found, [`annotate`] sets it beside their rows. [`convert`] writes a file in
//! another format. [`sample`] holds the memories this project wrote for its demo and its tests.

pub mod schema;
pub mod columns;
mod guarded;
pub mod atomic_file;
pub mod parquet;
pub mod npy;
pub mod vector_file;
mod input;
pub mod corpus;
pub mod results;
mod table_file;
pub mod annotate;
pub mod convert;
pub mod generate;
pub mod sample;

pub use columns::{ColumnRecord, ColumnsWriter, MappedColumns};
pub use corpus::{Corpus, CorpusOptions};
pub use generate::{VectorGenerator, VectorRecipe};
pub use npy::{NpyReader, NpyWriter};
pub use parquet::{ParquetText, ParquetVectors, ParquetWriter};
pub use schema::{Column, ColumnSet, ColumnsMeta};
pub use vector_file::VectorFile;

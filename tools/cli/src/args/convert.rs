//! Arguments of `memfold convert`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use memfold_datasets::convert::{ComponentType, VectorFormat};

/// `memfold convert`
#[derive(Debug, Args)]
#[command(after_help = COLUMNS)]
pub(crate) struct ConvertArgs {
    /// The file to read; its content tells the format
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// The file to write
    #[arg(value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// What to write [default: by the ending of OUT]
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    pub(crate) to: Option<VectorFormat>,
    /// Round components to this type [default: keep them; fail where FORMAT would change one]
    #[arg(long = "type", value_name = "TYPE", value_parser = types())]
    pub(crate) component: Option<ComponentType>,
    /// The column of the vectors [default: vector, embedding, embeddings or emb]
    #[arg(long, value_name = "NAME")]
    pub(crate) column: Option<String>,
    /// The array of an npz or HDF5 file, or the tensor, that holds the vectors [default: the one
    /// that is known to]
    #[arg(long, value_name = "NAME")]
    pub(crate) member: Option<String>,
    /// Replace OUT if it exists
    #[arg(long)]
    pub(crate) force: bool,
}

/// Said at the end of the help of `memfold convert`.
const COLUMNS: &str = "\
arrow, parquet and jsonl keep every column, the others the vectors alone.
fvecs and fbin hold f32, f16bin f16, bvecs and u8bin u8, i8bin i8, ivecs and
ibin i32; all others hold every type.";

fn formats() -> impl TypedValueParser<Value = VectorFormat> {
    PossibleValuesParser::new(VectorFormat::WRITTEN.map(VectorFormat::name))
        .try_map(|name| VectorFormat::from_name(&name).ok_or("no such format"))
}

fn types() -> impl TypedValueParser<Value = ComponentType> {
    PossibleValuesParser::new(ComponentType::ALL.map(ComponentType::name))
        .try_map(|name| ComponentType::from_name(&name).ok_or("no such type"))
}

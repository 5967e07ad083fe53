//! The one schema of exported rows: column names, types and units, and the metadata keys.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, TimeUnit};

/// Rows of a record batch; only the last batch of a file may have fewer.
pub(crate) const BATCH_ROWS: usize = 65_536;

/// The version that [`key::FORMAT_VERSION`] carries.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// The largest dimension, as in [`memfold_index::VectorMatrix`].
pub const DIM_MAX: usize = 65_536;

/// Names of a vector column in files of other programs; the first that is there counts.
pub const VECTOR_NAMES: [&str; 4] = ["vector", "embedding", "embeddings", "emb"];

/// Metadata keys. Values are text; numbers are decimal, flags are `true` or `false`.
pub(crate) mod key {
    /// [`super::FORMAT_VERSION`].
    pub(crate) const FORMAT_VERSION: &str = "memfold.format_version";
    /// Components of each vector.
    pub(crate) const DIM: &str = "memfold.dim";
    /// The embedding model; absent where unknown or mixed.
    pub(crate) const MODEL: &str = "memfold.model";
    /// Always `cosine`.
    pub(crate) const METRIC: &str = "memfold.metric";
    /// Whether every vector has unit length.
    pub(crate) const NORMALISED: &str = "memfold.normalised";
    /// Digest of the source of the rows; absent where there is none.
    pub(crate) const SOURCE_HASH: &str = "memfold.source_hash";
    /// Whether the vectors were generated.
    pub(crate) const SYNTHETIC: &str = "memfold.synthetic";
    /// Rows in the file. Written when the file is finished, so it stands in the footer.
    pub(crate) const ROW_COUNT: &str = "memfold.row_count";
    /// Every key.
    pub(crate) const ALL: [&str; 8] =
        [FORMAT_VERSION, DIM, MODEL, METRIC, NORMALISED, SOURCE_HASH, SYNTHETIC, ROW_COUNT];
}

/// The value of [`key::METRIC`].
pub(crate) const METRIC: &str = "cosine";

/// A column, in the order of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Column {
    /// `row`: position in the file, from 0 (u32).
    Row,
    /// `rowid`: the store's row number at the time of the export (i64).
    Rowid,
    /// `id`: the store's id (text).
    Id,
    /// `created_at`: microseconds since 1970 in UTC; null where unreadable.
    CreatedAt,
    /// `categories`: list of text, in the store's order.
    Categories,
    /// `importance`: as stored (f64).
    Importance,
    /// `access_count`: how often the row was read (i64).
    AccessCount,
    /// `source`: where it came from (text).
    Source,
    /// `model`: the embedding model (text).
    Model,
    /// `text`: the content; optional column, null where withheld.
    Text,
    /// `lineage`: provenance as JSON; optional column, null where there is none.
    Lineage,
    /// `vector`: f32 components, as many as the metadata's dim.
    Vector,
}

impl Column {
    /// Every column, in the order of the file.
    const ALL: [Self; 12] = [
        Self::Row,
        Self::Rowid,
        Self::Id,
        Self::CreatedAt,
        Self::Categories,
        Self::Importance,
        Self::AccessCount,
        Self::Source,
        Self::Model,
        Self::Text,
        Self::Lineage,
        Self::Vector,
    ];

    /// Returns the column's name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Row => "row",
            Self::Rowid => "rowid",
            Self::Id => "id",
            Self::CreatedAt => "created_at",
            Self::Categories => "categories",
            Self::Importance => "importance",
            Self::AccessCount => "access_count",
            Self::Source => "source",
            Self::Model => "model",
            Self::Text => "text",
            Self::Lineage => "lineage",
            Self::Vector => "vector",
        }
    }

    fn field(self, dim: u32) -> Field {
        let (data_type, nullable) = match self {
            Self::Row => (DataType::UInt32, false),
            Self::Rowid | Self::AccessCount => (DataType::Int64, false),
            Self::Id | Self::Source | Self::Model => (DataType::Utf8, false),
            Self::CreatedAt => {
                (DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true)
            }
            Self::Categories => (DataType::List(category_field()), false),
            Self::Importance => (DataType::Float64, false),
            Self::Text | Self::Lineage => (DataType::Utf8, true),
            Self::Vector => (DataType::FixedSizeList(component_field(), dim.cast_signed()), false),
        };
        Field::new(self.name(), data_type, nullable)
    }
}

/// The field of one vector component.
pub(crate) fn component_field() -> Arc<Field> {
    Arc::new(Field::new("item", DataType::Float32, false))
}

/// The field of one category.
fn category_field() -> Arc<Field> {
    Arc::new(Field::new("item", DataType::Utf8, false))
}

/// Which columns a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnSet {
    /// `row` and `vector` only: a working file.
    Vectors,
    /// A row of a store, with its optional columns.
    Records {
        /// Whether there is a `text` column.
        text: bool,
        /// Whether there is a `lineage` column.
        lineage: bool,
    },
}

impl ColumnSet {
    /// Tells whether `column` is in the set.
    #[must_use]
    pub const fn contains(self, column: Column) -> bool {
        match (self, column) {
            (_, Column::Row | Column::Vector) => true,
            (Self::Vectors, _) => false,
            (Self::Records { text, .. }, Column::Text) => text,
            (Self::Records { lineage, .. }, Column::Lineage) => lineage,
            (Self::Records { .. }, _) => true,
        }
    }

    /// Returns the columns in the order of the file.
    pub fn columns(self) -> impl Iterator<Item = Column> {
        Column::ALL.into_iter().filter(move |column| self.contains(*column))
    }

    /// Recognises a set by its names; `None` when no set has exactly these columns in this order.
    pub(crate) fn from_names(names: &[&str]) -> Option<Self> {
        let has = |column: Column| names.contains(&column.name());
        let set = if has(Column::Id) {
            Self::Records { text: has(Column::Text), lineage: has(Column::Lineage) }
        } else {
            Self::Vectors
        };
        set.columns().map(Column::name).eq(names.iter().copied()).then_some(set)
    }
}

/// The metadata of a file about its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnsMeta {
    /// Components of each vector, 1 to 65,536.
    pub dim: u32,
    /// The embedding model, where it is one and known.
    pub model: Option<Box<str>>,
    /// Whether every vector has unit length.
    pub normalised: bool,
    /// Digest of the source of the rows.
    pub source_hash: Option<Box<str>>,
    /// Whether the vectors were generated.
    pub synthetic: bool,
    /// The columns.
    pub columns: ColumnSet,
}

impl ColumnsMeta {
    /// Describes a working file of bare vectors.
    #[must_use]
    pub const fn vectors(dim: u32) -> Self {
        Self {
            dim,
            model: None,
            normalised: false,
            source_hash: None,
            synthetic: false,
            columns: ColumnSet::Vectors,
        }
    }

    /// Returns the Arrow schema with the metadata.
    pub(crate) fn arrow_schema(&self) -> Schema {
        let fields: Vec<Field> =
            self.columns.columns().map(|column| column.field(self.dim)).collect();
        Schema::new_with_metadata(fields, self.to_metadata())
    }

    fn to_metadata(&self) -> HashMap<String, String> {
        let mut pairs = vec![
            (key::FORMAT_VERSION, FORMAT_VERSION.to_string()),
            (key::DIM, self.dim.to_string()),
            (key::METRIC, METRIC.to_owned()),
            (key::NORMALISED, self.normalised.to_string()),
            (key::SYNTHETIC, self.synthetic.to_string()),
        ];
        pairs.extend(self.model.iter().map(|model| (key::MODEL, model.to_string())));
        pairs.extend(self.source_hash.iter().map(|hash| (key::SOURCE_HASH, hash.to_string())));
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// Reads the metadata back, or returns their defect; `get` looks a key up.
    pub(crate) fn from_metadata<'a>(
        get: impl Fn(&str) -> Option<&'a str>,
        columns: ColumnSet,
    ) -> Result<Self, String> {
        let version: u32 = parsed(&get, key::FORMAT_VERSION)?;
        if version != FORMAT_VERSION {
            return Err(format!("format version {version}, expected {FORMAT_VERSION}"));
        }
        let metric = required(&get, key::METRIC)?;
        if metric != METRIC {
            return Err(unlike(key::METRIC, metric));
        }
        let dim: u32 = parsed(&get, key::DIM)?;
        if dim == 0 || dim as usize > DIM_MAX {
            return Err(unlike(key::DIM, &dim.to_string()));
        }
        Ok(Self {
            dim,
            model: get(key::MODEL).map(Into::into),
            normalised: parsed(&get, key::NORMALISED)?,
            source_hash: get(key::SOURCE_HASH).map(Into::into),
            synthetic: parsed(&get, key::SYNTHETIC)?,
            columns,
        })
    }
}

fn unlike(key: &str, found: &str) -> String {
    format!("{key} is {found:?}")
}

fn required<'a>(
    get: impl Fn(&str) -> Option<&'a str>,
    key: &'static str,
) -> Result<&'a str, String> {
    get(key).ok_or_else(|| format!("no {key} in the metadata"))
}

pub(crate) fn parsed<'a, T: std::str::FromStr>(
    get: impl Fn(&str) -> Option<&'a str>,
    key: &'static str,
) -> Result<T, String> {
    let text = required(get, key)?;
    text.parse().map_err(|_| unlike(key, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_come_back() {
        let meta = ColumnsMeta {
            dim: 3,
            model: Some("all-MiniLM-L6-v2".into()),
            normalised: true,
            source_hash: Some("ab12".into()),
            synthetic: true,
            columns: ColumnSet::Records { text: true, lineage: false },
        };
        let schema = meta.arrow_schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(ColumnSet::from_names(&names), Some(meta.columns));
        let get = |key: &str| schema.metadata().get(key).map(String::as_str);
        assert_eq!(ColumnsMeta::from_metadata(get, meta.columns), Ok(meta));
    }

    #[test]
    fn errors_say_what_was_found() {
        let missing = ColumnsMeta::from_metadata(|_| None, ColumnSet::Vectors).unwrap_err();
        assert_eq!(missing, "no memfold.format_version in the metadata");
        let newer = ColumnsMeta::from_metadata(|_| Some("2"), ColumnSet::Vectors).unwrap_err();
        assert_eq!(newer, "format version 2, expected 1");
        let odd = ColumnsMeta::from_metadata(|_| Some("1"), ColumnSet::Vectors).unwrap_err();
        assert_eq!(odd, "memfold.metric is \"1\"");
    }
}

//! [`VectorColumn`], and the columns that a table is written with.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, FixedSizeListArray, RecordBatch, UInt32Array};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};

use super::cells::{VectorCells, shape_of};
use super::headers::Shape;
use super::{ComponentType, ConvertError};
use crate::input::InputFile;
use crate::parquet::column_list;
use crate::schema::{Column, ColumnSet, ColumnsMeta, DIM_MAX, VECTOR_NAMES, key};
use crate::table_file::{TableFormat, stored_column, stored_field};

/// The column of a file that holds its vectors.
#[derive(Debug)]
pub(super) struct VectorColumn {
    pub(super) position: usize,
    pub(super) component: ComponentType,
    /// Components of each vector, where the type says how many.
    width: Option<usize>,
}

impl VectorColumn {
    /// Finds the column `name`, or the first of the usual names.
    pub(super) fn find(
        schema: &Schema,
        path: &Path,
        name: Option<&str>,
    ) -> Result<Self, ConvertError> {
        let names = name.map_or(VECTOR_NAMES.to_vec(), |name| vec![name]);
        let position = names.iter().find_map(|name| schema.index_of(name).ok());
        let position = position.ok_or_else(|| ConvertError::NoColumn {
            path: path.into(),
            expected: names.join(", "),
            found: column_list(schema),
        })?;
        let field = schema.field(position);
        let (component, width) =
            shape_of(field.data_type()).ok_or_else(|| ConvertError::ColumnType {
                path: path.into(),
                column: field.name().clone(),
                found: field.data_type().to_string(),
            })?;
        Ok(Self { position, component, width })
    }

    /// Returns the number of components, which the first vector says where the type does not.
    pub(super) fn dim(&self, file: &InputFile, path: &Path) -> Result<usize, ConvertError> {
        let dim = match self.width {
            Some(width) => Some(width),
            None => self.first_length(file)?.or_else(|| stated_dim(file.schema())),
        };
        match dim {
            Some(dim) if (1..=DIM_MAX).contains(&dim) => Ok(dim),
            Some(found) => Err(ConvertError::Dimension { path: path.into(), found }),
            // Vectors there are none of have any length: the rows will be refused one by one.
            None if file.row_count() > 0 => Ok(1),
            None => Err(ConvertError::NoRows { path: path.into() }),
        }
    }

    fn first_length(&self, file: &InputFile) -> Result<Option<usize>, ConvertError> {
        for batch in file.batches(&[self.position])? {
            let length = VectorCells::of(batch?.column(0)).first_length();
            if length.is_some() {
                return Ok(length);
            }
        }
        Ok(None)
    }
}

fn stated_dim(schema: &Schema) -> Option<usize> {
    schema.metadata().get(key::DIM)?.parse().ok()
}

/// The columns of the table that is written.
pub(super) struct TableColumns {
    schema: SchemaRef,
    format: Option<TableFormat>,
    /// Where the vectors stand in the input.
    vector: usize,
    dim: usize,
    /// Whether rows are numbered: bare vectors become a column file of ours.
    is_numbered: bool,
}

impl TableColumns {
    /// Makes the columns of a table from those of the input; `format` is `None` where types are not
    /// stored.
    pub(super) fn new(
        input: &Schema,
        vector: usize,
        shape: Shape,
        format: Option<TableFormat>,
    ) -> Self {
        let is_numbered = format.is_some() && is_bare(input, shape);
        let schema = if is_numbered {
            column_file_schema(input.metadata(), shape.dim)
        } else {
            let fields = input.fields().iter().enumerate().map(|(at, field)| {
                if at == vector {
                    return vector_field(field, shape);
                }
                format.map_or_else(
                    || Field::clone(field),
                    |format| stored_field(Field::clone(field), format),
                )
            });
            let mut metadata = input.metadata().clone();
            // Written again when all rows are.
            metadata.remove(key::ROW_COUNT);
            Schema::new_with_metadata(fields.collect::<Vec<_>>(), metadata)
        };
        Self { schema: Arc::new(schema), format, vector, dim: shape.dim, is_numbered }
    }

    pub(super) const fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Tells whether the file says of itself that it has our columns.
    pub(super) fn is_ours(&self) -> bool {
        self.schema.metadata().contains_key(key::FORMAT_VERSION)
    }

    /// Returns a batch as it is written: that of the input with other components for its vectors.
    pub(super) fn batch(
        &self,
        input: &RecordBatch,
        components: ArrayRef,
        first_row: u64,
    ) -> Result<RecordBatch, String> {
        let mut columns: Vec<ArrayRef> = Vec::new();
        if self.is_numbered {
            // Rows of a column file are counted with 32 bits.
            let rows = first_row as u32..first_row as u32 + input.num_rows() as u32;
            columns.push(Arc::new(UInt32Array::from_iter_values(rows)));
        }
        for (at, column) in input.columns().iter().enumerate() {
            columns.push(match self.format {
                _ if at == self.vector => self.vectors(Arc::clone(&components))?,
                Some(format) => stored_column(column, format),
                None => Arc::clone(column),
            });
        }
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(|error| error.to_string())
    }

    fn vectors(&self, components: ArrayRef) -> Result<ArrayRef, String> {
        let item = item_of(components.data_type().clone());
        let vectors = FixedSizeListArray::try_new(item, self.dim as i32, components, None);
        Ok(Arc::new(vectors.map_err(|error| error.to_string())?))
    }
}

/// Returns the schema of a column file of bare vectors, with what the input says of them.
fn column_file_schema(input: &HashMap<String, String>, dim: usize) -> Schema {
    let stated =
        ColumnsMeta::from_metadata(|name| input.get(name).map(String::as_str), ColumnSet::Vectors);
    // A dimension is at most 65,536.
    let dim = dim as u32;
    let stated = stated.ok().filter(|meta| meta.dim == dim);
    let meta = stated.unwrap_or_else(|| ColumnsMeta::vectors(dim));
    let schema = meta.arrow_schema();
    let mut metadata = schema.metadata().clone();
    let others = input.iter().filter(|(name, _)| !is_own_key(name));
    metadata.extend(others.map(|(name, value)| (name.clone(), value.clone())));
    schema.with_metadata(metadata)
}

fn is_own_key(name: &str) -> bool {
    [
        key::FORMAT_VERSION,
        key::DIM,
        key::MODEL,
        key::METRIC,
        key::NORMALISED,
        key::SOURCE_HASH,
        key::SYNTHETIC,
        key::ROW_COUNT,
    ]
    .contains(&name)
}

/// Tells whether a file has nothing but vectors that a column file holds.
fn is_bare(input: &Schema, shape: Shape) -> bool {
    input.fields().len() == 1
        && input.field(0).name() == Column::Vector.name()
        && shape.component == ComponentType::F32
        && shape.rows < u64::from(u32::MAX)
}

fn vector_field(field: &Field, shape: Shape) -> Field {
    let item = item_of(shape.component.data_type());
    // A dimension is at most 65,536.
    let data_type = DataType::FixedSizeList(item, shape.dim as i32);
    Field::new(field.name(), data_type, false).with_metadata(field.metadata().clone())
}

fn item_of(data_type: DataType) -> FieldRef {
    Arc::new(Field::new("item", data_type, false))
}

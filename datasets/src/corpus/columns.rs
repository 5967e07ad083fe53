//! [`Picked`]: the columns of one file that a corpus reads.

use std::path::Path;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::Schema;

use super::error::CorpusError;
use super::open::CorpusOptions;
use super::vectors::{EXPECTED, Width, width_of};
use crate::input::{CellKind, InputFile};
use crate::parquet::column_list;
use crate::schema::{Column, VECTOR_NAMES};

/// Columns that hold a row's text, the first that is there counts.
const TEXT_NAMES: [&str; 2] = ["text", "content"];

/// What stands in errors as the option that chooses each column.
const VECTOR_OPTION: &str = "--vector-column NAME";
const ID_OPTION: &str = "--id-column NAME";
const ORDER_OPTION: &str = "--keep column:NAME";

/// The columns of one file that a corpus reads, by their positions in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Picked {
    pub(super) vector: usize,
    pub(super) width: Width,
    pub(super) id: Option<usize>,
    pub(super) order: Option<(usize, CellKind)>,
}

impl Picked {
    pub(super) fn from_file(
        file: &InputFile,
        path: &Path,
        options: &CorpusOptions<'_>,
    ) -> Result<Self, CorpusError> {
        let finder = Finder { schema: file.schema(), path };
        let vector = match &options.vector_column {
            _ if file.is_bare() => 0,
            None => finder.find(&VECTOR_NAMES, VECTOR_OPTION)?,
            Some(name) => finder.find(&[name], VECTOR_OPTION)?,
        };
        let width = width_of(file.schema().field(vector).data_type())
            .ok_or_else(|| finder.type_error(vector, EXPECTED, VECTOR_OPTION))?;
        let id = match &options.id_column {
            Some(name) => Some(finder.find(&[name], ID_OPTION)?),
            None => finder.find(&[Column::Id.name()], ID_OPTION).ok(),
        };
        if let Some(id) = id {
            finder.id_kind(id)?;
        }
        let order = options.order_column.as_ref().map(|name| {
            let position = finder.find(&[name], ORDER_OPTION)?;
            Ok::<_, CorpusError>((position, finder.order_kind(position)?))
        });
        Ok(Self { vector, width, id, order: order.transpose()? })
    }

    /// Returns the positions of all columns, ascending.
    pub(super) fn positions(&self) -> Vec<usize> {
        let mut positions = vec![self.vector];
        positions.extend(self.id);
        positions.extend(self.order.map(|(position, _)| position));
        positions.sort_unstable();
        positions.dedup();
        positions
    }

    /// Returns the column at `position` of the file, from a batch of [`positions`](Self::positions).
    pub(super) fn column<'a>(&self, batch: &'a RecordBatch, position: usize) -> &'a ArrayRef {
        let at = self.positions().iter().position(|&other| other == position);
        batch.column(at.expect("the position is one of those read"))
    }
}

/// Returns the position of the column that holds a row's text.
pub(super) fn text_column(schema: &Schema) -> Option<usize> {
    let position = TEXT_NAMES.iter().find_map(|name| schema.index_of(name).ok())?;
    let kind = CellKind::of(schema.field(position).data_type());
    (kind == Some(CellKind::Text)).then_some(position)
}

/// Looks for columns in one file.
struct Finder<'a> {
    schema: &'a Schema,
    path: &'a Path,
}

impl Finder<'_> {
    /// Finds the first of the columns `names`.
    fn find(&self, names: &[&str], option: &'static str) -> Result<usize, CorpusError> {
        let found = names.iter().find_map(|name| self.schema.index_of(name).ok());
        found.ok_or_else(|| CorpusError::NoColumn {
            path: self.path.into(),
            expected: names.join(", "),
            found: column_list(self.schema),
            option,
        })
    }

    fn id_kind(&self, position: usize) -> Result<(), CorpusError> {
        match CellKind::of(self.schema.field(position).data_type()) {
            Some(CellKind::Text | CellKind::Integer | CellKind::Float | CellKind::Binary) => Ok(()),
            _ => Err(self.type_error(position, "text, numbers or bytes", ID_OPTION)),
        }
    }

    fn order_kind(&self, position: usize) -> Result<CellKind, CorpusError> {
        match CellKind::of(self.schema.field(position).data_type()) {
            Some(kind) if kind != CellKind::Binary => Ok(kind),
            _ => Err(self.type_error(position, "numbers, times or text", ORDER_OPTION)),
        }
    }

    fn type_error(
        &self,
        position: usize,
        expected: &'static str,
        option: &'static str,
    ) -> CorpusError {
        let field = self.schema.field(position);
        CorpusError::ColumnType {
            path: self.path.into(),
            column: field.name().as_str().into(),
            expected,
            found: field.data_type().to_string(),
            option,
        }
    }
}

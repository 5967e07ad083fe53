//! [`Decoder`]: the second pass, from lines to record batches.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, Float64Builder, Int64Builder, ListBuilder, StringBuilder, UInt64Builder,
};
use arrow_array::{ArrayRef, FixedSizeListArray, Float32Array};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::kind::{Kind, component};
use super::learn::ComponentSeed;
use super::row::{Fields, read_row, twice};

/// Decodes some fields of lines into columns.
pub(super) struct Decoder {
    positions: HashMap<String, usize>,
    columns: Vec<Column>,
    rows: usize,
}

struct Column {
    name: String,
    values: Values,
    /// Rows that have a value or a null.
    rows: usize,
}

/// The values of a column so far.
enum Values {
    Flags(BooleanBuilder),
    Integers(Int64Builder),
    Unsigned(UInt64Builder),
    Floats(Float64Builder),
    Text(StringBuilder),
    Texts(ListBuilder<StringBuilder>),
    Numbers(ListBuilder<Float64Builder>),
    Vectors { dim: usize, components: Vec<f32>, valid: BooleanBufferBuilder },
}

impl Decoder {
    /// Decodes the columns of these names and kinds.
    pub(super) fn new<'a>(columns: impl Iterator<Item = (&'a str, Kind)>) -> Self {
        let column = |(name, kind): (&str, _)| Column {
            name: name.into(),
            values: Values::new(kind),
            rows: 0,
        };
        let columns: Vec<Column> = columns.map(column).collect();
        let positions = columns.iter().enumerate().map(|(at, column)| (column.name.clone(), at));
        Self { positions: positions.collect(), columns, rows: 0 }
    }

    /// Returns the rows so far.
    pub(super) const fn rows(&self) -> usize {
        self.rows
    }

    /// Reads the row on a line.
    pub(super) fn read(&mut self, line: &[u8]) -> Result<(), String> {
        self.rows += 1;
        read_row(line, self)?;
        let rows = self.rows;
        self.columns.iter_mut().filter(|column| column.rows < rows).for_each(Column::push_null);
        Ok(())
    }

    /// Returns the columns of the rows so far.
    pub(super) fn finish(self) -> Vec<ArrayRef> {
        self.columns.into_iter().map(|column| column.values.finish()).collect()
    }
}

impl Column {
    fn push_null(&mut self) {
        self.rows += 1;
        match &mut self.values {
            Values::Flags(values) => values.append_null(),
            Values::Integers(values) => values.append_null(),
            Values::Unsigned(values) => values.append_null(),
            Values::Floats(values) => values.append_null(),
            Values::Text(values) => values.append_null(),
            Values::Texts(values) => values.append_null(),
            Values::Numbers(values) => values.append_null(),
            Values::Vectors { dim, components, valid } => {
                components.resize(components.len() + *dim, 0.0);
                valid.append(false);
            }
        }
    }
}

impl Values {
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::Flag => Self::Flags(BooleanBuilder::new()),
            Kind::Integer => Self::Integers(Int64Builder::new()),
            Kind::Unsigned => Self::Unsigned(UInt64Builder::new()),
            Kind::Float => Self::Floats(Float64Builder::new()),
            Kind::Text => Self::Text(StringBuilder::new()),
            Kind::Texts => Self::Texts(ListBuilder::new(StringBuilder::new())),
            Kind::Numbers => Self::Numbers(ListBuilder::new(Float64Builder::new())),
            Kind::Vector(dim) => {
                Self::Vectors { dim, components: Vec::new(), valid: BooleanBufferBuilder::new(0) }
            }
        }
    }

    fn finish(self) -> ArrayRef {
        match self {
            Self::Flags(mut values) => Arc::new(values.finish()),
            Self::Integers(mut values) => Arc::new(values.finish()),
            Self::Unsigned(mut values) => Arc::new(values.finish()),
            Self::Floats(mut values) => Arc::new(values.finish()),
            Self::Text(mut values) => Arc::new(values.finish()),
            Self::Texts(mut values) => Arc::new(values.finish()),
            Self::Numbers(mut values) => Arc::new(values.finish()),
            Self::Vectors { dim, components, mut valid } => {
                let components = Arc::new(Float32Array::from(components));
                let nulls = NullBuffer::new(valid.finish());
                let nulls = (nulls.null_count() > 0).then_some(nulls);
                // A dimension is at most 65,536.
                Arc::new(FixedSizeListArray::new(component(), dim as i32, components, nulls))
            }
        }
    }

    /// Reads one value, or a null, from a field.
    fn push<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        match self {
            Self::Flags(values) => values.append_option(map.next_value()?),
            Self::Integers(values) => values.append_option(map.next_value()?),
            Self::Unsigned(values) => values.append_option(map.next_value()?),
            Self::Floats(values) => values.append_option(map.next_value()?),
            Self::Text(values) => values.append_option(text(map.next_value()?)?),
            Self::Texts(values) => {
                values.append_option(map.next_value::<Option<Vec<Option<String>>>>()?);
            }
            Self::Numbers(values) => {
                values.append_option(map.next_value::<Option<Vec<Option<f64>>>>()?);
            }
            Self::Vectors { dim, components, valid } => {
                let is_valid = map.next_value_seed(VectorSeed { dim: *dim, components })?;
                valid.append(is_valid);
            }
        }
        Ok(())
    }
}

/// Returns a text as it is, anything else as it was written; `None` for null.
fn text<E: Error>(value: &RawValue) -> Result<Option<String>, E> {
    match value.get() {
        "null" => Ok(None),
        text if text.starts_with('"') => serde_json::from_str(text).map(Some).map_err(E::custom),
        other => Ok(Some(other.into())),
    }
}

impl Fields for Decoder {
    fn position(&mut self, name: &str) -> Result<Option<usize>, String> {
        Ok(self.positions.get(name).copied())
    }

    fn name(&self, position: usize) -> &str {
        &self.columns[position].name
    }

    fn take<'de, A: MapAccess<'de>>(&mut self, at: usize, map: &mut A) -> Result<(), A::Error> {
        let column = &mut self.columns[at];
        if column.rows == self.rows {
            return Err(twice());
        }
        column.rows += 1;
        column.values.push(map)
    }
}

/// A vector, whose components are appended; false for null.
struct VectorSeed<'a> {
    dim: usize,
    components: &'a mut Vec<f32>,
}

impl<'de> DeserializeSeed<'de> for VectorSeed<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for VectorSeed<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of numbers")
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        self.components.resize(self.components.len() + self.dim, 0.0);
        Ok(false)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<bool, A::Error> {
        let start = self.components.len();
        while let Some(component) = seq.next_element_seed(ComponentSeed)? {
            self.components.push(component);
        }
        let (found, expected) = (self.components.len() - start, self.dim);
        if found != expected {
            let found = format!("vector has {found} components, expected {expected}");
            return Err(A::Error::custom(found));
        }
        Ok(true)
    }
}

//! [`read_row`]: the fields of an object on its line, whatever becomes of them.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use super::error::found;

/// Takes the fields of rows.
pub(super) trait Fields {
    /// Returns the position of the column called `name`; `None` where it is not read.
    ///
    /// # Errors
    /// When there cannot be such a column.
    fn position(&mut self, name: &str) -> Result<Option<usize>, String>;

    /// Returns the name of a column.
    fn name(&self, position: usize) -> &str;

    /// Takes the value of a field, which is the next of `map`.
    ///
    /// # Errors
    /// When the value is not like those before, or the row has the field already.
    fn take<'de, A: MapAccess<'de>>(&mut self, at: usize, map: &mut A) -> Result<(), A::Error>;
}

/// The error of a field that a row has already.
pub(super) fn twice<E: Error>() -> E {
    E::custom("it occurs twice")
}

/// Reads the row on a line, or says what is wrong, and with which field.
pub(super) fn read_row(line: &[u8], fields: &mut impl Fields) -> Result<(), String> {
    let mut current = None;
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let row = Row { fields: &mut *fields, current: &mut current };
    let read = row.deserialize(&mut deserializer);
    read.and_then(|()| deserializer.end())
        .map_err(|error| found(&error, current.map(|at| fields.name(at))))
}

/// An object on its line.
struct Row<'a, F> {
    fields: &'a mut F,
    /// The column of the value that is being read.
    current: &'a mut Option<usize>,
}

impl<'de, F: Fields> DeserializeSeed<'de> for Row<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F: Fields> Visitor<'de> for Row<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(at) = map.next_key_seed(Name(&mut *self.fields))? {
            *self.current = at;
            match at {
                Some(at) => self.fields.take(at, &mut map)?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
            *self.current = None;
        }
        Ok(())
    }
}

/// The name of a field, as the position of its column.
struct Name<'a, F>(&'a mut F);

impl<'de, F: Fields> DeserializeSeed<'de> for Name<'_, F> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<F: Fields> Visitor<'_> for Name<'_, F> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        self.0.position(name).map_err(E::custom)
    }
}

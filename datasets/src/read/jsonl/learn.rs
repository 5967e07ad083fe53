//! [`learn`]: the first pass over a file, which finds its columns and their types.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::file::{Fields, Lines, Place, read_row, twice};
use crate::schema::{DIM_MAX, VECTOR_NAMES};

/// Most columns of a file.
const COLUMNS_MAX: usize = 4096;
/// Rows between two places that are noted.
pub(super) const MARKED_ROWS: usize = 1024;

/// What the first pass finds.
#[derive(Debug)]
pub(super) struct Learnt {
    pub(super) schema: Schema,
    pub(super) kinds: Vec<Kind>,
    pub(super) row_count: usize,
    /// Where every [`MARKED_ROWS`]-th row begins, from the first on.
    pub(super) marks: Vec<Place>,
}

/// What is wrong, and on which line.
pub(super) struct BadLine {
    pub(super) line: u64,
    pub(super) found: String,
}

/// Reads all lines; `member` is the name of another field that holds vectors.
pub(super) fn learn(mut lines: Lines, member: Option<&str>) -> Result<Learnt, BadLine> {
    let mut learner = Learner { member: member.map(str::to_owned), ..Learner::default() };
    let mut marks = Vec::new();
    loop {
        let place = lines.place();
        let at = |lines: &Lines, found| BadLine { line: lines.number(), found };
        let Some(range) = lines.next_line().map_err(|found| at(&lines, found))? else { break };
        if learner.row_count.is_multiple_of(MARKED_ROWS) {
            marks.push(place);
        }
        learner.row_count += 1;
        learner.line = lines.number();
        if learner.row_count >= u32::MAX as usize {
            return Err(at(&lines, format!("more than {} rows", u32::MAX - 1)));
        }
        let bytes = &lines.bytes()[range];
        read_row(bytes, &mut learner).map_err(|found| at(&lines, found))?;
    }
    let row_count = learner.row_count;
    let columns = learner.columns.iter().map(|column| column.finish(row_count));
    let (fields, kinds): (Vec<Field>, Vec<Kind>) = columns.unzip();
    Ok(Learnt { schema: Schema::new(fields), kinds, row_count, marks })
}

#[derive(Default)]
struct Learner {
    member: Option<String>,
    columns: Vec<LearntColumn>,
    positions: HashMap<String, usize>,
    /// Rows so far, with the one that is being read.
    row_count: usize,
    line: u64,
}

struct LearntColumn {
    name: String,
    is_vector: bool,
    seen: Seen,
    /// Components of the first vector, and its line.
    first_vector: Option<(usize, u64)>,
    /// The last row that has the field, from 1.
    last_row: usize,
    values: usize,
}

impl LearntColumn {
    fn finish(&self, row_count: usize) -> (Field, Kind) {
        let kind = match self.first_vector {
            Some((dim, _)) => Kind::Vector(dim),
            None => Kind::of(self.seen),
        };
        (Field::new(&self.name, kind.data_type(), self.values < row_count), kind)
    }
}

impl Learner {
    /// Returns the position of the column called `name`, which is added where it is new.
    fn column(&mut self, name: &str) -> Result<usize, String> {
        if let Some(&at) = self.positions.get(name) {
            return Ok(at);
        }
        let at = self.columns.len();
        if at == COLUMNS_MAX {
            return Err(format!("more than {COLUMNS_MAX} different fields"));
        }
        let is_vector = VECTOR_NAMES.contains(&name) || self.member.as_deref() == Some(name);
        self.columns.push(LearntColumn {
            name: name.into(),
            is_vector,
            seen: Seen::default(),
            first_vector: None,
            last_row: 0,
            values: 0,
        });
        self.positions.insert(name.into(), at);
        Ok(at)
    }
}

impl Fields for Learner {
    fn position(&mut self, name: &str) -> Result<Option<usize>, String> {
        self.column(name).map(Some)
    }

    fn name(&self, position: usize) -> &str {
        &self.columns[position].name
    }

    fn take<'de, A: MapAccess<'de>>(&mut self, at: usize, map: &mut A) -> Result<(), A::Error> {
        let column = &mut self.columns[at];
        if column.last_row == self.row_count {
            return Err(twice());
        }
        column.last_row = self.row_count;
        if column.is_vector {
            return map.next_value_seed(VectorSeed { column, line: self.line });
        }
        let seen = map.next_value_seed(KindOfValue)?;
        column.values += usize::from(seen.is_some());
        column.seen.add(seen.unwrap_or_default());
        Ok(())
    }
}

/// A vector, whose components are counted.
struct VectorSeed<'a> {
    column: &'a mut LearntColumn,
    line: u64,
}

impl<'de> DeserializeSeed<'de> for VectorSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for VectorSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of numbers")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let mut count = 0;
        while seq.next_element_seed(ComponentSeed)?.is_some() {
            count += 1;
        }
        if count == 0 || count > DIM_MAX {
            let found = format!("vector of {count} components, expected 1 to {DIM_MAX}");
            return Err(A::Error::custom(found));
        }
        let (expected, first_line) = *self.column.first_vector.get_or_insert((count, self.line));
        if count != expected {
            return Err(A::Error::custom(format!(
                "vector has {count} components, expected {expected} as on line {first_line}"
            )));
        }
        self.column.values += 1;
        Ok(())
    }
}

/// A component of a vector, rounded once: the decimal digits become an f32.
pub(super) struct ComponentSeed;

impl<'de> DeserializeSeed<'de> for ComponentSeed {
    type Value = f32;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<f32, D::Error> {
        deserializer.deserialize_f32(self)
    }
}

impl Visitor<'_> for ComponentSeed {
    type Value = f32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_f64<E>(self, value: f64) -> Result<f32, E> {
        Ok(value as f32)
    }

    fn visit_i64<E>(self, value: i64) -> Result<f32, E> {
        Ok(value as f32)
    }

    fn visit_u64<E>(self, value: u64) -> Result<f32, E> {
        Ok(value as f32)
    }
}

/// Tells what a value is; `None` for null.
struct KindOfValue;

impl<'de> DeserializeSeed<'de> for KindOfValue {
    type Value = Option<Seen>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for KindOfValue {
    type Value = Option<Seen>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Option<Seen>, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Option<Seen>, E> {
        Ok(Some(Seen::FLAG))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Option<Seen>, E> {
        Ok(Some(if value < 0 { Seen::NEGATIVE } else { Seen::NATURAL }))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Option<Seen>, E> {
        Ok(Some(if i64::try_from(value).is_ok() { Seen::NATURAL } else { Seen::HUGE }))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Option<Seen>, E> {
        Ok(Some(Seen::FRACTION))
    }

    fn visit_str<E>(self, _: &str) -> Result<Option<Seen>, E> {
        Ok(Some(Seen::TEXT))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Option<Seen>, A::Error> {
        let (mut texts, mut numbers, mut others) = (false, false, false);
        while let Some(element) = seq.next_element_seed(Self)? {
            match element {
                None => {}
                Some(Seen::TEXT) => texts = true,
                Some(Seen::NEGATIVE | Seen::NATURAL | Seen::HUGE | Seen::FRACTION) => {
                    numbers = true
                }
                Some(_) => others = true,
            }
        }
        Ok(Some(match (texts, numbers, others) {
            (false, false, false) => Seen::EMPTY_LIST,
            (true, false, false) => Seen::TEXTS,
            (false, true, false) => Seen::NUMBERS,
            _ => Seen::OTHER,
        }))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<Seen>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Some(Seen::OTHER))
    }
}

/// Kinds of values that were seen, as a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Seen(u16);

impl Seen {
    pub(super) const FLAG: Self = Self(1);
    pub(super) const NEGATIVE: Self = Self(1 << 1);
    /// From 0 on, as far as i64 goes.
    pub(super) const NATURAL: Self = Self(1 << 2);
    /// Beyond i64, within u64.
    pub(super) const HUGE: Self = Self(1 << 3);
    pub(super) const FRACTION: Self = Self(1 << 4);
    pub(super) const TEXT: Self = Self(1 << 5);
    pub(super) const TEXTS: Self = Self(1 << 6);
    pub(super) const NUMBERS: Self = Self(1 << 7);
    pub(super) const EMPTY_LIST: Self = Self(1 << 8);
    /// An object, or a list of other things.
    pub(super) const OTHER: Self = Self(1 << 9);

    pub(super) const fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    const fn only(self, allowed: &[Self]) -> bool {
        let (mut union, mut i) = (0, 0);
        while i < allowed.len() {
            union |= allowed[i].0;
            i += 1;
        }
        self.0 & !union == 0
    }
}

/// What the values of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Flag,
    Integer,
    Unsigned,
    Float,
    /// Texts as they are, everything else as JSON.
    Text,
    Texts,
    Numbers,
    /// Vectors of so many components.
    Vector(usize),
}

impl Kind {
    /// Returns the narrowest kind that holds all values seen.
    pub(super) const fn of(seen: Seen) -> Self {
        use Seen as S;
        if seen.0 == 0 {
            // Nothing but nulls.
            Self::Text
        } else if seen.only(&[S::FLAG]) {
            Self::Flag
        } else if seen.only(&[S::NEGATIVE, S::NATURAL]) {
            Self::Integer
        } else if seen.only(&[S::NATURAL, S::HUGE]) {
            Self::Unsigned
        } else if seen.only(&[S::NEGATIVE, S::NATURAL, S::HUGE, S::FRACTION]) {
            Self::Float
        } else if seen.only(&[S::TEXTS, S::EMPTY_LIST]) {
            Self::Texts
        } else if seen.only(&[S::NUMBERS, S::EMPTY_LIST]) {
            Self::Numbers
        } else {
            Self::Text
        }
    }

    pub(super) fn data_type(self) -> DataType {
        match self {
            Self::Flag => DataType::Boolean,
            Self::Integer => DataType::Int64,
            Self::Unsigned => DataType::UInt64,
            Self::Float => DataType::Float64,
            Self::Text => DataType::Utf8,
            Self::Texts => DataType::List(item(DataType::Utf8, true)),
            Self::Numbers => DataType::List(item(DataType::Float64, true)),
            // A dimension is at most 65,536.
            Self::Vector(dim) => DataType::FixedSizeList(component(), dim as i32),
        }
    }
}

fn item(data_type: DataType, is_nullable: bool) -> FieldRef {
    Arc::new(Field::new("item", data_type, is_nullable))
}

/// The components of a vector.
pub(super) fn component() -> FieldRef {
    item(DataType::Float32, false)
}

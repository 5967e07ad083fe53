//! [`Kind`]: what the values of a column are, from everything that was seen.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef};

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

//! Reads a layer by serde: bounds of numbers, meanings of words, and errors with the expected type.

use std::any::TypeId;
use std::convert::identity;
use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::time::Duration;

use memfold_simd::Similarity;
use serde::de::value::{MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{self, Deserialize, DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde::{Serialize, Serializer, forward_to_deserialize_any};
use serde_json::Value;

use super::layers::{Node, Tree};

/// No upper bound.
pub(super) const MAX: i64 = i64::MAX;

/// A number with bounds: from `LOW`, or above it where `ABOVE`, to `HIGH`.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct Number<T, const LOW: i64, const HIGH: i64, const ABOVE: bool>(T);

/// A number from `LOW` to `HIGH`, both included.
pub(super) type Within<T, const LOW: i64, const HIGH: i64> = Number<T, LOW, HIGH, false>;

/// A number above `LOW` and at most `HIGH`.
pub(super) type Above<T, const LOW: i64, const HIGH: i64> = Number<T, LOW, HIGH, true>;

/// A cosine.
pub(super) type Cosine = Within<f64, -1, 1>;

/// `serde(with = "As::<WIRE>")`: a field that is written as `WIRE`, which has the bounds.
pub(super) struct As<W>(PhantomData<W>);

impl<W> As<W> {
    pub(super) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: Bounded<W>,
        W: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        W::deserialize(from).map(T::of)
    }

    pub(super) fn serialize<T, S>(value: &T, to: S) -> Result<S::Ok, S::Error>
    where
        T: Bounded<W>,
        W: Serialize,
        S: Serializer,
    {
        value.wire().serialize(to)
    }
}

#[cfg(test)]
impl<W: schemars::JsonSchema> schemars::JsonSchema for As<W> {
    fn inline_schema() -> bool {
        W::inline_schema()
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        W::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        W::json_schema(generator)
    }
}

/// A type that is written as `W`.
pub(super) trait Bounded<W> {
    fn of(wire: W) -> Self;
    fn wire(&self) -> W;
}

/// Types that are written as a number: of their own type, or of another.
macro_rules! written_as {
    ($($number:ty as $type:ty: $of:expr, $back:expr;)*) => {$(
        impl<const LOW: i64, const HIGH: i64, const ABOVE: bool>
            Bounded<Number<$number, LOW, HIGH, ABOVE>> for $type
        {
            fn of(wire: Number<$number, LOW, HIGH, ABOVE>) -> Self {
                $of(wire.0)
            }

            fn wire(&self) -> Number<$number, LOW, HIGH, ABOVE> {
                Number($back(*self))
            }
        }
    )*};
}

written_as! {
    f64 as f64: identity, identity;
    i64 as i64: identity, identity;
    u32 as u32: identity, identity;
    u64 as u64: identity, identity;
    usize as usize: identity, identity;
    u32 as usize: |count| count as Self, |count| count as u32;
    u32 as Duration: |ms: u32| Self::from_millis(ms.into()), |time: Self| time.as_millis() as u32;
    f64 as Similarity: |cosine| Self::new(cosine).expect("within -1 and 1"), Self::get;
}

impl<T: Bounded<W>, W> Bounded<Option<W>> for Option<T> {
    fn of(wire: Option<W>) -> Self {
        wire.map(T::of)
    }

    fn wire(&self) -> Option<W> {
        self.as_ref().map(T::wire)
    }
}

impl<T: Bounded<W>, W> Bounded<Vec<W>> for Vec<T> {
    fn of(wire: Vec<W>) -> Self {
        wire.into_iter().map(T::of).collect()
    }

    fn wire(&self) -> Vec<W> {
        self.iter().map(T::wire).collect()
    }
}

impl<'de, T, const LOW: i64, const HIGH: i64, const ABOVE: bool> Deserialize<'de>
    for Number<T, LOW, HIGH, ABOVE>
where
    T: DeserializeOwned + 'static,
{
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(from)?;
        let whole = TypeId::of::<T>() != TypeId::of::<f64>();
        let is_within = |number: f64| {
            let fits = if ABOVE { number > LOW as f64 } else { number >= LOW as f64 };
            fits && (HIGH == MAX || number <= HIGH as f64) && (!whole || value.is_i64())
        };
        let number = value.as_f64().filter(|number| is_within(*number));
        number.and_then(|_| T::deserialize(&value).ok()).map(Self).ok_or_else(|| {
            let kind = if whole { "a whole number" } else { "a number" };
            de::Error::custom(match (ABOVE, HIGH) {
                (false, MAX) => format!("{kind} of at least {LOW}"),
                (true, MAX) => format!("{kind} above {LOW}"),
                (false, _) => format!("{kind} from {LOW} to {HIGH}"),
                (true, _) => format!("{kind} above {LOW} and at most {HIGH}"),
            })
        })
    }
}

#[cfg(test)]
impl<T, const LOW: i64, const HIGH: i64, const ABOVE: bool> schemars::JsonSchema
    for Number<T, LOW, HIGH, ABOVE>
where
    T: schemars::JsonSchema,
{
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let mut schema = T::json_schema(generator);
        let low = if ABOVE { "exclusiveMinimum" } else { "minimum" };
        schema.insert(low.to_owned(), LOW.into());
        if HIGH != MAX {
            schema.insert("maximum".to_owned(), HIGH.into());
        }
        schema
    }
}

/// Added to the expected type of a nullable key.
pub(super) const OR_NULL: &str = ", or null";

/// An error of serde; `serde_path_to_error` knows its place.
#[derive(Debug)]
pub(super) enum Fault {
    /// A key that the mapping does not have; these it has.
    UnknownKey { known: &'static [&'static str] },
    /// A value that is not this.
    Value {
        expected: String,
        /// The words that are allowed, where these are few.
        choices: &'static [&'static str],
    },
}

impl Fault {
    fn expected(expected: &impl Display) -> Self {
        let expected = match expected.to_string().as_str() {
            "a boolean" => "true or false".to_owned(),
            "a string" => "a text".to_owned(),
            "a sequence" => "a list of texts".to_owned(),
            "f64" => "a number".to_owned(),
            "usize" => "a whole number of at least 0".to_owned(),
            words if words.starts_with("struct ") => Self::MAPPING.to_owned(),
            words => words.to_owned(),
        };
        Self::Value { expected, choices: &[] }
    }

    /// The expected type of a section.
    pub(super) const MAPPING: &str = "keys and values";

    fn one_of(choices: &'static [&'static str]) -> Self {
        Self::Value { expected: format!("one of {}", choices.join(", ")), choices }
    }

    fn or_null(mut self) -> Self {
        if let Self::Value { expected, .. } = &mut self {
            expected.push_str(OR_NULL);
        }
        self
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: Display>(message: T) -> Self {
        Self::expected(&message)
    }

    fn invalid_type(_: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::expected(&expected)
    }

    fn invalid_value(_: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::expected(&expected)
    }

    fn unknown_variant(_: &str, choices: &'static [&'static str]) -> Self {
        Self::one_of(choices)
    }

    fn unknown_field(_: &str, known: &'static [&'static str]) -> Self {
        Self::UnknownKey { known }
    }
}

/// Reads a value of a layer.
pub(super) struct Reader<'a>(pub(super) &'a Node);

impl<'de> IntoDeserializer<'de, Fault> for Reader<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.0.tree {
            Tree::List(items) => visitor.visit_seq(SeqDeserializer::new(items.iter().map(Reader))),
            Tree::Map(entries) => {
                let entries = entries.iter().map(|(key, node)| (key.as_str(), Reader(node)));
                visitor.visit_map(MapDeserializer::new(entries))
            }
            // Whole numbers stay within i64, so that every integer type of the configuration can take them.
            Tree::Plain(Value::Number(number)) => match number.as_i64() {
                Some(whole) => visitor.visit_i64(whole),
                None => visitor.visit_f64(number.as_f64().unwrap_or(f64::INFINITY)),
            },
            Tree::Plain(Value::Bool(bool)) => visitor.visit_bool(*bool),
            Tree::Plain(Value::String(text)) => visitor.visit_str(text),
            Tree::Plain(_) => visitor.visit_unit(),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.0.tree {
            Tree::Plain(Value::Null) => visitor.visit_none(),
            _ => visitor.visit_some(self).map_err(Fault::or_null),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        choices: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.0.text() {
            Some(text) => visitor.visit_enum(StrDeserializer::new(text)),
            None => Err(Fault::one_of(choices)),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// Words for true.
const TRUE: &[&str] = &["1", "true", "yes", "on", "enabled"];
/// Words for false.
const FALSE: &[&str] = &["0", "false", "no", "off", "disabled"];
/// Words for null.
const NULL: &[&str] = &["", "null", "none", "~"];

/// Returns the possible meanings of the words of a variable or of `--set`, in the order in which they are tried; the type
/// of the key decides. The caller tries YAML last, because its errors say most.
pub(super) fn meanings(words: &str) -> Vec<Value> {
    let is_in = |list: &[&str]| list.contains(&words.to_lowercase().as_str());
    let mut meanings = Vec::new();
    meanings.extend(is_in(NULL).then_some(Value::Null));
    meanings.extend(is_in(TRUE).then_some(Value::Bool(true)));
    meanings.extend(is_in(FALSE).then_some(Value::Bool(false)));
    if !words.starts_with('[') {
        let texts = words.split(',').map(str::trim).filter(|text| !text.is_empty());
        meanings.push(texts.collect());
    }
    meanings.push(words.into());
    meanings
}

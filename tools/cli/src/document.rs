//! [`Document`]: what `--json` prints. Each has a schema in `docs/schemas`.

/// A document that `--json` prints. Types become one by [`documents!`](crate::documents), which
/// also checks their schema.
pub trait Document: serde::Serialize {}

/// Makes types documents: `documents! { "name" => Type }`, where `docs/schemas/name.schema.json`
/// is the type's schema. Once in a module.
#[macro_export]
macro_rules! documents {
    ($($name:literal => $document:ty),+ $(,)?) => {
        $(impl $crate::Document for $document {})+

        #[cfg(test)]
        mod published {
            use super::*;

            #[test]
            fn schemas_are_those_of_the_documents() {
                $(memfold_tests::assert_published::<$document>($name);)+
            }
        }
    };
}

pub(crate) use documents;

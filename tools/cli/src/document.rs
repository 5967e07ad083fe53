//! [`Document`]: what `--json` prints. Each has a schema in `docs/schemas`.

/// A document that `--json` prints. Types become one by [`documents`], which asks for their schema.
pub(crate) trait Document: serde::Serialize {}

/// Makes types documents: `documents! { "name" => Type }`, where `docs/schemas/name.schema.json` is the type's schema.
/// Once in a module.
macro_rules! documents {
    ($($name:literal => $document:ty),+ $(,)?) => {
        $(impl $crate::document::Document for $document {})+

        #[cfg(test)]
        mod published {
            use super::*;

            #[test]
            fn schemas_are_those_of_the_documents() {
                $($crate::document::assert_published::<$document>($name);)+
            }
        }
    };
}

pub(crate) use documents;

/// Compares a file of docs/schemas; `BLESS=1` writes it instead. Fields that are always printed are required.
#[cfg(test)]
#[track_caller]
pub(crate) fn assert_published<T: schemars::JsonSchema>(name: &str) {
    let settings = schemars::generate::SchemaSettings::draft2020_12()
        .for_serialize()
        .with_transform(schemars::transform::RecursiveTransform(without_rustdoc));
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas");
    let path = folder.join(format!("{name}.schema.json"));
    let expected = serde_json::to_string_pretty(&schema.to_value()).unwrap() + "\n";
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{} is old: run with BLESS=1", path.display());
}

/// Descriptions are doc comments; their links and escapes mean nothing in a schema.
#[cfg(test)]
fn without_rustdoc(schema: &mut schemars::Schema) {
    if let Some(serde_json::Value::String(text)) = schema.get_mut("description") {
        let links = text.replace("[`", "`").replace("`]", "`");
        *text = links.replace("\\[", "[").replace("\\]", "]");
    }
}

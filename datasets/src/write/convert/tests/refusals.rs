use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{FixedSizeListBuilder, Float32Builder, ListBuilder};
use arrow_array::{ArrayRef, Float32Array, Float64Array, StringArray};

use super::material::{one_column, options, refused, said, vectors};
use super::{ComponentType, ConvertOptions, VectorFormat, link};
use crate::DataError;

fn floats(folder: &Path, values: &[f64]) -> std::path::PathBuf {
    one_column(folder, "vector", vectors(Arc::new(Float64Array::from(values.to_vec())), 2))
}

#[test]
fn rows_without_a_usable_vector_are_named_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let input = floats(folder.path(), &[1.0, 2.0, 3.0, f64::NAN, 0.0, 1.0, f64::INFINITY, 0.0]);
    for name in ["a.npy", "a.arrow", "a.parquet", "a.jsonl", "a.npz", "a.fvecs"] {
        assert_eq!(said(&input, name, &options()), "in.arrow: row 1: component 1 is NaN");
    }
    assert_eq!(
        refused(&input, "a.npy", &options()).hint().unwrap(),
        "leave such rows out of the file"
    );

    let mut lists = ListBuilder::new(Float32Builder::new());
    lists.append_value([Some(1.0), Some(2.0)]);
    lists.append_null();
    lists.append_value([Some(1.0), None]);
    lists.append_value([Some(1.0)]);
    let lists: ArrayRef = Arc::new(lists.finish());
    for (start, expected) in [
        (0, "row 1: the vector is null"),
        (2, "row 0: component 1 is null"),
        (3, "row 0: the vector is null"),
    ] {
        let part = match start {
            3 => {
                let mut fixed = FixedSizeListBuilder::new(Float32Builder::new(), 2);
                fixed.values().append_slice(&[0.0; 4]);
                fixed.append(false);
                fixed.append(true);
                Arc::new(fixed.finish())
            }
            _ => lists.slice(start, 4 - start),
        };
        let input = one_column(folder.path(), "vector", part);
        assert_eq!(said(&input, "a.npy", &options()), format!("in.arrow: {expected}"));
    }
    let input = one_column(folder.path(), "vector", lists.slice(1, 1));
    let expected = "in.arrow: row 0: the vector is null";
    assert_eq!(said(&input, "a.npy", &options()), expected);

    let mut lists = ListBuilder::new(Float32Builder::new());
    lists.append_value([Some(1.0), Some(2.0)]);
    lists.append_value([Some(1.0)]);
    let input = one_column(folder.path(), "vector", Arc::new(lists.finish()));
    assert_eq!(
        said(&input, "a.npy", &options()),
        "in.arrow: row 1: vector has 1 components, expected 2"
    );
}

#[test]
fn components_that_do_not_fit_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let input = floats(folder.path(), &[1.0, 2.0, 3.0, 4.0, -0.0, 70_000.5]);
    for (name, expected) in [
        ("a.ivecs", "row 2: component 0 is -0, which i32 does not hold exactly"),
        ("a.f16bin", "row 2: component 1 is 70000.5, which f16 does not hold exactly"),
    ] {
        assert_eq!(said(&input, name, &options()), format!("in.arrow: {expected}"));
    }
    for (name, component) in [
        ("a.u8bin", ComponentType::U8),
        ("a.i8bin", ComponentType::I8),
        ("a.f16bin", ComponentType::F16),
        ("a.arrow", ComponentType::F16),
    ] {
        let options = ConvertOptions { component: Some(component), ..options() };
        let expected =
            format!("in.arrow: row 2: component 1 is 70000.5, out of the range of {component}");
        assert_eq!(said(&input, name, &options), expected);
    }
    let options = ConvertOptions { component: Some(ComponentType::F64), ..options() };
    assert_eq!(said(&input, "a.fvecs", &options), "a.fvecs: fvecs holds f32, not f64");
}

#[test]
fn what_cannot_begin_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let input = floats(folder.path(), &[1.0, 2.0]);
    let error = refused(&input, "a.csv", &options());
    assert_eq!(error.hint().unwrap(), "name the format of the output");
    assert_eq!(said(&input, "in.arrow", &options()), "in.arrow: the output is the input");
    link(&input, &folder.path().join("link.npy"));
    let linked = ConvertOptions { format: Some(VectorFormat::Npy), ..options() };
    #[cfg(unix)]
    assert_eq!(said(&input, "link.npy", &linked), "link.npy: the output is the input");
    let other = ConvertOptions { column: Some("other"), ..linked };
    assert_eq!(
        said(&input, "a.npy", &other),
        r#"in.arrow: no column other, found "vector" (FixedSizeList(2 x Float64))"#
    );
    let missing = folder.path().join("missing.npy");
    assert!(matches!(refused(&missing, "a.arrow", &options()), DataError::Io { .. }));
    let text = StringArray::from(vec!["a"]);
    let input = one_column(folder.path(), "vector", Arc::new(text));
    assert_eq!(
        said(&input, "a.npy", &options()),
        "in.arrow: column \"vector\" is Utf8, expected a list of f16, f32, f64, i8, u8, i32 or i64, \
         or fixed-size binary of 4-byte floats"
    );
    let none = vectors(Arc::new(Float32Array::from(vec![0.0; 65_537])), 65_537);
    let input = one_column(folder.path(), "vector", none);
    assert_eq!(
        said(&input, "a.npy", &options()),
        "in.arrow: vectors of 65537 components, expected 1 to 65536"
    );
    let mut lists = ListBuilder::new(Float32Builder::new());
    let input = one_column(folder.path(), "vector", Arc::new(lists.finish()));
    assert_eq!(said(&input, "a.npy", &options()), "in.arrow: no rows, expected at least one");
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let input = floats(folder.path(), &[1.0, 2.0]);
    for name in ["no/a.npy", "no/a.arrow", "no/a.parquet", "no/a.jsonl", "no/a.npz"] {
        let error = refused(&input, name, &options());
        assert!(error.to_string().contains(name), "{error}");
        assert_eq!(error.hint().unwrap(), "create the folder first");
    }
}

use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{FixedSizeListBuilder, Float32Builder, ListBuilder};
use arrow_array::{ArrayRef, Float32Array, Float64Array, StringArray};

use super::material::{one_column, options, refused, said, vectors};
use super::{ComponentType, ConvertOptions, VectorFormat, WriteError, link};

fn floats(folder: &Path, values: &[f64]) -> std::path::PathBuf {
    one_column(folder, "vector", vectors(Arc::new(Float64Array::from(values.to_vec())), 2))
}

#[test]
fn rows_without_a_usable_vector_are_named_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let input = floats(folder.path(), &[1.0, 2.0, 3.0, f64::NAN, 0.0, 1.0, f64::INFINITY, 0.0]);
    for name in ["a.npy", "a.arrow", "a.parquet", "a.jsonl", "a.npz", "a.fvecs"] {
        assert_eq!(
            said(&input, name, &options()),
            "in.arrow: row 1: component 1 is NaN; rows without a usable vector: 2 of 4"
        );
    }
    assert_eq!(
        refused(&input, "a.npy", &options()).hint().unwrap(),
        "write the input again without these rows"
    );

    let mut lists = ListBuilder::new(Float32Builder::new());
    lists.append_value([Some(1.0), Some(2.0)]);
    lists.append_null();
    lists.append_value([Some(1.0), None]);
    lists.append_value([Some(1.0)]);
    let lists: ArrayRef = Arc::new(lists.finish());
    for (start, expected) in [
        (0, "row 1: the vector is null; rows without a usable vector: 3 of 4"),
        (2, "row 0: component 1 is null; rows without a usable vector: 2 of 2"),
        (3, "row 0: the vector is null; rows without a usable vector: 1 of 2"),
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
    let expected = "in.arrow: row 0: the vector is null; rows without a usable vector: 1 of 1";
    assert_eq!(said(&input, "a.npy", &options()), expected);

    let mut lists = ListBuilder::new(Float32Builder::new());
    lists.append_value([Some(1.0), Some(2.0)]);
    lists.append_value([Some(1.0)]);
    let input = one_column(folder.path(), "vector", Arc::new(lists.finish()));
    assert_eq!(
        said(&input, "a.npy", &options()),
        "in.arrow: row 1: vector has 1 components, expected 2 as the first; \
         rows without a usable vector: 1 of 2"
    );
}

#[test]
fn components_that_do_not_fit_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let input = floats(folder.path(), &[1.0, 2.0, 3.0, 4.0, -0.0, 70_000.5]);
    for (name, expected) in [
        ("a.ivecs", "row 2: component 0 is -0, no value of i32"),
        ("a.f16bin", "row 2: component 1 is 70000.5, no value of f16"),
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
    assert_eq!(said(&input, "a.fvecs", &options), "fvecs holds f32, not f64");
}

#[test]
fn what_cannot_begin_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let input = floats(folder.path(), &[1.0, 2.0]);
    let error = refused(&input, "a.csv", &options());
    assert_eq!(
        error.hint().unwrap(),
        "name the format with --to: arrow, parquet, jsonl, npy, npz, safetensors, fvecs, ivecs, \
         bvecs, fbin, f16bin, u8bin, i8bin, ibin"
    );
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
    assert!(matches!(refused(&missing, "a.arrow", &options()), WriteError::Input(_)));
    let text = StringArray::from(vec!["a"]);
    let input = one_column(folder.path(), "vector", Arc::new(text));
    assert_eq!(
        said(&input, "a.npy", &options()),
        "in.arrow: column \"vector\" is Utf8, expected a list of f16, f32, f64, u8, i8 or i32, \
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
    assert_eq!(
        said(&input, "a.npy", &options()),
        "in.arrow: no rows, so nothing tells how many components a vector has"
    );
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

mod material;
mod readers;
mod refusals;
mod tables;

use std::path::Path;

use memfold_index::Row;

use self::material::{
    DIM, converted, edges, formats_and_types, many, one_column, options, refused, vectors,
};
use self::readers::{Found, bytes_of, read};
use super::*;
use crate::columns::MappedColumns;

/// Formats that can be read, with the types that are read from them.
const READABLE: [(VectorFormat, &[ComponentType]); 14] = [
    (VectorFormat::Columns, &ComponentType::ALL),
    (VectorFormat::Parquet, &ComponentType::ALL),
    (VectorFormat::Jsonl, &[ComponentType::F32]),
    (VectorFormat::Npy, &ComponentType::ALL),
    (VectorFormat::Npz, &ComponentType::ALL),
    (VectorFormat::Safetensors, &ComponentType::ALL),
    (VectorFormat::Fvecs, &[ComponentType::F32]),
    (VectorFormat::Ivecs, &[ComponentType::I32]),
    (VectorFormat::Bvecs, &[ComponentType::U8]),
    (VectorFormat::Fbin, &[ComponentType::F32]),
    (VectorFormat::F16bin, &[ComponentType::F16]),
    (VectorFormat::U8bin, &[ComponentType::U8]),
    (VectorFormat::I8bin, &[ComponentType::I8]),
    (VectorFormat::Ibin, &[ComponentType::I32]),
];

fn file_name(stem: &str, format: VectorFormat) -> String {
    format!("{stem}.{}", format.name())
}

#[test]
fn every_format_holds_every_bit() {
    for (format, component) in formats_and_types() {
        let folder = tempfile::tempdir().unwrap();
        let values = edges(component);
        let input = one_column(folder.path(), "vector", vectors(values.clone(), DIM));
        let output = folder.path().join(file_name("out", format));
        let made = converted(&input, &output);
        let rows = values.len() / DIM;
        let expected = Found { rows, dim: DIM, bytes: bytes_of(&values) };
        assert_eq!(read(&output, format, component), expected, "{format:?} {component}");
        assert_eq!((made.rows, made.dim, made.component), (rows as u64, DIM, component));
        assert_eq!((made.from, made.to), ("arrow", format));
        assert_eq!(made.bytes_written, output.metadata().unwrap().len());
        assert_eq!(made.columns_left_out, [""; 0]);
    }
}

#[test]
fn every_pair_of_formats_gives_back_what_it_took() {
    for (from, types_read) in READABLE {
        for (to, types) in READABLE {
            for &component in types_read.iter().filter(|component| types.contains(component)) {
                let folder = tempfile::tempdir().unwrap();
                let values = edges(component);
                let source = one_column(folder.path(), "vector", vectors(values.clone(), DIM));
                let paths = [("a", from), ("b", to), ("c", from)]
                    .map(|(stem, format)| folder.path().join(file_name(stem, format)));
                converted(&source, &paths[0]);
                converted(&paths[0], &paths[1]);
                let made = converted(&paths[1], &paths[2]);
                assert_eq!((made.component_read, made.component), (component, component));
                let found = read(&paths[2], from, component);
                assert_eq!(found.bytes, bytes_of(&values), "{from:?} {to:?} {component}");
            }
        }
    }
}

#[test]
fn bare_vectors_become_a_column_file_that_is_mapped() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let source = many(folder.path(), 70_000, 3);
    converted(&source, &path("a.npy"));
    converted(&path("a.npy"), &path("b.arrow"));
    converted(&path("b.arrow"), &path("c.parquet"));
    converted(&path("c.parquet"), &path("d.arrow"));
    let values = read(&path("a.npy"), VectorFormat::Npy, ComponentType::F32).bytes;
    for name in ["b.arrow", "d.arrow"] {
        let columns = MappedColumns::open(&path(name)).unwrap();
        assert_eq!((columns.len(), columns.dim()), (70_000, 3));
        let vectors = columns.vectors();
        let bits = (0..70_000).flat_map(|row| vectors.vector(Row(row)).to_vec());
        assert!(bits.flat_map(f32::to_le_bytes).eq(values.iter().copied()), "{name}");
    }
    let made = converted(&path("d.arrow"), &path("e.fvecs"));
    assert_eq!(made.columns_left_out, ["row"]);
    assert!(read(&path("e.fvecs"), VectorFormat::Fvecs, ComponentType::F32).bytes == values);
    let bytes = |name: &str| std::fs::read(path(name)).unwrap();
    assert!(bytes("b.arrow") == bytes("d.arrow"), "the same rows make the same bytes");
}

#[test]
fn files_without_rows_stay_what_they_are() {
    for (format, component) in formats_and_types() {
        let folder = tempfile::tempdir().unwrap();
        let none = edges(component).slice(0, 0);
        let input = one_column(folder.path(), "vector", vectors(none, DIM));
        let output = folder.path().join(file_name("out", format));
        let made = converted(&input, &output);
        assert_eq!((made.rows, made.dim, made.component), (0, DIM, component));
        assert_eq!(read(&output, format, component).rows, 0, "{format:?} {component}");
    }
}

#[test]
fn a_type_that_the_format_holds_is_taken_where_no_value_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let whole = edges(ComponentType::U8);
    let input = one_column(folder.path(), "vector", vectors(whole.clone(), DIM));
    for name in ["a.fbin", "a.ivecs", "a.f16bin", "a.fvecs"] {
        let made = converted(&input, &path(name));
        assert_eq!(made.component_read, ComponentType::U8);
        let wide = Components::of(&whole).unwrap().converted(made.component, Rounding::Exact);
        let found = read(&path(name), made.to, made.component);
        assert_eq!(found.bytes, wide.unwrap().bytes(), "{name}");
    }
    let error = refused(&input, "a.i8bin", &options());
    assert_eq!(error.hint().unwrap(), "write the vectors as f32 if they may be rounded");
}

#[test]
fn a_type_that_was_asked_for_is_rounded_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let values: arrow_array::Float64Array = vec![0.1, 254.5, 2.5, 3.5, 1e-300, 7.0].into();
    let input = one_column(folder.path(), "vector", vectors(std::sync::Arc::new(values), 2));
    let to = |name: &str, component| {
        let options = ConvertOptions { component: Some(component), ..options() };
        let made = convert(&input, &path(name), &options).unwrap();
        assert_eq!((made.component_read, made.component), (ComponentType::F64, component));
        read(&path(name), made.to, component).bytes
    };
    assert_eq!(to("a.bvecs", ComponentType::U8), [0, 254, 2, 4, 0, 7]);
    let floats = [0.1_f32, 254.5, 2.5, 3.5, 0.0, 7.0];
    let bytes: Vec<u8> = floats.iter().flat_map(|value| value.to_le_bytes()).collect();
    for name in ["a.npy", "a.fbin", "a.jsonl", "a.safetensors"] {
        assert_eq!(to(name, ComponentType::F32), bytes, "{name}");
    }
    // Now they are f32, the file is one of ours.
    assert_eq!(to("a.arrow", ComponentType::F32), bytes);
    assert_eq!(MappedColumns::open(&path("a.arrow")).unwrap().len(), 3);
}

#[test]
fn many_rows_are_converted_as_few_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let source = many(folder.path(), 66_000, 520);
    converted(&source, &path("a.npz"));
    let asked = ConvertOptions { component: Some(ComponentType::F64), ..options() };
    convert(&source, &path("b.npy"), &asked).unwrap();
    converted(&path("b.npy"), &path("c.fvecs"));
    let bytes = |name: &str, format| read(&path(name), format, ComponentType::F32).bytes;
    assert!(bytes("a.npz", VectorFormat::Npz) == bytes("c.fvecs", VectorFormat::Fvecs));
}

#[test]
fn progress_counts_every_row_and_stops_where_asked() {
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Debug, Default)]
    struct Counted {
        rows: AtomicU64,
        stop_at: u64,
    }
    impl memfold_index::Progress for Counted {
        fn begin(&self, stage: &'static str, total: Option<u64>) {
            assert_eq!((stage, total), ("convert", Some(70_000)));
        }
        fn advance(&self, done: u64) {
            self.rows.fetch_add(done, Ordering::Relaxed);
        }
        fn end(&self) {}
        fn cancelled(&self) -> bool {
            self.rows.load(Ordering::Relaxed) >= self.stop_at
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let source = many(folder.path(), 70_000, 2);
    let whole = Counted { stop_at: u64::MAX, ..Counted::default() };
    let output = folder.path().join("a.npy");
    convert(&source, &output, &ConvertOptions { progress: &whole, ..options() }).unwrap();
    assert_eq!(whole.rows.load(Ordering::Relaxed), 70_000);
    let stopped = Counted { stop_at: 1, ..Counted::default() };
    for name in ["b.npy", "b.arrow", "b.parquet", "b.jsonl", "b.npz"] {
        let options = ConvertOptions { progress: &stopped, ..options() };
        assert!(matches!(refused(&source, name, &options), DataError::Cancelled), "{name}");
    }
}

fn link(to: &Path, from: &Path) {
    #[cfg(unix)]
    std::os::unix::fs::symlink(to, from).unwrap();
    #[cfg(not(unix))]
    std::fs::hard_link(to, from).unwrap();
}

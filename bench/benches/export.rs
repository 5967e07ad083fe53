//! Writing and opening columns: bytes of vectors per second, on synthetic rows.
//!
//! Files go to the folder of temporary files. "bare" rows are vectors only; "full" rows have every
//! column of an export, with a text of 120 bytes.

use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use memfold_bench::is_test_run;
use memfold_bench::workload::{DIM, SyntheticVectors};
use memfold_datasets::{
    ColumnRecord, ColumnSet, ColumnsMeta, ColumnsWriter, Corpus, CorpusOptions, MappedColumns,
};

/// Ids and vectors of the rows to be written.
struct Rows {
    ids: Vec<String>,
    vectors: SyntheticVectors,
    categories: [Box<str>; 2],
    text: String,
}

impl Rows {
    fn new(count: u32) -> Self {
        Self {
            ids: (0..count).map(|row| format!("stm_{row:012x}")).collect(),
            vectors: SyntheticVectors::new(count, 0, DIM),
            categories: ["decision".into(), "preference".into()],
            text: "word ".repeat(24),
        }
    }

    /// Pushes all rows, every column filled.
    fn push_all(&self, writer: &mut ColumnsWriter) {
        let vectors = self.vectors.rows();
        for (row, id) in vectors.rows().zip(&self.ids) {
            let record = ColumnRecord {
                rowid: row.index() as i64,
                id,
                created_at: Some(1_700_000_000_000_000 + row.index() as i64),
                categories: &self.categories,
                importance: 1.0,
                access_count: row.index() as i64 % 7,
                source: "agent",
                model: "all-MiniLM-L6-v2",
                text: Some(&self.text),
                lineage: None,
                vector: vectors.vector(row),
            };
            writer.push(&record).expect("rows fit");
        }
    }

    fn write_bare_columns(&self, path: &Path) {
        let writer = ColumnsWriter::create(path, &ColumnsMeta::vectors(DIM as u32));
        let mut writer = writer.expect("the folder can be written");
        let vectors = self.vectors.rows();
        for row in vectors.rows() {
            writer.push_vector(vectors.vector(row)).expect("rows fit");
        }
        writer.finish().expect("the file can be mapped");
    }

    fn write_full_columns(&self, path: &Path) {
        let mut writer = ColumnsWriter::create(path, &full_meta()).expect("the folder is there");
        self.push_all(&mut writer);
        writer.finish().expect("the file can be mapped");
    }

    fn write_full_parquet(&self, path: &Path) {
        let mut writer =
            ColumnsWriter::create_parquet(path, &full_meta()).expect("the folder is there");
        self.push_all(&mut writer);
        writer.publish().expect("the file can be published");
    }
}

fn full_meta() -> ColumnsMeta {
    let columns = ColumnSet::Records { text: true, lineage: false };
    ColumnsMeta { columns, synthetic: true, ..ColumnsMeta::vectors(DIM as u32) }
}

fn read_parquet(path: &Path) -> usize {
    let options = CorpusOptions::new(&std::env::temp_dir());
    let corpus = Corpus::open(&[path.into()], &options).expect("the file was written");
    corpus.matrix().len()
}

fn export(criterion: &mut Criterion) {
    let rows = Rows::new(if is_test_run() { 1_000 } else { 200_000 });
    let folder = tempfile::tempdir().expect("there is a folder of temporary files");
    let [bare, full, parquet] = ["bare", "full", "parquet"].map(|name| folder.path().join(name));
    let mut group = criterion.benchmark_group("export");
    group.sample_size(10);
    group.throughput(Throughput::Bytes((rows.ids.len() * DIM * 4) as u64));
    group.bench_function("write bare columns", |bencher| {
        bencher.iter(|| rows.write_bare_columns(&bare));
    });
    group.bench_function("write full columns", |bencher| {
        bencher.iter(|| rows.write_full_columns(&full));
    });
    group.bench_function("write full Parquet", |bencher| {
        bencher.iter(|| rows.write_full_parquet(&parquet));
    });
    rows.write_full_parquet(&parquet);
    group.bench_function("read Parquet vectors", |bencher| {
        bencher.iter(|| read_parquet(&parquet));
    });
    // Opening reads heads, not rows: its time alone is of interest.
    group.throughput(Throughput::Elements(rows.ids.len() as u64));
    rows.write_full_columns(&full);
    group.bench_function("open mapped columns", |bencher| {
        bencher.iter(|| MappedColumns::open(&full).expect("the file was written"));
    });
    group.finish();
}

criterion_group!(benches, export);
criterion_main!(benches);

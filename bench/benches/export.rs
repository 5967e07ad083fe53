//! Writing and opening columns: bytes of vectors per second, on synthetic rows.
//!
//! Files go to the folder of temporary files. "bare" rows are vectors only; "full" rows have every
//! column of an export, with a text of 120 bytes.

use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use memfold_datasets::{
    ColumnRecord, ColumnSet, ColumnsMeta, ColumnsWriter, Corpus, CorpusOptions, MappedColumns,
};

/// Components of a vector, as of small embedding models.
const DIM: usize = 384;

/// Spreads positions over \[−1, 1) (splitmix64).
fn hashed(position: u64) -> f32 {
    let mut bits = position.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((bits ^ (bits >> 31)) >> 40) as f32 / 8_388_608.0 - 1.0
}

/// Ids and vectors of the rows to be written.
struct Rows {
    ids: Vec<String>,
    values: Vec<f32>,
    categories: [Box<str>; 2],
    text: String,
}

impl Rows {
    fn new(count: usize) -> Self {
        Self {
            ids: (0..count).map(|row| format!("stm_{row:012x}")).collect(),
            values: (0..count * DIM).map(|at| hashed(at as u64)).collect(),
            categories: ["decision".into(), "preference".into()],
            text: "word ".repeat(24),
        }
    }

    fn records(&self) -> impl Iterator<Item = ColumnRecord<'_>> {
        let rows = self.ids.iter().zip(self.values.chunks(DIM)).enumerate();
        rows.map(|(row, (id, vector))| ColumnRecord {
            rowid: row as i64,
            id,
            created_at: Some(1_700_000_000_000_000 + row as i64),
            categories: &self.categories,
            importance: 1.0,
            access_count: row as i64 % 7,
            source: "agent",
            model: "all-MiniLM-L6-v2",
            text: Some(&self.text),
            lineage: None,
            vector,
        })
    }

    fn write_bare_columns(&self, path: &Path) {
        let writer = ColumnsWriter::create(path, &ColumnsMeta::vectors(DIM as u32));
        let mut writer = writer.expect("the folder can be written");
        for vector in self.values.chunks(DIM) {
            writer.push_vector(vector).expect("rows fit");
        }
        writer.finish().expect("the file can be mapped");
    }

    fn write_full_columns(&self, path: &Path) {
        let mut writer = ColumnsWriter::create(path, &full_meta()).expect("the folder is there");
        for record in self.records() {
            writer.push(&record).expect("rows fit");
        }
        writer.finish().expect("the file can be mapped");
    }

    fn write_full_parquet(&self, path: &Path) {
        let mut writer =
            ColumnsWriter::create_parquet(path, &full_meta()).expect("the folder is there");
        for record in self.records() {
            writer.push(&record).expect("rows fit");
        }
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
    // `cargo test` runs benchmarks without this argument.
    let is_test = !std::env::args().any(|argument| argument == "--bench");
    let rows = Rows::new(if is_test { 1_000 } else { 200_000 });
    let folder = tempfile::tempdir().expect("there is a folder of temporary files");
    let [bare, full, parquet] = ["bare", "full", "parquet"].map(|name| folder.path().join(name));
    let mut group = criterion.benchmark_group("export");
    group.sample_size(10);
    group.throughput(Throughput::Bytes((rows.values.len() * 4) as u64));
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

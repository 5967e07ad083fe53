//! What a person reads of `memfold bench ann`.

use memfold_pipeline::report::grouped;
use memfold_pipeline::text::excerpt;

use super::HNSW_RS;
use super::figures::AnnFigures;
use crate::args::BenchAnnArgs;
use crate::printer::table;

/// Returns the screen, 80 columns wide.
pub(super) fn screen(args: &BenchAnnArgs, figures: &[AnnFigures]) -> String {
    let Some(first) = figures.first() else { return String::new() };
    let mut text = format!(
        "{} queries, {} vectors × {} from {}\n{}: built in {:.2} s on {}, {:.0} bytes per vector {}\n\n",
        grouped(first.queries),
        grouped(first.rows),
        first.dim,
        excerpt(&args.base.display().to_string(), 30),
        first.method,
        first.build_seconds,
        threads(first.threads),
        first.bytes_per_vector,
        if first.method == HNSW_RS { "with the vector" } else { "beside the vectors" },
    );
    let recall = format!("recall@{}", first.k);
    let header = ["beam", recall.as_str(), "worst", "queries/s", "p50 µs", "p99 µs", "p99.9 µs"];
    text.push_str(&table(&header, figures.iter().map(row).collect()));
    text.push_str("queries/s and latencies on one thread; vectors in memory\n");
    text
}

fn threads(count: u64) -> String {
    if count == 1 { "one thread".to_owned() } else { format!("{count} threads") }
}

fn row(line: &AnnFigures) -> Vec<String> {
    let time = line.latency_us;
    vec![
        line.search_beam_width.map_or_else(|| "–".to_owned(), |width| width.to_string()),
        format!("{:.4}", line.recall_at_k),
        format!("{:.2}", line.recall_min),
        grouped(line.qps_one_thread.round() as u64),
        format!("{:.0}", time.p50),
        format!("{:.0}", time.p99),
        format!("{:.0}", time.p999),
    ]
}

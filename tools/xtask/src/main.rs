//! The project's own checks and chores: `cargo xtask ci | tidy | bless | measure | measure-join | measure-ann | measure-search |
//! measure-check | measure-export | measure-guard | bench-compare | bench-peers | figures | torture`.

mod bench_peers;
mod ci;
mod compare;
mod figures;
mod measure;
mod measure_ann;
mod measure_check;
mod measure_export;
mod measure_guard;
mod measure_join;
mod measure_search;
mod peak;
mod report;
mod results;
mod rows;
mod tidy;
mod torture;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask <command>

  ci     runs everything that must be green before a commit: fmt, clippy, docs, tidy, benches as tests, tests
  tidy   checks the invariants of ARCHITECTURE.md that no compiler checks
  bless  rewrites the generated files and snapshots that tests compare with
  measure [--full]
         times whole runs of `memfold consolidate` and renews bench/results/consolidate.jsonl
  measure-join [--full] [--graph] [--runs N]
         times whole runs of `memfold dedup` on 10,000 to 100,000 rows (--full: to 1,000,000) and the peak of
         the processor, and renews bench/results/join.jsonl; with --graph, runs of `--method graph` beside exact
         ones instead, and renews bench/results/graph-join.jsonl
  measure-ann [--full] [--peers]
         runs `memfold bench ann` over real and 100,000 generated rows (--full: and 1,000,000) and renews
         bench/results/ann.jsonl; with --peers, runs other engines beside it on the generated rows and renews
         bench/results/peers-ann.jsonl
  measure-search [--full]
         times whole runs of `memfold search` on stores of 1,000 to 100,000 memories (--full: and 1,000,000), each
         beside a run of `memfold --version`, and renews bench/results/search.jsonl
  measure-check [--full]
         times checks of memories on stores of 36,000 and 100,000 memories (--full: and 1,000,000), alone and beside four
         writers, and renews bench/results/check.jsonl and docs/plots/check-*.svg
  measure-export [--full]
         times exports of a store of 100,000 memories (--full: and 1,000,000) beside SQLite alone, and conversions of
         the exported file, and renews bench/results/export.jsonl
  measure-guard
         runs `memfold bench guard` over the labelled pairs in $MEMFOLD_DATA/text/*.jsonl and renews
         bench/results/guard.jsonl
  bench-compare [--baseline COMMIT] [--groups a,b] [--filter TEXT] [--rounds N] [--tolerance SHARE]
         measures the criterion groups of this tree and of a commit [HEAD] in turn, three rounds of each, and fails where
         one is slower by more than rounds of the same tree differ, and by more than the tolerance [0.05]
  bench-peers [--full] [--data FILE] [--rows N] [--engines a,b] [--threshold 0.85,0.95] [--threads N]
              [--seconds-max N] [--once]
         times other engines and memfold at the same join, in turn, and renews bench/results/peers-join.jsonl;
         needs python3 with pip for the others
  figures
         writes the stored results into README.md, docs/performance.md, docs/quality.md and docs/plots; whatever measures does so, too
  torture [--full] [--only kill|faults|writers|reader]
         disturbs runs of `memfold consolidate --execute` and `memfold undo` by kills, failing writes, busy locks,
         readers and writers, and renews bench/results/torture.jsonl";

fn main() -> ExitCode {
    let root = root();
    let command = std::env::args().nth(1);
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    let done = match command.as_deref() {
        Some("ci") => ci::run(&root),
        Some("tidy") => tidy::run(&root),
        Some("bless") => ci::bless(&root),
        Some("measure") => measure::run(&root, arguments.iter().any(|a| a == "--full")),
        Some("measure-join") => measure_join::run(&root, &arguments),
        Some("measure-ann") => measure_ann::run(&root, &arguments),
        Some("measure-search") => {
            measure_search::run(&root, arguments.iter().any(|a| a == "--full"))
        }
        Some("measure-check") => measure_check::run(&root, arguments.iter().any(|a| a == "--full")),
        Some("measure-export") => {
            measure_export::run(&root, arguments.iter().any(|a| a == "--full"))
        }
        Some("measure-guard") => measure_guard::run(&root),
        Some("bench-compare") => compare::run(&root, &arguments),
        Some("bench-peers") => bench_peers::run(&root, &arguments),
        Some("figures") => figures::write(&root),
        Some("torture") => torture::run(&root, &arguments),
        _ => {
            report::line(USAGE);
            return ExitCode::from(2);
        }
    };
    if done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn root() -> PathBuf {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    tools.and_then(Path::parent).map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

//! What stands in the blocks of docs/performance.md.

use super::pages::ORIGIN;
use super::rows::{
    best_peers, by_machine, checks, firsts, is_peak, joins, levels, lookups, named_once,
};
use super::table::{Block, Table};

const PERFORMANCE: &str = "docs/performance.md";

pub(super) const BLOCKS: &[Block] = &[
    Block {
        file: PERFORMANCE,
        mark: "figures",
        results: "bench/results/consolidate.jsonl",
        tables: &[Table {
            groups: by_machine,
            heading: "{machine}, {last_run.threads} threads, level {last_run.isa}, \
                      memfold {version}, {last_run.run_id:day}.",
            columns: &[
                ("data", "{data:kind}"),
                ("memories", "{rows:n}"),
                ("runs", "{runs:n}"),
                ("near pairs ≥ 0.95", "{last_run.detected.pairs:n}"),
                ("median s", "{wall_seconds_median:s}"),
                ("fastest to slowest s", "{wall_seconds_min:s} – {wall_seconds_max:s}"),
                ("load", "{last_run.seconds.load:s}"),
                ("join", "{last_run.seconds.join:s}"),
                ("cluster", "{last_run.seconds.cluster:s}"),
                ("plan", "{last_run.seconds.plan:s}"),
                ("anonymous memory", "{last_run.peak_anon_bytes:mib} MiB"),
            ],
        }],
    },
    Block {
        file: PERFORMANCE,
        mark: "figures of join",
        results: "bench/results/join.jsonl",
        tables: &[
            Table { groups: |lines| firsts(joins(lines)), heading: ORIGIN, columns: &[] },
            Table {
                groups: |lines| vec![lines.iter().filter(|l| is_peak(l)).cloned().collect()],
                heading: "Peak in GMAC/s: int8 {int8_one:giga} on one thread and {int8_all:giga} \
                          on {threads}, f32 {f32_one:giga} and {f32_all:giga}; share of the int8 \
                          peak that the sign test reaches on one thread, by dimensions: \
                          {hits_share_of_peak.32:%0} at 32, {hits_share_of_peak.64:%0} at 64, \
                          {hits_share_of_peak.128:%0} at 128.",
                columns: &[],
            },
            Table {
                groups: joins,
                heading: "",
                columns: &[
                    ("data", "{data}"),
                    ("rows", "{rows:n}"),
                    ("threshold", "{threshold:.2}"),
                    ("pairs", "{last_run.pairs:n}"),
                    ("runs", "{runs:n}"),
                    ("median s", "{wall_seconds_median:s}"),
                    ("fastest to slowest s", "{wall_seconds_min:s} – {wall_seconds_max:s}"),
                    ("load", "{last_run.seconds.load:s}"),
                    ("prepare", "{last_run.seconds.prepare:s}"),
                    ("join", "{last_run.seconds.join:s}"),
                    ("cluster", "{last_run.seconds.cluster:s}"),
                    ("first test at peak", "{seconds_at_peak:s}"),
                    ("join ÷ that", "{join_over_peak:.2}"),
                    ("anonymous memory", "{last_run.peak_anon_bytes:mib} MiB"),
                ],
            },
        ],
    },
    Block {
        file: PERFORMANCE,
        mark: "figures of levels",
        results: "bench/results/levels.jsonl",
        tables: &[Table {
            groups: levels,
            heading: "{machine}, memfold {version}, {run:day}.",
            columns: &[
                ("data", "{data}"),
                ("threshold", "{threshold:.2}"),
                ("level", "{level}"),
                ("threads", "{threads}"),
                ("pairs", "{last_run.pairs:n}"),
                ("runs", "{runs:n}"),
                ("median s", "{wall_seconds_median:s}"),
                ("join", "{last_run.seconds.join:s}"),
                ("times the best level's on 2 threads", "{times:.2}"),
            ],
        }],
    },
    Block {
        file: PERFORMANCE,
        mark: "figures of graph joins",
        results: "bench/results/graph-join.jsonl",
        tables: &[Table {
            groups: joins,
            heading: ORIGIN,
            columns: &[
                ("data", "{data}"),
                ("threshold", "{threshold:.2}"),
                ("distinct pairs", "{distinct_pairs_true:n}"),
                ("runs", "{runs:n}"),
                ("median s", "{wall_seconds_median:s}"),
                ("build", "{last_run.seconds.prepare:s}"),
                ("search", "{last_run.seconds.join:s}"),
                ("audit", "{last_run.seconds.audit:s}"),
                ("exact join, median s", "{exact_wall_seconds_median:s}"),
                ("recall", "{pair_recall_true:share}"),
                ("measured", "{last_run.pair_recall.value:share}"),
                (
                    "95 % interval",
                    "{last_run.pair_recall.low:share} – {last_run.pair_recall.high:share}",
                ),
                (
                    "audited rows, pairs",
                    "{last_run.pair_recall.sampled_rows:n}, {last_run.pair_recall.sampled_pairs:n}",
                ),
            ],
        }],
    },
    Block {
        file: PERFORMANCE,
        mark: "figures of peers",
        results: "bench/results/peers-join.jsonl",
        tables: &[Table {
            groups: best_peers,
            heading: "{data}, {rows:n} × {dim}, ≥ {threshold}, {pairs_true:n} pairs, {threads} \
                      threads; {machine}, {run:day}",
            columns: &[
                ("engine", "{engine}"),
                ("setting", "{shown}"),
                ("seconds", "{seconds.total:s}"),
                ("of these to build", "{seconds.build:s}"),
                ("pair recall", "{pair_recall:share}"),
                ("pair precision", "{pair_precision:share}"),
                ("MiB", "{peak_rss_bytes:mib}"),
                ("times memfold's", "{times:.1}"),
            ],
        }],
    },
    Block {
        file: PERFORMANCE,
        mark: "figures of ann",
        results: "bench/results/ann.jsonl",
        tables: &[Table {
            groups: |lines| by_machine(lines).iter().map(|lines| named_once(lines)).collect(),
            heading: "{machine}, memfold {version}, {run:day}.",
            columns: &[
                ("rows", "{name}"),
                ("build, s", "{build:.1}"),
                ("bytes per vector", "{bytes:n}"),
                ("ef_search", "{ef_search:n}"),
                ("recall@k", "{last_run.recall_at_k:.4}"),
                ("queries/s, one thread", "{last_run.qps_one_thread:n}"),
                ("p50 µs", "{last_run.latency_us.p50:n}"),
                ("p99 µs", "{last_run.latency_us.p99:n}"),
            ],
        }],
    },
    Block {
        file: PERFORMANCE,
        mark: "figures of search",
        results: "bench/results/search.jsonl",
        tables: &[Table {
            groups: by_machine,
            heading: "{machine}, memfold {version}, {run:day}; milliseconds, {pairs} pairs each.",
            columns: &[
                ("store", "{data} ({rows:n})"),
                ("tier", "{tier}"),
                ("`search` p50", "{search_us.p50:ms1}"),
                ("p99", "{search_us.p99:ms1}"),
                ("`--version` p50", "{version_us.p50:ms1}"),
                ("p99", "{version_us.p99:ms1}"),
                ("between the two, p50", "{beyond_us.p50:ms1}"),
                ("opening, p50", "{open_us.p50:ms1}"),
                ("without an index", "{unindexed_us:ms1}"),
                ("nothing in memory, p50", "{cold.search_us.p50:ms1}"),
                ("after `index warm`", "{cold.after_warm_us:ms1}"),
            ],
        }],
    },
    Block {
        file: PERFORMANCE,
        mark: "figures of checks",
        results: "bench/results/check.jsonl",
        tables: &[Table {
            groups: checks,
            heading: "{machine}, memfold {version}, {run:day}; milliseconds.",
            columns: &[
                ("store", "{data} ({rows:n})"),
                ("index", "{index}"),
                ("check", "{name}"),
                ("writers, saved", "{beside}"),
                ("p50", "{p50_us:ms2}"),
                ("p99", "{p99_us:ms2}"),
                ("p99.9", "{p999_us:ms2}"),
                ("max", "{max_us:ms2}"),
                ("in full", "{checked} of {count}"),
                ("anonymous memory, MiB", "{anonymous:.1}"),
            ],
        }],
    },
    Block {
        file: PERFORMANCE,
        mark: "figures of exports",
        results: "bench/results/export.jsonl",
        tables: &[Table {
            groups: by_machine,
            heading: "{machine}, memfold {version}, {run:day}; medians.",
            columns: &[
                ("vectors of", "{data} ({rows:n})"),
                ("from", "{from}"),
                ("to", "{to}"),
                ("seconds", "{seconds:s}"),
                ("fastest to slowest", "{fastest_seconds:s} – {slowest_seconds:s}"),
                ("MB/s of f32", "{bytes_per_second:mega}"),
                ("of SQLite's speed", "{of_sqlite:.2}"),
                ("anonymous MiB", "{peak_anon_bytes:mib}"),
            ],
        }],
    },
    Block {
        file: PERFORMANCE,
        mark: "figures of graphs",
        results: "bench/results/peers-ann.jsonl",
        tables: &[Table {
            groups: lookups,
            heading: "{data}, {rows:n} rows, the {k} nearest, {threads} threads to build; \
                      {machine}, {run:day}",
            columns: &[
                ("engine", "{engine}"),
                ("build, s", "{build_seconds:.1}"),
                ("times memfold's", "{times:.1}"),
                ("ef_search with recall ≥ 0.99", "{enough}"),
                ("queries/s, one thread", "{speed:n}"),
                ("memfold's ÷ that", "{slower:.1}"),
                ("bytes per vector", "{bytes_per_vector:n}"),
            ],
        }],
    },
    Block {
        file: PERFORMANCE,
        mark: "figures of incremental runs",
        results: "bench/results/incremental.jsonl",
        tables: &[Table {
            groups: by_machine,
            heading: "{machine}, {threads} threads, level {isa}, memfold {version}, {run:day}.",
            columns: &[
                ("data", "{data}"),
                ("memories", "{rows:n}"),
                ("run", "{mode}"),
                ("changed", "{incremental.changed:n}"),
                ("compared", "{incremental.compared:n}"),
                ("runs", "{runs:n}"),
                ("median s", "{seconds:s}"),
                ("slowest s", "{slowest_seconds:s}"),
                ("load", "{stages.load:s}"),
                ("anonymous memory", "{peak_anon_bytes:mib} MiB"),
            ],
        }],
    },
];

//! What stands in each block.

use super::rows::{
    all, best_peers, checks, curves, each, firsts, having, is_peak, joins, labels, largest,
    likeness, lookups, named_once, of_kind, paraphrases, served,
};
use super::table::{Block, Table};

const PERFORMANCE: &str = "docs/performance.md";

const ORIGIN: &str =
    "{machine}, {last_run.threads} threads, level {last_run.isa}, memfold {version}, {run:day}.";

const STORE_LINE: &str = "* {kind}, {records:n} records, {with_vector:n} with a vector: first pull \
                          {first_pull_seconds:s} s, pull again and plan {seconds:s} s (median of \
                          {runs}); {machine}, {run:day}.";

pub(super) const BLOCKS: &[Block] = &[
    Block {
        file: "README.md",
        mark: "figures",
        results: "bench/results/consolidate.jsonl",
        tables: &[Table {
            groups: all,
            heading: "",
            columns: &[
                ("data", "{data:kind}"),
                ("memories", "{rows:n}"),
                ("near pairs ≥ 0.95", "{last_run.detected.pairs:n}"),
                ("seconds (median)", "{wall_seconds_median:s}"),
                ("anonymous memory", "{last_run.peak_anon_bytes:mib} MiB"),
            ],
        }],
    },
    Block {
        file: "README.md",
        mark: "figures of join",
        results: "bench/results/join.jsonl",
        tables: &[Table {
            groups: |lines| joins(lines).into_iter().map(largest).collect(),
            heading: "",
            columns: &[
                ("data", "{data}"),
                ("vectors", "{rows:n}"),
                ("threshold", "{threshold:.2}"),
                ("near pairs", "{last_run.pairs:n}"),
                ("seconds (median)", "{wall_seconds_median:s}"),
                ("anonymous memory", "{last_run.peak_anon_bytes:mib} MiB"),
            ],
        }],
    },
    Block {
        file: PERFORMANCE,
        mark: "figures",
        results: "bench/results/consolidate.jsonl",
        tables: &[Table {
            groups: all,
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
        file: "docs/scale.md",
        mark: "figures",
        results: "bench/results/tiles.jsonl",
        tables: &[Table {
            groups: joins,
            heading: ORIGIN,
            columns: &[
                ("data", "{data}"),
                ("threshold", "{threshold:.2}"),
                ("pairs", "{last_run.pairs:n}"),
                ("runs", "{runs:n}"),
                ("median s", "{wall_seconds_median:s}"),
                ("prepare", "{last_run.seconds.prepare:s}"),
                ("join", "{last_run.seconds.join:s}"),
                ("in one piece, median s", "{exact_wall_seconds_median:s}"),
                ("tiles", "{last_run.tiles.tiles:n}"),
                ("tasks", "{last_run.tiles.tasks:n} of {last_run.tiles.tasks_total:n}"),
                ("pairs in tasks", "{share_in_tasks:%1}"),
                ("tested", "{share_tested:%1}"),
                ("anonymous memory", "{last_run.peak_anon_bytes:mib} MiB"),
                ("in one piece", "{exact_peak_anon_bytes:mib} MiB"),
            ],
        }],
    },
    Block {
        file: "docs/scale.md",
        mark: "figures of ray",
        results: "bench/results/ray.jsonl",
        tables: &[Table {
            groups: joins,
            heading: "{machine}, Ray {ray}, memfold {version}, {run:day}.",
            columns: &[
                ("data", "{data}"),
                ("threshold", "{threshold:.2}"),
                ("pairs", "{pairs:n}"),
                ("cores", "{cores}"),
                ("seconds", "{wall_seconds:s}"),
                ("plan", "{report.seconds.plan:s}"),
                ("join", "{report.seconds.join:s}"),
                ("merge", "{report.seconds.merge:s}"),
                ("busy", "{efficiency:%1}"),
                ("processor", "{processor_share:%1}"),
                ("busy, whole run", "{efficiency_whole:%1}"),
                ("blocks", "{report.blocks:n}"),
                ("tiles read", "{report.bytes_read:mib} MiB"),
                ("tests saved", "{tests_saved:%1}"),
                ("in one piece, s", "{one_piece_seconds:s}"),
            ],
        }],
    },
    Block {
        file: "docs/python.md",
        mark: "figures of checks",
        results: "bench/results/python-check.jsonl",
        tables: &[Table {
            groups: joins,
            heading: "{machine}, Python {python}, memfold {version}, {run:day}; milliseconds.",
            columns: &[
                ("store", "{data}"),
                ("memories", "{rows:n}"),
                ("p50", "{p50_us:ms2}"),
                ("p99", "{p99_us:ms2}"),
                ("p99.9", "{p999_us:ms2}"),
                ("max", "{max_us:ms2}"),
                ("in full", "{checked:n} of {count:n}"),
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
            groups: |lines| vec![named_once(lines)],
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
            groups: all,
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
        file: "docs/server.md",
        mark: "figures of the server",
        results: "bench/results/server.jsonl",
        tables: &[Table {
            groups: served,
            heading: "{machine}, memfold {version}, {run:day}; milliseconds, and beyond the same in \
                      one process.",
            columns: &[
                ("store", "{data} ({rows:n})"),
                ("index", "{index}"),
                ("what", "{name}"),
                ("writers, saved", "{beside}"),
                ("p50", "{p50_us:ms2}"),
                ("beyond", "{p50_us_beyond:ms2}"),
                ("p99", "{p99_us:ms2}"),
                ("beyond", "{p99_us_beyond:ms2}"),
                ("in full", "{checked} of {count}"),
            ],
        }],
    },
    Block {
        file: PERFORMANCE,
        mark: "figures of exports",
        results: "bench/results/export.jsonl",
        tables: &[Table {
            groups: all,
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
        file: "docs/judging.md",
        mark: "figures of judge",
        results: "bench/results/judge.jsonl",
        tables: &[Table {
            groups: labels,
            heading: "memfold {version}, {run:day}.",
            columns: &[
                ("set", "{data}"),
                ("label", "{label}"),
                ("near pairs", "{pairs:n}"),
                ("merged by proof", "{proven:n}"),
                ("refused by the guard", "{refused_by_guard:n}"),
                ("merged if said", "{merged_if_said:n}"),
                ("if said", "{merged_if_said_share:%2}"),
            ],
        }],
    },
    Block {
        file: "docs/lifecycle.md",
        mark: "figures of lifecycle",
        results: "bench/results/lifecycle.jsonl",
        tables: &[Table {
            groups: all,
            heading: "memfold {version}, {run:day}.",
            columns: &[
                ("store", "{data}"),
                ("live memories", "{memories:n}"),
                ("nights", "{nights:n}"),
                ("changes of tier", "{changes_of_tier:n}"),
                ("nights × important ones below WARM", "{important_below_warm:n}"),
            ],
        }],
    },
    Block {
        file: "docs/recall.md",
        mark: "figures of recall",
        results: "bench/results/recall.jsonl",
        tables: &[Table {
            groups: all,
            heading: "{rows:n} generated memories, {recalls:n} recalls of {k}; {machine}, \
                      memfold {version}, {run:day}.",
            columns: &[
                ("index", "{tier}"),
                ("by", "{by}"),
                ("accesses counted", "{counts}"),
                ("p50 ms", "{p50_us:ms1}"),
                ("p99 ms", "{p99_us:ms1}"),
            ],
        }],
    },
    Block {
        file: "docs/recall.md",
        mark: "figures of temporal",
        results: "bench/results/temporal.jsonl",
        tables: &[Table {
            groups: all,
            heading: "{all.right:n} of {all.count:n} published expressions ({all.percent:.1} %) are \
                      resolved as expected; memfold {version}, {run:day}.",
            columns: &[],
        }],
    },
    Block {
        file: PERFORMANCE,
        mark: "figures of incremental runs",
        results: "bench/results/incremental.jsonl",
        tables: &[Table {
            groups: all,
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
    Block {
        file: "docs/stores.md",
        mark: "figures of stores",
        results: "bench/results/stores.jsonl",
        tables: &[Table {
            groups: all,
            heading: "{machine}, {threads} threads, memfold {version}, {run:day}; one-minute load \
                      {load_average:.1} at the end of the first.",
            columns: &[
                ("store", "{kind}"),
                ("records", "{records:n}"),
                ("with a vector", "{with_vector:n}"),
                ("first pull, s", "{first_pull_seconds:s}"),
                ("runs", "{runs:n}"),
                ("pull again and plan, median s", "{seconds:s}"),
                ("slowest s", "{slowest_seconds:s}"),
                ("first pull + plan, s", "{total_seconds:s}"),
                ("merges planned", "{planned.merge:n}"),
                ("anonymous memory", "{peak_anon_bytes:mib} MiB"),
            ],
        }],
    },
    Block {
        file: "docs/decisions/0065-mirrors.md",
        mark: "figures of stores",
        results: "bench/results/stores.jsonl",
        tables: &[Table { groups: each, heading: STORE_LINE, columns: &[] }],
    },
    Block {
        file: "docs/decisions/0067-git-notes.md",
        mark: "figures of stores",
        results: "bench/results/stores.jsonl",
        tables: &[Table {
            groups: |lines| vec![of_kind(lines, "git_notes")],
            heading: STORE_LINE,
            columns: &[],
        }],
    },
    Block {
        file: "docs/quality.md",
        mark: "figures of guard",
        results: "bench/results/guard.jsonl",
        tables: &[
            Table {
                groups: labels,
                heading: "{machine}, one thread, memfold {version}, {run:day}.",
                columns: &[
                    ("set", "{data}"),
                    ("label", "{label}"),
                    ("pairs", "{pairs:n}"),
                    ("same", "{verdicts.same:n}"),
                    ("extends", "{verdicts.extends:n}"),
                    ("undecided", "{verdicts.undecided:n}"),
                    ("different", "{verdicts.different:n}"),
                    ("contradictory", "{verdicts.contradictory:n}"),
                    ("mergeable", "{mergeable_share:%2}"),
                ],
            },
            Table {
                groups: |lines| vec![having(lines, "last_run.labels")],
                heading: "",
                columns: &[
                    ("set", "{data}"),
                    ("pairs", "{last_run.pairs:n}"),
                    ("µs per pair, median", "{last_run.microseconds_per_pair.median:.1}"),
                    ("mean", "{last_run.microseconds_per_pair.mean:.1}"),
                    ("threshold", "{last_run.contradiction.in_use.threshold:.3}"),
                    ("precision", "{last_run.contradiction.in_use.precision:.3}"),
                    ("recall", "{last_run.contradiction.in_use.recall:.3}"),
                    ("F1", "{last_run.contradiction.in_use.f1:.3}"),
                    ("best threshold", "{last_run.contradiction.best.threshold:.3}"),
                    ("best F1", "{last_run.contradiction.best.f1:.3}"),
                ],
            },
            Table {
                groups: paraphrases,
                heading: "",
                columns: &[
                    ("set", "{data}"),
                    ("people say the same", "{last_run.same:n}"),
                    ("linked", "{same_linked:%1}"),
                    ("without words of their own on both sides", "{last_run.one_sided:n}"),
                    ("linked", "{one_sided_linked:%1}"),
                    ("every word of a in b", "{last_run.carried:n}"),
                    ("mergeable", "{carried_mergeable:%1}"),
                ],
            },
            Table {
                groups: |lines| vec![having(lines, "last_run.memories")],
                heading: "",
                columns: &[
                    ("store", "{data} ≥ {last_run.threshold}"),
                    ("memories", "{last_run.memories:n}"),
                    ("pairs", "{last_run.pairs:n}"),
                    ("same", "{last_run.verdicts.same:n}"),
                    ("extends", "{last_run.verdicts.extends:n}"),
                    ("undecided", "{last_run.verdicts.undecided:n}"),
                    ("different", "{last_run.verdicts.different:n}"),
                    ("contradictory", "{last_run.verdicts.contradictory:n}"),
                    ("flagged", "{last_run.flags:n}"),
                    ("deferred", "{last_run.flags_deferred:n}"),
                ],
            },
            Table {
                groups: |lines| vec![having(lines, "last_run.criterion_median_microseconds")],
                heading: "",
                columns: &[
                    ("texts of about 100 characters", "{data}"),
                    ("µs, median", "{last_run.criterion_median_microseconds:.1}"),
                ],
            },
            Table {
                groups: |lines| curves(lines).into_iter().map(|line| vec![line]).collect(),
                heading: "![Precision, recall and F1 of contradiction on {data}](plots/{file})",
                columns: &[],
            },
        ],
    },
    Block {
        file: "docs/generate.md",
        mark: "figures of likeness",
        results: "bench/results/like.jsonl",
        tables: &[Table {
            groups: likeness,
            heading: "{real_rows:n} real rows of {dim} dimensions ({data}), memfold {version}, \
                      {run:day}; *synthetic* rows are generated.",
            columns: &[
                ("", "{figure}"),
                ("real", "{real:x}"),
                ("36,000 synthetic", "{36000:x}"),
                ("144,000 synthetic", "{144000:x}"),
            ],
        }],
    },
];

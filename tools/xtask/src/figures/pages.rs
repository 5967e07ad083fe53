//! What stands in each block, but those of docs/performance.md.

use super::rows::{
    all, by_machine, curves, each, having, joins, labels, largest, likeness, of_kind, paraphrases,
    served,
};
use super::table::{Block, Table};

pub(super) const ORIGIN: &str =
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
                ("anonymous MiB", "{last_run.peak_anon_bytes:mib}"),
                ("in one piece", "{exact_peak_anon_bytes:mib}"),
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
        file: "docs/server.md",
        mark: "figures of the soak",
        results: "bench/results/soak.jsonl",
        tables: &[Table {
            groups: all,
            heading: "{memories:n} memories at first, development build, memfold {version}.",
            columns: &[
                ("machine, day", "{machine}, {run:day}"),
                ("seconds", "{seconds:n}"),
                ("requests", "{requests:n}"),
                ("of these over a second late", "{late:n}"),
                ("refused with 429", "{refused:n}"),
                ("other errors", "{errors:n}"),
                ("runs, undone", "{runs:n}, {undone:n}"),
                ("saved, lost", "{saved:n}, {lost:n}"),
                ("anonymous MiB after the middle", "{anonymous_mib.middle:.0}"),
                ("at the end", "{anonymous_mib.last:.0}"),
                ("at most", "{anonymous_mib.most:.0}"),
                ("MiB of log at most", "{log_mib_most:.0}"),
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
        file: "docs/stores.md",
        mark: "figures of stores",
        results: "bench/results/stores.jsonl",
        tables: &[Table {
            groups: by_machine,
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

"""Tables of the documents, made of the stored results; ``measure.py figures`` writes them.

A block between two marks of a page belongs to one file of results. A heading or a cell is a template: ``{path}`` stands for
what a line holds there, ``{path:format}`` for the same in a format; a path goes through objects and lists by dots.

Formats: ``n`` whole with commas, ``s`` seconds, ``.2`` decimals, ``%1`` percent, ``share`` five decimals and never rounded up,
``ms1`` microseconds as milliseconds, ``mib`` bytes as mebibytes, ``mega`` and ``giga``, ``day`` of a time, ``kind`` of a name (what
stands before the first ``-``). A text stays as it is in a format of numbers; what is missing is ``–``.
"""

import json
import math
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# A rival that finds less than this share of pairs or neighbours is shown, but not counted.
RECALL_MIN = 0.99
PEERS_SHOWN = ["real-36k", "synthetic-like-real-100k", "synthetic-1m"]
WIDTHS_SHOWN = [None, 16, 32, 64, 128, 192]


def read(name):
    """Returns the stored lines of a measurement."""
    path = ROOT / "bench/results" / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()] if path.exists() else []


def at(line, path):
    for step in path.split("."):
        if isinstance(line, list):
            line = line[int(step)] if step.isdigit() and int(step) < len(line) else None
        else:
            line = line.get(step) if isinstance(line, dict) else None
    return line


def filled(template, line):
    return re.sub(r"\{([^}:]*):?([^}]*)\}", lambda field: formatted(at(line, field[1]), field[2]), template)


def formatted(value, form):
    if value is None:
        return "–"
    if isinstance(value, str):
        day = f"{value[:4]}-{value[4:6]}-{value[6:8]}" if value[4:5] != "-" else value[:10]
        return {"day": day, "kind": value.split("-")[0]}.get(form, value)
    if isinstance(value, (bool, list, dict)) or form in ("", "day", "kind", "x"):
        return json.dumps(value)
    if form.startswith((".", "%", "ms")):
        digits = int(re.search(r"\d+", form)[0])
        value, end = {".": (value, ""), "%": (value * 100, " %"), "m": (value / 1e3, "")}[form[0]]
        return f"{value:.{digits}f}{end}"
    if form == "s":
        digits = 4 if value < 0.1 else 3 if value < 1 else 2 if value < 10 else 1
        return f"{value:.{digits}f}"
    return {
        "n": lambda: f"{math.floor(value + 0.5):,}",
        "share": lambda: f"{math.floor(value * 1e5 + 1e-6) / 1e5:.5f}",
        "mib": lambda: str(math.ceil(value / (1 << 20))),
        "mega": lambda: f"{value / 1e6:.0f}",
        "giga": lambda: f"{value / 1e9:.0f}",
    }[form]()


# Which lines stand in a table, in which order, with what is derived: a list of groups, a table for each.


def grouped(lines, *keys):
    groups = {}
    for line in lines:
        groups.setdefault(json.dumps([line.get(key) for key in keys]), []).append(line)
    return list(groups.values())


def all_lines(lines):
    return [lines]


def each(lines):
    return [[line] for line in lines]


def by_machine(lines):
    return grouped(lines, "machine")


def having(path):
    return lambda lines: [[line for line in lines if at(line, path) is not None]]


def is_peak(line):
    return line.get("what") == "peak"


def joins(lines):
    return by_machine(sorted((line for line in lines if not is_peak(line)), key=lambda line: line["rows"]))


def largest(lines):
    most = max(line["rows"] for line in lines)
    return [line for line in lines if line["rows"] == most]


def ratio(part, whole):
    return part / whole if part is not None and whole else None


def levels(lines):
    """Joins at several levels, with how many times the first of the same work they take."""
    best = {}
    for line in lines:
        best.setdefault((line["machine"], line["data"], line["threshold"]), line["wall_seconds_median"])
    times = lambda line: ratio(line["wall_seconds_median"], best[line["machine"], line["data"], line["threshold"]])
    return by_machine([{**line, "times": times(line)} for line in lines])


def named_once(lines):
    """Names each set of rows, and what is the same for all its search widths, once."""
    rows, last = [], None
    for line in (line for line in lines if line["ef_search"] in WIDTHS_SHOWN):
        run, is_first, last = line["last_run"], line["data"] != last, line["data"]
        name = filled("{data} ({last_run.rows:n} × {last_run.dim})", line)
        once = {"name": name, "build": run.get("build_seconds"), "bytes": run.get("bytes_per_vector")}
        rows.append({**line, **(once if is_first else dict.fromkeys(once, ""))})
    return rows


def beside(line):
    return "–" if line["writers"] == 0 else filled("{writers}, {saved}", line)


def checks(lines):
    rows = []
    for line in lines:
        name = {"in_process": "in process", "process": "whole process"}.get(line["mode"])
        if name is None:
            continue
        cold = ", nothing in memory" if line.get("cold") is True else ""
        peak = line.get("peak_anon_bytes") if line["mode"] == "in_process" else None
        anonymous = "" if peak is None else peak / (1 << 20)
        rows.append({**line, "name": name + cold, "beside": beside(line), "anonymous": anonymous})
    return by_machine(rows)


def served(lines):
    names = {"in_process": "check in process", "http": "check over HTTP", "mcp": "check over MCP, without a vector",
             "in_process_save": "save in process"}
    return by_machine([
        {**line, "name": names.get(line["mode"], "save over HTTP"), "beside": beside(line)} for line in lines
    ])


def labels(lines):
    return [[{**line, **label} for line in lines for label in line["last_run"].get("labels") or []]]


def paraphrases(lines):
    """Linked paraphrases, counted by a script of its own."""
    rows = []
    for line in lines:
        run = line["last_run"]
        if "one_sided" in run:
            rows.append({**line, "same_linked": ratio(run["same_linked"], run["same"]),
                         "one_sided_linked": ratio(run["one_sided_linked"], run["one_sided"]),
                         "carried_mergeable": ratio(run["carried_mergeable"], run["carried"])})
    return [rows]


def curves(lines):
    file = lambda line: f"guard-{line['data']}.svg".replace("_", "-")
    return [[{**line, "file": file(line)}] for line in lines if line["last_run"].get("contradiction") is not None]


def total(line):
    seconds = at(line, "seconds.total")
    return seconds if isinstance(seconds, (int, float)) else None


def setting(line):
    """Returns what tells an engine's settings apart."""
    shown = {"process": "process", "nprobe": "nprobe {setting.nprobe}", "dtype": "{setting.dtype}",
             "top_k": "top_k {setting.top_k}", "num_leaves_to_search": "leaves {setting.num_leaves_to_search}",
             "ef": "ef {setting.ef}"}
    known = [template for key, template in shown.items() if (line.get("setting") or {}).get(key) is not None]
    return filled(known[0], line) if known else ""


def finds_enough(line, share):
    return (line.get(share) or 0) >= RECALL_MIN


def peers(lines):
    """Engines at the same join, the fastest first, and memfold as a whole process, which loads and clusters too, as one more."""
    process = [
        {**line, "setting": {"process": True}, "seconds": {**line["seconds"], "total": line["notes"]["process_seconds"]}}
        for line in lines if at(line, "notes.process_seconds") is not None
    ]
    shown = []
    for group in grouped(lines + process, "machine", "data", "threshold"):
        group.sort(key=lambda line: math.inf if total(line) is None else total(line))
        ours = {}
        for line in group:
            if line["engine"] == "memfold" and line.get("setting") == {}:
                ours.setdefault(line["run"], total(line))
        shown.append([
            {**line, "shown": setting(line), "times": ratio(total(line), ours.get(line["run"])),
             "seconds": line["seconds"] if total(line) is not None else {"total": line.get("outcome")}}
            for line in group
        ])
    return sorted(shown, key=lambda group: (group[0]["rows"], group[0]["data"]))


def best_peers(lines):
    """Each engine's fastest line that finds enough pairs, or its first where none does."""
    shown = []
    for group in (group for group in peers(lines) if group[0]["data"] in PEERS_SHOWN):
        enough = {line["engine"] for line in group if finds_enough(line, "pair_recall")}
        rows, seen = [], set()
        for line in group:
            key = (line["engine"], (line.get("setting") or {}).get("process") is True)
            if key not in seen and (finds_enough(line, "pair_recall") or line["engine"] not in enough):
                seen.add(key)
                rows.append(line)
        shown.append(rows)
    return shown


def lookups(lines):
    """Engines at the same lookups, memfold first, each with the first ``ef_search`` that finds enough; compared with memfold where
    both were measured in one run."""
    groups = []
    for set_of_rows in grouped(lines, "machine", "data"):
        engines = sorted(grouped(set_of_rows, "engine"), key=lambda engine: engine[0]["engine"] != "memfold")
        enough = [next((line for line in engine if finds_enough(line, "recall_at_k")), None) for engine in engines]
        ours, rows = engines[0][0], []
        for engine, found in zip(engines, enough):
            first = engine[0]
            if first.get("build_seconds") is None:
                shown = filled("{outcome}", first)
            elif found is None:
                shown = f"none: {max((line.get('recall_at_k') or 0) for line in engine):.4f} at most"
            else:
                shown = "every row (1)" if found.get("ef_search") is None else filled("{ef_search} ({recall_at_k:.4})", found)
            speed = found and found["qps_one_thread"]
            is_same_run = first["run"] == ours["run"]
            rows.append({
                **first, "enough": shown, "speed": speed,
                "times": ratio(first.get("build_seconds"), ours.get("build_seconds")) if is_same_run else None,
                "slower": ratio(enough[0] and enough[0]["qps_one_thread"], speed) if is_same_run else None,
            })
        groups.append(rows)
    return groups


def likeness(lines):
    """A row for each figure: of the real rows, and of those generated like them, by their number."""
    def prepared(of):
        sizes = lambda group: group.get("group_sizes") or [{"rows": 1}]
        return {**of, "explained": {str(count): sum(of["spectrum"][:count]) for count in (1, 16, 64)},
                "duplicates": [{**group, "largest": sizes(group)[-1]["rows"]} for group in of["duplicates"]]}

    quantiles = lambda of: f"{{{of}.2:.3}}, {{{of}.7:.3}}, {{{of}.12:.3}}"
    names = {"length of the mean": "{mean_norm:.3}"}
    names |= {f"variance along {count} directions": f"{{explained.{count}:.3}}" for count in (1, 16, 64)}
    names |= {f"similarity to neighbor {rank}: 5 %, median, 95 %": quantiles(f"neighbors.{place}.quantiles")
              for place, rank in enumerate((1, 10, 100))}
    names |= {"similarity of random rows: 5 %, median, 95 %": quantiles("strangers")}
    names |= {f"rows in groups at {threshold}; largest group":
              f"{{duplicates.{place}.share:.3}}; {{duplicates.{place}.largest}}"
              for place, threshold in enumerate(("0.85", "0.92", "0.95"))}
    if not lines:
        return []
    real = prepared(lines[0]["real"])
    return [[{**lines[0], "figure": name, "real": filled(template, real), "real_rows": real["rows"], "dim": real["dim"],
              **{str(line["rows"]): filled(template, prepared(line["synthetic"])) for line in lines}}
             for name, template in names.items()]]


ORIGIN = "{machine}, {last_run.threads} threads, level {last_run.isa}, memfold {version}, {run:day}."
STORE_LINE = ("* {kind}, {records:n} records, {with_vector:n} with a vector: first pull {first_pull_seconds:s} s, pull again and "
              "plan {seconds:s} s (median of {runs}); {machine}, {run:day}.")

# Page, mark, results, and the tables: groups, heading, columns.
BLOCKS = [
    ("README.md", "figures", "consolidate", [
        (all_lines, "", [
            ("data", "{data:kind}"), ("memories", "{rows:n}"), ("near pairs", "{last_run.detected.pairs:n}"),
            ("seconds (median)", "{wall_seconds_median:s}"), ("anonymous memory", "{last_run.peak_anon_bytes:mib} MiB"),
        ]),
    ]),
    ("README.md", "figures of join", "join", [
        (lambda lines: [largest(group) for group in joins(lines)], "", [
            ("data", "{data}"), ("vectors", "{rows:n}"), ("threshold", "{threshold:.2}"), ("near pairs", "{last_run.pairs:n}"),
            ("seconds (median)", "{wall_seconds_median:s}"), ("anonymous memory", "{last_run.peak_anon_bytes:mib} MiB"),
        ]),
    ]),
    ("docs/scale.md", "figures", "tiles", [
        (joins, ORIGIN, [
            ("data", "{data}"), ("threshold", "{threshold:.2}"), ("pairs", "{last_run.pairs:n}"), ("runs", "{runs:n}"),
            ("median s", "{wall_seconds_median:s}"), ("prepare", "{last_run.seconds.prepare:s}"),
            ("join", "{last_run.seconds.join:s}"), ("in one piece, median s", "{exact_wall_seconds_median:s}"),
            ("tiles", "{last_run.tiles.tiles:n}"), ("tasks", "{last_run.tiles.tasks:n} of {last_run.tiles.tasks_total:n}"),
            ("pairs in tasks", "{share_in_tasks:%1}"), ("tested", "{share_tested:%1}"),
            ("anonymous MiB", "{last_run.peak_anon_bytes:mib}"), ("in one piece", "{exact_peak_anon_bytes:mib}"),
        ]),
    ]),
    ("docs/scale.md", "figures of ray", "ray", [
        (joins, "{machine}, Ray {ray}, memfold {version}, {run:day}.", [
            ("data", "{data}"), ("threshold", "{threshold:.2}"), ("pairs", "{pairs:n}"), ("cores", "{cores}"),
            ("seconds", "{wall_seconds:s}"), ("plan", "{report.seconds.plan:s}"), ("join", "{report.seconds.join:s}"),
            ("merge", "{report.seconds.merge:s}"), ("busy", "{efficiency:%1}"), ("processor", "{processor_share:%1}"),
            ("busy, whole run", "{efficiency_whole:%1}"), ("blocks", "{report.blocks:n}"),
            ("tiles read", "{report.bytes_read:mib} MiB"), ("tests saved", "{tests_saved:%1}"),
            ("in one piece, s", "{one_piece_seconds:s}"),
        ]),
    ]),
    ("docs/python.md", "figures of checks", "python-check", [
        (joins, "{machine}, Python {python}, memfold {version}, {run:day}; milliseconds.", [
            ("store", "{data}"), ("memories", "{rows:n}"), ("p50", "{p50_us:ms2}"), ("p99", "{p99_us:ms2}"),
            ("p99.9", "{p999_us:ms2}"), ("max", "{max_us:ms2}"), ("in full", "{checked:n} of {count:n}"),
        ]),
    ]),
    ("docs/server.md", "figures of the server", "server", [
        (served, "{machine}, memfold {version}, {run:day}; milliseconds, and beyond the same in one process.", [
            ("store", "{data} ({rows:n})"), ("index", "{index}"), ("what", "{name}"), ("writers, saved", "{beside}"),
            ("p50", "{p50_us:ms2}"), ("beyond", "{p50_us_beyond:ms2}"), ("p99", "{p99_us:ms2}"),
            ("beyond", "{p99_us_beyond:ms2}"), ("in full", "{checked} of {count}"),
        ]),
    ]),
    ("docs/server.md", "figures of the soak", "soak", [
        (all_lines, "{memories:n} memories at first, development build, memfold {version}.", [
            ("machine, day", "{machine}, {run:day}"), ("seconds", "{seconds:n}"), ("requests", "{requests:n}"),
            ("of these over a second late", "{late:n}"), ("refused with 429", "{refused:n}"), ("other errors", "{errors:n}"),
            ("runs, undone", "{runs:n}, {undone:n}"), ("saved, lost", "{saved:n}, {lost:n}"),
            ("anonymous MiB after the middle", "{anonymous_mib.middle:.0}"), ("at the end", "{anonymous_mib.last:.0}"),
            ("at most", "{anonymous_mib.most:.0}"), ("MiB of log at most", "{log_mib_most:.0}"),
        ]),
    ]),
    ("docs/judging.md", "figures of judge", "judge", [
        (labels, "memfold {version}, {run:day}.", [
            ("set", "{data}"), ("label", "{label}"), ("near pairs", "{pairs:n}"), ("merged by proof", "{proven:n}"),
            ("refused by the guard", "{refused_by_guard:n}"), ("merged if said", "{merged_if_said:n}"),
            ("if said", "{merged_if_said_share:%2}"),
        ]),
    ]),
    ("docs/lifecycle.md", "figures of lifecycle", "lifecycle", [
        (all_lines, "memfold {version}, {run:day}.", [
            ("store", "{data}"), ("live memories", "{memories:n}"), ("nights", "{nights:n}"),
            ("changes of tier", "{changes_of_tier:n}"), ("nights × important ones below WARM", "{important_below_warm:n}"),
        ]),
    ]),
    ("docs/recall.md", "figures of recall", "recall", [
        (all_lines, "{rows:n} generated memories, {recalls:n} recalls of {k}; {machine}, memfold {version}, {run:day}.", [
            ("index", "{tier}"), ("by", "{by}"), ("accesses counted", "{counts}"), ("p50 ms", "{p50_us:ms1}"),
            ("p99 ms", "{p99_us:ms1}"),
        ]),
    ]),
    ("docs/recall.md", "figures of temporal", "temporal", [
        (all_lines,
         "{all.right:n} of {all.count:n} published expressions ({all.percent:.1} %) are resolved as expected; "
         "memfold {version}, {run:day}.", []),
    ]),
    ("docs/stores.md", "figures of stores", "stores", [
        (by_machine,
         "{machine}, {threads} threads, memfold {version}, {run:day}; one-minute load {load_average:.1} at the end "
         "of the first.", [
            ("store", "{kind}"), ("records", "{records:n}"), ("with a vector", "{with_vector:n}"),
            ("first pull, s", "{first_pull_seconds:s}"), ("runs", "{runs:n}"),
            ("pull again and plan, median s", "{seconds:s}"), ("slowest s", "{slowest_seconds:s}"),
            ("first pull + plan, s", "{total_seconds:s}"), ("merges planned", "{planned.merge:n}"),
            ("anonymous memory", "{peak_anon_bytes:mib} MiB"),
        ]),
    ]),
    ("docs/decisions/0065-mirrors.md", "figures of stores", "stores", [
        (each, STORE_LINE, []),
    ]),
    ("docs/decisions/0067-git-notes.md", "figures of stores", "stores", [
        (lambda lines: [[line for line in lines if line["kind"] == "git_notes"]], STORE_LINE, []),
    ]),
    ("docs/quality.md", "figures of guard", "guard", [
        (labels, "{machine}, one thread, memfold {version}, {run:day}.", [
            ("set", "{data}"), ("label", "{label}"), ("pairs", "{pairs:n}"), ("same", "{verdicts.same:n}"),
            ("extends", "{verdicts.extends:n}"), ("undecided", "{verdicts.undecided:n}"),
            ("different", "{verdicts.different:n}"), ("contradictory", "{verdicts.contradictory:n}"),
            ("mergeable", "{mergeable_share:%2}"),
        ]),
        (having("last_run.labels"), "", [
            ("set", "{data}"), ("pairs", "{last_run.pairs:n}"),
            ("µs per pair, median", "{last_run.microseconds_per_pair.median:.1}"),
            ("mean", "{last_run.microseconds_per_pair.mean:.1}"),
            ("threshold", "{last_run.contradiction.in_use.threshold:.3}"),
            ("precision", "{last_run.contradiction.in_use.precision:.3}"),
            ("recall", "{last_run.contradiction.in_use.recall:.3}"), ("F1", "{last_run.contradiction.in_use.f1:.3}"),
            ("best threshold", "{last_run.contradiction.best.threshold:.3}"),
            ("best F1", "{last_run.contradiction.best.f1:.3}"),
        ]),
        (paraphrases, "", [
            ("set", "{data}"), ("people say the same", "{last_run.same:n}"), ("linked", "{same_linked:%1}"),
            ("without words of their own on both sides", "{last_run.one_sided:n}"), ("linked", "{one_sided_linked:%1}"),
            ("every word of a in b", "{last_run.carried:n}"), ("mergeable", "{carried_mergeable:%1}"),
        ]),
        (having("last_run.memories"), "", [
            ("store", "{data} ≥ {last_run.threshold}"), ("memories", "{last_run.memories:n}"), ("pairs", "{last_run.pairs:n}"),
            ("same", "{last_run.verdicts.same:n}"), ("extends", "{last_run.verdicts.extends:n}"),
            ("undecided", "{last_run.verdicts.undecided:n}"), ("different", "{last_run.verdicts.different:n}"),
            ("contradictory", "{last_run.verdicts.contradictory:n}"), ("flagged", "{last_run.flags:n}"),
            ("deferred", "{last_run.flags_deferred:n}"),
        ]),
        (having("last_run.criterion_median_microseconds"), "", [
            ("texts of about 100 characters", "{data}"), ("µs, median", "{last_run.criterion_median_microseconds:.1}"),
        ]),
        (curves, "![Precision, recall and F1 of contradiction on {data}](plots/{file})", []),
    ]),
    ("docs/generate.md", "figures of likeness", "like", [
        (likeness,
         "{real_rows:n} real rows of {dim} dimensions ({data}), memfold {version}, {run:day}; *synthetic* rows are "
         "generated.", [
            ("", "{figure}"), ("real", "{real:x}"), ("36,000 synthetic", "{36000:x}"), ("144,000 synthetic", "{144000:x}"),
        ]),
    ]),
    ("docs/performance.md", "figures", "consolidate", [
        (by_machine,
         "{machine}, {last_run.threads} threads, level {last_run.isa}, memfold {version}, {last_run.run_id:day}.", [
            ("data", "{data:kind}"), ("memories", "{rows:n}"), ("runs", "{runs:n}"),
            ("near pairs", "{last_run.detected.pairs:n}"), ("median s", "{wall_seconds_median:s}"),
            ("fastest to slowest s", "{wall_seconds_min:s} – {wall_seconds_max:s}"), ("load", "{last_run.seconds.load:s}"),
            ("join", "{last_run.seconds.join:s}"), ("cluster", "{last_run.seconds.cluster:s}"),
            ("plan", "{last_run.seconds.plan:s}"), ("anonymous memory", "{last_run.peak_anon_bytes:mib} MiB"),
        ]),
    ]),
    ("docs/performance.md", "figures of join", "join", [
        (lambda lines: [group[:1] for group in joins(lines)], ORIGIN, []),
        (lambda lines: [[line for line in lines if is_peak(line)]],
         "Peak in GMAC/s: int8 {int8_one:giga} on one thread and {int8_all:giga} on {threads}, f32 {f32_one:giga} "
         "and {f32_all:giga}; share of the int8 peak that the sign test reaches on one thread, by dimensions: "
         "{hits_share_of_peak.32:%0} at 32, {hits_share_of_peak.64:%0} at 64, {hits_share_of_peak.128:%0} at 128.", []),
        (joins, "", [
            ("data", "{data}"), ("rows", "{rows:n}"), ("threshold", "{threshold:.2}"), ("pairs", "{last_run.pairs:n}"),
            ("runs", "{runs:n}"), ("median s", "{wall_seconds_median:s}"),
            ("fastest to slowest s", "{wall_seconds_min:s} – {wall_seconds_max:s}"), ("load", "{last_run.seconds.load:s}"),
            ("prepare", "{last_run.seconds.prepare:s}"), ("join", "{last_run.seconds.join:s}"),
            ("cluster", "{last_run.seconds.cluster:s}"), ("first test at peak", "{seconds_at_peak:s}"),
            ("join ÷ that", "{join_over_peak:.2}"), ("anonymous memory", "{last_run.peak_anon_bytes:mib} MiB"),
        ]),
    ]),
    ("docs/performance.md", "figures of levels", "levels", [
        (levels, "{machine}, memfold {version}, {run:day}.", [
            ("data", "{data}"), ("threshold", "{threshold:.2}"), ("level", "{level}"), ("threads", "{threads}"),
            ("pairs", "{last_run.pairs:n}"), ("runs", "{runs:n}"), ("median s", "{wall_seconds_median:s}"),
            ("join", "{last_run.seconds.join:s}"), ("times the best level's on 2 threads", "{times:.2}"),
        ]),
    ]),
    ("docs/performance.md", "figures of graph joins", "graph-join", [
        (joins, ORIGIN, [
            ("data", "{data}"), ("threshold", "{threshold:.2}"), ("distinct pairs", "{distinct_pairs_true:n}"),
            ("runs", "{runs:n}"), ("median s", "{wall_seconds_median:s}"), ("build", "{last_run.seconds.prepare:s}"),
            ("search", "{last_run.seconds.join:s}"), ("audit", "{last_run.seconds.audit:s}"),
            ("exact join, median s", "{exact_wall_seconds_median:s}"), ("recall", "{pair_recall_true:share}"),
            ("measured", "{last_run.pair_recall.value:share}"),
            ("95 % interval", "{last_run.pair_recall.low:share} – {last_run.pair_recall.high:share}"),
            ("audited rows, pairs", "{last_run.pair_recall.sampled_rows:n}, {last_run.pair_recall.sampled_pairs:n}"),
        ]),
    ]),
    ("docs/performance.md", "figures of peers", "peers-join", [
        (best_peers,
         "{data}, {rows:n} × {dim}, ≥ {threshold}, {pairs_true:n} pairs, {threads} threads; {machine}, {run:day}", [
            ("engine", "{engine}"), ("setting", "{shown}"), ("seconds", "{seconds.total:s}"),
            ("of these to build", "{seconds.build:s}"), ("pair recall", "{pair_recall:share}"),
            ("pair precision", "{pair_precision:share}"), ("MiB", "{peak_rss_bytes:mib}"), ("times memfold's", "{times:.1}"),
        ]),
    ]),
    ("docs/performance.md", "figures of ann", "ann", [
        (lambda lines: [named_once(group) for group in by_machine(lines)], "{machine}, memfold {version}, {run:day}.", [
            ("rows", "{name}"), ("build, s", "{build:.1}"), ("bytes per vector", "{bytes:n}"), ("ef_search", "{ef_search:n}"),
            ("recall@k", "{last_run.recall_at_k:.4}"), ("queries/s, one thread", "{last_run.qps_one_thread:n}"),
            ("p50 µs", "{last_run.latency_us.p50:n}"), ("p99 µs", "{last_run.latency_us.p99:n}"),
        ]),
    ]),
    ("docs/performance.md", "figures of search", "search", [
        (by_machine, "{machine}, memfold {version}, {run:day}; milliseconds, {pairs} pairs each.", [
            ("store", "{data} ({rows:n})"), ("tier", "{tier}"), ("`search` p50", "{search_us.p50:ms1}"),
            ("p99", "{search_us.p99:ms1}"), ("`--version` p50", "{version_us.p50:ms1}"), ("p99", "{version_us.p99:ms1}"),
            ("between the two, p50", "{beyond_us.p50:ms1}"), ("opening, p50", "{open_us.p50:ms1}"),
            ("without an index", "{unindexed_us:ms1}"), ("nothing in memory, p50", "{cold.search_us.p50:ms1}"),
            ("after `index warm`", "{cold.after_warm_us:ms1}"),
        ]),
    ]),
    ("docs/performance.md", "figures of checks", "check", [
        (checks, "{machine}, memfold {version}, {run:day}; milliseconds.", [
            ("store", "{data} ({rows:n})"), ("index", "{index}"), ("check", "{name}"), ("writers, saved", "{beside}"),
            ("p50", "{p50_us:ms2}"), ("p99", "{p99_us:ms2}"), ("p99.9", "{p999_us:ms2}"), ("max", "{max_us:ms2}"),
            ("in full", "{checked} of {count}"), ("anonymous memory, MiB", "{anonymous:.1}"),
        ]),
    ]),
    ("docs/performance.md", "figures of exports", "export", [
        (by_machine, "{machine}, memfold {version}, {run:day}; medians.", [
            ("vectors of", "{data} ({rows:n})"), ("from", "{from}"), ("to", "{to}"), ("seconds", "{seconds:s}"),
            ("fastest to slowest", "{fastest_seconds:s} – {slowest_seconds:s}"), ("MB/s of f32", "{bytes_per_second:mega}"),
            ("of SQLite's speed", "{of_sqlite:.2}"), ("anonymous MiB", "{peak_anon_bytes:mib}"),
        ]),
    ]),
    ("docs/performance.md", "figures of graphs", "peers-ann", [
        (lookups, "{data}, {rows:n} rows, the {k} nearest, {threads} threads to build; {machine}, {run:day}", [
            ("engine", "{engine}"), ("build, s", "{build_seconds:.1}"), ("times memfold's", "{times:.1}"),
            ("ef_search with recall ≥ 0.99", "{enough}"), ("queries/s, one thread", "{speed:n}"),
            ("memfold's ÷ that", "{slower:.1}"), ("bytes per vector", "{bytes_per_vector:n}"),
        ]),
    ]),
    ("docs/performance.md", "figures of incremental runs", "incremental", [
        (by_machine, "{machine}, {threads} threads, level {isa}, memfold {version}, {run:day}.", [
            ("data", "{data}"), ("memories", "{rows:n}"), ("run", "{mode}"), ("changed", "{incremental.changed:n}"),
            ("compared", "{incremental.compared:n}"), ("runs", "{runs:n}"), ("median s", "{seconds:s}"),
            ("slowest s", "{slowest_seconds:s}"), ("load", "{stages.load:s}"),
            ("anonymous memory", "{peak_anon_bytes:mib} MiB"),
        ]),
    ]),
]


def table(heading, columns, rows):
    text = filled(heading, rows[0])
    parts = [text + "\n"] if text else []
    if columns:
        is_number = lambda cell: re.match(r"\{[^}:]*:(?!kind\})", cell)
        rules = "".join("---:|" if is_number(cell) else "---|" for _, cell in columns)
        row = lambda cells: f"| {' | '.join(cells)} |\n"
        body = [row(filled(cell, one) for _, cell in columns) for one in rows]
        parts.append(row(title for title, _ in columns) + f"|{rules}\n" + "".join(body))
    return "\n".join(parts)


def rendered(tables, lines):
    """Returns the text of a block."""
    texts = [table(heading, columns, rows) for groups, heading, columns in tables for rows in groups(lines) if rows]
    return "\n".join(texts)


# Plots, as `memfold-bench plot` draws them.


def growth(name, title, details, x, y, points):
    """Lines over two logarithmic axes; ``points`` holds names and points."""
    lines = {}
    for line, point in points:
        lines.setdefault(line, []).append(point)
    lines = [{"name": line, "points": sorted(of)} for line, of in lines.items()]
    return {"name": name, "title": title, "details": details, "kind": "lines", "x": {"name": x}, "y": {"name": y}, "lines": lines}


def bars(name, title, details, rows):
    bars = [{"label": label, "value": value, "note": note, "marked": engine == "memfold"} for engine, label, value, note in rows]
    return {"name": name, "title": title, "details": details, "kind": "bars", "bars": bars}


def join_plots(lines):
    lines = [line for line in lines if line.get("data", "").startswith("synthetic")]
    points = [(filled("cosine ≥ {threshold}", line), (line["rows"], line["wall_seconds_median"])) for line in lines]
    details = filled("Generated rows × {dim}, {last_run.threads} threads, {run:day}", lines[0])
    return [growth("join-growth", "memfold dedup: seconds of the whole process over rows", details, "rows", "seconds", points)]


def peer_plots(lines):
    groups = peers(lines)
    # Each engine at the set of rows that most of them finished.
    fullest = max(reversed(groups), key=lambda group: sum(total(line) is not None for line in group))
    rows = [(line["engine"], filled("{engine} {shown}", line).strip(), total(line),
             filled("{seconds.total:s} s, recall {pair_recall:share}", line)) for line in fullest if total(line) is not None]
    details = filled("{data}: {rows:n} × {dim}, cosine ≥ {threshold}, {threads} threads, {run:day}", fullest[0])
    plots = [bars("peers-join", "All near-duplicate pairs: seconds by engine, index included", details, rows)]
    # Each engine's fastest setting that finds enough, over the kind of generated rows with most points on one machine.
    last, kinds = groups[-1][0], {}
    for group in (group for group in groups if group[0]["threshold"] == last["threshold"]):
        kind = group[0]["data"].rpartition("-")[0]
        if not kind.startswith("synth"):
            continue
        fastest = {}
        for line in group:
            if finds_enough(line, "pair_recall") and total(line) is not None:
                fastest.setdefault(line["engine"], (line["rows"], total(line)))
        kinds.setdefault((group[0]["machine"], kind), []).extend(fastest.items())
    (_, kind), points = max(reversed(kinds.items()), key=lambda one: len(one[1]))
    points.sort(key=lambda point: point[0] != "memfold")
    details = kind + filled(", {dim} dimensions, ≥ {threshold}; each engine's fastest setting with recall ≥ ", last) + str(RECALL_MIN)
    title = "All near-duplicate pairs: growth with rows"
    return plots + [growth("peers-growth", title, details, "rows", "seconds, index included", points)]


def lookup_plots(lines):
    sets = grouped(lines, "machine", "data")
    of_engines = lambda rows: sorted(grouped(rows, "engine"), key=lambda engine: engine[0]["engine"] != "memfold")
    built = lambda engine: engine[0].get("build_seconds") is not None
    engines = of_engines(max(reversed(sets), key=lambda rows: sum(map(built, of_engines(rows)))))
    points = [(line["engine"], (1 - line["recall_at_k"], line["qps_one_thread"])) for engine in engines for line in engine
              if line.get("recall_at_k") is not None and line["recall_at_k"] < 1]
    details = filled("{data}: {rows:n} rows, {threads} threads to build, {run:day}; ", engines[0][0])
    rows = [(engine[0]["engine"], engine[0]["engine"], engine[0]["build_seconds"], filled("{build_seconds:.1} s", engine[0]))
            for engine in engines if built(engine)]
    return [growth("peers-lookups", "Lookups: recall and speed", details + "a point for each ef_search",
                   "share of the nearest that is missed", "queries/s, one thread", points),
            bars("peers-build", "Lookups: seconds to build", details + "from vectors in memory to an index", rows)]


def guard_plots(lines):
    template = ("{data}: {last_run.pairs:n} pairs, {last_run.contradiction.labelled:n} of them labelled contradiction, "
                "{run:day}")
    return [{"name": line["file"].removesuffix(".svg"), "title": "Contradictions found, by threshold", "details": filled(template, line),
             "kind": "operating_curve", "curve": at(line, "last_run.contradiction.curve"),
             "in_use": at(line, "last_run.contradiction_threshold")} for [line] in curves(lines)]


def like_plots(lines):
    """About as many generated rows as there are real ones, then four times as many."""
    return [{"name": "like" if line["rows"] == 36_000 else "like-4x", "kind": "likeness", "document": line} for line in lines]


def tier_plots(lines):
    run = lines[0] if "points" in lines[0] else lines[0]["last_run"]
    tiers = [{"name": tier, "points": [(point[0] / 365.25, point[place]) for point in run["points"]]}
             for place, tier in enumerate(("hot", "warm", "cold", "archived"), 1)]
    return [{"name": "lifecycle-tiers", "title": "Memories by tier over ten years",
             "details": f"The sample store, {run['memories']} live memories, nothing read or written", "kind": "lines",
             "x": {"name": "years", "range": [0, 10]}, "y": {"name": "memories", "range": [0, run["memories"]]}, "lines": tiers}]


PLOTS = {"join": join_plots, "peers-join": peer_plots, "peers-ann": lookup_plots, "guard": guard_plots, "like": like_plots,
         "lifecycle": tier_plots}


def plots(names=PLOTS):
    """Returns the descriptions of the plots of some results."""
    return [plot for name in names if name in PLOTS and read(name) for plot in PLOTS[name](read(name))]


def shown(results, lines):
    """Returns lines as the last page that they belong to shows them."""
    tables = [tables for _, _, name, tables in BLOCKS if name == results]
    return rendered(tables[-1], lines) if tables else "\n".join(map(json.dumps, lines))


def pages():
    """Returns the pages as they should be."""
    texts = {}
    for page, mark, results, tables in BLOCKS:
        text = texts.get(page) or (ROOT / page).read_text()
        begin, end = f"<!-- {mark}: begin (bench/measure.py figures) -->\n", f"<!-- {mark}: end -->"
        before, found, rest = text.partition(begin)
        _, has_end, after = rest.partition(end)
        if not (found and has_end):
            raise SystemExit(f"{page}: no place for {mark}")
        texts[page] = before + begin + rendered(tables, read(results)) + end + after
    return texts


def write(check=False):
    """Writes the pages, or fails where one is old."""
    old = {page: text for page, text in pages().items() if (ROOT / page).read_text() != text}
    if check and old:
        raise SystemExit(f"old figures in {', '.join(old)}: run python3 bench/measure.py figures")
    for page, text in old.items():
        (ROOT / page).write_text(text)

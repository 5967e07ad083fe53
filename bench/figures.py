"""Tables of the documents, made of the stored results; ``measure.py figures`` writes them.

A block between two marks of a page belongs to one file of results. A heading or a cell is a template: ``{path}`` stands for
what a line holds there, ``{path:format}`` for the same in a format; a path goes through objects and lists by dots.

Formats: ``n`` whole with commas, ``s`` seconds, ``.2`` decimals, ``%2`` percent, ``share`` five decimals and never rounded up,
``ms2`` microseconds as milliseconds, ``mib`` bytes as mebibytes, ``day`` of a time, ``kind`` of a name (what
stands before the first ``-``). A text stays as it is in a format of numbers; what is missing is ``–``.
"""

import json
import math
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# A rival that finds less than this share of pairs or neighbours is shown, but not counted.
RECALL_MIN = 0.99
PEERS_SHOWN = "synthetic-like-real-100k"
JOINS_SHOWN = [36_047, 100_000, 1_000_000]
WIDTHS_SHOWN = [None, 64, 128]


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
    }[form]()


# Which lines stand in a table, in which order, with what is derived: a list of groups, a table for each.


def grouped(lines, *keys):
    groups = {}
    for line in lines:
        groups.setdefault(json.dumps([line.get(key) for key in keys]), []).append(line)
    return list(groups.values())


def all_lines(lines):
    return [lines]


def by_machine(lines):
    return grouped(lines, "machine")


def one_machine(groups):
    """Keeps the groups of the machine with most lines, the last one among equals; the file of results has all machines."""
    def kept(lines):
        found = groups(lines)
        lines_of, last_of = {}, {}
        for line in (line for group in found for line in group):
            machine = line.get("machine")
            lines_of[machine] = lines_of.get(machine, 0) + 1
            last_of[machine] = max(last_of.get(machine, ""), line.get("run") or at(line, "last_run.run_id") or "")
        chosen = max(lines_of, key=lambda machine: (lines_of[machine], last_of[machine]), default=None)
        return [group for group in found if group[0].get("machine") == chosen]
    return kept


def of_rows(groups, is_shown):
    """Keeps the lines that a page has room for."""
    return lambda lines: groups([line for line in lines if is_shown(line)])


def is_peak(line):
    return line.get("what") == "peak"


def joins(lines):
    return by_machine(sorted((line for line in lines if not is_peak(line)), key=lambda line: line["rows"]))


def largest(lines):
    most = max(line["rows"] for line in lines)
    return [line for line in lines if line["rows"] == most]


def ratio(part, whole):
    return part / whole if part is not None and whole else None


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
        if name is not None:
            rows.append({**line, "name": name + (", cold page cache" if line.get("cold") is True else "")})
    return by_machine(rows)


def served(lines):
    names = {"in_process": "check in process", "http": "check over HTTP", "mcp": "check over MCP, without a vector",
             "in_process_save": "save in process"}
    return by_machine([
        {**line, "name": names.get(line["mode"], "save over HTTP"), "beside": beside(line)} for line in lines
    ])


def labels(lines):
    return [[{**line, **label} for line in lines for label in line["last_run"].get("labels") or []]]


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
    for group in peers(lines):
        enough = {line["engine"] for line in group if finds_enough(line, "pair_recall")}
        rows, seen = [], set()
        for line in group:
            key = (line["engine"], (line.get("setting") or {}).get("process") is True)
            if key not in seen and (finds_enough(line, "pair_recall") or line["engine"] not in enough):
                seen.add(key)
                rows.append(line)
        shown.append(rows)
    return shown


ORIGIN = "{machine}, {last_run.threads} threads, level {last_run.isa}, memfold {version}, {run:day}."

# Page, mark, results, and the tables: groups, heading, columns.
BLOCKS = [
    ("README.md", "figures", "consolidate", [
        (one_machine(by_machine), "{machine}, {last_run.threads} threads, level {last_run.isa}, {last_run.run_id:day}.", [
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
    ("docs/dedup.md", "figures", "tiles", [
        (one_machine(joins), ORIGIN, [
            ("data", "{data}"), ("threshold", "{threshold:.2}"), ("median s", "{wall_seconds_median:s}"),
            ("in one piece, median s", "{exact_wall_seconds_median:s}"), ("anonymous MiB", "{last_run.peak_anon_bytes:mib}"),
            ("in one piece", "{exact_peak_anon_bytes:mib}"),
        ]),
    ]),
    ("docs/server.md", "figures of the server", "server", [
        (one_machine(of_rows(served, lambda line: line["rows"] <= 100_000)), "{machine}, memfold {version}, {run:day}; milliseconds; *beyond*: more than in one process.", [
            ("request", "{name}"), ("writers, saved", "{beside}"), ("p50", "{p50_us:ms2}"),
            ("p99", "{p99_us:ms2}"), ("beyond", "{p99_us_beyond:ms2}"),
        ]),
    ]),
    ("docs/server.md", "figures of the soak", "soak", [
        (one_machine(by_machine), "{memories:n} memories at first, development build; {machine}, {run:day}.", [
            ("seconds", "{seconds:n}"), ("requests", "{requests:n}"), ("over a second late", "{late:n}"), ("errors", "{errors:n}"),
            ("saves, lost", "{saved:n}, {lost:n}"), ("anonymous MiB at the middle, at the end, at most",
             "{anonymous_mib.middle:.0}, {anonymous_mib.last:.0}, {anonymous_mib.most:.0}"),
        ]),
    ]),
    ("docs/judging.md", "figures of judge", "judge", [
        (labels, "memfold {version}, {run:day}.", [
            ("set, label", "{data}, {label}"), ("near pairs", "{pairs:n}"), ("merged by proof", "{proven:n}"),
            ("merged by a careless judge", "{merged_if_said_share:%2}"),
        ]),
    ]),
    ("docs/quality.md", "figures of labelled stores", "labelled", [
        (lambda lines: [[line for line in lines if "same" in line["last_run"]]], "memfold {version}, {run:day}.", [
            ("store", "{data}"), ("vectors", "{vectors}"),
            ("duplicates merged or proposed", "{last_run.same_merged_or_proposed:n} of {last_run.same:n}"),
            ("merged wrongly", "{last_run.merged_wrongly:n}"),
            ("proposals, wrong ones", "{last_run.proposed:n}, {last_run.proposed_wrongly:n}"),
            ("updates flagged", "{last_run.updates_flagged:n} of {last_run.updates:n}"),
            ("flags, wrong ones", "{last_run.flagged:n}, {last_run.flagged_wrongly:n}"),
        ]),
    ]),
    ("docs/save-and-recall.md", "figures of temporal", "temporal", [
        (all_lines,
         "{all.right:n} of {all.count:n} published expressions ({all.percent:.1} %) are resolved as expected; "
         "memfold {version}, {run:day}.", []),
    ]),
    ("docs/stores.md", "figures of stores", "stores", [
        (by_machine,
         "{machine}, {threads} threads, {run:day}.", [
            ("store", "{kind}"), ("records", "{records:n}"), ("first pull, s", "{first_pull_seconds:s}"),
            ("pull again and plan, median s", "{seconds:s}"), ("anonymous MiB", "{peak_anon_bytes:mib}"),
        ]),
    ]),
    ("docs/performance.md", "figures", "consolidate", [
        (by_machine, "{machine}, {last_run.threads} threads, level {last_run.isa}, {last_run.run_id:day}.", [
            ("data", "{data:kind}"), ("memories", "{rows:n}"), ("near pairs", "{last_run.detected.pairs:n}"),
            ("median s", "{wall_seconds_median:s}"), ("anonymous MiB", "{last_run.peak_anon_bytes:mib}"),
        ]),
    ]),
    ("docs/performance.md", "figures of texts", "texts", [
        (by_machine, "{machine}, {last_run.threads} threads, level {last_run.isa}, {run:day}.", [
            ("data", "{data}"), ("texts", "{rows:n}"), ("near pairs", "{last_run.detected.pairs:n}"),
            ("median s", "{wall_seconds_median:s}"), ("anonymous MiB", "{last_run.peak_anon_bytes:mib}"),
        ]),
    ]),
    ("docs/performance.md", "figures of join", "join", [
        (one_machine(of_rows(joins, lambda line: line.get("rows") in JOINS_SHOWN)), ORIGIN, [
            ("data", "{data}"), ("threshold", "{threshold:.2}"), ("pairs", "{last_run.pairs:n}"),
            ("median s", "{wall_seconds_median:s}"), ("prepare", "{last_run.seconds.prepare:s}"),
            ("join", "{last_run.seconds.join:s}"), ("anonymous MiB", "{last_run.peak_anon_bytes:mib}"),
        ]),
    ]),
    ("docs/performance.md", "figures of peers", "peers-join", [
        (one_machine(of_rows(best_peers, lambda line: line["data"] == PEERS_SHOWN)),
         "{data}, ≥ {threshold}, {pairs_true:n} pairs, {threads} threads; {machine}, {run:day}", [
            ("engine", "{engine} {shown}"), ("seconds", "{seconds.total:s}"), ("pair recall", "{pair_recall:share}"),
            ("MiB", "{peak_rss_bytes:mib}"),
        ]),
    ]),
    ("docs/performance.md", "figures of ann", "ann", [
        (one_machine(lambda lines: [named_once(group) for group in by_machine(lines)]), "{machine}, {run:day}.", [
            ("rows", "{name}"), ("build, s", "{build:.1}"), ("bytes per vector", "{bytes:n}"), ("ef_search", "{ef_search:n}"),
            ("recall@k", "{last_run.recall_at_k:.4}"), ("queries/s, one thread", "{last_run.qps_one_thread:n}"),
            ("p99 µs", "{last_run.latency_us.p99:n}"),
        ]),
    ]),
    ("docs/performance.md", "figures of checks", "check", [
        (one_machine(of_rows(checks, lambda line: line.get("rows", 0) >= 100_000 and line["writers"])), "{machine}, {run:day}; milliseconds.", [
            ("check", "{name}, {data}"), ("p50", "{p50_us:ms2}"),
            ("p99", "{p99_us:ms2}"), ("in full", "{checked} of {count}"),
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
    # The rows of the table, where most engines finished.
    shown = [group for group in groups if group[0]["data"] == PEERS_SHOWN]
    fullest = max(reversed(shown), key=lambda group: len({line["engine"] for line in group if total(line) is not None}))
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


def tier_plots(lines):
    run = lines[0] if "points" in lines[0] else lines[0]["last_run"]
    tiers = [{"name": tier, "points": [(point[0] / 365.25, point[place]) for point in run["points"]]}
             for place, tier in enumerate(("hot", "warm", "cold", "archived"), 1)]
    return [{"name": "lifecycle-tiers", "title": "Memories by tier over ten years",
             "details": f"The sample store, {run['memories']} live memories, nothing read or written", "kind": "lines",
             "x": {"name": "years", "range": [0, 10]}, "y": {"name": "memories", "range": [0, run["memories"]]}, "lines": tiers}]


def labelled_plots(lines):
    found = [line for line in lines if "ways" in line["last_run"]]
    ways = [{"name": name, "points": points} for name, points in found[0]["last_run"]["ways"].items()] if found else []
    last = max((points[-1][0] for way in ways for points in [way["points"]]), default=1)
    return [{"name": "labelled-ways", "title": "Duplicates gone, by questions to a person",
             "details": "A store of 200 memories with 50 duplicates, the built-in embedding; without a question: proofs, or a judge",
             "kind": "lines", "x": {"name": "questions answered", "range": [0, last]},
             "y": {"name": "share of the duplicates gone", "range": [0, 1]}, "lines": ways}]


PLOTS = {"labelled": labelled_plots, "join": join_plots, "peers-join": peer_plots, "peers-ann": lookup_plots, "lifecycle": tier_plots}


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

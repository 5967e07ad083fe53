#!/usr/bin/env python3
"""Measures memfold and keeps what it finds in ``bench/results``; only on a quiet machine.

    python3 bench/measure.py NAME… [--full] [--runs N]    measures what is named, and writes tables and plots
    python3 bench/measure.py figures [--check]            writes tables and plots, or fails where a table is old
    python3 bench/measure.py                              lists the names

``--full`` adds the largest sizes. Real data are those of ``MEMFOLD_DATA`` (``embeddings/``, ``text/``). Processes are timed by
hyperfine where it is installed. Every line says machine, version, time and command; a new line replaces that of the same work.
"""

import argparse
import datetime
import json
import os
import re
import shlex
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True

import figures
import labelled
from figures import ROOT

FOLDER = ROOT / "target/measure"
DATA = Path(os.environ["MEMFOLD_DATA"]) if os.environ.get("MEMFOLD_DATA") else None
REAL = DATA / "embeddings/vectors_f16.npy" if DATA else None
MEASUREMENTS = {}


def measurement(name, about, *keys, needs=None):
    """Registers a measurement; ``keys`` tell lines of the same work, ``needs`` is a folder of MEMFOLD_DATA."""
    def register(run):
        MEASUREMENTS[name] = (about, keys, needs, run)
        return run
    return register


# Processes.


def said(*words, env=None, cwd=ROOT):
    """Runs a command that must succeed and returns what it printed."""
    words = [str(word) for word in words]
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, cwd=cwd, env={**os.environ, **(env or {})}).stdout


def ask(*words, **options):
    return json.loads(said(*words, **options))


def timed(*words, **options):
    start = time.perf_counter()
    text = said(*words, **options)
    return time.perf_counter() - start, text


def wall(runs, words, prepare=None, env=None):
    """Times processes that print a document; returns their wall times and the document of the last one."""
    words = [str(word) for word in words]
    if shutil.which("hyperfine"):
        with tempfile.TemporaryDirectory() as folder:
            out, report = Path(folder) / "out", Path(folder) / "times.json"
            extra = ["--prepare", prepare] if prepare else []
            said("hyperfine", "--style", "none", "--runs", runs, "--output", out, "--export-json", report, *extra,
                 shlex.join(words), env=env)
            seconds = sorted(json.loads(report.read_text())["results"][0]["times"])
            text = out.read_text()
    else:
        seconds = []
        for _ in range(runs):
            if prepare:
                subprocess.run(prepare, shell=True, check=True)
            took, text = timed(*words, env=env)
            seconds.append(took)
        seconds.sort()
    return {"runs": runs, "wall_seconds_median": seconds[runs // 2], "wall_seconds_min": seconds[0],
            "wall_seconds_max": seconds[-1], "last_run": json.loads(text)}


def built(name):
    """Builds a program as it is released. For the whole workspace: alone, its dependencies would have other features."""
    said("cargo", "build", "--release", "--locked", "--workspace", "--bin", name)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / name


def percentiles(values):
    values = sorted(values)
    at = lambda share: round(values[max(0, -(-len(values) * share // 100) - 1)])
    return {"p50": at(50), "p99": at(99), "max": at(100)}


# Data.


def size(rows):
    return f"{rows // 1_000_000}m" if rows % 1_000_000 == 0 else f"{rows // 1_000}k" if rows % 1_000 == 0 else str(rows)


def generated(name, *words):
    """Returns a generated file, which is made where it is missing, and the command that made it."""
    path = FOLDER / name
    if not path.exists():
        said(work.bench, "generate", "--quiet", *words, "--output", path)
    shown = " ".join(Path(word).name if isinstance(word, Path) else str(word) for word in words)
    return path, f"memfold-bench generate {shown} --output {name}"


def rows(count):
    """Generated rows, with the spread of the real ones where there are some: name, file, recipe."""
    name = f"synthetic{'-like-real' if REAL else ''}-{size(count)}"
    like = ["--like", REAL] if REAL else []
    return (name, *generated(f"{name}.npy", "--rows", count, *like))


def workloads(real_runs, *sizes):
    """Names, files and recipes of rows to join, with the number of runs: the real ones, and generated ones."""
    found = [("real-36k", REAL, None, work.runs or real_runs)] if REAL else []
    return found + [(*rows(count), work.runs or runs) for count, runs in sizes if work.full or count <= 100_000]


def stores(*names):
    """Names, sizes and files of generated stores, with the number of runs."""
    for name, count, runs in [("real-1k", 1_000, 25), ("real-10k", 10_000, 15), ("real-36k", 36_000, 9),
                              ("synthetic-1k", 1_000, 25), ("synthetic-36k", 36_000, 9), ("synthetic-100k", 100_000, 5),
                              ("synthetic-1m", 1_000_000, 1)]:
        is_real = name.startswith("real")
        if (names and name not in names) or (is_real and not REAL) or (count >= 1_000_000 and not work.full):
            continue
        source = ["--from", REAL, "--texts", DATA / "embeddings/texts.parquet"] if is_real else []
        path, recipe = generated(f"{name}.db", "--brain", "--rows", count, *source)
        yield name, count, path, recipe, work.runs or runs


LOOKED_UP = ["synthetic-1k", "real-36k", "synthetic-100k", "synthetic-1m"]


def indexed(store, *words):
    return ask(work.memfold, "index", "build", "--json", "--quiet", *words, store)


def copied(store, name):
    """Copies a store without its index."""
    copy = store.with_suffix(f".{name}.db")
    removed(copy)
    shutil.copy(store, copy)
    return copy


def removed(store):
    store.unlink(missing_ok=True)
    shutil.rmtree(f"{store}.memfold", ignore_errors=True)
    for backup in store.parent.glob(f"{store.name}.memfold-backup-*"):
        backup.unlink()


# Measurements.


@measurement("consolidate", "whole runs of memfold consolidate on 1,000 to 100,000 memories", "data")
def consolidate():
    for name, count, path, recipe, runs in stores():
        line = wall(runs, [work.memfold, "consolidate", "--json", "--quiet", "--threads", 2, path])
        keep({**line, "data": name, "rows": count, "recipe": recipe})


@measurement("texts", "whole runs of memfold consolidate on files of texts without vectors", "data")
def texts():
    files = [("fixture", ROOT / "tests/data/texts/memories.csv", work.runs or 25)]
    for name, _, path, _, runs in stores("real-36k", "synthetic-100k", "synthetic-1m"):
        file = path.with_suffix(".texts.jsonl")
        if not file.exists():
            said(work.memfold, "export", "--quiet", path, "--output", file)
        files.append((name, file, runs))
    for name, file, runs in files:
        line = wall(runs, [work.memfold, "consolidate", "--json", "--quiet", "--threads", 2, file])
        keep({**line, "data": name, "rows": line["last_run"]["loaded"]["live"]})


def join(data, threshold, *further, threads=os.cpu_count(), level=None):
    name, path, recipe, runs = data
    folder = further[1] if further[:1] == ("--tiles",) else None
    words = [work.memfold, "dedup", "--threads", threads, "--json", "--quiet", path, "--threshold", threshold, *further]
    # Finished tasks would not run again.
    prepare = f"rm -rf {shlex.quote(str(folder))}" if folder else None
    line = wall(runs, words, prepare, {"MEMFOLD_ISA": level} if level else None)
    return {**line, "what": "join", "data": name, "recipe": recipe, "rows": line["last_run"]["rows"],
            "dim": line["last_run"]["dim"], "threshold": threshold}


@measurement("join", "whole runs of memfold dedup on 10,000 to 100,000 rows", "what", "data", "threshold")
def joins():
    for data in workloads(9, (10_000, 15), (30_000, 9), (100_000, 7), (300_000, 3), (1_000_000, 1)):
        for threshold in (0.85, 0.95):
            keep(join(data, threshold))


@measurement("levels", "memfold dedup at every level of the processor, and on all its cores",
             "machine", "data", "threshold", "level", "threads")
def levels():
    def is_available(level, path):
        words = [work.memfold, "dedup", "--threshold", "1", "--quiet", path]
        return subprocess.run(words, env={**os.environ, "MEMFOLD_ISA": level}, capture_output=True).returncode == 0

    for data in workloads(5, (100_000, 5), (1_000_000, 1)):
        found = [level for level in ("neondot", "neon", "amx", "avx512", "avxvnni", "avx2") if is_available(level, data[1])]
        ways = [(found[0], 2)] + ([(found[0], os.cpu_count())] if os.cpu_count() > 2 else []) + [(one, 2) for one in found[1:]]
        for threshold in (0.85, 0.95):
            lines = [{**join(data, threshold, threads=threads, level=level), "level": level, "threads": threads}
                     for level, threads in ways]
            if len({line["last_run"]["pairs_digest"] for line in lines}) > 1:
                raise SystemExit(f"{data[0]}: levels find different pairs")
            keep(*lines)


@measurement("graph-join", "memfold dedup --method graph beside exact runs", "what", "data", "threshold")
def graph_joins():
    larger = [((*rows(3_000_000), 1), 0.95)] if work.full else []
    measured = [(data, threshold) for data in workloads(3, (100_000, 3), (1_000_000, 1)) for threshold in (0.85, 0.95)]
    for data, threshold in measured + larger:
        exact, line = join(data, threshold), join(data, threshold, "--method", "graph")
        pairs = exact["last_run"]["distinct_pairs"]
        keep({**line, "what": "graph join", "exact_wall_seconds_median": exact["wall_seconds_median"],
              "exact_seconds": exact["last_run"]["seconds"], "exact_peak_anon_bytes": exact["last_run"]["peak_anon_bytes"],
              "distinct_pairs_true": pairs,
              "pair_recall_true": line["last_run"]["distinct_pairs"] / pairs if pairs else 1.0})


@measurement("tiles", "memfold dedup --tiles beside runs in one piece", "what", "data", "threshold")
def tiles():
    folder = FOLDER / "tiles"
    larger = [((*rows(4_000_000), 1), 0.98)] if work.full else []
    for data, threshold in [(data, 0.95) for data in workloads(3, (100_000, 3), (1_000_000, 1))] + larger:
        line = join(data, threshold, "--tiles", folder)
        run = line["last_run"]
        pairs = run["counters"]["pairs_total"]
        line |= {"what": "tile join", "share_in_tasks": run["tiles"]["pairs_in_tasks"] / pairs,
                 "share_tested": run["counters"]["pairs_tested"] / pairs}
        if run["rows"] <= 1_000_000:
            exact = join(data, threshold)
            if run["pairs_digest"] != exact["last_run"]["pairs_digest"]:
                raise SystemExit(f"{data[0]}: tiles give other pairs than one piece")
            line |= {"exact_wall_seconds_median": exact["wall_seconds_median"],
                     "exact_peak_anon_bytes": exact["last_run"]["peak_anon_bytes"]}
        keep(line)
    shutil.rmtree(folder, ignore_errors=True)


@measurement("ann", "recall and speed of the graph on real and 100,000 generated rows", "machine", "data", "ef_search")
def ann():
    queries = DATA / "embeddings/queries_f16.npy" if DATA else None
    for name, path, recipe, _ in workloads(1, (100_000, 1), (1_000_000, 1)):
        asked = ["--queries", queries] if name.startswith("real") and queries.is_file() else []
        lines = said(work.bench, "ann", "--json", "--quiet", "--base", path, *asked).splitlines()
        keep(*[{"data": name, "ef_search": run["ef_search"], "rows_from": recipe, "last_run": run}
               for run in map(json.loads, lines)])


@measurement("search", "whole lookups, each beside a process that does nothing", "machine", "data")
def search():
    for name, count, path, _, _ in stores(*LOOKED_UP):
        index = indexed(path)
        look_up = lambda number: [work.memfold, "search", "--json", "--id",
                                  f"stm_{number * 0x9E37_79B9_7F4A_7C15 % 2**64 % count:012x}", path]
        idle, found, opened = [], [], []
        for number in range(work.runs or 1_000):
            idle.append(timed(work.memfold, "--version")[0] * 1e6)
            seconds, text = timed(*look_up(number))
            found.append(seconds * 1e6)
            opened.append(json.loads(text)["elapsed_us"]["open"])
        keep({"data": name, "rows": count, "pairs": len(found), "tier": index["tier"], "build_seconds": index["seconds"],
              "build_peak_anon_bytes": index["peak_anon_bytes"], "index_bytes": index["index_bytes"],
              "version_us": percentiles(idle), "search_us": percentiles(found), "open_us": percentiles(opened),
              "beyond_us": percentiles([one - other for one, other in zip(found, idle)]),
              "unindexed_us": round(timed(*look_up(8_000), "--no-index")[0] * 1e6), "cold": cold(path, look_up)})


def cold(store, look_up):
    """Lookups with nothing of store and index in memory; null where the system cannot do that."""
    files = [store, *(path for path in Path(f"{store}.memfold").rglob("*") if path.is_file())]
    put_out = lambda: all(subprocess.run(["dd", f"if={path}", "iflag=nocache", "count=0", "status=none"]).returncode == 0
                          for path in files)
    took = [timed(*look_up(7_000 + number))[0] * 1e6 for number in range(15) if put_out()]
    return {"search_us": percentiles(took)} if took else None


def settings(document, *fields):
    """The settings of a document, each with some fields of the whole."""
    return [{**line, **{field: document[field] for field in fields}} for line in document["settings"]]


@measurement("check", "checks of memories, alone and beside four writers", "machine", "data", "mode", "writers", "cold")
def check():
    for name, _, path, _, _ in stores(*LOOKED_UP[1:]):
        indexed(path)
        found = ask(work.bench, "check", path, "--writers", 4, "--cold", "--json", "--quiet", "--force", "--histogram",
                    ROOT / f"docs/plots/check-{name}.svg", env={"TMPDIR": str(FOLDER)})
        keep(*[{**line, "data": name} for line in settings(found, "index", "rows", "peak_anon_bytes", "isa")])


@measurement("server", "checks and saves over HTTP and MCP, beside those in one process", "data", "mode", "writers")
def server():
    program = built("memfold-server")
    for name, _, path, _, _ in stores(*LOOKED_UP[2:]):
        indexed(path)
        found = ask(work.bench, "check", path, "--writers", 4, "--json", "--quiet", "--server", program,
                    env={"TMPDIR": str(FOLDER)})
        modes = ["in_process", "http", "mcp", "in_process_save", "http_save"]
        lines = [line for line in settings(found, "index", "rows", "isa") if line["mode"] in modes]
        for line in lines:
            # A save is compared with a save, what else there is with a check.
            mode = "in_process_save" if line["mode"].endswith("_save") else "in_process"
            twin = next(own for own in lines if own["mode"] == mode and own["writers"] == line["writers"])
            line |= {"data": name, **{f"{key}_beyond": line[key] - twin[key] for key in ("p50_us", "p99_us")}}
        keep(*lines)


@measurement("soak", "200 requests a second beside runs, undo and index builds, for minutes", "seconds")
def soak():
    text = said("cargo", "test", "--workspace", "--locked", "--test", "server", "soak", "--", "--ignored", "--nocapture",
                env={"MEMFOLD_SOAK_SECONDS": "1800" if work.full else "300"})
    keep(json.loads(re.search(r'\{".*', text)[0]))


@measurement("server-memory", "writes to the file of the MCP memory server: among 10,000 observations, and of 8 processes with kills",
             "tool", "writers")
def server_memory():
    done = subprocess.run(["cargo", "test", "--release", "--workspace", "--locked", "--test", "server", "server_memory", "--",
                           "--nocapture", "--test-threads", "1"], check=True, stderr=subprocess.PIPE, text=True, cwd=ROOT,
                          env={**os.environ, "MEMFOLD_TEST_OBSERVATIONS": "10000",
                               "MEMFOLD_TEST_WRITES": "8x10000" if work.full else "8x1000"})
    found = [json.loads(line) for line in re.findall(r"^[\[{].*", done.stderr, re.MULTILINE)]
    for line in (line for one in found for line in (one if isinstance(one, list) else [one])):
        keep({"tool": line.pop("tool", "several"), "writers": line.pop("writers", 1), "last_run": line})


@measurement("export", "stores into files, beside SQLite alone, and files into other formats", "data", "from", "to")
def export():
    for name, _, path, _, _ in stores(*LOOKED_UP[2:]):
        found = ask(work.bench, "export", "--cold", "--json", "--quiet", path, env={"TMPDIR": str(FOLDER)})
        lines = settings(found, "rows", "vector_bytes", "runs")
        for line in lines:
            source = "memory" if line["name"] == "disk" else "brain.db, cold" if line["cold"] else "brain.db"
            line |= {"data": name, "from": source, "to": "nothing" if line["name"] == "sqlite" else line["name"]}
        files = [path.with_suffix(f".{at}.{ending}") for at, ending in
                 enumerate(("parquet", "arrow", "npy", "fbin", "arrow", "parquet"))]
        said(work.memfold, "export", "--quiet", "--force", path, "--output", files[0])
        for source, target in zip(files, files[1:]):
            runs = []
            for _ in range(3):
                target.unlink(missing_ok=True)
                runs.append(ask(work.memfold, "convert", "--json", "--quiet", source, target))
            runs.sort(key=lambda run: run["seconds"])
            run, vector_bytes = runs[1], runs[1]["rows"] * runs[1]["dim"] * 4
            lines.append({"data": name, "from": run["from"], "to": run["to"], "rows": run["rows"], "runs": 3,
                          "vector_bytes": vector_bytes, "seconds": run["seconds"], "fastest_seconds": runs[0]["seconds"],
                          "slowest_seconds": runs[2]["seconds"], "bytes_per_second": vector_bytes / run["seconds"],
                          "file_bytes": run["bytes_written"], "peak_anon_bytes": run["peak_anon_bytes"]})
        for file in files:
            file.unlink()
        keep(*lines)


@measurement("like", "generated vectors beside the real ones", "data", "rows", needs="embeddings")
def like():
    for count in (36_000, 144_000):
        path, _ = generated(f"like-{count}.npy", "--rows", count, "--like", REAL)
        keep({**ask(work.bench, "likeness", "--json", "--quiet", REAL, path), "data": "real-36k", "rows": count})


def benchmark(name):
    """Runs a criterion benchmark and returns the medians in nanoseconds, by the names of its folders."""
    said("cargo", "bench", "--locked", "--package", "memfold-bench", "--bench", name)
    found = sorted((ROOT / "target/criterion" / name).rglob("new/estimates.json"))
    return {path.parts[-3]: json.loads(path.read_text())["median"]["point_estimate"] for path in found}


@measurement("guard", "verdicts on the labelled pairs in MEMFOLD_DATA/text", "data", needs="text")
def guard():
    verdicts, lines = FOLDER / "verdicts.jsonl", []
    for pairs in sorted((DATA / "text").glob("*.jsonl")):
        if '"label"' not in pairs.read_text().partition("\n")[0]:
            continue  # Its answers are of another kind; guard_bars.py reads them.
        run = ask(work.bench, "guard", "--json", "--quiet", "--force", "--pairs", pairs, "--verdicts", verdicts)
        lines.append({"data": pairs.stem, "last_run": run})
        if any(label["label"] == "4.5-5" for label in run["labels"]):
            # Counted by a script that knows nothing of the guard.
            counted = ask("python3", ROOT / "bench/guard/paraphrases.py", pairs, verdicts, "4.5")
            lines.append({"data": f"{pairs.stem} ≥ 4.5", "last_run": counted})
    for kind, nanoseconds in benchmark("guard").items():
        lines.append({"data": f"one pair: {kind}", "last_run": {"criterion_median_microseconds": nanoseconds / 1e3}})
    for name, _, path, _, _ in stores("real-36k"):
        found = ask(work.memfold, "consolidate", "--threshold", "0.85", "--json", "--quiet", path)
        lines.append({"data": name, "last_run": {
            "memories": found["loaded"]["live"], "threshold": "0.85", "pairs": found["detected"]["pairs"],
            "verdicts": found["stats"]["verdicts"], "flags": found["planned"]["flag_contradiction"],
            "flags_deferred": found["detected"]["flags_deferred"]}})
    keep(*lines)


def ranks(values):
    """Ranks from 0; equal values share their mean."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranked, start = [0.0] * len(values), 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for at in order[start:end]:
            ranked[at] = (start + end - 1) / 2
        start = end
    return ranked


@measurement("built-in", "cosines of the built-in embedding on STS-B and on random pairs of its texts", "data", needs="text")
def built_in():
    rows = [json.loads(line) for line in (DATA / "text/stsb_dev.jsonl").read_text().splitlines()]

    def cosines(pairs):
        words = ["cargo", "run", "--quiet", "--release", "--locked", "-p", "memfold-datasets", "--example", "similarities"]
        lines = "".join(json.dumps({"a": a, "b": b}) + "\n" for a, b in pairs)
        found = subprocess.run(words, input=lines, text=True, check=True, stdout=subprocess.PIPE, cwd=ROOT).stdout
        return [float(line) for line in found.split()]

    found = cosines([(row["a"], row["b"]) for row in rows])
    same = [cosine for cosine, row in zip(found, rows) if row["label"] >= 4.5]
    spearman = statistics.correlation(ranks(found), ranks([row["label"] for row in rows]))
    random = sorted(cosines([(row["a"], rows[(at + step) % len(rows)]["b"])
                             for step in range(1_000, 7_000, 400) for at, row in enumerate(rows)]))
    share = lambda least: sum(cosine >= least for cosine in same) / len(same)
    keep({"data": "stsb_dev", "last_run": {"pairs": len(rows), "spearman": spearman, "same_pairs": len(same),
                                           "same_from_0.80": share(0.8), "same_from_0.85": share(0.85)}},
         {"data": "random pairs", "last_run": {"pairs": len(random), "from_0.80": sum(c >= 0.8 for c in random),
                                               "cosine_p99.9": random[int(len(random) * 0.999)]}})


@measurement("judge", "what merges of the labelled pairs if a judge says so", "data", needs="text")
def judge():
    words = [work.bench, "judge", "--json", "--quiet", "--set", "judge.chain=[]", "--pairs"]
    keep(*[{"data": pairs.stem, "last_run": ask(*words, pairs)} for pairs in sorted((DATA / "text").glob("*.jsonl"))])


@measurement("labelled", "what becomes of two labelled stores, and what a person or a model adds", "data", "vectors")
def labelled_stores():
    keep(*labelled.measured(said, work.memfold))


@measurement("nli", "a classifier in the folder MEMFOLD_NLI about 1,000 proposals (bench/guard/nli_models.py FOLDER --size small --tokenizer FILE)", "data")
def nli():
    said("cargo", "build", "--release", "--locked", "--workspace", "--features", "memfold/local-models", "--bin", "memfold")
    model = Path(os.environ["MEMFOLD_NLI"])
    with tempfile.TemporaryDirectory() as folder:
        store = labelled.reworded(Path(folder), 1_000)
        found = ask(work.memfold, "consolidate", store, "--quiet", "--json", "--judge", "--threads", 2,
                    "--set", "propose.max_per_run=1000", "--set", f"judge.nli.folder={model}")
    judged = {key: found["judged"][key] for key in ("proposals", "votes_given", "prompt_tokens")}
    keep({"data": model.name, "last_run": {**judged, "seconds": found["seconds"]["judge"], "threads": found["threads"],
                                           "peak_rss_bytes": found["peak_rss_bytes"], "isa": found["isa"]}})


@measurement("recall", "recalls in one process among 100,000 memories, by scan and by graph", "data", "tier", "by", "counts")
def recall():
    for name, _, path, _, _ in stores("synthetic-100k"):
        # Recalls count accesses.
        copy = copied(path, "recall")
        for tier in ("scan", "graph"):
            indexed(copy, "--tier", tier)
            found = ask(work.bench, "recall", "--quiet", copy)
            keep(*[{**line, "data": name} for line in settings(found, "rows", "tier", "recalls", "k")])
        removed(copy)


@measurement("lifecycle", "ten years of nights over the sample store", "data")
def lifecycle():
    store = FOLDER / "memfold-demo/brain.db"
    if not store.exists():
        said(work.memfold, "demo", "--quiet", cwd=FOLDER)
    keep({**ask(work.bench, "years", "--quiet", store), "data": "sample"})


@measurement("temporal", "published expressions of time that are resolved as expected", "data")
def temporal():
    words = ["cargo", "run", "--quiet", "--locked", "-p", "memfold-core", "--example", "temporal_corpus", "--"]
    keep({**ask(*words, "pipeline/core/tests/data/temporal.jsonl"), "data": "temporal"})


@measurement("incremental", "runs over 500 changed memories of 100,000, beside runs over all", "data", "mode")
def incremental():
    for name, count, path, _, _ in stores("synthetic-100k"):
        copy = copied(path, "incremental")
        indexed(copy, "--tier", "scan")
        run = [work.memfold, "consolidate", "--json", "--quiet", "--config", ROOT / "bench/incremental/rules.yaml", copy]
        said(*run, "--execute", "--max-change-share", 1)
        # What the run itself changed is looked at once more.
        said(*run, "--execute", "--max-change-share", 1, "--incremental")
        said("python3", ROOT / "bench/incremental/add_memories.py", copy, 500)
        for mode, runs, words in (("incremental", 5, ["--incremental"]), ("whole", 1, [])):
            found = sorted((ask(*run, *words) for _ in range(runs)), key=lambda one: one["seconds"]["total"])
            median = found[runs // 2]
            keep({"data": name, "mode": mode, "rows": count, "runs": runs, "seconds": median["seconds"]["total"],
                  "slowest_seconds": found[-1]["seconds"]["total"], "stages": median["seconds"],
                  **{key: median.get(key) for key in ("incremental", "planned", "peak_anon_bytes", "isa", "threads")}})
        removed(copy)


@measurement("stores", "pull and plan of memory folders, git notes, the file of the MCP server and Markdown", "data")
def other_stores():
    script, now = ["python3", ROOT / "bench/stores/make_store.py"], "2026-06-30T12:00:00Z"
    for kind, records, name in (("json_folder", 10_000, "json-folder-10k"), ("git_notes", 20_000, "git-notes-20k"),
                                ("mcp_memory", 10_000, "memory-10k.jsonl"), ("markdown", 10_000, "markdown-10k")):
        store, mirror = FOLDER / name, FOLDER / f"{name}.mirror.db"
        if not store.exists():
            said(*script, kind, records, store)
        for path in FOLDER.glob(f"{name}.mirror.db*"):
            path.unlink()
        run = [work.memfold, "consolidate", "--json", "--quiet", "--now", now, "--mirror", mirror, store]
        first, text = timed(*run)
        said(*script, "vectors", 0, mirror)
        found = sorted((timed(*run) for _ in range(work.runs or 5)), key=lambda one: one[0])
        seconds, document = found[len(found) // 2][0], json.loads(found[len(found) // 2][1])
        keep({"data": f"synthetic-{name}", "kind": kind, "records": json.loads(text)["loaded"]["memories"],
              "live": document["loaded"]["live"], "with_vector": document["loaded"]["with_embedding"],
              "first_pull_seconds": first, "seconds": seconds, "slowest_seconds": found[-1][0],
              "total_seconds": first + seconds, "runs": len(found), "load_average": os.getloadavg()[0],
              **{key: document[key] for key in ("planned", "peak_anon_bytes", "isa", "threads")}})


@measurement("torture", "kills, full disks, busy locks and crowds; --full for longer", "suite")
def torture():
    words = [built("torture"), "--memfold", work.memfold, *(["--full"] if work.full else [])]
    keep(*map(json.loads, said(*words).splitlines()))


@measurement("store-kills", "kills of runs and undos on every kind of store; --full for 300 of each", "suite")
def store_kills():
    words = ["cargo", "test", "--workspace", "--locked", "--test", "cli", "kills_lose_no_fact", "--", "--nocapture"]
    done = subprocess.run(words, check=True, stderr=subprocess.PIPE, text=True, cwd=ROOT,
                          env={**os.environ, "MEMFOLD_TEST_KILLS": "300" if work.full else "12"})
    keep(*map(json.loads, re.findall(r'^{"suite".*', done.stderr, re.MULTILINE)), results="torture")


@measurement("peers", "other engines at the same joins and lookups (bench/peers/README.md)")
def peers():
    python = ROOT / "target/peers/bin/python"
    if not python.exists():
        said(sys.executable, "-m", "venv", ROOT / "target/peers")
        said(python, "-m", "pip", "install", "--quiet", "--require-hashes", "--requirement", "bench/peers/requirements.lock")
    sizes = (100_000, 1_000_000) if work.full else (100_000,)
    for name, path, recipe, _ in workloads(1, *[(count, 1) for count in sizes]):
        common = ["--data", path, "--name", name, "--threads", os.cpu_count(), "--memfold", work.memfold]
        truth, seconds_max = FOLDER / f"{name}.truth.npz", 150
        if "1m" in name:
            # At scale memfold says which pairs there are.
            truth, seconds_max = FOLDER / f"{name}.truth.parquet", 600
            said(work.memfold, "dedup", path, "--threshold", 0.85, "--json", "--quiet", "--force", "--pairs", truth)
        lines = said(python, "bench/peers/run.py", *common, "--seconds-max", seconds_max, "--enough", 0.99,
                     "--truth", truth, "--threshold", 0.85).splitlines()
        keep(*[{**json.loads(line), "recipe": recipe} for line in lines], results="peers-join",
             keys=("machine", "data", "threshold", "engine"))
        lines = said(python, "bench/peers/lookups.py", *common).splitlines()
        keep(*[{**json.loads(line), "rows_from": recipe} for line in lines], results="peers-ann",
             keys=("machine", "data", "engine"))


@measurement("python-check", "checks of memories in Python; the wheel must be installed", "data")
def python_check():
    for name, _, path, recipe, _ in stores(*LOOKED_UP[1:]):
        indexed(path)
        keep({**ask("python3", ROOT / "bench/python/checks.py", "--store", path), "data": name, "recipe": recipe})


@measurement("ray", "memfold.ray on clusters of 1, 2 and 16 cores; the wheel and ray must be installed", "data", "threshold", "cores")
def ray():
    for name, path, recipe, _ in workloads(1, (100_000, 1), (1_000_000, 1)):
        for cores in (cores for cores in (1, 2, 16) if cores <= os.cpu_count()):
            with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
                line = ask("python3", ROOT / "bench/python/ray_join.py", "--data", path, "--threshold", 0.95, "--cores", cores,
                           "--tiles", Path(folder) / "tiles")
            keep({**line, "what": "join on ray", "data": name, "recipe": recipe})


@measurement("compare", "whole runs beside an earlier build; MEMFOLD_BEFORE is a folder with its programs",
             "machine", "what", "data")
def compare():
    folders = {"before": Path(os.environ["MEMFOLD_BEFORE"]), "now": work.memfold.parent}
    has_bench = (folders["before"] / "memfold-bench").exists()

    def compared(what, data, found):
        """Keeps the medians of the seconds of both programs."""
        before, now = (statistics.median(found[program]) for program in folders)
        keep({"what": what, "data": data, "runs": len(found["now"]), "before_seconds": before, "seconds": now,
              "ratio": now / before})

    def whole(what, data, words, prepare=lambda program: None, runs=7):
        """Runs both programs in turn; `words` gives the arguments."""
        found = {program: [] for program in folders}
        for program in [*folders] * (work.runs or runs):
            prepare(program)
            words_of = [folders[program] / "memfold", *words(program), "--json", "--quiet", "--threads", 2]
            found[program].append(timed(*words_of)[0])
        compared(what, data, found)

    for name, path, _, runs in workloads(9, (100_000, 7), (1_000_000, 1)):
        for threshold in (0.85, 0.95):
            whole(f"dedup {threshold}", name, lambda _: ["dedup", path, "--threshold", threshold], runs=runs)
        whole("dedup 0.95 by a graph", name, lambda _: ["dedup", path, "--threshold", 0.95, "--method", "graph"], runs=min(runs, 3))
    if REAL:
        file = FOLDER / "real-36k.jsonl"
        if not file.exists():
            found = ask(work.memfold, "dedup", REAL, "--threshold", 1, "--json", "--quiet")
            values = struct.iter_unpack(f"<{found['dim']}e", REAL.read_bytes()[-found["rows"] * found["dim"] * 2:])
            file.write_text("".join(json.dumps({"vector": row}) + "\n" for row in values))
        vector = json.loads(file.open().readline())["vector"]
        whole("dedup 0.95, JSON Lines", "real-36k", lambda _: ["dedup", file, "--threshold", 0.95])
    for name, count, path, _, runs in stores("real-36k", "synthetic-100k"):
        copies = {program: copied(path, program) for program in folders}
        at = lambda *words: lambda program: [*words, copies[program]]
        whole("consolidate", name, at("consolidate"), runs=runs)
        whole("index build", name, at("index", "build"),
              lambda program: shutil.rmtree(f"{copies[program]}.memfold", ignore_errors=True), runs=runs)
        whole("search, new process", name, at("search", "--id", f"stm_{count // 2:012x}"), runs=51)
        if REAL:
            words = ["check", "--text", "The nightly export moved to 02:30 UTC.", "--vector", json.dumps(vector)]
            whole("check, new process", name, at(*words), runs=51)
        if has_bench:
            checks = {program: ask(folder / "memfold-bench", "check", copies[program], "--writers", 8, "--json", "--quiet",
                                   env={"TMPDIR": str(FOLDER)}) for program, folder in folders.items()}
            for place, setting in enumerate(checks["now"]["settings"]):
                found = {program: [checks[program]["settings"][place]["p50_us"] / 1e6] for program in folders}
                compared(f"check, {setting['mode']}, {setting['writers']} writers", name, found)
        renewed = lambda program: copied(path, program)
        applied = at("consolidate", "--threshold", 0.9, "--execute", "--max-change-share", 1)
        whole("consolidate --execute", name, applied, renewed, runs)
        whole("undo", name, lambda program: ["undo", copies[program], "latest", "--execute"],
              lambda program: (renewed(program), said(folders[program] / "memfold", *applied(program), "--quiet")), runs)
        for copy in copies.values():
            removed(copy)
    for name, path, _, _ in workloads(1, (100_000, 1)) if has_bench else []:
        graphs = {program: [] for program in folders}
        for program in [*folders] * (work.runs or 3):
            lines = said(folders[program] / "memfold-bench", "ann", "--json", "--quiet", "--base", path).splitlines()
            graphs[program].append(next(run for run in map(json.loads, lines) if run["recall_at_k"] >= 0.99))
        for what, seconds in [("graph build", lambda run: run["build_seconds"]),
                              ("graph query at a recall of 0.99", lambda run: 1 / run["qps_one_thread"])]:
            compared(what, name, {program: list(map(seconds, runs)) for program, runs in graphs.items()})


# Results.


def machine():
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    field = lambda name: (re.search(rf"^{name}\s*: (.*)$", info, re.MULTILINE) or [None, "unknown"])[1]
    return f"{field('model name')} (family {field('cpu family')}, model {field('model')}), {os.cpu_count()} cores"


def keep(*lines, results=None, keys=None):
    """Signs, shows and stores lines in place of those of the same work."""
    results, keys = results or work.name, keys or work.keys
    version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
    signed = {"run": work.began, "machine": machine(), "version": version,
              "command": f"python3 bench/measure.py {work.name}{' --full' if work.full else ''}"}
    lines = [{**line, **signed} for line in lines]
    print(figures.shown(results, lines), flush=True)
    same = lambda line: [line.get(key) for key in keys]
    kept = [line for line in figures.read(results) if same(line) not in [same(new) for new in lines]]
    path = ROOT / "bench/results" / f"{results}.jsonl"
    path.write_text("".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in kept + lines))


def write_figures(names=figures.PLOTS):
    figures.write()
    plots = figures.plots(names)
    if plots:
        words = ["cargo", "run", "--quiet", "--release", "--locked", "-p", "memfold-bench", "--", "plot", "-", "--quiet",
                 "--output", "docs/plots"]
        subprocess.run(words, input=json.dumps(plots), text=True, check=True, cwd=ROOT)


def lack(needs):
    """Says what is missing for a measurement."""
    if needs in ("embeddings", "text"):
        return None if DATA and (DATA / needs).is_dir() else f"MEMFOLD_DATA names no folder with {needs}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--runs", type=int)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if arguments.names == ["figures"]:
        return figures.write(check=True) if arguments.check else write_figures()
    unknown = [name for name in arguments.names if name not in MEASUREMENTS]
    if unknown or not arguments.names:
        list_of = "\n".join(f"  {name:12} {about}" for name, (about, *_) in MEASUREMENTS.items())
        raise SystemExit(f"{f'not measured: {unknown[0]}' if unknown else 'name what to measure'}:\n{list_of}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    work.full, work.runs = arguments.full, arguments.runs
    work.memfold, work.bench = built("memfold"), built("memfold-bench")
    for name in arguments.names:
        _, work.keys, needs, run = MEASUREMENTS[name]
        if lack(needs):
            raise SystemExit(f"{name}: {lack(needs)}")
        work.name, work.began = name, datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        run()
        write_figures(["peers-join", "peers-ann"] if name == "peers" else [name])


# What is under way: options, programs, and where lines go.
work = argparse.Namespace()

if __name__ == "__main__":
    main()

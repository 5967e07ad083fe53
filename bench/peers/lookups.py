"""Indexes side by side: build, and ten nearest of held-out rows; says one JSON line for each (engine, ef_search).

    lookups.py --data V.npy --name mine --threads 2 [--memfold BINARY] [--engines hnswlib,faiss-hnsw] [-k 10]

The last 1,000 rows are held out and looked up, as `memfold-bench ann` does. Each engine builds in a process of its own with all
threads and then answers all queries in one call on one thread, which spares the others the cost of a Python call for each;
the best of three calls counts. memfold, vsag, zvec and sqlite-vec answer them one by one. Recall counts rows as near as the true last one as right.
Engines that compare a query with every row have none.
"""

import argparse
import importlib.metadata
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from indexes import INDEXES, M

EF_SEARCH = (16, 24, 32, 48, 64, 96, 128, 192, 256)
# For engines that have not found enough by then.
EF_SEARCH_FURTHER = (384, 512, 768, 1_024)
RECALL_ENOUGH = 0.99
HELD_OUT = 1_000
CALLS = 3


def main() -> None:
    options = parse_options()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    if options.one:
        return run_one(options)
    for engine in options.engines.split(","):
        print(f"{engine} on {options.name}", file=sys.stderr, flush=True)
        if engine in METHODS:
            lines = memfold(options, METHODS[engine])
        else:
            lines = apart(options, engine)
        for line in lines:
            line |= {"engine": engine, "data": options.name}
            line.setdefault("threads", options.threads)
            print(json.dumps(line), flush=True)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="npy, Arrow or Parquet")
    parser.add_argument("--name", required=True, help="what the rows are, as shown in tables")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--engines", default=",".join([*METHODS, *INDEXES]), help="names, with commas")
    parser.add_argument("--memfold", type=Path, help="the binary; memfold-bench lies beside it")
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--seconds-max", type=float, default=1_800.0, help="for one engine")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser.parse_args()


def memfold(options: argparse.Namespace, method: str) -> list[dict[str, Any]]:
    values = ",".join(map(str, [*EF_SEARCH, *EF_SEARCH_FURTHER]))
    bench = options.memfold.with_name("memfold-bench")
    command = [bench, "ann", "--base", options.data, "-k", str(options.k)]
    command += ["--ef-search", values, "--threads", str(options.threads), "--json", "--quiet"]
    command += ["--method", method, "--degree", str(M)]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=options.seconds_max)
    except subprocess.TimeoutExpired:
        return [{"outcome": f"not within {options.seconds_max:.0f} s"}]
    lines = []
    for line in map(json.loads, done.stdout.decode().splitlines()):
        keys = ("recall_at_k", "qps_one_thread", "build_seconds", "rows", "k", "bytes_per_vector", "threads")
        lines.append({"ef_search": line["ef_search"]} | {key: line[key] for key in keys})
    return [line for line, before in zip(lines, [None, *lines]) if is_wanted(line["ef_search"], before)]


def is_wanted(ef_search: int, before: dict[str, Any] | None) -> bool:
    """Whether a search that wide is of interest after the one before."""
    return ef_search not in EF_SEARCH_FURTHER or before is None or before["recall_at_k"] < RECALL_ENOUGH


def apart(options: argparse.Namespace, engine: str) -> list[dict[str, Any]]:
    """Runs one engine in a process of its own."""
    command = [sys.executable, __file__, *sys.argv[1:], "--one", engine]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, timeout=options.seconds_max)
    except subprocess.TimeoutExpired:
        return [{"outcome": f"not within {options.seconds_max:.0f} s"}]
    if done.returncode != 0:
        return [{"outcome": f"ended with {done.returncode}"}]
    return [json.loads(line) for line in done.stdout.decode().splitlines() if line.startswith("{")]


def run_one(options: argparse.Namespace) -> None:
    import numpy as np

    import vectors

    rows = vectors.unit(vectors.load(options.data))
    base, queries = rows[:-HELD_OUT], rows[-HELD_OUT:]
    index = INDEXES[options.one]
    resident = resident_bytes()
    start = time.perf_counter()
    try:
        search = index.build(base, options.threads)
    except ImportError as error:
        print(json.dumps({"outcome": "not installed", "reason": str(error)}))
        return
    except Exception as error:
        print(json.dumps({"outcome": "not on this machine", "reason": str(error)}))
        return
    seconds = time.perf_counter() - start
    grown = resident_bytes() - resident
    products = queries @ base.T
    last = np.partition(products, -options.k, axis=1)[:, -options.k]
    widths = [ef_search for ef_search in (*EF_SEARCH, *EF_SEARCH_FURTHER) if ef_search >= options.k]
    line = None
    for ef_search in [None] if index.is_exact else widths:
        if not is_wanted(ef_search, line):
            break
        fastest, found = float("inf"), None
        for _ in range(CALLS):
            start = time.perf_counter()
            found = search(queries, ef_search, options.k)
            fastest = min(fastest, time.perf_counter() - start)
        # A margin for f32: a tie counts.
        near = np.take_along_axis(products, np.maximum(found, 0), 1) >= last[:, None] - 1e-6
        line = {
            "engine_version": importlib.metadata.version(index.package),
            "setting": index.setting,
            "ef_search": ef_search,
            "recall_at_k": float((near & (found >= 0)).sum(1).clip(max=options.k).mean() / options.k),
            "qps_one_thread": len(queries) / fastest,
            "build_seconds": seconds,
            "rows": len(base),
            "k": options.k,
            "bytes_per_vector": grown / len(base),
        }
        print(json.dumps(line), flush=True)


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


# What memfold itself answers with; the crate hnsw_rs is filled on one thread, as memfold does it.
METHODS = {"memfold": "graph", "memfold-scan": "scan", "hnsw_rs": "hnsw_rs"}

if __name__ == "__main__":
    main()

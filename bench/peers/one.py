"""One engine at one setting in a process of its own: `one.py TASK`, all in JSON."""

import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import truth
import vectors
from engines import ENGINES
from joins import Engine, Joined, Rows, Task


def main() -> None:
    wanted = json.loads(sys.argv[1])
    engine = ENGINES[wanted["engine"]]
    rows = vectors.unit(vectors.load(Path(wanted["data"])))
    memfold = Path(wanted["memfold"]) if wanted["memfold"] else None
    task = Task(
        vectors=rows,
        threshold=wanted["threshold"],
        threads=wanted["threads"],
        setting=wanted["setting"],
        data=Path(wanted["data"]),
        memfold=memfold,
    )
    forget_peak()
    try:
        joined = engine.join(task)
    except ImportError as error:
        print(json.dumps({"outcome": "not installed", "reason": str(error)}))
        return
    # Before the truth is loaded.
    peak = joined.peak_rss_bytes or peak_rss_bytes()
    answer = describe(engine, joined, task) | {"peak_rss_bytes": peak}
    known = truth.load(Path(wanted["truth"]), len(rows))
    answer |= compare(joined.collector.pairs(), known.at(task.threshold))
    print(json.dumps(answer | {"truth": known.origin}))


def forget_peak() -> None:
    """Starts the peak of resident memory anew, so that loading does not count."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_rss_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def describe(engine: Engine, joined: Joined, task: Task) -> dict[str, Any]:
    build, search = joined.build_seconds, joined.search_seconds
    row_count, dim = task.vectors.shape
    return {
        "outcome": "done",
        "engine_version": importlib.metadata.version(engine.package) if engine.package else None,
        "rows": row_count,
        "dim": dim,
        "seconds": {"build": build, "search": search, "total": build + search},
        "notes": joined.notes,
    }


def compare(found: Rows, true: Rows) -> dict[str, Any]:
    right = len(np.intersect1d(found, true, assume_unique=True))
    return {
        "pairs_found": len(found),
        "pairs_true": len(true),
        "pair_recall": right / len(true) if len(true) else 1.0,
        "pair_precision": right / len(found) if len(found) else 1.0,
    }


if __name__ == "__main__":
    main()

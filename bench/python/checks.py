"""How long `memfold.Memory.check` takes in this process; says one JSON line.

    checks.py --store S.db --count 10000

The store must have an index. Every second memory is one of the store, the others have a vector near one of the store
and a text of their own. Times are those of the calls, with what Python adds.
"""

import argparse
import collections
import json
import random
import sqlite3
import sys
import time
from pathlib import Path

import numpy as np

import memfold

WARMING = 100
#: How far a new vector is from the old one: their cosine is about 0.93.
NOISE = 0.4
SEED = 7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--count", type=int, default=10_000)
    options = parser.parse_args()
    memories, rows = sampled(options.store, options.count + WARMING)
    store = memfold.Memory(options.store)
    microseconds, decisions, checked = [], collections.Counter(), 0
    for at, (text, vector) in enumerate(memories):
        begin = time.perf_counter_ns()
        check = store.check(text, vector=vector)
        took = (time.perf_counter_ns() - begin) / 1e3
        if at >= WARMING:
            microseconds.append(took)
            decisions[check.decision] += 1
            checked += check.checked
    found = np.percentile(microseconds, [50, 99, 99.9, 100], method="higher")
    names = ["p50_us", "p99_us", "p999_us", "max_us"]
    line = dict(zip(names, found.round(1).tolist(), strict=True))
    line |= {"rows": rows, "count": len(microseconds), "checked": checked}
    line |= {"decisions": dict(sorted(decisions.items())), "seed": SEED}
    line["python"] = ".".join(map(str, sys.version_info[:3]))
    print(json.dumps(line))


def sampled(path: Path, count: int) -> tuple[list[tuple[str, np.ndarray]], int]:
    """Memories to check, and how many the store has."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    query = "SELECT {} FROM embeddings JOIN stm ON stm.id = source_id WHERE source_type = 'stm'"
    ids = [id for (id,) in db.execute(query.format("stm.id"))]
    chance, noise = random.Random(SEED), np.random.default_rng(SEED)
    memories = []
    for at in range(count):
        one = query.format("stm.content, embedding") + " AND stm.id = ?"
        text, blob = db.execute(one, (chance.choice(ids),)).fetchone()
        vector = np.frombuffer(blob, "<f4")
        if at % 2:
            text = f"Note {at} of the week: the {chance.choice(text.split() or ['end'])} is new."
            length = np.linalg.norm(vector) / np.sqrt(len(vector))
            vector = vector + NOISE * length * noise.standard_normal(len(vector))
        memories.append((text, vector.astype(np.float32)))
    db.close()
    return memories, len(ids)


if __name__ == "__main__":
    main()

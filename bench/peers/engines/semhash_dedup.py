"""SemHash.self_deduplicate on vectors that are given; its index (vicinity over usearch) reports the pairs.

It asks for 100 neighbours, and for 1,000 where all are near; usearch takes as many threads as there are cores.
"""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from joins import Engine, Joined, PairCollector, Stopwatch, Task


class NoEncoder:
    """Vectors are given, so nothing is encoded."""

    def encode(self, inputs: Sequence[Any], **_: Any) -> np.ndarray:
        raise NotImplementedError


def join(task: Task) -> Joined:
    from semhash import SemHash

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: task.threads])
    # Loads what is loaded at first use.
    SemHash.from_embeddings(task.vectors[:2], ["0", "1"], NoEncoder())
    records = [str(row) for row in range(len(task.vectors))]
    watch = Stopwatch()
    hashed = SemHash.from_embeddings(task.vectors, records, NoEncoder())
    build = watch.lap()
    reported: list[Any] = []
    index: Any = hashed.index
    query = index.query_threshold

    def listening(vectors: np.ndarray, threshold: float) -> list[Any]:
        reported[:] = query(vectors, threshold)
        return reported

    index.query_threshold = listening
    answer = hashed.self_deduplicate(threshold=task.threshold)
    search = watch.lap()
    collector = PairCollector(len(task.vectors), task.threshold)
    for row, (found, similarity) in enumerate(reported):
        collector.add(np.full(len(found), row), found, similarity)
    return Joined(build, search, collector, notes={"rows_kept": len(answer.selected)})


ENGINE = Engine("semhash", "semhash", lambda _: [{}], join)

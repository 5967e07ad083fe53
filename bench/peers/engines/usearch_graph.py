"""usearch: an HNSW graph over f32 or bf16, asked with a growing k."""

from typing import Any

import numpy as np

from joins import (
    Engine,
    Joined,
    Rows,
    Setting,
    Similarities,
    Stopwatch,
    Task,
    Vectors,
    collect_nearest,
)


def settings(_: int) -> list[Setting]:
    return [
        {"dtype": dtype, "connectivity": 16, "expansion_add": 200, "expansion_search": 64}
        for dtype in ("bf16", "f32")
    ]


def join(task: Task) -> Joined:
    from usearch.index import Index

    watch = Stopwatch()
    row_count, dim = task.vectors.shape
    index: Any = Index(
        ndim=dim,
        metric="ip",
        dtype=task.setting["dtype"],
        connectivity=task.setting["connectivity"],
        expansion_add=task.setting["expansion_add"],
    )
    index.add(np.arange(row_count, dtype=np.uint64), task.vectors, threads=task.threads)
    build = watch.lap()

    def nearest(queries: Vectors, neighbors: int) -> tuple[Rows, Similarities]:
        index.expansion_search = max(task.setting["expansion_search"], 2 * neighbors)
        matches = index.search(queries, neighbors, threads=task.threads)
        similarity = 1.0 - np.asarray(matches.distances, np.float32)
        # Where fewer are found, the rest is not written.
        similarity[np.arange(neighbors) >= np.asarray(matches.counts)[:, None]] = -1.0
        return np.asarray(matches.keys).astype(np.int64), similarity

    collector, neighbors = collect_nearest(task, nearest)
    return Joined(build, watch.lap(), collector, notes={"largest_k": neighbors})


ENGINE = Engine("usearch", "usearch", settings, join)

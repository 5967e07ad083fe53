"""SymphonyQG: a graph with codes of the neighbours beside each node, asked with a growing k."""

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
    return [{"degree": 32, "ef_construction": 200, "ef": ef} for ef in (64, 128)]


def join(task: Task) -> Joined:
    from rabitqlib import SymqgIndex

    watch = Stopwatch()
    index = SymqgIndex(task.vectors.shape[1], task.setting["degree"], "ip", 0)
    index.build(task.vectors, task.setting["ef_construction"], task.threads)
    build = watch.lap()

    def nearest(queries: Vectors, neighbors: int) -> tuple[Rows, Similarities]:
        ef = max(task.setting["ef"], 2 * neighbors)
        found, distance = index.search(queries, neighbors, ef, task.threads)
        return found.astype(np.int64), 1.0 - distance

    collector, neighbors = collect_nearest(task, nearest)
    return Joined(build, watch.lap(), collector, notes={"largest_k": neighbors})


ENGINE = Engine("symphonyqg", "rabitqlib", settings, join)

"""hnswlib: an HNSW graph, asked with a growing k."""

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
    return [{"M": 16, "ef_construction": 200, "ef": 64}]


def join(task: Task) -> Joined:
    import hnswlib

    watch = Stopwatch()
    row_count, dim = task.vectors.shape
    index = hnswlib.Index(space="ip", dim=dim)
    index.init_index(
        max_elements=row_count, M=task.setting["M"], ef_construction=task.setting["ef_construction"]
    )
    index.set_num_threads(task.threads)
    index.add_items(task.vectors, num_threads=task.threads)
    build = watch.lap()

    def nearest(queries: Vectors, neighbors: int) -> tuple[Rows, Similarities]:
        index.set_ef(max(task.setting["ef"], 2 * neighbors))
        found, distance = index.knn_query(queries, k=neighbors, num_threads=task.threads)
        return found.astype(np.int64), 1.0 - distance

    collector, neighbors = collect_nearest(task, nearest)
    return Joined(build, watch.lap(), collector, notes={"largest_k": neighbors})


ENGINE = Engine("hnswlib", "hnswlib", settings, join)

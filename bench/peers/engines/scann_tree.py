"""ScaNN: a tree of leaves, anisotropic 4-bit codes, exact rescoring."""

import math

import numpy as np

from joins import (
    Engine,
    Joined,
    Nearest,
    Rows,
    Setting,
    Similarities,
    Stopwatch,
    Task,
    Vectors,
    collect_nearest,
)

REORDER_FACTOR = 4


def settings(row_count: int) -> list[Setting]:
    leaves = round(math.sqrt(row_count))
    return [{"num_leaves": leaves, "num_leaves_to_search": max(8, leaves // 10)}]


def build(task: Task) -> Nearest:
    import scann

    row_count = len(task.vectors)
    leaves, searched = task.setting["num_leaves"], task.setting["num_leaves_to_search"]
    builder = scann.scann_ops_pybind.builder(task.vectors, 32, "dot_product")
    builder = builder.set_n_training_threads(task.threads)
    builder = builder.tree(leaves, searched, training_sample_size=min(row_count, 250_000))
    searcher = builder.score_ah(2, anisotropic_quantization_threshold=0.2).reorder(128).build()
    searcher.set_num_threads(task.threads)

    def nearest(queries: Vectors, neighbors: int) -> tuple[Rows, Similarities]:
        candidates = min(neighbors * REORDER_FACTOR, row_count)
        found, similarity = searcher.search_batched_parallel(
            queries, final_num_neighbors=neighbors, pre_reorder_num_neighbors=candidates
        )
        # Where fewer are found, the rest is NaN.
        return found.astype(np.int64), np.nan_to_num(similarity, nan=-1.0)

    return nearest


def join(task: Task) -> Joined:
    watch = Stopwatch()
    nearest = build(task)
    build_seconds = watch.lap()
    collector, neighbors = collect_nearest(task, nearest)
    return Joined(build_seconds, watch.lap(), collector, notes={"largest_k": neighbors})


ENGINE = Engine("scann", "scann", settings, join)

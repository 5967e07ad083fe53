"""scikit-learn NearestNeighbors.radius_neighbors, brute force over Euclidean distances, its fastest way. Exact up to f32."""

import math

import numpy as np

from joins import Engine, Joined, PairCollector, Stopwatch, Task, batches

RANGE_BATCH = 8192
# Distances are rounded; the similarity decides.
MARGIN = 1e-4


def join(task: Task) -> Joined:
    from sklearn.neighbors import NearestNeighbors
    from threadpoolctl import threadpool_limits

    radius = math.sqrt(2.0 - 2.0 * task.threshold) + MARGIN
    collector = PairCollector(len(task.vectors), task.threshold)
    with threadpool_limits(task.threads):
        watch = Stopwatch()
        index = NearestNeighbors(radius=radius, algorithm="brute", metric="euclidean")
        index.fit(task.vectors)
        build = watch.lap()
        for begin, end in batches(len(task.vectors), RANGE_BATCH):
            distances, rows = index.radius_neighbors(task.vectors[begin:end])
            left = np.repeat(np.arange(begin, end), [len(found) for found in rows])
            distance = np.concatenate(distances)
            collector.add(left, np.concatenate(rows), 1.0 - distance * distance / 2.0)
        return Joined(build, watch.lap(), collector)


ENGINE = Engine("scikit-learn", "scikit-learn", lambda _: [{}], join)

"""sentence-transformers: community_detection over vectors that are given.

It reports groups around a row each, not pairs: of two rows of a group the similarity may be below the threshold. The pairs
counted here are those of a group's middle with its other rows, so recall says how many of the true pairs it names.
"""

import numpy as np

from joins import Engine, Joined, PairCollector, Stopwatch, Task


def join(task: Task) -> Joined:
    import torch
    from sentence_transformers import util

    torch.set_num_threads(task.threads)
    watch = Stopwatch()
    groups = util.community_detection(
        torch.from_numpy(task.vectors), threshold=task.threshold, min_community_size=2
    )
    search = watch.lap()
    collector = PairCollector(len(task.vectors), task.threshold)
    for middle, *others in groups:
        near = task.vectors[others] @ task.vectors[middle]
        collector.add(np.full(len(others), middle), others, near)
    return Joined(0.0, search, collector, notes={"groups": len(groups)})


ENGINE = Engine("sentence-communities", "sentence-transformers", lambda _: [{}], join)

"""range_search over batches of rows, which bounds the memory of an answer."""

from typing import Any

import numpy as np

from joins import PairCollector, Task, batches

RANGE_BATCH = 8192


def collect_ranges(index: Any, task: Task) -> PairCollector:
    """Asks a faiss index for everything within the threshold of every row."""
    collector = PairCollector(len(task.vectors), task.threshold)
    # faiss keeps what is greater, not equal.
    below = float(np.nextafter(np.float32(task.threshold), np.float32(-1)))
    for begin, end in batches(len(task.vectors), RANGE_BATCH):
        limits, similarity, right = index.range_search(task.vectors[begin:end], below)
        left = np.repeat(np.arange(begin, end), np.diff(limits.astype(np.int64)))
        collector.add(left, right, similarity)
    return collector

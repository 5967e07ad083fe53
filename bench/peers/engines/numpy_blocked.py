"""numpy: all products of the upper triangle, block by block, by its BLAS (OpenBLAS). Exact up to f32."""

import numpy as np

from joins import Engine, Joined, PairCollector, Stopwatch, Task, batches

# 2,048 × 4,096 products are 32 MiB.
BLOCK_ROWS = 2048
BLOCK_COLUMNS = 4096


def join(task: Task) -> Joined:
    vectors = task.vectors
    collector = PairCollector(len(vectors), task.threshold)
    watch = Stopwatch()
    for row, row_end in batches(len(vectors), BLOCK_ROWS):
        for column in range(row, len(vectors), BLOCK_COLUMNS):
            products = vectors[row:row_end] @ vectors[column : column + BLOCK_COLUMNS].T
            left, right = np.nonzero(products >= task.threshold)
            collector.add(left + row, right + column, products[left, right])
    return Joined(0.0, watch.lap(), collector)


ENGINE = Engine("numpy-blocked", "numpy", lambda _: [{}], join)

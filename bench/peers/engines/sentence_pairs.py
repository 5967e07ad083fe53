"""sentence-transformers: paraphrase_mining_embeddings over vectors that are given.

It asks for so many nearest rows of each (its default is 100), and keeps a number of pairs in all.
"""

import numpy as np

from joins import Engine, Joined, PairCollector, Setting, Stopwatch, Task

# Above what any of the workloads has; the default is 500,000.
PAIRS_MAX = 20_000_000


def settings(_: int) -> list[Setting]:
    return [{"top_k": top_k} for top_k in (100, 500)]


def join(task: Task) -> Joined:
    import torch
    from sentence_transformers import util

    torch.set_num_threads(task.threads)
    row_count = len(task.vectors)
    embeddings = torch.from_numpy(task.vectors)
    watch = Stopwatch()
    found = util.paraphrase_mining_embeddings(
        embeddings, max_pairs=PAIRS_MAX, top_k=min(task.setting["top_k"], row_count - 1)
    )
    search = watch.lap()
    collector = PairCollector(row_count, task.threshold)
    similarity, left, right = (np.array(column) for column in zip(*found, strict=True))
    collector.add(left, right, similarity)
    return Joined(0.0, search, collector, notes={"pairs_mined": len(found)})


ENGINE = Engine("sentence-transformers", "sentence-transformers", settings, join)

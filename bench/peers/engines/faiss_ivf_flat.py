"""faiss IndexIVFFlat.range_search: 4·√n cells, of which the nearest `nprobe` are searched."""

import math

from engines.faiss_ranges import collect_ranges
from joins import Engine, Joined, Setting, Stopwatch, Task


def settings(row_count: int) -> list[Setting]:
    cells = round(4 * math.sqrt(row_count))
    return [
        {"nlist": cells, "nprobe": probes, "train_rows_per_cell": 64}
        for probes in (1, 4, 8, 16, 32)
    ]


def join(task: Task) -> Joined:
    import faiss

    faiss.omp_set_num_threads(task.threads)
    watch = Stopwatch()
    dim = task.vectors.shape[1]
    quantizer = faiss.IndexFlatIP(dim)
    index = faiss.IndexIVFFlat(quantizer, dim, task.setting["nlist"], faiss.METRIC_INNER_PRODUCT)
    index.cp.max_points_per_centroid = task.setting["train_rows_per_cell"]
    index.train(task.vectors)
    index.add(task.vectors)
    build = watch.lap()
    index.nprobe = task.setting["nprobe"]
    collector = collect_ranges(index, task)
    return Joined(build, watch.lap(), collector)


ENGINE = Engine("faiss-ivf-flat", "faiss-cpu", settings, join)

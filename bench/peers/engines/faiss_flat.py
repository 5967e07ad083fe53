"""faiss IndexFlatIP.range_search: exact up to f32."""

from engines.faiss_ranges import collect_ranges
from joins import Engine, Joined, Stopwatch, Task


def join(task: Task) -> Joined:
    import faiss

    faiss.omp_set_num_threads(task.threads)
    watch = Stopwatch()
    index = faiss.IndexFlatIP(task.vectors.shape[1])
    index.add(task.vectors)
    build = watch.lap()
    collector = collect_ranges(index, task)
    return Joined(build, watch.lap(), collector)


ENGINE = Engine("faiss-flat", "faiss-cpu", lambda _: [{}], join)

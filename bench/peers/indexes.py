"""The indexes of the lookups: how each is built, and asked for the nearest rows.

`build(rows, threads)` returns a function that answers `(queries, ef, k)` on one thread with row numbers of shape (queries, k).
Rows and queries have unit length. Every graph has the same degree and effort of building, in the words of its maker; what else
is set is what the maker recommends for vectors of unit length and a recall of 0.99.
"""

import atexit
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

M, EF_CONSTRUCTION = 16, 200
# M counts the links of a node above the bottom of an HNSW graph; there are twice as many at the bottom, and in flat graphs.
DEGREE = 2 * M
HNSW = {"M": M, "ef_construction": EF_CONSTRUCTION}
FLAT = {"degree": DEGREE, "ef_construction": EF_CONSTRUCTION}

Search = Callable[[Any, int, int], Any]
Build = Callable[[Any, int], Search]


@dataclass(frozen=True)
class Index:
    """The package with its version, how to build, and what was set."""

    package: str
    build: Build
    setting: dict[str, Any] = field(default_factory=lambda: HNSW)
    # Compares a query with every row.
    is_exact: bool = False


def hnswlib(base: Any, threads: int) -> Search:
    import hnswlib

    index = hnswlib.Index(space="ip", dim=base.shape[1])
    index.init_index(max_elements=len(base), M=M, ef_construction=EF_CONSTRUCTION)
    index.add_items(base, num_threads=threads)

    def search(queries: Any, ef_search: int, k: int) -> Any:
        index.set_ef(ef_search)
        return index.knn_query(queries, k=k, num_threads=1)[0].astype("int64")

    return search


def faiss_hnsw(base: Any, threads: int) -> Search:
    import faiss

    faiss.omp_set_num_threads(threads)
    index = faiss.IndexHNSWFlat(base.shape[1], M, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = EF_CONSTRUCTION
    index.add(base)

    def search(queries: Any, ef_search: int, k: int) -> Any:
        faiss.omp_set_num_threads(1)
        index.hnsw.efSearch = ef_search
        return index.search(queries, k)[1]

    return search


def usearch(kind: str) -> Build:
    def build(base: Any, threads: int) -> Search:
        import numpy as np
        from usearch.index import Index

        index = Index(
            ndim=base.shape[1], metric="cos", dtype=kind, connectivity=M, expansion_add=EF_CONSTRUCTION
        )
        index.add(np.arange(len(base)), base, threads=threads)

        def search(queries: Any, ef_search: int, k: int) -> Any:
            index.expansion_search = ef_search
            return index.search(queries, k, threads=1).keys.astype("int64")

        return search

    return build


def symphony_qg(bits: int) -> Build:
    """SymphonyQG: 1-bit codes beside the links, in blocks; rows as f32 (0) or as codes of `bits`."""

    def build(base: Any, threads: int) -> Search:
        from rabitqlib import SymqgIndex

        index = SymqgIndex(base.shape[1], DEGREE, "ip", bits)
        index.build(base, EF_CONSTRUCTION, threads)

        def search(queries: Any, ef_search: int, k: int) -> Any:
            return index.search(queries, k, ef_search, 1)[0].astype("int64")

        return search

    return build


def rabitq_hnsw(base: Any, threads: int) -> Search:
    """HNSW over RaBitQ codes of 5 bits, 16 clusters."""
    from rabitqlib import HnswIndex, RaBitQKMeans

    clusters = RaBitQKMeans(base.shape[1], 16, num_threads=threads)
    clusters.train(base)
    index = HnswIndex(base.shape[1], len(base), M, EF_CONSTRUCTION, 5, "ip")
    index.build(base, clusters.centroids, clusters.assignments, threads)

    def search(queries: Any, ef_search: int, k: int) -> Any:
        return index.search(queries, k, ef_search, 1)[0].astype("int64")

    return search


def svs(primary: int, residual: int) -> Build:
    """Intel's Vamana over LVQ codes; on processors of Intel alone."""

    def build(base: Any, threads: int) -> Search:
        import svs

        parameters = svs.VamanaBuildParameters(
            graph_max_degree=DEGREE, window_size=EF_CONSTRUCTION
        )
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "rows.fvecs")
            svs.write_vecs(base, path)
            rows = svs.VectorDataLoader(path, svs.DataType.float32, dims=base.shape[1])
            codes = svs.LVQLoader(rows, primary=primary, residual=residual, padding=32)
            index = svs.Vamana.build(parameters, codes, svs.DistanceType.MIP, num_threads=threads)
        index.num_threads = 1

        def search(queries: Any, ef_search: int, k: int) -> Any:
            index.search_window_size = ef_search
            return index.search(queries, k)[0].astype("int64")

        return search

    return build


def vsag_hgraph(base: Any, threads: int) -> Search:
    """VSAG's HGraph over codes of 8 bits, with f32 for the last word; one call for each query."""
    import numpy as np
    import pyvsag

    pyvsag.set_logger_off()
    parameters = {
        "base_quantization_type": "sq8_uniform",
        "use_reorder": True,
        "precise_quantization_type": "fp32",
        "max_degree": DEGREE,
        "ef_construction": EF_CONSTRUCTION,
        "build_thread_count": threads,
    }
    described = {"dtype": "float32", "metric_type": "ip", "dim": base.shape[1]}
    index = pyvsag.Index("hgraph", json.dumps(described | {"index_param": parameters}))
    index.build(base.ravel(), np.arange(len(base)), len(base), base.shape[1])

    def search(queries: Any, ef_search: int, k: int) -> Any:
        asked = json.dumps({"hgraph": {"ef_search": ef_search}})
        return np.stack([index.knn_search(query, k, asked)[0] for query in queries])

    return search


def kannolo_plain(base: Any, _: int) -> Search:
    """HNSW over f32; builds on all cores."""
    import kannolo

    index = kannolo.DensePlainHNSW.build_from_array(
        base.ravel(), base.shape[1], m=M, ef_construction=EF_CONSTRUCTION, metric="dotproduct"
    )

    def search(queries: Any, ef_search: int, k: int) -> Any:
        found = index.batch_search(queries.ravel(), k, ef_search=ef_search, num_threads=1)[1]
        return found.reshape(-1, k).astype("int64")

    return search


def kannolo_rabitq(base: Any, _: int) -> Search:
    """HNSW over RaBitQ codes of 4 bits, with f16 for the last word; builds on all cores."""
    import kannolo

    index = kannolo.DenseRerankHNSW.build_from_array(
        base.ravel(),
        base.shape[1],
        m=M,
        ef_construction=EF_CONSTRUCTION,
        metric="dotproduct",
        encoder="rabitq-ext",
    )

    def search(queries: Any, ef_search: int, k: int) -> Any:
        found = index.batch_search(
            queries.ravel(), k, k_candidates=ef_search, ef_search=ef_search, num_threads=1
        )[1]
        return found.reshape(-1, k).astype("int64")

    return search


def alaya(codes: str) -> Build:
    def build(base: Any, threads: int) -> Search:
        import numpy as np
        from alayalite.index import Index as AlayaIndex
        from alayalite.schema import IndexParams

        parameters = IndexParams(
            index_type="hnsw",
            data_type=np.float32,
            id_type=np.uint32,
            quantization_type=codes,
            metric="ip",
            capacity=len(base),
            max_nbrs=DEGREE,
        )
        index = AlayaIndex("rows", parameters)
        index.fit(base, ef_construction=EF_CONSTRUCTION, num_threads=threads)

        def search(queries: Any, ef_search: int, k: int) -> Any:
            return index.batch_search(queries, k, ef_search, 1).astype("int64")

        return search

    return build


def zvec_hnsw(base: Any, threads: int) -> Search:
    """A collection on disk, HNSW over codes of 8 bits with f32 for the last word; one call for each query."""
    import numpy as np
    import zvec

    zvec.init(log_level=zvec.LogLevel.ERROR, query_threads=1, optimize_threads=threads)
    parameters = zvec.HnswIndexParam(
        metric_type=zvec.MetricType.IP,
        m=DEGREE,
        ef_construction=EF_CONSTRUCTION,
        quantize_type=zvec.QuantizeType.INT8,
    )
    vectors = zvec.VectorSchema(
        "vector", zvec.DataType.VECTOR_FP32, base.shape[1], index_param=parameters
    )
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    schema = zvec.CollectionSchema("rows", vectors=vectors)
    collection = zvec.create_and_open(str(Path(folder) / "rows"), schema)
    for begin in range(0, len(base), 1_000):
        rows = range(begin, min(begin + 1_000, len(base)))
        collection.insert([zvec.Doc(id=str(row), vectors={"vector": base[row]}) for row in rows])
    collection.optimize(zvec.OptimizeOption(concurrency=threads))

    def search(queries: Any, ef_search: int, k: int) -> Any:
        asked = zvec.HnswQueryParam(ef=ef_search, is_using_refiner=True)
        answers = (
            collection.query(
                zvec.Query("vector", vector=query, param=asked), topk=k, output_fields=[]
            )
            for query in queries
        )
        return np.array([[int(found.id) for found in answer] for answer in answers], dtype="int64")

    return search


def sqlite_vec(base: Any, _: int) -> Search:
    """A virtual table in memory; a query reads all of it, on one thread."""
    import apsw
    import numpy as np
    import sqlite_vec

    # Python's own sqlite3 is often built without extensions.
    database = apsw.Connection(":memory:")
    database.enable_load_extension(True)
    database.load_extension(sqlite_vec.loadable_path())
    database.execute(
        f"CREATE VIRTUAL TABLE rows USING vec0(vector float[{base.shape[1]}] distance_metric=cosine)"
    )
    with database:
        numbered = ((row, vector.tobytes()) for row, vector in enumerate(base))
        database.executemany("INSERT INTO rows(rowid, vector) VALUES (?, ?)", numbered)

    def search(queries: Any, _: int, k: int) -> Any:
        asked = "SELECT rowid FROM rows WHERE vector MATCH ? AND k = ? ORDER BY distance"
        answers = (database.execute(asked, (query.tobytes(), k)).fetchall() for query in queries)
        return np.array([[row for (row,) in answer] for answer in answers], dtype="int64")

    return search


INDEXES: dict[str, Index] = {
    "hnswlib": Index("hnswlib", hnswlib),
    "faiss-hnsw": Index("faiss-cpu", faiss_hnsw),
    "usearch-f32": Index("usearch", usearch("f32")),
    "usearch-bf16": Index("usearch", usearch("bf16")),
    "usearch-i8": Index("usearch", usearch("i8")),
    "symphonyqg": Index("rabitqlib", symphony_qg(0), FLAT),
    "symphonyqg-8bit": Index("rabitqlib", symphony_qg(8), FLAT),
    "rabitq-hnsw": Index("rabitqlib", rabitq_hnsw),
    "svs-lvq8": Index("scalable-vs", svs(8, 0), FLAT),
    "svs-lvq4x8": Index("scalable-vs", svs(4, 8), FLAT),
    "vsag-hgraph": Index("pyvsag", vsag_hgraph, FLAT),
    "kannolo": Index("kannolo", kannolo_plain),
    "kannolo-rabitq": Index("kannolo", kannolo_rabitq),
    "alayalite": Index("alayalite", alaya("none"), FLAT),
    "alayalite-rabitq": Index("alayalite", alaya("rabitq"), FLAT),
    "zvec": Index("zvec", zvec_hnsw, FLAT),
    "sqlite-vec": Index("sqlite-vec", sqlite_vec, {}, is_exact=True),
}

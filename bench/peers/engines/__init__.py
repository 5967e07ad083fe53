"""The engines, in the order in which they take their turns."""

from engines import (
    faiss_flat,
    faiss_ivf_flat,
    hnswlib_graph,
    memfold_dedup,
    memfold_wheel,
    numpy_blocked,
    scann_tree,
    semhash_dedup,
    sentence_clusters,
    sentence_pairs,
    sklearn_radius,
    symphonyqg_graph,
    univo_find,
    usearch_graph,
)
from joins import Engine

ENGINES: dict[str, Engine] = {
    engine.name: engine
    for engine in [
        memfold_dedup.ENGINE,
        memfold_wheel.ENGINE,
        numpy_blocked.ENGINE,
        sklearn_radius.ENGINE,
        faiss_flat.ENGINE,
        faiss_ivf_flat.ENGINE,
        scann_tree.ENGINE,
        hnswlib_graph.ENGINE,
        usearch_graph.ENGINE,
        symphonyqg_graph.ENGINE,
        semhash_dedup.ENGINE,
        univo_find.ENGINE,
        sentence_pairs.ENGINE,
        sentence_clusters.ENGINE,
    ]
}

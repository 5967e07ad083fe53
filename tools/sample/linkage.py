"""Writes tests/data/linkage/: small matrices and what scikit-learn clusters them into.

Every matrix is float32; similarities are float64 cosines of its rows, distances are 1 - similarity.
The pairwise distances near the thresholds and the merge heights keep apart from each other and from
every threshold by far more than rounding can move them, so the labels depend neither on rounding nor
on how ties are broken. The script fails otherwise.
"""

import json
from pathlib import Path

import numpy as np
from sklearn.cluster import AgglomerativeClustering

TARGET = Path(__file__).resolve().parents[2] / "tests" / "data" / "linkage"
LINKAGES = ("complete", "average", "single")
SIMILARITY_MINIMUMS = (0.85, 0.90, 0.95)
# Rounding moves a distance by about 1e-15.
TIE_GAP_MIN = 1e-11
THRESHOLD_GAP_MIN = 1e-9


def separated(random):
    """600 x 16: groups of very different sizes around far centres, and loners."""
    sizes = np.minimum(random.zipf(1.7, size=130), 25)
    centres = random.standard_normal((130, 16))
    rows = np.repeat(centres, sizes, axis=0)[:560]
    spreads = np.repeat(random.uniform(0.05, 0.35, size=130), sizes)[:560]
    rows = rows + random.standard_normal(rows.shape) * spreads[:, None]
    return np.vstack([rows, random.standard_normal((600 - len(rows), 16))])


def chained(random):
    """400 x 16: random walks of small steps, where single linkage runs along the chain."""
    walks = []
    for _ in range(10):
        point, walk = random.standard_normal(16), []
        for _ in range(40):
            point = point + random.standard_normal(16) * random.uniform(0.15, 0.45)
            walk.append(point)
        walks.append(np.array(walk))
    return np.vstack(walks)


def noisy(random):
    """500 x 24: groups of wide and different spread that touch each other at the thresholds."""
    centres = random.standard_normal((60, 24))
    owners = random.integers(0, len(centres), size=500)
    spreads = random.uniform(0.05, 0.6, size=len(centres))
    return centres[owners] + random.standard_normal((500, 24)) * spreads[owners][:, None]


MATRICES = {"separated": (separated, 11), "chained": (chained, 23), "noisy": (noisy, 37)}


def distances_of(matrix):
    wide = matrix.astype(np.float64)
    unit = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    distances = 1.0 - unit @ unit.T
    np.fill_diagonal(distances, 0.0)
    return (distances + distances.T) / 2.0


def check_no_ties(name, values):
    ordered = np.sort(values)
    gap = np.diff(ordered).min()
    assert gap > TIE_GAP_MIN, f"{name}: two values are only {gap:.3g} apart"
    for minimum in SIMILARITY_MINIMUMS:
        nearest = np.abs(ordered - (1.0 - minimum)).min()
        assert nearest > THRESHOLD_GAP_MIN, f"{name}: a value is only {nearest:.3g} from threshold {minimum}"


def first_seen(labels):
    """Renumbers labels by their first row, so that equal clusterings are equal lists."""
    numbers = {}
    return [numbers.setdefault(int(label), len(numbers)) for label in labels]


def cluster(distances, linkage, similarity_min):
    model = AgglomerativeClustering(
        n_clusters=None,
        metric="precomputed",
        linkage=linkage,
        distance_threshold=1.0 - similarity_min,
        compute_distances=True,
    )
    model.fit(distances)
    return model


def write(name, matrix):
    distances = distances_of(matrix)
    pairs = distances[np.triu_indices(len(matrix), k=1)]
    # Only distances at or below the loosest threshold can decide a merge that is kept.
    check_no_ties(name, pairs[pairs <= 1.0 - min(SIMILARITY_MINIMUMS) + 0.01])
    np.save(TARGET / f"{name}.npy", matrix)
    for linkage in LINKAGES:
        for similarity_min in SIMILARITY_MINIMUMS:
            model = cluster(distances, linkage, similarity_min)
            check_no_ties(f"{name} {linkage}", model.distances_)
            labels = first_seen(model.labels_)
            answer = {
                "rows": len(matrix),
                "dim": matrix.shape[1],
                "threshold": similarity_min,
                "linkage": linkage,
                "labels": labels,
            }
            target = TARGET / f"{name}-{linkage}-{round(similarity_min * 100)}.json"
            target.write_text(json.dumps(answer, separators=(",", ":")) + "\n", encoding="utf-8")
            sizes = np.bincount(labels)
            print(f"{name} {linkage} {similarity_min:.2f}: {len(sizes)} clusters, largest {sizes.max()}")


def main():
    TARGET.mkdir(parents=True, exist_ok=True)
    for name, (make, seed) in MATRICES.items():
        write(name, make(np.random.default_rng(seed)).astype("<f4"))


if __name__ == "__main__":
    main()

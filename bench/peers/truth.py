"""The right answer: products in f32 with a margin propose, cosines in f64 decide."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

import vectors
from joins import PairCollector, Rows, Vectors, batches

# f32 products of unit vectors of up to 4,096 components are off by less.
MARGIN = 1e-3
BLOCK_ROWS = 2048
BLOCK_COLUMNS = 4096
BRUTE_FORCE = "brute force, f64"


class Truth:
    """All pairs down to some threshold, as numbers (see `PairCollector`), with their similarity."""

    def __init__(self, origin: str, pairs: Rows, similarity: npt.NDArray[np.float64]) -> None:
        self.origin = origin
        self._pairs = pairs
        self._similarity = similarity

    def at(self, threshold: float) -> Rows:
        return self._pairs[self._similarity >= threshold]


def load(path: Path, row_count: int) -> Truth:
    """Reads what `make` wrote, or the pairs that `memfold dedup --pairs` wrote."""
    if path.suffix == ".npz":
        stored = np.load(path)
        return Truth(BRUTE_FORCE, stored["pairs"], stored["similarity"])
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    left, right = (table[name].to_numpy().astype(np.int64) for name in ("left", "right"))
    return Truth("memfold dedup", left * row_count + right, table["similarity"].to_numpy())


def covers(path: Path, data: Path, threshold: float) -> bool:
    """Tells whether a stored answer is newer than its rows and reaches down to the threshold."""
    if path.suffix != ".npz":
        return path.exists()
    if not path.exists() or path.stat().st_mtime < data.stat().st_mtime:
        return False
    return float(np.load(path)["threshold_min"]) <= threshold


def make(data: Path, threshold: float, path: Path) -> None:
    """Compares every row with every other and stores the pairs."""
    rows = vectors.load(data)
    parts = propose(vectors.unit(rows), threshold)
    similarity = cosines(rows, parts)
    keep = similarity >= threshold
    np.savez(path, pairs=parts[keep], similarity=similarity[keep], threshold_min=threshold)


def propose(units: Vectors, threshold: float) -> Rows:
    """Pairs whose f32 product comes near the threshold."""
    collector = PairCollector(len(units), threshold - MARGIN)
    for row, row_end in batches(len(units), BLOCK_ROWS):
        for column in range(row, len(units), BLOCK_COLUMNS):
            products = units[row:row_end] @ units[column : column + BLOCK_COLUMNS].T
            left, right = np.nonzero(products >= threshold - MARGIN)
            collector.add(left + row, right + column, products[left, right])
    return collector.pairs()


def cosines(rows: Vectors, pairs: Rows) -> npt.NDArray[np.float64]:
    """Cosines in f64 of the rows as they were read."""
    similarity = np.empty(len(pairs))
    for begin, end in batches(len(pairs), 65_536):
        left, right = np.divmod(pairs[begin:end], len(rows))
        a, b = rows[left].astype(np.float64), rows[right].astype(np.float64)
        norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
        similarity[begin:end] = np.einsum("ij,ij->i", a, b) / norms
    return similarity

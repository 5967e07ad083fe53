"""What an engine is given, and what it hands back."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]
Similarities = npt.NDArray[np.floating[Any]]
Setting = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """All pairs of `vectors` (unit length) at or above `threshold`."""

    vectors: Vectors
    threshold: float
    threads: int
    setting: Setting
    data: Path
    memfold: Path | None


class PairCollector:
    """Gathers pairs, in either order and repeated; a pair is `left * row_count + right`."""

    def __init__(self, row_count: int, threshold: float) -> None:
        self._row_count = row_count
        self._threshold = threshold
        self._parts: list[Rows] = []

    def add(self, left: npt.ArrayLike, right: npt.ArrayLike, similarity: Similarities) -> None:
        """Keeps the pairs that are near enough and not of a row with itself."""
        left, right = np.asarray(left, np.int64), np.asarray(right, np.int64)
        keep = (similarity >= self._threshold) & (left != right) & (right >= 0)
        left, right = left[keep], right[keep]
        self._parts.append(np.minimum(left, right) * self._row_count + np.maximum(left, right))

    def pairs(self) -> Rows:
        """Every pair once, ascending."""
        return np.unique(np.concatenate(self._parts)) if self._parts else np.empty(0, np.int64)


@dataclass
class Joined:
    """An engine's answer."""

    build_seconds: float
    search_seconds: float
    collector: PairCollector
    peak_rss_bytes: int | None = None
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Engine:
    """A name, the package with its version, the settings to try for so many rows, the join."""

    name: str
    package: str | None
    settings: Callable[[int], list[Setting]]
    join: Callable[[Task], Joined]


class Stopwatch:
    """Seconds since the last lap."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def lap(self) -> float:
        now = time.perf_counter()
        seconds, self._start = now - self._start, now
        return seconds


def batches(row_count: int, size: int) -> Iterator[tuple[int, int]]:
    """Begin and end of consecutive runs of rows."""
    for begin in range(0, row_count, size):
        yield begin, min(begin + size, row_count)


# Enough for most rows; the others are asked again.
NEIGHBORS_FIRST = 32
NEIGHBORS_GROWTH = 4
QUERY_BATCH = 4096

Nearest = Callable[[Vectors, int], tuple[Rows, Similarities]]


def collect_nearest(task: Task, nearest: Nearest) -> tuple[PairCollector, int]:
    """Asks for more neighbours of a row until the last lies below the threshold.

    `nearest(queries, k)` returns rows and similarities of shape (queries, k), nearest first.
    Returns the largest k as well.
    """
    row_count = len(task.vectors)
    collector = PairCollector(row_count, task.threshold)
    pending = np.arange(row_count)
    neighbors = min(NEIGHBORS_FIRST, row_count)
    while True:
        unfinished = []
        for begin, end in batches(len(pending), QUERY_BATCH):
            rows = pending[begin:end]
            found, similarity = nearest(task.vectors[rows], neighbors)
            full = similarity[:, -1] >= task.threshold
            unfinished.append(rows[full])
            left = np.broadcast_to(rows[:, None], found.shape)
            collector.add(left, found, similarity)
        pending = np.concatenate(unfinished)
        if len(pending) == 0 or neighbors == row_count:
            return collector, neighbors
        neighbors = min(neighbors * NEIGHBORS_GROWTH, row_count)

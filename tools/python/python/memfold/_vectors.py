"""Vectors: near-duplicates and nearest neighbours."""

from __future__ import annotations

import glob
import logging
import os
from collections.abc import Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from . import _memfold
from ._errors import InputError

if TYPE_CHECKING:
    from ._texts import Consolidation

_log = logging.getLogger("memfold")
_FLOATS = (np.float16, np.float32, np.float64)
_ENDINGS = (
    *(".parquet", ".arrow", ".feather", ".ipc", ".npy", ".npz", ".safetensors"),
    *(".hdf5", ".h5", ".fbin", ".fvecs", ".bvecs", ".jsonl", ".csv"),
)
_EXPECTED = "pass a numpy array, Arrow data, a polars or pandas frame, a torch CPU tensor, or paths"


def deduplicate(
    vectors: Any,
    threshold: float | None = None,
    *,
    texts: Iterable[str] | None = None,
    reference: Any = None,
    invalid: Literal["skip", "raise"] = "skip",
    vector_column: str | None = None,
    threads: int | None = None,
    progress: bool = False,
) -> Deduplication | Consolidation:
    """Finds every pair of vectors at or above a cosine similarity, and clusters of duplicates.

    The join is exact: no pair is missed. In a cluster every two rows are at or above the threshold,
    and the row that comes first stays.

    With texts, no row is dropped before they are proven to say the same: this is then
    :func:`consolidate`, which also takes a list of texts alone.

    Args:
        vectors: ``(rows, dim)`` of float16, float32 or float64: a numpy array, anything with the
            Arrow PyCapsule interface (pyarrow, polars, …), a torch CPU tensor or another object with
            ``__array__``; or a path, a pattern such as ``"corpus/*.parquet"``, or a list of these
            (Parquet, Arrow, npy, npz, safetensors, HDF5, fbin, fvecs). A C-contiguous float32 array
            and an Arrow array of fixed-size lists of float32 in one chunk are not copied; do not
            write to them while the result is in use. Or a list of texts, none of which is a file.
        threshold: The cosine similarity, from -1 to 1; by default 0.9, and 0.85 of texts.
        texts: The text of each row.
        reference: Vectors (or texts, beside texts) that are kept already: rows near one of them leave
            too. They are not changed, and not deduplicated among themselves.
        invalid: What happens to a row without a direction (NaN, infinite, all zeros): ``"skip"``
            leaves it out and names it (:attr:`Deduplication.skipped`), ``"raise"`` refuses.
        vector_column: The column of vectors of a table or file; by default the first of ``vector``,
            ``embedding``, ``embeddings`` and ``emb``.
        threads: Worker threads; by default one for each core.
        progress: Show progress, where tqdm is installed.

    Raises:
        InputError: For another shape or type, no usable rows, a threshold out of range, a file that
            cannot be read, or a threshold so low that nearly all pairs are at or above it.

    Examples:
        >>> import numpy as np
        >>> vectors = np.array([[1, 0], [0, 1], [0.99, 0.1], [1, 0]], dtype=np.float32)
        >>> result = memfold.deduplicate(vectors, threshold=0.95)
        >>> result.selected, result.filtered
        (array([0, 1]), array([2, 3]))
        >>> result.duplicate_ratio
        0.5
        >>> memfold.deduplicate(["Release is on Oct 15th", "Release is on Oct 16th"]).selected
        [0, 1]
    """
    if texts is not None or _are_texts(vectors):
        # Texts are prepared like vectors.
        from ._texts import consolidate

        words, rows = (vectors, None) if texts is None else (texts, vectors)
        return consolidate(
            words, vectors=rows, reference=reference, threshold=threshold, progress=progress
        )
    if invalid not in ("skip", "raise"):
        raise InputError(f"invalid is {invalid!r}", 'pass "skip" or "raise"')
    threshold = float(0.9 if threshold is None else threshold)
    source, notes = _source(vectors, vector_column)
    skips = invalid == "skip"
    known = np.empty(0, np.int64)
    if reference is not None:
        if not isinstance(source, np.ndarray):
            raise InputError("reference= needs an array", "pass the vectors as a numpy array")
        usable = _usable(source)
        if not (skips or usable.all()):
            row = int(np.flatnonzero(~usable)[0])
            raise InputError(f"row {row} has no direction", "embed it again, or leave it out")
        index = Index.build(reference, vector_column=vector_column, threads=threads)
        rows = np.flatnonzero(usable)
        known = rows[np.unique(index.radius(source[rows], threshold)["query"])]
        # A row that leaves stands for no other, so only the others are joined: known ones lose their direction.
        source, skips = source.copy(), True
        source[known] = 0
    with _shown(progress) as shown:
        native = _memfold.Deduplication(source, threshold, skips, threads, shown)
    if not native.rows and not known.size:
        raise InputError("no row has a usable vector", "embed the texts again")
    return Deduplication(native, notes, known)


class Deduplication:
    """What :func:`deduplicate` found. It keeps the vectors alive, or their files mapped."""

    def __init__(
        self,
        native: _memfold.Deduplication,
        notes: tuple[str, ...],
        known: np.ndarray = np.empty(0, np.int64),
    ) -> None:
        self._native = native
        self._selection: list[np.ndarray] | None = None
        #: The rows that are near a row of the reference, ascending; they are filtered too.
        self.known = known
        #: The rows without a usable vector, ascending: neither selected nor filtered.
        self.skipped = np.setdiff1d(native.skipped, known)
        self._taken = notes
        #: What a user should know: why vectors were copied, rows without a usable vector.
        self.notes = notes
        if self.skipped.size:
            first = ", ".join(map(str, self.skipped[:5]))
            more = ", …" if self.skipped.size > 5 else ""
            self.notes += (f"{self.skipped.size} rows have no usable vector: {first}{more}",)

    @property
    def threshold(self) -> float:
        """The cosine similarity from which vectors count as duplicates."""
        return self._native.threshold

    @property
    def selected(self) -> np.ndarray:
        """The rows that stay, ascending: int64. Of files: positions over all files."""
        return self._rows()[0]

    @property
    def filtered(self) -> np.ndarray:
        """The rows that another row stands for, one of the reference included; ascending: int64."""
        return self._rows()[1]

    @property
    def duplicate_ratio(self) -> float:
        """The share of the rows that are filtered, from 0 to 1."""
        rows = self._native.rows + self.known.size
        return (self._native.filtered_count + self.known.size) / rows

    @property
    def pair_count(self) -> int:
        """How many pairs there are, counted without writing them out."""
        return self._native.pair_count

    @property
    def pairs(self) -> _memfold.Table:
        """All pairs at or above the threshold: ``left`` < ``right`` (int64), ``similarity``
        (float64); ascending.

        Raises:
            InputError: When equal vectors make so many pairs that they should not be written out.
        """
        return self._native.pairs

    @property
    def clusters(self) -> _memfold.Table:
        """The rows of all clusters of two or more: ``survivor``, ``row`` (int64), and their
        ``similarity`` (float64); by survivor and row, survivors included."""
        return self._native.clusters

    @property
    def pairs_digest(self) -> str:
        """blake3 of the pairs in hexadecimal digits: equal for equal pairs, on every machine."""
        return self._native.pairs_digest

    @property
    def selected_with_duplicates(self) -> list[tuple[int, list[tuple[int, float]]]]:
        """Each row that stays and stands for others: the row, and those with their similarity."""
        clusters, found = self.clusters, {}
        rows = zip(clusters["survivor"].tolist(), clusters["row"].tolist(), clusters["similarity"])
        for survivor, row, similarity in rows:
            if row != survivor:
                found.setdefault(survivor, []).append((row, float(similarity)))
        return list(found.items())

    def rethreshold(self, threshold: float) -> Deduplication:
        """Returns what a higher threshold finds, without joining again.

        Raises:
            InputError: When it is lower than that of the join, or above 1.
        """
        if self.known.size:
            raise InputError(
                "the reference was compared at another threshold",
                "call deduplicate again with the higher threshold",
            )
        return Deduplication(self._native.rethreshold(float(threshold)), self._taken)

    def _rows(self) -> list[np.ndarray]:
        if self._selection is None:
            selected, filtered = self._native.selection()
            self._selection = [selected, np.union1d(filtered, self.known)]
        return self._selection

    def __repr__(self) -> str:
        return (
            f"<memfold.Deduplication: {self._native.rows + self.known.size} rows, {self.pair_count} "
            f"pairs at {self.threshold}, {self.filtered.size} filtered>"
        )


class Index:
    """An index of vectors that finds every row it should: it scans codes, then compares exactly.

    Examples:
        >>> index = memfold.Index.build(np.eye(3, dtype=np.float32))
        >>> rows, similarities = index.search(np.array([[1, 0.5, 0]], dtype=np.float32), k=2)
        >>> rows.tolist(), similarities.round(3).tolist()
        ([[0, 1]], [[0.894, 0.447]])
    """

    def __init__(self, native: _memfold.Index, notes: tuple[str, ...] = ()) -> None:
        self._native = native
        #: What a user should know: why vectors were copied.
        self.notes = notes

    @classmethod
    def build(
        cls,
        vectors: Any,
        path: str | os.PathLike[str] | None = None,
        *,
        overwrite: bool = False,
        vector_column: str | None = None,
        threads: int | None = None,
        progress: bool = False,
    ) -> Index:
        """Builds an index of vectors as :func:`deduplicate` takes them.

        With ``path`` it is written there, and the vectors to ``path + ".arrow"``, to be opened by
        :meth:`open` in constant time. Without, it lives in memory and lends the vectors where they
        need no copy.

        Raises:
            InputError: As :func:`deduplicate`; when a row has no vector, or a file is there already.
            StoreError: When the files cannot be written.
        """
        source, notes = _source(vectors, vector_column)
        path = None if path is None else os.fspath(path)
        with _shown(progress) as shown:
            return cls(_memfold.Index(source, path, overwrite, threads, shown), notes)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, threads: int | None = None) -> Index:
        """Opens an index that :meth:`build` wrote.

        Raises:
            StoreError: When it is not there, damaged, or does not fit its vectors.
        """
        return cls(_memfold.Index.open(os.fspath(path), threads))

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of components."""
        return self._native.shape

    def search(self, queries: Any, k: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """Returns the ``k`` nearest rows of each query and their cosine similarities.

        Args:
            queries: ``(queries, dim)``, or one vector of shape ``(dim,)``.
            k: At least 1; where the index has fewer rows, so many are found.

        Returns:
            Two arrays of shape ``(queries, k)``: rows (int64), best first, of equally similar ones
            the smaller first; and similarities (float64).

        Raises:
            InputError: For another dimension, a query without a direction, or ``k`` below 1.
        """
        if k < 1:
            raise InputError(f"k is {k}", "ask for at least 1 neighbour")
        return self._native.search(_queries(queries), k)

    def radius(self, queries: Any, threshold: float) -> _memfold.Table:
        """Returns all rows at least so similar to each query: ``query``, ``row`` (int64) and
        ``similarity`` (float64), by query, best first.

        Raises:
            InputError: As :meth:`search`, or for a threshold out of range.
        """
        return self._native.radius(_queries(queries), float(threshold))

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return "<memfold.Index: {} rows of {} components>".format(*self.shape)


def representatives(vectors: Any, count: int = 10, *, diversity: float = 0.5) -> np.ndarray:
    """Returns rows that stand for all of them, the best first: int64.

    Each next row is the one with the highest ``(1 - diversity) * typical - diversity * near``: *typical* is its mean
    cosine to its 100 nearest rows, *near* its highest cosine to a row that was chosen (maximal marginal relevance).

    Args:
        vectors: ``(rows, dim)``, each row with a direction.
        count: At least 1; of fewer rows all are returned.
        diversity: From 0 (typical rows, which may be alike) to 1 (rows unlike each other).

    Raises:
        InputError: As :meth:`Index.search`, or for an argument out of range.

    Examples:
        >>> vectors = np.array([[1, 0], [0.99, 0.1], [0, 1], [0.98, 0.1]], dtype=np.float32)
        >>> memfold.representatives(vectors, 2).tolist()
        [1, 2]
    """
    if count < 1 or not 0 <= diversity <= 1:
        raise InputError(
            f"count is {count} and diversity {diversity}",
            "ask for at least 1 row, with a diversity from 0 to 1",
        )
    unit = _unit(vectors)
    typical = (1 - diversity) * _typical(vectors)
    near = np.full(len(unit), -1.0)
    chosen: list[int] = []
    for _ in range(min(count, len(unit))):
        score = typical - diversity * near if chosen else typical
        score[chosen] = -np.inf
        chosen.append(int(np.argmax(score)))
        near = np.maximum(near, unit @ unit[chosen[-1]])
    return np.array(chosen, np.int64)


def outliers(vectors: Any, share: float = 0.1) -> np.ndarray:
    """Returns the rows that are least like their neighbours, the least like first: int64.

    A row counts by its mean cosine to its 100 nearest rows.

    Args:
        vectors: ``(rows, dim)``, each row with a direction.
        share: The share of the rows that is returned, from 0 to 1, rounded up.

    Raises:
        InputError: As :meth:`Index.search`, or for a share out of range.

    Examples:
        >>> vectors = np.array([[1, 0], [0.99, 0.1], [0, 1], [0.98, 0.1]], dtype=np.float32)
        >>> memfold.outliers(vectors, 0.25).tolist()
        [2]
    """
    if not 0 <= share <= 1:
        raise InputError(f"share is {share}", "pass a share of the rows, from 0 to 1")
    typical = _typical(vectors)
    return np.argsort(typical, kind="stable")[: int(np.ceil(share * len(typical)))]


def _unit(vectors: Any) -> np.ndarray:
    array = _float32(vectors)[0].astype(np.float64)
    return array / np.linalg.norm(array, axis=1, keepdims=True)


def _typical(vectors: Any) -> np.ndarray:
    """Returns the mean cosine of each row to its 100 nearest, itself left out."""
    index = Index.build(vectors)
    rows, similarities = index.search(vectors, min(101, len(index)))
    others = rows != np.arange(len(rows))[:, np.newaxis]
    # Among many equal rows a row may not find itself: then the last one is left out.
    others[others.all(axis=1), -1] = False
    count = max(others.shape[1] - 1, 1)
    return np.where(others, similarities, 0).sum(axis=1) / count


def _source(vectors: Any, vector_column: str | None) -> tuple[Any, tuple[str, ...]]:
    """Returns vectors as the native module takes them, and notes."""
    if isinstance(vectors, (str, os.PathLike)):
        vectors = [vectors]
    is_list = isinstance(vectors, (list, tuple))
    if is_list and vectors and all(isinstance(one, (str, os.PathLike)) for one in vectors):
        return (_files(vectors), vector_column), ()
    if hasattr(vectors, "__arrow_c_stream__") or hasattr(vectors, "__arrow_c_array__"):
        native = _memfold.ArrowVectors(vectors, vector_column)
        return native, _noted(native.copied)
    array, copied = _float32(vectors)
    if array.ndim != 2:
        raise InputError(
            f"expected an array of shape (rows, dim), found shape {array.shape}",
            "pass one row for each vector: vectors.reshape(-1, dim)",
        )
    if 0 in array.shape:
        raise InputError(f"there are no vectors: shape {array.shape}", "pass at least one vector")
    return array, _noted(copied)


def _usable(array: np.ndarray) -> np.ndarray:
    """Tells of each row whether it has a direction."""
    return np.isfinite(array).all(axis=1) & array.any(axis=1)


def _are_texts(vectors: Any) -> bool:
    """Tells a list of texts from a list of files and patterns."""
    if not isinstance(vectors, (list, tuple)) or not all(isinstance(one, str) for one in vectors):
        return False
    names_file = any(
        one.endswith(_ENDINGS) or os.path.exists(one) or glob.glob(one) for one in vectors
    )
    return bool(vectors) and not names_file


def _queries(queries: Any) -> Any:
    if hasattr(queries, "__arrow_c_stream__") or hasattr(queries, "__arrow_c_array__"):
        return _source(queries, None)[0]
    array = _float32(queries)[0]
    return _source(array[np.newaxis] if array.ndim == 1 else array, None)[0]


def _noted(copied: str | None) -> tuple[str, ...]:
    if copied is None:
        return ()
    _log.info(copied)
    return (copied,)


def _float32(vectors: Any) -> tuple[np.ndarray, str | None]:
    """Returns a C-contiguous array of float32, and why it is a copy, where it is."""
    if isinstance(vectors, np.ma.MaskedArray):
        raise InputError("masked arrays are not supported", "pass vectors.compressed() or rows of it")
    try:
        array = np.asarray(vectors)
    except (TypeError, ValueError, RuntimeError) as error:
        hint = f"{_EXPECTED}; of a tensor pass tensor.detach().cpu()"
        raise InputError(f"cannot read {type(vectors).__name__} as an array: {error}", hint) from error
    if array.dtype.newbyteorder("=") not in _FLOATS:
        raise InputError(
            f"expected float16, float32 or float64, found {array.dtype} ({type(vectors).__name__})",
            "pass vectors.astype(numpy.float32)" if array.dtype.kind in "iub" else _EXPECTED,
        )
    if array.dtype == np.float32 and array.flags.c_contiguous and array.flags.aligned:
        return array, None
    with np.errstate(over="ignore"):
        copy = np.require(array, np.float32, ["C", "A"])
    order = "" if array.flags.c_contiguous else ", not C-contiguous,"
    return copy, f"an array of {array.dtype}{order} was copied to float32 ({copy.nbytes} bytes)"


def _files(names: list[str | os.PathLike[str]]) -> list[str]:
    """Returns the files that names and patterns stand for; those of a pattern sorted."""
    files: list[str] = []
    for name in map(os.fspath, names):
        if os.path.isdir(name):
            pattern = os.path.join(name, "*.parquet")
            raise InputError(f"{name} is a folder", f"name its files, such as {pattern!r}")
        if os.path.exists(name) or not glob.has_magic(name):
            files.append(name)
            continue
        found = sorted(filter(os.path.isfile, glob.glob(name, recursive=True)), key=os.fsencode)
        if not found:
            raise InputError(f"no file matches {name}", "check the folder and the pattern's ending")
        files.extend(found)
    if len({os.path.realpath(file) for file in files}) < len(files):
        hint = "name each input once: all its rows would be duplicates"
        raise InputError("a file is named twice", hint)
    return files


@contextmanager
def _shown(progress: bool):
    """Gives what is called with (stage, done, total) while work goes on; None to show nothing."""
    if not progress:
        yield None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        _log.info("progress is not shown: tqdm is not installed")
        yield None
        return
    bars: dict[str, Any] = {}

    def show(stage: str, done: int, total: int | None) -> None:
        if stage not in bars:
            _close(bars)
            bars[stage] = tqdm(desc=stage, total=total, leave=False)
        bars[stage].update(done - bars[stage].n)

    try:
        yield show
    finally:
        _close(bars)


def _close(bars: dict[str, Any]) -> None:
    for bar in bars.values():
        bar.close()
    bars.clear()



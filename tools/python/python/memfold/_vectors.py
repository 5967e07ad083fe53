"""Vectors: near-duplicates and nearest neighbours."""

from __future__ import annotations

import glob
import logging
import os
from collections.abc import Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

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
        vector_column: The column of vectors of a table or file; by default the first of ``vector``,
            ``embedding``, ``embeddings`` and ``emb``.
        threads: Worker threads; by default one for each core.
        progress: Show progress, where tqdm is installed.

    Raises:
        InputError: For another shape or type, a row without a direction (NaN, infinite, all zeros),
            no rows, a threshold out of range, a file that cannot be read, or a threshold so low that
            nearly all pairs are at or above it.

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
        return consolidate(words, vectors=rows, threshold=threshold, progress=progress)
    threshold = 0.9 if threshold is None else threshold
    source, notes = _source(vectors, vector_column)
    with _shown(progress) as shown:
        native = _memfold.Deduplication(source, float(threshold), threads, shown)
    return Deduplication(native, notes)


class Deduplication:
    """What :func:`deduplicate` found. It keeps the vectors alive, or their files mapped."""

    def __init__(self, native: _memfold.Deduplication, notes: tuple[str, ...]) -> None:
        self._native = native
        self._selection: list[np.ndarray] | None = None
        #: What a user should know: why vectors were copied, rows of files without a vector.
        self.notes = notes
        if native.skipped:
            self.notes += (f"{native.skipped} rows of the files have no usable vector",)

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
        """The rows that another row stands for, ascending: int64."""
        return self._rows()[1]

    @property
    def duplicate_ratio(self) -> float:
        """The share of the rows that are filtered, from 0 to 1."""
        return self._native.filtered_count / self._native.rows

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
        return Deduplication(self._native.rethreshold(float(threshold)), self.notes)

    def _rows(self) -> list[np.ndarray]:
        if self._selection is None:
            self._selection = self._native.selection()
        return self._selection

    def __repr__(self) -> str:
        return (
            f"<memfold.Deduplication: {self._native.rows} rows, {self.pair_count} pairs at "
            f"{self.threshold}, {self._native.filtered_count} filtered>"
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
        place = (None if path is None else os.fspath(path), overwrite)
        with _shown(progress) as shown:
            return cls(_memfold.Index(source, place, threads, shown), notes)

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



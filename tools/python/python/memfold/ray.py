"""The exact join on a Ray cluster: :func:`deduplicate`.

The program that calls it reads the vectors and writes tiles to a folder that all nodes see at one
path. Ray's workers compare tiles; they need this wheel and that folder, no vectors. The caller puts
their pairs together. docs/dedup.md describes tiles and the folder.
"""

from __future__ import annotations

import math
import os
import socket
import sys
import time
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

try:
    import ray
    from ray.exceptions import RayError, RayTaskError
except ImportError as error:
    raise ImportError(
        f"memfold.ray needs Ray: {error}\nhint: pip install 'memfold[ray]'"
    ) from error

from . import _memfold
from ._errors import Error, InputError, StoreError
from ._vectors import Deduplication as _Deduplication
from ._vectors import _shown, _source

__all__ = ["Deduplication", "Report", "deduplicate"]

#: Most rows of a tile: two of 384 dimensions are 55 MB.
TILE_ROWS_MAX = 16_384
#: Blocks that each core gets to run, where there are enough tasks: the last ones leave cores idle.
_BLOCKS_PER_CORE = 32
#: Most tiles on a side of a block.
_BLOCK_TILES_MAX = 32
#: How long files of other nodes may take to be seen: NFS keeps what it knows of a folder for 60 s.
_SEEN_SECONDS_MAX = 90.0
#: How long blocks that are asked to stop may take to end.
_STOP_SECONDS_MAX = 10.0


@dataclass(frozen=True)
class Report:
    """What a join on Ray did."""

    seconds: dict[str, float]
    """Of the stages ``plan`` (read the vectors, write tiles), ``join`` (on Ray), ``merge`` (sort
    pairs, cluster)."""
    cores: float
    """Cores of the cluster when the join began."""
    busy_seconds: float
    """Seconds that workers spent on blocks, summed."""
    cpu_seconds: float
    """Processor seconds of these workers meanwhile."""
    tiles: int
    tasks: int
    tasks_resumed: int
    """Tasks that an earlier run had finished."""
    blocks: int
    """What the other tasks were submitted as."""
    tile_bytes: int
    """Size of all tiles."""
    bytes_read: int
    """Bytes of tiles that blocks needed, each tile counted once for a block."""
    bytes_written: int
    """Bytes of pairs that blocks wrote."""
    pairs_total: int
    """Pairs of distinct rows."""
    pairs_tested: int
    """Pairs that were tested; bounds excluded the others. It can be more than ``pairs_total``:
    rows of one block are tested with each other in both orders."""

    @property
    def efficiency(self) -> float:
        """``busy_seconds`` as a share of the cores' time during the join, from 0 to 1."""
        available = self.cores * self.seconds["join"]
        return self.busy_seconds / available if available else 0.0

    @property
    def tests_saved(self) -> float:
        """The share of all pairs that bounds excluded, from 0 to 1."""
        tested = self.pairs_tested / self.pairs_total if self.pairs_total else 1.0
        return max(0.0, 1.0 - tested)


class Deduplication(_Deduplication):
    """What :func:`deduplicate` found: as :class:`memfold.Deduplication`, with a report."""

    def __init__(self, native: Any, notes: tuple[str, ...], report: Report) -> None:
        super().__init__(native, notes)
        self.report = report


def deduplicate(
    vectors: Any,
    threshold: float,
    tiles: str | os.PathLike[str],
    *,
    vector_column: str | None = None,
    threads: int | None = None,
    tile_rows_max: int = TILE_ROWS_MAX,
    block_tiles: int | None = None,
    in_flight_max: int | None = None,
    max_retries: int = 3,
    progress: bool = False,
) -> Deduplication:
    """Finds what :func:`memfold.deduplicate` finds, with the join on Ray.

    Uses the connection to Ray that the program has, else that of ``ray.init()``, which it ends
    again. The same call goes on where an earlier one in the same folder ended: tasks with a receipt
    are not submitted.

    Args:
        vectors: As :func:`memfold.deduplicate` takes them; read by this process alone.
        threshold: The cosine similarity, from -1 to 1.
        tiles: A folder that every node sees at this path: empty, not there, or of an earlier run of
            the same vectors and threshold. It takes twice the size of the vectors as float32, and
            stays until you remove it.
        vector_column: The column of vectors of a table or file.
        threads: Threads of this process, for planning and merging; by default one for each core.
        tile_rows_max: Most rows of a tile.
        block_tiles: A task of Ray compares up to so many tiles with as many others, on one core. By
            default chosen so that each core gets about 32 of them.
        in_flight_max: Most blocks that are submitted at a time; by default two for each core.
        max_retries: How often Ray repeats a block whose worker or node died. What memfold itself
            refuses is not repeated.
        progress: Show progress on stderr, with tqdm where it is installed.

    Raises:
        InputError: As :func:`memfold.deduplicate`; when the folder holds something else.
        StoreError: When a file of the folder is missing, damaged, or cannot be read or written on
            some node; its message names the file.
        Error: When Ray lost a block more often than ``max_retries``.
    """
    folder = _folder(tiles)
    for name, value in [("block_tiles", block_tiles), ("in_flight_max", in_flight_max)]:
        if value is not None and value < 1:
            raise InputError(f"{name} is {value}", "use 1 or more")
    source, notes = _source(vectors, vector_column)
    with _connected(), _progress(progress) as shown:
        begin = time.perf_counter()
        plan = _memfold.TilePlan.make(
            source, folder, float(threshold), tile_rows_max, threads, shown
        )
        try:
            planned = time.perf_counter()
            did = _join(plan, block_tiles, _Limits(in_flight_max, max_retries), shown)
            joined = time.perf_counter()
            native, (pairs_total, pairs_tested) = plan.merge(shown)
            seconds = {"plan": planned - begin, "join": joined - planned}
            seconds["merge"] = time.perf_counter() - joined
        finally:
            plan.close()
    report = Report(seconds=seconds, pairs_total=pairs_total, pairs_tested=pairs_tested, **did)
    return Deduplication(native, notes, report)


@dataclass(frozen=True)
class _Limits:
    in_flight_max: int | None
    max_retries: int


def _folder(tiles: str | os.PathLike[str]) -> str:
    folder = os.fspath(tiles)
    if "://" in folder:
        hint = "mount it, or name a folder of a file system that all nodes share"
        raise InputError(f"tiles is {folder}, a URL", hint)
    return os.path.abspath(folder)


def _cores() -> float:
    return max(1.0, ray.cluster_resources().get("CPU", 0.0))


def _join(plan: Any, side: int | None, limits: _Limits, shown: Any) -> dict[str, Any]:
    """Runs all unfinished tasks and returns what the report says of them."""
    tiles, tile_bytes, task_count, *_ = plan.summary()
    unfinished, cores = plan.unfinished(), _cores()
    if side is None:
        wanted = len(unfinished) / (_BLOCKS_PER_CORE * cores)
        side = min(max(math.isqrt(int(wanted)), 1), _BLOCK_TILES_MAX)
    blocks = _blocks(unfinished, side)
    sizes = [os.path.getsize(_tile(plan.dir, number)) for number in range(tiles)]
    spent = {"busy_seconds": 0.0, "cpu_seconds": 0.0, "bytes_written": 0}
    done = task_count - len(unfinished)
    # Closed also when showing progress fails, before others may use the folder.
    with closing(_each_result(plan.dir, blocks, limits)) as results:
        for count, (busy, cpu, pairs) in results:
            spent["busy_seconds"] += busy
            spent["cpu_seconds"] += cpu
            spent["bytes_written"] += 16 * pairs
            done += count
            if shown is not None:
                shown("compare tiles", done, task_count)
    _wait_until_seen(plan)
    needed = ({number for task in block for number in task} for block in blocks)
    return spent | {
        "cores": cores,
        "tiles": tiles,
        "tasks": task_count,
        "tasks_resumed": task_count - len(unfinished),
        "blocks": len(blocks),
        "tile_bytes": tile_bytes,
        "bytes_read": sum(sizes[number] for numbers in needed for number in numbers),
    }


def _tile(folder: str | os.PathLike[str], number: int) -> str:
    path = os.path.join(folder, "tiles", f"{number:06}.mfi")
    if not os.path.exists(path):
        hint = "remove the folder and run again: all in it is derived from the input"
        raise StoreError(f"{path}: the file is missing", hint)
    return path


def _blocks(tasks: list[tuple[int, int]], side: int) -> list[list[tuple[int, int]]]:
    """Groups tasks so that a block needs at most ``2 * side`` tiles; in the order of their tiles."""
    blocks: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for left, right in tasks:
        blocks.setdefault((left // side, right // side), []).append((left, right))
    return list(blocks.values())


def _each_result(
    folder: str | os.PathLike[str], blocks: list[list[tuple[int, int]]], limits: _Limits
) -> Generator[tuple[int, tuple[float, float, int]], None, None]:
    """Runs blocks on Ray and gives what each did, with the number of its tasks, as they end."""
    run_block = ray.remote(num_cpus=1, max_retries=limits.max_retries)(_run_block)
    waiting, pending, run = deque(blocks), {}, os.urandom(8).hex()
    try:
        while waiting or pending:
            # Nodes come and go.
            in_flight_max = limits.in_flight_max or 2 * math.ceil(_cores())
            while waiting and len(pending) < in_flight_max:
                block = waiting.popleft()
                pending[run_block.remote(run, os.fspath(folder), block)] = len(block)
            ended, _ = ray.wait(list(pending), num_returns=1)
            for block in ended:
                yield pending.pop(block), _result(block)
    finally:
        if pending:
            _stop(_stop_file(folder, run), list(pending))


def _result(block: Any) -> Any:
    try:
        return ray.get(block)
    except RayTaskError as error:
        raise (error.cause if isinstance(error.cause, Error) else error) from None
    except RayError as error:
        hint = "run again: finished tasks are kept"
        raise Error(f"Ray lost a block of tasks: {error}", hint) from error


def _stop_file(folder: str | os.PathLike[str], run: str) -> str:
    # In the folder of what is not whole yet, which the next run empties.
    return os.path.join(folder, "partial", f"stop-{run}")


def _stop(stop_file: str, blocks: list[Any]) -> None:
    """Asks blocks to stop before their next task, and waits a while for them.

    Not by ``ray.cancel``: Ray 2.60 may abort this process when a block begins just then.
    """
    with suppress(OSError, RayError):
        with open(stop_file, "w"):
            pass
        _, left = ray.wait(blocks, num_returns=len(blocks), timeout=_STOP_SECONDS_MAX)
        if not left:
            os.remove(stop_file)


def _wait_until_seen(plan: Any) -> None:
    """Waits for receipts of other nodes; of one that does not come, the merge says which it is."""
    deadline = time.monotonic() + _SEEN_SECONDS_MAX
    while plan.unfinished() and time.monotonic() < deadline:
        time.sleep(0.5)


# In a worker: the run that it works for, and its plan. A plan checks each tile once.
_opened: tuple[str, Any] | None = None


def _run_block(
    run: str, folder: str, tasks: list[tuple[int, int]]
) -> tuple[float, float, int]:
    """On a worker: runs tasks; returns seconds, processor seconds and the number of pairs."""
    global _opened
    begin, cpu = time.perf_counter(), time.process_time()
    if _opened is None or _opened[0] != run:
        if not os.path.isdir(folder):
            hint = "every node must see the folder of the tiles at the same path"
            raise StoreError(f"{folder} is not there on {socket.gethostname()}", hint)
        _opened = (run, _memfold.TilePlan.open(folder, 1))
    pairs, stop_file = 0, _stop_file(folder, run)
    for task in tasks:
        if os.path.exists(stop_file):
            break
        pairs += _opened[1].run([task])
    return time.perf_counter() - begin, time.process_time() - cpu, pairs


@contextmanager
def _connected() -> Iterator[None]:
    if ray.is_initialized():
        yield
        return
    ray.init()
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _progress(wanted: bool) -> Iterator[Any]:
    """As other functions show it, or without tqdm one line on stderr."""
    with _shown(wanted) as shown:
        if shown is not None or not wanted:
            yield shown
            return
        last = ""

        def show(stage: str, done: int, total: int | None) -> None:
            nonlocal last
            line = f"{stage}: {done}" if total is None else f"{stage}: {done} of {total}"
            if line != last:
                sys.stderr.write(f"\r{line.ljust(len(last))}")
                sys.stderr.flush()
                last = line

        try:
            yield show
        finally:
            sys.stderr.write("\n")

"""memfold.ray: the same answer as on one machine, whatever happens to workers and nodes meanwhile."""

import os
import random
import shutil
import signal
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import make_vectors

import memfold

ray = pytest.importorskip("ray", reason="Ray is not installed: python3 tools/python/test.py --ray")

DIM = 192
THRESHOLD = 0.8
#: 46 tiles, so 1,081 tasks of about a millisecond.
TILE_ROWS_MAX = 600


@pytest.fixture(scope="module")
def cluster():
    """A head without cores and two nodes with one each; in /tmp, because names of sockets are short."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_TMPDIR"] = folder = tempfile.mkdtemp(prefix="r", dir="/tmp")
    head = {"num_cpus": 0, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head | MEMORY)
    for _ in range(2):
        cluster.add_node(num_cpus=1, **MEMORY)
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


MEMORY = {"object_store_memory": 80 * 2**20}


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    return make_vectors(30_000, DIM)


@pytest.fixture(scope="module")
def expected(vectors) -> memfold.Deduplication:
    return memfold.deduplicate(vectors, THRESHOLD)


def join(vectors, folder: Path, **options):
    options = {"tile_rows_max": TILE_ROWS_MAX} | options
    return memfold.ray.deduplicate(vectors, THRESHOLD, folder / "tiles", **options)


def is_same(found: memfold.Deduplication, expected: memfold.Deduplication) -> bool:
    columns = ["survivor", "row", "similarity"]
    clusters = [[one.clusters[name].tolist() for name in columns] for one in (found, expected)]
    return found.pairs_digest == expected.pairs_digest and clusters[0] == clusters[1]


def when_some_have_run(folder: Path, do, tasks: int = 40) -> threading.Thread:
    """Calls a function as soon as so many tasks have run."""

    def watch():
        while finished_in(folder) < tasks:
            time.sleep(0.002)
        do()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def finished_in(folder: Path) -> int:
    try:
        return len(os.listdir(folder / "tiles" / "pairs"))
    except FileNotFoundError:  # made, removed and made again before tasks run
        return 0


def workers() -> list[int]:
    """The workers of this program's cluster that run a block."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if b"ray::_run_block" in (entry / "cmdline").read_bytes() and is_ours(entry.name):
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def is_ours(pid: str) -> bool:
    while pid not in ("0", "1"):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        pid = next(line.split()[1] for line in lines if line.startswith("PPid:"))
        if pid == str(os.getpid()):
            return True
    return False


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_pairs_and_clusters_are_those_of_one_machine(
    shards, cluster, vectors, expected, tmp_path, monkeypatch
):
    paths = [tmp_path / f"{at}.npy" for at in range(shards)]
    for path, part in zip(paths, np.array_split(vectors, shards), strict=True):
        np.save(path, part)
    in_order = memfold.ray._blocks

    def shuffled(tasks, side):
        blocks = in_order(tasks, side)
        random.Random(shards).shuffle(blocks)
        return blocks

    monkeypatch.setattr(memfold.ray, "_blocks", shuffled)
    found = join(paths, tmp_path, block_tiles=shards)
    assert is_same(found, expected)
    assert found.selected.tolist() == expected.selected.tolist()
    assert found.rethreshold(0.95).pair_count == expected.rethreshold(0.95).pair_count
    report = found.report
    assert report.tasks > 500 and report.tasks_resumed == 0 and report.cores == 2
    assert report.blocks == report.tasks if shards == 1 else report.blocks < report.tasks
    assert 0 < report.efficiency <= 1.05 and 0 <= report.tests_saved < 1
    assert report.bytes_read >= report.tile_bytes and report.bytes_written > 0
    assert set(report.seconds) == {"plan", "join", "merge"}


def test_without_options_blocks_have_many_tasks(cluster, vectors, expected, tmp_path):
    found = join(vectors, tmp_path, progress=True)
    assert is_same(found, expected)
    assert 64 <= found.report.blocks < found.report.tasks / 4


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
@pytest.mark.parametrize("max_retries", [3, 0])
def test_a_block_whose_worker_is_killed_is_repeated(
    max_retries, cluster, vectors, expected, tmp_path
):
    killed = []

    def kill():
        while not (found := workers()):
            pass
        os.kill(found[0], signal.SIGKILL)
        killed.append(found[0])

    watch = when_some_have_run(tmp_path, kill)
    if max_retries == 0:
        with pytest.raises(memfold.Error, match="Ray lost a block(.|\n)*finished tasks are kept"):
            join(vectors, tmp_path, block_tiles=8, max_retries=0)
    found = join(vectors, tmp_path, block_tiles=8, max_retries=max_retries)
    watch.join()
    assert killed and killed[0] not in workers()
    assert is_same(found, expected)
    assert (found.report.tasks_resumed > 0) == (max_retries == 0)


def test_a_node_that_is_removed_is_done_without(cluster, vectors, expected, tmp_path):
    node, left = next(iter(cluster.worker_nodes)), []

    def remove():
        cluster.remove_node(node, allow_graceful=False)
        left.append(finished_in(tmp_path))

    watch = when_some_have_run(tmp_path, remove)
    try:
        found = join(vectors, tmp_path, block_tiles=2)
        watch.join()
        assert is_same(found, expected)
        assert left and left[0] < found.report.tasks
    finally:
        cluster.add_node(num_cpus=1, **MEMORY)
        cluster.wait_for_nodes()


def test_a_run_goes_on_where_another_was_interrupted(cluster, vectors, expected, tmp_path):
    when_some_have_run(tmp_path, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        join(vectors, tmp_path, block_tiles=1)
    found = join(vectors, tmp_path)
    assert 40 <= found.report.tasks_resumed < found.report.tasks
    assert is_same(found, expected)
    again = join(vectors, tmp_path)
    assert again.report.tasks_resumed == again.report.tasks and again.report.blocks == 0
    assert is_same(again, expected)


def test_damaged_files_are_named_and_not_tried_again(cluster, vectors, expected, tmp_path):
    join(vectors, tmp_path)
    folder = tmp_path / "tiles"
    pairs = max((folder / "pairs").iterdir(), key=lambda path: path.stat().st_size)
    pairs.write_bytes(pairs.read_bytes()[:-16])
    with pytest.raises(memfold.StoreError, match=f"{pairs.name}: .*\n.*run again") as raised:
        join(vectors, tmp_path)
    assert type(raised.value) is memfold.StoreError
    shutil.rmtree(folder / "pairs")
    tile = folder / "tiles" / "000003.mfi"
    whole = tile.read_bytes()
    torn = bytearray(whole)
    torn[len(torn) // 2] ^= 1
    for damaged in [whole[:-100], bytes(torn)]:
        tile.write_bytes(damaged)
        with pytest.raises(memfold.StoreError, match="000003.mfi") as raised:
            join(vectors, tmp_path)
        assert type(raised.value) is memfold.StoreError and raised.value.hint
    tile.unlink()
    with pytest.raises(memfold.StoreError, match="000003.mfi: the file is missing"):
        join(vectors, tmp_path)
    tile.write_bytes(whole)
    assert is_same(join(vectors, tmp_path), expected)


def test_bad_arguments_say_what_is_wrong(cluster, tmp_path):
    vectors = make_vectors(300)
    for options, message in [
        ({"tiles": "s3://bucket/tiles"}, "a URL\n.*mount it"),
        ({"threshold": 2.0}, "threshold is 2"),
        ({"block_tiles": 0}, "block_tiles is 0"),
        ({"in_flight_max": 0}, "in_flight_max is 0"),
        ({"tile_rows_max": 0}, "tile_rows_max is 0"),
        ({"vectors": tmp_path / "none.npy"}, "none.npy"),
    ]:
        options = {"vectors": vectors, "threshold": 0.9, "tiles": tmp_path / "tiles"} | options
        with pytest.raises(memfold.InputError, match=message):
            memfold.ray.deduplicate(**options)
    join(vectors, tmp_path)
    for other in [vectors[1:], vectors + 1]:
        with pytest.raises(memfold.InputError, match="holds tiles of .*\n.*another folder"):
            join(other, tmp_path)
    plan = memfold._memfold.TilePlan.open(tmp_path / "tiles", 1)
    assert plan.unfinished() == [] and plan.tasks() == sorted(plan.tasks())
    with pytest.raises(memfold.InputError, match="without its vectors"):
        plan.merge(None)


@pytest.mark.skipif("MEMFOLD_DATA" not in os.environ, reason="MEMFOLD_DATA names no real data")
@pytest.mark.parametrize("threshold", [0.85, 0.95])
def test_real_vectors_have_the_pairs_of_one_machine(threshold, cluster, tmp_path):
    path = Path(os.environ["MEMFOLD_DATA"]) / "embeddings" / "vectors_f16.npy"
    expected = memfold.deduplicate(path, threshold)
    for rows in [4_000, 16_384]:
        found = memfold.ray.deduplicate(
            path, threshold, tmp_path / str(rows), tile_rows_max=rows
        )
        assert is_same(found, expected)

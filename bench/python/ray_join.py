"""Joins rows on a Ray cluster of this machine, and in one piece; says one JSON line.

    ray_join.py --data V.npy --threshold 0.95 --cores 2 --tiles FOLDER

The cluster has a head without cores and a node with one core for each of `--cores`. The folder must be new.
`efficiency` is the time that workers spent on blocks, as a share of the cores' time during the join, `processor_share`
what processors did of it; `efficiency_whole` adds this process, and takes the whole run: tiles, join, merge and clusters.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

OBJECT_STORE_BYTES = 80 << 20


def main() -> None:
    options = parse_options()
    folder = tempfile.mkdtemp(prefix="r", dir="/tmp")  # names of sockets are short
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": folder}
    try:
        # What is printed on stdout is ours alone.
        with contextlib.redirect_stdout(sys.stderr), cluster(options.cores):
            line = measure(options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(line))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--threshold", type=float, required=True)
    parser.add_argument("--cores", type=int, required=True)
    parser.add_argument("--tiles", type=Path, required=True)
    return parser.parse_args()


@contextlib.contextmanager
def cluster(cores: int):
    import ray
    from ray.cluster_utils import Cluster

    memory = {"object_store_memory": OBJECT_STORE_BYTES}
    head = {"num_cpus": 0, "include_dashboard": False} | memory
    made = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(cores):
            made.add_node(num_cpus=1, **memory)
        ray.init(address=made.address, log_to_driver=False)
        yield
    finally:
        ray.shutdown()
        made.shutdown()


def measure(options: argparse.Namespace) -> dict:
    import memfold
    import memfold.ray
    import ray

    data, cores = str(options.data), options.cores
    begin = time.perf_counter()
    alone = memfold.deduplicate(data, options.threshold, threads=cores)
    alone_seconds = time.perf_counter() - begin
    begin, used = time.perf_counter(), time.process_time()
    found = memfold.ray.deduplicate(data, options.threshold, options.tiles, threads=cores)
    wall, used = time.perf_counter() - begin, time.process_time() - used
    if found.pairs_digest != alone.pairs_digest:
        sys.exit("Ray gives other pairs than one piece")
    report = found.report
    return {
        "rows": len(found.selected) + len(found.filtered),
        "threshold": options.threshold,
        "cores": cores,
        "pairs": found.pair_count,
        "pairs_digest": found.pairs_digest,
        "wall_seconds": wall,
        "one_piece_seconds": alone_seconds,
        "efficiency": report.efficiency,
        "processor_share": report.cpu_seconds / (cores * report.seconds["join"]),
        "efficiency_whole": (report.busy_seconds + used) / (cores * wall),
        "caller_cpu_seconds": used,
        "tests_saved": report.tests_saved,
        "report": dataclasses.asdict(report),
        "ray": ray.__version__,
        "python": ".".join(map(str, sys.version_info[:3])),
    }


if __name__ == "__main__":
    main()

"""memfold dedup, by its own account of preparing and joining; the time of the whole process stands beside it."""

import json
import subprocess
import tempfile
from pathlib import Path

from joins import Engine, Joined, PairCollector, Stopwatch, Task


def join(task: Task) -> Joined:
    if task.memfold is None:
        raise ImportError("memfold: --memfold names no binary")
    command: list[str | Path] = [task.memfold, "dedup", task.data]
    command += ["--threshold", str(task.threshold)]
    command += ["--threads", str(task.threads), "--json", "--quiet"]
    watch = Stopwatch()
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    process_seconds = watch.lap()
    answer = json.loads(said)
    seconds = answer["seconds"]
    return Joined(
        seconds["prepare"],
        seconds["join"],
        found_pairs(task, command),
        peak_rss_bytes=answer["peak_rss_bytes"],
        notes={key: answer[key] for key in ("pairs_digest", "isa", "peak_anon_bytes", "seconds")}
        | {"process_seconds": process_seconds},
    )


def found_pairs(task: Task, command: list[str | Path]) -> PairCollector:
    """Runs once more, off the clock, and writes the pairs."""
    import pyarrow.parquet

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pairs.parquet"
        subprocess.run([*command, "--pairs", file], check=True, stdout=subprocess.DEVNULL)
        table = pyarrow.parquet.read_table(file)
    collector = PairCollector(len(task.vectors), task.threshold)
    columns = (table[name].to_numpy() for name in ("left", "right", "similarity"))
    collector.add(*columns)
    return collector


ENGINE = Engine("memfold", None, lambda _: [{}], join)

"""Runs engines in turn on the same rows; says one JSON line for each (engine, setting, threshold).

Each run is a process of its own with limits of time and memory. Progress goes to stderr.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
POLL_SECONDS = 0.2
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)

# (Runs, if one takes less than so many seconds.)
REPETITIONS = ((5, 1.0), (3, 10.0), (1, float("inf")))


@dataclass
class Case:
    """An engine at a setting and a threshold, with what its runs said."""

    engine: str
    setting: dict[str, Any]
    threshold: float
    answers: list[dict[str, Any]] = field(default_factory=list)

    def wants_another(self, once: bool) -> bool:
        if not self.answers:
            return True
        if once or self.answers[-1]["outcome"] != "done":
            return False
        seconds = statistics.median(self.totals())
        return len(self.answers) < next(runs for runs, limit in REPETITIONS if seconds < limit)

    def suffices_for(self, other: "Case", enough: float | None) -> bool:
        """Whether the other is the same engine with more effort, and this one found enough."""
        if enough is None or self is other or not self.answers or other.answers:
            return False
        same = (self.engine, self.threshold) == (other.engine, other.threshold)
        return same and self.answers[0].get("pair_recall", 0.0) >= enough

    def totals(self) -> list[float]:
        return [answer["seconds"]["total"] for answer in self.answers if "seconds" in answer]

    def line(self) -> dict[str, Any]:
        """The last answer if it failed, else the one in the middle."""
        if self.answers[-1]["outcome"] == "done":
            by_total = sorted(self.answers, key=lambda answer: answer["seconds"]["total"])
            answer = by_total[len(by_total) // 2] | {"totals": self.totals()}
        else:
            answer = self.answers[-1]
        return {
            "engine": self.engine,
            "setting": self.setting,
            "threshold": self.threshold,
        } | answer


def main() -> None:
    options = parse_options()
    # Only so many threads here, too, and before numpy is loaded.
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(options.threads)))
    import truth
    import vectors
    from engines import ENGINES

    row_count, dim = vectors.load(options.data).shape
    if not truth.covers(options.truth, options.data, min(options.threshold)):
        say(f"truth: comparing {row_count} rows with each other")
        truth.make(options.data, min(options.threshold), options.truth)
    names = options.engines.split(",") if options.engines else list(ENGINES)
    if unknown := [name for name in names if name not in ENGINES]:
        sys.exit(f"no such engine: {', '.join(unknown)}; there are {', '.join(ENGINES)}")
    cases = [
        Case(name, setting, threshold)
        for threshold in options.threshold
        for name in names
        for setting in ENGINES[name].settings(row_count)
    ]
    while pending := [case for case in cases if case.wants_another(options.once)]:
        for case in pending:
            if not any(other.suffices_for(case, options.enough) for other in cases):
                take_turn(case, options)
        cases = [case for case in cases if case.answers]
    shared = {"data": options.name, "rows": row_count, "dim": dim, "threads": options.threads}
    for case in cases:
        print(json.dumps(shared | case.line()), flush=True)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="npy, Arrow or Parquet")
    parser.add_argument("--name", required=True, help="what the rows are, as shown in tables")
    parser.add_argument("--truth", type=Path, help=".npz, made if it is missing, or Parquet")
    parser.add_argument("--threshold", type=float, nargs="+", default=[0.85])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--engines", help="names, with commas [default: all]")
    parser.add_argument("--memfold", type=Path, help="the binary")
    parser.add_argument("--once", action="store_true", help="run the fast ones only once, too")
    parser.add_argument("--enough", type=float, help="pair recall that ends an engine's settings")
    parser.add_argument("--seconds-max", type=float, default=600.0, help="for one process")
    parser.add_argument("--gibibytes-max", type=float, default=16.0, help="resident, one process")
    options = parser.parse_args()
    options.truth = options.truth or options.data.with_suffix(".truth.npz")
    return options


def take_turn(case: Case, options: argparse.Namespace) -> None:
    answer = run_once(case, options)
    case.answers.append(answer)
    seconds = answer.get("seconds", {}).get("total")
    shown = f"{seconds:.2f} s, recall {answer['pair_recall']:.5f}" if seconds else answer["outcome"]
    say(f"{case.engine} {json.dumps(case.setting)} ≥ {case.threshold}: {shown}")


def run_once(case: Case, options: argparse.Namespace) -> dict[str, Any]:
    task = {
        "engine": case.engine,
        "setting": case.setting,
        "threshold": case.threshold,
        "threads": options.threads,
        "data": str(options.data),
        "truth": str(options.truth),
        "memfold": str(options.memfold) if options.memfold else None,
    }
    process = subprocess.Popen(
        [sys.executable, HERE / "one.py", json.dumps(task)],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    outcome = watch(process, options)
    assert process.stdout is not None
    said = process.stdout.read().decode()
    if outcome is not None:
        return {"outcome": outcome}
    # Engines print, too; the answer is the last line.
    lines = said.splitlines()
    if process.returncode != 0 or not lines:
        return {"outcome": f"ended with {process.returncode}"}
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer


def watch(process: "subprocess.Popen[bytes]", options: argparse.Namespace) -> str | None:
    """Waits for the end, and ends what takes too long or too much."""
    deadline = time.monotonic() + options.seconds_max
    while process.poll() is None:
        if time.monotonic() > deadline:
            return end(process, f"not within {options.seconds_max:.0f} s")
        if resident_bytes(process.pid) > options.gibibytes_max * 2**30:
            return end(process, f"not within {options.gibibytes_max:g} GiB")
        time.sleep(POLL_SECONDS)
    return None


def end(process: "subprocess.Popen[bytes]", outcome: str) -> str:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return outcome


def resident_bytes(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

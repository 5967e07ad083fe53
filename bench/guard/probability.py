"""Fits the weights of the guard's probability and tests them; prints both.

    python3 bench/guard/probability.py DATA/text

Fitted on STS-B (the same: nearer to 4, "mostly equivalent", than to 3) and on the pairs of ``pairs.tsv``. Tested on STS-B by
cross-validation and on ``real_pairs_dev.jsonl``, of which nothing is fitted. Builds the two examples that judge and
embed pairs. Needs Python 3 and Cargo.
"""

import argparse
import json
import math
import random
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAIRS = ROOT / "bench/guard/pairs.tsv"
# Pairs a little below those that are proposed are fitted, too.
COSINE_MIN = 0.75
STS_SAME = 3.5
# What the own pairs weigh together beside those of STS-B.
OWN_SHARE = 0.5
FOLDS = 10
RIDGE = 1.0


def example(package, name, *arguments, stdin=None):
    command = ["cargo", "run", "--quiet", "--locked", "-p", package, "--example", name, "--", *arguments]
    return subprocess.run(command, check=True, cwd=ROOT, stdin=stdin, stdout=subprocess.PIPE, text=True).stdout


def judged(rows):
    """Returns the rows that a run could propose, each with its features, probability and label."""
    with tempfile.TemporaryDirectory() as folder:
        pairs, verdicts = Path(folder) / "pairs", Path(folder) / "verdicts"

        def write():
            pairs.write_text("".join(json.dumps(row) + "\n" for row in rows))

        write()
        if any("cosine" not in row for row in rows):
            with pairs.open() as stdin:
                cosines = example("memfold-datasets", "similarities", stdin=stdin).split()
            rows = [{"cosine": float(cosine), **row} for row, cosine in zip(rows, cosines)]
            write()
        example("memfold-guard", "verdicts", "--pairs", pairs, "--verdicts", verdicts)
        found = [{**row, **json.loads(line)} for row, line in zip(rows, verdicts.read_text().splitlines())]
    open_ = [row for row in found if row["could_be_same"] and row["verdict"] not in ("same", "conflict", "different")]
    return [row for row in open_ if row["cosine"] >= COSINE_MIN]


def solve(matrix, vector):
    """Solves a symmetric positive system by Gaussian elimination."""
    n = len(vector)
    rows = [[*row, value] for row, value in zip(matrix, vector)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda at: abs(rows[at][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for j in range(n):
            if j != i:
                factor = rows[j][i] / rows[i][i]
                rows[j] = [x - factor * y for x, y in zip(rows[j], rows[i])]
    return [rows[i][n] / rows[i][i] for i in range(n)]


def probability(weights, features):
    return 1 / (1 + math.exp(-sum(w * x for w, x in zip(weights, [*features, 1.0]))))


def fit(rows):
    """Logistic regression with a ridge, by Newton's method; the last weight is the bias."""
    n = len(rows[0]["features"]) + 1
    weights = [0.0] * n
    for _ in range(25):
        gradient = [-RIDGE * w for w in weights[:-1]] + [0.0]
        hessian = [[RIDGE * (i == j) * (i < n - 1) + 1e-9 * (i == j) for j in range(n)] for i in range(n)]
        for row in rows:
            x = [*row["features"], 1.0]
            p = probability(weights, row["features"])
            error, curve = row["weight"] * (row["same"] - p), row["weight"] * p * (1 - p)
            for i in range(n):
                gradient[i] += error * x[i]
                for j in range(n):
                    hessian[i][j] += curve * x[i] * x[j]
        step = solve(hessian, gradient)
        weights = [w + s for w, s in zip(weights, step)]
        if max(map(abs, step)) < 1e-9:
            break
    return weights


def area(scores, labels):
    """The area under the curve: how often a pair that says the same stands before one that does not."""
    pairs = [(s, t) for s, one in zip(scores, labels) if one for t, other in zip(scores, labels) if not other]
    return sum((s > t) + 0.5 * (s == t) for s, t in pairs) / len(pairs)


def interval(scores, labels, draws=2000):
    """The middle 95 % of areas of samples drawn with replacement."""
    generator = random.Random(1)
    found = []
    while len(found) < draws:
        sample = [generator.randrange(len(scores)) for _ in scores]
        drawn = [labels[i] for i in sample]
        if 0 < sum(drawn) < len(drawn):
            found.append(area([scores[i] for i in sample], drawn))
    found.sort()
    return found[draws // 40], found[-draws // 40]


def reliability(rows, probabilities):
    print(f"  {'bin':>9}  {'pairs':>5}  {'said':>5}  {'same':>5}")
    error = 0.0
    for bin_ in range(10):
        members = [(p, row["same"]) for row, p in zip(rows, probabilities) if min(int(p * 10), 9) == bin_]
        if members:
            said, same = (sum(values) / len(members) for values in zip(*members))
            error += abs(said - same) * len(members) / len(rows)
            print(f"  {bin_ / 10:.1f} - {(bin_ + 1) / 10:.1f}  {len(members):5}  {said:.3f}  {same:.3f}")
    print(f"  expected calibration error {error:.4f} over {len(rows)} pairs")


def ordered(name, rows, scores):
    labels = [row["same"] for row in rows]
    low, high = interval(scores, labels)
    order = sorted(range(len(rows)), key=lambda i: -scores[i])
    half = order[: len(order) // 2]
    right = sum(bool(labels[i] or rows[i]["contained"]) for i in half)
    print(f"  {name:12} area {area(scores, labels):.3f} ({low:.3f} to {high:.3f}), first half {right} of {len(half)} the same or contained")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    data = parser.parse_args().data

    def lines(name):
        return [json.loads(line) for line in (data / f"{name}.jsonl").read_text().splitlines()]

    own = [line.split("\t") for line in PAIRS.read_text().splitlines() if line and not line.startswith("#")]
    own = judged([{"a": a, "b": b, "same": float(label != "other")} for label, a, b in own])
    sts = [{"a": row["a"], "b": row["b"], "same": float(row["label"] >= STS_SAME)} for row in lines("stsb_dev")]
    sts = judged(sts)
    for row in sts:
        row["weight"] = 1.0
    for row in own:
        row["weight"] = OWN_SHARE * len(sts) / len(own)
    print(f"fitted on {len(sts)} pairs of STS-B and {len(own)} own pairs")
    weights = fit(sts + own)
    print("weights", ", ".join(f"{w:.3f}" for w in weights[:-1]), "bias", f"{weights[-1]:.3f}")

    print(f"STS-B, {FOLDS} folds:")
    random.Random(1).shuffle(sts)
    held_out = []
    for fold in range(FOLDS):
        training = [row for i, row in enumerate(sts) if i % FOLDS != fold]
        learnt = fit(training + own)
        held_out += [(row, probability(learnt, row["features"])) for i, row in enumerate(sts) if i % FOLDS == fold]
    reliability(*zip(*held_out))
    print(f"  area {area([p for _, p in held_out], [row['same'] for row, _ in held_out]):.3f},"
          f" cosine alone {area([row['cosine'] for row in sts], [row['same'] for row in sts]):.3f}")

    real = judged([{**row, "same": float(row["label"] == "same"), "contained": row["label"] == "overlap"} for row in lines("real_pairs_dev")])
    print(f"real pairs, {len(real)} that a run could propose, none of them fitted:")
    ordered("probability", real, [probability(weights, row["features"]) for row in real])
    ordered("cosine", real, [row["cosine"] for row in real])


if __name__ == "__main__":
    main()

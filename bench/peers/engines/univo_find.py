"""univo's Finder.find, complete by default, on vectors that are given as a model of one word for each row."""

import json
import os
import struct
import tempfile
from pathlib import Path

import numpy as np

from joins import Engine, Joined, PairCollector, Stopwatch, Task, Vectors


def write_model(folder: Path, vectors: Vectors) -> None:
    """Writes a Model2Vec model in which the word `t17` has the vector of row 17."""
    table = np.concatenate([np.zeros((2, vectors.shape[1]), np.float32), vectors])
    words = ["[PAD]", "[UNK]", *(f"t{row}" for row in range(len(vectors)))]
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {
            "type": "WordLevel",
            "vocab": {word: row for row, word in enumerate(words)},
            "unk_token": "[UNK]",
        },
    }
    config = {"model_type": "model2vec", "hidden_dim": vectors.shape[1], "normalize": True}
    layout = {"dtype": "F32", "shape": table.shape, "data_offsets": [0, table.nbytes]}
    header = json.dumps({"embeddings": layout}).encode()
    header += b" " * (-len(header) % 8)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "config.json").write_text(json.dumps(config))
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        table.tofile(file)


def join(task: Task) -> Joined:
    from univo import Finder, Schema, Text

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: task.threads])
    records = [{"text": f"t{row}"} for row in range(len(task.vectors))]
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder), task.vectors)
        finder = Finder(
            schema=Schema(fields={"text": Text(mode="semantic")}),
            model_path=folder,
            threads=task.threads,
            max_records=len(records),
            max_semantic_comparisons=len(records) ** 2,
        )
        # Loads the model.
        finder.find(records[:2])
        watch = Stopwatch()
        found = finder.find(records, min_score=task.threshold, limit=10**8)
        search = watch.lap()
    matches = found.matches
    left = np.fromiter((match.left_id for match in matches), np.int64, len(matches))
    right = np.fromiter((match.right_id for match in matches), np.int64, len(matches))
    score = np.fromiter((match.score for match in matches), np.float64, len(matches))
    collector = PairCollector(len(records), task.threshold)
    collector.add(left, right, score)
    return Joined(0.0, search, collector)


ENGINE = Engine("univo", "univo", lambda _: [{}], join)

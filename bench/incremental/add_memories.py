#!/usr/bin/env python3
"""Adds memories to a brain.db as its owner would: `add_memories.py STORE COUNT`.

Each is near a memory that is there: a third has a text of its own, half have a vector a little apart.
"""

import datetime
import random
import sqlite3
import struct
import sys

SEED = 77
FIRST = datetime.datetime(2026, 3, 1)


def main():
    store, count = sys.argv[1], int(sys.argv[2])
    random.seed(SEED)
    connection = sqlite3.connect(store)
    (last,) = connection.execute("SELECT max(rowid) FROM stm").fetchone()
    for number in range(count):
        row = None
        while row is None:
            row = connection.execute(
                "SELECT s.content, s.categories, s.importance, e.embedding, e.model FROM stm s"
                " JOIN embeddings e ON e.source_type = 'stm' AND e.source_id = s.id"
                " WHERE s.rowid = ? AND s.source NOT LIKE 'archived%'",
                (random.randint(1, last),),
            ).fetchone()
        content, categories, importance, embedding, model = row
        if number % 3 == 0:
            content += f" Ticket {random.randint(1, 10**6)}."
        if number % 2 == 1:
            vector = list(struct.unpack(f"<{len(embedding) // 4}f", embedding))
            vector[0] += 0.01 * random.random()
            embedding = struct.pack(f"<{len(vector)}f", *vector)
        at = (FIRST + datetime.timedelta(seconds=number)).isoformat()
        name = f"stm_added{number:06d}"
        connection.execute(
            "INSERT INTO stm (id, content, categories, importance, access_count, created_at, updated_at, source)"
            " VALUES (?, ?, ?, ?, 0, ?, ?, 'agent')",
            (name, content, categories, importance, at, at),
        )
        connection.execute(
            "INSERT INTO embeddings (id, source_type, source_id, content, embedding, model, created_at)"
            " VALUES (?, 'stm', ?, ?, ?, ?, ?)",
            ("emb_" + name, name, content[:1000], embedding, model, at),
        )
    connection.commit()


if __name__ == "__main__":
    main()

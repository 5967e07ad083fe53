#!/usr/bin/env python3
"""Makes a store of another system as its owner would: `make_store.py KIND COUNT STORE`.

KIND is json_folder (a file for each memory, 500 to an agent, with indexes), git_notes (a note for each memory, and
an index.db with vectors), mcp_memory (a memory.jsonl, 20 observations to an entity) or markdown (a folder of files,
500 bullets to a file, 20 to a heading). `make_store.py vectors 0
MIRROR` gives every memory of a mirror a vector. One memory in twenty says what an earlier one says; equal texts have
equal vectors. The same call makes the same store.
"""

import hashlib
import json
import os
import random
import sqlite3
import struct
import subprocess
import sys

DIM = 384
MODEL = "all-MiniLM-L6-v2"
AT = "2026-01-05T10:00:00Z"
# Vectors of one chunk, as sqlite-vec keeps them.
PLACES = 1024
WORDS = [a + b for a in "ba de ki lo mu na pe ri so tu va ze".split() for b in "lt mor nik pel rus san tor vin".split()]


def body(number):
    """The text of a memory; one in twenty says what the one ten before it says."""
    if number % 20 == 19:
        number -= 10
    rng = random.Random(number)
    lines = [f"Memory {number}: port {rng.randint(1000, 9999)} of {rng.choice(WORDS)}."]
    for _ in range(8):
        lines.append(" ".join(rng.choice(WORDS) for _ in range(9)).capitalize() + f" {rng.randint(1, 10**6)}.")
    return " ".join(lines)


def vector(text):
    rng = random.Random(hashlib.sha256(text.encode()).digest())
    values = [rng.gauss(0, 1) for _ in range(DIM)]
    norm = sum(value * value for value in values) ** 0.5
    return struct.pack(f"<{DIM}f", *(value / norm for value in values))


def json_folder(count, store):
    for first in range(0, count, 500):
        agent = f"DEV-{first // 500 + 1:03d}"
        folder = os.path.join(store, "agents", agent)
        os.makedirs(folder)
        listed = []
        for number in range(first, min(first + 500, count)):
            entry = {
                "id": f"mem_{number:012d}", "type": "factual", "subtype": "note", "created_by": agent,
                "created_at": AT, "updated_at": AT, "last_accessed": AT, "scope": "agent", "scope_id": agent,
                "tags": ["deploy", f"topic{number % 7}" if number % 20 != 19 else f"topic{(number - 10) % 7}"],
                "priority": "medium", "content": {"fact": body(number)}, "access_count": 3,
            }
            with open(os.path.join(folder, f"{entry['id']}.json"), "w") as file:
                json.dump(entry, file, indent=2)
            listed.append({"id": entry["id"], "type": "factual", "file_path": f"{entry['id']}.json"})
        with open(os.path.join(folder, "_index.json"), "w") as file:
            index = {"version": "1.0.0", "entry_count": len(listed), "entries": listed, "tag_index": {}, "type_index": {}}
            json.dump(index, file, indent=2)


def git_notes(count, store):
    subprocess.run(["git", "init", "--quiet", store], check=True)
    stream, memories = [], []
    stream.append("commit refs/notes/mem/learnings\ncommitter a <a@localhost> 1700000000 +0000\ndata 0\n\n")
    for number in range(count):
        commit = hashlib.sha1(str(number).encode()).hexdigest()
        # The first sentence is the summary.
        summary, rest = body(number).split(". ", 1)
        text = f"---\ntype: learnings\ntimestamp: '{AT}'\nsummary: '{summary}'\n---\n\n{rest}\n"
        stream.append(f"M 100644 inline {commit[:2]}/{commit[2:]}\ndata {len(text.encode())}\n{text}\n")
        memories.append((f"learnings:{commit}:0", summary, rest, vector(f"{summary}\n{rest}")))
    command = ["git", "fast-import", "--quiet", "--force"]
    subprocess.run(command, cwd=store, input="".join(stream).encode(), check=True)
    os.makedirs(os.path.join(store, ".memory"))
    connection = sqlite3.connect(os.path.join(store, ".memory", "index.db"))
    connection.executescript(
        "CREATE TABLE memories (id TEXT PRIMARY KEY, commit_sha TEXT, namespace TEXT, summary TEXT, content TEXT,"
        " timestamp TEXT, repo_path TEXT, spec TEXT, phase TEXT, tags TEXT, status TEXT DEFAULT 'active',"
        " relates_to TEXT, created_at TEXT, updated_at TEXT);"
        "CREATE TABLE vec_memories_chunks (chunk_id INTEGER PRIMARY KEY AUTOINCREMENT, size INTEGER NOT NULL,"
        " validity BLOB NOT NULL, rowids BLOB NOT NULL);"
        "CREATE TABLE vec_memories_rowids (rowid INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL,"
        " chunk_id INTEGER, chunk_offset INTEGER);"
        "CREATE TABLE vec_memories_vector_chunks00 (rowid PRIMARY KEY, vectors BLOB NOT NULL);"
    )
    connection.executemany(
        "INSERT INTO memories (id, summary, content) VALUES (?, ?, ?)", (memory[:3] for memory in memories)
    )
    for chunk, first in enumerate(range(0, count, PLACES), 1):
        inside = memories[first : first + PLACES]
        for offset, memory in enumerate(inside):
            sql = "INSERT INTO vec_memories_rowids (id, chunk_id, chunk_offset) VALUES (?, ?, ?)"
            connection.execute(sql, (memory[0], chunk, offset))
        validity = bytes(
            sum(1 << bit for bit in range(8) if byte * 8 + bit < len(inside)) for byte in range(PLACES // 8)
        )
        vectors = b"".join(memory[3] for memory in inside).ljust(PLACES * DIM * 4, b"\0")
        sql = "INSERT INTO vec_memories_chunks (size, validity, rowids) VALUES (?, ?, ?)"
        connection.execute(sql, (PLACES, validity, bytes(PLACES * 8)))
        connection.execute("INSERT INTO vec_memories_vector_chunks00 VALUES (?, ?)", (chunk, vectors))
    connection.commit()


def mcp_memory(count, store):
    with open(store, "w") as file:
        for first in range(0, count, 20):
            observations = [body(number) for number in range(first, min(first + 20, count))]
            entity = {"type": "entity", "name": f"Entity {first // 20}", "entityType": "thing"}
            file.write(json.dumps({**entity, "observations": observations}, separators=(",", ":")) + "\n")


def markdown(count, store):
    os.makedirs(store)
    for first in range(0, count, 500):
        lines = ["# Notes", ""]
        for number in range(first, min(first + 500, count)):
            lines += ["", f"## Overview {number // 20}", ""] if number % 20 == 0 else []
            lines.append(f"- {body(number)}")
        name = "MEMORY.md" if first == 0 else f"notes-{first // 500}.md"
        with open(os.path.join(store, name), "w") as file:
            file.write("\n".join(lines) + "\n")


def vectors(_, mirror):
    connection = sqlite3.connect(mirror)
    rows = connection.execute(
        "SELECT id, content FROM stm WHERE id NOT IN (SELECT source_id FROM embeddings WHERE source_type = 'stm')"
    ).fetchall()
    connection.executemany(
        "INSERT INTO embeddings (id, source_type, source_id, content, embedding, model, created_at)"
        " VALUES (?, 'stm', ?, ?, ?, ?, ?)",
        (("emb_" + name, name, text[:1000], vector(text), MODEL, AT) for name, text in rows),
    )
    connection.commit()


if __name__ == "__main__":
    makers = [json_folder, git_notes, mcp_memory, markdown, vectors]
    next(maker for maker in makers if maker.__name__ == sys.argv[1])(int(sys.argv[2]), sys.argv[3])

"""Exports made by the packages themselves: ``exports.py PROGRAM FOLDER``, with the packages of ``exports.txt``.

Each store is filled, exported, deduplicated by ``memfold consolidate`` and freed of what was left out through the package's
own interface; prints a line of JSON for each: records before, left out, after.
"""

import hashlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path

PROGRAM, FOLDER = sys.argv[1], Path(sys.argv[2])
SAID = ["The API deploys every Friday at 5 pm", "Bob likes green tea", "Staging runs Postgres 16"]
# Each text in two writings that say the same, and one that differs in a value.
CHANGED = [("Friday", "Monday"), ("green", "black"), ("16", "17")]
TEXTS = [form for text, change in zip(SAID, CHANGED) for form in (text, f"{text}.", text.replace(*change))]
IDS = [f"m{at}" for at in range(len(TEXTS))]


def vector(text):
    """Returns a direction that both writings of a text share."""
    seed = hashlib.sha256(text.rstrip(".").encode()).digest()
    return [random.Random(seed + bytes([at])).uniform(-1, 1) for at in range(32)]


def removed(name, export):
    """Runs memfold over an export and returns the ids that it left out."""
    source, output = FOLDER / f"{name}.json", FOLDER / f"{name}.clean.json"
    source.write_text(json.dumps(export))
    words = [PROGRAM, "consolidate", source, "--execute", "--output", output]
    subprocess.run(words, check=True, capture_output=True)
    lines = Path(f"{output}.removed.jsonl").read_text().splitlines()
    return [json.loads(line)["id"] for line in lines]


def chroma():
    import chromadb

    client = chromadb.PersistentClient(str(FOLDER / "chroma"))
    notes = client.create_collection("notes", embedding_function=None)
    notes.add(ids=IDS, documents=TEXTS, embeddings=[vector(text) for text in TEXTS])
    gone = removed("chroma", notes.get())
    notes.delete(ids=gone)
    return gone, notes.count()


def chroma_table():
    """Chroma's own file: read in place, and freed through its interface of the ids that memfold lists."""
    import chromadb

    client = chromadb.PersistentClient(str(FOLDER / "chroma-table"))
    notes = client.create_collection("notes", embedding_function=None)
    notes.add(ids=IDS, documents=TEXTS, embeddings=[vector(text) for text in TEXTS])
    source, output = FOLDER / "chroma-table/chroma.sqlite3", FOLDER / "gone.jsonl"
    words = [PROGRAM, "consolidate", source, "--ids", output, "--now", "2030-01-01T00:00:00Z"]
    place = {**os.environ, "XDG_STATE_HOME": str(FOLDER / "state")}
    subprocess.run(words, check=True, capture_output=True, env=place)
    gone = [json.loads(line)["id"] for line in output.read_text().splitlines()]
    notes.delete(ids=gone)
    return gone, notes.count()


def qdrant():
    from qdrant_client import QdrantClient, models

    client = QdrantClient(path=str(FOLDER / "qdrant"))
    params = models.VectorParams(size=32, distance=models.Distance.COSINE)
    client.create_collection("notes", vectors_config=params)
    points = [
        models.PointStruct(id=at, vector=vector(text), payload={"text": text})
        for at, text in enumerate(TEXTS, 1)
    ]
    client.upsert("notes", points)
    exported = client.scroll("notes", limit=10**6, with_vectors=True)[0]
    gone = removed("qdrant", [point.model_dump() for point in exported])
    client.delete("notes", models.PointIdsList(points=[int(id) for id in gone]))
    return gone, client.count("notes").count


def lancedb():
    import lancedb as package

    rows = [{"id": id, "text": text, "vector": vector(text)} for id, text in zip(IDS, TEXTS)]
    table = package.connect(FOLDER / "lancedb").create_table("notes", rows)
    gone = removed("lancedb", json.loads(table.to_pandas().to_json(orient="records")))
    table.delete("id in ({})".format(", ".join(f"'{id}'" for id in gone)))
    return gone, table.count_rows()


def langchain():
    from langchain_core.documents import Document
    from langchain_core.vectorstores import InMemoryVectorStore
    from langchain_core.embeddings import DeterministicFakeEmbedding

    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=32))
    documents = [Document(id=id, page_content=text) for id, text in zip(IDS, TEXTS)]
    store.add_documents(documents)
    gone = removed("langchain", [document.model_dump() for document in documents])
    store.delete(gone)
    return gone, len(store.store)


def mem0():
    os.environ.update(MEM0_TELEMETRY="False", MEM0_DIR=str(FOLDER / "mem0"), OPENAI_API_KEY="none")
    from mem0 import Memory
    from mem0.embeddings.base import EmbeddingBase
    from mem0.utils.factory import EmbedderFactory

    class Embedder(EmbeddingBase):
        def embed(self, text, memory_action=None):
            return vector(text)

        def embed_batch(self, texts, memory_action=None):
            return [vector(text) for text in texts]

    EmbedderFactory.create = classmethod(lambda *_, **__: Embedder())
    place = {"path": str(FOLDER / "mem0-vectors"), "embedding_model_dims": 32}
    memory = Memory.from_config({"vector_store": {"provider": "qdrant", "config": place}})
    for text in TEXTS:
        memory.add(text, user_id="ann", infer=False)
    exported = memory.get_all(filters={"user_id": "ann"})
    # Young memories are protected: these were made a moment ago.
    for record in exported["results"]:
        record["created_at"] = record["updated_at"] = "2026-01-01T00:00:00Z"
    gone = removed("mem0", exported)
    for id in gone:
        memory.delete(id)
    return gone, len(memory.get_all(filters={"user_id": "ann"})["results"])


for visit in (chroma, chroma_table, qdrant, lancedb, langchain, mem0):
    gone, after = visit()
    document = {"system": visit.__name__, "before": len(TEXTS), "gone": len(gone), "after": after}
    print(json.dumps(document), flush=True)

"""What tests share: vectors with known near-duplicates, and a store."""

import doctest
import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest

import memfold

DIM = 32


def make_vectors(rows: int, dim: int = DIM, seed: int = 7) -> np.ndarray:
    """Returns vectors of which every third is near an earlier one, and every eleventh equal."""
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((rows, dim)).astype(np.float32)
    for row in range(1, rows):
        if row % 11 == 0:
            vectors[row] = vectors[random.integers(row)]
        elif row % 3 == 0:
            noise = random.standard_normal(dim) * random.uniform(0.05, 0.6)
            vectors[row] = vectors[random.integers(row)] + noise
    return vectors


def brute_force(vectors: np.ndarray, threshold: float) -> dict[tuple[int, int], float]:
    """Returns all pairs at or above a threshold, compared one by one in float64."""
    exact = vectors.astype(np.float64)
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    cosines = exact @ exact.T
    left, right = np.nonzero(np.triu(cosines >= threshold, k=1))
    pairs = zip(left.tolist(), right.tolist(), strict=True)
    return {pair: cosines[pair] for pair in pairs}


def make_store(path: Path, memories: list[tuple[str, str, np.ndarray | None]]) -> Path:
    """Makes a brain.db with memories: id, text, vector."""
    db = sqlite3.connect(path)
    db.executescript(
        """
        CREATE TABLE stm (id TEXT PRIMARY KEY, content TEXT NOT NULL, categories TEXT,
            importance REAL DEFAULT 1.0, access_count INTEGER DEFAULT 0, created_at TEXT NOT NULL,
            updated_at TEXT, expires_at TEXT, source TEXT DEFAULT 'agent', source_message_id TEXT);
        CREATE TABLE embeddings (id TEXT PRIMARY KEY, source_type TEXT NOT NULL,
            source_id TEXT NOT NULL, content TEXT, embedding BLOB NOT NULL, model TEXT,
            created_at TEXT NOT NULL, UNIQUE(source_type, source_id));
        CREATE VIRTUAL TABLE stm_fts USING fts5(content, content='', content_rowid='');
        """
    )
    for at, (id, text, vector) in enumerate(memories):
        made = f"2026-01-{at % 28 + 1:02}T12:00:00"
        row = db.execute(
            "INSERT INTO stm (id, content, categories, created_at) VALUES (?, ?, ?, ?)",
            (id, text, json.dumps(["general"]), made),
        ).lastrowid
        db.execute("INSERT INTO stm_fts (rowid, content) VALUES (?, ?)", (row, text))
        if vector is not None:
            db.execute(
                "INSERT INTO embeddings VALUES (?, 'stm', ?, ?, ?, 'test', ?)",
                (f"emb_{at:012x}", id, text, vector.astype("<f4").tobytes(), made),
            )
    db.commit()
    db.close()
    return path


def texts_of(path: Path) -> dict[str, str]:
    """Returns the live memories of a store, by id."""
    db = sqlite3.connect(path)
    rows = db.execute("SELECT id, content FROM stm WHERE source NOT LIKE 'archived:%'").fetchall()
    db.close()
    return dict(rows)


SAID = [
    ("m1", "The deploy port is 8080."),
    ("m2", "The deploy port is 8080"),
    ("m3", "The staging database runs on Postgres 15."),
    ("m4", "The staging database runs on Postgres 16."),
    ("m5", "Anna prefers short meetings on Mondays."),
    ("m6", "Backups are kept for thirty days."),
]


@pytest.fixture
def said() -> dict[str, np.ndarray]:
    """The vectors of the store's memories: m1 and m2, m3 and m4 are near each other."""
    random = np.random.default_rng(3)
    base = random.standard_normal((6, DIM)).astype(np.float32)
    base[1] = base[0] + 0.01 * base[1]
    base[3] = base[2] + 0.01 * base[3]
    return {id: base[at] for at, (id, _) in enumerate(SAID)}


@pytest.fixture
def store(tmp_path: Path, said: dict[str, np.ndarray], monkeypatch) -> Path:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return make_store(tmp_path / "brain.db", [(id, text, said[id]) for id, text in SAID])


def run_examples(text: str, name: str, folder: Path, known: dict | None = None) -> int:
    """Runs the examples (``>>>``) of a text as one session; returns how many there are."""
    names = {"memfold": memfold, "np": np, **(known or {})}
    test = doctest.DocTestParser().get_doctest(text, names, name, name, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    report: list[str] = []
    result = runner.run(test, out=report.append)
    assert result.failed == 0, "".join(report)
    return result.attempted

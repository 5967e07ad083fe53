"""Saves memories as the owner of a brain.db does, until a file appears: writer.py STORE STOP_FILE.

WAL, busy_timeout 5000, foreign keys, BEGIN IMMEDIATE, a row of stm and its row of stm_fts in one
transaction, and a read that counts accesses. Prints what it did as JSON."""

import json
import os
import secrets
import sqlite3
import sys
import time

store, stop_file = sys.argv[1:3]
connection = sqlite3.connect(store, isolation_level=None)
for setting in ("journal_mode=WAL", "busy_timeout=5000", "foreign_keys=ON"):
    connection.execute(f"PRAGMA {setting}").fetchall()
waits, texts, lock_errors = [], {}, 0
while not os.path.exists(stop_file):
    memory = f"stm_{secrets.token_hex(6)}"
    text = f"The Python writer noted {secrets.token_hex(8)}."
    start = time.perf_counter()
    try:
        connection.execute("BEGIN IMMEDIATE")
        waits.append(time.perf_counter() - start)
        added = connection.execute(
            "INSERT INTO stm (id, content, categories, importance, access_count, created_at, source)"
            " VALUES (?, ?, ?, 1.0, 0, '2026-06-30T11:59:59.000001', 'agent')",
            (memory, text, json.dumps(["general"])),
        )
        connection.execute(
            "INSERT INTO stm_fts (rowid, content) VALUES (?, ?)", (added.lastrowid, text)
        )
        connection.execute("COMMIT")
        texts[memory] = text
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise
        lock_errors += 1
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    time.sleep(0.002)
report = {
    "sqlite": sqlite3.sqlite_version,
    "waits": waits,
    "texts": texts,
    "lock_errors": lock_errors,
}
print(json.dumps(report))

-- OpenClaw's index of Markdown files, as its memory host keeps it in 2026.
CREATE TABLE memory_index_sources (id INTEGER PRIMARY KEY, path TEXT NOT NULL, source TEXT NOT NULL, hash TEXT NOT NULL,
    mtime REAL NOT NULL, size INTEGER NOT NULL) STRICT;
CREATE TABLE memory_index_chunks (id TEXT PRIMARY KEY, path TEXT NOT NULL, source TEXT NOT NULL DEFAULT 'memory',
    start_line INTEGER NOT NULL, end_line INTEGER NOT NULL, hash TEXT NOT NULL, model TEXT NOT NULL, text TEXT NOT NULL,
    embedding TEXT NOT NULL, updated_at INTEGER NOT NULL) STRICT;
INSERT INTO memory_index_chunks VALUES
    ('c1', 'MEMORY.md', 'memory', 1, 2, 'x', 'm', 'Bob likes tea', '[1.0, 0.5]', 1780272000000),
    ('c2', 'MEMORY.md', 'memory', 3, 4, 'x', 'm', 'Bob likes tea', '[1.0, 0.5]', 1780272000000);

-- mcp-memory-service 12.4, with the shadow tables that sqlite-vec 0.1.9 makes for its vectors.
CREATE TABLE memories (id INTEGER PRIMARY KEY AUTOINCREMENT, content_hash TEXT UNIQUE NOT NULL, content TEXT NOT NULL,
    tags TEXT, memory_type TEXT, metadata TEXT, created_at REAL, updated_at REAL, created_at_iso TEXT,
    updated_at_iso TEXT, deleted_at REAL DEFAULT NULL);
INSERT INTO memories (content_hash, content, tags, memory_type, created_at) VALUES
    ('h1', 'Deploys run on Friday', 'ops,ci', 'note', 1780272000.5), ('h2', 'Deploys run on Friday.', 'ops', 'note', 1780272001.5);
INSERT INTO memories (content_hash, content, created_at, deleted_at) VALUES ('h3', 'gone', 1.0, 2.0);
CREATE TABLE memory_embeddings_chunks (chunk_id INTEGER PRIMARY KEY AUTOINCREMENT, size INTEGER NOT NULL,
    sequence_id integer, partition00, validity BLOB NOT NULL, rowids BLOB NOT NULL);
CREATE TABLE memory_embeddings_rowids (rowid INTEGER PRIMARY KEY AUTOINCREMENT, id, chunk_id INTEGER, chunk_offset INTEGER);
CREATE TABLE memory_embeddings_vector_chunks00 (rowid PRIMARY KEY, vectors BLOB NOT NULL);
INSERT INTO memory_embeddings_rowids VALUES (1, NULL, 1, 0), (2, NULL, 1, 1);
INSERT INTO memory_embeddings_chunks VALUES (1, 8, NULL, 'default', x'03', zeroblob(64));
INSERT INTO memory_embeddings_vector_chunks00 VALUES (1, CAST(x'0000803f00000000' || x'0000803f00000000' || zeroblob(48) AS BLOB));
